// A stand-in for NVIDIA's management library: two GPUs of an H200 kind, the
// second in poor health. FAKE_MODE makes it misbehave instead.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } pci;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned char uuid[16]; int status; unsigned clique; unsigned char state; } fabric;

static int nr(void *h) { return (int)(size_t)h - 1; }
static int mode(const char *m) { const char *v = getenv("FAKE_MODE"); return v && !strcmp(v, m); }

int nvmlInit_v2(void) {
  if (mode("crash")) *(volatile int *)8 = 1;
  if (mode("abort")) abort();
  if (mode("exit")) { fputs("driver says no\nand more\n", stderr); exit(9); }
  if (mode("hang")) for (;;) sleep(1);
  if (mode("babble")) { puts("hello from the driver"); fflush(stdout); }
  if (mode("silent")) _exit(0);
  if (mode("unloaded")) return 9;
  return 0;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int r) { return r == 15 ? "GPU is lost" : "other"; }
int nvmlSystemGetDriverVersion(char *b, unsigned n) { snprintf(b, n, "550.54.15"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if (i == 2) return 15;
  *h = (void *)(size_t)(i + 1);
  return 0;
}
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) {
  if (nr(h) >= 100) snprintf(b, n, "MIG-%d", nr(h) - 100); else snprintf(b, n, "GPU-%08x", nr(h));
  return 0;
}
int nvmlDeviceGetName(void *h, char *b, unsigned n) { (void)h; snprintf(b, n, "H200"); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, pci *p) { memset(p, 0, sizeof *p); snprintf(p->bus_id, 32, "00000000:%02X:00.0", 0x1a + nr(h)); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory *m) { m->total = 140ull << 30; m->used = (unsigned long long)(1 + nr(h)) << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process *p) {
  unsigned room = *n;
  *n = nr(h) == 1;
  if (*n > room) return 7;
  if (*n) { p[0].pid = 1; p[0].used = ~0ull; }
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { (void)h; *a = 9; *b = 0; return 0; }
int nvmlDeviceGetComputeMode(void *h, unsigned *m) { *m = nr(h) ? 3 : 0; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, unsigned *m) { *m = nr(h) == 0; return 0; }
int nvmlDeviceGetMigMode(void *h, unsigned *c, unsigned *p) { *c = *p = nr(h) == 1; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { (void)h; *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **m) { (void)h; if (i != 0 && i != 2) return 6; *m = (void *)(size_t)(101 + i); return 0; }
int nvmlDeviceGetEccMode(void *h, unsigned *c, unsigned *p) { (void)h; *c = *p = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *n) { (void)counter; *n = nr(h) ? (kind == 1 ? 2 : 40) : 0; return 0; }
int nvmlDeviceGetRemappedRows(void *h, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) { *c = *u = 0; *pending = nr(h) == 1; *failed = 0; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *m) { *m = nr(h) ? 64 | 4 : 1; return 0; }
int nvmlDeviceGetTemperature(void *h, int s, unsigned *t) { (void)s; *t = nr(h) ? 91 : 30; return 0; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *w) { (void)h; *w = 75500; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *w) { (void)h; *w = 700000; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *w) { *w = nr(h) ? 8 : 16; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *w) { (void)h; *w = 16; return 0; }
int nvmlDeviceGetNvLinkState(void *h, unsigned l, unsigned *s) { if (l >= 18) return 2; *s = !(nr(h) == 1 && l == 17); return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *h, unsigned l, unsigned *t) { (void)h; (void)l; *t = 2; return 0; }
int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *s) { (void)a; (void)b; (void)what; *s = 0; return 0; }
int nvmlDeviceGetGpuFabricInfo(void *h, fabric *f) { memset(f, 0, sizeof *f); f->state = nr(h) ? 2 : 3; return 0; }
