"""caps.py [--quick] [--json] [--kills=N] [--jobs=J] [--seed=S]: runs under a cap, killed N times (200) and resumed.

A small GPT (bench/kills.yaml) is trained under train.max_seconds or, by turns, under train.max_dollars at a made-up
price of $1 a second. Each run is killed by SIGKILL eight times, after random times (seed printed; --seed=S again), and
resumed by the same command; the last start is left alone and ends by its cap. What is counted:

  differ   runs where what the last start printed is not what `frugal runs` and `frugal report` say, to a hundredth of a
           cent: must be 0
  over     runs that passed their cap by more than the slowest step and the slowest save of their last start: must be 0.
           An evaluation is planned for by what the ones before it took, so on a machine that is busy with other work, where
           one of them may wait for a core, this needs a priority above that work
  most     by how much a run passed its cap at most, in seconds; promised: the step and the save of that run
  unseen   what no file has of a killed start, in seconds, at most: what all starts of a run lived on the wall, less what
           was printed, by its starts
"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import common

KILLS, QUICK_KILLS, KILLS_A_RUN, JOBS, CAP = 200, 16, 8, 1, 4.0
HEAD = f"{'cap':<14}{'kills':>6}{'runs':>6}{'differ':>8}{'over':>6}{'most':>9}{'promised':>10}{'unseen':>8}{'seconds':>9}"
FILE = os.path.join(common.TOP, "bench", "kills.yaml")
FOLDER = os.path.join(common.DATA, "caps")


def line(r):
    return (f"{r['cap']:<14}{r['kills']:>6}{r['runs']:>6}{r['differ']:>8}{r['over']:>6}{r['most']:>9.4f}{r['promised']:>10.4f}"
            f"{r['unseen']:>8.3f}{r['seconds']:>9.1f}")


def told(folder, *arguments):
    done = subprocess.run([common.FRUGAL, *arguments, "--json"], cwd=folder, capture_output=True, text=True,
                          env=dict(common.environment(), FRUGAL_RUN_LEDGER=os.path.join(folder, "ledger.db")))
    if done.returncode:
        raise common.Failed(f"frugal {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return [json.loads(text) for text in done.stdout.splitlines()]


def start(folder, cap, kill_s):
    """One start; its events where it ended by itself, None where it was killed, and what it lived."""
    log, begin = os.path.join(folder, "events"), time.perf_counter()
    with open(log, "w") as out:
        process = subprocess.Popen(
            [common.FRUGAL, "train", FILE, "--json", "train.out=none", f"data.path={common.DATA}/text.txt", f"{cap}={CAP}",
             "train.usd_hour=3600", "train.threads=1", "train.log_every=1", "train.eval_every=20", "checkpoint.dir=kept", "checkpoint.every=25",
             "checkpoint.keep=2", "run.ledger=ledger.db"],
            cwd=folder, env=common.environment(), stdout=out, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(kill_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            code = process.wait()
    lived = time.perf_counter() - begin
    if code == -signal.SIGKILL:
        return None, lived
    with open(log) as f:
        events = [json.loads(text) for text in f]
    if code or events[-1].get("stopped", "budget") != "budget":
        raise common.Failed(f"a start ended with {code}: {events[-1:]}")
    return events, lived


def promised(events):
    """The slowest step and the slowest save of a start; what comes after its last step or evaluation is its last save."""
    step, save, last = 0, 0, None
    for e in events:
        if e["event"] == "step":
            step = max(step, e["elapsed_s"] - last) if last is not None else step
        if e["event"] in ("step", "eval"):
            last = e["elapsed_s"]
        if e["event"] == "checkpoint" and e["what"] == "saved":
            save = max(save, (e["blocked_s"] or 0) + (e["persist_s"] or 0))
        if e["event"] == "done" and last is not None:
            save = max(save, e["seconds"] - last)
    return step + save


def run(number, cap, seed):
    draw, folder = random.Random(f"{seed}/{number}"), os.path.join(FOLDER, str(number))
    os.makedirs(folder)
    events, lived, starts = None, 0, 0
    while events is None:
        events, more = start(folder, cap, draw.uniform(0.02, 0.9 * CAP / KILLS_A_RUN) if starts < KILLS_A_RUN else None)
        lived, starts = lived + more, starts + 1
    done = [e for e in events if e["event"] == "done"][0]
    [row] = told(folder, "runs")
    report = [e for e in told(folder, "report", row["run"]) if e["event"] == "report"][0]
    paid = done["dollars"]
    shutil.rmtree(folder)
    over, allowed = (paid if cap.endswith("dollars") else done["seconds"]) - CAP, promised(events)
    return {"kills": starts - 1, "differ": max(abs(paid - row["dollars"]), abs(paid - report["dollars"])) > 1e-4,
            "over": over > allowed, "most": over, "promised": allowed, "unseen": (lived - done["seconds"]) / starts}


def main(arguments):
    kills, jobs, seed = common.flags(arguments, __doc__, QUICK_KILLS, kills=KILLS, jobs=JOBS)
    os.makedirs(common.DATA, exist_ok=True)
    common.make_text()
    shutil.rmtree(FOLDER, ignore_errors=True)
    about = common.machine(command=f"bench/run caps --kills={kills} --jobs={jobs} --seed={seed}",
                           busy=f"{common.busy_share():.0%} of the cores before it began")
    record = common.Record("caps", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    bad = 0
    for cap in ("train.max_seconds", "train.max_dollars"):
        begin, rows, number = time.perf_counter(), [], 0
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            while sum(r["kills"] for r in rows) < kills / 2:
                rows += pool.map(lambda n: run(f"{cap}-{n}", cap, seed), range(number, number + jobs))
                number += jobs
        worst = max(rows, key=lambda r: r["most"])
        result = {"cap": cap[len("train."):], "seed": seed, "runs": len(rows), **{k: sum(r[k] for r in rows) for k in ("kills", "differ", "over")},
                  "most": worst["most"], "promised": worst["promised"], "unseen": max(r["unseen"] for r in rows),
                  "seconds": time.perf_counter() - begin}
        record.add(result)
        bad += result["differ"] + result["over"]
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"caps: {why}")
