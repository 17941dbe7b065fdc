"""oracle.py - runs frugal and PyTorch side by side from the same weights and batches.

A case writes its data and its first weights (our names, docs/formats/weights.md) into a folder,
runs `frugal train` on them, and repeats the steps in PyTorch, written here in the plainest way."""
import contextlib
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

FRUGAL = os.environ.get("FRUGAL", "build/frugal")
os.environ["FRUGAL_RUN_LEDGER"] = "none"  # what tests do is not the user's runs
os.environ["FRUGAL_TRAIN_PRECISION"] = "fp32"  # what PyTorch computes in, too; auto depends on the processor
DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32}


def seed_of(name):
    seed = int(os.environ.get("CHECK_SEED", 0)) or int.from_bytes(os.urandom(4), "little")
    print(f"{name} CHECK_SEED={seed}", flush=True)
    return seed


def save(path, tensors):
    """A safetensors file of f32 tensors."""
    header, at, blobs = {}, 0, []
    for name, value in tensors.items():
        data = np.ascontiguousarray(value.detach().numpy().astype(np.float32)).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        body = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        out[name] = torch.from_numpy(np.frombuffer(body[a:b], DTYPES[t["dtype"]]).reshape(t["shape"]).copy())
    return out


def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes())


class Case:
    """settings: the run file as nested dicts (JSON is YAML); data(folder, rng) writes files and
    returns batches(step); weights(gen) the first parameters; loss(params, batch) PyTorch's mean
    loss; optimiser(params) a torch optimiser."""

    def __init__(self, name, steps, settings, data, weights, loss, optimiser, lr=None, clip=0, buffers=()):
        self.__dict__.update(name=name, steps=steps, settings=settings, data=data, weights=weights, loss=loss,
                             optimiser=optimiser, lr=lr, clip=clip, buffers=buffers)


def check_memory(settings, done):
    """What was planned is used: all of it, or by an encoder all that its batches had rows for."""
    planned, used = done["arena_bytes_planned"], done["arena_bytes_used"]
    packs = settings["model"]["kind"] == "encoder"
    assert used == planned or (packs and used < planned), f"{planned} bytes planned, {used} used"


def run_events(folder, settings, steps, **train):
    """Of a run in the order of the data, from folder/init.safetensors: its events."""
    settings = json.loads(json.dumps(settings))
    settings["train"].update(dict(steps=steps, shuffle=False, log_every=1, threads=2,
                                  init=f"{folder}/init.safetensors"), **train)
    settings["train"].setdefault("out", "none")
    settings.setdefault("data", {})["held_out"] = settings["data"].get("held_out", 0)
    path = f"{folder}/run.yaml"
    with open(path, "w") as f:
        json.dump(settings, f, indent=1)
    done = subprocess.run([FRUGAL, "train", path, "--json"], capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        raise SystemExit(f"frugal: exit {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_frugal(folder, settings, steps, **train):
    """The losses of its steps, and its last event."""
    events = run_events(folder, settings, steps, **train)
    return [e["loss"] for e in events if e["event"] == "step"], events[-1]


def run_torch(case, start, batches, steps, dtype, rounding=contextlib.nullcontext):
    """Losses of each step and the gradients of the first (before clipping). Losses and gradients are computed in the context
    that `rounding` makes, of weights that it has rounded; the optimiser keeps its own."""
    params = {k: v.to(dtype).clone().requires_grad_(k not in case.buffers) for k, v in start.items()}
    trained = [v for v in params.values() if v.requires_grad]
    opt = case.optimiser(params)
    losses, grads = [], None
    for step in range(steps):
        if case.lr:
            for group in opt.param_groups:
                group["lr"] = case.lr(step)
        opt.zero_grad()
        with rounding():
            loss = case.loss({k: v * 1 if rounding is not contextlib.nullcontext and v.requires_grad else v for k, v in params.items()}, batches(step))
            loss.backward()
        if step == 0:
            grads = {k: (v.grad.to_dense() if v.grad.is_sparse else v.grad).detach().clone() for k, v in params.items() if v.requires_grad}
        if case.clip:
            torch.nn.utils.clip_grad_norm_(trained, case.clip)
        opt.step()
        losses.append(loss.item())
    return losses, grads, params


def relative(ours, theirs):
    """Distance by norm. A gradient that is zero in exact arithmetic (a bias before a batch norm)
    is rounding noise on both sides: below 1e-7 it counts as agreeing."""
    a, b = ours.double(), theirs.double()
    if b.norm() < 1e-7 and a.norm() < 1e-6:
        return 0.0
    return ((a - b).norm() / b.norm()).item()


def check(case, loss_tolerance, grad_tolerance, weight_tolerance=None, seed=None):
    seed = seed_of(case.name) if seed is None else seed
    gen, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        batches = case.data(folder, rng, case.settings)
        start = case.weights(gen)
        save(f"{folder}/init.safetensors", start)
        run_frugal(folder, case.settings, 1, gradients=f"{folder}/grads.safetensors")
        ours_grads = load(f"{folder}/grads.safetensors")
        losses, done = run_frugal(folder, case.settings, case.steps, out=f"{folder}/out.safetensors")
        ours_end = load(f"{folder}/out.safetensors")
    check_memory(case.settings, done)
    dtype = torch.float64 if case.settings["model"].get("dtype") == "f64" else torch.float32
    theirs, _, end = run_torch(case, start, batches, case.steps, dtype)
    _, grads, _ = run_torch(case, start, batches, 1, torch.float64)
    assert len(losses) == case.steps, f"{len(losses)} step events, not {case.steps}"
    # a loss near 0 is the difference of logits that are far larger, and only as exact as these
    worst_loss = max(abs(a - b) / max(abs(b), 0.01) for a, b in zip(losses, theirs))
    assert set(grads) == set(ours_grads), f"names differ: {set(grads) ^ set(ours_grads)}"
    worst_name = max(grads, key=lambda k: relative(ours_grads[k], grads[k]))
    worst_grad = relative(ours_grads[worst_name], grads[worst_name])
    print(f"  {case.steps} losses within {worst_loss:.1e} (allowed {loss_tolerance:.0e}), {theirs[0]:.4f} -> {theirs[-1]:.4f}; "
          f"first gradient within {worst_grad:.1e} (allowed {grad_tolerance:.0e}; {worst_name})", flush=True)
    assert worst_loss <= loss_tolerance, "losses differ"
    assert worst_grad <= grad_tolerance, "gradients differ"
    for name in case.buffers:
        far = relative(ours_end[name], end[name])
        assert far <= (weight_tolerance or 1e-3), f"{name} differs by {far:.1e}"
    assert not math.isnan(losses[-1])


def main(cases):
    """cases: (case, tolerances...). Exit 1 if any fails; arguments pick cases by name."""
    torch.set_num_threads(2)
    failed = 0
    for case, *tolerances in cases:
        if len(sys.argv) > 1 and case.name not in sys.argv[1:]:
            continue
        try:
            check(case, *tolerances)
        except (AssertionError, SystemExit) as e:
            print(f"  FAILED: {e}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)
