#!/usr/bin/env python3
"""Micro-batches against the large batch: N x b samples a step are one batch of N b, in f32.

For every model, with dropout too, an epoch is EPOCH samples: one full step and a short one whose last
micro-batch is short. Held together are the losses of 50 steps, and from the same weights (at the
start, the middle and the end of the run) the gradient of a full step and of a short one, a tensor at
a time. What differs is the order of the sums over the batch and over micro-batches, of a few ten
terms: 1e-7 a sum, 1e-6 with cancellation, so 1e-5; the losses stay within 1e-5 at learning rates up
to 6e-4, warmed up, where steps do not yet amplify rounding. A bias whose terms happen to cancel has
the rounding of the terms, not of the sum: below 1 % of the whole gradient's norm a tensor is measured
by that. Models with batch norm are left out: its statistics are those of each micro-batch, and there
the runs must differ."""
import json
import sys
import tempfile

import numpy as np
import torch

from oracle import check_memory, load, run_frugal, seed_of
from test_models import ADAMW, ENCODER, GPT, MODERN, click_data, image_data, line_data, text_data

STEPS, TOLERANCE = 50, 1e-5
BATCH, TIMES = 4, 6               # a step: 24 samples
EPOCH, SHORT = 42, 18             # the epoch's second step: 4 micro-batches of 4 and one of 2

SMOOTH = {"kind": "layers", "layers": [{"conv": {"filters": 8, "activation": "silu"}}, {"avgpool": 2}, {"dropout": 0.2},
                                       "flatten", {"dense": 10}]}
RANKER = {"kind": "ranker", "table_width": 4, "mlp": [24, 8]}
NORMED = {"kind": "layers", "layers": [{"conv": {"filters": 8, "bias": False}}, "batchnorm", "silu", "flatten", {"dense": 10}]}

CASES = {
    "gpt": (GPT, text_data(1, 32, EPOCH)),
    "gpt-dropout": (dict(MODERN, dropout=0.1, attention_dropout=0.1), text_data(1, 32, EPOCH)),
    "encoder-dropout": (dict(ENCODER, dropout=0.1, attention_dropout=0.1), line_data(1, EPOCH // 3, 12, 3)),  # lines of all lengths
    "layers-dropout": (SMOOTH, image_data(1, EPOCH, (8, 8), 10)),
    "ranker": (RANKER, click_data(1, EPOCH, 40, 5, 3)),
    "ranker-rows": (RANKER, click_data(1, EPOCH, 2000, 5, 3)),  # train.tables=auto: by rows
}


def both(folder, settings, steps, **train):
    """The same run in one batch a step and in micro-batches: (losses, done) of each."""
    large = run_frugal(folder, settings, steps, batch=BATCH * TIMES, **train)
    micro = run_frugal(folder, settings, steps, batch=BATCH * TIMES, micro_batch=BATCH, **train)
    for _, done in (large, micro):
        check_memory(settings, done)
    return large[0], micro[0]


def gradients(folder, settings, samples, **train):
    """Of the first step of an epoch of `samples`, by name: in one batch and in micro-batches."""
    settings = json.loads(json.dumps(settings))
    settings["data"]["samples"] = samples
    out = []
    for batch in ({"batch": BATCH * TIMES}, {"batch": BATCH * TIMES, "micro_batch": BATCH}):
        run_frugal(folder, settings, 1, gradients=f"{folder}/grads", **batch, **train)
        out.append(load(f"{folder}/grads"))
    return out


def worst_gradient(folder, settings, **train):
    worst = 0, ""
    for samples in (BATCH * TIMES, SHORT):
        large, micro = gradients(folder, settings, samples, **train)
        assert set(large) == set(micro) and large, "gradients of other tensors"
        whole = torch.stack([g.double().norm() for g in large.values()]).norm()
        for name, g in large.items():
            far = (micro[name].double() - g.double()).norm() / max(g.double().norm(), 0.01 * whole)
            worst = max(worst, (far.item(), f"{name}, {samples} samples"))
    return worst


def prepared(folder, name, model, data):
    seed = seed_of(name)
    settings = {"model": model, "data": {}, "train": dict(ADAMW, seed=seed)}
    data(folder, np.random.default_rng(seed), settings)
    return settings


def check(folder, name, model, data):
    settings = prepared(folder, name, model, data)
    large, micro = both(folder, settings, STEPS, init="")
    assert len(large) == len(micro) == STEPS, f"{len(large)} and {len(micro)} steps, not {STEPS}"
    loss = max(abs(a - b) / a for a, b in zip(large, micro))
    found = [worst_gradient(folder, settings, init="")]
    for steps in (STEPS // 2, STEPS):
        run_frugal(folder, settings, steps, init="", batch=BATCH * TIMES, out=f"{folder}/weights")
        found.append(worst_gradient(folder, settings, init=f"{folder}/weights"))
    far, where = max(found)
    print(f"  {STEPS} losses within {loss:.1e}, {large[0]:.4f} -> {large[-1]:.4f}; gradients at steps 0, {STEPS // 2}, {STEPS} "
          f"within {', '.join(f'{far:.1e}' for far, _ in found)} ({where}); allowed {TOLERANCE:.0e}", flush=True)
    assert loss <= TOLERANCE, "losses differ"
    assert far <= TOLERANCE, f"gradients differ: {where}"
    assert sum(large[-2:]) < sum(large[:2]), "nothing was learned: the steps compare little"


def check_batch_norm(folder):
    """It is not the large batch's run; if it were, this test would compare nothing."""
    settings = prepared(folder, "batch-norm", NORMED, image_data(1, EPOCH, (8, 8), 10))
    far, _ = worst_gradient(folder, settings, init="")
    print(f"  gradients differ by {far:.1e}", flush=True)
    assert far > 1e-2, "the statistics are those of the whole step"


def main():
    failed = 0
    checks = {name: lambda folder, case=case, name=name: check(folder, name, *case) for name, case in CASES.items()}
    checks["batch-norm"] = check_batch_norm
    for name, run in checks.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                run(folder)
        except (AssertionError, SystemExit) as e:
            print(f"  FAILED: {e}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
