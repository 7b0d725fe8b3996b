//go:build cuda

#ifndef DDPRUN_DRIVER_H
#define DDPRUN_DRIVER_H

#include <stddef.h>
#include <stdint.h>

// Handles and addresses are integers here, so that Go code needs no C types of
// CUDA. Each function makes ctx current on its thread and returns a CUresult.

int ddp_launch(uintptr_t ctx, uintptr_t function, const uint32_t *dims, uintptr_t stream, int n, uint64_t *args);
int ddp_memset32(uintptr_t ctx, uint64_t dst, uint32_t value, size_t count, uintptr_t stream);
int ddp_copy_to_device(uintptr_t ctx, uint64_t dst, const void *src, size_t bytes, uintptr_t stream);
int ddp_copy_to_host(uintptr_t ctx, void *dst, uint64_t src, size_t bytes, uintptr_t stream);
int ddp_copy_on_device(uintptr_t ctx, uint64_t dst, uint64_t src, size_t bytes, uintptr_t stream);

int ddp_event_record(uintptr_t ctx, uintptr_t event, uintptr_t stream);
int ddp_event_query(uintptr_t ctx, uintptr_t event);
int ddp_event_wait(uintptr_t ctx, uintptr_t event);
int ddp_stream_wait_event(uintptr_t ctx, uintptr_t stream, uintptr_t event);
int ddp_stream_wait(uintptr_t ctx, uintptr_t stream);

int ddp_host_alloc(uintptr_t ctx, size_t bytes, void **mem, uint64_t *device);
int ddp_module_load(uintptr_t ctx, const char *image, uintptr_t *module, char *log, size_t log_bytes);

int ddp_capture_begin(uintptr_t ctx, uintptr_t stream);
int ddp_capture_end(uintptr_t ctx, uintptr_t stream, uintptr_t *graph, uintptr_t *exec);
int ddp_graph_launch(uintptr_t ctx, uintptr_t exec, uintptr_t stream);
int ddp_graph_free(uintptr_t ctx, uintptr_t graph, uintptr_t exec);

const char *ddp_error_name(int result);
const char *ddp_error_text(int result);

#endif
