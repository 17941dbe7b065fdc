"""The peer's side of `bench/run cpu`: PyTorch on as many threads as OMP_NUM_THREADS says.

    cpu_peer.py ROW VARIANT        warms up, prints {"ready": ...}; then for each line on standard
                                   input measures one round and prints {"value": ...}
    cpu_peer.py start IMAGES LABELS    one step from two IDX files (.gz or not), then {"value": ...}

VARIANTS in cpu.py says what is tried. "compile" compiles model and loss together, "autocast" runs both
with products in bf16; every optimiser is the fused one. Except for the classifier, which gathers its batch as any loop over tensors does, the
batch is one and the same, already in memory: the peer pays for no data loading.
"""
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

THREADS = int(os.environ["OMP_NUM_THREADS"])
WARM_STEPS = 2  # beyond what compiling needs: buffers of the optimiser, the allocator


def say(**fields):
    print(json.dumps(fields), flush=True)


def compiled(function, variant):
    """`function`, compiled as the variant's name says; dynamic=False: one graph for each shape."""
    if "max-autotune" in variant:
        return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
    if "compile" in variant:
        return torch.compile(function, dynamic=False)
    return function


def stepper(loss, optimiser):
    def step(*batch):
        optimiser.zero_grad(set_to_none=True)
        loss(*batch).backward()
        optimiser.step()
    return step


def timed_steps(step, batch, count):
    """A function that runs `count` steps and returns the mean seconds of one."""
    for _ in range(WARM_STEPS):
        step(*batch)

    def measure():
        begin = time.perf_counter()
        for _ in range(count):
            step(*batch)
        return (time.perf_counter() - begin) / count
    return measure


def classifier():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp(variant, epochs):
    samples, batch = 10000, 32
    x, y = torch.rand(samples, 784), torch.randint(0, 10, (samples,))
    model = classifier()
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    loss = compiled(lambda x, y: F.cross_entropy(model(x), y), variant)
    step = stepper(loss, optimiser)

    def epoch():
        order = torch.randperm(samples)
        for i in range(0, samples, batch):
            j = order[i:i + batch]
            step(x[j], y[j])

    def measure():
        begin = time.perf_counter()
        for _ in range(epochs):
            epoch()
        return time.perf_counter() - begin
    epoch()
    return measure


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for u in self.qkv(self.ln_1(x)).split(c, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, depth=6, width=384, heads=6, vocabulary=256, context=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.ln = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return self.ln(x) @ self.wte.weight.t()


def gpt(variant, steps):
    model = GPT()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    text = torch.randint(0, 256, (8, 257))

    def cross_entropy(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in variant):
            return F.cross_entropy(model(x).view(-1, 256), y.view(-1))
    loss = compiled(cross_entropy, variant)
    batch = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    measure = timed_steps(stepper(loss, optimiser), batch, steps)
    return lambda: 8 * 256 / measure()


def conv(channels, filters, kernel=3, stride=1):
    return nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False)


class Residual(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv_1, self.norm_1 = conv(channels, filters, 3, stride), nn.BatchNorm2d(filters)
        self.conv_2, self.norm_2 = conv(filters, filters), nn.BatchNorm2d(filters)
        same = channels == filters and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(
            conv(channels, filters, 1, stride), nn.BatchNorm2d(filters))

    def forward(self, x):
        y = self.norm_2(self.conv_2(F.relu(self.norm_1(self.conv_1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet(variant, steps):
    layers = [conv(3, 16), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if filters > 16 and block == 0 else 1
            layers.append(Residual(channels, filters, stride))
            channels = filters
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    x, y = torch.rand(128, 3, 32, 32), torch.randint(0, 10, (128,))
    if "channels-last" in variant:
        model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    loss = compiled(lambda x, y: F.cross_entropy(model(x), y), variant)
    measure = timed_steps(stepper(loss, optimiser), (x, y), steps)
    return lambda: 1e3 * measure()


class Ranker(nn.Module):
    """26 columns of 10,000 categories each: a table a column, or the same rows in one table."""
    columns, categories, width, numbers = 26, 10000, 16, 13

    def __init__(self, one_table):
        super().__init__()
        tables = 1 if one_table else self.columns
        rows = self.columns * self.categories // tables
        self.tables = nn.ModuleList(nn.Embedding(rows, self.width) for _ in range(tables))
        self.mlp = nn.Sequential(nn.Linear(self.columns * self.width + self.numbers, 256), nn.ReLU(),
                                 nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, dense):
        if len(self.tables) == 1:
            rows = [self.tables[0](x).flatten(1)]
        else:
            rows = [table(x[:, i]) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(rows + [dense], 1)).squeeze(1)


def ranker(variant, steps):
    model = Ranker("one table" in variant)
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    x = torch.randint(0, Ranker.categories, (2048, Ranker.columns))
    if "one table" in variant:
        x += torch.arange(Ranker.columns) * Ranker.categories
    batch = x, torch.rand(2048, Ranker.numbers), torch.rand(2048).round()
    loss = compiled(lambda x, d, y: F.binary_cross_entropy_with_logits(model(x, d), y), variant)
    measure = timed_steps(stepper(loss, optimiser), batch, steps)
    return lambda: 1e3 * measure()


def start(images, labels):
    """The first step of the classifier, from the files of 10,000 images and their labels."""
    def read(path, head):
        if path.endswith(".gz"):
            import gzip
            data = gzip.open(path).read()
        else:
            data = open(path, "rb").read()
        return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=head)
    x, y = read(images, 16).view(-1, 784), read(labels, 8)
    model = classifier()
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    step = stepper(lambda x, y: F.cross_entropy(model(x), y), optimiser)
    j = torch.randperm(len(x))[:32]
    step(x[j].float() / 255, y[j].long())
    say(value=1)


ROWS = {"mlp": mlp, "gpt": gpt, "gpt-bf16": gpt, "resnet": resnet, "ranker": ranker}


def main(row, *arguments):
    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    if row == "start":
        return start(*arguments)
    variant, count = arguments
    measure = ROWS[row](variant, int(count))
    say(ready=torch.__version__, threads=torch.get_num_threads())
    for _ in sys.stdin:
        say(value=measure())


if __name__ == "__main__":  # bench/ranks.py takes its model
    main(*sys.argv[1:])
