"""The rows of `bench/run race` on a data set of their own: pictures, and tokens of a large text.

    fashion       Fashion-MNIST to 94 % of its 10,000 test images on one GPU, the mean of 10 seeds
    fashion-cpu   the same to 92 % on two cores, the mean of 10 seeds
    text-1.65     a GPT on kernel sources to a validation loss of 1.65 on one GPU; seconds count cold, as `bench/run gpu text`
    text-1.45     the same to 1.45

--pictures=DIR holds Fashion-MNIST's four files (default: where Debian's dataset-fashion-mnist puts them); --tokens=DIR train.bin and val.bin, tokens of
GPT-2 as u16. PyTorch's sides are race_peer_pictures.py and race_peer_tokens.py, eager and compiled, on two cores also eager in bf16; the
fastest that reaches the target counts. On a GPU both sides have all cores."""
import json
import os
import shutil
import statistics
import subprocess
import time

import common
from common import DATA, TOP, Failed, environment, note, train
from race_models import curve

PICTURES = "/usr/share/datasets/fashion-mnist"
# file, metric, target, bars, seeds, what the peer is given
SETS = {
    "fashion": ("bench/race/fashion.yaml", "accuracy", 0.94, {"must_ratio": 2, "aim_ratio": 5}, 10, ("pictures", "gpu")),
    "fashion-cpu": ("bench/race/fashion_cpu.yaml", "accuracy", 0.92, {"must_ratio": 2, "aim_ratio": 5}, 10, ("pictures", "cpu")),
    "text-1.65": ("bench/race/text_165.yaml", "loss", 1.65, {"must": 15, "aim": 9}, 5, ("tokens", "text_165")),
    "text-1.45": ("bench/race/text_145.yaml", "loss", 1.45, {"must_ratio": 2, "aim_ratio": 4}, 5, ("tokens", "text_145")),
}
SHAPE = {  # of PyTorch's side: the run file's, or the best that was found for it
    "text_165": ("depth=5", "width=768", "heads=12", "context=1024", "batch=16", "steps=820", "lr=0.03", "muon_lr=0.02", "eval_samples=960"),
    "text_145": ("depth=6", "width=768", "heads=12", "context=1024", "batch=24", "steps=1300", "lr=0.03", "muon_lr=0.02", "eval_samples=960"),
}


def data_of(task, options):
    if SETS[task][5][0] == "tokens":
        folder = os.path.abspath(options["tokens"] or "")
        if not options["tokens"] or not os.path.isfile(os.path.join(folder, "train.bin")):
            raise Failed(f"race {task} needs --tokens=DIR with train.bin and val.bin")
        return folder, [f"data.path={folder}/train.bin", f"data.eval_path={folder}/val.bin"]
    folder = os.path.abspath(options["pictures"] or PICTURES)
    files = [f"{folder}/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    if not all(map(os.path.isfile, files)):
        raise Failed(f"race {task} needs Fashion-MNIST's four files, --pictures=DIR; {folder} has not all of them")
    return folder, [f"{key}={file}" for key, file in zip(("data.path", "data.labels", "data.eval_path", "data.eval_labels"), files)]


def value_of(event, metric):
    return event["loss"] if metric == "loss" else event["metrics"][metric]


def ours(task, data, seed):
    file, metric = SETS[task][:2]
    begin = time.perf_counter()
    events, _, _ = train(file, *data, f"train.seed={seed}", "train.out=none", fine=(0, 1))
    seconds = time.perf_counter() - begin
    done = next(e for e in events if e["event"] == "done")
    last = [e for e in events if e["event"] == "eval"][-1]
    return {"seconds": seconds, "value": value_of(last, metric), "steps": done["steps"]}


def theirs(task, python, folder, modes):
    """The fastest of PyTorch's ways that reaches the target, or the best; None without PyTorch."""
    target, (kind, what), rows = SETS[task][2], SETS[task][5], []
    modes = [*modes, "bf16"] if what == "cpu" else modes
    for mode in modes if python else ():
        more = (what, mode, "1") if kind == "pictures" else (mode, "1", *SHAPE[what])
        done = subprocess.run([python, os.path.join(TOP, "bench", f"race_peer_{kind}.py"), folder, str(target), *more],
                              cwd=DATA, env=environment(), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"race_peer_{kind}.py {mode} ended with {done.returncode}: {done.stderr[-300:]}")
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append({"mode": mode, "loss": row.get("accuracy", row.get("loss")), **row})
        note(f"PyTorch, {mode}: {rows[-1]['loss']:.4f} after {row['seconds']:.1f} s, of which steps {row['steps_s']:.1f}")
    return min(rows, key=lambda r: (not r["reached"], r["seconds"]), default=None)


def race_set(task, options, luck):
    """The row, and whether it was won."""
    file, metric, target, bars, least, (_, what) = SETS[task]
    folder, data = data_of(task, options)
    seeds = int(options["seeds"]) if options["seeds"] != "5" else least
    if what != "cpu":
        os.sched_setaffinity(0, range(os.cpu_count()))
        common.use_cores(os.cpu_count())
    cache = os.path.join(DATA, "race-cache")
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = cache
    cold = ours(task, data, 1)
    runs = [ours(task, data, seed) for seed in range(1, seeds + 1)]
    peer = theirs(task, options["torch"], folder, options["modes"].split(","))
    common.two_cores()
    values, seconds = [r["value"] for r in runs], statistics.mean(r["seconds"] for r in runs)
    sign = -1 if metric == "accuracy" else 1
    p = luck([sign * v for v in values], sign * target)
    judged = cold["seconds"] if "must" in bars else seconds
    ratio = peer["seconds"] / seconds if peer and peer["reached"] else None
    row = {"task": task, "target": target, "metric": metric, "seeds": seeds, "steps": runs[0]["steps"], "loss": statistics.mean(values), "p": p,
           "losses": values, "cold_s": cold["seconds"], "seconds": seconds, "spread_s": statistics.stdev(r["seconds"] for r in runs), **bars,
           "peer": peer, "ratio": ratio,
           "curve": options.get("curves") == "yes" and curve(file, metric, runs[0]["steps"], *data, "train.seed=1")}
    met = judged <= bars["must"] if "must" in bars else ratio is None or ratio >= bars["must_ratio"]
    return row, p < 0.01 and met
