// Layer normalisation over rows.

#include "sum.cuh"
#include "walk.cuh"

// Moments are a row's mean, in two floats (a mean of 1000 would lose what is
// behind hi), and 1/sqrt of its variance plus eps.
struct Moments {
    float hi, lo, rstd;
    __device__ __forceinline__ float centred(float x) const { return (x - hi) - lo; }
};

__device__ __forceinline__ void set_mean(Moments& m, double sum, int n) {
    double mean = warp_sum(sum) / n;
    m.hi = static_cast<float>(mean);
    m.lo = static_cast<float>(mean - m.hi);
}

__device__ __forceinline__ void set_rstd(Moments& m, double squares, int n, float eps) {
    m.rstd = static_cast<float>(1 / sqrt(warp_sum(squares) / n + eps));
}

// Row is where a row's operands begin.
struct Row {
    float *out, *sum;
    const float *x, *residual, *gamma, *beta;
    int n;
};

// short_row keeps a row of up to 128·K elements, whole fours at 16-byte
// boundaries, in the registers of a warp.
template <int K> __device__ __forceinline__ Moments short_row(const Row& a, float eps) {
    int lane = threadIdx.x % 32;
    Moments m;
    Lanes<4> s[K];
    double sum = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        int i = 4 * (lane + 32 * k);
        if (i >= a.n) continue;
        s[k] = load<4>(a.x + i);
        if (a.residual) {
            auto r = load<4>(a.residual + i);
#pragma unroll
            for (int j = 0; j < 4; j++) s[k].v[j] += r.v[j];
        }
        if (a.sum) store(a.sum + i, s[k]);
#pragma unroll
        for (int j = 0; j < 4; j++) sum += s[k].v[j];
    }
    set_mean(m, sum, a.n);
    double squares = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (4 * (lane + 32 * k) >= a.n) continue;
        float four = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            s[k].v[j] = m.centred(s[k].v[j]);
            four += s[k].v[j] * s[k].v[j];
        }
        squares += four;
    }
    set_rstd(m, squares, a.n, eps);
#pragma unroll
    for (int k = 0; k < K; k++) {
        int i = 4 * (lane + 32 * k);
        if (i >= a.n) continue;
        auto gamma = load<4>(a.gamma + i);
        auto beta = load<4>(a.beta + i);
#pragma unroll
        for (int j = 0; j < 4; j++) s[k].v[j] = s[k].v[j] * m.rstd * gamma.v[j] + beta.v[j];
        store(a.out + i, s[k]);
    }
    return m;
}

// any_row reads the row again for each pass. A lane reads only what it wrote
// itself.
__device__ __forceinline__ Moments any_row(const Row& a, float eps) {
    int lane = threadIdx.x % 32;
    Moments m;
    double sum = 0;
    for (long long i = lane; i < a.n; i += 32) {
        float s = a.residual ? a.x[i] + a.residual[i] : a.x[i];
        if (a.sum) a.sum[i] = s;
        sum += s;
    }
    set_mean(m, sum, a.n);
    // x may be gone now, if the sum has its place.
    const float* x = a.sum ? a.sum : a.x;
    const float* residual = a.sum ? nullptr : a.residual;
    double squares = 0;
    for (long long i = lane; i < a.n; i += 32) {
        float d = m.centred(residual ? x[i] + residual[i] : x[i]);
        squares += d * d;
    }
    set_rstd(m, squares, a.n, eps);
    for (long long i = lane; i < a.n; i += 32) {
        float d = m.centred(residual ? x[i] + residual[i] : x[i]);
        a.out[i] = d * m.rstd * a.gamma[i] + a.beta[i];
    }
    return m;
}

extern "C" __global__ void __launch_bounds__(512) ddp_layernorm_f32(float* out, float* sum, const float* x, const float* residual,
                                                                     const float* gamma, const float* beta, float* mean, float* rstd,
                                                                     int rows, int n, float eps) {
    bool fours = n % 4 == 0 && head(out, sum, x, residual, gamma, beta) == 0;
    for (long long r = thread_number() / 32; r < rows; r += thread_count() / 32) {
        long long at = r * n;
        Row a = {out + at, sum ? sum + at : nullptr, x + at, residual ? residual + at : nullptr, gamma, beta, n};
        Moments m;
        if (!fours || n > 1024)
            m = any_row(a, eps);
        else if (n <= 128)
            m = short_row<1>(a, eps);
        else if (n <= 256)
            m = short_row<2>(a, eps);
        else if (n <= 512)
            m = short_row<4>(a, eps);
        else
            m = short_row<8>(a, eps);
        if (threadIdx.x % 32 == 0) {
            if (mean) mean[r] = m.hi;
            if (rstd) rstd[r] = m.rstd;
        }
    }
}

// Grad is the operands of the gradient.
struct Grad {
    float *dx, *dgamma, *dbeta;
    const float *dout, *dsum, *x, *gamma, *mean, *rstd;
    int rows, n;
};

