// Operators that work element by element.

#include "walk.cuh"

// The numbers of device.Activation.
enum { IDENTITY, RELU, GELU, GELU_TANH };

// Constants of GELU by tanh: gelu(x) = x·σ(2u), 2u = TWO_U·(x + CUBIC·x³).
#define CUBIC 0.044715f
#define TWO_U 1.5957691216057308f

#define SQRT_HALF 0.70710678118654752f
#define INV_SQRT_2PI 0.39894228040143268f

__device__ __forceinline__ float activate(int act, float x) {
    switch (act) {
    case RELU: return x < 0 ? 0 : x; // lets a NaN through
    case GELU: return 0.5f * x * erfcf(-x * SQRT_HALF);
    case GELU_TANH: return x / (1 + expf(-TWO_U * (x + CUBIC * x * x * x)));
    }
    return x;
}

// slope is the derivative of GELU kinds at their input.
__device__ __forceinline__ float slope(int act, float x) {
    if (act == GELU) return 0.5f * erfcf(-x * SQRT_HALF) + x * expf(-0.5f * x * x) * INV_SQRT_2PI;
    x = x < -9 ? -9 : x > 9 ? 9 : x; // beyond, the slope is 0 or 1, and e may overflow
    float e = expf(-TWO_U * (x + CUBIC * x * x * x));
    float s = 1 / (1 + e);
    return s + x * s * (e * s) * TWO_U * (1 + 3 * CUBIC * x * x);
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_fill_f32(float* x, long long n, float v) {
    walk_grid(n, head(x), [&](auto w, long long i) {
        Lanes<w.value> y;
#pragma unroll
        for (int k = 0; k < w.value; k++) y.v[k] = v;
        store(x + i, y);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_add_f32(float* out, const float* a, const float* b, long long n) {
    walk_grid(n, head(out, a, b), [&](auto w, long long i) {
        auto x = load<w.value>(a + i);
        auto y = load<w.value>(b + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) x.v[k] += y.v[k];
        store(out + i, x);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_scale_f32(float* x, long long n, float f) {
    walk_grid(n, head(x), [&](auto w, long long i) {
        auto y = load<w.value>(x + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) y.v[k] *= f;
        store(x + i, y);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_activate_f32(float* out, const float* x, long long n, int act) {
    walk_grid(n, head(out, x), [&](auto w, long long i) {
        auto y = load<w.value>(x + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) y.v[k] = activate(act, y.v[k]);
        store(out + i, y);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_activate_grad_f32(float* dx, const float* dout, const float* at,
                                                                         long long n, int act) {
    walk_grid(n, act == IDENTITY ? head(dx, dout) : head(dx, dout, at), [&](auto w, long long i) {
        auto g = load<w.value>(dout + i);
        if (act != IDENTITY) {
            auto y = load<w.value>(at + i);
#pragma unroll
            for (int k = 0; k < w.value; k++) {
                if (act == RELU)
                    g.v[k] = y.v[k] > 0 ? g.v[k] : 0;
                else
                    g.v[k] *= slope(act, y.v[k]);
            }
        }
        store(dx + i, g);
    });
}

// In rows whose length is a multiple of 4, four elements lie in one row.
template <class... P> __device__ __forceinline__ int row_head(int n, const float* p, const P*... others) {
    return n % 4 == 0 && head(p, others...) == 0 ? 0 : -1;
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_bias_act_f32(float* out, float* pre, const float* x, const float* bias,
                                                                    long long rows, int n, int act) {
    walk_grid(rows * n, row_head(n, out, pre, x, bias), [&](auto w, long long i) {
        auto y = load<w.value>(x + i);
        if (bias) {
            int column;
            split(i, n, column);
            auto b = load<w.value>(bias + column);
#pragma unroll
            for (int k = 0; k < w.value; k++) y.v[k] += b.v[k];
        }
        if (pre) store(pre + i, y);
#pragma unroll
        for (int k = 0; k < w.value; k++) y.v[k] = activate(act, y.v[k]);
        store(out + i, y);
    });
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_bias_add_f32(float* x, const float* bias, long long rows, int n) {
    walk_grid(rows * n, row_head(n, x, bias), [&](auto w, long long i) {
        int column;
        split(i, n, column);
        auto y = load<w.value>(x + i);
        auto b = load<w.value>(bias + column);
#pragma unroll
        for (int k = 0; k < w.value; k++) y.v[k] += b.v[k];
        store(x + i, y);
    });
}
