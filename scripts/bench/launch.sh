#!/usr/bin/env bash
# Start-up of four ranks to their first 1 MiB all-reduce, beside mpirun and
# torchrun. usage: scripts/bench/launch.sh FOLDER, where FOLDER holds
# hello_mpi (C: MPI_Init, a 1 MiB all-reduce, finalize), hello_init.py (gloo, the
# same) and a torchrun. Needs hyperfine.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "${1:?folder with hello_mpi, hello_init.py and torchrun}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1
go build -C "$here" -o bin/ddprun ./cmd/ddprun
for _ in 1 2 3; do
  "$here/bin/ddprun" bench allreduce --nproc-per-node 4 --startup --json | tail -1
  hyperfine -N -r 3 -w 1 "mpirun -np 4 ./hello_mpi 1" "./torchrun --monitor_interval 0.1 --nproc_per_node=4 hello_init.py" \
    "$here/bin/ddprun --nproc-per-node 4 --log-dir /tmp/ddprun-bench -- /bin/true"
done
