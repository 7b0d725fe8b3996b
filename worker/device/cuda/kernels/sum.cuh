#pragma once

// Sums over warps and over one-dimensional blocks of whole warps. Their order
// is fixed, and every thread gets the same bits.

template <class T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(~0u, v, lanes);
    return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, lanes));
    return v;
}

template <class T> __device__ __forceinline__ T block_sum(T v) {
    __shared__ T part[32];
    v = warp_sum(v);
    __syncthreads(); // the sum before may still be read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    T total = part[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) total += part[w];
    return total;
}

// block_max passes over NaN.
__device__ __forceinline__ float block_max(float v) {
    __shared__ float part[32];
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    float top = part[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) top = fmaxf(top, part[w]);
    return top;
}
