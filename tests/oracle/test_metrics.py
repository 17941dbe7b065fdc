#!/usr/bin/env python3
"""What an evaluation reports, against scikit-learn: loss, accuracy and AUC over the held-out samples, for fresh random classifiers and
rankers, until CHECK_SECONDS (5 by default) are over and at least 3 times each. Every case prints its seed.

The run ends with its evaluation and writes its weights (model.dtype=f64); from these PyTorch computes, in f64, what scikit-learn is asked
about. Accuracy and AUC count, so they are equal but for the last division, unless two scores or two logits are nearer to each other than
rounding: scores are ranked as f32, so a pair that is nearer than 2^-23 may count as equal, which is worth half a pair. Some rankers see
no more than a few different rows, so that many scores are equal. A loss is reported through f32's roundoff, 2^-24, a sample's own is
computed in f64. Held out is the end of the data, and batches of evaluation do not divide it."""
import json
import os
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

try:
    from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
except ImportError:
    print("scikit-learn is not installed")
    sys.exit(77)

import oracle
from test_models import dense, pixels

LOSS = 2 * 2.0**-24


def run(folder, settings):
    """The evaluation's event, and the weights it was made with."""
    with open(f"{folder}/run.yaml", "w") as f:
        json.dump(settings, f)
    done = oracle.subprocess.run([oracle.FRUGAL, "train", f"{folder}/run.yaml", "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    evals = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "eval"]
    return evals[-1], oracle.load(f"{folder}/out")


def train(folder, rng):
    return {"steps": int(rng.integers(1, 30)), "batch": 8, "lr": 0.01, "eval_batch": int(rng.integers(1, 40)), "out": f"{folder}/out", "threads": 2,
            "keep_best": False}  # so that the weights are those of the last evaluation


def compare(event, loss, **metrics):
    ours = dict(event["metrics"])
    print("  " + ", ".join(f"{k} {ours[k]:.6g} (scikit-learn {v:.6g})" for k, (v, _) in metrics.items()) + f", loss {event['loss']:.8g} ({loss:.8g})", flush=True)
    assert abs(event["loss"] - loss) <= LOSS * loss, "losses differ"
    for name, (value, tolerance) in metrics.items():
        assert abs(ours[name] - value) <= tolerance, f"{name} differs"


def classifier(folder, rng):
    count, side, classes, held = int(rng.integers(60, 300)), 5, int(rng.integers(2, 9)), float(rng.choice([0.1, 0.25, 0.5]))
    x, y = rng.integers(0, 256, (count, side, side), dtype="uint8"), rng.integers(0, classes, count, dtype="uint8")
    y[:classes] = np.arange(classes)  # each occurs
    oracle.write_idx(f"{folder}/x", x)
    oracle.write_idx(f"{folder}/y", y)
    layers = ["flatten", {"dense": {"units": 12, "activation": "tanh"}}, {"dense": classes}]
    event, p = run(folder, {"data": {"kind": "idx", "path": f"{folder}/x", "labels": f"{folder}/y", "held_out": held},
                            "model": {"layers": layers, "dtype": "f64"}, "train": train(folder, rng)})
    n = event["samples"]
    assert abs(n - held * count) < 1, f"{n} of {count} held out"
    h = torch.tanh(dense(p, "dense1", pixels(torch.from_numpy(x[-n:]), torch.float64).flatten(1)))
    chance = F.softmax(dense(p, "dense2", h), 1).numpy()
    compare(event, log_loss(y[-n:], chance, labels=range(classes), eps=1e-300), accuracy=(accuracy_score(y[-n:], chance.argmax(1)), 1e-12))


def ranker(folder, rng):
    count, rows, buckets = int(rng.integers(100, 400)), int(rng.choice([3, 10, 10**6])), 7
    of = rng.integers(0, rows, count)
    cats, nums = (np.random.default_rng(7).integers(0, buckets, rows)[of], np.random.default_rng(8).random(rows).round(3)[of])
    y = rng.integers(0, 2, count)
    y[-2:] = 0, 1  # both are held out
    with open(f"{folder}/t.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{c},{v:.3f},{k}\n" for c, v, k in zip(cats, nums, y)))
    event, p = run(folder, {"data": {"kind": "csv", "path": f"{folder}/t.csv", "label": "y", "categorical": ["a"], "numeric": ["b"], "buckets": buckets,
                                     "held_out": 0.3}, "model": {"kind": "ranker", "table_width": 3, "mlp": [6], "dtype": "f64"},
                            "train": train(folder, rng)})
    n = event["samples"]
    x = torch.cat([p["table.weight"][torch.from_numpy(cats[-n:])], torch.from_numpy(nums[-n:].astype("float32"))[:, None].double()], 1)
    score = dense(p, "mlp.1", F.relu(dense(p, "mlp.0", x)))[:, 0].numpy()
    truth, single = y[-n:], score.astype("float32")
    near = sum(np.sum(np.abs(single[truth == 1] - s) <= 2.0**-23 * abs(s)) for s in single[truth == 0])
    exact = sum(np.sum(score[truth == 1] == s) for s in score[truth == 0])
    pairs = np.sum(truth == 1) * np.sum(truth == 0)
    loss = F.binary_cross_entropy_with_logits(torch.from_numpy(score), torch.from_numpy(truth).double()).item()
    assert abs(loss - log_loss(truth, torch.sigmoid(torch.from_numpy(score)).numpy(), eps=1e-300)) < 1e-9
    compare(event, loss, auc=(roc_auc_score(truth, score), 1e-12 + 0.5 * (near - exact) / pairs))


def main():
    failed = tried = 0
    for kind in (classifier, ranker):
        begin, done = time.monotonic(), 0
        while done < 3 or time.monotonic() - begin < float(os.environ.get("CHECK_SECONDS") or 5):
            rng = np.random.default_rng(oracle.seed_of(kind.__name__))
            with tempfile.TemporaryDirectory() as folder:
                try:
                    kind(folder, rng)
                except AssertionError as e:
                    print(f"  FAILED: {e}", flush=True)
                    failed += 1
            done += 1
            if "CHECK_SEED" in os.environ:
                break
        tried += done
    print(f"{tried} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
