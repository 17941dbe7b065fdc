"""What single levers of the public records give in small runs, in PyTorch: the rows of "Levers of the public records" in docs/decisions/recipes.md.

    levers_tried.py text TRAIN.bin[,MORE.bin...] [KEY=VALUE...]        tokens as u16 (frugal tokenize), the last part held out: nats a token
    levers_tried.py pictures plain|cluttered:DIR [KEY=VALUE...]        MNIST or another set of idx files: errors on the test pictures, in percent
    levers_tried.py clicks BUCKETS [KEY=VALUE...]                      worlds of the law of synthetic_clicks: 100 x (1 - AUC)
    levers_tried.py time text|pictures|clicks DATA [KEY=VALUE...]      milliseconds a step, each lever beside base, alone on the device

Less is better everywhere. KEY=VALUE: levers=a;b;... (default: all), seeds=1,2,..., device=cpu|cuda, and every number of BASE, for all levers.
A lever is a row of LEVERS: settings over BASE, and nothing else is changed. The models are those of the recipe `modern` (Muon for hidden
matrices, AdamW for the rest). On a GPU a step is one CUDA graph, so that its time is the GPU's and not Python's. Prints a JSON object a run:
task, data, lever, seed, loss, steps, and seconds of the steps, which only count where nothing else runs. It shows what a lever is worth before
it is built into frugal; no part of the product uses it.
"""
import gzip
import json
import math
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = True
RECENT = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4)

# ---- the numbers of a run

MUON = {"muon_lr": 0.02, "momentum": 0.95, "steps_ns": 5, "express": 0, "rows": 0, "soap": 0, "beta2": 0.95, "decay": 0.0, "cautious": 0,
        "outer": 0, "average": 0.0, "free": 0.0, "warmup": 0.02, "fall": 0.45, "clip": 1.0, "bias_rate": 1.0, "lookahead": 0}
BASE = {
    "text": dict(MUON, depth=4, width=384, heads=6, context=512, batch=16, steps=400, vocabulary=4096, lr=0.02, cap=15.0, tables=0, bigrams=0,
                 bigrams_all=0, ahead=0.0, phases="", fp8=0, eval_windows=192),
    "pictures": dict(MUON, steps=240, batch=512, lr=0.01, muon_lr=0.1, fall=0.75, warmup=0.25, clip=0.0, smoothing=0.1, samples=60000, whiten=0,
                     dirac=0, views=1, mixup=0.0, cutmix=0, small=0.0, moved=2, widths="64,256,256"),
    "clicks": dict(MUON, steps=300, batch=2048, lr=0.04, muon_lr=0.03, beta2=0.999, fall=0.95, warmup=0.05, clip=0.0, epochs=1, cross=0,
                   cross_rank=0),
}

# ---- levers: settings over BASE

RULES = {  # of the optimiser: for every task
    "base": {},
    "polar express": {"express": 1},
    "polar express, 4 steps": {"express": 1, "steps_ns": 4},
    "polar express, 3 steps": {"express": 1, "steps_ns": 3},
    "4 steps": {"steps_ns": 4},
    "3 steps": {"steps_ns": 3},
    "normuon": {"rows": 1},
    "normuon, polar express": {"rows": 1, "express": 1},
    "rows without memory": {"rows": 2},
}
LEVERS = {
    "text": dict(RULES, **{
        "rates x 0.7": {"lr": 0.014, "muon_lr": 0.014},
        "rates x 1.4": {"lr": 0.028, "muon_lr": 0.028},
        "normuon, rate x 0.7": {"rows": 1, "muon_lr": 0.014},
        "normuon, rate x 1.4": {"rows": 1, "muon_lr": 0.028},
        "soap": {"soap": 1},
        "decay 0.1": {"decay": 0.1},
        "cautious decay 0.1": {"decay": 0.1, "cautious": 1},
        "cautious decay 0.4": {"decay": 0.4, "cautious": 1},
        "value tables": {"tables": 2},
        "bigram hash": {"bigrams": 5},
        "bigram hash, every block": {"bigrams": 5, "bigrams_all": 1},
        "two tokens ahead": {"ahead": 0.5},
        "batch grows": {"phases": "0.3:512:8 0.7:512:16"},
        "batch grows twice": {"phases": "0.2:512:8 0.5:512:16 0.3:512:32"},
        "context grows": {"phases": "0.25:128:64 0.25:256:32 0.5:512:16"},
        "context grows once": {"phases": "0.5:256:32 0.5:512:16"},
        "short context to the end": {"phases": "1:128:64"},
        "rows of four random pieces, then whole": {"phases": "0.5:128:64:join 0.5:512:16"},
        "rows cut into four, then whole": {"phases": "0.5:512:16:cut 0.5:512:16"},
        "context grows, normuon": {"phases": "0.5:128:64 0.5:512:16", "rows": 1},
        "context grows late": {"phases": "0.75:128:64 0.25:512:16"},
        "context grows at once": {"phases": "0.5:128:64 0.5:512:16"},
        "head in fp8": {"fp8": 1},
        "average, falling rate": {"average": 0.95},
        "average, constant rate": {"average": 0.95, "fall": 0.0},
        "constant rate": {"fall": 0.0},
        "outer nesterov": {"outer": 28},
        "schedule-free": {"free": 0.9, "momentum": 0.0, "fall": 0.0},
        "schedule-free, momentum": {"free": 0.9, "fall": 0.0},
    }),
    "pictures": dict(RULES, **{
        "whitened first": {"whiten": 1},
        "dirac": {"dirac": 1},
        "whitened first, dirac": {"whiten": 1, "dirac": 1},
        "biases x 8": {"bias_rate": 8.0},
        "lookahead": {"lookahead": 5},
        "five views": {"views": 5},
        "mixup": {"mixup": 0.2},
        "cutmix": {"cutmix": 1},
        "progressive sizes": {"small": 0.5},
        "average": {"average": 0.95},
        "outer nesterov": {"outer": 28},
    }),
    "clicks": dict(RULES, **{
        "one cross": {"cross": 1},
        "two crosses": {"cross": 2},
        "three crosses": {"cross": 3},
        "two crosses of rank 64": {"cross": 2, "cross_rank": 64},
        "half the clicks, two epochs": {"epochs": 2},
        "average": {"average": 0.95},
        "outer nesterov": {"outer": 28},
    }),
}

