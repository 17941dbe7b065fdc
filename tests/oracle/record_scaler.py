#!/usr/bin/env python3
"""record_scaler.py: how torch.amp.GradScaler moves its scale, and what it leaves out, recorded once from
a PyTorch that has it for the CPU into tests/golden/torch_scaler.json.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install torch numpy && /tmp/v/bin/python tests/oracle/record_scaler.py

Each case is one weight under Adam whose gradients are given; null is one that is infinite. Recorded are
the scale and the weight after every step."""
import json
import math
import sys

import torch

CASES = [  # initial scale, growth interval, gradients
    (65536.0, 3, [0.5, -1, None, 2, 0.25, 1, 1, None, None, 1, -2, 1, 0.5, 0.5, 0.5, None, 1]),
    (65536.0, 2000, [None, 1, 2, None, None, 3]),
    (2.0 ** 125, 1, [1e-25, 1e-25, 1e-25, 1e-25, None, 1e-25]),  # f32 ends at 2^128: the scale stays finite
    (1.0, 2, [1, None, None, 1, 1, 1, 1, 1]),
]


def record(initial, interval, gradients):
    weight = torch.tensor([1.0], requires_grad=True)
    optimiser = torch.optim.Adam([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
    steps = []
    for g in gradients:
        optimiser.zero_grad()
        scaler.scale((weight * (math.inf if g is None else g)).sum()).backward()
        scaler.step(optimiser)
        scaler.update()
        steps.append({"gradient": g, "scale": scaler.get_scale(), "weight": weight.item()})
    return {"initial": initial, "interval": interval, "steps": steps}


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/torch_scaler.json"
    with open(path, "w") as f:
        json.dump({"command": "tests/oracle/record_scaler.py", "torch": torch.__version__, "cases": [record(*c) for c in CASES]}, f)
        f.write("\n")
