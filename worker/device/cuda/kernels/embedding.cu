// Rows of a table by index, and their gradient in a fixed order.

#include "fault.cuh"
#include "walk.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_embedding_f32(float* __restrict__ out, const float* __restrict__ table,
                                                                     const float* __restrict__ position,
                                                                     const int* __restrict__ index, long long rows, int n, int vocab,
                                                                     int tokens, int* fault, int tag) {
    int lane = threadIdx.x % 32;
    int fours = n % 4 == 0 && head(out, table, position) == 0 ? 0 : -1;
    for (long long r = thread_number() / 32; r < rows; r += thread_count() / 32) {
        int entry = index[r], token = 0;
        float* to = out + r * n;
        if (entry < 0 || entry >= vocab) {
            if (lane == 0) report(fault, tag, static_cast<int>(r), entry);
            walk(n, fours, lane, 32, [&](auto w, long long i) {
                Lanes<w.value> zero = {};
                store(to + i, zero);
            });
            continue;
        }
        if (position) split(r, tokens, token);
        const float* from = table + static_cast<long long>(entry) * n;
        const float* shift = position ? position + static_cast<long long>(token) * n : nullptr;
        walk(n, fours, lane, 32, [&](auto w, long long i) {
            auto v = load<w.value>(from + i);
            if (shift) {
                auto p = load<w.value>(shift + i);
#pragma unroll
                for (int k = 0; k < w.value; k++) v.v[k] += p.v[k];
            }
            store(to + i, v);
        });
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_embedding_count_i32(int* count, const int* index, int rows, int vocab,
                                                                           int* fault, int tag) {
    for (long long r = thread_number(); r < rows; r += thread_count()) {
        int entry = index[r];
        if (entry < 0 || entry >= vocab)
            report(fault, tag, static_cast<int>(r), entry);
        else
            atomicAdd(&count[entry], 1);
    }
}

// Each round scans four entries for each of the 1024 threads.
extern "C" __global__ void __launch_bounds__(1024, 1) ddp_embedding_scan_i32(int* first, int* cursor, const int* count, int vocab) {
    __shared__ int totals[32]; // of the warps
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int done = 0; // rows of the entries of the rounds before
    for (long long base = 0; base < vocab; base += 4 * blockDim.x) {
        long long v = base + 4 * threadIdx.x;
        int c[4], own = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) own += c[k] = v + k < vocab ? count[v + k] : 0;
        int upto = own; // rows of the entries of this warp up to this thread
#pragma unroll
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            int other = __shfl_up_sync(~0u, upto, lanes);
            if (lane >= lanes) upto += other;
        }
        if (lane == 31) totals[warp] = upto;
        __syncthreads();
        int at = done + upto - own;
        for (int w = 0; w < static_cast<int>(blockDim.x / 32); w++) {
            if (w < warp) at += totals[w];
            done += totals[w];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (v + k < vocab) first[v + k] = cursor[v + k] = at;
            at += c[k];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) first[vocab] = done;
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_embedding_scatter_i32(int* list, int* cursor, const int* index, int rows,
                                                                             int vocab) {
    for (long long r = thread_number(); r < rows; r += thread_count()) {
        int entry = index[r];
        if (entry >= 0 && entry < vocab) list[atomicAdd(&cursor[entry], 1)] = static_cast<int>(r);
    }
}

#define SORTED 2048  // the longest list that is sorted
#define COLUMNS 128  // of dout for a block, and its threads

// sort brings a list of c <= SORTED different numbers, in any order, into
// shared memory in ascending order.
__device__ __forceinline__ void sort(int* sorted, const int* list, int c) {
    int size = 1;
    while (size < c) size *= 2;
    for (int i = threadIdx.x; i < size; i += COLUMNS) sorted[i] = i < c ? list[i] : INT_MAX;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2) { // bitonic
        for (int apart = run / 2; apart > 0; apart /= 2) {
            for (int t = threadIdx.x; t < size / 2; t += COLUMNS) {
                int i = 2 * t - (t & (apart - 1));
                int a = sorted[i], b = sorted[i + apart];
                if ((a > b) == ((i & run) == 0)) sorted[i] = b, sorted[i + apart] = a;
            }
            __syncthreads();
        }
    }
}

// add_rows adds column j of the rows, in the order of their list.
__device__ __forceinline__ void add_rows(double& sum, const float* dout, const int* rows, int c, int n, long long j) {
    if (j >= n) return;
#pragma unroll 4
    for (int i = 0; i < c; i++) sum += dout[rows[i] * static_cast<long long>(n) + j];
}

extern "C" __global__ void __launch_bounds__(COLUMNS) ddp_embedding_grad_f32(float* __restrict__ dtable,
                                                                             const float* __restrict__ dout,
                                                                             const int* __restrict__ list,
                                                                             const int* __restrict__ first,
                                                                             const int* __restrict__ index, int rows, int n,
                                                                             int vocab) {
    __shared__ int chosen[SORTED];
    __shared__ int votes[COLUMNS / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long j = static_cast<long long>(blockIdx.y) * COLUMNS + threadIdx.x;
    for (long long v = blockIdx.x; v < vocab; v += gridDim.x) {
        int from = first[v], c = first[v + 1] - from;
        if (c == 0) continue;
        double sum = 0;
        if (c <= SORTED) {
            sort(chosen, list + from, c);
            add_rows(sum, dout, chosen, c, n, j);
            __syncthreads();
        } else {
            int found = 0;
            for (long long r0 = 0; found < c && r0 < rows; r0 += COLUMNS) {
                long long r = r0 + threadIdx.x;
                bool mine = r < rows && index[r] == v;
                unsigned lanes = __ballot_sync(~0u, mine);
                if (lane == 0) votes[warp] = __popc(lanes);
                __syncthreads();
                int before = 0, all = 0;
#pragma unroll
                for (int w = 0; w < COLUMNS / 32; w++) {
                    if (w < warp) before += votes[w];
                    all += votes[w];
                }
                if (mine) chosen[before + __popc(lanes & ((1u << lane) - 1))] = static_cast<int>(r);
                __syncthreads();
                add_rows(sum, dout, chosen, all, n, j);
                found += all;
            }
            __syncthreads();
        }
        if (j < n) dtable[v * n + j] = static_cast<float>(dtable[v * n + j] + sum);
    }
}

extern "C" __global__ void __launch_bounds__(1024, 1) ddp_embedding_position_grad_f32(float* dposition, const float* dout, int rows,
                                                                                   int n, int tokens) {
    long long elements = static_cast<long long>(min(tokens, rows)) * n;
    for (long long i = thread_number(); i < elements; i += thread_count()) {
        int j;
        double sum = 0;
        for (long long r = split(i, n, j); r < rows; r += tokens) sum += dout[r * n + j];
        dposition[i] = static_cast<float>(dposition[i] + sum);
    }
}
