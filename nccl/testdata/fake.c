// A stand-in for libnccl.so.2 for tests without a GPU. It writes a line for
// each call to the file FAKE_NCCL_LOG, and FAKE_NCCL steers it:
//
//   inprogress=N   calls on a communicator stay "in progress" for N polls
//   CALL=R         that call returns result R, ncclAllReduce=5
//   async=R        the asynchronous error of an idle communicator is R
//   hang           initialisation never ends
//   late           the handle of a new communicator is stored by the 3rd poll
//
// Compiled with -DVERSION=22809, and -DOLD for a library without the functions
// newer than 2.18.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char internal[128]; } ncclUniqueId;

typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking, cga, min, max;
  const char *net;
  int share, traffic;
  const char *name;
} config;

typedef struct comm {
  int rank, size, pending, blocking, error;
  struct comm **place; // where the handle is stored late
} comm;

static void record(const char *format, ...) {
  const char *path = getenv("FAKE_NCCL_LOG");
  if (!path) return;
  FILE *f = fopen(path, "a");
  va_list list;
  va_start(list, format);
  vfprintf(f, format, list);
  va_end(list);
  fputc('\n', f);
  fclose(f);
}

static int setting(const char *name, int otherwise) {
  const char *all = getenv("FAKE_NCCL");
  const char *at = all ? strstr(all, name) : NULL;
  if (!at) return otherwise;
  at += strlen(name);
  return *at == '=' ? atoi(at + 1) : 1;
}

static int answer(comm *c, const char *call) {
  int r = setting(call, 0);
  if (r || !c || c->blocking) return r;
  c->pending = setting("inprogress", 0);
  return c->pending ? 7 : 0;
}

int ncclGetVersion(int *version) { *version = VERSION; return 0; }

int ncclGetUniqueId(ncclUniqueId *id) {
  for (int i = 0; i < 128; i++) id->internal[i] = (char)(i + 1);
  return setting("ncclGetUniqueId", 0);
}

static comm *new_comm(int size, int rank, config *cfg) {
  comm *c = calloc(1, sizeof *c);
  c->size = size, c->rank = rank, c->blocking = cfg->blocking;
  return c;
}

int ncclCommInitRankConfig(comm **out, int size, ncclUniqueId id, int rank, config *cfg) {
  int good = 1;
  for (int i = 0; i < 128; i++) good &= id.internal[i] == (char)(i + 1);
  record("init size=%d rank=%d id=%s bytes=%zu magic=%x version=%u blocking=%d cga=%d min=%d max=%d net=%s share=%d name=%s",
         size, rank, good ? "good" : "bad", cfg->size, cfg->magic, cfg->version, cfg->blocking, cfg->cga, cfg->min,
         cfg->max, cfg->net ? cfg->net : "-", cfg->share, cfg->size > 48 && cfg->name ? cfg->name : "-");
  int r = setting("ncclCommInitRankConfig", 0);
  if (r) return r;
  *out = new_comm(size, rank, cfg);
  r = answer(*out, "-");
  if (setting("hang", 0)) {
    (*out)->pending = 1 << 30;
    r = 7;
  }
  return r;
}

static comm *late; // a child whose handle is not stored yet

int ncclCommSplit(comm *parent, int color, int key, comm **out, config *cfg) {
  record("split color=%d key=%d", color, key);
  int r = setting("ncclCommSplit", 0);
  if (r) return r;
  if (color == -1) return answer(parent, "-");
  comm *c = new_comm(parent->size, parent->rank, cfg);
  if (setting("late", 0)) {
    c->place = out, c->pending = 3, parent->pending = 1, late = c;
    return 7;
  }
  *out = c;
  return answer(parent, "-");
}

int ncclCommGetAsyncError(comm *c, int *state) {
  if (!c) { record("poll of no communicator"); return 4; }
  if (late) {
    if (--late->pending == 0) { __atomic_store_n(late->place, late, __ATOMIC_RELEASE); late = NULL; }
    *state = late ? 7 : 0;
    return 0;
  }
  *state = c->pending ? 7 : c->error ? c->error : setting("async", 0);
  if (c->pending) c->pending--;
  return 0;
}

