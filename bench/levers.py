"""The driver of `bench/run levers`: what each lever does to time, memory and loss.

    levers.py [--quick] [--json] [gpt] [resnet]

Protocol. The two examples, from the same seed and on the same batches, with two threads on two cores:
plain (without fusing, which is otherwise on), with each lever alone, with levers together, and plain
once more. A row is one run of `frugal train`. Its step time is the median over its steps but the first,
`spread` the distance of their 10th and 90th percentile over that median. A machine's speed may change
within minutes, so a short plain run stands before and after each row: `beside` is the mean of their two
step times, `time` that over the row's own: above 1 is faster. Where the two differ by more than DRIFT_MAX
the row is marked DRIFTED. `planned` is
what compile says before anything is allocated, `used` the end of what was written, `process` the
kernel's peak resident size. `loss` is over held-out samples after the last step, `of plain` its ratio
to plain's. `busy` is the share of the cores in use while nothing of ours runs: above BUSY_MAX a row
is marked DISTURBED.

A lever is a row of LEVERS: its settings are put over the example's. One that frugal does not know is
a failure, as is any other: the table then lacks the row, says why, and the exit code is 3. Below a
table stand its verdicts, met or missed; the exit code is 1 if one was missed. --quick takes a few
steps, keeps nothing and judges nothing.
"""
import statistics
import sys

from common import (BUSY_MAX, Failed, Record, busy_share, machine, make_text, note, train, two_cores)

# Settings of every run. A small eval_batch: else the evaluation would need the most memory and hide what
# the levers do. drop_last: the short last batch has a program of its own, which no run here comes to.
COMMON = ["train.target=none", "train.eval_every=0", "train.log_every=1", "train.threads=2", "train.fuse=none",
          "train.drop_last=true"]
EXAMPLES = {
    "gpt": COMMON + ["data.path=text.txt", "data.eval_samples=256", "train.eval_batch=4"],
    "resnet": COMMON + ["data.eval_samples=2000", "train.eval_batch=32"],
}
STEPS = {"gpt": 200, "resnet": 60}
STEPS_QUICK = {"gpt": 4, "resnet": 3}
BESIDE = 5       # a plain run beside a row takes that part of its steps
DRIFT_MAX = 0.1  # of the slower of the two; a row beyond it is not compared
WARMUP = {"gpt": 50, "resnet": 20}  # the examples' own, and what suits so few steps

# lever: its settings. A number that ends in x is so many times what plain has of it.
LEVERS = {
    "plain": [],
    "fuse all": ["train.fuse=all"],
    "precision bf16": ["train.precision=bf16"],
    "precision fp16": ["train.precision=fp16"],
    "recompute all": ["train.recompute=all"],
    "recompute every 2": ["train.recompute=2"],
    "recompute auto, 0.6x": ["train.recompute=auto", "train.memory_gib=0.6x"],
    "4 micro-batches": ["train.micro_batch=0.25x"],
    "micro-batch auto, 0.4x": ["train.micro_batch=auto", "train.memory_gib=0.4x"],
    "schedule constant": ["train.schedule=constant"],
    "schedule wsd": ["train.schedule=wsd"],
    "muon": ["train.optimiser=muon", "train.lr=0.003"],
    "recipe plain": ["train.recipe=plain"],
    "recipe modern": ["train.recipe=modern"],
    "all for speed": ["train.fuse=all", "train.precision=bf16", "train.optimiser=muon", "train.lr=0.003"],
    "all for memory": ["train.fuse=all", "train.precision=bf16", "train.optimiser=muon", "train.lr=0.003",
                       "train.micro_batch=0.25x", "train.recompute=all"],
    "plain again": [],
}

# What an example says and the lever would ignore, which frugal refuses.
TAKEN_BACK = {"gpt": {"train.schedule=constant": ["train.lr_end=default"]},
              "resnet": {"train.optimiser=muon": ["train.momentum=default", "train.nesterov=default"]}}

# These rows begin with bench/levers/EXAMPLE.yaml: a recipe fills in only what the file leaves open.
BARE = ("recipe plain", "recipe modern")


def arguments_of(example, lever, steps, plain):
    """File and settings of a run."""
    if lever in BARE:
        arguments = [f"bench/levers/{example}.yaml"]
    else:
        arguments = [f"examples/{example}.yaml", "train.precision=fp32", f"train.warmup={WARMUP[example]}"]
    arguments += [*EXAMPLES[example], f"train.steps={steps}"]
    for setting in LEVERS[lever]:
        key, value = setting.split("=")
        if value.endswith("x"):
            have = plain["planned_mib"] / 2**10 if key == "train.memory_gib" else plain["batch"]
            value = f"{float(value[:-1]) * have:.6g}"
        arguments.append(f"{key}={value}")
        arguments += TAKEN_BACK[example].get(setting, [])
    return arguments


def times_of(told):
    """Milliseconds of each step but the first."""
    return [1e3 * (b["elapsed_s"] - a["elapsed_s"]) for a, b in zip(told, told[1:])]


