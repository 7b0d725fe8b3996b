#!/usr/bin/env python3
"""One line about a run: its losses beside a recorded PyTorch run where there is
one, its last evaluation, its speed. usage: gpu-judge.py RUN_DIR NAME GOLDEN_DIR"""
import json, os, statistics as st, sys

run, name, golden = sys.argv[1:]
rows = [json.loads(l) for l in open(os.path.join(run, "metrics.jsonl"))]
steps = [r for r in rows if r["event"] == "step"]
evals = [r for r in rows if r["event"] == "eval"]
words = []
ref = os.path.join(golden, name.split("-")[0] + ".json")
if os.path.exists(ref):
    want = json.load(open(ref))["steps"]
    same = len(want[0]["loss_per_rank"]) == len(steps[0]["loss_per_rank"])
    off = 0.0
    for s, w in zip(steps, want):
        a, b = (s["loss_per_rank"], w["loss_per_rank"]) if same else ([s["loss"]], [sum(w["loss_per_rank"]) / len(w["loss_per_rank"])])
        if not same and s["step"] == 11:
            break  # the short last batch of the epoch differs in its padding, and all that follows
        off = max([off] + [abs(x - y) for x, y in zip(a, b)])
    words.append(f"losses within {off:.1e} of PyTorch's over {len(steps) if same else 11} steps")
if evals:
    words.append(f"{evals[-1]['correct']} of {evals[-1]['total']} right, loss {evals[-1]['loss']:.4f}")
mid = lambda k: st.median(s[k] for s in steps[len(steps) // 5:])
words.append(f"step {mid('step_ms'):.2f} ms, {mid('samples_per_s'):.0f} samples/s, data {mid('data_ms'):.2f} ms, comm {mid('comm_ms'):.2f} ms, peak {steps[-1]['mem_peak_bytes'] / 2**20:.0f} MiB")
print("; ".join(words))
