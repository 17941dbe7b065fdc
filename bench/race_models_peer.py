"""PyTorch's side of `bench/run race ranker encoder`: the same models on the same samples, Adam at its best learning rate.

    race_models_peer.py ranker FOLDER TARGET dense|sparse RATE STEPS SEED [BATCH] FOLDER: what build/bench_clicks wrote
    race_models_peer.py encoder FILE,FILE,... TARGET dense RATE STEPS SEED [BATCH]    a file a class, a line a sample

ranker: a table of 26 x 1,000 rows of 16, 429-256-64-1, batch 2,048, shuffled samples, metric AUC; sparse: the table has
SparseAdam, which moves the rows of a step alone. encoder: BERT's block,
2 x 64, 4 heads, bytes of a line, at most 24, batch 128 (BATCH), each batch padded to its longest line, AdamW with decay 0.01,
metric accuracy. RATE falls to 0 by a cosine over STEPS after a warm-up of a twentieth. Every twentieth of STEPS the held-out samples are
evaluated, and the first evaluation at or above TARGET ends it. Prints one JSON object: reached, steps, value, curve ([seconds,
value] of each evaluation), and seconds from the start of the process; evaluations before the last one are taken off all
times, because our side has none."""
import json
import math
import os
import sys
import time
import zlib


def age():
    """Seconds since the process began, by the kernel's clock."""
    with open("/proc/self/stat") as f:
        began = int(f.read().rsplit(") ", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

EVALS, WARMUP = 20, 0.05
RECENT = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4)
FUSED = {"fused": True} if RECENT else {"foreach": True}


def attention(q, k, v, seen):
    if RECENT:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ v


class Ranker(nn.Module):
    rows, width, columns, numbers = 26000, 16, 26, 13

    def __init__(self, sparse):
        super().__init__()
        self.table = nn.Embedding(self.rows, self.width, sparse=sparse)
        nn.init.normal_(self.table.weight, std=1 / math.sqrt(self.width))
        self.mlp = nn.Sequential(nn.Linear(self.columns * self.width + self.numbers, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(),
                                 nn.Linear(64, 1))

    def forward(self, x, dense):
        return self.mlp(torch.cat([self.table(x).flatten(1), dense], 1)).squeeze(1)


class Clicks:
    batch, eval_batch = 2048, 8192

    def __init__(self, folder, tables):
        def read(split, name, kind, *shape):
            return torch.from_numpy(np.fromfile(os.path.join(folder, f"{split}.{name}"), kind).reshape(-1, *shape))
        self.data = {split: (read(split, "x", np.int32, 26), read(split, "dense", np.float32, 13), read(split, "y", np.float32))
                     for split in ("train", "eval")}
        self.count, self.model = len(self.data["train"][2]), Ranker(tables == "sparse")

    def optimisers(self, rate):
        if not self.model.table.sparse:
            return [torch.optim.Adam(self.model.parameters(), lr=rate, **FUSED)]
        return [torch.optim.Adam(self.model.mlp.parameters(), lr=rate, **FUSED), torch.optim.SparseAdam([self.model.table.weight], lr=rate)]

    def loss(self, index):
        x, dense, y = (t[index] for t in self.data["train"])
        return F.binary_cross_entropy_with_logits(self.model(x, dense), y)

    def value(self):
        x, dense, y = self.data["eval"]
        scores = torch.cat([self.model(x[i:i + self.eval_batch], dense[i:i + self.eval_batch]) for i in range(0, len(y), self.eval_batch)])
        ranks = torch.empty(len(y), dtype=torch.float64)
        ranks[scores.argsort()] = torch.arange(1, len(y) + 1, dtype=torch.float64)
        clicks = int(y.sum())
        return float((ranks[y > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(y) - clicks)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x, seen):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = attention(q, k, v, seen)
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, classes, context, depth=2, width=64, heads=4):
        super().__init__()
        self.tokens, self.positions, self.norm = nn.Embedding(257, width), nn.Embedding(context, width), nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, x, lens):
        x = x[:, : int(lens.max())].long()
        seen = (torch.arange(x.shape[1]) < lens[:, None])[:, None, None, :]
        x = self.norm(self.tokens(x) + self.positions.weight[: x.shape[1]])
        for block in self.blocks:
            x = block(x, seen)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Lines:
    batch, eval_batch, context, eval_count = 128, 1000, 24, 10000

    def __init__(self, files, _):
        parts = {"train": [], "eval": []}
        for label, path in enumerate(files.split(",")):
            with open(path, "rb") as f:
                for line in f.read().split(b"\n"):
                    if line.rstrip(b"\r"):
                        parts["eval" if zlib.crc32(line) % 10 == 0 else "train"].append((line.rstrip(b"\r")[: self.context], label))
        self.data = {split: self.arrays(rows) for split, rows in parts.items()}
        some = torch.randperm(len(self.data["eval"][2]), generator=torch.Generator().manual_seed(0))[: self.eval_count]
        self.data["eval"] = tuple(t[some] for t in self.data["eval"])
        self.count, self.model = len(self.data["train"][2]), Encoder(len(files.split(",")), self.context)

    def arrays(self, rows):
        x = np.frombuffer(b"".join(line.ljust(self.context, b"\0") for line, _ in rows), np.uint8).reshape(-1, self.context)
        lens = torch.tensor([len(line) for line, _ in rows])
        x = torch.from_numpy(x.astype(np.int16)) + (torch.arange(self.context) < lens[:, None])
        return x, lens, torch.tensor([label for _, label in rows])

    def optimisers(self, rate):
        decayed = [w for w in self.model.parameters() if w.dim() > 1]
        others = [w for w in self.model.parameters() if w.dim() < 2]
        return [torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}], lr=rate, **FUSED)]

    def loss(self, index):
        x, lens, y = (t[index] for t in self.data["train"])
        return F.cross_entropy(self.model(x, lens), y)

    def value(self):
        x, lens, y = self.data["eval"]
        right = sum(int((self.model(x[i:i + self.eval_batch], lens[i:i + self.eval_batch]).argmax(1) == y[i:i + self.eval_batch]).sum())
                    for i in range(0, len(y), self.eval_batch))
        return right / len(y)


def main(kind, path, target, tables, rate, steps, seed, batch=None):
    target, rate, steps = float(target), float(rate), int(steps)
    torch.manual_seed(int(seed))
    task = {"ranker": Clicks, "encoder": Lines}[kind](path, tables)
    task.batch = int(batch or task.batch)
    optimisers, order, curve, spent, value = task.optimisers(rate), [], [], 0.0, -math.inf
    warm = max(1, int(WARMUP * steps))
    for step in range(steps):
        for group in [g for o in optimisers for g in o.param_groups]:
            group["lr"] = rate * ((step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm))))
        if len(order) < task.batch:
            order = torch.randperm(task.count)
        index, order = order[: task.batch], order[task.batch:]
        task.loss(index).backward()
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if (step + 1) % max(1, steps // EVALS) == 0 or step + 1 == steps:
            begin = age()
            with torch.no_grad():
                value = task.value()
            took = age() - begin
            curve.append([begin + took - spent, value])
            if value >= target:
                break
            spent += took
    print(json.dumps({"reached": value >= target, "steps": step + 1, "value": value, "seconds": curve[-1][0], "curve": curve}))


if __name__ == "__main__":
    main(*sys.argv[1:])
