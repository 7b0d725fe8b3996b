#!/usr/bin/env bash
# Runs the GPU tests of worker/device/cuda on the emulator (see its README.md),
# on a machine without a GPU.
#
#   scripts/cuda-emulate.sh [flags of a Go test binary: -test.run ... -test.v]
set -euo pipefail
cd "$(dirname "$0")/.."
emulator=worker/device/cuda/emulator
kernels=worker/device/cuda/kernels
work=${EMULATOR_DIR:-$(mktemp -d)}
mkdir -p "$work"
cxx="${CXX:-g++} -std=c++17 -O2 -fPIC -w -I$emulator -I$kernels"

objects=()
for source in "$kernels"/*.cu; do
  name=$(basename "$source" .cu)
  unit=$work/$name.cc
  {
    echo '#include "device.h"'
    echo "#include \"$name.cu\""
    echo 'static int registered = ('
    grep -oE '\.entry [a-zA-Z0-9_]+' "$kernels/$name.ptx" | awk '{print "  emu::reg(\"" $2 "\", " $2 "),"}'
    echo '  0);'
  } >"$unit.new"
  cmp -s "$unit.new" "$unit" || cp "$unit.new" "$unit"
  object=$work/$name.o
  if [ ! -e "$object" ] || [ "$source" -nt "$object" ] || [ "$unit" -nt "$object" ] || [ "$emulator/device.h" -nt "$object" ]; then
    $cxx -c "$unit" -o "$object"
  fi
  objects+=("$object")
done
for part in block driver; do
  $cxx -c "$emulator/$part.cc" -o "$work/$part.o"
  objects+=("$work/$part.o")
done
$cxx -shared -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" "${objects[@]}" -lpthread
$cxx -shared -o "$work/libcublasLt.so" "$emulator/cublaslt.cc" -L"$work" -l:libcuda.so.1

go test -c -tags cuda -o "$work/cuda.test" ./worker/device/cuda
cd worker/device/cuda
LD_LIBRARY_PATH=$work DDPRUN_CUBLASLT=$work/libcublasLt.so exec "$work/cuda.test" -test.short "$@"
