//go:build !linux || !cgo

package nccl

import "errors"

// api without cgo: openAPI fails, so that no method is ever reached.
type api struct{}

var errBuild = errors.New("this binary cannot open it: NCCL needs a Linux build with cgo (CGO_ENABLED=1)")

func openAPI(string) (api, error) { return api{}, errBuild }

type rawComm struct{}

func newRawComm(Version, Config) rawComm { return rawComm{} }

func (rawComm) free()        {}
func (rawComm) exists() bool { return false }

func (api) hasMemAlloc() bool              { return false }
func (api) hasRegister() bool              { return false }
func (api) hasWindow() bool                { return false }
func (api) lastError(*rawComm) string      { return "" }
func (api) errorString(Result) string      { return "" }
func (api) getVersion() (Version, Result)  { return 0, SystemError }
func (api) getUniqueID(*UniqueID) Result   { return SystemError }
func (api) groupStart() Result             { return SystemError }
func (api) groupEnd() Result               { return SystemError }
func (api) memAlloc(int) (uintptr, Result) { return 0, SystemError }
func (api) memFree(uintptr) Result         { return SystemError }
func (api) commInitRank(rawComm, int, *UniqueID, int) Result {
	return SystemError
}

func (api) commSplit(rawComm, int, int, rawComm) Result {
	return SystemError
}

func (api) commGetAsyncError(rawComm) (state, result Result) {
	return SystemError, SystemError
}
func (api) commFinalize(rawComm) Result        { return SystemError }
func (api) commDestroy(rawComm) Result         { return SystemError }
func (api) commAbort(rawComm) Result           { return SystemError }
func (api) commCount(rawComm) (int, Result)    { return 0, SystemError }
func (api) commCuDevice(rawComm) (int, Result) { return 0, SystemError }
func (api) commUserRank(rawComm) (int, Result) { return 0, SystemError }
func (api) redOpCreatePreMulSum(rawComm, []byte, DataType) (Op, Result) {
	return 0, SystemError
}
func (api) redOpDestroy(rawComm, Op) Result { return SystemError }
func (api) allReduce(rawComm, uintptr, uintptr, int, DataType, Op, uintptr) Result {
	return SystemError
}

func (api) broadcast(rawComm, uintptr, uintptr, int, DataType, int, uintptr) Result {
	return SystemError
}

func (api) reduce(rawComm, uintptr, uintptr, int, DataType, Op, int, uintptr) Result {
	return SystemError
}

func (api) allGather(rawComm, uintptr, uintptr, int, DataType, uintptr) Result {
	return SystemError
}

func (api) reduceScatter(rawComm, uintptr, uintptr, int, DataType, Op, uintptr) Result {
	return SystemError
}

func (api) send(rawComm, uintptr, int, DataType, int, uintptr) Result {
	return SystemError
}

func (api) recv(rawComm, uintptr, int, DataType, int, uintptr) Result {
	return SystemError
}

func (api) commRegister(rawComm, uintptr, int) (uintptr, Result) {
	return 0, SystemError
}
func (api) commDeregister(rawComm, uintptr) Result { return SystemError }
func (api) commWindowRegister(rawComm, uintptr, int, int) (uintptr, Result) {
	return 0, SystemError
}
func (api) commWindowDeregister(rawComm, uintptr) Result { return SystemError }
