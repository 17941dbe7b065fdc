"""kills.py [--quick] [--json] [--kills=N] [--jobs=J] [--seed=S]: training processes killed N times (200), against one that is not.

A small GPT with dropout and accumulation (bench/kills.yaml) is trained once at a stretch. Then it is
started with checkpoints as often as the disk takes them, killed by SIGKILL after a random time (seed
printed; --seed=S again), and started again until it ends, which takes some twenty kills; then the next
run begins, until N kills are given; the last start is left alone. J runs (2) are under way at a time.
What is counted: runs that came to their end; starts that resumed from a checkpoint; kills that left a
half-written one behind; checkpoints that were believed and then found damaged (`frugal checkpoints`
verifies every byte after each kill): must be 0; steps done twice; lost: runs whose weights at the end are
not those of the run at a stretch, byte by byte, and starts that resumed from an older checkpoint than the
newest whole one there was: must be 0.
"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import common

KILLS, QUICK_KILLS, JOBS, KILL_S_MAX = 200, 12, 2, 0.5
RUN_S = 2.5  # a run takes that long at a stretch
HEAD = (f"{'kills':>6}{'runs':>6}{'resumed':>9}{'halves':>8}{'damaged':>9}{'steps':>7}{'twice':>7}{'lost':>6}{'seconds':>9}")
FILE = os.path.join(common.TOP, "bench", "kills.yaml")
FOLDER = os.path.join(common.DATA, "kills")
COUNTS = ("kills", "runs", "resumed", "halves", "damaged", "redone", "lost")


def line(r):
    return (f"{r['kills']:>6}{r['runs']:>6}{r['resumed']:>9}{r['halves']:>8}{r['damaged']:>9}{r['steps']:>7}{r['redone']:>7}"
            f"{r['lost']:>6}{r['seconds']:>9.1f}")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def start(folder, *settings):
    """A training process; its events go to a file, which a kill cannot hold up."""
    log = open(os.path.join(folder, "events"), "w")
    return subprocess.Popen([common.FRUGAL, "train", FILE, "--json", f"train.out={folder}/weights", *settings],
                            cwd=common.DATA, env=common.environment(), stdout=log, stderr=subprocess.DEVNULL)


def events(folder):
    """Those that were written whole."""
    found = []
    for text in read(os.path.join(folder, "events")).decode().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            pass
    return found


def halves(folder):
    """Folders without a manifest: what a kill left in the middle of a save or of a deletion."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sum(name.startswith("step-") and not os.path.exists(os.path.join(folder, name, "manifest.json"))
               for name in names)


def damaged(folder):
    """Checkpoints that have a manifest and do not hold what it says."""
    done = subprocess.run([common.FRUGAL, "checkpoints", "verify", folder], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise common.Failed(f"frugal checkpoints verify: {done.stderr.strip()}")
    return done.returncode


def newest(folder):
    """Its step; 0: no checkpoint has a manifest."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    names = [n for n in names if n.startswith("step-") and os.path.exists(os.path.join(folder, n, "manifest.json"))]
    return max([(int(n.split(".")[1]), int(n.split(".")[2]), int(n.split(".")[0][5:])) for n in names], default=(0, 0, 0))[2]


class Kills:
    """So many are left to give, by any number of runs at a time."""

    def __init__(self, count, seed, steps, whole):
        self.left, self.seed, self.steps, self.whole = count, seed, steps, whole
        self.lock, self.runs, self.result = threading.Lock(), 0, dict.fromkeys(COUNTS, 0)

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def add(self, **counts):
        with self.lock:
            for name, count in counts.items():
                self.result[name] += count

    def work(self):
        """Runs, one after the other, until no kill is left."""
        while self.left > 0:
            with self.lock:
                number, self.runs = self.runs, self.runs + 1
            folder = os.path.join(FOLDER, str(number))
            os.makedirs(folder)
            self.run(folder, random.Random(f"{self.seed}/{number}"))
            shutil.rmtree(folder)

    def run(self, folder, draw):
        """Killed again and again, until it is done."""
        checkpoints, last, code = os.path.join(folder, "checkpoints"), 0, None
        while code != 0:
            kill, there = self.take(), newest(checkpoints)
            process = start(folder, self.steps, f"checkpoint.dir={checkpoints}", "checkpoint.every=1", "checkpoint.keep=2", "train.log_every=1")
            try:
                code = process.wait(draw.uniform(0.01, KILL_S_MAX) if kill else None)
                with self.lock:
                    self.left += kill  # it was done before
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                code = process.wait()
                self.add(kills=1)
            last = self.judge(folder, there, last)
            self.add(halves=halves(checkpoints), damaged=damaged(checkpoints) if os.path.isdir(checkpoints) else 0)
            if code not in (0, -signal.SIGKILL):
                raise common.Failed(f"a start ended with {code}: {events(folder)[-1:]}")
        self.add(runs=1, lost=read(os.path.join(folder, "weights")) != self.whole)

    def judge(self, folder, there, last):
        """What the start told, of which `there` is the step of the newest checkpoint before it and `last` the last
        step that was seen; returns the last that is seen now."""
        seen = events(folder)
        resumed = [e["step"] for e in seen if e["event"] == "checkpoint" and e["what"] == "resumed"]
        self.add(resumed=len(resumed), damaged=sum(e["event"] == "checkpoint" and e["what"] == "damaged" for e in seen))
        steps = [e["step"] for e in seen if e["event"] == "step"]
        if not resumed and not steps:
            return last
        begin = resumed[0] if resumed else 0
        self.add(redone=max(0, last - begin), lost=begin < there)
        return max(steps, default=begin)


def at_a_stretch(steps):
    """The run that nobody disturbs: its last event and its weights."""
    folder = os.path.join(FOLDER, "whole")
    os.makedirs(folder, exist_ok=True)
    if start(folder, f"train.steps={steps}").wait():
        raise common.Failed(f"the run at a stretch failed: {events(folder)[-1:]}")
    return events(folder)[-1], read(os.path.join(folder, "weights"))


def main(arguments):
    kills, jobs, seed = common.flags(arguments, __doc__, QUICK_KILLS, kills=KILLS, jobs=JOBS)
    common.two_cores()
    os.makedirs(common.DATA, exist_ok=True)
    common.make_text()
    shutil.rmtree(FOLDER, ignore_errors=True)
    about = common.machine(command=f"bench/run kills --kills={kills} --jobs={jobs} --seed={seed}")
    record = common.Record("kills", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    begin = time.perf_counter()
    trial, _ = at_a_stretch(300)
    steps = max(300, int(RUN_S * trial["steps"] / trial["seconds"]))
    given = Kills(kills, seed, f"train.steps={steps}", at_a_stretch(steps)[1])
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for worker in [pool.submit(given.work) for _ in range(jobs)]:
            worker.result()
    result = {"seed": seed, "steps": steps, **given.result, "seconds": time.perf_counter() - begin}
    record.add(result)
    return 1 if result["lost"] or result["damaged"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"kills: {why}")
