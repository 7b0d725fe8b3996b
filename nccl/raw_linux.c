#include "raw_linux.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *because(const char *text) { return strdup(text ? text : "unknown error"); }

static char *lacks(const char *name) {
  char text[128];
  snprintf(text, sizeof text, "has no function %s: too old, or not NCCL", name);
  return because(text);
}

ddprun_nccl *ddprun_open(const char *path, char **why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *why = because(dlerror());
    return NULL;
  }
  ddprun_nccl *l = calloc(1, sizeof *l);
  if (!l) {
    *why = because("out of memory");
    dlclose(library);
    return NULL;
  }
  l->library = library;
#define LOAD(name, required, arguments)                                        \
  *(void **)&l->name = dlsym(library, "nccl" #name);                           \
  if (required && !l->name) {                                                  \
    *why = lacks("nccl" #name);                                                \
    goto fail;                                                                 \
  }
  // The version first: a library that is too old is best told by its number.
  LOAD(GetVersion, 1, )
  int version = 0;
  if (l->GetVersion(&version) == 0 && version < 21800) return l;
  DDPRUN_NCCL_FUNCTIONS(LOAD)
  LOAD(GetErrorString, 1, )
  LOAD(GetLastError, 1, )
#undef LOAD
  return l;
fail:
  free(l);
  dlclose(library);
  return NULL;
}

// config_size is sizeof(ncclConfig_t) in the header of a version.
static size_t config_size(int version) {
  if (version < 22700) return offsetof(ncclConfig_t, commName);
  if (version < 22800) return offsetof(ncclConfig_t, nChannelsPerNetPeer);
  return sizeof(ncclConfig_t);
}

static void copy_text(char *to, size_t size, const char *from) {
  snprintf(to, size, "%s", from);
}

static int or_undefined(int n) { return n ? n : INT_MIN; }

void ddprun_config(ddprun_comm *c, int version, const char *name,
                   const char *net, int blocking, int cga, int min, int max,
                   int share) {
  copy_text(c->name, sizeof c->name, name);
  copy_text(c->net, sizeof c->net, net);
  c->config = (ncclConfig_t){
      .size = config_size(version),
      .magic = 0xcafebeef,
      // No newer than the layout above, so that the library gives defaults to
      // what it has beyond.
      .version = version < 22900 ? version : 22899,
      .blocking = blocking,
      .cgaClusterSize = or_undefined(cga),
      .minCTAs = or_undefined(min),
      .maxCTAs = or_undefined(max),
      .netName = c->net[0] ? c->net : NULL,
      .splitShare = share,
      .trafficClass = INT_MIN,
      .commName = c->name[0] ? c->name : NULL,
      .collnetEnable = INT_MIN,
      .CTAPolicy = INT_MIN,
      .shrinkShare = INT_MIN,
      .nvlsCTAs = INT_MIN,
      .nChannelsPerNetPeer = INT_MIN,
      .nvlinkCentricSched = INT_MIN,
  };
}

ncclComm_t ddprun_handle(ddprun_comm *c) {
  return __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE);
}

ncclResult_t ddprun_init_rank(const ddprun_nccl *l, ddprun_comm *c, int ranks,
                              const char *id, int rank) {
  ncclUniqueId by_value;
  memcpy(&by_value, id, sizeof by_value);
  return l->CommInitRankConfig(&c->comm, ranks, by_value, rank, &c->config);
}

ncclResult_t ddprun_split(const ddprun_nccl *l, ddprun_comm *parent, int color,
                          int key, ddprun_comm *child) {
  return l->CommSplit(ddprun_handle(parent), color, key, &child->comm,
                      &child->config);
}

ncclResult_t ddprun_async_error(const ddprun_nccl *l, ddprun_comm *c,
                                ncclResult_t *state) {
  return l->CommGetAsyncError(ddprun_handle(c), state);
}

const char *ddprun_error_string(const ddprun_nccl *l, ncclResult_t r) {
  return l->GetErrorString(r);
}

const char *ddprun_last_error(const ddprun_nccl *l, ddprun_comm *c) {
  return l->GetLastError(c ? ddprun_handle(c) : NULL);
}

#define H ddprun_handle(c)
#define P(x) ((void *)(x))

ncclResult_t ddprun_GetVersion(const ddprun_nccl *l, int *version) {
  return l->GetVersion(version);
}

ncclResult_t ddprun_GetUniqueId(const ddprun_nccl *l, char *id) {
  return l->GetUniqueId((ncclUniqueId *)id);
}

ncclResult_t ddprun_GroupStart(const ddprun_nccl *l) { return l->GroupStart(); }

ncclResult_t ddprun_GroupEnd(const ddprun_nccl *l) { return l->GroupEnd(); }

