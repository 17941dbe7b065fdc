"""The peer's side of `bench/run gpu`: PyTorch on one GPU, one JSON object a job on standard output. Jobs of one call follow each other, separated
by "--"; one that fails prints {"failed": WHY}. With WARM=1 a job ends after six steps: it fills the cache of compiled code.

    gpu_peer.py speed DEPTH WIDTH HEADS BATCH STEPS ATTENTION MODE   GPT-2, compiled, bf16 autocast, fused AdamW, random tokens
    gpu_peer.py images DEPTH BATCH STEPS MODE                   ResNet-20 or -50 on random images that lie on the GPU, channels last, fused SGD
    gpu_peer.py encoder DEPTH WIDTH HEADS CONTEXT BATCH LEAST MOST STEPS MODE   BERT on sequences of LEAST to MOST tokens that lie on the GPU, padded, or
                                                                packed (MODE packed: compiled, with torch's attention for packed sequences)
    gpu_peer.py decoder CONTEXT BATCH STEPS RECOMPUTED MODE     Llama's kind: 16 blocks of 2,048, 16 heads of 128 that share 4 keys, compiled; RECOMPUTED 1:
                                                                every block is recomputed
    gpu_peer.py clicks ROWS WIDTH BATCH STEPS MODE              a ranker: 26 tables of ROWS x WIDTH with sparse gradients and SparseAdam, 13 numbers, 512-256-1
    gpu_peer.py mlp                                             784-128-10, eager
    gpu_peer.py curve INIT.safetensors TOKENS.bin STEPS BATCH RATE ATTENTION   the losses of GPT-2 124M, from the weights and batches that ours had

ATTENTION is cudnn or flash, the library that scaled_dot_product_attention must take; MODE is torch.compile's.
"""
import gc
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
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


def mode_of(word):
    return None if word == "default" else word


def stepper(model, opt, mode="default"):
    compiled = torch.compile(model, mode=mode_of(mode))

    def step(x, y):
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss
    return step


def speed(depth, width, heads, batch, steps, attention, mode):
    model = GPT(depth, width, heads).cuda()
    step = stepper(model, optimiser(model, 6e-4), mode)
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


def unit(inputs, outputs, kernel, stride=1):
    return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride, middle):
        super().__init__()
        if middle:
            self.f = nn.Sequential(*unit(inputs, middle, 1), nn.ReLU(), *unit(middle, middle, 3, stride), nn.ReLU(), *unit(middle, outputs, 1))
        else:
            self.f = nn.Sequential(*unit(inputs, outputs, 3, stride), nn.ReLU(), *unit(outputs, outputs, 3))
        self.shortcut = nn.Sequential(*([] if inputs == outputs and stride == 1 else unit(inputs, outputs, 1, stride)))

    def forward(self, x):
        return F.relu(self.f(x) + self.shortcut(x))


def resnet(depth):
    widths, counts, wide = ((16, 32, 64), (3, 3, 3), 1) if depth == 20 else ((64, 128, 256, 512), (3, 4, 6, 3), 4)
    layers = [*unit(3, 16, 3), nn.ReLU()] if depth == 20 else [*unit(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(2)]
    channels = widths[0]
    for part, (width, count) in enumerate(zip(widths, counts)):
        for i in range(count):
            layers.append(Residual(channels, wide * width, 2 if part and not i else 1, width if wide > 1 else 0))
            channels = wide * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10 if depth == 20 else 250))


