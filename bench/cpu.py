"""The driver of `bench/run cpu`: ours against the peer, row by row, on the same cores.

    cpu.py PEER_PYTHON [--json] [--threads=N] [ROW...]

Protocol. Both sides have N threads (2) and the same N cores. Every variant of the peer is measured
once; the fastest then alternates with ours for ROUNDS rounds. A figure is the median of its rounds,
its spread (max - min) / median. Where a spread is above SPREAD_MAX the row is repeated, REPEATS times
at most, and the calmest repetition counts. A ratio above 1 says that ours is better. `busy` is the
share of the cores in use while neither side runs: above BUSY_MAX the row says so and is worth little,
because two threads that wait for each other suffer most where others take their turns.

Ours is a fresh `frugal train --json` each round, and its figures are those of its "done" event, its
loader, first step and page faults included; the peer stays alive between rounds, warm. The rows
`start` and `memory` are taken from outside, in the same way for both: seconds from spawning the
process to the line that tells the first step is done, and the kernel's peak resident size.
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

import common
from common import (BUSY_MAX, DATA, Failed, Record, TOP, busy_share, figure, first_line, last_words,
                    machine, note, put, reap, spawn, spread, train, use_cores)

ROUNDS, REPEATS, SPREAD_MAX = 5, 3, 0.10

# row: unit, whether more is better, must, aim, steps (mlp: epochs) of a round, the peer's variants
ROWS = {
    "mlp": ("s for 5 epochs", False, 4, 8, 5, ["eager", "compile"]),
    "gpt": ("tokens/s", True, 1.15, 1.4, 8, ["eager", "compile", "compile max-autotune"]),
    "gpt-bf16": ("tokens/s", True, 1.5, 3, 8, ["autocast", "compile autocast"]),
    "resnet": ("ms a step", False, 1.0, 1.2, 30,
               ["channels-last", "compile channels-last", "compile max-autotune channels-last"]),
    "ranker": ("ms a step", False, 1.2, 1.7, 100,
               ["tables", "one table", "compile tables", "compile one table"]),
    "start": ("s to the first step", False, 35, 170, 1, ["eager"]),
    "start-gz": ("s to the first step", False, None, None, 1, ["eager"]),
    "memory": ("MiB at the peak", False, 2, 4, 4, ["eager", "compile"]),
}


# ---- data: random, made once, of the sizes the rows name ----

def idx(name, shape, top):
    count = 1
    for n in shape:
        count *= n
    bytes_ = random.randbytes(count) if top == 256 else bytes(random.choices(range(top), k=count))
    head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
    put(name, head + bytes_)


def clicks(rows, columns=26, numbers=13):
    names = [f"c{i}" for i in range(columns)] + [f"n{i}" for i in range(numbers)] + ["clicked"]
    lines = [",".join(names)]
    for _ in range(rows):
        kinds = [str(random.randrange(10000)) for _ in range(columns)]
        values = [f"{random.random():.4f}" for _ in range(numbers)]
        lines.append(",".join(kinds + values + [str(random.getrandbits(1))]))
    return ("\n".join(lines) + "\n").encode()


def make_data():
    random.seed(1)
    if os.path.exists(os.path.join(DATA, "ready")):
        return
    note("making data in build/bench")
    for name, shape in (("mlp", (10000, 28, 28)), ("resnet", (1280, 32, 32, 3))):
        idx(f"{name}-images-idx{len(shape)}-ubyte", shape, 256)
        idx(f"{name}-labels-idx1-ubyte", shape[:1], 10)
    for name in ("mlp-images-idx3-ubyte", "mlp-labels-idx1-ubyte"):
        subprocess.run(["gzip", "-kf", name], cwd=DATA, check=True)
    put("gpt.txt", random.randbytes(1 << 20))
    put("ranker.csv", clicks(10 * 2048))
    put("ready", b"")


# ---- the two sides ----

class Ours:
    """frugal train on bench/cpu/ROW.yaml; `measure` gives a round's figure."""

    def __init__(self, row):
        self.row, self.steps = row, ROWS[row][4]
        self.details = {}

    def done_event(self, file, *settings):
        """The done event of a run, seconds from spawn to its line, and the peak resident bytes."""
        settings += (f"train.threads={common.threads}",)
        events, seconds, peak = train(f"bench/cpu/{file}.yaml", *settings)
        return events[-1], seconds, peak

    def measure(self):
        if self.row.startswith("start"):
            return self.start()
        if self.row == "memory":
            done, _, peak = self.done_event("gpt", f"train.steps={self.steps}")
            self.details = {"told_mib": round(done["peak_rss_bytes"] / 2**20, 1)}
            return peak / 2**20
        if self.row == "mlp":
            done, wall, _ = self.done_event("mlp", f"train.epochs={self.steps}")
            self.details = {"wall_s": round(wall, 3)}
            return self.steps * 10000 / done["samples_per_s"]
        file, _, precision = self.row.partition("-")
        settings = [f"train.steps={self.steps}"] + ([f"train.precision={precision}"] if precision else [])
        done, wall, _ = self.done_event(file, *settings)
        self.details = {"wall_s": round(wall, 3)}
        if file == "gpt":
            return done["tokens_per_s"]
        return 1e3 * {"resnet": 128, "ranker": 2048}[self.row] / done["samples_per_s"]

    def start(self):
        settings = ["train.steps=1", "train.out=none"]  # the peer's program writes no weights either
        if self.row == "start-gz":
            shutil.rmtree(os.path.join(DATA, "cache"), ignore_errors=True)
            settings += ["data.path=mlp-images-idx3-ubyte.gz",
                         "data.labels=mlp-labels-idx1-ubyte.gz", "data.cache=cache"]
        done, seconds, _ = self.done_event("mlp", *settings)
        self.details = {"told_s": round(done["first_step_ms"] / 1e3, 4)}
        return seconds


