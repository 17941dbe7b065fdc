"""profiler.py [--json] [--rounds=N] [ROW...]: what looking at steps takes of them.

Rows: mlp gpt; both without a name. bench/profiler.c makes the same run three times a round, N rounds, in an order
that turns: as it is; with a clock that is hardly ever read; and with every step profiled. Off: how much longer a
step takes than with the seldom-read clock, which bounds what the split of time costs from above. On: how much longer
than as it is. Processor time of one thread; both are medians of the rounds' ratios, with their quartiles. Below 1 % off and 5 % on is demanded.
"""
import json
import statistics
import subprocess
import sys

import common
import cpu

ROUNDS = 31
ROWS = {
    "mlp": (2000, ["bench/cpu/mlp.yaml"]),
    "gpt": (24, ["bench/cpu/gpt.yaml", "model.depth=1", "train.batch=2"]),
}
HEAD = f"{'row':<6}{'ms a step':>10}{'off':>9}{'quartiles':>18}{'on':>9}{'quartiles':>18}"


def line(r):
    of = lambda q: f"{100 * q[0]:+.2f} .. {100 * q[2]:+.2f}%"
    return (f"{r['row']:<6}{1e3 * r['step_s']:>10.4f}{100 * r['off'][1]:>+8.2f}%{of(r['off']):>18}"
            f"{100 * r['on'][1]:>+8.2f}%{of(r['on']):>18}")


def measure(row, rounds):
    steps, (file, *settings) = ROWS[row]
    command = ["../bench_profiler", str(rounds), str(steps), "../../" + file, "train.threads=1"]
    done = subprocess.run(command + settings, cwd=common.DATA, env=common.environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise common.Failed(f"bench_profiler failed on {row}")
    all = [json.loads(text) for text in done.stdout.splitlines()]
    quartiles = lambda top, below: statistics.quantiles([r[top] / r[below] - 1 for r in all], n=4)
    return {"row": row, "step_s": statistics.median(r["as_is_s"] for r in all),
            "off": quartiles("as_is_s", "seldom_s"), "on": quartiles("profiled_s", "as_is_s")}


def main(arguments):
    rounds, rows = ROUNDS, []
    for a in arguments:
        if a.startswith("--rounds="):
            rounds = int(a[len("--rounds="):])
        elif a in ROWS:
            rows.append(a)
        elif a != "--json":
            sys.exit(__doc__)
    common.threads = 1
    cpu.make_data()
    subprocess.run(["cmake", "--build", "build", "--target", "bench_profiler"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    about = common.machine(command="bench/run profiler", rounds=rounds,
                           busy=f"{100 * common.busy_share():.0f} % before it began")
    record = common.Record("profiler", HEAD, line, about, "--json" in arguments)
    for row in rows or ROWS:
        record.add(measure(row, rounds))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except common.Failed as e:
        sys.exit(f"profiler: {e}")
