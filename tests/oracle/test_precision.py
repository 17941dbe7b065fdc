#!/usr/bin/env python3
"""train.precision=bf16 and fp16 against PyTorch: every model that has no kink.

What low precision may cost follows from simulations: PyTorch computes in f64, and rounds the weights and the result of each op,
forward and back, to 8 bits (bf16) or 11 (fp16) of any magnitude, and nothing else, so that sums stay wide and small numbers do
not vanish. It rounds at random, up or down, so that each simulation is another draw; such an error has twice the variance of one
to the nearest, which leaves room for a run that has half as many roundings more, or others.

- A tensor's gradient in the first step, by norm, may be as far from f64's as one draw more could be, but for one in CHANCE: so
  many of Student's standard deviations above the mean of GRADIENT_DRAWS simulations, since a deviation of eight draws is itself
  uncertain. Norms of many numbers hardly vary; those of a few do, and are allowed to.
- It must be at least as far, at the median tensor, as half of what rounding the weights alone does, to the nearest as we do: that
  error is ours as well, and of what comes on top only a part can point against it. Else less was rounded than was asked for.
- A loss may be SIGMAS standard deviations away, measured over LOSS_DRAWS simulations of all steps up to it, and at least of the
  first POOLED: as roundings feed back, distances grow with the steps.

SIGMAS = 5 is passed by chance in one of two million, as CHANCE says, and there are some 100 tensors and 240 losses. The network of 4,096 rows is
there for sums and for small numbers: sums over rows in the low type would lose whole digits, and its gradients, 1e-7 in the first
layers, would vanish in fp16 unless they were scaled."""
import functools
import math
import os
import statistics
import sys
import tempfile

import numpy as np
import scipy.stats
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from oracle import Case, check_memory, load, relative, run_frugal, run_torch, save, seed_of
from test_models import CASES, adam, dense, image_data, normal, pixels

del os.environ["FRUGAL_TRAIN_PRECISION"]  # oracle.py's: each run here names its own

BITS = {"bf16": 8, "fp16": 11}
SIGMAS, CHANCE = 5, 2e6
GRADIENT_DRAWS, LOSS_DRAWS = 8, 2
STEPS, POOLED = (20 if float(os.environ.get("CHECK_SECONDS", "60")) >= 60 else 10), 10
DEEP, WIDE, ROWS = 5, 32, 4096


def deep_loss(p, batch):
    x = pixels(batch[0], p["dense1.weight"].dtype).flatten(1)
    for i in range(1, DEEP):
        x = F.silu(dense(p, f"dense{i}", x))
    return F.cross_entropy(dense(p, f"dense{DEEP}", x), batch[1])


def deep_weights(gen):
    sizes = [64] + [WIDE] * (DEEP - 1) + [10]
    p = {}
    for i, (n, o) in enumerate(zip(sizes, sizes[1:]), 1):
        p[f"dense{i}.weight"], p[f"dense{i}.bias"] = normal(gen, o, n), normal(gen, o)
    return p


DEEP_LAYERS = ["flatten", *({"dense": {"units": WIDE, "activation": "silu"}} for _ in range(DEEP - 1)), {"dense": 10}]
MANY_ROWS = Case("many-rows", STEPS, {"model": {"kind": "layers", "layers": DEEP_LAYERS}, "data": {},
                                  "train": {"optimiser": "adam", "lr": 1e-3, "batch": ROWS}},
                 image_data(ROWS, ROWS, (8, 8), 10, 2), deep_weights, deep_loss, adam(1e-3))

CASE = {case.name: case for case, *_ in CASES}
TRIED = [*(CASE[name] for name in ("gpt2", "gpt-modern", "gpt-relu2", "encoder", "resnet")), MANY_ROWS]


