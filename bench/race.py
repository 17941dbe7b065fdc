"""The driver of `bench/run race`: seconds and dollars from the start of the process to a public target, beside PyTorch.

    race.py --text=FILE [--tokens=DIR] [--pictures=DIR] [--torch=PYTHON] [--nanogpt=DIR] [--seeds=N] [--usd_hour=DOLLARS]
            [--modes=eager,compiled] [--curves=no] [--json] [TASK...]

    shakespeare       Tiny Shakespeare by characters, nanoGPT's shape on one GPU: a validation loss of 1.4697
    shakespeare-cpu   the same text, nanoGPT's shape for a laptop, on two cores: 1.88
    shakespeare-any   the same text to 1.4697 on one GPU with any model of a context of at most 256
    fashion, fashion-cpu, text-1.65, text-1.45   pictures, and tokens of kernel sources (race_sets.py)
    ranker, encoder   the examples of these names on two cores, beside the same model in PyTorch (race_models.py)

Protocol. Each seed (1, 2, … N, 5 by default) is a process of its own with the settings of bench/race/TASK.yaml; its time is
that from spawning it to its end, with start, compilation, all steps and the evaluation of the whole held-out part. The first seed
runs once with an empty cache of kernels (cold), then all run (warm). A task is won where the mean loss of the seeds lies
below the target with p < 0.01 (Student's t, one-sided), as the speed runs of modded-nanogpt ask for it: a run that reaches the
target by luck does not count. PyTorch (--torch names a Python that has it) trains with nanoGPT's own recipe, race_peer.py, eager
and compiled (--modes leaves one out), and stops at the first evaluation that meets the target, which favours it. With --nanogpt=DIR, a copy of
nanoGPT, its own train.py runs, too (race_nanogpt.py). The fastest side that meets the target counts; the row has all of them. One more run,
not timed, is evaluated along its way for the picture of curves.py; --curves=no leaves it out.
"""
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

from common import DATA, TOP, Failed, Record, busy_share, environment, machine, train, two_cores
from race_models import MODELS, curve, race_model
from race_nanogpt import nanogpt
from race_sets import SETS, race_set

TASKS = {"shakespeare": ("bench/race/shakespeare.yaml", 1.4697, "gpu", 8, 4),
         "shakespeare-cpu": ("bench/race/shakespeare_cpu.yaml", 1.88, "cpu", 15, 7),
         "shakespeare-any": ("bench/race/shakespeare_any.yaml", 1.4697, "gpu", 5, 2.5)}  # file, target, peer's shape, must, aim
P_MAX = 0.01
OPTIONS = {"text": None, "tokens": None, "pictures": None, "torch": None, "nanogpt": None, "seeds": "5", "usd_hour": None, "curves": "yes", "modes": "eager,compiled"}


def student_tail(t, freedom):
    """P(T > t): the density integrated by Simpson's rule over 2,000 strips of u, where T = t + u / (1 - u)."""
    if not math.isfinite(t):
        return 0.0 if t > 0 else 1.0
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(u):
        if u >= 1:
            return 0.0
        x = t + u / (1 - u)
        return scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2) / (1 - u) ** 2
    n = 2000
    return sum(density(i / n) * (1 if i in (0, n) else 4 if i % 2 else 2) for i in range(n + 1)) / (3 * n)


def luck(losses, target):
    """The chance of such losses if their true mean were the target."""
    off = statistics.stdev(losses) / math.sqrt(len(losses))
    mean = statistics.mean(losses)
    return student_tail(math.inf if off == 0 and mean < target else -math.inf if off == 0 else (target - mean) / off, len(losses) - 1)


def ours(file, text, seed):
    begin = time.perf_counter()
    events, _, _ = train(file, f"data.path={text}", f"train.seed={seed}", "train.out=none", fine=(0, 1))
    seconds = time.perf_counter() - begin
    done = next(e for e in events if e["event"] == "done")
    return {"seconds": seconds, "loss": done["loss"], "steps": done["steps"]}


def theirs(options, text, target, kind):
    """All of PyTorch's ways."""
    python, rows = options["torch"], []
    for mode in options["modes"].split(",") if python else ():
        command = [python, os.path.join(TOP, "bench", "race_peer.py"), text, str(target), kind, mode, "1"]
        done = subprocess.run(command, cwd=DATA, env=environment(), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"race_peer.py {mode} ended with {done.returncode}: {done.stderr[-300:]}")
        rows.append({"mode": mode, **json.loads(done.stdout.splitlines()[-1])})
        if options["nanogpt"]:
            rows.append(nanogpt(os.path.abspath(options["nanogpt"]), python, text, target, kind, mode))
    return rows


