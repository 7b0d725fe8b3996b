//go:build cgo

package nccl

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "raw_linux.h"
import "C"

import (
	"errors"
	"unsafe"
)

// api is the table of the library's functions, in C memory for the life of the
// process: NCCL's threads do not allow it to be unloaded.
type api struct{ c *C.ddprun_nccl }

// openAPI loads the library at path, a file or a bare name.
func openAPI(path string) (api, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why *C.char
	if c := C.ddprun_open(name, &why); c != nil {
		return api{c}, nil
	}
	defer C.free(unsafe.Pointer(why))
	return api{}, errors.New(C.GoString(why))
}

// rawComm is a communicator's place in C memory.
type rawComm struct{ c *C.ddprun_comm }

func newRawComm(version Version, cfg Config) rawComm {
	c := (*C.ddprun_comm)(C.calloc(1, C.sizeof_ddprun_comm)) // calloc's wrapper never returns nil
	name, net := C.CString(cfg.Name), C.CString(cfg.Net)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(net))
	C.ddprun_config(c, C.int(version), name, net, number(cfg.Blocking), C.int(cfg.CGAClusterSize), C.int(cfg.MinCTAs), C.int(cfg.MaxCTAs), number(cfg.SplitShare))
	return rawComm{c}
}

func number(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (r rawComm) free()        { C.free(unsafe.Pointer(r.c)) }
func (r rawComm) exists() bool { return C.ddprun_handle(r.c) != nil }

func (a api) hasMemAlloc() bool { return a.c.MemAlloc != nil && a.c.MemFree != nil }
func (a api) hasRegister() bool { return a.c.CommRegister != nil && a.c.CommDeregister != nil }
func (a api) hasWindow() bool {
	return a.c.CommWindowRegister != nil && a.c.CommWindowDeregister != nil
}

func (a api) lastError(r *rawComm) string {
	if a.c.GetLastError == nil {
		return ""
	}
	if r == nil {
		return C.GoString(C.ddprun_last_error(a.c, nil))
	}
	return C.GoString(C.ddprun_last_error(a.c, r.c))
}

func (a api) errorString(r Result) string {
	return C.GoString(C.ddprun_error_string(a.c, C.ncclResult_t(r)))
}

func (a api) getVersion() (Version, Result) {
	var v C.int
	r := C.ddprun_GetVersion(a.c, &v)
	return Version(v), Result(r)
}

func (a api) getUniqueID(id *UniqueID) Result {
	return Result(C.ddprun_GetUniqueId(a.c, (*C.char)(unsafe.Pointer(id))))
}

func (a api) groupStart() Result { return Result(C.ddprun_GroupStart(a.c)) }
func (a api) groupEnd() Result   { return Result(C.ddprun_GroupEnd(a.c)) }

func (a api) memAlloc(n int) (uintptr, Result) {
	var at C.uintptr_t
	r := C.ddprun_MemAlloc(a.c, &at, C.size_t(n))
	return uintptr(at), Result(r)
}

func (a api) memFree(at uintptr) Result { return Result(C.ddprun_MemFree(a.c, C.uintptr_t(at))) }

func (a api) commInitRank(r rawComm, ranks int, id *UniqueID, rank int) Result {
	return Result(C.ddprun_init_rank(a.c, r.c, C.int(ranks), (*C.char)(unsafe.Pointer(id)), C.int(rank)))
}

func (a api) commSplit(parent rawComm, color, key int, child rawComm) Result {
	return Result(C.ddprun_split(a.c, parent.c, C.int(color), C.int(key), child.c))
}

func (a api) commGetAsyncError(r rawComm) (state, result Result) {
	var s C.ncclResult_t
	res := C.ddprun_async_error(a.c, r.c, &s)
	return Result(s), Result(res)
}

func (a api) commFinalize(r rawComm) Result { return Result(C.ddprun_CommFinalize(a.c, r.c)) }
func (a api) commDestroy(r rawComm) Result  { return Result(C.ddprun_CommDestroy(a.c, r.c)) }
func (a api) commAbort(r rawComm) Result    { return Result(C.ddprun_CommAbort(a.c, r.c)) }

func (a api) commCount(r rawComm) (int, Result) {
	var n C.int
	res := C.ddprun_CommCount(a.c, r.c, &n)
	return int(n), Result(res)
}

func (a api) commCuDevice(r rawComm) (int, Result) {
	var n C.int
	res := C.ddprun_CommCuDevice(a.c, r.c, &n)
	return int(n), Result(res)
}

func (a api) commUserRank(r rawComm) (int, Result) {
	var n C.int
	res := C.ddprun_CommUserRank(a.c, r.c, &n)
	return int(n), Result(res)
}

func (a api) redOpCreatePreMulSum(r rawComm, scalar []byte, t DataType) (Op, Result) {
	at := C.CBytes(scalar)
	defer C.free(at)
	var op C.int
	res := C.ddprun_RedOpCreatePreMulSum(a.c, r.c, &op, at, C.int(t))
	return Op(op), Result(res)
}

func (a api) redOpDestroy(r rawComm, op Op) Result {
	return Result(C.ddprun_RedOpDestroy(a.c, r.c, C.int(op)))
}

func (a api) allReduce(r rawComm, send, recv uintptr, n int, t DataType, op Op, stream uintptr) Result {
	return Result(C.ddprun_AllReduce(a.c, r.c, C.uintptr_t(send), C.uintptr_t(recv), C.size_t(n), C.int(t), C.int(op), C.uintptr_t(stream)))
}

func (a api) broadcast(r rawComm, send, recv uintptr, n int, t DataType, root int, stream uintptr) Result {
	return Result(C.ddprun_Broadcast(a.c, r.c, C.uintptr_t(send), C.uintptr_t(recv), C.size_t(n), C.int(t), C.int(root), C.uintptr_t(stream)))
}

func (a api) reduce(r rawComm, send, recv uintptr, n int, t DataType, op Op, root int, stream uintptr) Result {
	return Result(C.ddprun_Reduce(a.c, r.c, C.uintptr_t(send), C.uintptr_t(recv), C.size_t(n), C.int(t), C.int(op), C.int(root), C.uintptr_t(stream)))
}

func (a api) allGather(r rawComm, send, recv uintptr, n int, t DataType, stream uintptr) Result {
	return Result(C.ddprun_AllGather(a.c, r.c, C.uintptr_t(send), C.uintptr_t(recv), C.size_t(n), C.int(t), C.uintptr_t(stream)))
}

func (a api) reduceScatter(r rawComm, send, recv uintptr, n int, t DataType, op Op, stream uintptr) Result {
	return Result(C.ddprun_ReduceScatter(a.c, r.c, C.uintptr_t(send), C.uintptr_t(recv), C.size_t(n), C.int(t), C.int(op), C.uintptr_t(stream)))
}

func (a api) send(r rawComm, send uintptr, n int, t DataType, peer int, stream uintptr) Result {
	return Result(C.ddprun_Send(a.c, r.c, C.uintptr_t(send), C.size_t(n), C.int(t), C.int(peer), C.uintptr_t(stream)))
}

func (a api) recv(r rawComm, recv uintptr, n int, t DataType, peer int, stream uintptr) Result {
	return Result(C.ddprun_Recv(a.c, r.c, C.uintptr_t(recv), C.size_t(n), C.int(t), C.int(peer), C.uintptr_t(stream)))
}

func (a api) commRegister(r rawComm, at uintptr, n int) (uintptr, Result) {
	var h C.uintptr_t
	res := C.ddprun_CommRegister(a.c, r.c, C.uintptr_t(at), C.size_t(n), &h)
	return uintptr(h), Result(res)
}

func (a api) commDeregister(r rawComm, handle uintptr) Result {
	return Result(C.ddprun_CommDeregister(a.c, r.c, C.uintptr_t(handle)))
}

func (a api) commWindowRegister(r rawComm, at uintptr, n, flags int) (uintptr, Result) {
	var w C.uintptr_t
	res := C.ddprun_CommWindowRegister(a.c, r.c, C.uintptr_t(at), C.size_t(n), &w, C.int(flags))
	return uintptr(w), Result(res)
}

func (a api) commWindowDeregister(r rawComm, window uintptr) Result {
	return Result(C.ddprun_CommWindowDeregister(a.c, r.c, C.uintptr_t(window)))
}
