"""PyTorch's side of `bench/run race`: the recipe that nanoGPT publishes for Shakespeare by characters, in our own words.

    race_peer.py TEXT TARGET gpu|cpu eager|compiled SEED

gpu: 6 blocks of 384, 256 characters, batch 64, dropout 0.2, 5,000 steps, bf16. cpu: 4 blocks of 128, 64 characters, batch 12,
no dropout, 2,000 steps, f32. AdamW at 1e-3 with beta2 0.99 and decay 0.1, 100 steps of warm-up, cosine to a tenth, clipped at 1;
windows that begin anywhere. Every 50 steps all of the last tenth is evaluated, in windows that do not overlap; the first
evaluation at or below TARGET ends it. Prints one JSON object: reached, steps, loss, curve ([seconds, loss] of each evaluation), and
seconds from the start of the process; evaluations before the last one are taken off all times, because our side has none."""
import json
import math
import os
import sys
import time


def age():
    """Seconds since the process began, by the kernel's clock."""
    with open("/proc/self/stat") as f:
        began = int(f.read().rsplit(") ", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

SHAPES = {  # depth, width, heads, context, batch, dropout, steps
    "gpu": (6, 384, 6, 256, 64, 0.2, 5000),
    "cpu": (4, 128, 4, 64, 12, 0.0, 2000),
}
EVERY, LR, WARMUP = 50, 1e-3, 100


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.drop(self.out(seen.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Model(nn.Module):
    def __init__(self, vocabulary, depth, width, heads, context, dropout):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop, self.norm = nn.Dropout(dropout), nn.LayerNorm(width, bias=False)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth)))
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * depth) if last else 1))

    def forward(self, x, y):
        h = self.drop(self.tokens(x) + self.positions.weight[: x.shape[1]])
        logits = self.norm(self.blocks(h)) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    return LR * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))))


def main(path, target, kind, mode, seed):
    depth, width, heads, context, batch, dropout, steps = SHAPES[kind]
    torch.manual_seed(int(seed))
    device = "cuda" if kind == "gpu" else "cpu"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([number[c] for c in text])
    cut = int(0.9 * len(data))
    train, held_out = data[:cut].to(device), data[cut:].to(device)
    model = Model(len(number), depth, width, heads, context, dropout).to(device)
    run = torch.compile(model) if mode == "compiled" else model
    decayed = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() < 2]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                                  lr=LR, betas=(0.9, 0.99), fused=True)

    def low():
        return torch.autocast(device, torch.bfloat16, enabled=kind == "gpu")

    def evaluate():
        count, total = (len(held_out) - 1) // context, 0.0
        x, y = held_out[: count * context].view(count, context), held_out[1 : count * context + 1].view(count, context)
        model.eval()
        with torch.no_grad(), low():
            for i in range(0, count, batch):
                total += run(x[i : i + batch], y[i : i + batch]).item() * len(x[i : i + batch])
        model.train()
        return total / count

    loss, curve, spent = math.inf, [], 0.0
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, steps)
        at = torch.randint(len(train) - context - 1, (batch, 1), device=device) + torch.arange(context, device=device)
        with low():
            training = run(train[at], train[at + 1])
        training.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if (step + 1) % EVERY == 0:
            begin = age()
            loss = evaluate()
            curve.append([age() - spent, loss])
            if loss <= float(target):
                break
            spent += age() - begin
    print(json.dumps({"reached": loss <= float(target), "steps": step + 1, "loss": loss, "seconds": curve[-1][0], "curve": curve}))


if __name__ == "__main__":
    main(*sys.argv[1:])