int ncclCommFinalize(comm *c) { record("finalize"); return answer(c, "ncclCommFinalize"); }
int ncclCommDestroy(comm *c) { record("destroy"); int r = setting("ncclCommDestroy", 0); if (!r) free(c); return r; }
int ncclCommAbort(comm *c) {
  record("abort");
  if (setting("ncclCommAbort", 0) == 99) sleep(3);
  free(c);
  return 0;
}
int ncclCommCount(comm *c, int *n) { *n = c->size; return 0; }
int ncclCommCuDevice(comm *c, int *n) { *n = 3; return 0; }
int ncclCommUserRank(comm *c, int *n) { *n = c->rank; return 0; }
const char *ncclGetErrorString(int r) { return r ? "the fake's error string" : "no error"; }
const char *ncclGetLastError(comm *c) { return getenv("FAKE_NCCL_LAST") ? getenv("FAKE_NCCL_LAST") : ""; }

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, comm *c) {
  uint64_t bits = 0;
  memcpy(&bits, scalar, type == 8 ? 8 : type == 7 ? 4 : 2);
  record("premul type=%d bits=%llx residence=%d", type, (unsigned long long)bits, residence);
  *op = 5;
  return 0;
}
int ncclRedOpDestroy(int op, comm *c) { record("dropop %d", op); return 0; }

#define P(x) (unsigned long long)(uintptr_t)(x)
int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, comm *c, void *q) {
  record("allreduce %llx %llx %zu %d %d %llx", P(s), P(r), n, t, op, P(q));
  return answer(c, "ncclAllReduce");
}
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, comm *c, void *q) {
  record("broadcast %llx %llx %zu %d %d %llx", P(s), P(r), n, t, root, P(q));
  return answer(c, "ncclBroadcast");
}
int ncclReduce(const void *s, void *r, size_t n, int t, int op, int root, comm *c, void *q) {
  record("reduce %llx %llx %zu %d %d %d %llx", P(s), P(r), n, t, op, root, P(q));
  return answer(c, "ncclReduce");
}
int ncclAllGather(const void *s, void *r, size_t n, int t, comm *c, void *q) {
  record("allgather %llx %llx %zu %d %llx", P(s), P(r), n, t, P(q));
  return answer(c, "ncclAllGather");
}
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, comm *c, void *q) {
  record("reducescatter %llx %llx %zu %d %d %llx", P(s), P(r), n, t, op, P(q));
  return answer(c, "ncclReduceScatter");
}
int ncclSend(const void *s, size_t n, int t, int peer, comm *c, void *q) {
  record("send %llx %zu %d %d %llx", P(s), n, t, peer, P(q));
  return setting("ncclSend", 0);
}
int ncclRecv(void *r, size_t n, int t, int peer, comm *c, void *q) {
  record("recv %llx %zu %d %d %llx", P(r), n, t, peer, P(q));
  return setting("ncclRecv", 0);
}
static __thread long group_thread;
int ncclGroupStart(void) { record("groupstart"); group_thread = (long)&group_thread; return 0; }
int ncclGroupEnd(void) {
  record("groupend %s", group_thread == (long)&group_thread ? "same thread" : "other thread");
  return setting("ncclGroupEnd", 0);
}

#ifndef OLD
int ncclMemAlloc(void **at, size_t n) { record("memalloc %zu", n); *at = (void *)0x1000; return 0; }
int ncclMemFree(void *at) { record("memfree %llx", P(at)); return 0; }
int ncclCommRegister(comm *c, void *at, size_t n, void **h) { record("register %llx %zu", P(at), n); *h = (void *)0x77; return 0; }
int ncclCommDeregister(comm *c, void *h) { record("deregister %llx", P(h)); return 0; }
int ncclCommWindowRegister(comm *c, void *at, size_t n, void **w, int flags) {
  record("window %llx %zu %d", P(at), n, flags);
  *w = (void *)0x88;
  return 0;
}
int ncclCommWindowDeregister(comm *c, void *w) { record("dropwindow %llx", P(w)); return 0; }
#endif
