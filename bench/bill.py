"""The driver of `bench/run bill`: the same result for fewer dollars, lever by lever, by frugal's own report.

    bill.py [--quick] [--json]

Protocol. A small GPT on a text that every Debian has, two threads on two cores. The first run is the default that one
would have without asking: examples/gpt.yaml in fp32, nothing recomputed, its 1,000 steps to the end, at the on-demand price. Its
held-out loss at the end is the mark that every later run must reach; each adds one lever to the run before it:

    recipe     examples/gpt_modern.yaml: Muon, today's block and schedule, its 300 steps to the end
    target     ends when an evaluation has reached the mark, looked at every 25 steps
    precision  train.precision=auto: bf16 where this processor is faster with it
    spot       the spot price of the same machine, with checkpoints; it is interrupted once, by SIGTERM as a notice does it, and
               started again: what that costs is in its bill

The price is that of two vCPUs of the catalogue's c7a.48xlarge, the machine with cores like those this was first measured on; it
is billed by the second. All runs are in a ledger of their own, build/bench/bill.db; the table, the sums and the picture
(bench/results/bill-DATE.svg) are what `frugal report` makes of it. `busy` is the share of the cores in use while nothing of ours runs: above
BUSY_MAX a run is marked DISTURBED. The exit code is 1 if a run misses the mark or the last costs more than the
first, 3 if a run failed. --quick takes a few steps, keeps nothing and judges nothing. About four minutes on two quiet
Zen 4 cores.

bench/figures.py writes the table in docs/measured.md from the rows when all of them met the mark undisturbed; otherwise
the table of an earlier run stays, and that is said.
"""
import json
import os
import shutil
import signal
import subprocess
import sys

import common
from common import BUSY_MAX, DATA, TOP, Failed, Record, busy_share, is_quiet, machine, make_text, note, reap, spawn, train, two_cores

MACHINE, VCPUS = "c7a.48xlarge", 2
QUICK_STEPS = 6
LEDGER = os.path.join(DATA, "bill.db")
KEPT = "bill-kept"                      # the spot run's checkpoints, in DATA
CUT_AT = 3                              # evaluations until it is interrupted
WHAT = {"default": "fp32, AdamW, nothing recomputed, 1,000 steps to the end, on demand",
        "recipe": "`train.recipe=modern`: Muon, today's block and schedule, 300 steps",
        "target": "stops when the held-out loss reaches the default's: `train.target`",
        "precision": "`train.precision=auto`: bf16 on this processor",
        "spot": "the machine's spot price; interrupted once and resumed from its checkpoint"}


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
            ("spot", modern, stop + auto + cheap + [f"checkpoint.dir={KEPT}"] + steps)]


def interrupted(file, settings):
    """The run until its third evaluation, when it is asked to go: it saves and says that it can be resumed. Its events, and
    whether it is to be; one that was done before is whole."""
    process, events = spawn([common.FRUGAL, "train", os.path.join(TOP, file), "--json", *settings]), []
    for line in process.stdout:
        events.append(json.loads(line))
        if sum(e["event"] == "eval" for e in events) == CUT_AT and events[-1]["event"] == "eval":
            process.send_signal(signal.SIGTERM)
    reap(process)
    if process.returncode not in (0, 1, 4):  # 4: interrupted and safe
        raise Failed(f"the interrupted run ended with {process.returncode}: {common.last_words()}")
    return events, process.returncode == 4


def measure(name, file, settings, mark):
    """One run, recorded, as a row."""
    busy, events, goes_on = busy_share(), [], True
    settings = ["data.path=text.txt", "data.eval_samples=512", f"run.name={name}", f"run.ledger={LEDGER}",
                *(s.format(mark=mark) for s in settings)]
    if name == "spot":
        shutil.rmtree(os.path.join(DATA, KEPT), ignore_errors=True)
        events, goes_on = interrupted(file, settings)
    if goes_on:
        events, _, _ = train(file, *settings, fine=(0, 1))  # 1: misses its target; judged below
    bill = json.loads(frugal("report", name, "--ledger", LEDGER, "--json"))
    start = next(e for e in events if e["event"] == "start")
    return {"run": name, "id": bill["run"], "steps": events[-1]["steps"], "loss": events[-1]["loss"], "seconds": bill["metered_s"],
            "dollars": bill["dollars"], "parts": bill["parts"], "precision": start["precision"], "busy": busy}


HEAD = f"{'run':<10} {'steps':>5} {'loss':>7} {'precision':<9} {'seconds':>8} {'dollars':>10}  {'busy':>4}"


def table_line(r):
    return f"{r['run']:<10} {r['steps']:>5} {r['loss']:>7.4f} {r['precision']:<9} {r['seconds']:>8.2f} {r['dollars']:>10.6f}  " \
           f"{100 * r['busy']:>3.0f}%" + ("  DISTURBED" if r["busy"] > BUSY_MAX else "")


def is_sound(rows):
    """Whether a page may show them: all runs, undisturbed, at the mark, and the last no dearer than the first."""
    return [r["run"] for r in rows] == list(WHAT) and all(map(is_quiet, rows)) and not is_missed(rows)


def is_missed(rows):
    return any(r["loss"] > rows[0]["loss"] for r in rows) or rows[-1]["dollars"] > rows[0]["dollars"]


def page_table(rows):
    """The rows as a table for docs/measured.md, and what they were measured on."""
    lines = ["| run | what it adds | steps | held-out loss | seconds | $ per thousand runs | of the default |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['run']} | {WHAT[r['run']]} | {r['steps']:,} | {r['loss']:.3f} | {r['seconds']:.1f} | "
                     f"{1000 * r['dollars']:.2f} | {100 * r['dollars'] / rows[0]['dollars']:.0f} % |")
    day = rows[0]["date"][:10]
    return "\n".join(lines) + f"\n\nTwo cores, {rows[0]['machine'].split(';')[0]}; {rows[0]['price']}; {day} " \
        f"([whole output](../bench/results/bill-{day}.txt), [picture](../bench/results/bill-{day}.svg)).\n"


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
    if not is_sound(rows):
        note("docs/measured.md keeps the figures of an earlier run: a run missed the mark, or was measured beside other work")
    return int(is_missed(rows))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Failed as failure:
        note(failure)
        sys.exit(3)