def images(depth, batch, steps, mode):
    torch.backends.cudnn.benchmark = True
    size, classes = (32, 10) if depth == 20 else (224, 250)
    model = resnet(depth).cuda().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), 0.05, 0.9, fused=True)
    compiled = torch.compile(model, mode=mode_of(mode))
    x = torch.rand(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    y, times = torch.randint(classes, (batch,), device="cuda"), []
    for i in range(5 + steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            out = compiled(x)
        F.cross_entropy(out.float(), y).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if i == 4:
            five = time.perf_counter() - BEGUN
    ms = 1e3 * sorted(times[5:])[steps // 2]
    return {"ms": ms, "images_s": batch / ms * 1e3, "five_steps_s": five, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


class Encoded(nn.Module):
    """A block of BERT: the norm follows the addition. where: the mask of padded rows, or offsets and greatest length of packed ones."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, where):
        if isinstance(where, tuple):
            from torch.nn.attention.varlen import varlen_attn
            q, k, v = self.qkv(x).view(x.size(0), 3, self.heads, -1).unbind(1)
            mixed = varlen_attn(q, k, v, where[0], where[0], where[1], where[1]).flatten(1)
        else:
            q, k, v = self.qkv(x).view(x.size(0), x.size(1), 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=where).transpose(1, 2).flatten(2)
        x = self.ln_1(x + self.proj(mixed))
        return self.ln_2(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class Encoder(nn.Module):
    def __init__(self, depth, width, heads, context):
        super().__init__()
        self.wte, self.wpe, self.ln = nn.Embedding(257, width), nn.Embedding(context, width), nn.LayerNorm(width)
        self.h = nn.ModuleList(Encoded(width, heads) for _ in range(depth))
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x, at, where, first):
        h = self.ln(self.wte(x) + self.wpe(at))
        for block in self.h:
            h = block(h, where)
        return self.classifier(torch.tanh(self.pooler(h[first])))


def encoder(depth, width, heads, context, batch, least, most, steps, mode):
    model = Encoder(depth, width, heads, context).cuda()
    opt = torch.optim.AdamW(model.parameters(), 3e-5, weight_decay=0.01, fused=True)
    compiled = torch.compile(model, mode=mode if mode == "reduce-overhead" else None)
    torch.manual_seed(1)
    lens = torch.randint(least, most + 1, (batch,), device="cuda")
    at = torch.arange(context, device="cuda").expand(batch, context)
    inside, y, times = at < lens[:, None], torch.randint(2, (batch,), device="cuda"), []
    x = torch.randint(256, (batch, context), device="cuda").masked_fill(~inside, 256)
    where, first = inside[:, None, None, :], (slice(None), 0)
    if mode == "packed":
        ends = torch.cumsum(lens, 0)
        offsets = torch.cat([ends.new_zeros(1), ends]).int()
        x, at, where, first = x[inside], at[inside], (offsets, most), offsets[:-1].long()
    for i in range(5 + steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            out = compiled(x, at, where, first)
        F.cross_entropy(out.float(), y).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if i == 4:
            five = time.perf_counter() - BEGUN
    ms = 1e3 * sorted(times[5:])[steps // 2]
    return {"ms": ms, "sequences_s": batch / ms * 1e3, "five_steps_s": five, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


class Gated(nn.Module):
    """A block of Llama's kind."""
    def __init__(self, width, heads, shared, hidden):
        super().__init__()
        self.sizes = width, shared * (width // heads), shared * (width // heads)
        self.heads = heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.proj = nn.Linear(width, sum(self.sizes), bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*shape, bias=False) for shape in ((width, hidden), (width, hidden), (hidden, width)))

    def forward(self, x, cos, sin):
        def turned(t):
            low, high = t.chunk(2, -1)
            return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(t.dtype)
        q, k, v = (t.unflatten(-1, (-1, x.size(-1) // self.heads)).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(self.sizes, -1))
        mixed = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, context, recomputed, width=2048, heads=16, shared=4, hidden=5632, depth=16):
        super().__init__()
        self.recomputed = recomputed
        self.wte, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.h, self.norm = nn.ModuleList(Gated(width, heads, shared, hidden) for _ in range(depth)), nn.RMSNorm(width)
        size = width // heads
        angles = torch.outer(torch.arange(context), 1e4 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x, y):
        h = self.wte(x)
        for block in self.h:
            h = torch.utils.checkpoint.checkpoint(block, h, self.cos, self.sin, use_reentrant=False) if self.recomputed else block(h, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(h)).float().flatten(0, 1), y.flatten())


def decoder(context, batch, steps, recomputed, mode):
    model = Decoder(context, recomputed).cuda()
    step = stepper(model, optimiser(model, 3e-4), mode)
    x, times = torch.randint(0, 50257, (batch, context), device="cuda"), []
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
        for i in range(5 + steps):
            begin = time.perf_counter()
            step(x, x)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            if i == 4:
                five = time.perf_counter() - BEGUN
    ms = 1e3 * sorted(times[5:])[steps // 2]
    return {"ms": ms, "tokens_s": batch * context / ms * 1e3, "five_steps_s": five, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


class Clicks(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width, sparse=True) for _ in range(26))
        self.mlp = nn.Sequential(nn.Linear(26 * width + 13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def looked_up(self, x):
        return [table(x[:, i]) for i, table in enumerate(self.tables)]


def clicks(rows, width, batch, steps, mode):
    """torch.compile does not trace sparse gradients: it compiles what follows the tables."""
    with torch.device("cuda"):
        model = Clicks(rows, width)
    sparse = torch.optim.SparseAdam(list(model.tables.parameters()))
    dense = torch.optim.Adam(model.mlp.parameters(), fused=True)
    top = model.mlp if mode == "eager" else torch.compile(model.mlp, mode=mode_of(mode))
    batches = [(torch.randint(rows, (batch, 26), device="cuda"), torch.rand(batch, 13, device="cuda"), torch.rand(batch, device="cuda").round()) for _ in range(8)]
    times = []
    for i in range(5 + steps):
        x, numbers, y = batches[i % 8]
        torch.cuda.synchronize()
        begin = time.perf_counter()
        looked_up = model.looked_up(x)
        with torch.autocast("cuda", torch.bfloat16):
            out = top(torch.cat(looked_up + [numbers], 1))
        F.binary_cross_entropy_with_logits(out.float().squeeze(1), y).backward()
        sparse.step()
        dense.step()
        sparse.zero_grad(set_to_none=True)
        dense.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        if i == 4:
            five = time.perf_counter() - BEGUN
    ms = 1e3 * sorted(times[5:])[steps // 2]
    return {"ms": ms, "samples_s": batch / ms * 1e3, "five_steps_s": five, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


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


JOBS = {"speed": speed, "images": images, "encoder": encoder, "decoder": decoder, "clicks": clicks, "mlp": mlp, "curve": curve}
STEPS_AT = {"speed": 4, "images": 2, "encoder": 7, "decoder": 2, "clicks": 3}  # which argument says how many


def work(what, *arguments):
    global BEGUN
    numbers = [int(a) if a.isdigit() else a for a in arguments]
    if os.environ.get("WARM") and what in STEPS_AT:
        numbers[STEPS_AT[what]] = 1
    BEGUN = time.perf_counter()
    try:
        return JOBS[what](*numbers)
    except Exception as why:  # out of memory, or what this torch does not have: the next job may do
        return {"failed": f"{type(why).__name__}: {str(why)[:300]}"}


def main(*arguments):
    jobs = [[]]
    for a in arguments:
        if a == "--":
            jobs.append([])
        else:
            jobs[-1].append(a)
    for job in jobs:
        print(json.dumps(work(*job)), flush=True)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.backends.cudnn.benchmark = False


if __name__ == "__main__":
    main(*sys.argv[1:])
