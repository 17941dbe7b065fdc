"""The rows of `bench/run race` that run the same model as PyTorch on two cores, and are won by a ratio of times.

    ranker    examples/ranker.yaml's model and samples, to an AUC within 0.002 of the 0.7960 that the example ends with
    encoder   examples/encoder.yaml's model and words, to an accuracy of 0.90

PyTorch (race_models_peer.py) trains with Adam at each of the rates, numbers of steps and batches below; of those that reach the target the
fastest counts, at its first evaluation that does. Ours is the mean of the seeds, which must reach it with p < 0.01."""
import json
import os
import statistics
import subprocess
import time

from common import DATA, TOP, Failed, environment, note, train

# file, metric, target, times as fast as PyTorch: must and aim, PyTorch's tables, rates, steps and batches
MODELS = {"ranker": ("bench/race/ranker.yaml", "auc", 0.794, 2, 4, (("dense", 0.003, 977, 2048), ("dense", 0.006, 1954, 2048),
                                                                  ("sparse", 0.006, 977, 2048), ("sparse", 0.012, 977, 2048))),
          "encoder": ("bench/race/encoder.yaml", "accuracy", 0.90, 2, 3, (("dense", 0.003, 5000, 64), ("dense", 0.003, 6000, 64)))}
CURVE_POINTS = 12
CLICKS = ("1000", "2000000", "100000")  # buckets, samples and held-out samples of bench/race/ranker.yaml
WORDS = [f"/usr/share/dict/{name}" for name in ("american-english", "ngerman", "french", "italian", "spanish")]


def value_of(event, metric):
    return event["loss"] if metric == "loss" else event["metrics"][metric]


def measured(file, metric, *settings):
    """One run: seconds from exec to its end, the value that it ends with, its steps."""
    begin = time.perf_counter()
    events, _, _ = train(file, "train.out=none", *settings, fine=(0, 1))
    seconds = time.perf_counter() - begin
    done = next(e for e in events if e["event"] == "done")
    return {"seconds": seconds, "value": value_of(done, metric), "steps": done["steps"]}


def curve(file, metric, steps, *settings):
    """[seconds, value] along a run that is evaluated often; what evaluations took before is taken off."""
    events, _, _ = train(file, "train.out=none", "train.target=none", f"train.eval_every={max(1, steps // CURVE_POINTS)}", *settings, fine=(0, 1))
    points, spent = [], 0.0
    for e in events:
        if e["event"] == "eval":
            points.append([e["elapsed_s"] - spent, value_of(e, metric)])
            spent += e["eval_s"]
    return points


def clicks():
    """The samples as arrays, for PyTorch."""
    folder = os.path.join(DATA, "clicks")
    if not os.path.exists(os.path.join(folder, "eval.y")):
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run([os.path.join(TOP, "build", "bench_clicks"), *CLICKS, folder], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"bench_clicks: {done.stderr.strip()}")
    return folder


def theirs(task, python):
    """The fastest of PyTorch's rates and steps that reaches the target, else the best; None without PyTorch."""
    _, _, target, _, _, ways = MODELS[task]
    rows = []
    for tables, rate, steps, batch in ways if python else ():
        data = clicks() if task == "ranker" else ",".join(WORDS)
        command = [python, os.path.join(TOP, "bench", "race_models_peer.py"), task, data, str(target), tables, str(rate), str(steps), "1", str(batch)]
        done = subprocess.run(command, cwd=DATA, env=environment(), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"race_models_peer.py {task} ended with {done.returncode}: {done.stderr[-300:]}")
        rows.append({"mode": f"{'sparse ' if tables == 'sparse' else ''}Adam {rate:g} over {steps:,} steps of {batch:,}", **json.loads(done.stdout.splitlines()[-1])})
        note(f"PyTorch, {rows[-1]['mode']}: {rows[-1]['value']:.4f} after {rows[-1]['seconds']:.1f} s")
    return min(rows, key=lambda r: (not r["reached"], r["seconds"] if r["reached"] else -r["value"]), default=None)


def race_model(task, seeds, python, luck, drawn):
    """The row, and whether it was won."""
    file, metric, target, must, aim, _ = MODELS[task]
    cold = measured(file, metric, "train.seed=1")
    runs = [measured(file, metric, f"train.seed={seed}") for seed in range(1, seeds + 1)]
    values, seconds = [r["value"] for r in runs], statistics.mean(r["seconds"] for r in runs)
    peer = theirs(task, python)
    row = {"task": task, "metric": metric, "target": target, "seeds": seeds, "steps": runs[0]["steps"], "loss": statistics.mean(values),
           "p": luck([-v for v in values], -target), "losses": values, "cold_s": cold["seconds"], "seconds": seconds,
           "spread_s": statistics.stdev(r["seconds"] for r in runs), "must_ratio": must, "aim_ratio": aim,
           "peer": peer and {**peer, "loss": peer["value"]}, "ratio": peer["seconds"] / seconds if peer and peer["reached"] else None,
           "curve": drawn and curve(file, metric, runs[0]["steps"], "train.seed=1")}
    return row, bool(row["p"] < 0.01 and row["ratio"] and row["ratio"] >= must)
