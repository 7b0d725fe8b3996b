// NCCL's interface as far as ddprun calls it, declared here so that no NVIDIA
// header is needed. Layouts and numbers are those of nccl.h 2.18 to 2.28;
// CUDA's stream is a pointer to a caller.
#ifndef DDPRUN_NCCL_RAW_H
#define DDPRUN_NCCL_RAW_H

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow *ncclWindow_t;
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef int ncclScalarResidence_t;
typedef void *cudaStream_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

// Only ever extended at its end. The library reads no further than size and
// gives defaults to whatever is newer than version.
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; // since 2.14
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char *netName; // since 2.17
  int splitShare;      // since 2.18
  int trafficClass;    // in what was padding
  const char *commName; // since 2.27
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer; // since 2.28
  int nvlinkCentricSched;
} ncclConfig_t;

// Every function by name, arguments, and whether a library of version 2.18
// may lack it. FN(name, required, (arguments))
#define DDPRUN_NCCL_FUNCTIONS(FN)                                              \
  FN(GetVersion, 1, (int *))                                                   \
  FN(GetUniqueId, 1, (ncclUniqueId *))                                         \
  FN(CommInitRankConfig, 1,                                                    \
     (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))                   \
  FN(CommSplit, 1, (ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *))       \
  FN(CommFinalize, 1, (ncclComm_t))                                            \
  FN(CommDestroy, 1, (ncclComm_t))                                             \
  FN(CommAbort, 1, (ncclComm_t))                                               \
  FN(CommGetAsyncError, 1, (ncclComm_t, ncclResult_t *))                       \
  FN(CommCount, 1, (ncclComm_t, int *))                                        \
  FN(CommCuDevice, 1, (ncclComm_t, int *))                                     \
  FN(CommUserRank, 1, (ncclComm_t, int *))                                     \
  FN(RedOpCreatePreMulSum, 1,                                                  \
     (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t,            \
      ncclComm_t))                                                             \
  FN(RedOpDestroy, 1, (ncclRedOp_t, ncclComm_t))                               \
  FN(AllReduce, 1,                                                             \
     (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,   \
      cudaStream_t))                                                           \
  FN(Broadcast, 1,                                                             \
     (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,           \
      cudaStream_t))                                                           \
  FN(Reduce, 1,                                                                \
     (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,          \
      ncclComm_t, cudaStream_t))                                               \
  FN(AllGather, 1,                                                             \
     (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)) \
  FN(ReduceScatter, 1,                                                         \
     (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,   \
      cudaStream_t))                                                           \
  FN(Send, 1,                                                                  \
     (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))    \
  FN(Recv, 1, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
  FN(GroupStart, 1, (void))                                                    \
  FN(GroupEnd, 1, (void))                                                      \
  FN(MemAlloc, 0, (void **, size_t))                                           \
  FN(MemFree, 0, (void *))                                                     \
  FN(CommRegister, 0, (ncclComm_t, void *, size_t, void **))                   \
  FN(CommDeregister, 0, (ncclComm_t, void *))                                  \
  FN(CommWindowRegister, 0,                                                    \
     (ncclComm_t, void *, size_t, ncclWindow_t *, int))                        \
  FN(CommWindowDeregister, 0, (ncclComm_t, ncclWindow_t))

typedef struct {
  void *library;
#define DDPRUN_FIELD(name, required, arguments) ncclResult_t(*name) arguments;
  DDPRUN_NCCL_FUNCTIONS(DDPRUN_FIELD)
#undef DDPRUN_FIELD
  const char *(*GetErrorString)(ncclResult_t);
  const char *(*GetLastError)(ncclComm_t);
} ddprun_nccl;

// A communicator's handle lives in C memory: NCCL may store it, from a thread
// of its own, after the call that names the place has returned. The texts that
// the configuration points to live as long.
typedef struct {
  ncclComm_t comm;
  ncclConfig_t config;
  char name[64];
  char net[64];
} ddprun_comm;

// ddprun_open loads the library at path. On failure it returns NULL and a text
// in *why, to be freed by the caller.
ddprun_nccl *ddprun_open(const char *path, char **why);

// ddprun_config fills the configuration of c for a library of this version.
// Zero leaves a value to NCCL.
void ddprun_config(ddprun_comm *c, int version, const char *name,
                   const char *net, int blocking, int cga, int min, int max,
                   int share);

// ddprun_handle reads the handle that NCCL may be about to store.
ncclComm_t ddprun_handle(ddprun_comm *c);

ncclResult_t ddprun_init_rank(const ddprun_nccl *l, ddprun_comm *c, int ranks,
                              const char *id, int rank);
ncclResult_t ddprun_split(const ddprun_nccl *l, ddprun_comm *parent, int color,
                          int key, ddprun_comm *child);
ncclResult_t ddprun_async_error(const ddprun_nccl *l, ddprun_comm *c,
                                ncclResult_t *state);
const char *ddprun_error_string(const ddprun_nccl *l, ncclResult_t r);
const char *ddprun_last_error(const ddprun_nccl *l, ddprun_comm *c);

#define C1(name) ncclResult_t ddprun_##name(const ddprun_nccl *l, ddprun_comm *c
ncclResult_t ddprun_GetVersion(const ddprun_nccl *l, int *version);
ncclResult_t ddprun_GetUniqueId(const ddprun_nccl *l, char *id);
C1(CommFinalize));
C1(CommDestroy));
C1(CommAbort));
C1(CommCount), int *n);
C1(CommCuDevice), int *n);
C1(CommUserRank), int *n);
C1(RedOpCreatePreMulSum), int *op, void *scalar, int type);
C1(RedOpDestroy), int op);
C1(AllReduce), uintptr_t send, uintptr_t recv, size_t n, int type, int op, uintptr_t stream);
C1(Broadcast), uintptr_t send, uintptr_t recv, size_t n, int type, int root, uintptr_t stream);
C1(Reduce), uintptr_t send, uintptr_t recv, size_t n, int type, int op, int root, uintptr_t stream);
C1(AllGather), uintptr_t send, uintptr_t recv, size_t n, int type, uintptr_t stream);
C1(ReduceScatter), uintptr_t send, uintptr_t recv, size_t n, int type, int op, uintptr_t stream);
C1(Send), uintptr_t send, size_t n, int type, int peer, uintptr_t stream);
C1(Recv), uintptr_t recv, size_t n, int type, int peer, uintptr_t stream);
C1(CommRegister), uintptr_t at, size_t n, uintptr_t *handle);
C1(CommDeregister), uintptr_t handle);
C1(CommWindowRegister), uintptr_t at, size_t n, uintptr_t *window, int flags);
C1(CommWindowDeregister), uintptr_t window);
ncclResult_t ddprun_GroupStart(const ddprun_nccl *l);
ncclResult_t ddprun_GroupEnd(const ddprun_nccl *l);
ncclResult_t ddprun_MemAlloc(const ddprun_nccl *l, uintptr_t *at, size_t n);
ncclResult_t ddprun_MemFree(const ddprun_nccl *l, uintptr_t at);
#undef C1

#endif
