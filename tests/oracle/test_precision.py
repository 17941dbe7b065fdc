#!/usr/bin/env python3
"""train.precision=bf16 and fp16 against PyTorch: every model that has no kink.

What low precision may cost follows from a simulation: PyTorch computes in f64, and rounds the weights and the result of each op,
forward and back, to 8 bits (bf16) or 11 (fp16) of any magnitude, and nothing else, so that sums stay wide and small numbers do
not vanish. A tensor's gradient in the first step may be twice as far from f64's, by norm, as the simulated one or, if that is
more, as the median tensor's: ours has about as many roundings, in other places, and the norm of a few numbers varies from draw to
draw. Less than a quarter at the median tensor would mean that less was rounded than was asked for. A loss is one number, in whose
simulation roundings may cancel by chance: the largest distance of all steps may be four times the largest of the simulation. The
network of 4,096 rows is there for sums and for small numbers: sums over rows in the low type would lose whole digits, and its
gradients, 1e-7 in the first layers, would vanish in fp16 unless they were scaled."""
import functools
import statistics
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from oracle import Case, check_memory, load, relative, run_frugal, run_torch, save, seed_of
from test_models import CASES, adam, dense, image_data, normal, orthogonal, pixels

BITS = {"bf16": 8, "fp16": 11}
LOSS_FACTOR = 4
STEPS = 20
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
    """Every result of an op in f64 is rounded to so many bits, but for the loss: that is one op from logits to one number."""

    def __init__(self, bits):
        super().__init__()
        self.half, self.dropped = 1 << 52 - bits, (1 << 53 - bits) - 1

    def round(self, x):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() == 0:
            return x
        return ((x.contiguous().view(torch.int64) + self.half) & ~self.dropped).view(torch.float64)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        return result if op is torch.ops.aten._log_softmax.default else tree_map(self.round, result)


def loss_distance(ours, theirs):
    assert len(ours) == len(theirs) == STEPS, f"{len(ours)} losses, not {STEPS}"
    return max(abs(a - b) / b for a, b in zip(ours, theirs))


def judge(case, precision, folder, exact, simulated):
    (theirs, grads, _), (rounded, rounded_grads, _) = exact, simulated
    run_frugal(folder, case.settings, 1, gradients=f"{folder}/grads", precision=precision)
    ours = load(f"{folder}/grads")
    losses, done = run_frugal(folder, case.settings, STEPS, precision=precision)
    check_memory(case.settings, done)
    assert set(grads) == set(ours), f"names differ: {set(grads) ^ set(ours)}"
    far, model = ({k: relative(g[k], grads[k]) for k in grads} for g in (ours, rounded_grads))
    usual = statistics.median(model.values())
    part = {k: far[k] / max(model[k], usual) for k in grads}
    name, median = max(part, key=part.get), statistics.median(far.values()) / usual
    loss, loss_model = loss_distance(losses, theirs), loss_distance(rounded, theirs)
    print(f"  {precision}: {STEPS} losses within {loss:.1e}, {loss / loss_model:.2f} of the simulated distance (allowed {LOSS_FACTOR}); first gradient "
          f"within {part[name]:.2f} of it (allowed 2; {name}), at the median {median:.2f} (at least 0.25)", flush=True)
    assert loss <= LOSS_FACTOR * loss_model, "losses differ"
    assert part[name] <= 2, "gradients differ"
    assert median >= 0.25, "less was rounded than was asked for"


def check(case):
    seed = seed_of(case.name)
    gen, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        batches, start = case.data(folder, rng, case.settings), case.weights(gen)
        save(f"{folder}/init.safetensors", start)
        exact = run_torch(case, start, batches, STEPS, torch.float64)
        for precision, bits in BITS.items():
            simulated = run_torch(case, start, batches, STEPS, torch.float64, functools.partial(Rounding, bits))
            judge(case, precision, folder, exact, simulated)


def show_muon():
    """How far rounding to bf16 leads the directions of Muon away, by norm: what tests/support/near.c allows."""
    gen, far = torch.Generator().manual_seed(1), []
    for _ in range(1000):
        x = torch.randn(*(int(n) for n in torch.randint(1, 65, (2,), generator=gen)), generator=gen, dtype=torch.float64)
        with Rounding(BITS["bf16"]):
            low = orthogonal(x * 1)
        far.append(relative(low, orthogonal(x)))
    print(f"1,000 matrices: {statistics.median(far):.3f} at the median, {max(far):.3f} at most")


def main():
    torch.set_num_threads(2)
    if sys.argv[1:] == ["muon"]:
        return show_muon()
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
