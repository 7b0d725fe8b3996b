#pragma once

// A piece of a parameter and of what belongs to it, the launchers' chunk. One
// block does one. Pointers that an operator does not use are null.
struct ddp_chunk {
    float* p;
    float* g;
    float* m;
    float* v;
    float decay;
    int n;
};

static_assert(sizeof(ddp_chunk) == 40, "the launchers lay it out");
