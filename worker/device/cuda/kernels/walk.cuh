#pragma once

// Loops over elements, four at a time where the addresses allow it.

// Width is the number of elements that one visit is for.
template <int W> struct Width {
    static constexpr int value = W;
};

template <int W> struct Lanes {
    float v[W];
};

template <int W> __device__ __forceinline__ Lanes<W> load(const float* p) {
    Lanes<W> x;
    if constexpr (W == 4) {
        float4 f = *reinterpret_cast<const float4*>(p);
        x.v[0] = f.x, x.v[1] = f.y, x.v[2] = f.z, x.v[3] = f.w;
    } else {
        x.v[0] = *p;
    }
    return x;
}

template <int W> __device__ __forceinline__ void store(float* p, const Lanes<W>& x) {
    if constexpr (W == 4)
        *reinterpret_cast<float4*>(p) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    else
        *p = x.v[0];
}

// head is the number of elements in front of the first 16-byte boundary if it
// is the same for all pointers, else -1. Null counts as a boundary.
template <class... P> __device__ __forceinline__ int head(const float* p, const P*... others) {
    size_t past = reinterpret_cast<size_t>(p) & 15;
    bool same = ((((reinterpret_cast<size_t>(others) & 15) == past) && ...) && true);
    return same ? static_cast<int>((16 - past) & 15) / 4 : -1;
}

// walk calls visit(Width<4>(), i) and visit(Width<1>(), i) so that each of n
// elements is visited by one of those who walk with first = 0..step-1. Those
// in fours begin at 16-byte boundaries, head elements from the start.
template <class F>
__device__ __forceinline__ void walk(long long n, int head, long long first, long long step, F visit) {
    long long fours = head < 0 || head > n ? 0 : (n - head) / 4;
    for (long long i = first; i < fours; i += step) visit(Width<4>(), head + 4 * i);
    long long rest = n - 4 * fours;
    for (long long i = first; i < rest; i += step) visit(Width<1>(), i < head ? i : i + 4 * fours);
}

__device__ __forceinline__ long long thread_number() {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ long long thread_count() { return static_cast<long long>(gridDim.x) * blockDim.x; }

// walk_grid shares the elements among all threads of a launch.
template <class F> __device__ __forceinline__ void walk_grid(long long n, int head, F visit) {
    walk(n, head, thread_number(), thread_count(), visit);
}

// walk_block shares them among the threads of a block.
template <class F> __device__ __forceinline__ void walk_block(long long n, int head, F visit) {
    walk(n, head, threadIdx.x, blockDim.x, visit);
}

// split is i / n, with i % n in rest. Most numbers fit 32 bits, where a
// division costs a fraction.
__device__ __forceinline__ long long split(long long i, int n, int& rest) {
    if (i >> 32 == 0) {
        unsigned u = static_cast<unsigned>(i), quotient = u / static_cast<unsigned>(n);
        rest = static_cast<int>(u - quotient * n);
        return quotient;
    }
    long long quotient = i / n;
    rest = static_cast<int>(i - quotient * n);
    return quotient;
}
