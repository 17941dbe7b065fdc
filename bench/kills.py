"""kills.py [--quick] [--json] [--kills=N]: a training process killed N times (200), against one that is not.

A small GPT with dropout and accumulation (bench/kills.yaml) is trained once at a stretch. Then it is
started with checkpoints as often as the disk takes them, killed by SIGKILL after a random time (seed
printed; --seed=S again), and started again, N times; the last start is left alone. What is counted:
starts that went on from a checkpoint; kills that left a half-written one behind; checkpoints that were
believed and then found damaged (`frugal checkpoints` verifies every byte after each kill): must be 0;
steps done twice. The weights at the end must be those of the first run, byte by byte.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import common

KILLS, QUICK_KILLS, KILL_S_MAX = 200, 12, 0.5
HEAD = f"{'kills':>6}{'went on':>9}{'halves':>8}{'damaged':>9}{'steps':>7}{'twice':>7}{'seconds':>9}  weights"
FILE = os.path.join(common.TOP, "bench", "kills.yaml")
FOLDER = os.path.join(common.DATA, "kills")


def line(r):
    return (f"{r['kills']:>6}{r['resumed']:>9}{r['halves']:>8}{r['damaged']:>9}{r['steps']:>7}{r['redone']:>7}"
            f"{r['seconds']:>9.1f}  {'the same bits' if r['same'] else 'DIFFERENT'}")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def start(out, *settings):
    """A training process; its events go to a file, which a kill cannot hold up."""
    log = open(os.path.join(FOLDER, "events"), "w")
    return subprocess.Popen([common.FRUGAL, "train", FILE, "--json", f"train.out={out}", *settings],
                            cwd=common.DATA, env=common.environment(), stdout=log, stderr=subprocess.DEVNULL)


def events():
    """Those that were written whole."""
    found = []
    for text in read(os.path.join(FOLDER, "events")).decode().splitlines():
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


def kill_often(kills, draw, result, *more):
    checkpoints = os.path.join(FOLDER, "checkpoints")
    out = os.path.join(FOLDER, "pieces.safetensors")
    settings = (f"checkpoint.dir={checkpoints}", "checkpoint.every=1", "checkpoint.keep=2", "train.log_every=1", *more)
    last = 0  # step that was seen before the kill
    for n in range(kills + 1):
        process = start(out, *settings)
        try:
            process.wait(None if n == kills else draw.uniform(0.01, KILL_S_MAX))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        seen = events()
        went_on = [e["step"] for e in seen if e["event"] == "checkpoint" and e["what"] == "resumed"]
        result["resumed"] += len(went_on)
        result["damaged"] += sum(e["event"] == "checkpoint" and e["what"] == "damaged" for e in seen)
        if seen and seen[0]["event"] in ("checkpoint", "start"):
            result["redone"] += max(0, last - (went_on[0] if went_on else 0))
            last = max([e["step"] for e in seen if e["event"] == "step"], default=went_on[0] if went_on else 0)
        result["halves"] += halves(checkpoints)
        result["damaged"] += damaged(checkpoints) if os.path.isdir(checkpoints) else 0
        if process.returncode == 0 and n < kills:
            raise common.Failed(f"the run was over after {n} kills: it is too short for {kills}")
    if process.returncode:
        raise common.Failed(f"the last start ended with {process.returncode}: {seen[-1:]}")
    return out


def main(arguments):
    kills, seed = KILLS, random.SystemRandom().randrange(1 << 32)
    for a in arguments:
        if a == "--quick":
            kills = QUICK_KILLS
        elif a.startswith("--kills="):
            kills = int(a[len("--kills="):])
        elif a.startswith("--seed="):
            seed = int(a[len("--seed="):])
        elif a != "--json":
            sys.exit(__doc__)
    common.two_cores()
    os.makedirs(common.DATA, exist_ok=True)
    common.make_text()
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    about = common.machine(command=f"bench/run kills --kills={kills} --seed={seed}")
    record = common.Record("kills", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    begin = time.perf_counter()
    whole = os.path.join(FOLDER, "whole.safetensors")
    if start(whole, "train.steps=300").wait():
        raise common.Failed(f"the first steps failed: {events()[-1:]}")
    done = events()[-1]
    steps = f"train.steps={max(60 * kills, int(kills * KILL_S_MAX * done['steps'] / done['seconds']))}"
    if start(whole, steps).wait():
        raise common.Failed(f"the run at a stretch failed: {events()[-1:]}")
    result = {"kills": kills, "seed": seed, "resumed": 0, "halves": 0, "damaged": 0, "redone": 0}
    result["steps"] = events()[-1]["steps"]
    out = kill_often(kills, random.Random(seed), result, steps)
    result["same"] = read(out) == read(whole)
    result["seconds"] = time.perf_counter() - begin
    record.add(result)
    return 0 if result["same"] and not result["damaged"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"kills: {why}")
