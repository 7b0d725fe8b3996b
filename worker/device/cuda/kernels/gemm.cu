// The plain product, for shapes that cuBLASLt has no algorithm for.

#define TILE 16

extern "C" __global__ void ddp_gemm_f32(float* __restrict__ c, const float* __restrict__ a, const float* __restrict__ b,
                                        int m, int n, int k, int trans_a, int trans_b,
                                        int lda, int ldb, int ldc, float beta) {
    __shared__ float at[TILE][TILE + 1];
    __shared__ float bt[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * TILE + tx;
    for (long long r0 = (long long)blockIdx.y * TILE; r0 < m; r0 += (long long)gridDim.y * TILE) {
        long long row = r0 + ty;
        double sum = 0; // of tiles, each in float32
        for (int k0 = 0; k0 < k; k0 += TILE) {
            float x = 0, y = 0;
            if (row < m && k0 + tx < k)
                x = trans_a ? a[(long long)(k0 + tx) * lda + row] : a[row * lda + k0 + tx];
            if (col < n && k0 + ty < k)
                y = trans_b ? b[(long long)col * ldb + k0 + ty] : b[(long long)(k0 + ty) * ldb + col];
            at[ty][tx] = x;
            bt[ty][tx] = y;
            __syncthreads();
            float tile = 0;
#pragma unroll
            for (int i = 0; i < TILE; i++) tile += at[ty][i] * bt[i][tx];
            sum += tile;
            __syncthreads();
        }
        if (row < m && col < n) {
            float* p = c + row * ldc + col;
            *p = static_cast<float>(beta == 0 ? sum : sum + beta * *p);
        }
    }
}
