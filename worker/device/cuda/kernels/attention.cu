// Attention over packed queries, keys and values, in float32. Scores live in
// registers and, a tile at a time, in shared memory.
//
// A block owns a tile of rows (of queries, or of keys in grad_kv) of one head
// of one sequence and streams tiles of columns (of keys, or of queries) past
// it. Its threads are groups of 16: a group owns four rows, so that sums along
// a row stay in half a warp. Thread x of a group computes the scores of columns
// x, x+16, ... and, of the results, the part of the head that place tells.

#include "sum.cuh"
#include "walk.cuh"

// pitch is the length of a row in shared memory: 4 more than its elements,
// which spreads rows over the banks and keeps them at 16 bytes.
__device__ constexpr int pitch(int n) { return n + 4; }

// share is the number of elements of a result's row that a thread holds.
__device__ constexpr int share(int n) { return n / 16; }

// place is the element of the head that a thread's element w is.
template <int N> __device__ __forceinline__ int place(int x, int w) {
    if constexpr (share(N) >= 4)
        return w / 4 * 64 + 4 * x + w % 4;
    else
        return share(N) * x + w;
}

// Heads is the geometry of a head of a sequence.
struct Heads {
    int tokens, d;
    bool causal, fours; // fours: rows are whole fours at 16-byte boundaries
    float scale;
    int width;      // of a row of out: heads·d
    long long qkv;  // begin of the head's queries in qkv
    long long out;  // begin of the head in out
    long long line; // begin of the head in lse and delta

    __device__ __forceinline__ Heads(int number, int tokens, int heads, int d, int causal, float scale, bool aligned)
        : tokens(tokens), d(d), causal(causal), fours(aligned && d % 4 == 0), scale(scale), width(heads * d) {
        int h, b = static_cast<int>(split(number, heads, h));
        out = static_cast<long long>(b) * tokens * width + h * d;
        qkv = static_cast<long long>(b) * tokens * 3 * width + h * d;
        line = static_cast<long long>(number) * tokens;
    }

    // seen is the number of keys that a query sees.
    __device__ __forceinline__ int seen(int query) const {
        return query >= tokens ? 0 : causal ? query + 1 : tokens;
    }
};

// fetch brings rows first.. of a head, ld apart, into shared memory, with zeros
// where there is nothing.
template <int N, int ROWS, int THREADS>
__device__ __forceinline__ void fetch(float* to, const float* from, int ld, int first, const Heads& h) {
#pragma unroll 2
    for (int i = threadIdx.x; i < ROWS * (N / 4); i += THREADS) {
        int row = i / (N / 4), at = i % (N / 4) * 4;
        Lanes<4> v = {};
        if (first + row < h.tokens && at < h.d) {
            const float* p = from + static_cast<long long>(first + row) * ld + at;
            if (h.fours) {
                v = load<4>(p);
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (at + k < h.d) v.v[k] = p[k];
            }
        }
        store(to + row * pitch(N) + at, v);
    }
}

// products sets s[r][c] to the product of a's row 4·y + r and b's row
// x + 16·c.
template <int N, int C>
__device__ __forceinline__ void products(float (&s)[4][C], const float* a, const float* b, int x, int y) {
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < C; c++) s[r][c] = 0;
#pragma unroll 2
    for (int k = 0; k < N; k += 4) {
        Lanes<4> u[4], v[C];
#pragma unroll
        for (int r = 0; r < 4; r++) u[r] = load<4>(a + (4 * y + r) * pitch(N) + k);
#pragma unroll
        for (int c = 0; c < C; c++) v[c] = load<4>(b + (x + 16 * c) * pitch(N) + k);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < C; c++) s[r][c] += u[r].v[i] * v[c].v[i];
    }
}

// weigh sets t[r] to the sum of b's rows, weighed by row 4·y + r of p.
template <int N, int COLUMNS>
__device__ __forceinline__ void weigh(float (&t)[4][share(N)], const float* p, const float* b, int x, int y) {
    constexpr int W = share(N);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int w = 0; w < W; w++) t[r][w] = 0;
