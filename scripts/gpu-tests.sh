#!/usr/bin/env bash
# Runs the GPU tests that `make gpu-pack` built, on a machine with a GPU, and
# prints a short table. Whole logs go to $OUT (default: gpu-logs).
#
#   scripts/gpu-tests.sh [-r REGEXP] [NAME ...]
#
# NAME is a part of a test binary's name; without one, all run. -r chooses tests
# in them. GPU_TEST_LIMIT is the time of one binary, in seconds (default 240).
set -uo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.gpu
out=${OUT:-gpu-logs}
mkdir -p "$out"
out=$(realpath "$out")
limit=${GPU_TEST_LIMIT:-240}
run=.
while getopts r: flag; do
  case $flag in
  r) run=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))

# Ranks on one machine find each other over the loopback.
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
export HOME=${HOME:-/tmp}

nvidia-smi --query-gpu=index,name,memory.used,memory.total,driver_version --format=csv,noheader 2>&1 | head -8
status=0

# report prints one line of the table; after a failure, what the log says.
report() { # verdict name seconds details log
  printf '%-5s %-34s %5ss  %s\n' "$1" "$2" "$3" "$4"
  if [ "$1" = FAIL ]; then
    status=1
    failures "$5"
  fi
}

# failures shows each failed test without failed subtests, with its first
# messages; and the end of a log that no test's failure explains.
failures() {
  if ! grep -q -- '--- FAIL' "$1" || grep -qE '^(panic:|fatal error:|SIG|emulator:)' "$1"; then
    tail -20 "$1" | cut -c1-300 | sed 's/^/      /'
  fi
  awk -v most=3 '
    /^=== (RUN|NAME|CONT) / { test = $3; next }
    /^ *--- FAIL: / { failed[++n] = $3; next }
    /^ *--- |^(PASS|FAIL|ok|exit status)/ { next }
    test != "" && said[test]++ < most { message[test] = message[test] "\n        " substr($0, 1, 240) }
    END {
      for (i = 1; i <= n; i++) {
        leaf = 1
        for (k = 1; k <= n; k++) if (index(failed[k], failed[i] "/") == 1) leaf = 0
        if (leaf && ++shown <= 25) print "      " failed[i] message[failed[i]]
      }
      if (shown > 25) print "      ... and " shown - 25 " more"
    }' "$1"
}

wanted() {
  [ ${#names[@]} -eq 0 ] && return 0
  local n
  for n in "${names[@]}"; do [[ $1 == *"$n"* ]] && return 0; done
  return 1
}
names=("$@")

if [ ${#names[@]} -eq 0 ]; then
  log=$out/device.log
  start=$SECONDS
  verdict=PASS
  timeout 120 "$bin/ddpworker" device >"$log" 2>&1 || verdict=FAIL
  report "$verdict" "ddpworker device" $((SECONDS - start)) "$(tail -1 "$log" | cut -c1-150)" "$log"
fi

for test in "$bin"/*.test; do
  name=$(basename "$test" .test)
  dir=${name//__//}
  wanted "$dir" || continue
  log=$out/$name.log
  start=$SECONDS
  verdict=PASS
  (cd "$dir" && timeout -k 10 "$limit" "$test" -test.v -test.run "$run" -test.timeout "$((limit - 5))s") >"$log" 2>&1 || verdict=FAIL
  count() { grep -cE -- "^ *--- $1" "$log"; }
  report "$verdict" "$dir" $((SECONDS - start)) "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped" "$log"
done

# Does the binding compile against this machine's CUDA headers? It is built
# elsewhere, so a refusal here is no failure of the tests.
header=$(ls -d /usr/local/cuda*/include/cuda.h /opt/*/.venv/lib/python3*/site-packages/nvidia/*/include/cuda.h 2>/dev/null | head -1)
if [ ${#names[@]} -eq 0 ] && [ -n "$header" ] && [ -d "$bin/compat" ]; then
  log=$out/compat.log
  : >"$log"
  good=0 bad=0
  for c in "$bin"/compat/*.c; do
    if gcc -fsyntax-only -w -I"$bin/compat/front" -I"$bin/compat" -I"$(dirname "$header")" "$c" >>"$log" 2>&1; then good=$((good + 1)); else bad=$((bad + 1)); fi
  done
  version=$(grep -m1 -oE '#define CUDA_VERSION [0-9]+' "$header" | grep -oE '[0-9]+$')
  if [ $bad -eq 0 ]; then verdict=PASS; else verdict=NOTE; fi
  report "$verdict" "cuda.h $version" 0 "$good files compile, $bad do not" "$log"
  [ $bad -gt 0 ] && grep -E 'error:' "$log" | sed 's|.*/compat/||' | sort -u | head -12 | cut -c1-200 | sed 's/^/      /'
fi
exit $status