class Rounding(TorchDispatchMode):
    """Every result of an op in f64 is rounded at random to so many bits, but for the loss: that is one op from logits to one number."""

    def __init__(self, bits, gen):
        super().__init__()
        self.dropped, self.gen = (1 << 53 - bits) - 1, gen

    def round(self, x):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() == 0:
            return x
        up = torch.randint(0, self.dropped + 1, x.shape, generator=self.gen)
        return ((x.contiguous().view(torch.int64) + up) & ~self.dropped).view(torch.float64)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        return result if op is torch.ops.aten._log_softmax.default else tree_map(self.round, result)


def to_nearest(x, bits):
    dropped = (1 << 53 - bits) - 1
    return ((x.double().contiguous().view(torch.int64) + (1 << 52 - bits)) & ~dropped).view(torch.float64)


def loss_distances(ours, theirs):
    assert len(ours) == len(theirs) == STEPS, f"{len(ours)} losses, not {STEPS}"
    return [abs(a - b) / b for a, b in zip(ours, theirs)]


class Simulated:
    """What PyTorch does with so many bits: how far each gradient and each loss may be from f64's, and how far at least."""

    def __init__(self, case, start, batches, exact, bits, gen):
        losses, grads, _ = exact
        rounding = functools.partial(Rounding, bits, gen)
        runs = [run_torch(case, start, batches, STEPS if i < LOSS_DRAWS else 1, torch.float64, rounding) for i in range(GRADIENT_DRAWS)]
        far = {k: [relative(run[1][k], grads[k]) for run in runs] for k in grads}
        deviations = scipy.stats.t.isf(1 / CHANCE, GRADIENT_DRAWS - 1) * math.sqrt(1 + 1 / GRADIENT_DRAWS)
        self.gradient = {k: statistics.mean(v) + deviations * statistics.stdev(v) for k, v in far.items()}
        rounded = {k: v if k in case.buffers else to_nearest(v, bits) for k, v in start.items()}
        weights = run_torch(case, rounded, batches, 1, torch.float64)[1]
        self.least = statistics.median(relative(weights[k], grads[k]) for k in grads) / 2
        away = [loss_distances(run[0], losses) for run in runs[:LOSS_DRAWS]]
        self.loss = [SIGMAS * math.sqrt(statistics.mean(d * d for draw in away for d in draw[:max(n, POOLED)])) for n in range(1, STEPS + 1)]


def judge(case, precision, folder, exact, simulated):
    theirs, grads, _ = exact
    run_frugal(folder, case.settings, 1, gradients=f"{folder}/grads", precision=precision)
    ours = load(f"{folder}/grads")
    losses, done = run_frugal(folder, case.settings, STEPS, precision=precision)
    check_memory(case.settings, done)
    assert set(grads) == set(ours), f"names differ: {set(grads) ^ set(ours)}"
    far = {k: relative(ours[k], grads[k]) for k in grads}
    part = {k: far[k] / simulated.gradient[k] if far[k] else 0 for k in grads}
    name, median = max(part, key=part.get), statistics.median(far.values()) / simulated.least
    loss = max(a / b for a, b in zip(loss_distances(losses, theirs), simulated.loss))
    print(f"  {precision}: losses at most {loss:.2f} of what {STEPS} steps are allowed; first gradient {part[name]:.2f} of it ({name}), "
          f"at the median {median:.2f} times the least that rounding does", flush=True)
    assert loss <= 1, "losses differ"
    assert part[name] <= 1, "gradients differ"
    assert median >= 1, "less was rounded than was asked for"


def check(case):
    seed = seed_of(case.name)
    gen, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        batches, start = case.data(folder, rng, case.settings), case.weights(gen)
        save(f"{folder}/init.safetensors", start)
        exact = run_torch(case, start, batches, STEPS, torch.float64)
        for precision, bits in BITS.items():
            judge(case, precision, folder, exact, Simulated(case, start, batches, exact, bits, gen))


def main():
    torch.set_num_threads(2)
    failed = 0
    for case in TRIED:
        if len(sys.argv) > 1 and case.name not in sys.argv[1:]:
            continue
        try:
            check(case)
        except (AssertionError, SystemExit) as e:
            print(f"  FAILED: {e}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
