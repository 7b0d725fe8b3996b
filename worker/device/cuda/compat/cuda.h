// CUDA's cuda.h, with the functions whose signatures CUDA 13 changed put back
// into the form of CUDA 11 and 12, in which gorgonia.org/cu calls them. `make
// ddpworker` puts this folder in front of the toolkit's; with a toolkit before
// 13 this file adds nothing.

#ifndef DDPRUN_COMPAT_CUDA_H
#define DDPRUN_COMPAT_CUDA_H

#include_next <cuda.h>

#if CUDA_VERSION >= 13000

// cuCtxCreate takes creation parameters; none are the old behaviour.
static inline CUresult ddp_compat_cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice dev) {
  return cuCtxCreate_v4(ctx, NULL, flags, dev);
}
#undef cuCtxCreate
#define cuCtxCreate ddp_compat_cuCtxCreate

// Places of managed memory are a kind and a number, where -1 was the host.
static inline CUmemLocation ddp_compat_location(CUdevice dev) {
  CUmemLocation place;
  place.type = dev < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = dev < 0 ? 0 : dev;
  return place;
}

static inline CUresult ddp_compat_cuMemAdvise(CUdeviceptr p, size_t count, CUmem_advise advice, CUdevice dev) {
  return cuMemAdvise_v2(p, count, advice, ddp_compat_location(dev));
}
#undef cuMemAdvise
#define cuMemAdvise ddp_compat_cuMemAdvise

static inline CUresult ddp_compat_cuMemPrefetchAsync(CUdeviceptr p, size_t count, CUdevice dev, CUstream s) {
  return cuMemPrefetchAsync_v2(p, count, ddp_compat_location(dev), 0, s);
}
#undef cuMemPrefetchAsync
#define cuMemPrefetchAsync ddp_compat_cuMemPrefetchAsync

// Edges of graphs carry data; none is the old behaviour.
static inline CUresult ddp_compat_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
  return cuGraphAddDependencies_v2(g, from, to, NULL, n);
}
#undef cuGraphAddDependencies
#define cuGraphAddDependencies ddp_compat_cuGraphAddDependencies

static inline CUresult ddp_compat_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
  return cuGraphGetEdges_v2(g, from, to, NULL, n);
}
#undef cuGraphGetEdges
#define cuGraphGetEdges ddp_compat_cuGraphGetEdges

#endif // CUDA_VERSION >= 13000

#endif
