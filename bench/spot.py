"""spot.py [--json] DIR: real spot machines against what plan/risk.h predicts.

DIR holds traces, TRACE.csv with the head "state,seconds" and rows "up,608" or "down,352" (such as
skypilot-org/spot-traces condensed to runs of equal state). bench/spot.c replays an endless run on each:
start 300 s, stall 5 s a save. `error` is that of the predicted overhead (up time less work that lasted)
with the hazard fitted on the same trace (it must stay within 15 %); `2nd half` the same for the second
half of the trace with the hazard of the first, beside the standard error 1/sqrt(interruptions) of such
a hazard. Then goodput: work that lasted over up time, saving as the hazard asks for (fitted; the prior
that knows nothing of the trace), every 500 steps of 1 s, every 30 minutes, with the fixed interval that
turns out the best, and with one save just before each interruption, which nobody can do.
"""
import glob
import json
import os
import subprocess
import sys

import common

HEAD = (f"{'trace':<18}{'up':>7}{'taken':>7}{'shape':>7}{'mean':>7}{'overhead':>9}{'error':>8}"
        f"{'2nd half':>9}{'+-':>6}{'auto':>8}{'prior':>7}{'500':>7}{'30':>7}{'best':>7}{'at':>6}"
        f"{'none':>7}\n"
        f"{'':<18}{'h':>7}{'':>7}{'':>7}{'h':>7}{'h':>9}{'%':>8}{'%':>9}{'%':>6}{'%':>8}{'%':>7}"
        f"{'steps':>7}{'min':>7}{'fixed':>7}{'s':>6}{'lost':>7}")


def line(r):
    def percent(key, width, sign=""):
        return f"{100 * r[key]:>{sign}{width}.1f}"
    return (f"{r['trace']:<18}{r['up_h']:>7.1f}{r['interruptions']:>7}{r['shape']:>7.2f}"
            f"{r['mean_h']:>7.2f}{r['overhead_h']:>9.2f}{percent('error', 8, '+')}"
            f"{percent('error_second_half', 9, '+')}{percent('standard_error', 6)}"
            f"{percent('goodput_auto', 8)}{percent('goodput_prior', 7)}"
            f"{percent('goodput_500_steps', 7)}{percent('goodput_30_min', 7)}"
            f"{percent('goodput_best_fixed', 7)}{r['best_fixed_s']:>6.0f}"
            f"{percent('goodput_clairvoyant', 7)}")


def main(arguments):
    folders = [a for a in arguments if a != "--json"]
    traces = sorted(glob.glob(os.path.join(folders[0], "*.csv"))) if len(folders) == 1 else []
    if not traces:
        sys.exit(__doc__)
    subprocess.run(["cmake", "--build", "build", "--target", "bench_spot"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    done = subprocess.run(["build/bench_spot", *map(os.path.abspath, traces)], cwd=common.TOP, check=True,
                          stdout=subprocess.PIPE, text=True)
    about = common.machine(command="bench/run spot DIR")
    record = common.Record("spot", HEAD, line, about, "--json" in arguments)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    for row in rows:
        record.add(row)
    worst = max(abs(r["error"]) for r in rows)
    common.note(f"largest error with the trace's own hazard {100 * worst:.1f} %, allowed 15 %: "
                f"{'met' if worst <= 0.15 else 'MISSED'}")


if __name__ == "__main__":
    main(sys.argv[1:])
