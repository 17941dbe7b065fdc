"""The peer's side of `bench/run gpu`: PyTorch on one GPU, one JSON object on standard output.

    gpu_peer.py speed DEPTH WIDTH HEADS BATCH STEPS ATTENTION   GPT-2, compiled, bf16 autocast, fused AdamW, random tokens
    gpu_peer.py mlp                                             784-128-10, eager
    gpu_peer.py curve INIT.safetensors TOKENS.bin STEPS BATCH RATE ATTENTION   the losses of GPT-2 124M, from the weights and batches that ours had

ATTENTION is cudnn or flash, the library that scaled_dot_product_attention must take.
"""
import json
import math
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CONTEXT, WORDS = 1024, 50304
KINDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
BEGUN = time.perf_counter()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        shape = (x.size(0), x.size(1), 3, self.heads, -1)
        q, k, v = self.qkv(self.ln_1(x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, depth, width, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, width), nn.Embedding(CONTEXT, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe.weight
        for block in self.h:
            h = block(h)
        logits = F.linear(self.ln_f(h), self.wte.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), y.flatten())


def optimiser(model, lr):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def stepper(model, opt):
    compiled = torch.compile(model)

    def step(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss
    return step


def speed(depth, width, heads, batch, steps, attention):
    model = GPT(depth, width, heads).cuda()
    step = stepper(model, optimiser(model, 6e-4))
    x = torch.randint(0, 50257, (batch, CONTEXT), device="cuda")
    times = []
    with sdpa_kernel(KINDS[attention]):
        for i in range(5 + steps):
            begin = time.perf_counter()
            step(x, x)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            if i == 4:
                five = time.perf_counter() - BEGUN
    ms = 1e3 * sorted(times[5:])[steps // 2]
    return {"ms": ms, "tokens_s": batch * CONTEXT / ms * 1e3, "five_steps_s": five,
            "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


def mlp():
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    opt = torch.optim.Adam(model.parameters(), fused=True)
    images, labels = torch.rand(10000, 784, device="cuda"), torch.randint(0, 10, (10000,), device="cuda")
    for epochs in (1, 5):  # the first warms up
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(epochs):
            order = torch.randperm(10000, device="cuda")
            for at in range(0, 10000, 32):
                pick = order[at:at + 32]
                loss = F.cross_entropy(model(images[pick]), labels[pick])
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
        torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - begin}


def load(model, path):
    """Our names are the module's, but for the two parts of a block."""
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        head, data = json.loads(f.read(size)), f.read()
    ours = {name.replace("attn.", "").replace("mlp.", ""): t for name, t in head.items() if name != "__metadata__"}
    for name, p in model.named_parameters():
        begin, end = ours[name]["data_offsets"]
        values = torch.from_numpy(np.frombuffer(data[begin:end], np.float32).copy())
        p.data.copy_(values.view(p.shape))


def curve(init, tokens, steps, batch, rate, attention):
    model, lr = GPT(12, 768, 12).cuda(), float(rate)
    load(model, init)
    opt = optimiser(model, lr)
    step = stepper(model, opt)
    data = np.memmap(tokens, dtype=np.uint16, mode="r")
    warm, losses = steps // 10, {}
    for i in range(steps):
        at = i * batch * CONTEXT
        row = torch.from_numpy(data[at:at + batch * CONTEXT + 1].astype(np.int64)).cuda()
        part = (i + 1) / warm if i < warm else 0.1 + 0.45 * (1 + math.cos(math.pi * (i - warm) / (steps - warm)))
        for group in opt.param_groups:
            group["lr"] = lr * part
        with sdpa_kernel(KINDS[attention]):
            loss = step(row[:-1].view(batch, CONTEXT), row[1:].view(batch, CONTEXT))
        if (i + 1) % 100 == 0:
            losses[i + 1] = loss.item()
    return {"losses": losses}


def main(what, *arguments):
    numbers = [int(a) if a.isdigit() else a for a in arguments]
    print(json.dumps({"speed": speed, "mlp": mlp, "curve": curve}[what](*numbers)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
