//go:build cuda

#include "driver.h"

#include <cuda.h>

// BIND makes the context current on this thread, as cheaply as can be.
#define BIND(ctx)                                                              \
  do {                                                                         \
    CUcontext current = NULL;                                                  \
    if (cuCtxGetCurrent(&current) != CUDA_SUCCESS ||                           \
        current != (CUcontext)(ctx)) {                                         \
      CUresult r = cuCtxSetCurrent((CUcontext)(ctx));                          \
      if (r != CUDA_SUCCESS) return r;                                         \
    }                                                                          \
  } while (0)

enum { MAX_ARGS = 32 };

int ddp_launch(uintptr_t ctx, uintptr_t function, const uint32_t *dims, uintptr_t stream, int n, uint64_t *args) {
  void *params[MAX_ARGS];
  if (n > MAX_ARGS) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < n; i++) params[i] = &args[i];
  BIND(ctx);
  return cuLaunchKernel((CUfunction)function, dims[0], dims[1], dims[2], dims[3], dims[4], dims[5], 0,
                        (CUstream)stream, params, NULL);
}

int ddp_memset32(uintptr_t ctx, uint64_t dst, uint32_t value, size_t count, uintptr_t stream) {
  BIND(ctx);
  return cuMemsetD32Async((CUdeviceptr)dst, value, count, (CUstream)stream);
}

int ddp_copy_to_device(uintptr_t ctx, uint64_t dst, const void *src, size_t bytes, uintptr_t stream) {
  BIND(ctx);
  return cuMemcpyHtoDAsync((CUdeviceptr)dst, src, bytes, (CUstream)stream);
}

int ddp_copy_to_host(uintptr_t ctx, void *dst, uint64_t src, size_t bytes, uintptr_t stream) {
  BIND(ctx);
  return cuMemcpyDtoHAsync(dst, (CUdeviceptr)src, bytes, (CUstream)stream);
}

int ddp_copy_on_device(uintptr_t ctx, uint64_t dst, uint64_t src, size_t bytes, uintptr_t stream) {
  BIND(ctx);
  return cuMemcpyDtoDAsync((CUdeviceptr)dst, (CUdeviceptr)src, bytes, (CUstream)stream);
}

int ddp_event_record(uintptr_t ctx, uintptr_t event, uintptr_t stream) {
  BIND(ctx);
  return cuEventRecord((CUevent)event, (CUstream)stream);
}

int ddp_event_query(uintptr_t ctx, uintptr_t event) {
  BIND(ctx);
  return cuEventQuery((CUevent)event);
}

int ddp_event_wait(uintptr_t ctx, uintptr_t event) {
  BIND(ctx);
  return cuEventSynchronize((CUevent)event);
}

int ddp_stream_wait_event(uintptr_t ctx, uintptr_t stream, uintptr_t event) {
  BIND(ctx);
  return cuStreamWaitEvent((CUstream)stream, (CUevent)event, 0);
}

int ddp_stream_wait(uintptr_t ctx, uintptr_t stream) {
  BIND(ctx);
  return cuStreamSynchronize((CUstream)stream);
}

int ddp_host_alloc(uintptr_t ctx, size_t bytes, void **mem, uint64_t *device) {
  BIND(ctx);
  CUresult r = cuMemHostAlloc(mem, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (r != CUDA_SUCCESS) return r;
  CUdeviceptr p = 0;
  r = cuMemHostGetDevicePointer(&p, *mem, 0);
  if (r != CUDA_SUCCESS) {
    cuMemFreeHost(*mem);
    return r;
  }
  *device = p;
  return CUDA_SUCCESS;
}

int ddp_module_load(uintptr_t ctx, const char *image, uintptr_t *module, char *log, size_t log_bytes) {
  BIND(ctx);
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)log_bytes};
  log[0] = 0;
  CUmodule m = NULL;
  CUresult r = cuModuleLoadDataEx(&m, image, 2, names, values);
  *module = (uintptr_t)m;
  return r;
}

int ddp_capture_begin(uintptr_t ctx, uintptr_t stream) {
  BIND(ctx);
  // Thread-local: other threads may go on allocating and querying.
  return cuStreamBeginCapture((CUstream)stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

int ddp_capture_end(uintptr_t ctx, uintptr_t stream, uintptr_t *graph, uintptr_t *exec) {
  BIND(ctx);
  CUgraph g = NULL;
  CUgraphExec e = NULL;
  *graph = *exec = 0;
  CUresult r = cuStreamEndCapture((CUstream)stream, &g);
  if (r != CUDA_SUCCESS) return r;
  r = cuGraphInstantiateWithFlags(&e, g, 0);
  if (r != CUDA_SUCCESS) {
    cuGraphDestroy(g);
    return r;
  }
  *graph = (uintptr_t)g;
  *exec = (uintptr_t)e;
  return CUDA_SUCCESS;
}

int ddp_graph_launch(uintptr_t ctx, uintptr_t exec, uintptr_t stream) {
  BIND(ctx);
  return cuGraphLaunch((CUgraphExec)exec, (CUstream)stream);
}

int ddp_graph_free(uintptr_t ctx, uintptr_t graph, uintptr_t exec) {
  BIND(ctx);
  CUresult first = cuGraphExecDestroy((CUgraphExec)exec);
  CUresult r = cuGraphDestroy((CUgraph)graph);
  return first != CUDA_SUCCESS ? first : r;
}

const char *ddp_error_name(int result) {
  const char *text = NULL;
  return cuGetErrorName((CUresult)result, &text) == CUDA_SUCCESS ? text : NULL;
}

const char *ddp_error_text(int result) {
  const char *text = NULL;
  return cuGetErrorString((CUresult)result, &text) == CUDA_SUCCESS ? text : NULL;
}