def plain_ms(example, steps):
    """A step of a short plain run."""
    events, _, _ = train(*arguments_of(example, "plain", max(steps // BESIDE, 3), None))
    return statistics.median(times_of([e for e in events if e["event"] == "step"]))


def measure(example, lever, steps, plain, before_ms):
    """One run as a row, and plain's step time after it; `plain` is the row to compare memory and loss with, None for itself."""
    busy = busy_share()
    events, _, peak = train(*arguments_of(example, lever, steps, plain))
    after_ms = plain_ms(example, steps)
    start, done = events[0], events[-1]
    told = [e for e in events if e["event"] == "step"]
    times = times_of(told)
    tenths, median = statistics.quantiles(times, n=10), statistics.median(times)
    row = {"example": example, "lever": lever, "steps": steps, "batch": start["batch"],
           "accumulate": start["accumulate"], "step_ms": median, "spread": (tenths[-1] - tenths[0]) / median,
           "beside_ms": (before_ms + after_ms) / 2, "drift": abs(before_ms - after_ms) / max(before_ms, after_ms),
           "planned_mib": done["arena_bytes_planned"] / 2**20, "used_mib": done["arena_bytes_used"] / 2**20,
           "process_mib": peak / 2**20, "loss": done["loss"], "busy": busy, "losses": [e["loss"] for e in told]}
    base = plain or row
    return dict(row, time_ratio=row["beside_ms"] / row["step_ms"],
                memory_ratio=row["planned_mib"] / base["planned_mib"], loss_ratio=row["loss"] / base["loss"]), after_ms


# ---- verdicts: what must hold, told from the rows of an example ----

LOW_LOSS_MAX = 0.01  # how far a low precision may lead a loss from plain's, relative


def low_precision(rows):
    """bf16 and fp16 learn as fp32 does: at every step, and over the held-out samples after the last."""
    for lever in ("precision bf16", "precision fp16"):
        ours, plain = ([*rows[k]["losses"], rows[k]["loss"]] for k in (lever, "plain"))
        far = max(abs(a - b) / b for a, b in zip(ours, plain))
        yield f"{lever}: every loss of {len(ours) - 1} steps within {LOW_LOSS_MAX:.0%} of plain's " \
              f"(the farthest {far:.2%})", far <= LOW_LOSS_MAX


def same_result(rows):
    """Fusing, recomputing and repeating change no bit of any loss."""
    for lever in ("fuse all", "recompute all", "recompute every 2", "recompute auto, 0.6x", "plain again"):
        same = rows[lever]["losses"] == rows["plain"]["losses"] and rows[lever]["loss"] == rows["plain"]["loss"]
        yield f"{lever}: every loss as plain's, to the bit", same


def planned_is_used(rows):
    wrong = [lever for lever, r in rows.items() if r["planned_mib"] != r["used_mib"]]
    yield "memory used is memory planned" + "".join(f"; not with {lever}" for lever in wrong), not wrong


VERDICTS = {"gpt": [low_precision, same_result, planned_is_used], "resnet": [same_result, planned_is_used]}


# ---- what is printed and kept ----

HEAD = f"{'example':<8} {'lever':<22} {'ms/step':>8} {'spread':>6} {'beside':>7} {'time':>6}  {'planned':>7} {'used':>7} " \
       f"{'process':>7} {'MiB':<3} {'memory':>6}  {'loss':>7} {'of plain':>8}  {'busy':>4}"


def table_line(r):
    if "verdict" in r:
        return f"{r['example']:<8} {'met   ' if r['met'] else 'MISSED'} {r['verdict']}"
    memory = " ".join(f"{r[k]:>7.1f}" for k in ("planned_mib", "used_mib", "process_mib"))
    return f"{r['example']:<8} {r['lever']:<22} {r['step_ms']:>8.1f} {r['spread']:>6.0%} {r['beside_ms']:>7.1f} " \
           f"{r['time_ratio']:>5.2f}x  " \
           f"{memory} {'':<3} {r['memory_ratio']:>5.2f}x  {r['loss']:>7.4f} {r['loss_ratio']:>8.4f}  {r['busy']:>4.0%}" \
           f"{'  DISTURBED' if r['busy'] > BUSY_MAX else ''}{'  DRIFTED' if r['drift'] > DRIFT_MAX else ''}"


def measure_example(example, record, quick):
    """Its rows, then its verdicts. Returns how many rows failed, how many verdicts were missed."""
    steps, rows, failed, missed = (STEPS_QUICK if quick else STEPS)[example], {}, 0, 0
    before_ms = None
    for lever in LEVERS:
        try:
            before_ms = before_ms or plain_ms(example, steps)
            rows[lever], before_ms = measure(example, lever, steps, rows.get("plain"), before_ms)
            record.add(rows[lever])
        except Failed as e:
            note(f"{example}, {lever}: {e}")
            failed += 1
            if lever == "plain":
                break  # there is nothing to compare with
    if failed or quick:
        return failed, 0
    for verdict in VERDICTS[example]:
        for text, met in verdict(rows):
            record.add({"example": example, "verdict": text, "met": met})
            missed += not met
    return 0, missed


def main(*arguments):
    flags = {a for a in arguments if a.startswith("--")}
    examples = [a for a in arguments if a not in flags] or list(EXAMPLES)
    unknown = [a for a in examples if a not in EXAMPLES] + sorted(flags - {"--quick", "--json"})
    if unknown:
        sys.exit(f"levers does not know {unknown[0]}; it knows --quick, --json, {', '.join(EXAMPLES)}")
    two_cores()
    make_text()
    quick = "--quick" in flags
    record = Record("levers", HEAD, table_line, machine(), "--json" in flags, kept=not quick)
    found = [measure_example(example, record, quick) for example in examples]
    sys.exit(3 if any(failed for failed, _ in found) else 1 if any(missed for _, missed in found) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
