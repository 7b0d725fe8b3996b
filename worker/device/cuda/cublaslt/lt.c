//go:build cuda

#include "lt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What follows is cublasLt.h, as far as it is used.

typedef struct {
  uint64_t data[8];
} lt_algo;

typedef struct {
  lt_algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_heuristic;

enum {
  STATUS_NOT_SUPPORTED = 15,
  STATUS_ALLOC_FAILED = 3,
  TYPE_R_32F = 0,

  DESC_TRANSA = 3,
  DESC_TRANSB = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS_POINTER = 8,
  DESC_AUX_POINTER = 11,
  DESC_AUX_LD = 12,

  PREF_MAX_WORKSPACE = 1,
  PREF_MIN_ALIGNMENT_A = 5, // then B, C, D

  OP_N = 0,
  OP_T = 1,
};

#define FUNCTIONS(F)                                                                                              \
  F(GetVersion, size_t, (void))                                                                                   \
  F(GetStatusString, const char *, (int))                                                                         \
  F(Create, int, (void **))                                                                                       \
  F(Destroy, int, (void *))                                                                                       \
  F(MatmulDescCreate, int, (void **, int compute, int scale))                                                     \
  F(MatmulDescDestroy, int, (void *))                                                                             \
  F(MatmulDescSetAttribute, int, (void *, int, const void *, size_t))                                             \
  F(MatrixLayoutCreate, int, (void **, int type, uint64_t rows, uint64_t cols, int64_t ld))                       \
  F(MatrixLayoutDestroy, int, (void *))                                                                           \
  F(MatmulPreferenceCreate, int, (void **))                                                                       \
  F(MatmulPreferenceDestroy, int, (void *))                                                                       \
  F(MatmulPreferenceSetAttribute, int, (void *, int, const void *, size_t))                                       \
  F(MatmulAlgoGetHeuristic, int,                                                                                  \
    (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int want, lt_heuristic *, int *))   \
  F(Matmul, int,                                                                                                  \
    (void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,               \
     const void *beta, const void *c, void *lc, void *d, void *ld, const lt_algo *, void *workspace, size_t,      \
     void *stream))

struct ddp_lt {
#define DECLARE(name, result, arguments) result(*name) arguments;
  FUNCTIONS(DECLARE)
#undef DECLARE
};

enum { MAX_ALGOS = 16 };

struct ddp_plan {
  void *desc, *a, *b, *d;
  int found;
  lt_heuristic algos[MAX_ALGOS];
};

static char *because(const char *text) { return strdup(text ? text : "unknown error"); }

ddp_lt *ddp_lt_open(const char *path, char **why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *why = because(dlerror());
    return NULL;
  }
  ddp_lt *lt = calloc(1, sizeof *lt);
  if (!lt) {
    *why = because("out of memory");
    dlclose(library);
    return NULL;
  }
  const char *missing = NULL;
#define LOAD(name, result, arguments)                                                                             \
  *(void **)&lt->name = dlsym(library, "cublasLt" #name);                                                         \
  if (!lt->name && !missing) missing = "cublasLt" #name;
  FUNCTIONS(LOAD)
#undef LOAD
  if (missing) {
    char text[128];
    snprintf(text, sizeof text, "has no function %s: too old, or not cuBLASLt", missing);
    *why = because(text);
    free(lt);
    dlclose(library);
    return NULL;
  }
  return lt;
}

size_t ddp_lt_version(ddp_lt *lt) { return lt->GetVersion(); }
const char *ddp_lt_status(ddp_lt *lt, int status) { return lt->GetStatusString(status); }
int ddp_lt_create(ddp_lt *lt, void **handle) { return lt->Create(handle); }
int ddp_lt_destroy(ddp_lt *lt, void *handle) { return lt->Destroy(handle); }

void ddp_lt_plan_free(ddp_lt *lt, ddp_plan *p) {
  if (!p) return;
  if (p->desc) lt->MatmulDescDestroy(p->desc);
  if (p->a) lt->MatrixLayoutDestroy(p->a);
  if (p->b) lt->MatrixLayoutDestroy(p->b);
  if (p->d) lt->MatrixLayoutDestroy(p->d);
  free(p);
}

#define TRY(call)                                                                                                 \
  do {                                                                                                            \
    int s = (call);                                                                                               \
    if (s) return s;                                                                                              \
  } while (0)

// layout makes the layout of a matrix that is rows x cols once trans is
// applied.
static int layout(ddp_lt *lt, void **out, int type, int trans, uint64_t rows, uint64_t cols, int64_t ld) {
  return lt->MatrixLayoutCreate(out, type, trans ? cols : rows, trans ? rows : cols, ld);
}

static int describe(ddp_lt *lt, const ddp_problem *p, ddp_plan *plan) {
  int32_t ta = p->trans_a ? OP_T : OP_N, tb = p->trans_b ? OP_T : OP_N;
  TRY(lt->MatmulDescCreate(&plan->desc, p->compute, TYPE_R_32F));
  TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_TRANSA, &ta, sizeof ta));
  TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_TRANSB, &tb, sizeof tb));
  TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue));
  if (p->aux_ld) TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_AUX_LD, &p->aux_ld, sizeof p->aux_ld));
  TRY(layout(lt, &plan->a, p->type_ab, p->trans_a, p->m, p->k, p->lda));
  TRY(layout(lt, &plan->b, p->type_ab, p->trans_b, p->k, p->n, p->ldb));
  return layout(lt, &plan->d, p->type_cd, 0, p->m, p->n, p->ldc);
}

