"""notices.py [--quick] [--json] [--count=N] [--jobs=J] [--seed=S]: N spot notices (100) to runs whose checkpoints go to an object store.

Every notice is one run (tests/oracle/notices.py): a scripted metadata service of AWS (120 s of notice), GCP (30) or
Azure (30), or SIGTERM with 15 s to go; an S3 server that checks every signature and takes bodies at a stated rate, and one of seven phases of the
run's life. Of each cloud one more notice in eight has a store that is too slow for it (AWS with 8 s of notice, to
keep this short). Complete: the manifest of the run's last step is in the store, and all that it names, before the
machine is gone. Honest: it is not, the run has said so and ended before that, and what was there before is whole. Nothing: the notice came before
the first step. Seconds are from the cloud's word to the end of the process; AWS is asked every five seconds. J runs (4)
are under way at a time. Ends with 1 if a notice is not right.
"""
import os
import random
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import common

os.environ.setdefault("FRUGAL", common.FRUGAL)
sys.path.insert(0, os.path.join(common.TOP, "tests", "oracle"))
import notices
from s3_train import data

COUNT, JOBS = 100, 4
RATES = [None, 400_000, 60_000, 20_000]  # bytes a second; a checkpoint has some 60,000
TOO_SLOW, SHORT_S = 1_000, 8
HEAD = f"{'cloud':<9}{'phase':<12}{'notices':>8}{'complete':>10}{'honest':>8}{'nothing':>9}{'seconds':>9}{'most':>7}{'lost steps':>12}  right"


def line(r):
    return (f"{r['cloud']:<9}{r['phase']:<12}{r['notices']:>8}{r['complete']:>10}{r['honest']:>8}{r['nothing']:>9}"
            f"{r['seconds']:>9.1f}{r['most']:>7.1f}{r['lost']:>12}  {'all' if r['right'] == r['notices'] else r['right']}")


def right(r):
    """Complete where there was time for it, and never after the end."""
    if r["left"] < 0 or r["kind"] is None:
        return False
    if r["rate"] == TOO_SLOW:
        return r["kind"] in ("honest", "nothing") or r["lost"] == 0
    return r["kind"] == "complete" or (r["kind"] == "nothing" and r["phase"] == "start")


def give(run, cloud, phase, rate, seed):
    short = cloud == "aws" and rate == TOO_SLOW
    try:
        return notices.Notice(run, cloud, phase, rate, SHORT_S if short else notices.CLOUDS[cloud], random.Random(seed)).give()
    except AssertionError as why:
        common.note(f"{cloud} {phase} {rate}: {why}")
        return {"cloud": cloud, "phase": phase, "rate": rate, "kind": None, "seconds": 0, "left": 0, "lost": 0}


def main(arguments):
    count, jobs, seed = common.flags(arguments, __doc__, 14, count=COUNT, jobs=JOBS)
    about = common.machine(command=f"bench/run notices --count={count} --jobs={jobs} --seed={seed}",
                           rates="bytes/s of a body: " + ", ".join(str(r or "as they come") for r in RATES) + f"; too slow: {TOO_SLOW}")
    record = common.Record("notices", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    draw, clouds = random.Random(seed), list(notices.CLOUDS)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        run, asked = data(folder), []
        for i in range(count):
            slow = i // 4 % 8 == 7
            asked.append(pool.submit(give, run, clouds[i % 4], notices.PHASES[i // 4 % 7], TOO_SLOW if slow else draw.choice(RATES), seed + i))
        given = [a.result() for a in asked]
    groups = {}
    for r in given:
        groups.setdefault((r["cloud"], r["phase"] if r["rate"] != TOO_SLOW else "too slow"), []).append(r)
    groups = dict(sorted(groups.items()))
    groups[("all", "")] = given
    for (cloud, phase), rows in groups.items():
        kinds = [r["kind"] for r in rows]
        record.add({"cloud": cloud, "phase": phase, "notices": len(rows), **{k: kinds.count(k) for k in ("complete", "honest", "nothing")},
                    "seconds": statistics.median(r["seconds"] for r in rows), "most": max(r["seconds"] for r in rows),
                    "lost": sum(r["lost"] for r in rows), "right": sum(map(right, rows))})
    for r in given:
        if r["kind"] == "honest":
            print(f"honest, {r['cloud']}: {r['said']}")
            break
    return 0 if all(map(right, given)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
