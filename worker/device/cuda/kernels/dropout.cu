// Dropout whose mask is a function of seed, offset and place alone.

#include "walk.cuh"

// philox is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11) with a key of 64 bits and a counter of 128, low words first.
__device__ __forceinline__ uint4 philox(unsigned long long key, unsigned long long low, unsigned long long high) {
    unsigned k0 = static_cast<unsigned>(key), k1 = static_cast<unsigned>(key >> 32);
    uint4 c = make_uint4(static_cast<unsigned>(low), static_cast<unsigned>(low >> 32), static_cast<unsigned>(high),
                         static_cast<unsigned>(high >> 32));
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long p = 0xD2511F53ull * c.x, q = 0xCD9E8D57ull * c.z;
        c = make_uint4(static_cast<unsigned>(q >> 32) ^ c.y ^ k0, static_cast<unsigned>(q),
                       static_cast<unsigned>(p >> 32) ^ c.w ^ k1, static_cast<unsigned>(p));
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_dropout_f32(float* out, const float* x, long long n, unsigned limit, float keep,
                                                                   unsigned long long seed, unsigned long long offset) {
    bool aligned = head(out, x) == 0;
    for (long long group = thread_number(); 4 * group < n; group += thread_count()) {
        uint4 c = philox(seed, group, offset);
        unsigned word[4] = {c.x, c.y, c.z, c.w};
        long long i = 4 * group;
        if (aligned && i + 4 <= n) {
            auto v = load<4>(x + i);
#pragma unroll
            for (int k = 0; k < 4; k++) v.v[k] = word[k] < limit ? 0 : v.v[k] * keep;
            store(out + i, v);
            continue;
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < n) out[i + k] = word[k] < limit ? 0 : x[i + k] * keep;
    }
}
