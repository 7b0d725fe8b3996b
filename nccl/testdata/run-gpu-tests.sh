#!/bin/sh
# Runs the NCCL tests on a machine with one GPU and no Go. Built beforehand:
#   go test -c -tags cuda -o DIR/nccl.test ./nccl
#   go test -c -tags cuda -o DIR/ncclgroup.test ./collective/ncclgroup
# Usage: run-gpu-tests.sh DIR [RANKS]
# The group's tests start RANKS processes at most (2 to 8), all on the one GPU,
# each with a NCCL_HOSTID of its own. Processes that share a GPU take turns, so
# more ranks take much longer.
set -u
dir=$(cd "$1" && pwd)
export DDPRUN_NCCL_TEST_RANKS="${2:-2}"
export NCCL_SOCKET_IFNAME=lo
failed=0
run() {
	name=$1 limit=$2
	shift 2
	begin=$(date +%s)
	log=$(mktemp)
	if timeout "$limit" "$@" -test.v >"$log" 2>&1; then verdict=ok; else verdict="FAIL ($?)" failed=1; fi
	echo "$name: $verdict, $(($(date +%s) - begin)) s"
	grep -E '_test.go:|panic|warning:' "$log" | head -n 40
	[ "$verdict" = ok ] || { grep -E '^ *--- FAIL' "$log" | head -n 20; tail -n 15 "$log"; }
	rm -f "$log"
}
run "libnccl" 60 "$dir/nccl.test" -test.run GPU
run "overhead" 60 "$dir/ncclgroup.test" -test.run GPUOverhead
run "killed rank" 120 "$dir/ncclgroup.test" -test.run GPUKilledRank
run "missing rank" 120 "$dir/ncclgroup.test" -test.run GPUMissingRank
run "suite, device buffers" 400 "$dir/ncclgroup.test" -test.run GPUSuiteOnDeviceBuffers
run "suite, host buffers" 400 "$dir/ncclgroup.test" -test.run GPUSuiteOnHostBuffers
exit $failed
