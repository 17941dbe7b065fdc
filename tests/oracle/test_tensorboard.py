#!/usr/bin/env python3
"""A run killed and gone on with: TensorBoard's own reader and the CSV file have the same steps, none twice and none that
was lost with the kill."""
import csv
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as e:
    print(f"needs {e.name}: pip install --no-deps tensorboard; pip install protobuf absl-py")
    sys.exit(77)

LIMIT_S = 120  # of waiting for the run on a busy machine
LOG = ("log.csv=run.csv", "log.tensorboard=tb", "train.log_every=50", "checkpoint.dir=kept", "checkpoint.every=120",
       "train.epochs=0")


def rows(folder):
    try:
        with open(os.path.join(folder, "run.csv"), newline="") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    return list(csv.DictReader(text[:text.rfind("\n") + 1].splitlines()))


def kill_on_the_way(folder):
    """Once it is well past a checkpoint; returns the last step that the table then has."""
    process, begin = small.start(folder, "train", "run.yaml", "train.steps=100000000", *LOG), time.monotonic()
    while len(rows(folder)) < 20 or not os.path.isdir(os.path.join(folder, "kept")):
        assert process.poll() is None and time.monotonic() - begin < LIMIT_S, (process.poll(), rows(folder)[-1:])
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return int(rows(folder)[-1]["step"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        small.write(folder)
        lost = kill_on_the_way(folder)
        end = lost + 200
        small.frugal(folder, "train", "run.yaml", f"train.steps={end}", *LOG)
        table = rows(folder)
        reader = EventAccumulator(os.path.join(folder, "tb"), size_guidance={"scalars": 0})
        reader.Reload()
        files = len(os.listdir(os.path.join(folder, "tb")))
    steps = [int(r["step"]) for r in table]
    assert steps == sorted(set(steps)) and steps[-1] == end, steps
    assert files == 2, files
    losses = reader.Scalars("train/loss")
    assert [e.step for e in losses] == steps, (steps, [e.step for e in losses])
    for event, row in zip(losses, table):  # a float in the event file: 24 bits
        assert abs(event.value - float(row["loss"])) <= 2 ** -23 * abs(event.value), (event, row)
    evals = {e.step: e.value for e in reader.Scalars("eval/accuracy")}
    assert evals and sorted(evals) == [int(r["step"]) for r in table if r["eval_accuracy"]], evals
    print(f"killed at step {lost}, done at {end}: {len(steps)} rows, {len(evals)} evaluations, the same by both")


if __name__ == "__main__":
    main()