# ---- the optimiser: Muon for hidden matrices, AdamW for the rest, and the levers of both

JORDAN = [(3.4445, -4.7750, 2.0315)] * 5  # Jordan et al. 2024
EXPRESS = [(8.156554524902461, -22.48329292557795, 15.878769915207462), (4.042929935166739, -2.808917465908714, 0.5000178451051316),
           (3.8916678022926607, -2.772484153217685, 0.5060648178503393), (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
           (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)]  # Amsel et al. 2025, arXiv 2505.16932


def orthogonal(x, express, steps):
    """Of each matrix of x [n, rows, columns] the nearest orthogonal one, about."""
    tall, kind = x.shape[1] > x.shape[2], x.dtype
    x = x.transpose(1, 2) if tall else x
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] * (1.02 if express else 1) + 1e-7)
    x = x.bfloat16() if x.is_cuda else x
    for a, b, c in (EXPRESS if express else JORDAN)[:steps]:
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.transpose(1, 2) if tall else x
    return x.to(kind)


class Matrices:
    """Hidden matrices of one shape, and what Muon remembers of them."""

    def __init__(self, params, c):
        self.params, self.c = params, c
        rows, columns = params[0].shape[0], params[0][0].numel()
        self.shape = (len(params), rows, columns)
        self.scale = max(1, rows / columns) ** 0.5
        new = lambda *s: torch.zeros(s, device=params[0].device)  # noqa: E731
        self.momentum, self.rows = new(*self.shape), new(len(params), rows, 1)
        if c["soap"]:
            self.side = min(rows, columns)
            self.gram, self.square = new(len(params), self.side, self.side), new(*self.shape)
            self.basis = torch.eye(self.side, device=params[0].device).repeat(len(params), 1, 1)

    def turned(self, x, back=False):
        q = self.basis if back else self.basis.transpose(1, 2)
        return x @ q.transpose(1, 2) if self.shape[1] > self.shape[2] else q @ x

    def soap(self, g, m):
        """Adam's division in the eigenvectors of the smaller side's second moments (Vyas et al. 2024); their basis follows in `refresh`."""
        x = g.transpose(1, 2) if self.shape[1] > self.shape[2] else g
        self.gram.lerp_(x @ x.transpose(1, 2), 0.1)
        self.square.lerp_(self.turned(g).square(), 0.1)
        return self.turned(self.turned(m) / (self.square.sqrt() + 1e-8), back=True)

    def refresh(self):
        self.basis = self.basis.copy_(torch.linalg.qr(self.gram @ self.basis)[0])

    def direction(self, factor):
        g = torch.stack([p.grad.flatten(1) for p in self.params]).float() * factor
        self.momentum.lerp_(g, 1 - self.c["momentum"])
        m = g.lerp(self.momentum, self.c["momentum"])
        x = orthogonal(self.soap(g, m) if self.c["soap"] else m, self.c["express"], self.c["steps_ns"])
        if self.c["rows"]:  # NorMuon (Li et al. 2025): rows of equal size, the matrix as large as it was
            norm, mean = x.norm(dim=(1, 2), keepdim=True), x.square().mean(2, keepdim=True)
            self.rows.lerp_(mean, 0.05 if self.c["rows"] == 1 else 1.0)
            x = x / (self.rows.sqrt() + 1e-10)
            x = x * norm / (x.norm(dim=(1, 2), keepdim=True) + 1e-10)
        return [(p, u.view_as(p) * self.scale) for p, u in zip(self.params, x.unbind(0))]