#pragma unroll 2
    for (int k = 0; k < COLUMNS; k += 4) {
        Lanes<4> u[4];
#pragma unroll
        for (int r = 0; r < 4; r++) u[r] = load<4>(p + (4 * y + r) * pitch(COLUMNS) + k);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float* row = b + (k + i) * pitch(N);
            float v[W];
            if constexpr (W >= 4) {
#pragma unroll
                for (int w = 0; w < W; w += 4) {
                    auto four = load<4>(row + place<N>(x, w));
#pragma unroll
                    for (int j = 0; j < 4; j++) v[w + j] = four.v[j];
                }
            } else {
#pragma unroll
                for (int w = 0; w < W; w++) v[w] = row[place<N>(x, w)];
            }
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int w = 0; w < W; w++) t[r][w] += u[r].v[i] * v[w];
        }
    }
}

// keep writes a thread's share of a row of a result.
template <int N> __device__ __forceinline__ void keep(float* row, const float (&t)[share(N)], int x, int d, bool fours) {
    constexpr int W = share(N);
    if constexpr (W >= 4) {
        if (fours) {
#pragma unroll
            for (int w = 0; w < W; w += 4) {
                Lanes<4> four = {t[w], t[w + 1], t[w + 2], t[w + 3]};
                if (place<N>(x, w) < d) store(row + place<N>(x, w), four);
            }
            return;
        }
    }
#pragma unroll
    for (int w = 0; w < W; w++)
        if (place<N>(x, w) < d) row[place<N>(x, w)] = t[w];
}

template <int N> __device__ __forceinline__ void clear(float (&t)[4][share(N)]) {
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int w = 0; w < share(N); w++) t[r][w] = 0;
}

template <int N> __device__ __forceinline__ void add(float (&t)[4][share(N)], const float (&u)[4][share(N)]) {
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int w = 0; w < share(N); w++) t[r][w] += u[r][w];
}

