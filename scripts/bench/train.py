#!/usr/bin/python3
"""Training throughput of ddprun beside PyTorch DDP over gloo, in one run.

usage: scripts/bench/train.py [--launches 3] [--seconds 8] [--ranks 1,2,4] [--models mlp,gpt]

Launches of the two alternate, one thread a rank. Rates are medians over the
launches, each the median over its steps (ddprun) or rounds (PyTorch). Memory is
the largest resident set of any rank. PyTorch is Debian's python3-torch; its
torchrun does not start under Python 3.11, so ranks are started by ddprun.
"""
import argparse, json, os, statistics as st, subprocess, tempfile

ap = argparse.ArgumentParser()
ap.add_argument("--launches", type=int, default=3)
ap.add_argument("--seconds", type=float, default=8)
ap.add_argument("--ranks", default="1,2,4")
ap.add_argument("--models", default="mlp,gpt")
a = ap.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", PYTHON_EXEC="/usr/bin/python3")
subprocess.run(["go", "build", "-o", "bin/ddprun", "./cmd/ddprun"], cwd=root, check=True)
exe = os.path.join(root, "bin", "ddprun")
unit = {"mlp": ("samples/s", 1), "gpt": ("tokens/s", 128)}


def ours(model, ranks, blas):
    with tempfile.TemporaryDirectory() as logs:
        # as many steps as fill the time, from a short run's rate
        def run(steps):
            rid = f"r{steps}"
            subprocess.run([exe, "--log-dir", logs, "--rdzv-id", rid, "--nproc-per-node", str(ranks), "--set", f"train.steps={steps}",
                            os.path.join(here, model + ".yaml")], env=dict(env, DDPRUN_BLAS=blas), check=True, capture_output=True)
            rows = [json.loads(l) for l in open(os.path.join(logs, rid, "metrics.jsonl"))]
            s = json.load(open(os.path.join(logs, rid, "summary.json")))
            return rows[len(rows) // 5:], max(r["max_rss_bytes"] for r in s["attempts"][0]["ranks"])
        rows, _ = run(20)
        ms = st.median(r["step_ms"] for r in rows)
        rows, rss = run(max(30, int(a.seconds * 1000 / ms)))
    mid = lambda k: st.median(r[k] for r in rows)
    return dict(rate=mid("samples_per_s") * unit[model][1], ms=mid("step_ms"), comm=mid("comm_ms"), rss=rss)


def torch(model, ranks):
    script = os.path.join(here, "torch_ddp.py")
    with tempfile.TemporaryDirectory() as logs:
        out = subprocess.run([exe, "--log-dir", logs, "--nproc-per-node", str(ranks), script, model, str(a.seconds)],
                             env=env, check=True, capture_output=True, text=True).stdout
    line = next(l[l.index("{"):] for l in out.splitlines() if "{" in l)
    d = json.loads(line)
    return dict(rate=d["rate"], ms=d["step_ms"], comm=None, rss=max(d["rss_mib"]) * (1 << 20))


rows = {}
for launch in range(a.launches):
    for model in a.models.split(","):
        for ranks in map(int, a.ranks.split(",")):
            for who, f in (("PyTorch", lambda: torch(model, ranks)), ("ddprun, OpenBLAS", lambda: ours(model, ranks, "openblas")),
                           ("ddprun, own kernel", lambda: ours(model, ranks, "avx2"))):
                rows.setdefault((model, ranks, who), []).append(f())
print("load", open("/proc/loadavg").read().strip())
print("| model | ranks | who | rate | range | step ms | waiting for gradients ms | MiB a rank |")
print("| --- | --- | --- | --- | --- | --- | --- | --- |")
for (model, ranks, who), ds in rows.items():
    r = sorted(d["rate"] for d in ds)
    comm = "" if ds[0]["comm"] is None else f"{st.median(d['comm'] for d in ds):.2f}"
    print(f"| {model} | {ranks} | {who} | {st.median(r):,.0f} {unit[model][0]} | {r[0]:,.0f} to {r[-1]:,.0f} | {st.median(d['ms'] for d in ds):.2f} | {comm} | {max(d['rss'] for d in ds) / (1 << 20):.0f} |")
