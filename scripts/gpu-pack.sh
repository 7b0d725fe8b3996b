#!/usr/bin/env bash
# Builds what a GPU machine without Go needs into .gpu/: ddprun, ddpworker and a
# test binary of every package that has GPU tests. `make gpu-pack` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
out=.gpu
mkdir -p "$out"
rm -f "$out"/*.test
strip=(-trimpath -ldflags "-s -w")

go build "${strip[@]}" -o "$out/ddprun" ./cmd/ddprun
go build "${strip[@]}" -tags cuda -o "$out/ddpworker" ./cmd/ddpworker

# A package has GPU tests when one of its test files has the build tag cuda.
grep -rl --include='*_test.go' '^//go:build cuda' . | xargs -n1 dirname | sort -u | sed 's|^\./||' |
while read -r dir; do
  go test -c "${strip[@]}" -tags cuda -o "$out/${dir//\//__}.test" "./$dir"
done

# gorgonia.org/cu's calls as cgo writes them, to be compiled against the
# headers of the GPU machine's CUDA.
scripts/compat-pack.sh "$out/compat"

cp scripts/gpu-tests.sh "$out/"
du -ch "$out"/* | sed 's/^/  /'
