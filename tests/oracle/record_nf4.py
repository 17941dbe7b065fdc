#!/usr/bin/env python3
"""record_nf4.py FOLDER: writes tests/golden/nf4.safetensors and src/base/nf4.def from PyPI's bitsandbytes, unpacked in FOLDER
(pip install --no-deps --target FOLDER bitsandbytes). Its quantisation is run as it is, by the Python of backends/default/ops.py,
which does what its CUDA kernels do and needs no newer PyTorch than the system's; only the registration with PyTorch's
dispatcher is left out. (Its compiled CPU kernel of the second level is not the same: it takes another than the nearest
code for some numbers near 0.)

bitsandbytes adds up the sizes of all blocks in f32, in an order of the device, where we do in f64: its mean may differ from
ours in the last bit. The numbers recorded here have few bits, so that every order gives the same mean."""
import os
import re
import sys

import numpy as np
import torch

folder = sys.argv[1]
top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(top, "tests", "oracle"))
base = os.path.join(folder, "bitsandbytes")
version = next(n for n in os.listdir(folder) if n.startswith("bitsandbytes-")).split("-")[1].removesuffix(".dist")


def functions(path, *names):
    """Those functions of a file, without decorators."""
    text, out = open(os.path.join(base, path)).read(), {"torch": torch, "prod": lambda s: int(np.prod(s)), "Sequence": list}
    for name in names:
        body = re.search(rf"^def {name}\(.*?(?=^(?:@|def |class |[A-Za-z_]+ ?=))", text + "\nend = 0", re.M | re.S).group(0)
        exec(body, out)
    return out


def registered(path, name, out):
    """The function that is registered under a name."""
    text = open(os.path.join(base, path)).read()
    body = re.search(rf'@register_kernel\("bitsandbytes::{name}", "default"\)\ndef _(\(.*?)(?=^(?:@|def |class ))', text, re.M | re.S).group(1)
    exec("def it" + body, out)
    return out["it"]


map_8 = functions("functional.py", "create_dynamic_map")["create_dynamic_map"]()
text = open(os.path.join(base, "backends/utils.py")).read() + open(os.path.join(base, "functional.py")).read()
values = re.search(r"-0\.6961928009986877.*?(?=\])", text, re.S).group(0)
nf4 = torch.tensor([-1.0] + [float(v) for v in re.findall(r"-?\d+\.\d+", values)][:15])
assert len(nf4) == 16 and nf4[7] == 0 and nf4[15] == 1, nf4
env = {"torch": torch, "_get_4bit_quantize_bounds": lambda *_: ((nf4[:-1] + nf4[1:]) / 2, torch.arange(16))}
quantize_4bit = registered("backends/default/ops.py", "quantize_4bit", env)
quantize_blockwise = registered("backends/default/ops.py", "quantize_blockwise", {"torch": torch})


def quantised(a):
    """functional.quantize_4bit with compress_statistics=True, and dequantize_4bit."""
    codes, absmax = quantize_4bit(a, 64, "nf4", torch.uint8)
    offset = absmax.mean()
    eight, scales = quantize_blockwise(absmax - offset, map_8, 256)
    back = map_8[eight.long()].view(-1, 256) * scales.view(-1, 1)
    back = back.view(-1) + offset
    pairs = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
    return dict(codes=codes.flatten(), absmax=eight, scales=scales, offset=offset.view(1),
                back=(nf4[pairs].view(-1, 64) * back.view(-1, 1)).flatten()[:4096])


def save(path, tensors):
    import json
    import struct
    kinds = {torch.float32: "F32", torch.uint8: "U8"}
    header, at, blobs = {}, 0, []
    for name, t in sorted(tensors.items(), key=lambda kv: -kv[1].element_size()):
        blob = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(blobs))


gen = torch.Generator().manual_seed(4)
a = torch.randn(64, 512, generator=gen) * torch.rand(64, 1, generator=gen)
a = (a * 64).round() / 64
a[3, 64:128] = 0  # a block of zeros
a[5] *= 1e-30
a[7, 5] = 40
a[9] = a[9].bfloat16().float()
save(os.path.join(top, "tests/golden/nf4.safetensors"), {"a": a, **quantised(a)})
with open(os.path.join(top, "src/base/nf4.def"), "w") as f:
    f.write(f"/* nf4.def - the numbers that 4-bit codes (NF4, Dettmers et al. 2023, appendix E) and the 8-bit codes of their blocks' sizes\n"
            f" * (its dynamic map) stand for, from bitsandbytes {version} by tests/oracle/record_nf4.py. */\n")
    for name, table in (("NF4", nf4), ("SIZE", map_8)):
        for i in range(0, len(table), 4):
            f.write(" ".join(f"{name}({float(v).hex()}f)" for v in table[i:i + 4]) + "\n")
print(len(map_8), "numbers;", version)
