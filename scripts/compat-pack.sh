#!/usr/bin/env bash
# Writes the C that cgo makes of gorgonia.org/cu, and the headers that adapt it
# to CUDA 13, into a folder: `gcc -fsyntax-only` with another CUDA's headers
# then tells whether it compiles there.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1"
out=$(realpath "$1")
module=$(go list -m -f '{{.Dir}}' gorgonia.org/cu)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t files < <(go list -tags cuda -f '{{range .CgoFiles}}{{.}}{{"\n"}}{{end}}' gorgonia.org/cu | sed '/^$/d')
(cd "$module" && go tool cgo -objdir "$work" -importpath gorgonia.org/cu -- -I"$module" "${files[@]}" >/dev/null)
cp "$work"/*.cgo2.c "$work"/_cgo_export.h "$out/"
cp "$module"/*.h "$out/"
cp worker/device/cuda/driver/driver.[ch] "$out/"
mkdir -p "$out/front"
cp worker/device/cuda/compat/*.h "$out/front/"