class Rule:
    def __init__(self, model, hidden, c):
        self.c, self.params = c, [p for p in model.parameters() if p.requires_grad]
        names = {p: n for n, p in model.named_parameters()}
        shapes = {}
        for p in self.params:
            if hidden(names[p], p):
                shapes.setdefault((p.shape[0], p[0].numel()), []).append(p)
        matrices = {p for ps in shapes.values() for p in ps}
        self.groups = [Matrices(ps, c) for ps in shapes.values()]
        self.others = [p for p in self.params if p not in matrices]
        self.rate_of = {p: c["lr"] * (c["bias_rate"] if p.dim() == 1 and "norm" in names[p] and "bias" in names[p] else 1) for p in self.others}
        copies = lambda: [p.detach().clone() for p in self.params]  # noqa: E731
        self.m, self.v = ([torch.zeros_like(p) for p in self.others] for _ in range(2))
        self.t = torch.zeros((), device=self.params[0].device)
        self.slow = copies() if c["outer"] or c["average"] or c["lookahead"] else []
        self.outer = [torch.zeros_like(p) for p in self.params] if c["outer"] else []
        self.z = dict(zip(self.params, copies())) if c["free"] else {}
        self.x = dict(zip(self.params, copies())) if c["free"] else {}
        self.weights = torch.zeros_like(self.t)

    def adam(self, factor):
        beta1 = 0.0 if self.c["free"] else 0.9
        for p, m, v in zip(self.others, self.m, self.v):
            g = p.grad.float() * factor
            m.lerp_(g, 1 - beta1)
            v.lerp_(g.square(), 1 - self.c["beta2"])
            yield p, (m / (1 - beta1 ** self.t)) / ((v / (1 - self.c["beta2"] ** self.t)).sqrt() + 1e-8), self.rate_of[p]

    @torch.no_grad()
    def step(self, rate):
        """`rate` is a part of the full rates."""
        c, factor = self.c, 1.0
        self.t += 1
        if c["clip"]:
            norm = torch.stack([p.grad.float().norm() for p in self.params]).norm()
            factor = (c["clip"] / (norm + 1e-6)).clamp(max=1)
        moves = [(p, u, c["muon_lr"]) for g in self.groups for p, u in g.direction(factor)] + list(self.adam(factor))
        if c["free"]:
            self.weights += rate.square()
        for p, u, lr in moves:
            if c["decay"] and p.dim() > 1:
                u = u + c["decay"] * (p * (u * p > 0) if c["cautious"] else p)
            if not c["free"]:
                p -= lr * rate * u
                continue
            self.z[p] -= lr * rate * u  # Defazio et al. 2024
            self.x[p].lerp_(self.z[p], rate.square() / self.weights)
            p.copy_(self.z[p].lerp(self.x[p], c["free"]))
        if c["average"]:
            torch._foreach_mul_(self.slow, c["average"])
            torch._foreach_add_(self.slow, self.params, alpha=1 - c["average"])

    @torch.no_grad()
    def between(self, step, steps):
        """What is not done in every step, after `step` of them."""
        if self.c["soap"] and (step % 10 == 0 or step in (1, 2, 4)):
            for g in self.groups:
                g.refresh()
        if self.c["outer"] and step % self.c["outer"] == 0:  # a Nesterov step of what so many steps have moved
            for slow, buffer, p in zip(self.slow, self.outer, self.params):
                moved = slow - p
                buffer.mul_(0.37).add_(moved)
                p.copy_(slow.sub_(moved.add(buffer, alpha=0.37), alpha=0.68))
        if self.c["lookahead"] and step % self.c["lookahead"] == 0:  # as in airbench (Jordan 2024)
            keep = 0.95 ** self.c["lookahead"] * (step / steps) ** 3
            for slow, p in zip(self.slow, self.params):
                slow.lerp_(p, 1 - keep)
                p.copy_(slow)

    @torch.no_grad()
    def finish(self):
        """The weights that are evaluated."""
        for p in self.params:
            if self.c["free"]:
                p.copy_(self.x[p])
        if self.c["average"]:
            for p, s in zip(self.params, self.slow):
                p.copy_(s)


