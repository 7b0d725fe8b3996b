// Batch normalisation of [batch channels plane].

#include "sum.cuh"
#include "walk.cuh"

// each visits a channel's elements by their place in the tensor, shared among
// the threads of a block.
template <class F> __device__ __forceinline__ void each(int batch, int channels, int plane, int channel, F visit) {
    int steps = blockDim.x / plane, rest = blockDim.x % plane; // of samples and of elements
    int at;
    long long b = split(threadIdx.x, plane, at);
    while (b < batch) {
        visit((b * channels + channel) * plane + at);
        b += steps;
        at += rest;
        if (at >= plane) at -= plane, b++;
    }
}

extern "C" __global__ void __launch_bounds__(512) ddp_batchnorm_stats_f32(float* __restrict__ mean, float* __restrict__ rstd,
                                                                          float* __restrict__ running_mean,
                                                                          float* __restrict__ running_var,
                                                                          const float* __restrict__ x, int batch, int channels,
                                                                          int plane, float eps, float momentum) {
    double n = static_cast<double>(batch) * plane;
    for (int c = blockIdx.x; c < channels; c += gridDim.x) {
        double sum = 0, squares = 0;
        each(batch, channels, plane, c, [&](long long i) { sum += x[i]; });
        double mu = block_sum(sum) / n;
        each(batch, channels, plane, c, [&](long long i) {
            double d = x[i] - mu;
            squares += d * d;
        });
        double variance = block_sum(squares) / n;
        if (threadIdx.x > 0) continue;
        mean[c] = static_cast<float>(mu);
        rstd[c] = static_cast<float>(1 / sqrt(variance + eps));
        double m = momentum;
        if (running_mean) running_mean[c] = static_cast<float>((1 - m) * running_mean[c] + m * mu);
        if (running_var) running_var[c] = static_cast<float>((1 - m) * running_var[c] + m * (variance * n / (n - 1)));
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_batchnorm_rstd_f32(float* rstd, const float* var, int channels, float eps) {
    for (long long c = thread_number(); c < channels; c += thread_count())
        rstd[c] = static_cast<float>(1 / sqrt(static_cast<double>(var[c]) + eps));
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_batchnorm_apply_f32(float* __restrict__ out, const float* __restrict__ x,
                                                                           const float* __restrict__ mean,
                                                                           const float* __restrict__ rstd,
                                                                           const float* __restrict__ gamma,
                                                                           const float* __restrict__ beta, int batch, int channels,
                                                                           int plane) {
    bool fours = plane % 4 == 0 && head(out, x) == 0;
    walk_grid(static_cast<long long>(batch) * channels * plane, fours ? 0 : -1, [&](auto w, long long i) {
        int p, c;
        split(split(i, plane, p), channels, c);
        float mu = mean[c], r = rstd[c], g = gamma[c], shift = beta[c];
        auto v = load<w.value>(x + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) v.v[k] = (v.v[k] - mu) * r * g + shift;
        store(out + i, v);
    });
}

extern "C" __global__ void __launch_bounds__(512) ddp_batchnorm_grad_sums_f32(
    float* __restrict__ total, float* __restrict__ along, float* __restrict__ dgamma, float* __restrict__ dbeta,
    const float* __restrict__ dout, const float* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ rstd,
    int batch, int channels, int plane, int accumulate) {
    for (int c = blockIdx.x; c < channels; c += gridDim.x) {
        double mu = mean[c], sum = 0, products = 0;
        each(batch, channels, plane, c, [&](long long i) {
            double g = dout[i];
            sum += g;
            products += g * (x[i] - mu);
        });
        sum = block_sum(sum);
        products = block_sum(products) * rstd[c];
        if (threadIdx.x > 0) continue;
        total[c] = static_cast<float>(sum);
        along[c] = static_cast<float>(products);
        dgamma[c] = static_cast<float>(accumulate ? dgamma[c] + products : products);
        dbeta[c] = static_cast<float>(accumulate ? dbeta[c] + sum : sum);
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_batchnorm_grad_f32(
    float* __restrict__ dx, const float* __restrict__ dout, const float* __restrict__ x, const float* __restrict__ gamma,
    const float* __restrict__ mean, const float* __restrict__ rstd, const float* __restrict__ total,
    const float* __restrict__ along, int batch, int channels, int plane) {
    bool fours = plane % 4 == 0 && head(dx, dout, x) == 0;
    float inverse = static_cast<float>(1 / (static_cast<double>(batch) * plane));
    walk_grid(static_cast<long long>(batch) * channels * plane, fours ? 0 : -1, [&](auto w, long long i) {
        int p, c;
        split(split(i, plane, p), channels, c);
        float mu = mean[c], r = rstd[c], k = gamma[c] * r, level = total[c] * inverse, tilt = r * along[c] * inverse;
        auto g = load<w.value>(dout + i);
        auto v = load<w.value>(x + i);
#pragma unroll
        for (int j = 0; j < w.value; j++) g.v[j] = k * (g.v[j] - level - (v.v[j] - mu) * tilt);
        store(dx + i, g);
    });
}
