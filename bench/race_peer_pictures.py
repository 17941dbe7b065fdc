"""PyTorch's side of `bench/run race fashion`: the form of the fast CIFAR-10 runs (Jordan 2024, airbench) on Fashion-MNIST, in our own words.

    race_peer_pictures.py DIR TARGET gpu|cpu eager|compiled|bf16 SEED [KEY=VALUE...]

A frozen first convolution that whitens 2 x 2 patches, three stages of two convolutions that begin as the identity, batch norm with a
bias alone, gelu; SGD with Nesterov momentum, a rate of its own for the biases, a triangle of a schedule, smoothed labels, pictures moved
by up to two pixels and mirrored in every second epoch, a moving average of the weights that is looked ahead to, evaluation over six
views; half precision and channels last. All pictures lie on the device. On a processor, where that network is too large for the target: three
convolutions with batch norm and pooling as in bench/race/fashion_cpu.yaml, AdamW over one cycle, smoothed labels, pictures as they are; bf16: eager, under autocast.
KEY=VALUE: epochs, batch, lr, widths=64,256,256, views=1|2|6, average=0|1, moved, mirrored=0|1. Prints one JSON object: reached, epochs, accuracy, and
seconds from the start of the process; `steps_s` are those of the steps alone.
"""
import gzip
import json
import os
import sys
import time

from race_peer import age

import torch
import torch.nn as nn
import torch.nn.functional as F

KINDS = {"gpu": {"epochs": 7, "batch": 1024, "lr": 11.5, "widths": "64,256,256", "views": 6, "average": 1, "moved": 2, "mirrored": 1},
         "cpu": {"epochs": 3, "batch": 64, "lr": 0.006, "widths": "16,32,64", "views": 1, "average": 0, "moved": 0, "mirrored": 0}}
MOMENTUM, DECAY, BIAS, SMOOTHING = 0.85, 0.0153, 64.0, 0.2


def read(folder, part):
    with gzip.open(os.path.join(folder, f"{part}-images-idx3-ubyte.gz")) as f:
        x = torch.frombuffer(bytearray(f.read()[16:]), dtype=torch.uint8).view(-1, 1, 28, 28)
    with gzip.open(os.path.join(folder, f"{part}-labels-idx1-ubyte.gz")) as f:
        return x, torch.frombuffer(bytearray(f.read()[8:]), dtype=torch.uint8).long()


class Norm(nn.BatchNorm2d):
    def __init__(self, width):
        super().__init__(width, eps=1e-12, momentum=0.4)
        self.weight.requires_grad = False


class Stage(nn.Module):
    def __init__(self, before, width):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(b, width, 3, padding="same", bias=False) for b in (before, width))
        self.norm1, self.norm2 = Norm(width), Norm(width)
        for conv in (self.conv1, self.conv2):
            nn.init.dirac_(conv.weight[:conv.in_channels].data)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Model(nn.Module):
    def __init__(self, widths, pictures):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 2)
        self.first.weight.requires_grad = False
        patches = F.unfold(pictures, 2).transpose(1, 2).reshape(-1, 4)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        white = (vectors / torch.sqrt(values + 5e-4)).T.reshape(4, 1, 2, 2)
        self.first.weight.data[:] = torch.cat((white, -white))
        self.stages = nn.Sequential(*(Stage(a, b) for a, b in zip([8, *widths], widths)))
        self.last = nn.Linear(widths[-1], 10, bias=False)

    def forward(self, x):
        x = self.stages(F.gelu(self.first(x)))
        return self.last(F.max_pool2d(x, 3).flatten(1)) / 9


def small(widths):
    layers = []
    for i, (before, width) in enumerate(zip([1, *widths], widths)):
        pool = [nn.MaxPool2d(2)] if i < 2 else []
        layers += [nn.Conv2d(before, width, 3, padding=0 if i == 1 else "same", bias=False), *pool, nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(36 * widths[-1], 10))