// forward is the attention of R rows of queries over tiles of COLUMNS keys.
// With SHARED, keys and values use the same memory one after the other.
//
// The softmax is made as the keys go by: top is the largest score of a row so
// far, weight the sum of exp(score - top); when top grows, what was summed so
// far shrinks.
template <int N, int R, int COLUMNS, bool SHARED>
__device__ __forceinline__ void forward(float* __restrict__ out, float* __restrict__ lse, const float* __restrict__ qkv, int batch,
                                        int tokens, int heads, int d, int causal, float scale) {
    constexpr int THREADS = 4 * R, C = COLUMNS / 16, W = share(N);
    __shared__ __align__(16) float q[R * pitch(N)];
    __shared__ __align__(16) float columns[(SHARED ? 1 : 2) * COLUMNS * pitch(N)];
    __shared__ __align__(16) float p[R * pitch(COLUMNS)];
    float *k = columns, *v = SHARED ? columns : columns + COLUMNS * pitch(N);
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    // The last tiles see the most keys, so they begin first.
    int first = R * static_cast<int>(causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    for (long long number = blockIdx.y; number < static_cast<long long>(batch) * heads; number += gridDim.y) {
        Heads h(static_cast<int>(number), tokens, heads, d, causal, scale, head(qkv) == 0);
        const float* from = qkv + h.qkv;
        __syncthreads();
        fetch<N, R, THREADS>(q, from, 3 * h.width, first, h);
        float o[4][W], top[4], weight[4];
        clear<N>(o);
#pragma unroll
        for (int r = 0; r < 4; r++) top[r] = -INFINITY, weight[r] = 0;
        int keys = h.seen(min(first + R, tokens) - 1);
        for (int k0 = 0; k0 < keys; k0 += COLUMNS) {
            __syncthreads();
            fetch<N, COLUMNS, THREADS>(k, from + h.width, 3 * h.width, k0, h);
            if (!SHARED) fetch<N, COLUMNS, THREADS>(v, from + 2 * h.width, 3 * h.width, k0, h);
            __syncthreads();
            float s[4][C], shrink[4];
            products<N, C>(s, q, k, x, y);
#pragma unroll
            for (int r = 0; r < 4; r++) {
                int seen = h.seen(first + 4 * y + r) - k0 - x;
                float largest = top[r];
#pragma unroll
                for (int c = 0; c < C; c++) {
                    s[r][c] *= scale;
                    if (16 * c < seen) largest = fmaxf(largest, s[r][c]); // passes over NaN: the exponential will not
                }
#pragma unroll
                for (int lanes = 8; lanes > 0; lanes /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
                float shift = largest == -INFINITY ? 0 : largest;
                shrink[r] = expf(top[r] - shift);
                float sum = 0;
#pragma unroll
                for (int c = 0; c < C; c++) {
                    float e = 16 * c < seen ? expf(s[r][c] - shift) : 0;
                    sum += e;
                    p[(4 * y + r) * pitch(COLUMNS) + x + 16 * c] = e;
                }
                top[r] = largest;
                weight[r] = weight[r] * shrink[r] + sum;
            }
            if (SHARED) {
                __syncthreads();
                fetch<N, COLUMNS, THREADS>(v, from + 2 * h.width, 3 * h.width, k0, h);
                __syncthreads();
            } else {
                __syncwarp(); // a group reads only its own rows of p
            }
            float t[4][W];
            weigh<N, COLUMNS>(t, p, v, x, y);
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int w = 0; w < W; w++) o[r][w] = o[r][w] * shrink[r] + t[r][w];
        }
        bool fours = h.fours && head(out) == 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
#pragma unroll
            for (int lanes = 8; lanes > 0; lanes /= 2) weight[r] += __shfl_xor_sync(~0u, weight[r], lanes);
            int query = first + 4 * y + r;
            if (query >= tokens) continue;
            float inverse = 1 / weight[r];
#pragma unroll
            for (int w = 0; w < W; w++) o[r][w] *= inverse;
            keep<N>(out + h.out + static_cast<long long>(query) * h.width, o[r], x, d, fours);
            // No weight at all, when every score is -inf, is NaN as in out.
            if (lse && x == 0) lse[h.line + query] = weight[r] == 0 ? NAN : top[r] + logf(weight[r]);
        }
    }
}

// gradient_q is dq of 32 queries over tiles of COLUMNS keys.
template <int N, int COLUMNS, bool SHARED>
__device__ __forceinline__ void gradient_q(float* __restrict__ dqkv, const float* __restrict__ dout, const float* __restrict__ qkv,
                                           const float* __restrict__ lse, const float* __restrict__ delta, int batch, int tokens,
                                           int heads, int d, int causal, float scale) {
    constexpr int R = 32, THREADS = 4 * R, C = COLUMNS / 16, W = share(N);
    __shared__ __align__(16) float q[R * pitch(N)];
    __shared__ __align__(16) float g[R * pitch(N)];
    __shared__ __align__(16) float columns[(SHARED ? 1 : 2) * COLUMNS * pitch(N)];
    __shared__ __align__(16) float p[R * pitch(COLUMNS)];
    float *k = columns, *v = SHARED ? columns : columns + COLUMNS * pitch(N);
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    int first = R * static_cast<int>(causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    for (long long number = blockIdx.y; number < static_cast<long long>(batch) * heads; number += gridDim.y) {
        Heads h(static_cast<int>(number), tokens, heads, d, causal, scale, head(qkv, dout) == 0);
        const float* from = qkv + h.qkv;
        __syncthreads();
        fetch<N, R, THREADS>(q, from, 3 * h.width, first, h);
        fetch<N, R, THREADS>(g, dout + h.out, h.width, first, h);
        float dq[4][W], norm[4], along[4];
        clear<N>(dq);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int query = first + 4 * y + r;
            norm[r] = query < tokens ? lse[h.line + query] : 0;
            along[r] = query < tokens ? delta[h.line + query] : 0;
        }
        int keys = h.seen(min(first + R, tokens) - 1);
        for (int k0 = 0; k0 < keys; k0 += COLUMNS) {
            __syncthreads();
            fetch<N, COLUMNS, THREADS>(v, from + 2 * h.width, 3 * h.width, k0, h);
            if (!SHARED) fetch<N, COLUMNS, THREADS>(k, from + h.width, 3 * h.width, k0, h);
            __syncthreads();
            float s[4][C], dp[4][C];
            products<N, C>(dp, g, v, x, y);
            if (SHARED) {
                __syncthreads();
                fetch<N, COLUMNS, THREADS>(k, from + h.width, 3 * h.width, k0, h);
                __syncthreads();
            }
            products<N, C>(s, q, k, x, y);
#pragma unroll
            for (int r = 0; r < 4; r++) {
                int seen = h.seen(first + 4 * y + r) - k0 - x;
#pragma unroll
                for (int c = 0; c < C; c++) {
                    float ds = 16 * c < seen ? expf(s[r][c] * scale - norm[r]) * (dp[r][c] - along[r]) * scale : 0;
                    p[(4 * y + r) * pitch(COLUMNS) + x + 16 * c] = ds;
                }
            }
            __syncwarp();
            float t[4][W];
            weigh<N, COLUMNS>(t, p, k, x, y);
            add<N>(dq, t);
        }
        bool fours = h.fours && head(dqkv) == 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int query = first + 4 * y + r;
            if (query < tokens) keep<N>(dqkv + h.qkv + static_cast<long long>(query) * 3 * h.width, dq[r], x, d, fours);
        }
    }
}

