#!/usr/bin/env python3
"""record_muon.py: steps of torch.optim.Muon, which Debian's PyTorch lacks, recorded once from a newer
one into tests/golden/torch_muon.json.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install torch numpy && /tmp/v/bin/python tests/oracle/record_muon.py

PyTorch makes its updates orthogonal in bf16. Each case is recorded twice: as PyTorch does it ("bf16"), and
by the very same code with that one type replaced by f64 ("f64"), which can be held to more digits. A
run with the same version of PyTorch writes the same file (seeded; values rounded to 7 digits)."""
import inspect
import json
import sys

import torch
from torch.optim import _muon

ORTHOGONAL = _muon._zeropower_via_newtonschulz
SCOPE = dict(vars(_muon))
exec(inspect.getsource(ORTHOGONAL).replace("torch.bfloat16", "torch.float64"), SCOPE)

# rows, columns, nesterov, decay, scale, momentum; rates of the three steps
CASES = [
    (8, 8, True, 0.0, "original", 0.95),
    (6, 20, True, 0.1, "original", 0.95),
    (20, 6, True, 0.1, "original", 0.9),
    (9, 4, False, 0.0, "original", 0.95),
    (5, 15, True, 0.05, "match_rms_adamw", 0.95),
    (15, 5, True, 0.0, "match_rms_adamw", 0.95),
    (1, 7, True, 0.0, "original", 0.95),
]
RATES = [0.02, 0.01, 0.03]


def rounded(t):
    return [float(f"{v:.7g}") for v in t.detach().flatten().tolist()]


def steps(case, start, grads, orthogonal):
    rows, columns, nesterov, decay, scale, momentum = case
    _muon._zeropower_via_newtonschulz = orthogonal
    p = torch.nn.Parameter(start.clone())
    opt = torch.optim.Muon([p], lr=1.0, weight_decay=decay, momentum=momentum, nesterov=nesterov, adjust_lr_fn=scale)
    for rate, g in zip(RATES, grads):
        opt.param_groups[0]["lr"] = rate
        p.grad = g.clone()
        opt.step()
    return p


def record(case):
    gen = torch.Generator().manual_seed(20261115)
    shape = case[:2]

    def draw(scale):
        return torch.tensor(rounded(scale * torch.randn(shape, generator=gen)), dtype=torch.float64).view(shape)
    start, grads = draw(0.02), [draw(1.0) for _ in RATES]
    return {"rows": case[0], "columns": case[1], "nesterov": case[2], "decay": case[3], "scale": case[4], "momentum": case[5],
            "rates": RATES, "start": rounded(start), "grads": [rounded(g) for g in grads],
            "f64": rounded(steps(case, start, grads, SCOPE["_zeropower_via_newtonschulz"])),
            "bf16": rounded(steps(case, start, grads, ORTHOGONAL))}


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/torch_muon.json"
    with open(path, "w") as f:
        json.dump({"command": "tests/oracle/record_muon.py", "torch": torch.__version__, "cases": [record(c) for c in CASES]}, f)
        f.write("\n")