ncclResult_t ddprun_MemAlloc(const ddprun_nccl *l, uintptr_t *at, size_t n) {
  return l->MemAlloc((void **)at, n);
}

ncclResult_t ddprun_MemFree(const ddprun_nccl *l, uintptr_t at) {
  return l->MemFree(P(at));
}

ncclResult_t ddprun_CommFinalize(const ddprun_nccl *l, ddprun_comm *c) {
  return l->CommFinalize(H);
}

ncclResult_t ddprun_CommDestroy(const ddprun_nccl *l, ddprun_comm *c) {
  return l->CommDestroy(H);
}

ncclResult_t ddprun_CommAbort(const ddprun_nccl *l, ddprun_comm *c) {
  return l->CommAbort(H);
}

ncclResult_t ddprun_CommCount(const ddprun_nccl *l, ddprun_comm *c, int *n) {
  return l->CommCount(H, n);
}

ncclResult_t ddprun_CommCuDevice(const ddprun_nccl *l, ddprun_comm *c, int *n) {
  return l->CommCuDevice(H, n);
}

ncclResult_t ddprun_CommUserRank(const ddprun_nccl *l, ddprun_comm *c, int *n) {
  return l->CommUserRank(H, n);
}

// residence 1: the scalar is read before the function returns.
ncclResult_t ddprun_RedOpCreatePreMulSum(const ddprun_nccl *l, ddprun_comm *c,
                                         int *op, void *scalar, int type) {
  return l->RedOpCreatePreMulSum(op, scalar, type, 1, H);
}

ncclResult_t ddprun_RedOpDestroy(const ddprun_nccl *l, ddprun_comm *c, int op) {
  return l->RedOpDestroy(op, H);
}

ncclResult_t ddprun_AllReduce(const ddprun_nccl *l, ddprun_comm *c,
                              uintptr_t send, uintptr_t recv, size_t n,
                              int type, int op, uintptr_t stream) {
  return l->AllReduce(P(send), P(recv), n, type, op, H, P(stream));
}

ncclResult_t ddprun_Broadcast(const ddprun_nccl *l, ddprun_comm *c,
                              uintptr_t send, uintptr_t recv, size_t n,
                              int type, int root, uintptr_t stream) {
  return l->Broadcast(P(send), P(recv), n, type, root, H, P(stream));
}

ncclResult_t ddprun_Reduce(const ddprun_nccl *l, ddprun_comm *c, uintptr_t send,
                           uintptr_t recv, size_t n, int type, int op, int root,
                           uintptr_t stream) {
  return l->Reduce(P(send), P(recv), n, type, op, root, H, P(stream));
}

ncclResult_t ddprun_AllGather(const ddprun_nccl *l, ddprun_comm *c,
                              uintptr_t send, uintptr_t recv, size_t n,
                              int type, uintptr_t stream) {
  return l->AllGather(P(send), P(recv), n, type, H, P(stream));
}

ncclResult_t ddprun_ReduceScatter(const ddprun_nccl *l, ddprun_comm *c,
                                  uintptr_t send, uintptr_t recv, size_t n,
                                  int type, int op, uintptr_t stream) {
  return l->ReduceScatter(P(send), P(recv), n, type, op, H, P(stream));
}

ncclResult_t ddprun_Send(const ddprun_nccl *l, ddprun_comm *c, uintptr_t send,
                         size_t n, int type, int peer, uintptr_t stream) {
  return l->Send(P(send), n, type, peer, H, P(stream));
}

ncclResult_t ddprun_Recv(const ddprun_nccl *l, ddprun_comm *c, uintptr_t recv,
                         size_t n, int type, int peer, uintptr_t stream) {
  return l->Recv(P(recv), n, type, peer, H, P(stream));
}

ncclResult_t ddprun_CommRegister(const ddprun_nccl *l, ddprun_comm *c,
                                 uintptr_t at, size_t n, uintptr_t *handle) {
  return l->CommRegister(H, P(at), n, (void **)handle);
}

ncclResult_t ddprun_CommDeregister(const ddprun_nccl *l, ddprun_comm *c,
                                   uintptr_t handle) {
  return l->CommDeregister(H, P(handle));
}

ncclResult_t ddprun_CommWindowRegister(const ddprun_nccl *l, ddprun_comm *c,
                                       uintptr_t at, size_t n,
                                       uintptr_t *window, int flags) {
  return l->CommWindowRegister(H, P(at), n, (ncclWindow_t *)window, flags);
}

ncclResult_t ddprun_CommWindowDeregister(const ddprun_nccl *l, ddprun_comm *c,
                                         uintptr_t window) {
  return l->CommWindowDeregister(H, P(window));
}
