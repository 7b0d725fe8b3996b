// The part of CUDA C++ that the kernels use, for a C++ compiler. Included in
// front of each .cu file.

#pragma once

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 { unsigned x, y, z; };
struct __align__(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) double2 { double x, y; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

namespace emu {
struct Lane {
  uint3 thread;
};
extern Lane *lane; // the fiber that runs
extern uint3 block;
extern dim3 block_dim, grid_dim;
void barrier();
int barrier_count(int predicate);
// exchange posts a word and waits for the lanes of mask; the words of all are
// in the result until the lane's next exchange.
const uint64_t *exchange(unsigned mask, uint64_t word);
int lane_id();
void add(const char *name, std::function<std::function<void()>(void **)> bind);

template <class T> T shuffle(unsigned mask, T v, int from) {
  static_assert(sizeof(T) <= 8, "one word");
  uint64_t w = 0;
  memcpy(&w, &v, sizeof v);
  const uint64_t *all = exchange(mask, w);
  T out;
  memcpy(&out, &all[from & 31], sizeof out);
  return out;
}

// binder copies a launch's arguments into a call.
template <class... A, size_t... I>
std::function<void()> bind_args(void (*f)(A...), void **p, std::index_sequence<I...>) {
  std::tuple<std::remove_cv_t<A>...> args{*static_cast<std::remove_cv_t<A> *>(p[I])...};
  return [f, args] { std::apply(f, args); };
}
template <class... A> void reg(const char *name, void (*f)(A...)) {
  add(name, [f](void **p) { return bind_args(f, p, std::index_sequence_for<A...>{}); });
}
} // namespace emu

#define threadIdx (emu::lane->thread)
#define blockIdx (emu::block)
#define blockDim (emu::block_dim)
#define gridDim (emu::grid_dim)
static const int warpSize = 32;

static inline void __syncthreads() { emu::barrier(); }
static inline int __syncthreads_count(int p) { return emu::barrier_count(p); }
static inline int __syncthreads_or(int p) { return emu::barrier_count(p) > 0; }
static inline int __syncthreads_and(int p) {
  return emu::barrier_count(p) == (int)(blockDim.x * blockDim.y * blockDim.z);
}
static inline void __syncwarp(unsigned mask = ~0u) { emu::exchange(mask, 0); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

template <class T> T __shfl_sync(unsigned m, T v, int from, int width = 32) {
  int l = emu::lane_id();
  return emu::shuffle(m, v, (l & ~(width - 1)) | (from & (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned m, T v, int mask, int width = 32) {
  int l = emu::lane_id(), s = l ^ mask;
  return emu::shuffle(m, v, s >= ((l & ~(width - 1)) + width) ? l : s);
}
template <class T> T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32) {
  int l = emu::lane_id(), s = l + (int)d;
  return emu::shuffle(m, v, s >= ((l & ~(width - 1)) + width) ? l : s);
}
template <class T> T __shfl_up_sync(unsigned m, T v, unsigned d, int width = 32) {
  int l = emu::lane_id(), s = l - (int)d;
  return emu::shuffle(m, v, s < (l & ~(width - 1)) ? l : s);
}
static inline unsigned __ballot_sync(unsigned m, int p) {
  const uint64_t *all = emu::exchange(m, p != 0);
  unsigned out = 0;
  for (int i = 0; i < 32; i++)
    if (m >> i & 1 && all[i]) out |= 1u << i;
  return out;
}
static inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
static inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, p) == m; }
static inline unsigned __activemask() { return ~0u; }
template <class T> unsigned __match_any_sync(unsigned m, T v) {
  uint64_t w = 0;
  memcpy(&w, &v, sizeof v);
  const uint64_t *all = emu::exchange(m, w);
  unsigned out = 0;
  for (int i = 0; i < 32; i++)
    if (m >> i & 1 && all[i] == w) out |= 1u << i;
  return out;
}

template <class T> T atomicAdd(T *p, T v) { T o = *p; *p = o + v; return o; }
template <class T> T atomicSub(T *p, T v) { T o = *p; *p = o - v; return o; }
template <class T> T atomicMax(T *p, T v) { T o = *p; *p = o > v ? o : v; return o; }
template <class T> T atomicMin(T *p, T v) { T o = *p; *p = o < v ? o : v; return o; }
template <class T> T atomicOr(T *p, T v) { T o = *p; *p = o | v; return o; }
template <class T> T atomicExch(T *p, T v) { T o = *p; *p = v; return o; }
template <class T> T atomicCAS(T *p, T c, T v) { T o = *p; if (o == c) *p = v; return o; }

template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

using std::isfinite;
using std::isinf;
using std::isnan;

template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> T __ldca(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> void __stcs(T *p, T v) { *p = v; }
template <class T> void __stcg(T *p, T v) { *p = v; }
static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return std::sqrt(a); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
static inline unsigned __float_as_uint(float f) { unsigned i; memcpy(&i, &f, 4); return i; }
static inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
static inline float __uint_as_float(unsigned i) { float f; memcpy(&f, &i, 4); return f; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline double __longlong_as_double(long long x) { double d; memcpy(&d, &x, 8); return d; }
static inline long long __double_as_longlong(double d) { long long x; memcpy(&x, &d, 8); return x; }
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