def shape_of_rate(c, steps, device):
    at = torch.arange(steps).float()
    part = ((at + 1) / max(1, c["warmup"] * steps)).clamp(max=1)
    if c["fall"]:
        part = torch.minimum(part, (steps - at) / (c["fall"] * steps))
    return part.to(device)


def low(device):
    """bf16 on a GPU, f32 on a processor."""
    if device == "cuda":
        return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
    return torch.autocast("cpu", enabled=False)


def pick(table, at):
    """table[at] without a copy to the host."""
    return table.index_select(0, at.view(1)).squeeze(0)


class Step:
    """loss.backward() and a step of the rule, on a GPU as one graph."""

    def __init__(self, loss, rule, device):
        self.loss, self.rule, self.device, self.graph, self.rate = loss, rule, device, None, torch.zeros((), device=device)
        self.at, self.warm = torch.zeros((), dtype=torch.long, device=device), 0

    def once(self):
        for p in self.rule.params:
            p.grad = None
        with low(self.device):
            loss = self.loss(self.at)
        loss.backward()
        self.rule.step(self.rate)
        self.at += 1

    def run(self, rate):
        self.rate.copy_(rate)
        if self.device == "cpu" or self.warm < 3:
            self.warm += 1
            return self.once()
        if not self.graph:
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
                self.once()
        self.graph.replay()


def settle(device):
    if device == "cuda":
        torch.cuda.synchronize()


def train(make, c, device, most=None):
    """make(phase) -> (loss(at), steps); one phase or several. Returns steps, seconds of those after the first four."""
    phases = c.get("phases_of", [None])
    total, done, seconds, counted = sum(make(p)[1] for p in phases), 0, 0.0, 0
    with torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else low(device):
        rates = shape_of_rate(c, total, device)
        for phase in phases:
            loss, steps = make(phase)
            step, steps = Step(loss, c["rule"], device), min(steps, most or steps)
            for i in range(steps):
                if i == 4:
                    settle(device)
                    began = time.perf_counter()
                step.run(rates[done])
                done += 1
                c["rule"].between(done, total)
            settle(device)
            if steps > 4:
                seconds, counted = seconds + time.perf_counter() - began, counted + steps - 4
        c["rule"].finish()
        settle(device)
    return done, seconds * done / max(1, counted)


# ---- text

def rms(x):
    return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5).to(x.dtype)


class Gain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return rms(x) * self.weight.to(x.dtype)


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def attention(q, k, v):
    if RECENT:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    n = q.shape[2]
    hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf).softmax(-1) @ v


class Eighth(torch.autograd.Function):
    """x w^T of numbers of 8 bits: e4m3 forwards, e5m2 for the gradient, scales fixed (as modded-nanogpt's head)."""
    X, W, G = 100 / 448, 1.6 / 448, 0.75 / 448 / 64

    @staticmethod
    def forward(ctx, x, w, one):
        x8, w8 = ((t / scale).clamp(-448, 448).to(torch.float8_e4m3fn) for t, scale in ((x, Eighth.X), (w, Eighth.W)))
        ctx.save_for_backward(x8, w8, one)
        return torch._scaled_mm(x8, w8.t(), out_dtype=torch.bfloat16, scale_a=one * Eighth.X, scale_b=one * Eighth.W, use_fast_accum=True)

    @staticmethod
    def backward(ctx, dy):
        x8, w8, one = ctx.saved_tensors
        g8 = (dy / Eighth.G).to(torch.float8_e5m2)
        dx = torch._scaled_mm(g8, w8.t().contiguous().t(), out_dtype=torch.bfloat16, scale_a=one * Eighth.G, scale_b=one * Eighth.W)
        dw = torch._scaled_mm(x8.t().contiguous(), g8.t().contiguous().t(), out_dtype=torch.float32, scale_a=one * Eighth.X,
                              scale_b=one * Eighth.G).t()
        return dx, dw, None


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.norm1, self.norm2 = Gain(width), Gain(width)
        for layer in (self.q, self.k, self.v, self.up):
            nn.init.normal_(layer.weight, std=0.02)
        for layer in (self.out, self.down):
            nn.init.zeros_(layer.weight)

    def forward(self, x, cos, sin, value):
        batch, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (layer(h) for layer in (self.q, self.k, self.v))
        v = v + value if value is not None else v
        q, k, v = (u.view(batch, length, self.heads, -1) for u in (q, k, v))
        q, k = (turn(rms(u), cos[:, :length], sin[:, :length]).transpose(1, 2) for u in (q, k))
        seen = attention(q, k, v.transpose(1, 2))
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.relu(self.up(self.norm2(x))).square())


