#!/usr/bin/env bash
# Trains on a GPU what `make gpu-pack` has packed and compares with recorded
# PyTorch runs; prints a short table. Logs go to $OUT (default: gpu-logs).
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-gpu-logs}
mkdir -p "$out"
export DDPRUN_WORKER=$PWD/.gpu/ddpworker NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
golden=cmd/ddprun/testdata/golden
runs=$(mktemp -d)

# train NAME JOB [FLAGS]: one run on the GPU, whose metrics are then judged.
train() {
  local name=$1 job=$2 start=$SECONDS
  shift 2
  timeout 150 .gpu/ddprun --log-dir "$runs" --rdzv-id "$name" --set device=cuda "$job" "$@" >"$out/$name.log" 2>&1
  local rc=$?
  printf '%-22s rc %-3s %4ss  ' "$name" $rc $((SECONDS - start))
  if [ $rc -ne 0 ]; then
    echo
    tail -8 "$out/$name.log" | cut -c1-220 | sed 's/^/      /'
    return
  fi
  python3 scripts/gpu-judge.py "$runs/$name" "$name" "$golden"
}

train mlp_digits-1 $golden/mlp_digits.yaml --nproc-per-node 1 --set train.batch_size=128
train mlp_digits-2 $golden/mlp_digits.yaml --nproc-per-node 2 --set train.batch_size=64
train mlp_digits $golden/mlp_digits.yaml --nproc-per-node 4
train gpt_bytes $golden/gpt_bytes.yaml --nproc-per-node 2
train digits examples/digits.yaml --nproc-per-node 1 --set train.batch_size=128
train digits-cnn examples/digits-cnn.yaml --nproc-per-node 1
train gpt-bytes examples/gpt-bytes.yaml --nproc-per-node 1
train bench-mlp scripts/bench/mlp.yaml --nproc-per-node 1
train bench-gpt scripts/bench/gpt.yaml --nproc-per-node 1
rm -rf "$runs"