// gradient_kv is dk and dv of 32 keys over tiles of COLUMNS queries: the rows
// are keys here. With SHARED, queries and dout use the same memory, so that
// the queries are fetched twice.
template <int N, int COLUMNS, bool SHARED>
__device__ __forceinline__ void gradient_kv(float* __restrict__ dqkv, const float* __restrict__ dout, const float* __restrict__ qkv,
                                            const float* __restrict__ lse, const float* __restrict__ delta, int batch, int tokens,
                                            int heads, int d, int causal, float scale) {
    constexpr int R = 32, THREADS = 4 * R, C = COLUMNS / 16, W = share(N);
    __shared__ __align__(16) float k[R * pitch(N)];
    __shared__ __align__(16) float v[R * pitch(N)];
    __shared__ __align__(16) float columns[(SHARED ? 1 : 2) * COLUMNS * pitch(N)];
    __shared__ __align__(16) float p[R * pitch(COLUMNS)];
    float *q = columns, *g = SHARED ? columns : columns + COLUMNS * pitch(N);
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    int first = R * blockIdx.x; // with causal, the first tiles are seen most
    for (long long number = blockIdx.y; number < static_cast<long long>(batch) * heads; number += gridDim.y) {
        Heads h(static_cast<int>(number), tokens, heads, d, causal, scale, head(qkv, dout) == 0);
        const float* from = qkv + h.qkv;
        __syncthreads();
        fetch<N, R, THREADS>(k, from + h.width, 3 * h.width, first, h);
        fetch<N, R, THREADS>(v, from + 2 * h.width, 3 * h.width, first, h);
        float dk[4][W], dv[4][W];
        clear<N>(dk);
        clear<N>(dv);
        for (int q0 = causal ? first / COLUMNS * COLUMNS : 0; q0 < tokens; q0 += COLUMNS) {
            __syncthreads();
            fetch<N, COLUMNS, THREADS>(q, from, 3 * h.width, q0, h);
            if (!SHARED) fetch<N, COLUMNS, THREADS>(g, dout + h.out, h.width, q0, h);
            __syncthreads();
            float s[4][C], dp[4][C];
            products<N, C>(s, k, q, x, y);
            if (SHARED) {
                __syncthreads();
                fetch<N, COLUMNS, THREADS>(g, dout + h.out, h.width, q0, h);
                __syncthreads();
            }
            products<N, C>(dp, v, g, x, y);
#pragma unroll
            for (int c = 0; c < C; c++) {
                int query = q0 + x + 16 * c, seen = h.seen(query) - first - 4 * y;
                float norm = query < tokens ? lse[h.line + query] : 0;
                float along = query < tokens ? delta[h.line + query] : 0;
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    float e = r < seen ? expf(s[r][c] * scale - norm) : 0;
                    dp[r][c] = r < seen ? e * (dp[r][c] - along) * scale : 0;
                    p[(4 * y + r) * pitch(COLUMNS) + x + 16 * c] = e;
                }
            }
            __syncwarp();
            float t[4][W];
            weigh<N, COLUMNS>(t, p, g, x, y);
            add<N>(dv, t);
            if (SHARED) {
                __syncthreads();
                fetch<N, COLUMNS, THREADS>(q, from, 3 * h.width, q0, h);
                __syncthreads();
            } else {
                __syncwarp();
            }
#pragma unroll
            for (int c = 0; c < C; c++)
#pragma unroll
                for (int r = 0; r < 4; r++) p[(4 * y + r) * pitch(COLUMNS) + x + 16 * c] = dp[r][c];
            __syncwarp();
            weigh<N, COLUMNS>(t, p, q, x, y);
            add<N>(dk, t);
        }
        bool fours = h.fours && head(dqkv) == 0;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            int key = first + 4 * y + r;
            if (key >= tokens) continue;
            float* row = dqkv + h.qkv + static_cast<long long>(key) * 3 * h.width;
            keep<N>(row + h.width, dk[r], x, d, fours);
            keep<N>(row + 2 * h.width, dv[r], x, d, fours);
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_attention_delta_f32(float* __restrict__ delta, const float* __restrict__ dout,
                                                                           const float* __restrict__ out, int batch, int tokens,
                                                                           int heads, int d) {
    long long lines = static_cast<long long>(batch) * heads * tokens;
    for (long long line = thread_number() / 32; line < lines; line += thread_count() / 32) {
        int token, h;
        long long b = split(split(line, tokens, token), heads, h);
        long long at = ((b * tokens + token) * heads + h) * d;
        float sum = 0;
        for (int i = threadIdx.x % 32; i < d; i += 32) sum += dout[at + i] * out[at + i];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) delta[line] = sum;
    }
}

