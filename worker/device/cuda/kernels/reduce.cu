// Sums over columns, rows and lists of tensors.

#include "chunk.cuh"
#include "sum.cuh"
#include "walk.cuh"

// A thread adds up eight rows in float32 at a time, with eight loads under
// way, and those sums in float64.
extern "C" __global__ void __launch_bounds__(256) ddp_colsum_f32(float* __restrict__ part, const float* __restrict__ x,
                                                                 long long rows, int n) {
    __shared__ double sums[8][32];
    long long per = (rows + gridDim.y - 1) / gridDim.y;
    long long from = blockIdx.y * per, to = min(rows, from + per);
    long long column = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;
    double sum = 0;
    if (column < n) {
        const float* p = x + column;
        long long r = from + threadIdx.y;
        for (; r + 56 < to; r += 64) {
            float v[8];
#pragma unroll
            for (int k = 0; k < 8; k++) v[k] = p[(r + 8 * k) * n];
            sum += ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        }
        for (; r < to; r += 8) sum += p[r * n];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < n) {
#pragma unroll
        for (int k = 1; k < 8; k++) sum += sums[k][threadIdx.x];
        part[blockIdx.y * static_cast<long long>(n) + column] = static_cast<float>(sum);
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_colsum_finish_f32(float* out, const float* part, int parts, int n,
                                                                         int accumulate) {
    for (long long j = thread_number(); j < n; j += thread_count()) {
        double sum = accumulate ? out[j] : 0;
        for (int p = 0; p < parts; p++) sum += part[p * static_cast<long long>(n) + j];
        out[j] = static_cast<float>(sum);
    }
}

extern "C" __global__ void __launch_bounds__(256) ddp_rowsum_f32(float* out, const float* x, int rows, long long n,
                                                                 int accumulate) {
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        const float* row = x + r * n;
        double sum = 0;
        walk_block(n, head(row), [&](auto w, long long i) {
            auto v = load<w.value>(row + i);
            if constexpr (w.value == 4)
                sum += (v.v[0] + v.v[1]) + (v.v[2] + v.v[3]);
            else
                sum += v.v[0];
        });
        sum = block_sum(sum);
        if (threadIdx.x == 0) out[r] = static_cast<float>(accumulate ? out[r] + sum : sum);
    }
}

extern "C" __global__ void __launch_bounds__(256) ddp_sumsq_f32(double* part, const ddp_chunk* chunks) {
    const ddp_chunk c = chunks[blockIdx.x];
    double sum = 0;
    walk_block(c.n, head(c.g), [&](auto w, long long i) {
        auto v = load<w.value>(c.g + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) {
            double g = v.v[k];
            sum += g * g; // of finite numbers this never overflows
        }
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256) ddp_sumsq_finish_f64(double* out, const double* part, int n) {
    double sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += part[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[0] = sum;
}

extern "C" __global__ void __launch_bounds__(256) ddp_nonfinite_f32(int* found, const ddp_chunk* chunks) {
    const ddp_chunk c = chunks[blockIdx.x];
    bool bad = false;
    walk_block(c.n, head(c.g), [&](auto w, long long i) {
        auto v = load<w.value>(c.g + i);
#pragma unroll
        for (int k = 0; k < w.value; k++) bad |= (__float_as_uint(v.v[k]) & 0x7f800000u) == 0x7f800000u;
    });
    if (__syncthreads_or(bad) && threadIdx.x == 0) found[0] = 1;
}
