#!/usr/bin/env python3
"""record_ops.py: ops that Debian's PyTorch lacks, recorded once from a newer one into
tests/golden/torch_ops.json: inputs, results and gradients.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install torch numpy && /tmp/v/bin/python tests/oracle/record_ops.py

A run with the same version of PyTorch writes the same file (seeded; values rounded to 7 digits)."""
import json
import sys

import torch
import torch.nn.functional as F


def heads(qkv, H, G, D):
    B, T, _ = qkv.shape
    q, k, v = qkv.split([H * D, G * D, G * D], -1)
    q, k, v = (u.view(B, T, -1, D).transpose(1, 2) for u in (q, k, v))
    return q, k, v


def attention(H, G, D, causal, lens=None):
    def run(qkv):
        q, k, v = heads(qkv, H, G, D)
        B, T = qkv.shape[:2]
        mask = None
        if lens is not None:
            mask = (torch.arange(T)[None] < torch.tensor(lens)[:, None])[:, None, None].expand(B, 1, T, T)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=H != G)
        o = o.transpose(1, 2).reshape(B, T, H * D)
        if lens is not None:
            o = o * (torch.arange(T)[None] < torch.tensor(lens)[:, None])[..., None]
        return o
    return run


def rms(eps):
    return lambda x, w: F.rms_norm(x, x.shape[-1:], w, eps)


CASES = [
    ("rmsnorm", "eps=1e-5", rms(1e-5), [(3, 20), (20,)], None),
    ("attention", "heads=2 kv_heads=2 causal=1 window=0 scale=0.35355339059327379", attention(2, 2, 8, True), [(2, 7, 48)], None),
    ("attention", "heads=4 kv_heads=2 causal=1 window=0 scale=0.5", attention(4, 2, 4, True), [(1, 9, 32)], None),
    ("attention", "heads=2 kv_heads=2 causal=0 window=0 scale=0.5", attention(2, 2, 4, False, [6, 3]), [(2, 6, 24)], [6, 3]),
]


def numbers(t):
    return {"shape": list(t.shape), "values": [float(f"{v:.7g}") for v in t.detach().flatten().tolist()]}


def record(op, attributes, run, shapes, lens):
    gen = torch.Generator().manual_seed(20261115)
    inputs = [torch.tensor(numbers(torch.randn(s, generator=gen))["values"]).view(s).requires_grad_() for s in shapes]
    out = run(*inputs)
    w = torch.tensor(numbers(torch.randn(out.shape, generator=gen))["values"]).view(out.shape)
    (out * w).sum().backward()
    case = {"op": op, "attributes": attributes, "in": [numbers(x) for x in inputs], "w": numbers(w), "out": numbers(out),
            "grads": [numbers(x.grad) for x in inputs]}
    if lens:
        case["lens"] = lens
    return case


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/golden/torch_ops.json"
    with open(path, "w") as f:
        json.dump({"command": "tests/oracle/record_ops.py", "torch": torch.__version__, "cases": [record(*c) for c in CASES]}, f)
        f.write("\n")
