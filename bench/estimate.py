"""estimate.py [--json] [--seconds=N]: steps on this processor, predicted and measured.

bench/estimate.c learns rates from the small models of src/plan/calibrate.c and predicts the ten runs
below, which have other shapes; then it runs them, one thread, N seconds each (1 by default), and the least
processor time counts. A step must be predicted within 15 %, memory to the byte: `plan` is the plan's own
compilation, `used` the highest byte that a kernel changed.
"""
import json
import subprocess
import sys

import common

TEXT = "data.path=build/bench/text.txt"
RUNS = {
    "gpt 6x384, 8 x 256": ["bench/cpu/gpt.yaml", TEXT],
    "gpt example": ["examples/gpt.yaml", TEXT],
    "gpt example, bf16": ["examples/gpt.yaml", TEXT, "train.precision=bf16"],
    "gpt example, GPT-2's block": ["examples/gpt.yaml", TEXT, "model.norm=layer", "model.positions=learned",
                                   "model.activation=gelu", "model.qk_norm=false", "model.bias=true"],
    "gpt by recipe (Muon)": ["examples/gpt_modern.yaml", TEXT],
    "resnet, batch 64": ["examples/resnet.yaml", "train.batch=64"],
    "fashion, batch 32": ["examples/fashion.yaml", "train.batch=32"],
    "fashion, batch 256": ["examples/fashion.yaml", "train.batch=256"],
    "ranker": ["examples/ranker.yaml"],
    "encoder": ["examples/encoder.yaml"],
}
HEAD = (f"{'run':<28}{'told':>10}{'measured':>10}{'error':>8}{'plan':>14}{'used':>14}\n"
        f"{'':<28}{'ms':>10}{'ms':>10}{'%':>8}{'bytes':>14}{'bytes':>14}")


def line(r):
    exact = "" if r["told_bytes"] == r["used_bytes"] else "  DIFFERS"
    guessed = "  some ops guessed" if r["guessed"] else ""
    return (f"{r['run']:<28}{r['told_ms']:>10.3f}{r['seen_ms']:>10.3f}{100 * r['error']:>+8.1f}"
            f"{r['told_bytes']:>14}{r['used_bytes']:>14}{exact}{guessed}")


def main(arguments):
    seconds = "1"
    for a in arguments:
        if a.startswith("--seconds="):
            seconds = a[len("--seconds="):]
        elif a != "--json":
            sys.exit(__doc__)
    common.make_text()
    subprocess.run(["cmake", "--build", "build", "--target", "bench_estimate"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    command = ["build/bench_estimate", seconds]
    for run in RUNS.values():
        command += [run[0], "train.precision=fp32", *run[1:], "--"]  # its own precision, where it names one, comes later
    done = subprocess.run(command, cwd=common.TOP, env=common.environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise common.Failed("bench_estimate failed")
    about = common.machine(command="bench/run estimate")
    about["threads"] = 1
    record = common.Record("estimate", HEAD, line, about, "--json" in arguments)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    for name, row in zip(RUNS, rows):
        row["run"], row["error"] = name, row["told_ms"] / row["seen_ms"] - 1
        record.add(row)
    worst = max(abs(r["error"]) for r in rows)
    same = all(r["told_bytes"] == r["used_bytes"] for r in rows)
    common.note(f"largest error {100 * worst:.1f} %, allowed 15 %: {'met' if worst <= 0.15 else 'MISSED'}; "
                f"memory {'exact' if same else 'DIFFERS'}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except common.Failed as e:
        sys.exit(f"estimate: {e}")
