// Blocks of threads as fibers.

#include "device.h"

#include <csetjmp>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "driver.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// emu_switch saves the callee-saved registers on the stack, puts the stack
// pointer where save points, and goes on with another.
asm(R"(
.text
.globl emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" void emu_switch(void **save, void *to);

namespace emu {

Lane *lane;
uint3 block;
dim3 block_dim, grid_dim;

namespace {

constexpr size_t stack_bytes = 64 << 10;
constexpr int max_threads = 1024;

// Rendezvous is a meeting of some lanes of a warp.
struct Rendezvous {
  unsigned mask = 0;
  unsigned arrived = 0;
  unsigned phase = 0;
  uint64_t words[2][32];
};

struct Warp {
  std::vector<Rendezvous> meetings;
};

struct Fiber : Lane {
  void *sp = nullptr;
  char *stack = nullptr;
  int number = 0;
  bool done = false;
};

Fiber fibers[max_threads];
std::vector<Warp> warps;
void *scheduler;
const std::function<void()> *body;
const char *kernel_name = "";
int alive, total;
int at_barrier, barrier_phase, barrier_sum, barrier_result;
long progress; // changes whenever something happens: a deadlock is when it does not

Fiber *self() { return static_cast<Fiber *>(lane); }

void yield() { emu_switch(&self()->sp, scheduler); }

void open_barrier() {
  at_barrier = 0;
  barrier_result = barrier_sum;
  barrier_sum = 0;
  barrier_phase++;
  progress++;
}

void entry() {
  (*body)();
  Fiber *f = self();
  f->done = true;
  alive--;
  progress++;
  if (at_barrier > 0 && at_barrier == alive) open_barrier(); // as the hardware does for threads that have left
  yield();
  abort();
}

void prepare(Fiber &f, int i) {
  if (!f.stack) {
    f.stack = static_cast<char *>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  f.number = i;
  f.done = false;
  f.thread = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
  void **sp = reinterpret_cast<void **>(f.stack + stack_bytes);
  *--sp = nullptr; // keeps the stack aligned as after a call
  *--sp = reinterpret_cast<void *>(entry);
  for (int r = 0; r < 6; r++) *--sp = nullptr;
  f.sp = sp;
}

void run_block() {
  total = alive = block_dim.x * block_dim.y * block_dim.z;
  at_barrier = barrier_sum = 0;
  warps.assign((total + 31) / 32, {});
  for (int i = 0; i < total; i++) prepare(fibers[i], i);
  while (alive > 0) {
    long before = progress;
    for (int i = 0; i < total; i++) {
      if (fibers[i].done) continue;
      lane = &fibers[i];
      emu_switch(&scheduler, fibers[i].sp);
    }
    if (alive > 0 && progress == before) {
      fprintf(stderr, "emulator: kernel %s, block %u %u: %d threads wait for others that never come (%d are at __syncthreads)\n",
              kernel_name, block.x, block.y, alive, at_barrier);
      abort();
    }
  }
}

} // namespace

int lane_id() { return self()->number & 31; }

void barrier() { barrier_count(0); }

int barrier_count(int predicate) {
  int phase = barrier_phase;
  barrier_sum += predicate != 0;
  progress++;
  if (++at_barrier == alive) open_barrier();
  while (phase == barrier_phase) yield();
  return barrier_result;
}

const uint64_t *exchange(unsigned mask, uint64_t word) {
  int n = self()->number, l = n & 31, w = n / 32;
  if (!(mask >> l & 1)) {
    fprintf(stderr, "emulator: kernel %s: lane %d is not in its own mask %08x\n", kernel_name, l, mask);
    abort();
  }
  unsigned there = total - 32 * w >= 32 ? ~0u : (1u << (total - 32 * w)) - 1; // lanes the block has
  auto &all = warps[w].meetings;
  size_t i = 0;
  while (i < all.size() && all[i].mask != mask) i++;
  if (i == all.size()) all.push_back({mask});
  unsigned phase = warps[w].meetings[i].phase;
  auto m = [&]() -> Rendezvous & { return warps[w].meetings[i]; };
  m().words[phase & 1][l] = word;
  m().arrived |= 1u << l;
  progress++;
  if (m().arrived == (mask & there)) {
    m().arrived = 0;
    m().phase++;
  }
  while (m().phase == phase) yield();
  // The words live in the vector, which may move: copy them out.
  static uint64_t out[max_threads][32];
  memcpy(out[n], m().words[phase & 1], sizeof out[n]);
  return out[n];
}

namespace {
std::map<std::string, std::function<std::function<void()>(void **)>> &registry() {
  static std::map<std::string, std::function<std::function<void()>(void **)>> r;
  return r;
}
} // namespace

void add(const char *name, std::function<std::function<void()>(void **)> bind) { registry()[name] = bind; }

const Kernel *find_kernel(const char *name) {
  auto it = registry().find(name);
  return it == registry().end() ? nullptr : reinterpret_cast<const Kernel *>(&*it);
}

std::function<void()> bind_kernel(const Kernel *k, const unsigned *dims, void **params) {
  auto *entry = reinterpret_cast<const std::pair<const std::string, std::function<std::function<void()>(void **)>> *>(k);
  auto call = entry->second(params);
  dim3 grid(dims[0], dims[1], dims[2]), threads(dims[3], dims[4], dims[5]);
  const char *name = entry->first.c_str();
  return [=] {
    kernel_name = name;
    body = &call;
    grid_dim = grid;
    block_dim = threads;
    for (unsigned z = 0; z < grid.z; z++)
      for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
          block = {x, y, z};
          run_block();
        }
  };
}

} // namespace emu
