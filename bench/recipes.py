"""The driver of `bench/run recipes`: Muon against AdamW, and the recipe modern against plain, by what each
takes to the same held-out loss.

    recipes.py [--quick] [--json]

Protocol. The GPT of examples/gpt.yaml (bench/recipes.yaml) on a text that every Debian has, from the same seed and
on the same batches, with two threads on two cores (CORES: another number). First `frugal sweep` tries the rates of each side,
all to the end of a run of STEPS steps; the rate with the lowest loss counts, and a rate at the end of its
list is marked, since a better one may lie beyond. Then, for each comparison, the base is trained with
its rate: its last loss is the mark. The challenger is trained with its own rate for a growing part of the
steps, its schedule as short as its run, until the mark is reached: that run's steps, seconds and dollars
stand beside the base's. The challenger's rate was found for the whole length, so a shorter run might do
better still. Seconds are those of the whole `frugal train`: start, steps and one evaluation.

`busy` is the share of the cores in use while nothing of ours runs: above BUSY_MAX a row is marked
DISTURBED; losses and steps do not feel it. The exit code is 1 if a challenger needs more dollars than its
base or never reaches the mark, 3 if a run failed. --quick takes a few steps, keeps nothing and judges nothing.
"""
import json
import sys

from common import BUSY_MAX, FRUGAL, TOP, Failed, Record, busy_share, machine, make_text, reap, spawn, train, two_cores

FILE = "bench/recipes.yaml"
STEPS, QUICK_STEPS = 400, 8
PARTS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 1)

# side: its settings, the rate that is looked for, and where
SIDES = {
    "plain": (["train.recipe=plain"], "train.lr", (0.002, 0.004, 0.008, 0.016, 0.032)),
    "modern, adamw": (["train.recipe=modern", "train.optimiser=adamw", "train.beta2=0.95"], "train.lr", (0.001, 0.002, 0.004, 0.008)),
    "modern, muon": (["train.recipe=modern"], "train.muon_lr", (0.005, 0.01, 0.02, 0.04)),
}
COMPARISONS = (("modern, muon", "modern, adamw"), ("modern, muon", "plain"))  # challenger, base


def best_rate(side, steps):
    """Sweeps a side; its rate, the loss of each, and the sweep's dollars."""
    settings, key, rates = SIDES[side]
    over = f"sweep.over=[{{{key}: [{', '.join(map(str, rates))}]}}]"
    process = spawn([FRUGAL, "sweep", f"{TOP}/{FILE}", "--json", *settings, f"train.steps={steps}", over, "sweep.halving=false"])
    events = [json.loads(line) for line in process.stdout]
    reap(process)
    if process.returncode or not events or events[-1]["event"] != "sweep_done":
        raise Failed(f"frugal sweep of {side} ended with {process.returncode}")
    losses = {e["settings"]: e["loss"] for e in events if e["event"] == "trial" and e["state"] == "done"}
    rate = float(events[-1]["settings"].split("=")[1])
    return rate, losses, events[-1]["dollars"]


def measure(side, rate, steps):
    """One run as a row."""
    settings, key, rates = SIDES[side]
    busy = busy_share()
    events, seconds, _ = train(FILE, *settings, f"{key}={rate}", f"train.steps={steps}")
    start, done = events[0], events[-1]
    return {"side": side, "optimiser": start["optimiser"], "muon_share": start["muon_share"], "key": key, "rate": rate,
            "edge": rate in (rates[0], rates[-1]), "steps": steps, "loss": done["loss"], "seconds": seconds,
            "dollars": seconds / 3600 * start["usd_hour"], "busy": busy}


def compare(challenger, base, rates, steps, record):
    """Adds the two rows of a comparison; returns whether the challenger reached the mark for less."""
    name = f"{challenger} / {base}"
    mark = measure(base, rates[base], steps)
    record.add({"comparison": name, **mark, "reached": True, "steps_ratio": 1, "seconds_ratio": 1, "dollars_ratio": 1})
    for part in PARTS:
        row = measure(challenger, rates[challenger], max(1, round(part * steps)))
        if row["loss"] <= mark["loss"]:
            break
    reached = row["loss"] <= mark["loss"]
    ratios = {f"{k}_ratio": row[k] / mark[k] for k in ("steps", "seconds", "dollars")}
    record.add({"comparison": name, **row, "reached": reached, **ratios})
    return reached and ratios["dollars_ratio"] <= 1


HEAD = f"{'comparison':<30} {'side':<14} {'optimiser':<9} {'rate':<21} {'steps':>5} {'loss':>7} {'seconds':>8} {'dollars':>9}" \
       f"  {'of the base: steps':>18} {'seconds':>8} {'dollars':>8}  {'busy':>4}"


def table_line(r):
    if "losses" in r:
        return f"{'sweep':<30} {r['side']:<14} " + "  ".join(f"{k} {v:.4f}" for k, v in r["losses"].items())
    rate = f"{r['key'].split('.')[1]} {r['rate']:g}{' (edge)' if r['edge'] else ''}"
    return f"{r['comparison']:<30} {r['side']:<14} {r['optimiser']:<9} {rate:<21} {r['steps']:>5} {r['loss']:>7.4f} {r['seconds']:>8.1f} " \
           f"{r['dollars']:>9.6f}  {r['steps_ratio']:>18.2f} {r['seconds_ratio']:>8.2f} {r['dollars_ratio']:>8.2f}  {r['busy']:>4.0%}" \
           f"{'' if r['reached'] else '  NOT REACHED'}{'  DISTURBED' if r['busy'] > BUSY_MAX else ''}"


def main(*arguments):
    unknown = sorted(set(arguments) - {"--quick", "--json"})
    if unknown:
        sys.exit(f"recipes does not know {unknown[0]}; it knows --quick and --json")
    quick = "--quick" in arguments
    steps = QUICK_STEPS if quick else STEPS
    two_cores()
    make_text()
    record = Record("recipes", HEAD, table_line, machine(), "--json" in arguments, kept=not quick)
    try:
        rates = {}
        for side in SIDES:
            rates[side], losses, dollars = best_rate(side, steps)
            record.add({"side": side, "losses": losses, "best": rates[side], "dollars": dollars})
        won = [compare(challenger, base, rates, steps, record) for challenger, base in COMPARISONS]
    except Failed as e:
        print(e, file=sys.stderr)
        sys.exit(3)
    sys.exit(0 if quick or all(won) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
