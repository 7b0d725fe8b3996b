// The driver API over host memory. Work waits in its stream until somebody
// waits for it.

#include <cuda.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "driver.h"

namespace {

std::recursive_mutex lock;
using Guard = std::lock_guard<std::recursive_mutex>;

constexpr size_t total_memory = size_t(2) << 30;
size_t used_memory;
std::map<CUdeviceptr, size_t> allocations;

struct Stream;

// Mark is one record of an event.
struct Mark {
  Stream *stream;
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

struct Event {
  std::shared_ptr<Mark> mark; // of the last record
};

struct Op {
  std::function<void()> work;
  std::shared_ptr<Mark> record, wait;
};

struct Graph {
  std::vector<Op> ops;
};

struct Stream {
  std::deque<Op> ops;
  Graph *capture = nullptr;
  bool busy = false;
};

std::set<Stream *> streams;
Stream default_stream;

Stream *of(CUstream s) { return s ? reinterpret_cast<Stream *>(s) : &default_stream; }

void run_until(Stream *s, const std::shared_ptr<Mark> &mark);

// step does a stream's next operation.
void step(Stream *s) {
  Op op = s->ops.front();
  s->ops.pop_front();
  if (op.work) op.work();
  if (op.wait && !op.wait->done) run_until(op.wait->stream, op.wait);
  if (op.record) {
    op.record->done = true;
    op.record->when = std::chrono::steady_clock::now();
  }
}

void run_until(Stream *s, const std::shared_ptr<Mark> &mark) {
  while (!(mark && mark->done) && !s->ops.empty()) step(s);
}

void run_all() {
  run_until(&default_stream, nullptr);
  for (Stream *s : streams) run_until(s, nullptr);
}

CUresult put(Stream *s, Op op) {
  if (s->capture) {
    s->capture->ops.push_back(op);
  } else {
    s->ops.push_back(op);
  }
  return CUDA_SUCCESS;
}

thread_local CUcontext current;
CUcontext primary = reinterpret_cast<CUcontext>(0xC0);

bool bound() { return current == primary; }
#define NEED_CONTEXT                                                                                                   \
  Guard guard(lock);                                                                                                   \
  if (!bound()) return CUDA_ERROR_INVALID_CONTEXT

// inside says whether device memory holds a range.
bool inside(CUdeviceptr p, size_t n) {
  auto it = allocations.upper_bound(p);
  if (it == allocations.begin()) return false;
  --it;
  return p + n <= it->first + it->second;
}

} // namespace

extern "C" void emu_enqueue(void *stream, std::function<void()> *work) {
  Guard guard(lock);
  put(of(static_cast<CUstream>(stream)), {*work, nullptr, nullptr});
}

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = 11080; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { *d = i; return i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int n, CUdevice) { snprintf(name, n, "emulator"); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice) { *n = total_memory; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice) {
  switch (a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 2; break;
  default: *v = 1;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice) { *c = primary; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { current = c; return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) { *c = current; return CUDA_SUCCESS; }
CUresult cuCtxSynchronize(void) { NEED_CONTEXT; run_all(); return CUDA_SUCCESS; }

CUresult cuStreamCreate(CUstream *s, unsigned) {
  NEED_CONTEXT;
  Stream *n = new Stream;
  streams.insert(n);
  *s = reinterpret_cast<CUstream>(n);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream s) {
  NEED_CONTEXT;
  if (!streams.count(of(s))) return CUDA_ERROR_INVALID_HANDLE;
  run_until(of(s), nullptr);
  streams.erase(of(s)); // kept in memory: marks may still point to it
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream s) {
  NEED_CONTEXT;
  if (of(s)->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  run_until(of(s), nullptr);
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
  NEED_CONTEXT;
  auto mark = reinterpret_cast<Event *>(e)->mark;
  if (mark) put(of(s), {nullptr, nullptr, mark});
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *e, unsigned) {
  NEED_CONTEXT;
  *e = reinterpret_cast<CUevent>(new Event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) {
  NEED_CONTEXT;
  delete reinterpret_cast<Event *>(e);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
  NEED_CONTEXT;
  auto mark = std::make_shared<Mark>();
  mark->stream = of(s);
  reinterpret_cast<Event *>(e)->mark = mark;
  return put(of(s), {nullptr, mark, nullptr});
}
CUresult cuEventQuery(CUevent e) {
  NEED_CONTEXT;
  auto mark = reinterpret_cast<Event *>(e)->mark;
  if (!mark || mark->done) return CUDA_SUCCESS;
  if (!mark->stream->ops.empty()) step(mark->stream); // who asks often gets there
  return mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent e) {
  NEED_CONTEXT;
  auto mark = reinterpret_cast<Event *>(e)->mark;
  if (mark) run_until(mark->stream, mark);
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  NEED_CONTEXT;
  auto x = reinterpret_cast<Event *>(a)->mark, y = reinterpret_cast<Event *>(b)->mark;
  if (!x || !y) return CUDA_ERROR_INVALID_HANDLE;
  if (!x->done || !y->done) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(y->when - x->when).count();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
  NEED_CONTEXT;
  if (n == 0) return CUDA_ERROR_INVALID_VALUE;
  if (used_memory + n > total_memory) return CUDA_ERROR_OUT_OF_MEMORY;
  void *mem = aligned_alloc(512, (n + 511) / 512 * 512);
  if (!mem) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(mem, 0xff, n); // NaN as float, -1 as int
  used_memory += n;
  *p = reinterpret_cast<CUdeviceptr>(mem);
  allocations[*p] = n;
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
  NEED_CONTEXT;
  auto it = allocations.find(p);
  if (it == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  run_all();
  used_memory -= it->second;
  allocations.erase(it);
  free(reinterpret_cast<void *>(p));
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
  NEED_CONTEXT;
  *free_bytes = total_memory - used_memory;
  *total = total_memory;
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **p, size_t n, unsigned) {
  NEED_CONTEXT;
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *d, void *p, unsigned) {
  *d = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *p) {
  NEED_CONTEXT;
  free(p);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void *h, size_t n, CUstream s) {
  NEED_CONTEXT;
  if (!inside(d, n)) return CUDA_ERROR_INVALID_VALUE;
  return put(of(s), {[=] { memcpy(reinterpret_cast<void *>(d), h, n); }, nullptr, nullptr});
}
CUresult cuMemcpyDtoHAsync(void *h, CUdeviceptr d, size_t n, CUstream s) {
  NEED_CONTEXT;
  if (!inside(d, n)) return CUDA_ERROR_INVALID_VALUE;
  return put(of(s), {[=] { memcpy(h, reinterpret_cast<void *>(d), n); }, nullptr, nullptr});
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr from, size_t n, CUstream s) {
  NEED_CONTEXT;
  if (!inside(d, n) || !inside(from, n)) return CUDA_ERROR_INVALID_VALUE;
  return put(of(s), {[=] { memmove(reinterpret_cast<void *>(d), reinterpret_cast<void *>(from), n); }, nullptr, nullptr});
}
CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, CUstream s) {
  NEED_CONTEXT;
  if (!inside(d, 4 * n) || d % 4) return CUDA_ERROR_INVALID_VALUE;
  return put(of(s), {[=] {
                       for (size_t i = 0; i < n; i++) reinterpret_cast<unsigned *>(d)[i] = v;
                     },
                     nullptr, nullptr});
}

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned, CUjit_option *, void **) {
  NEED_CONTEXT;
  *m = reinterpret_cast<CUmodule>(new std::string(static_cast<const char *>(image)));
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) {
  NEED_CONTEXT;
  delete reinterpret_cast<std::string *>(m);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  NEED_CONTEXT;
  if (reinterpret_cast<std::string *>(m)->find(std::string(".entry ") + name + "(") == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  auto *k = emu::find_kernel(name);
  if (!k) return CUDA_ERROR_NOT_FOUND;
  *f = reinterpret_cast<CUfunction>(const_cast<emu::Kernel *>(k));
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream s, void **params, void **) {
  NEED_CONTEXT;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || bx * by * bz > 1024 || gy > 65535 || gz > 65535 || shared != 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned dims[] = {gx, gy, gz, bx, by, bz};
  return put(of(s), {emu::bind_kernel(reinterpret_cast<emu::Kernel *>(f), dims, params), nullptr, nullptr});
}

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
  NEED_CONTEXT;
  of(s)->capture = new Graph;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
  NEED_CONTEXT;
  *g = reinterpret_cast<CUgraph>(of(s)->capture);
  of(s)->capture = nullptr;
  return *g ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long) {
  NEED_CONTEXT;
  *e = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph *>(g)));
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  NEED_CONTEXT;
  for (auto &op : reinterpret_cast<Graph *>(e)->ops) put(of(s), op);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
  NEED_CONTEXT;
  delete reinterpret_cast<Graph *>(e);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g) {
  NEED_CONTEXT;
  delete reinterpret_cast<Graph *>(g);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult r, const char **text) {
  static thread_local std::string s;
  s = "EMULATED_" + std::to_string(r);
  *text = s.c_str();
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "from the emulator";
  return CUDA_SUCCESS;
}

} // extern "C"