static int choose(ddp_lt *lt, void *handle, const ddp_problem *p, void *pref, int want, ddp_plan *plan) {
  uint32_t align[4] = {p->align_a, p->align_b, p->align_c, p->align_d};
  TRY(lt->MatmulPreferenceSetAttribute(pref, PREF_MAX_WORKSPACE, &p->workspace, sizeof p->workspace));
  for (int i = 0; i < 4; i++)
    TRY(lt->MatmulPreferenceSetAttribute(pref, PREF_MIN_ALIGNMENT_A + i, &align[i], sizeof align[i]));
  return lt->MatmulAlgoGetHeuristic(handle, plan->desc, plan->a, plan->b, plan->d, plan->d, pref, want, plan->algos,
                                    &plan->found);
}

int ddp_lt_plan(ddp_lt *lt, void *handle, const ddp_problem *p, int want, ddp_plan **out, int *found) {
  *out = NULL;
  *found = 0;
  ddp_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return STATUS_ALLOC_FAILED;
  if (want > MAX_ALGOS) want = MAX_ALGOS;
  int s = describe(lt, p, plan);
  void *pref = NULL;
  if (!s) s = lt->MatmulPreferenceCreate(&pref);
  if (!s) s = choose(lt, handle, p, pref, want, plan);
  if (pref) lt->MatmulPreferenceDestroy(pref);
  // Results are in order of expected time; those of another state are void.
  int good = 0;
  for (int i = 0; !s && i < plan->found; i++)
    if (plan->algos[i].state == 0) plan->algos[good++] = plan->algos[i];
  if (!s && good == 0) s = STATUS_NOT_SUPPORTED;
  if (s) {
    ddp_lt_plan_free(lt, plan);
    return s;
  }
  plan->found = *found = good;
  *out = plan;
  return 0;
}

int ddp_lt_run(ddp_lt *lt, void *handle, ddp_plan *plan, int which, float beta, uint64_t a, uint64_t b, uint64_t d,
               uint64_t bias, uint64_t aux, uint64_t workspace, size_t bytes, uintptr_t stream) {
  float alpha = 1;
  if (bias) TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_BIAS_POINTER, &bias, sizeof bias));
  if (aux) TRY(lt->MatmulDescSetAttribute(plan->desc, DESC_AUX_POINTER, &aux, sizeof aux));
  return lt->Matmul(handle, plan->desc, &alpha, (void *)a, plan->a, (void *)b, plan->b, &beta, (void *)d, plan->d,
                    (void *)d, plan->d, &plan->algos[which].algo, (void *)workspace, bytes, (void *)stream);
}