def race(task, options, record):
    price = float(options["usd_hour"]) if options["usd_hour"] else None
    drawn = options["curves"] == "yes"
    if task in MODELS or task in SETS:
        busy = busy_share()
        row, won = race_set(task, options, luck) if task in SETS else race_model(task, int(options["seeds"]), options["torch"], luck, drawn)
        record.add({**row, "busy": busy, "dollars": price and row["seconds"] / 3600 * price, "usd_hour": price})
        return won
    file, target, kind, must, aim = TASKS[task]
    text, seeds = os.path.abspath(options["text"]), int(options["seeds"])
    cache = os.path.join(DATA, "race-cache")
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = cache
    busy = busy_share()
    cold = ours(file, text, 1)
    runs = [ours(file, text, seed) for seed in range(1, seeds + 1)]
    peers = theirs(options, text, target, kind)
    peer = min(peers, key=lambda r: (not r["reached"], r["seconds"]), default=None)
    losses, seconds = [r["loss"] for r in runs], statistics.mean(r["seconds"] for r in runs)
    p = luck(losses, target)
    row = {"task": task, "target": target, "seeds": seeds, "steps": runs[0]["steps"], "loss": statistics.mean(losses), "p": p,
           "losses": losses, "cold_s": cold["seconds"], "seconds": seconds, "spread_s": statistics.stdev(r["seconds"] for r in runs),
           "dollars": price and seconds / 3600 * price, "must": must, "aim": aim, "peer": peer, "peers": peers, "busy": busy, "usd_hour": price,
           "metric": "loss", "curve": drawn and curve(file, "loss", runs[0]["steps"], f"data.path={text}", "train.seed=1"),
           "ratio": peer["seconds"] / seconds if peer and peer["reached"] else None}
    record.add(row)
    return p < P_MAX and seconds <= must


HEAD = f"{'task':<16} {'target':>7} {'seeds':>5} {'steps':>5} {'loss':>7} {'p':>8} {'cold s':>7} {'warm s':>7} {'+-':>5} {'dollars':>9}" \
       f" {'must s':>6} {'aim s':>6}  PyTorch"


def bar(r, which):
    """Seconds, or times as fast as PyTorch."""
    return r[which] if which in r else f"{r[which + '_ratio']}x"


def missed(r):
    return r["seconds"] > r["must"] if "must" in r else bool(r["ratio"] and r["ratio"] < r["must_ratio"])


def peer_words(peer):
    return f"{peer['mode']}: {peer['loss']:.4f} after {peer['steps']} steps, {peer['seconds']:.1f} s"


def table_line(r):
    peer = r["peer"]
    words = "-" if not peer else peer_words(peer) + (f", {r['ratio']:.1f}x" if r["ratio"] else ", NOT REACHED")
    words += "".join(f"; {peer_words(other)}{'' if other['reached'] else ', NOT REACHED'}" for other in r.get("peers", ()) if other != peer)
    dollars = "-" if r["dollars"] is None else f"{r['dollars']:.6f}"
    return f"{r['task']:<16} {r['target']:>7.4f} {r['seeds']:>5} {r['steps']:>5} {r['loss']:>7.4f} {r['p']:>8.1g} {r['cold_s']:>7.2f} " \
           f"{r['seconds']:>7.2f} {r['spread_s']:>5.2f} {dollars:>9} {bar(r, 'must'):>6} {bar(r, 'aim'):>6}  {words}" \
           f"{'' if r['p'] < P_MAX else '  NOT SIGNIFICANT'}{'  MISSED' if missed(r) else ''}"


def main(*arguments):
    options, tasks = dict(OPTIONS), []
    for a in arguments:
        key, _, value = a.removeprefix("--").partition("=")
        if a == "--json":
            continue
        if a.startswith("--") and key in options and value:
            options[key] = value
        elif a in TASKS or a in SETS or a in MODELS:
            tasks.append(a)
        else:
            sys.exit(f"race does not know {a}; it knows --json, --text=, --tokens=, --pictures=, --torch=, --nanogpt=, --seeds=, --usd_hour=, --modes=, --curves=no and " +
                     f"{', '.join([*TASKS, *SETS, *MODELS])}")
    tasks = tasks or [*TASKS, *SETS, *MODELS]
    if set(tasks) & set(TASKS) and (not options["text"] or not os.path.isfile(options["text"])):
        sys.exit("race needs the text: --text=FILE, Tiny Shakespeare's input.txt (1,115,394 bytes)")
    two_cores()
    os.makedirs(DATA, exist_ok=True)
    record = Record("race", HEAD, table_line, machine(), "--json" in arguments)
    try:
        won = [race(task, options, record) for task in tasks]
    except Failed as e:
        print(e, file=sys.stderr)
        sys.exit(3)
    sys.exit(0 if all(won) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
