//go:build cuda

#ifndef DDPRUN_LT_H
#define DDPRUN_LT_H

#include <stddef.h>
#include <stdint.h>

typedef struct ddp_lt ddp_lt;     // the library and a handle of it
typedef struct ddp_plan ddp_plan; // a problem with its algorithms

// ddp_problem is D = epilogue(op(A) op(B) + beta C), column-major; C has D's
// layout. op(A) is m x k, op(B) is k x n.
typedef struct {
  int32_t trans_a, trans_b;
  uint64_t m, n, k;
  int64_t lda, ldb, ldc;
  int32_t type_ab, type_cd; // cudaDataType
  int32_t compute;          // cublasComputeType_t
  int32_t epilogue;         // cublasLtEpilogue_t
  int64_t aux_ld;
  uint32_t align_a, align_b, align_c, align_d; // bytes
  uint64_t workspace;                          // bytes there are
} ddp_problem;

// ddp_lt_open opens the library; NULL, with the reason in *why (malloc'ed).
ddp_lt *ddp_lt_open(const char *path, char **why);
size_t ddp_lt_version(ddp_lt *lt);
const char *ddp_lt_status(ddp_lt *lt, int status);

// The rest need a current CUDA context. They return a cublasStatus_t.
int ddp_lt_create(ddp_lt *lt, void **handle);
int ddp_lt_destroy(ddp_lt *lt, void *handle);
// ddp_lt_plan asks for up to want algorithms. *plan is NULL when there is none
// (status 15, CUBLAS_STATUS_NOT_SUPPORTED).
int ddp_lt_plan(ddp_lt *lt, void *handle, const ddp_problem *p, int want, ddp_plan **plan, int *found);
int ddp_lt_run(ddp_lt *lt, void *handle, ddp_plan *plan, int which, float beta, uint64_t a, uint64_t b, uint64_t d,
               uint64_t bias, uint64_t aux, uint64_t workspace, size_t bytes, uintptr_t stream);
void ddp_lt_plan_free(ddp_lt *lt, ddp_plan *plan);

#endif