class Text(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, self.c = c["width"], c
        self.tokens, self.head = nn.Embedding(c["vocabulary"], width), nn.Linear(width, c["vocabulary"], bias=False)
        self.blocks, self.norm = nn.ModuleList(Block(width, c["heads"]) for _ in range(c["depth"])), Gain(width)
        self.values = nn.ModuleList(nn.Embedding(c["vocabulary"], width) for _ in range(c["tables"]))
        half = width // c["heads"] // 2
        angle = torch.arange(c["context"])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        kind = torch.bfloat16 if torch.cuda.is_available() and c["device"] == "cuda" else torch.float
        self.register_buffer("cos", angle.cos()[None, :, None].to(kind))
        self.register_buffer("sin", angle.sin()[None, :, None].to(kind))
        self.register_buffer("one", torch.ones(()))
        for table in (self.tokens, self.head, *self.values):
            nn.init.normal_(table.weight, std=0.02)
        self.bigrams = nn.Embedding(c["bigrams"] * c["vocabulary"], width) if c["bigrams"] else None
        if self.bigrams:
            nn.init.zeros_(self.bigrams.weight)

    def pairs(self, x):
        before = F.pad(x[:, :-1], (1, 0))
        return self.bigrams((36313 * x ^ 27191 * before) % self.bigrams.num_embeddings)

    def forward(self, x, *targets):
        h, c = self.tokens(x).to(self.cos.dtype), self.c
        pairs = self.pairs(x).to(h.dtype) if self.bigrams else None
        for i, block in enumerate(self.blocks):
            if pairs is not None and (i == 0 or c["bigrams_all"]):
                h = h + pairs
            value = self.values[i - c["depth"] + len(self.values)] if i >= c["depth"] - len(self.values) else None
            h = block(h, self.cos, self.sin, value(x).to(h.dtype) if value is not None else None)
        h = self.norm(h)
        flat = h.flatten(0, 1)
        scores = Eighth.apply(flat, self.head.weight, self.one) if c["fp8"] and self.training else self.head(flat)
        scores = c["cap"] * torch.tanh(scores.float() / c["cap"])
        return [F.cross_entropy(scores, y.flatten()) for y in targets]


def windows(tokens, starts, context):
    both = tokens[starts[:, None] + torch.arange(context + 2, device=tokens.device)].long()
    return both[:, :context], both[:, 1:context + 1], both[:, 2:]


TOKENS = {}


def text(data, c, seed, device, most):
    if data not in TOKENS:
        with open(data, "rb") as f:
            TOKENS[data] = torch.frombuffer(bytearray(f.read()), dtype=torch.int16).to(torch.int32).to(device)
    held = c["eval_windows"] * (c["context"] + 2)
    tokens, held_out = TOKENS[data][:-held], TOKENS[data][-held:]
    model = Text(c).to(device)
    c["rule"] = Rule(model, lambda n, p: "blocks" in n and p.dim() == 2, c)
    c["phases_of"] = [tuple(p.split(":")) for p in (c["phases"] or f"1:{c['context']}:{c['batch']}").split()]
    budget = c["steps"] * c["batch"] * c["context"]
    generator = torch.Generator().manual_seed(seed)
    fade = torch.linspace(1, 0, c["steps"] * 2 // 3 + 1).clamp(min=0).to(device)

    def make(phase):
        context, batch = int(phase[1]), int(phase[2])
        steps, way = round(float(phase[0]) * budget / context / batch), phase[3:]
        starts = torch.randint(len(tokens) - context - 2, (steps, batch), generator=generator).to(device)

        def loss(at):
            x, y, later = windows(tokens, pick(starts, at), context)
            if way:  # "join": four windows of 128 as one row; "cut": a row of 512 as four windows
                x, y, later = (t.reshape((-1, 512) if way[0] == "join" else (-1, 128)) for t in (x, y, later))
            if not c["ahead"]:
                return model(x, y)[0]
            near, far = model(x, y, later)
            return near + c["ahead"] * pick(fade, at.clamp(max=len(fade) - 1)) * far
        return loss, steps

    steps, seconds = train(make, c, device, most)
    model.eval()
    total, size = 0.0, 32
    with torch.no_grad(), low(device):
        for i in range(0, c["eval_windows"], size):
            starts = torch.arange(i, min(i + size, c["eval_windows"]), device=device) * (c["context"] + 2)
            total += model(*windows(held_out, starts, c["context"])[:2])[0].item() * len(starts)
    return total / c["eval_windows"], steps, seconds


# ---- pictures

def read_pictures(folder, part):
    with gzip.open(os.path.join(folder, f"{part}-images-idx3-ubyte.gz")) as f:
        x = torch.frombuffer(bytearray(f.read()[16:]), dtype=torch.uint8).view(-1, 1, 28, 28)
    with gzip.open(os.path.join(folder, f"{part}-labels-idx1-ubyte.gz")) as f:
        return x.float() / 255, torch.frombuffer(bytearray(f.read()[8:]), dtype=torch.uint8).long()


def cluttered(x, seed):
    """Turned by up to 60 degrees, 0.6 to 1.1 times as large, anywhere, with pieces of four others and noise: a harder set of the same digits."""
    g, n = torch.Generator().manual_seed(seed), len(x)
    turn_, size = (torch.rand(n, generator=g) - 0.5) * 2.1, 0.6 + 0.5 * torch.rand(n, generator=g)
    move = (torch.rand(n, 2, generator=g) - 0.5) * 2 * (1.1 - size[:, None])
    cos, sin = turn_.cos() / size, turn_.sin() / size
    theta = torch.stack((torch.stack((cos, -sin, move[:, 0]), 1), torch.stack((sin, cos, move[:, 1]), 1)), 1)
    y = torch.cat([F.grid_sample(a, F.affine_grid(t, a.shape, align_corners=False), align_corners=False)
                   for a, t in zip(x.split(5000), theta.split(5000))])
    for _ in range(4):
        other, at = torch.randperm(n, generator=g), torch.randint(21, (n, 4), generator=g)
        k = torch.arange(8)
        piece = x[other][torch.arange(n)[:, None, None], 0, (at[:, 0, None] + k)[:, :, None], (at[:, 1, None] + k)[:, None, :]]
        rows, columns = (at[:, 2, None] + k)[:, :, None], (at[:, 3, None] + k)[:, None, :]
        old = y[torch.arange(n)[:, None, None], 0, rows, columns]
        y[torch.arange(n)[:, None, None], 0, rows, columns] = torch.maximum(old, piece)
    return (y + 0.15 * torch.randn(y.shape, generator=g)).clamp(0, 1)


PICTURES = {}


def pictures_of(data, device):
    if data not in PICTURES:
        kind, folder = data.split(":", 1)
        (x, y), (a, b) = (read_pictures(folder, part) for part in ("train", "t10k"))
        if kind == "cluttered":
            x, a = cluttered(x, 1), cluttered(a, 2)
        mean, deviation = x.mean(), x.std()
        PICTURES[data] = tuple(t.to(device) for t in ((x - mean) / deviation, y, (a - mean) / deviation, b))
    return PICTURES[data]


class Net(nn.Module):
    def __init__(self, c, pictures):
        super().__init__()
        widths = [int(w) for w in c["widths"].split(",")]
        first = 8 if c["whiten"] else 32
        self.first = nn.Conv2d(1, first, 2)
        if c["whiten"]:  # Page 2018, Jordan 2024: the patches' eigenvectors, and their negatives
            patches = F.unfold(pictures, 2).transpose(1, 2).reshape(-1, 4)
            values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
            white = (vectors / torch.sqrt(values + 5e-4)).T.reshape(4, 1, 2, 2)
            self.first.weight.data[:] = torch.cat((white, -white))
            self.first.weight.requires_grad = False
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        for before, width in zip([first, *widths], widths):
            for inputs in (before, width):
                self.convs.append(nn.Conv2d(inputs, width, 3, padding="same", bias=False))
                self.norms.append(nn.BatchNorm2d(width))
                if c["dirac"]:
                    nn.init.dirac_(self.convs[-1].weight.data[:inputs])
        self.last = nn.Linear(widths[-1], 10)

    def forward(self, x):
        x = F.gelu(self.first(x))
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            x = conv(x) if i % 2 else F.max_pool2d(conv(x), 2)
            x = F.gelu(norm(x))
        return self.last(F.adaptive_max_pool2d(x, 1).flatten(1))


def moved(x, most):
    """Each picture by its own number of pixels."""
    n, side, padded = len(x), x.shape[-1], F.pad(x, (most,) * 4)
    at = torch.randint(2 * most + 1, (2, n), device=x.device)
    k = torch.arange(side, device=x.device)
    return padded[torch.arange(n, device=x.device)[:, None, None], 0, (at[0][:, None] + k)[:, :, None], (at[1][:, None] + k)[:, None, :]][:, None]


def mixed(x, y, c):
    """x, and two labels a picture with the weight of the first."""
    other = torch.rand(len(x), device=x.device).argsort()
    if c["mixup"]:
        draws = torch._standard_gamma(torch.full((2, len(x)), c["mixup"], device=x.device)) + 1e-9
        part = draws[0] / draws.sum(0)
        return part.view(-1, 1, 1, 1) * x + (1 - part.view(-1, 1, 1, 1)) * x[other], y, y[other], part
    side = x.shape[-1]
    long = (torch.rand(len(x), device=x.device).sqrt() * side).view(-1, 1)
    at, k = torch.rand(2, len(x), 1, device=x.device) * side, torch.arange(side, device=x.device)
    rows, columns = ((a - k).abs() < long / 2 for a in at)
    square = (rows[:, :, None] & columns[:, None, :])[:, None]
    return torch.where(square, x[other], x), y, y[other], 1 - square.float().mean((1, 2, 3))


def pictures(data, c, seed, device, most):
    x, y, a, b = pictures_of(data, device)
    x, y = x[:c["samples"]], y[:c["samples"]]
    model = Net(c, x[:5000]).to(device).to(memory_format=torch.channels_last)
    c["rule"] = Rule(model, lambda n, p: p.dim() == 4, c)
    per_epoch = len(x) // c["batch"]
    generator = torch.Generator().manual_seed(seed)
    order = torch.cat([torch.randperm(len(x), generator=generator)[:per_epoch * c["batch"]].view(per_epoch, -1)
                       for _ in range(c["steps"] // per_epoch + 1)]).to(device)
    c["phases_of"] = [(c["small"], 20), (1 - c["small"], 28)] if c["small"] else [(1, 28)]

    def make(phase):
        def loss(at):
            at = at + (0 if len(c["phases_of"]) == 1 or phase is c["phases_of"][0] else round(c["small"] * c["steps"]))
            part = pick(order, at)
            z, label = moved(x[part], c["moved"]), y[part]
            if phase[1] != 28:
                z = F.interpolate(z, size=(phase[1],) * 2, mode="bilinear", align_corners=False)
            if not c["mixup"] and not c["cutmix"]:
                return F.cross_entropy(model(z).float(), label, label_smoothing=c["smoothing"])
            z, label, second, part = mixed(z, label, c)
            scores = model(z).float()
            both = (F.cross_entropy(scores, t, label_smoothing=c["smoothing"], reduction="none") for t in (label, second))
            return (part * next(both) + (1 - part) * next(both)).mean()
        return loss, round(phase[0] * c["steps"])

    steps, seconds = train(make, c, device, most)
    model.eval()
    right = 0
    with torch.no_grad(), low(device):
        for i in range(0, len(a), 2000):
            padded = F.pad(a[i:i + 2000], (1,) * 4)
            views = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)][:c["views"]]
            scores = sum(model(padded[:, :, p:p + 28, q:q + 28]).float().log_softmax(1) for p, q in views)
            right += (scores.argmax(1) == b[i:i + 2000]).sum().item()
    return 100 * (1 - right / len(a)), steps, seconds


# ---- clicks

WORLDS = {}


def world(buckets, samples, device):
    """The law of src/data/clicks.c with other random numbers: 26 columns, 13 numbers, four pairs of columns whose effects multiply."""
    g = torch.Generator().manual_seed(int(buckets))
    sizes = [round(10 * (buckets / 10) ** (j / 25)) for j in range(26)]
    chances = [torch.log((torch.arange(n) + 2.0) / (torch.arange(n) + 1.0)) / math.log(n + 1) for n in sizes]

    def effect(j, spread):
        e = torch.randn(sizes[j], generator=g)
        e = e - (chances[j] * e).sum()
        return e * (spread / (chances[j] * e * e).sum()).sqrt()

    x = torch.stack([torch.multinomial(p, samples, True, generator=g) for p in chances], 1)
    numbers = (torch.rand(samples, 13, generator=g) - 0.5) * math.sqrt(12)
    weights = torch.randn(13, generator=g)
    logit = -1.32 + numbers @ (weights * (1.9 * 0.2 / weights.square().sum()).sqrt())
    for j in range(26):
        logit += effect(j, 1.9 * 0.65 / 26)[x[:, j]]
    for j in range(0, 8, 2):
        logit += effect(j, math.sqrt(1.9 * 0.15 / 4))[x[:, j]] * effect(j + 1, math.sqrt(1.9 * 0.15 / 4))[x[:, j + 1]]
    y = (torch.rand(samples, generator=g) < torch.sigmoid(logit)).float()
    return tuple(t.to(device) for t in (x + torch.arange(26) * buckets, numbers, y))


class Ranker(nn.Module):
    def __init__(self, c, rows):
        super().__init__()
        self.table, width = nn.Embedding(rows, 16), 26 * 16 + 13
        nn.init.normal_(self.table.weight, std=0.25)
        self.mlp = nn.ModuleList(nn.Linear(a, b) for a, b in ((width, 256), (256, 64), (64, 1)))
        rank = c["cross_rank"]
        self.narrow = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(c["cross"] if rank else 0))
        self.cross = nn.ModuleList(nn.Linear(rank or width, width) for _ in range(c["cross"]))
        for layer in (*self.mlp, *self.cross, *self.narrow):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x, numbers):
        x = first = torch.cat([self.table(x).flatten(1), numbers], 1)
        for i, layer in enumerate(self.cross):  # DCN-v2 (Wang et al. 2021)
            x = first * layer(self.narrow[i](x) if self.narrow else x) + x
        for layer in self.mlp[:-1]:
            x = F.relu(layer(x))
        return self.mlp[-1](x).squeeze(1)


def clicks(data, c, seed, device, most):
    count, held = c["steps"] * c["batch"] // c["epochs"], 200000
    if data not in WORLDS:
        WORLDS[data] = world(int(data), BASE["clicks"]["steps"] * c["batch"] + held, device)
    x, numbers, y = WORLDS[data]
    model = Ranker(c, 26 * int(data)).to(device)
    c["rule"] = Rule(model, lambda n, p: p.dim() == 2 and "table" not in n and "mlp.2" not in n, c)
    generator = torch.Generator().manual_seed(seed)
    order = torch.cat([torch.randperm(count, generator=generator) for _ in range(c["epochs"])])
    order = order[:c["steps"] * c["batch"]].view(c["steps"], -1).to(device) + held

    def make(_):
        def loss(at):
            part = pick(order, at)
            return F.binary_cross_entropy_with_logits(model(x[part], numbers[part]).float(), y[part])
        return loss, c["steps"]

    steps, seconds = train(make, c, device, most)
    with torch.no_grad(), low(device):
        scores = torch.cat([model(x[i:i + 20000], numbers[i:i + 20000]).float() for i in range(0, held, 20000)])
    places = scores.argsort().argsort().double() + 1
    ones = y[:held].double()
    auc = ((places * ones).sum() - ones.sum() * (ones.sum() + 1) / 2) / (ones.sum() * (held - ones.sum()))
    return 100 * (1 - auc.item()), steps, seconds


# ---- the table

TASKS = {"text": text, "pictures": pictures, "clicks": clicks}


def settings(task, lever, given):
    c = dict(BASE[task], device=given["device"])
    for key, value in {**{k: v for k, v in given.items() if k in c}, **LEVERS[task][lever]}.items():
        c[key] = type(c[key])(value) if not isinstance(c[key], int) else int(float(value))
    return c


def one(task, data, lever, seed, given, most=None):
    c = settings(task, lever, given)
    torch.manual_seed(seed)
    loss, steps, seconds = TASKS[task](data, c, seed, given["device"], most)
    row = {"task": task, "data": os.path.basename(data), "lever": lever, "seed": seed, "loss": round(loss, 5), "steps": steps,
           "seconds": round(seconds, 3), "ms": round(1e3 * seconds / steps, 3)}
    if most is None:
        print(json.dumps(row), flush=True)
    return row


def timed(task, data, levers, given):
    """Milliseconds a step of each, and of base before it."""
    for lever in levers:
        try:
            before, row = (one(task, data, name, 1, given, most=60) for name in ("base", lever))
            print(json.dumps({"task": task, "lever": lever, "ms": row["ms"], "base_ms": before["ms"],
                              "times": round(row["ms"] / before["ms"], 3)}), flush=True)
        except Exception as e:
            print(json.dumps({"task": task, "lever": lever, "failed": str(e)[:200]}), flush=True)


def main(task, *rest):
    only_time = task == "time"
    if only_time:
        task, *rest = rest
    data, *more = rest
    given = {"device": "cuda" if torch.cuda.is_available() else "cpu", "seeds": "1", "levers": ";".join(LEVERS[task]),
             **dict(a.split("=", 1) for a in more)}
    unknown = [k for k in given if k not in BASE[task] and k not in ("device", "seeds", "levers")]
    levers = [name.strip() for name in given["levers"].split(";") if name.strip()]
    unknown += [name for name in levers if name not in LEVERS[task]]
    if unknown:
        sys.exit(f"levers_tried does not know {unknown[0]}")
    if only_time:
        return timed(task, data.split(",")[0], levers, given)
    for seed in given["seeds"].split(","):
        for lever in levers:
            for one_set in data.split(","):
                try:
                    one(task, one_set, lever, int(seed), given)
                except Exception as e:
                    print(json.dumps({"task": task, "data": one_set, "lever": lever, "failed": str(e)[:300]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
