#!/usr/bin/env python3
"""rms norm and fused attention against what PyTorch's own kernels gave (tests/golden/torch_ops.json,
made by record_ops.py). Tolerance: results of both sides carry f32 rounding of sums of at most 20
terms, and the file keeps 7 digits: 2e-6 by norm."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

TOOL = os.environ.get("RUN_OP", "build/run_op")


def array(t, dtype=np.float32):
    return np.array(t["values"], dtype).reshape(t["shape"])


def save(path, tensors):
    header, at = {}, 0
    for name, v in tensors.items():
        header[name] = {"dtype": "I32" if v.dtype == np.int32 else "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


def load(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    return {k: np.frombuffer(body[t["data_offsets"][0]:t["data_offsets"][1]], np.float32).reshape(t["shape"])
            for k, t in header.items() if k != "__metadata__"}


def far(ours, theirs):
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


def check(case):
    tensors = {f"in{i}": array(t) for i, t in enumerate(case["in"])}
    if "lens" in case:
        tensors[f"in{len(tensors)}"] = np.array(case["lens"], np.int32)
    tensors["w"] = array(case["w"])
    with tempfile.TemporaryDirectory() as d:
        save(f"{d}/in", tensors)
        subprocess.run([TOOL, case["op"], case["attributes"], f"{d}/in", f"{d}/out"], check=True)
        ours = load(f"{d}/out")
    distances = [far(ours["out0"], array(case["out"]))]
    distances += [far(ours[f"in{i}.grad"], array(g)) for i, g in enumerate(case["grads"])]
    print(f"{case['op']} {case['attributes']}: result within {distances[0]:.1e}, gradients {max(distances[1:]):.1e}")
    return max(distances) <= 2e-6


if __name__ == "__main__":
    with open("tests/golden/torch_ops.json") as f:
        recorded = json.load(f)
    print(f"recorded with torch {recorded['torch']}")
    sys.exit(0 if all([check(c) for c in recorded["cases"]]) else 1)
