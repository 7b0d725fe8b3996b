// Optimizer steps over lists of tensors, a block for each chunk.

#include "chunk.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(256) ddp_sgd_f32(const ddp_chunk* chunks, float lr, float mu, int nesterov, int first,
                                                              float gscale) {
    const ddp_chunk c = chunks[blockIdx.x];
    walk_block(c.n, head(c.p, c.g, c.m ? c.m : c.p), [&](auto w, long long i) {
        auto p = load<w.value>(c.p + i);
        auto d = load<w.value>(c.g + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) d.v[k] = gscale * d.v[k] + c.decay * p.v[k];
        if (c.m) {
            auto m = d;
            if (!first) { // before the first step the buffer holds anything
                m = load<w.value>(c.m + i);
#pragma unroll
                for (int k = 0; k < w.value; k++) m.v[k] = mu * m.v[k] + d.v[k];
            }
            store(c.m + i, m);
#pragma unroll
            for (int k = 0; k < w.value; k++) d.v[k] = nesterov ? d.v[k] + mu * m.v[k] : m.v[k];
        }
#pragma unroll
        for (int k = 0; k < w.value; k++) p.v[k] -= lr * d.v[k];
        store(c.p + i, p);
    });
}

extern "C" __global__ void __launch_bounds__(256) ddp_adam_f32(const ddp_chunk* chunks, float lr, float step, float b1, float nb1,
                                                               float b2, float nb2, float rootc2, float eps, int decoupled,
                                                               float gscale) {
    const ddp_chunk c = chunks[blockIdx.x];
    float l2 = decoupled ? 0 : c.decay;
    float keep = decoupled ? static_cast<float>(1 - static_cast<double>(lr) * c.decay) : 1;
    walk_block(c.n, head(c.p, c.g, c.m, c.v), [&](auto w, long long i) {
        auto p = load<w.value>(c.p + i);
        auto g = load<w.value>(c.g + i);
        auto m = load<w.value>(c.m + i);
        auto v = load<w.value>(c.v + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) {
            float d = gscale * g.v[k];
            if (!decoupled) d += l2 * p.v[k];
            m.v[k] = b1 * m.v[k] + nb1 * d;
            v.v[k] = b2 * v.v[k] + nb2 * (d * d);
            p.v[k] = keep * p.v[k] - step * (m.v[k] / (sqrtf(v.v[k]) * rootc2 + eps));
        }
        store(c.m + i, m);
        store(c.v + i, v);
        store(c.p + i, p);
    });
}
