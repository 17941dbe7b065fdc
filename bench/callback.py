#!/usr/bin/env python3
"""callback.py [STEPS]: what the callback costs a training loop whose step takes 50 ms. The time inside the calls is measured, not the difference
of two runs, which is smaller than their noise; and the processor time of `frugal follow` beside it. Prints a table."""
import os
import resource
import statistics
import sys
import tempfile
import time

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TOP, "python"))
os.environ.setdefault("FRUGAL", os.path.join(TOP, "build", "frugal"))
STEP_S = 0.05


def measured(steps, folder):
    import frugal

    os.environ["FRUGAL_RUN_LEDGER"] = os.path.join(folder, "ledger.db")
    spent = []
    run = frugal.Follow(folder, steps=steps, batch=8, usd_hour=1.0, save=lambda step: None)
    begin = time.perf_counter()
    run.open()
    opened = time.perf_counter() - begin
    for step in range(steps):
        begin = time.perf_counter()
        run.part("compute")
        spent.append(time.perf_counter() - begin)
        time.sleep(STEP_S)
        begin = time.perf_counter()
        run.step(loss=1.0 / (step + 1))
        run.stopping
        run.part("input")
        spent[-1] += time.perf_counter() - begin
    begin = time.perf_counter()
    done = run.close()
    closed = time.perf_counter() - begin
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent, opened, closed, child.ru_utime + child.ru_stime, done, run.lost


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with tempfile.TemporaryDirectory() as folder:
        spent, opened, closed, child_s, done, lost = measured(steps, folder)
    mean, median = statistics.mean(spent), statistics.median(spent)
    print(f"command   bench/callback.py {steps}")
    print(f"machine   {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}")
    print(f"steps     {steps} of {1e3 * STEP_S:.0f} ms; the ledger has {done['steps']}, {lost} reports lost")
    print(f"in calls  {1e6 * mean:.0f} us a step on average ({100 * mean / STEP_S:.3f} %), median {1e6 * median:.0f} us, most {1e6 * max(spent):.0f} us")
    print(f"beside    frugal follow took {1e6 * child_s / steps:.0f} us of processor time a step ({100 * child_s / steps / STEP_S:.3f} % of a core)")
    print(f"once      {1e3 * opened:.0f} ms to start, {1e3 * closed:.0f} ms to write the bill")
    return 0 if mean < 0.01 * STEP_S else 1


if __name__ == "__main__":
    sys.exit(main())