// Blocks is how many blocks a multiprocessor is to hold: as many as fit without
// spilling registers.
#define FORWARD(N, R, COLUMNS, SHARED, BLOCKS)                                                                                 \
    extern "C" __global__ void __launch_bounds__(4 * R, BLOCKS)                                                                \
        ddp_attention_f32_d##N(float* out, float* lse, const float* qkv, int batch, int tokens, int heads, int d, int causal,  \
                               float scale) {                                                                                  \
        forward<N, R, COLUMNS, SHARED>(out, lse, qkv, batch, tokens, heads, d, causal, scale);                                 \
    }

#define GRADIENT(WHAT, N, COLUMNS, SHARED, BLOCKS)                                                                             \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS)                                                                  \
        ddp_attention_grad_##WHAT##_f32_d##N(float* dqkv, const float* dout, const float* qkv, const float* lse,               \
                                             const float* delta, int batch, int tokens, int heads, int d, int causal,          \
                                             float scale) {                                                                    \
        gradient_##WHAT<N, COLUMNS, SHARED>(dqkv, dout, qkv, lse, delta, batch, tokens, heads, d, causal, scale);              \
    }

FORWARD(16, 64, 64, false, 2)
FORWARD(32, 64, 64, false, 2)
FORWARD(64, 64, 32, false, 2)
FORWARD(128, 32, 32, true, 3)

GRADIENT(q, 16, 64, false, 3)
GRADIENT(q, 32, 64, false, 3)
GRADIENT(q, 64, 32, false, 4)
GRADIENT(q, 128, 16, true, 3)

GRADIENT(kv, 16, 64, false, 3)
GRADIENT(kv, 32, 64, false, 3)
GRADIENT(kv, 64, 32, false, 4)
GRADIENT(kv, 128, 16, true, 3)