class Peer:
    """cpu_peer.py on one variant; it stays alive, warm, between rounds."""

    def __init__(self, python, row, variant):
        self.row, self.variant = row, variant
        self.command = [python, os.path.join(TOP, "bench", "cpu_peer.py")]
        self.process = self.version = None
        if row not in ("start", "start-gz", "memory"):
            self.open(row)

    def open(self, row):
        count = str(ROWS[self.row][4])
        self.process = spawn(self.command + [row, self.variant, count], stdin=subprocess.PIPE)
        self.version = self.answer()["ready"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the peer ended, variant {self.variant}: {last_words()}")
        return json.loads(line)

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()["value"]

    def measure(self):
        if self.row.startswith("start"):
            ending = ".gz" if self.row == "start-gz" else ""
            files = [f"mlp-{what}-ubyte{ending}" for what in ("images-idx3", "labels-idx1")]
            begin = time.perf_counter()
            self.process = spawn(self.command + ["start"] + files)
            self.answer()
            seconds = time.perf_counter() - begin
            reap(self.process)
            return seconds
        if self.row == "memory":
            self.open("gpt")
            self.ask()
            return self.close() / 2**20
        return self.ask()

    def close(self):
        """Ends it; returns its peak resident bytes."""
        if not self.process or self.process.returncode is not None:
            return 0
        if self.process.stdin:
            self.process.stdin.close()
        return reap(self.process)


# ---- the protocol ----

def best_variant(python, row):
    """Every variant once; the best stays open."""
    more_is_better = ROWS[row][1]
    best, tried = None, {}
    for variant in ROWS[row][5]:
        note(f"{row}: the peer, {variant}")
        try:
            peer = Peer(python, row, variant)
            tried[variant] = peer.measure()
        except Failed as e:
            note(f"{row}: left out: {e}")
            continue
        if best and (tried[variant] > tried[best.variant]) != more_is_better:
            peer.close()
            continue
        if best:
            best.close()
        best = peer
    if not best:
        raise Failed("no variant of the peer ran")
    return best, tried


def alternate(ours, peer):
    mine, theirs, busy = [], [], []
    for _ in range(ROUNDS):
        busy.append(busy_share())
        mine.append(ours.measure())
        theirs.append(peer.measure())
    return {"ours_rounds": mine, "peer_rounds": theirs,
            "ours_spread": spread(mine), "peer_spread": spread(theirs), "busy": max(busy)}


def calmest(ours, peer):
    """Repeats a restless row; returns the calmest repetition and how many there were."""
    best = None
    for repeat in range(1, REPEATS + 1):
        trial = alternate(ours, peer)
        unrest = max(trial["ours_spread"], trial["peer_spread"])
        if not best or unrest < max(best["ours_spread"], best["peer_spread"]):
            best = trial
        if unrest <= SPREAD_MAX:
            break
        note(f"{ours.row}: spread {unrest:.0%}")
    return best, repeat


def measure_row(python, row):
    unit, more_is_better, must, aim, _, _ = ROWS[row]
    ours = Ours(row)
    ours.measure()  # a round that does not count: the data comes into the page cache
    peer, tried = best_variant(python, row)
    try:
        trial, repeats = calmest(ours, peer)
    finally:
        peer.close()
    mine = statistics.median(trial["ours_rounds"])
    theirs = statistics.median(trial["peer_rounds"])
    ratio = mine / theirs if more_is_better else theirs / mine
    return {"row": row, "ours": mine, "peer": theirs, "unit": unit, "ratio": ratio, "must": must,
            "aim": aim, "variant": peer.variant, "variants": tried, "repeats": repeats, **trial,
            "ours_details": ours.details}


# ---- what is printed and kept ----

HEAD = f"{'row':<9} {'ours':>10} {'peer':>10}  {'unit':<20} {'ratio':>7} {'must':>6} {'aim':>6}  " \
       f"{'spread':>9}  {'busy':>4}  peer's variant"


def table_line(r):
    both = f"{r['ours_spread']:.0%}/{r['peer_spread']:.0%}"
    again = f", calmest of {r['repeats']}" if r["repeats"] > 1 else ""
    again += ", DISTURBED" if r["busy"] > BUSY_MAX else ""
    must, aim = (f"{r[k]:g}x" if r[k] else "-" for k in ("must", "aim"))
    return f"{r['row']:<9} {figure(r['ours']):>10} {figure(r['peer']):>10}  {r['unit']:<20} " \
           f"{r['ratio']:>6.2f}x {must:>6} {aim:>6}  {both:>9}  {r['busy']:>4.0%}  {r['variant']}{again}"


def main(python, *arguments):
    as_json, threads = "--json" in arguments, 2
    for argument in arguments:
        if argument.startswith("--threads="):
            threads = int(argument.partition("=")[2])
    rows = [a for a in arguments if not a.startswith("--")] or list(ROWS)
    unknown = [r for r in rows if r not in ROWS]
    if unknown:
        sys.exit(f"there is no row {unknown[0]}; the rows are {' '.join(ROWS)}")
    python = os.path.abspath(python)
    use_cores(threads)
    make_data()
    record = Record("cpu", HEAD, table_line, machine(
        torch=first_line([python, "-c", "import torch; print(torch.__version__)"]),
        python=first_line([python, "--version"])), as_json)
    failed = 0
    for row in rows:
        try:
            record.add(measure_row(python, row))
        except Failed as e:
            note(f"{row}: {e}")
            failed += 1
    sys.exit(3 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
