"""The driver of `bench/run bill`: the same result for fewer dollars, lever by lever, by frugal's own report.

    bill.py [--quick] [--json]

Protocol. A small GPT on a text that every Debian has, two threads on two cores. The first run is the default that one
would have without asking: examples/gpt.yaml in fp32, nothing recomputed, its 1,000 steps to the end, at the on-demand price. Its
held-out loss at the end is the mark that every later run must reach; each adds one lever to the run before it:

    recipe     examples/gpt_modern.yaml: Muon, today's block and schedule, its 300 steps to the end
    target     ends when an evaluation has reached the mark, looked at every 25 steps
    precision  train.precision=auto: bf16 where this processor is faster with it
    spot       the spot price of the same machine; it is the price alone, nothing is interrupted in so short a run

The price is that of two vCPUs of the catalogue's c7a.48xlarge, the machine with cores like those this was first measured on; it
is billed by the second. All runs are in a ledger of their own, build/bench/bill.db; the table, the sums and the picture
(bench/results/bill-DATE.svg) are what `frugal report` makes of it. `busy` is the share of the cores in use while nothing of ours runs: above
BUSY_MAX a run is marked DISTURBED. The exit code is 1 if a run misses the mark or the last costs more than the
first, 3 if a run failed. --quick takes a few steps, keeps nothing and judges nothing.
"""
import json
import os
import subprocess
import sys

import common
from common import BUSY_MAX, DATA, Failed, Record, busy_share, machine, make_text, note, train, two_cores

MACHINE, VCPUS = "c7a.48xlarge", 2
QUICK_STEPS = 6
LEDGER = os.path.join(DATA, "bill.db")


def frugal(*words):
    """What a command that reads prices or the ledger prints."""
    done = subprocess.run([common.FRUGAL, *words], cwd=DATA, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"frugal {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def prices():
    """Dollars an hour for VCPUS of the machine, on demand and spot."""
    row = json.loads(frugal("prices", MACHINE, "--json").splitlines()[0])
    part = VCPUS / row["vcpus"]
    return row["on_demand_usd_h"] * part, row["spot_usd_h"] * part


def runs(quick):
    """name, file, settings; a setting may ask for the mark. Each run has the settings of its row alone."""
    on_demand, spot = prices()
    plain, modern = "examples/gpt.yaml", "examples/gpt_modern.yaml"
    steps = [f"train.steps={QUICK_STEPS}"] if quick else []
    stop = ["train.target={mark}", f"train.eval_every={1 if quick else 25}"]
    whole = ["train.target=none"]
    paid, cheap = [f"train.usd_hour={on_demand}", "run.market=on-demand"], [f"train.usd_hour={spot}", "run.market=spot"]
    fp32, auto = ["train.precision=fp32"], ["train.precision=auto"]
    return [("default", plain, whole + fp32 + paid + steps),
            ("recipe", modern, whole + fp32 + paid + steps),
            ("target", modern, stop + fp32 + paid + steps),
            ("precision", modern, stop + auto + paid + steps),
            ("spot", modern, stop + auto + cheap + steps)]


def measure(name, file, settings, mark):
    """One run, recorded, as a row."""
    busy = busy_share()
    settings = [s.format(mark=mark) for s in settings]
    events, seconds, _ = train(file, "data.path=text.txt", "data.eval_samples=512", f"run.name={name}",
                               f"run.ledger={LEDGER}", *settings, fine=(0, 1))  # 1: misses its target; judged below
    bill = json.loads(frugal("report", name, "--ledger", LEDGER, "--json"))
    return {"run": name, "id": bill["run"], "steps": events[-1]["steps"], "loss": events[-1]["loss"], "seconds": seconds,
            "dollars": bill["dollars"], "parts": bill["parts"], "precision": events[0]["precision"], "busy": busy}


HEAD = f"{'run':<10} {'steps':>5} {'loss':>7} {'precision':<9} {'seconds':>8} {'dollars':>10}  {'busy':>4}"


def table_line(r):
    return f"{r['run']:<10} {r['steps']:>5} {r['loss']:>7.4f} {r['precision']:<9} {r['seconds']:>8.2f} {r['dollars']:>10.6f}  " \
           f"{100 * r['busy']:>3.0f}%" + ("  DISTURBED" if r["busy"] > BUSY_MAX else "")


def main(*arguments):
    unknown = sorted(set(arguments) - {"--quick", "--json"})
    if unknown:
        sys.exit(f"bill does not know {unknown[0]}; it knows --quick and --json")
    quick, as_json = "--quick" in arguments, "--json" in arguments
    two_cores()
    make_text()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(LEDGER + end):
            os.remove(LEDGER + end)
    on_demand, spot = prices()
    about = machine(price=f"{VCPUS} vCPUs of aws {MACHINE}: ${on_demand:.4f} an hour on demand, ${spot:.4f} spot")
    record = Record("bill", HEAD, table_line, about, as_json, kept=not quick)
    rows, mark = [], None
    for name, file, settings in runs(quick):
        rows.append(measure(name, file, settings, mark))
        mark = mark or rows[0]["loss"]
        record.add(rows[-1])
    ids, picture = [r["id"] for r in rows], os.path.join(DATA, "bill.svg") if quick else record.path + ".svg"
    told = frugal("report", *ids, "--ledger", LEDGER, "--svg", picture)
    (note if as_json else print)("\n" + told)
    if quick:
        return 0
    with open(record.path + ".txt", "a") as f:
        f.write("\n" + told)
    return int(any(r["loss"] > mark for r in rows) or rows[-1]["dollars"] > rows[0]["dollars"])


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Failed as failure:
        note(failure)
        sys.exit(3)
