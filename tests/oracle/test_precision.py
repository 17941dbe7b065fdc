#!/usr/bin/env python3
"""train.precision=bf16 and fp16 against PyTorch: every model that has no kink.

Numbers of a low type are rounded by up to u of themselves: 2^-8 in bf16, 2^-11 in fp16. Between the
loss and a weight lie some ten to hundred such roundings, forward and back, of both signs: they grow
like their root, and means over rows take some of that away again. Seen: gradients of the first step
1 u to 3 u from PyTorch's in f64, by norm, a tensor, and 7 u with batch norm, whose gradients are what
is left of cancelling terms; allowed is twice that. Less than u / 4 at the median tensor would mean
that less was rounded than was asked for (f32 gives 1e-7). Losses of all steps stay within u of
PyTorch's in f32 (seen: a quarter). The network of 4,096 rows is there for sums and for small numbers:
sums over rows in the low type would lose whole digits, and its gradients, 1e-7 in the first layers,
would vanish in fp16 unless they were scaled."""
import statistics
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from oracle import Case, load, relative, run_frugal, run_torch, save, seed_of
from test_models import CASES, adam, dense, image_data, normal, pixels

UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11}
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
ALLOWED = [(CASE["gpt2"], 6), (CASE["gpt-modern"], 6), (CASE["gpt-relu2"], 6), (CASE["encoder"], 6), (CASE["resnet"], 14),
           (MANY_ROWS, 6)]


def judge(case, allowed, precision, folder, grads, theirs):
    unit = UNIT[precision]
    run_frugal(folder, case.settings, 1, gradients=f"{folder}/grads", precision=precision)
    ours = load(f"{folder}/grads")
    losses, done = run_frugal(folder, case.settings, STEPS, precision=precision)
    assert done["arena_bytes_planned"] == done["arena_bytes_used"], "planned and used memory differ"
    assert set(grads) == set(ours), f"names differ: {set(grads) ^ set(ours)}"
    far = {k: relative(ours[k], grads[k]) / unit for k in grads}
    name, median = max(far, key=far.get), statistics.median(far.values())
    loss = max(abs(a - b) / b for a, b in zip(losses, theirs)) / unit
    print(f"  {precision}: {STEPS} losses within {loss:.2f} u (allowed 1); first gradient within {far[name]:.2f} u "
          f"(allowed {allowed}; {name}), at the median {median:.2f} u (at least 0.25)", flush=True)
    assert len(losses) == STEPS, f"{len(losses)} step events, not {STEPS}"
    assert loss <= 1, "losses differ"
    assert far[name] <= allowed, "gradients differ"
    assert median >= 0.25, "less was rounded than was asked for"


def check(case, allowed):
    seed = seed_of(case.name)
    gen, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        batches, start = case.data(folder, rng, case.settings), case.weights(gen)
        save(f"{folder}/init.safetensors", start)
        theirs, _, _ = run_torch(case, start, batches, STEPS, torch.float32)
        _, grads, _ = run_torch(case, start, batches, 1, torch.float64)
        for precision in UNIT:
            judge(case, allowed, precision, folder, grads, theirs)


def main():
    torch.set_num_threads(2)
    failed = 0
    for case, allowed in ALLOWED:
        if len(sys.argv) > 1 and case.name not in sys.argv[1:]:
            continue
        try:
            check(case, allowed)
        except (AssertionError, SystemExit) as e:
            print(f"  FAILED: {e}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
