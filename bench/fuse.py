"""fuse.py [--json] [--rounds=N] [ROW...]: what doing several ops in one pass over memory gives.

Rows: mlp gpt gpt-dropout resnet; all of them without a name. For each, one process (bench/fuse.c)
compiles the step without fusion, with each pattern alone and with all, and runs all of them in turn,
N rounds. A line a set: instructions of a step, megabytes they move by the op table, milliseconds (the
least of all rounds, because what disturbs only adds, in processor time of one thread) and how much
less that is than without fusion. `none again` is the same program as none: what it differs by is noise.
"""
import json
import subprocess
import sys

import common
import cpu

ROUNDS = 15
ROWS = {
    "mlp": ["bench/cpu/mlp.yaml"],
    "gpt": ["bench/cpu/gpt.yaml", "model.depth=2"],
    "gpt-dropout": ["bench/cpu/gpt.yaml", "model.depth=2", "model.dropout=0.1"],
    "resnet": ["bench/cpu/resnet.yaml", "train.batch=32"],
}
MORE_ROUNDS = {"mlp": 100, "resnet": 3}  # short steps
HEAD = f"{'row':<13}{'fused':<11}{'instructions':>13}{'MB moved':>10}{'ms':>10}{'gain':>8}"


def line(r):
    return (f"{r['row']:<13}{r['set']:<11}{r['instructions']:>13}{r['moved_bytes'] / 1e6:>10.1f}"
            f"{1e3 * r['least_s']:>10.3f}{100 * r['gain']:>+7.1f}%")


def measure(row, rounds):
    file, *settings = ROWS[row]
    command = ["../bench_fuse", str(rounds * MORE_ROUNDS.get(row, 1)), "../../" + file, "train.threads=1"]
    done = subprocess.run(command + settings, cwd=common.DATA, env=common.environment(),
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise common.Failed(f"bench_fuse failed on {row}")
    sets = [json.loads(text) for text in done.stdout.splitlines()]
    for s in sets:
        s.update(row=row, gain=1 - s["least_s"] / sets[0]["least_s"])
    return sets


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
    subprocess.run(["cmake", "--build", "build", "--target", "bench_fuse"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    about = common.machine(command="bench/run fuse", rounds=rounds,
                           busy=f"{100 * common.busy_share():.0f} % before it began")
    record = common.Record("fuse", HEAD, line, about, "--json" in arguments)
    for row in rows or ROWS:
        for result in measure(row, rounds):
            record.add(result)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except common.Failed as e:
        sys.exit(f"fuse: {e}")