// pair_sum adds up two numbers over the block. Calls in a row take turns with
// slot 0 and 1, which saves a barrier.
__device__ __forceinline__ void pair_sum(float& a, float& b, int slot) {
    __shared__ float part[2][2][8];
    a = warp_sum(a);
    b = warp_sum(b);
    if (threadIdx.x % 32 == 0) part[slot][0][threadIdx.x / 32] = a, part[slot][1][threadIdx.x / 32] = b;
    __syncthreads();
    a = b = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) a += part[slot][0][w], b += part[slot][1][w];
}

// narrow_grad is for rows of up to K elements for each thread: it keeps them,
// and the sums over the rows, in registers.
template <int K> __device__ __forceinline__ void narrow_grad(const Grad& a) {
    double dgamma[K], dbeta[K];
#pragma unroll
    for (int k = 0; k < K; k++) dgamma[k] = dbeta[k] = 0;
    int slot = 0;
    for (long long r = blockIdx.x; r < a.rows; r += gridDim.x, slot ^= 1) {
        const float* dout = a.dout + r * a.n;
        const float* x = a.x + r * a.n;
        float mean = a.mean[r], rstd = a.rstd[r];
        float g[K] = {}, xhat[K] = {}, sum = 0, along = 0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int i = threadIdx.x + k * blockDim.x;
            if (i >= a.n) continue;
            float d = dout[i];
            xhat[k] = (x[i] - mean) * rstd;
            dgamma[k] += d * xhat[k];
            dbeta[k] += d;
            g[k] = d * a.gamma[i];
            sum += g[k];
            along += g[k] * xhat[k];
        }
        pair_sum(sum, along, slot);
        sum /= a.n;
        along /= a.n;
#pragma unroll
        for (int k = 0; k < K; k++) {
            int i = threadIdx.x + k * blockDim.x;
            if (i >= a.n) continue;
            float d = rstd * (g[k] - sum - xhat[k] * along);
            if (a.dsum) d += a.dsum[r * a.n + i];
            a.dx[r * a.n + i] = d;
        }
    }
    long long part = static_cast<long long>(blockIdx.x) * a.n;
#pragma unroll
    for (int k = 0; k < K; k++) {
        int i = threadIdx.x + k * blockDim.x;
        if (i >= a.n) continue;
        a.dgamma[part + i] = static_cast<float>(dgamma[k]);
        a.dbeta[part + i] = static_cast<float>(dbeta[k]);
    }
}

// wide_grad goes over the block's rows twice: first for the sums over the
// rows, because dx may take the place of dout.
__device__ __forceinline__ void wide_grad(const Grad& a) {
    long long part = static_cast<long long>(blockIdx.x) * a.n;
    for (long long i = threadIdx.x; i < a.n; i += blockDim.x) {
        double dgamma = 0, dbeta = 0;
        for (long long r = blockIdx.x; r < a.rows; r += gridDim.x) {
            float d = a.dout[r * a.n + i];
            dgamma += d * ((a.x[r * a.n + i] - a.mean[r]) * a.rstd[r]);
            dbeta += d;
        }
        a.dgamma[part + i] = static_cast<float>(dgamma);
        a.dbeta[part + i] = static_cast<float>(dbeta);
    }
    // Each thread overwrites only what it alone has read, so no barrier.
    for (long long r = blockIdx.x; r < a.rows; r += gridDim.x) {
        const float* dout = a.dout + r * a.n;
        const float* x = a.x + r * a.n;
        float mean = a.mean[r], rstd = a.rstd[r];
        double sum = 0, along = 0;
        for (long long i = threadIdx.x; i < a.n; i += blockDim.x) {
            float g = dout[i] * a.gamma[i];
            sum += g;
            along += g * ((x[i] - mean) * rstd);
        }
        float m1 = static_cast<float>(block_sum(sum) / a.n);
        float m2 = static_cast<float>(block_sum(along) / a.n);
        for (long long i = threadIdx.x; i < a.n; i += blockDim.x) {
            float d = rstd * (dout[i] * a.gamma[i] - m1 - (x[i] - mean) * rstd * m2);
            if (a.dsum) d += a.dsum[r * a.n + i];
            a.dx[r * a.n + i] = d;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) ddp_layernorm_grad_f32(float* dx, float* dgamma_part, float* dbeta_part,
                                                                         const float* dout, const float* dsum, const float* x,
                                                                         const float* gamma, const float* mean, const float* rstd,
                                                                         int rows, int n) {
    Grad a = {dx, dgamma_part, dbeta_part, dout, dsum, x, gamma, mean, rstd, rows, n};
    int threads = blockDim.x;
    if (n <= threads)
        narrow_grad<1>(a);
    else if (n <= 2 * threads)
        narrow_grad<2>(a);
    else if (n <= 4 * threads)
        narrow_grad<4>(a);
    else if (n <= 8 * threads)
        narrow_grad<8>(a);
    else
        wide_grad(a);
}
