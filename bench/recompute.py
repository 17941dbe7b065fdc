"""recompute.py [--json] [--rounds=N]: what recomputing activations takes and gives.

One process (bench/recompute.c) compiles the 24-block GPT of bench/recompute.yaml under every fixed
policy and under `auto` at five budgets between them, then runs all of them in turn, N rounds. A row
a policy: its plan (peak of the arena; seconds of forward and backward by the time of its kernels)
beside what was measured (highest byte written; the least seconds of all rounds, because what
disturbs only adds, in processor time of one thread). `against` is the measured time of `auto` over that of the fastest fixed policy
that fits its budget, `planned` the same of the plans: neither should exceed 1.03 and 1.
"""
import json
import subprocess
import sys

import common

ROUNDS = 15
HEAD = (f"{'policy':<9}{'budget':>8}{'planned':>9}{'measured':>9}{'kept':>7}{'FLOPs':>8}"
        f"{'planned':>9}{'measured':>9}{'compile':>9}{'planned':>9}{'measured':>9}\n"
        f"{'':<9}{'MiB':>8}{'MiB':>9}{'MiB':>9}{'%':>7}{'%':>8}{'ms':>9}{'ms':>9}{'s':>9}"
        f"{'against':>9}{'against':>9}")


def mib(value):
    return f"{value / 2**20:.1f}" if value else "-"


def ratio(value):
    return f"{value:.3f}" if value else "-"


def line(r):
    return (f"{r['policy']:<9}{mib(r['budget_bytes']):>8}{mib(r['planned_bytes']):>9}"
            f"{mib(r['measured_bytes']):>9}{100 * r['kept']:>7.1f}{100 * r['flops_more']:>+8.1f}"
            f"{1e3 * r['planned_s']:>9.1f}{1e3 * r['least_s']:>9.1f}{r['compile_s']:>9.2f}"
            f"{ratio(r['planned_against']):>9}{ratio(r['least_against']):>9}")


def compare(row, rows):
    """Adds what follows from the others: the first keeps everything, the fixed ones come first."""
    most = rows[0]
    row["kept"] = ((row["planned_bytes"] - row["persistent_bytes"])
                   / (most["planned_bytes"] - most["persistent_bytes"]))
    row["flops_more"] = row["flops"] / most["flops"] - 1
    fits = [r for r in rows if not r["budget_bytes"] and r["planned_bytes"] <= row["budget_bytes"]]
    for key in ("planned", "least"):
        row[key + "_against"] = row[key + "_s"] / min(r[key + "_s"] for r in fits) if fits else None


def main(arguments):
    rounds = ROUNDS
    for a in arguments:
        if a.startswith("--rounds="):
            rounds = int(a[len("--rounds="):])
        elif a != "--json":
            sys.exit(__doc__)
    common.two_cores()
    common.make_text()
    subprocess.run(["cmake", "--build", "build", "--target", "bench_recompute"], cwd=common.TOP,
                   check=True, stdout=subprocess.DEVNULL)
    busy = common.busy_share()
    done = subprocess.run(["build/bench_recompute", str(rounds), "bench/recompute.yaml"],
                          cwd=common.TOP, env=common.environment(), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise common.Failed("bench_recompute failed")
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    about = common.machine(command="bench/run recompute", rounds=rounds,
                           busy=f"{100 * busy:.0f} % before it began")
    about["threads"] = 1  # as bench/recompute.yaml says
    record = common.Record("recompute", HEAD, line, about, "--json" in arguments)
    for row in rows:
        compare(row, rows)
        record.add(row)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except common.Failed as e:
        sys.exit(f"recompute: {e}")
