"""PyTorch's side of `bench/run race text-1.65` and `text-1.45`: the recipe `modern` of a gpt on tokens, in PyTorch's own parts.

    race_peer_tokens.py DIR TARGET eager|compiled SEED KEY=VALUE...

The block of the public speed records (rms norm, rotary positions, normalised queries and keys, squared relu, no biases, matrices that write to the
residual at zero, a head of its own, logits capped at 15); torch.optim.Muon for the hidden matrices, queries, keys and values each by
themselves, fused AdamW for the rest; bf16 autocast, flash attention; warm-up over 2 % of the steps, a rate that falls to zero over the last 45 %.
KEY=VALUE: depth, width, heads, context, batch, steps, lr, muon_lr, eval_samples. DIR holds train.bin and val.bin, tokens as u16. Evaluates once,
at the end. Prints one JSON object: reached, steps, loss, steps_s (of the steps after the first ten, for all of them), and seconds from the start of the process."""
import json
import os
import sys
import time

from race_peer import age

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, CAP, WARMUP, FALL = 50304, 15.0, 0.02, 0.45


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        for layer in (self.q, self.k, self.v, self.up):
            nn.init.normal_(layer.weight, std=0.02)
        for layer in (self.out, self.down):
            nn.init.zeros_(layer.weight)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (layer(h).view(batch, length, self.heads, -1) for layer in (self.q, self.k, self.v))
        q, k = (turn(norm(u), cos, sin).transpose(1, 2) for u in (q, k))
        seen = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.relu(self.up(self.norm2(x))).square())


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Model(nn.Module):
    def __init__(self, depth, width, heads, context):
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY, bias=False)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(depth)), nn.RMSNorm(width, eps=1e-5)
        half = width // heads // 2
        angle = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos()[None, :, None].bfloat16())
        self.register_buffer("sin", angle.sin()[None, :, None].bfloat16())
        for table in (self.tokens, self.head):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, x, y):
        h = self.tokens(x).bfloat16()
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        logits = CAP * torch.tanh(self.head(self.norm(h)).float() / CAP)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def read(path, device):
    with open(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint16).to(torch.int32).to(device)


def windows(tokens, starts, context):
    at = starts[:, None] + torch.arange(context + 1, device=tokens.device)
    both = tokens[at].long()
    return both[:, :-1], both[:, 1:]


def main(folder, target, mode, seed, *more):
    c = {k: float(v) for k, v in (a.split("=") for a in more)}
    depth, width, heads, context, batch, steps = (int(c[k]) for k in ("depth", "width", "heads", "context", "batch", "steps"))
    torch.manual_seed(int(seed))
    train, held_out = (read(os.path.join(folder, name), "cuda") for name in ("train.bin", "val.bin"))
    model = Model(depth, width, heads, context).cuda()
    run = torch.compile(model) if mode == "compiled" else model
    hidden = [p for n, p in model.named_parameters() if "blocks" in n and p.dim() == 2]
    others = [p for n, p in model.named_parameters() if not ("blocks" in n and p.dim() == 2)]
    optimisers = [torch.optim.Muon(hidden, lr=c["muon_lr"], weight_decay=0.0, momentum=0.95, nesterov=True),
                  torch.optim.AdamW(others, lr=c["lr"], betas=(0.9, 0.95), weight_decay=0.0, fused=True)]
    full = [group["lr"] for o in optimisers for group in o.param_groups]
    order = torch.randperm((len(train) - context - 1) // context, device="cuda") * context
    for step in range(steps):
        if step == 10:
            torch.cuda.synchronize()
            began = time.perf_counter()
        part = min(1.0, (step + 1) / max(1, WARMUP * steps), (steps - step) / (FALL * steps))
        for group, lr in zip([g for o in optimisers for g in o.param_groups], full):
            group["lr"] = lr * part
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(*windows(train, order[torch.arange(step * batch, (step + 1) * batch, device="cuda") % len(order)], context))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in optimisers:
            o.step()
            o.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    steps_s = (time.perf_counter() - began) * steps / (steps - 10)
    count, total, size = int(c["eval_samples"]), 0.0, 32
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for i in range(0, count, size):
            total += run(*windows(held_out, torch.arange(i, i + size, device="cuda") * context, context)).item() * size
    loss = total / count
    print(json.dumps({"reached": loss <= float(target), "steps": steps, "loss": loss, "steps_s": steps_s, "seconds": age()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