def batches(x, y, size, epoch, mirrored, most):
    """An epoch in another order: pictures moved by at most so much, half of them mirrored, the other half in the next epoch."""
    padded = F.pad(x, (most,) * 4)
    if mirrored is not None:
        padded = torch.where((mirrored ^ (epoch % 2 == 1)).view(-1, 1, 1, 1), padded.flip(-1), padded)
    move, side = torch.randint(2 * most + 1, (2, len(x)), device=x.device), x.shape[-1]
    moved = torch.empty_like(x)
    for dy in range(2 * most + 1):
        for dx in range(2 * most + 1):
            at = (move[0] == dy) & (move[1] == dx)
            moved[at] = padded[at][:, :, dy:dy + side, dx:dx + side]
    order = torch.randperm(len(x), device=x.device)
    for i in range(len(x) // size):
        part = order[i * size:(i + 1) * size]
        yield moved[part], y[part]


def views(x, count):
    yield x
    if count > 1:
        yield x.flip(-1)
    if count > 2:
        padded = F.pad(x, (1,) * 4, "reflect")
        for part in (padded[:, :, :-2, :-2], padded[:, :, 2:, 2:]):
            yield part
            yield part.flip(-1)


def measure(run, x, y, count):
    right = 0
    with torch.no_grad():
        for i in range(0, len(x), 2000):
            scores = sum(run(v.contiguous(memory_format=torch.channels_last)) * (1 if n < 2 else 0.5)
                         for n, v in enumerate(views(x[i:i + 2000], count)))
            right += (scores.argmax(1) == y[i:i + 2000]).sum().item()
    return right / len(x)


def by_sgd(model, lr, size):
    """Nesterov, biases at their own rate, a triangle; the loss is a sum."""
    scale = 1024 * (1 + 1 / (1 - MOMENTUM))
    rate, decay = lr / scale, DECAY * size / scale
    biases = [p for n, p in model.named_parameters() if p.requires_grad and "norm" in n]
    others = [p for n, p in model.named_parameters() if p.requires_grad and "norm" not in n]
    groups = [{"params": ps, "lr": r, "full": r, "weight_decay": decay / r} for ps, r in ((biases, rate * BIAS), (others, rate))]
    return (torch.optim.SGD(groups, momentum=MOMENTUM, nesterov=True, foreach=True),
            lambda part: 0.2 + 0.8 * part / 0.23 if part < 0.23 else 1 - 0.93 * (part - 0.23) / 0.77,
            nn.CrossEntropyLoss(label_smoothing=SMOOTHING, reduction="sum"))


def by_adam(model, lr):
    groups = [{"params": model.parameters(), "lr": lr, "full": lr}]
    return (torch.optim.AdamW(groups, weight_decay=0.01, foreach=True),
            lambda part: max(0.04, part / 0.3) if part < 0.3 else (1 - part) / 0.7, nn.CrossEntropyLoss(label_smoothing=0.1))


def main(folder, target, kind, mode, seed, *more):
    given = {**KINDS[kind], **dict(a.split("=") for a in more)}
    epochs, size, lr = int(given["epochs"]), int(given["batch"]), float(given["lr"])
    device, low = ("cuda", torch.half) if kind == "gpu" else ("cpu", torch.float)
    torch.manual_seed(int(seed))
    torch.backends.cudnn.benchmark = True
    train, test = ([t.to(device) for t in read(folder, part)] for part in ("train", "t10k"))
    mean, deviation = (train[0].float().mean() / 255, train[0].float().std() / 255)
    for part in (train, test):
        part[0] = ((part[0].to(torch.float) / 255 - mean) / deviation).to(low).contiguous(memory_format=torch.channels_last)
    widths = [int(w) for w in given["widths"].split(",")]
    model = (Model(widths, train[0][:5000].float()) if kind == "gpu" else small(widths)).to(device)
    model = model.to(memory_format=torch.channels_last)
    for module in model.modules():
        if not isinstance(module, Norm):
            module.to(low) if not list(module.children()) else None
    run = torch.compile(model) if mode == "compiled" else model
    steps = epochs * (len(train[0]) // size)
    optimiser, shape, loss = by_sgd(model, lr, size) if kind == "gpu" else by_adam(model, lr)
    average = [v.clone() for v in model.state_dict().values() if v.is_floating_point()] if int(given["average"]) else []
    mirrored = torch.rand(len(train[0]), device=device) < 0.5 if int(given["mirrored"]) else None
    step, began = 0, time.perf_counter()
    for epoch in range(epochs):
        model.train()
        for x, y in batches(*train, size, epoch, mirrored, int(given["moved"])):
            part = step / steps
            for group in optimiser.param_groups:
                group["lr"] = group["full"] * shape(part)
            with torch.autocast(device, torch.bfloat16, enabled=mode == "bf16"):
                scores = run(x)
            loss(scores.to(low), y).backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            step += 1
            if average and step % 5 == 0:
                now = [v for v in model.state_dict().values() if v.is_floating_point()]
                keep = 0.95 ** 5 * (step / steps) ** 3
                with torch.no_grad():
                    torch._foreach_lerp_(average, now, 1 - keep)
                    torch._foreach_copy_(now, average)
    if average:
        with torch.no_grad():
            torch._foreach_copy_([v for v in model.state_dict().values() if v.is_floating_point()], average)
    if device == "cuda":
        torch.cuda.synchronize()
    steps_s = time.perf_counter() - began
    model.eval()
    accuracy = measure(run, *test, int(given["views"]))
    print(json.dumps({"reached": accuracy >= float(target), "epochs": epochs, "steps": step, "accuracy": accuracy, "steps_s": steps_s,
                      "seconds": age()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
