#!/usr/bin/env python3
"""Dropout's statistics, from the gradients of a network that shows its masks, until CHECK_SECONDS (5 by default) are over and at least once
in each precision. Every case prints its seed.

All pixels are 1 and all weights 0, so that each of C classes has the probability 1/C. Of a batch of B samples with labels of their own the
gradient of the weight of class c and pixel j is S_j / C - M_cj, where M is the mask of the sample of that class, over B (1 - rate), and S_j
the sum of all: the row of a class that no sample has is S_j / C alone, and the difference of the two is the mask.

What is kept is 1 / (1 - rate), rounded; what is dropped is 0. The part that is dropped, and the correlations between samples, steps,
seeds and neighbours, are those of independent draws: n numbers have a mean of n draws' standard deviation, and six of these (one in
500 million) are allowed. The same seed drops the same, whatever the threads; an evaluation drops nothing."""
import os
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

import oracle
from test_models import dense, normal, pixels

SIDE, B, C = 64, 8, 10
N = SIDE * SIDE
SIGMAS = 6
# of the value that is kept: it is rounded once, and so are the products that it goes through: two matrices and the loss
ROUNDOFF = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}


def write(folder):
    """Two batches an epoch; the one sample of the last class is in the second, and none is of the class before."""
    oracle.write_idx(f"{folder}/x", np.full((2 * B, SIDE, SIDE), 255, dtype="uint8"))
    oracle.write_idx(f"{folder}/y", np.array([*range(B), *range(B - 1), C - 1], dtype="uint8"))
    oracle.save(f"{folder}/init.safetensors", {"dense1.weight": torch.zeros(C, N), "dense1.bias": torch.zeros(C)})


def settings(folder, rate):
    return {"data": {"kind": "idx", "path": f"{folder}/x", "labels": f"{folder}/y"},
            "model": {"kind": "layers", "layers": ["flatten", {"dropout": rate}, {"dense": C}]}, "train": {"batch": B, "lr": 1e-30}}


def masks(folder, rate, steps, seed, precision, threads=2):
    """Of the last step, which is the first of its epoch: [sample, pixel], 1 where it was kept."""
    oracle.run_frugal(folder, settings(folder, rate), steps, gradients=f"{folder}/grads", seed=seed, precision=precision, threads=threads)
    grad = oracle.load(f"{folder}/grads")["dense1.weight"].double().numpy()
    kept = (grad[B] - grad[:B]) * B * (1 - rate)
    mask = (kept > 0.5).astype(float)
    assert np.abs(kept - mask).max() <= 4 * ROUNDOFF[precision] * B, f"what is kept is off by {np.abs(kept - mask).max():.1e}"
    return mask


def correlation(a, b):
    """In standard deviations."""
    a, b = a - a.mean(), b - b.mean()
    return abs((a * b).mean()) / np.sqrt((a * a).mean() * (b * b).mean()) * np.sqrt(a.size)


def check_statistics(all_masks, rate):
    first = all_masks["first"]
    off = abs((1 - first).mean() - rate) / np.sqrt(rate * (1 - rate) / first.size)
    assert off <= SIGMAS, f"{(1 - first).mean():.4f} are dropped, not {rate}: {off:.1f} standard deviations"
    far = {f"samples {i} and {k}": correlation(first[i], first[k]) for i in range(B) for k in range(i)}
    far.update({f"pixels {lag} apart": correlation(first[:, lag:].ravel(), first[:, :-lag].ravel()) for lag in (*range(1, 17), 32, 64, 128, 256, 512, 1024)})
    far.update({f"the first and {name}": correlation(first.ravel(), m.ravel()) for name, m in all_masks.items() if name != "first"})
    worst = max(far, key=far.get)
    print(f"  rate {rate}: {(1 - first).mean():.4f} dropped, {off:.1f} standard deviations away; of {len(far)} correlations that of {worst} is largest, "
          f"{far[worst]:.1f}", flush=True)
    assert far[worst] <= SIGMAS, f"{worst} are correlated by {far[worst]:.1f} standard deviations"


def check_evaluation(folder, rate, gen):
    """The loss of an evaluation is that of the network without dropout."""
    p = {"dense1.weight": normal(gen, C, N), "dense1.bias": normal(gen, C)}
    oracle.save(f"{folder}/init.safetensors", p)
    x = torch.randint(0, 256, (4 * B, SIDE, SIDE), generator=gen, dtype=torch.uint8)
    y = torch.arange(4 * B) % C
    oracle.write_idx(f"{folder}/x", x.numpy())
    oracle.write_idx(f"{folder}/y", y.numpy().astype("uint8"))
    s = settings(folder, rate)
    s["data"]["held_out"], s["model"]["dtype"] = 0.5, "f64"
    loss = [e["loss"] for e in oracle.run_events(folder, s, 1) if e["event"] == "eval"][-1]
    held = slice(2 * B, None)
    want = F.cross_entropy(dense({k: v.double() for k, v in p.items()}, "dense1", pixels(x[held], torch.float64).flatten(1)), y[held]).item()
    far = abs(loss - want) / want
    assert far <= 2 * 2.0**-24, f"an evaluation's loss is {loss}, without dropout it is {want}"


def check(seed, precision):
    rng = np.random.default_rng(seed)
    rate, run_seed = round(float(rng.uniform(0.05, 0.9)), 3), int(rng.integers(1, 10**6))
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        first = masks(folder, rate, 1, run_seed, precision)
        assert np.array_equal(first, masks(folder, rate, 1, run_seed, precision, threads=1)), "the same seed drops something else"
        check_statistics({"first": first, "the next epoch's": masks(folder, rate, 3, run_seed, precision),
                          "another seed's": masks(folder, rate, 1, run_seed + 1, precision)}, rate)
        check_evaluation(folder, rate, torch.Generator().manual_seed(seed))


def main():
    torch.set_num_threads(2)
    begin, done, failed = time.monotonic(), 0, 0
    while done < len(ROUNDOFF) or time.monotonic() - begin < float(os.environ.get("CHECK_SECONDS") or 5):
        precision = list(ROUNDOFF)[done % len(ROUNDOFF)]
        try:
            check(oracle.seed_of(precision), precision)
        except AssertionError as e:
            print(f"  FAILED: {e}", flush=True)
            failed += 1
        done += 1
    print(f"{done} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
