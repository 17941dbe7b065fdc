#!/usr/bin/env python3
"""Variants of models, layers and optimisers that test_models.py has no case of, drawn at random, against PyTorch in f64.

    gpt         every activation, norm, position, head and bias, with label smoothing
    encoder     likewise
    conv        kernels of 1 to 7, strides of 1 to 3, every padding, odd and oblong images, both kinds of pooling
    optimiser   adam and adamw with decay, sgd with and without momentum, clipping

test_variants.py [GROUP...]: CHECK_SECONDS (5 by default) each, and at least 4 cases. Every case prints its seed and what was drawn.

Both sides compute in f64 (model.dtype=f64), where a relu's argument is hardly ever so near 0 that rounding moves it across: networks with
kinks are held to what smooth ones are. Gradients of the first step: a sum of n terms is off by at most n units of roundoff, 2^-53, of the
sum of its terms' sizes. The longest is over the rows or the pixels of a batch, or the vocabulary: at most TERMS. A gradient has passed
OPS sums, forward and back, for each layer. Losses: rates and what is reported pass through f32, a roundoff of 2^-24 a step."""
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import oracle
from test_models import ACTIVATIONS, adam, adamw, conv, dense, encoder_loss, encoder_weights, gpt_loss, gpt_weights, image_data, line_data, \
    normal, pixels, sgd, text_data

U = 2.0**-53
OPS = 2 * 8  # qkv, scores, their softmax, values, proj, up, down and the norm of a block; as many on the way back
STEPS = 4
LOSS = STEPS * 2.0**-24


def one_of(rng, *values):
    return values[int(rng.integers(len(values)))]


# --- transformers -----------------------------------------------------------------------------------------

def blocks(rng, kind):
    heads = one_of(rng, 1, 2, 4, 6)
    m = {"kind": kind, "depth": int(rng.integers(1, 4)), "heads": heads, "width": heads * one_of(rng, 4, 8, 16), "hidden": int(rng.integers(5, 70)),
         "norm": one_of(rng, "layer", "rms"), "positions": one_of(rng, "learned", "rotary"),
         "activation": one_of(rng, "gelu", "relu", "silu", "relu2", "swiglu"), "qk_norm": one_of(rng, True, False), "bias": one_of(rng, True, False)}
    m["kv_heads"] = one_of(rng, *(n for n in range(1, heads + 1) if heads % n == 0))
    if m["positions"] == "rotary":
        m["rope_base"] = one_of(rng, 100.0, 10000.0)
    if rng.random() < 0.7:
        m["smoothing"] = round(float(rng.uniform(0.01, 0.4)), 3)
    return m


def layers_of(m):
    return OPS * (m["depth"] + 1)


def draw_gpt(rng):
    m = blocks(rng, "gpt")
    m.update(tied=one_of(rng, True, False), softcap=one_of(rng, 0.0, 15.0))
    batch, context = int(rng.integers(1, 6)), int(rng.integers(2, 40))
    terms = max(batch * context, 256, 4 * m["width"], 2 * m["hidden"])
    return m, text_data(batch, context, 40), gpt_weights(m, context), gpt_loss(m), batch, layers_of(m) * terms


def draw_encoder(rng):
    m, batch, context, classes = blocks(rng, "encoder"), int(rng.integers(1, 9)), int(rng.integers(3, 20)), int(rng.integers(2, 5))
    terms = max(batch * context, 4 * m["width"], 2 * m["hidden"])
    return m, line_data(batch, 40, context, classes), encoder_weights(m, context, classes), encoder_loss(m), batch, layers_of(m) * terms


# --- convolutions -----------------------------------------------------------------------------------------

def windows(size, kernel, stride, pad):
    return (size + 2 * pad - kernel) // stride + 1


class Convolutions:
    """One to three of them, each with an activation and perhaps a pooling layer; then flatten or a mean, and one dense layer."""

    def __init__(self, rng):
        self.shape = tuple(int(rng.integers(5, 24)) for _ in range(2))
        self.channels, self.classes, self.terms = one_of(rng, 1, 3), int(rng.integers(2, 6)), 1
        self.list, self.steps, size, channels = [], [], self.shape, self.channels
        for i in range(1, 1 + int(rng.integers(1, 4))):
            kernel, stride, act = int(rng.integers(1, 8)), int(rng.integers(1, 4)), one_of(rng, *ACTIVATIONS)
            padding = one_of(rng, *(["same"] if kernel % 2 else []), "valid", int(rng.integers(0, kernel)))
            pad = {"same": kernel // 2, "valid": 0}.get(padding, padding)
            after = tuple(windows(n, kernel, stride, pad) for n in size)
            if min(n + 2 * pad - kernel for n in size) < 0:
                continue
            filters, bias = int(rng.integers(1, 12)), one_of(rng, True, False)
            self.list.append({"conv": {"filters": filters, "kernel": kernel, "stride": stride, "padding": padding, "activation": act, "bias": bias}})
            self.steps.append((len(self.steps) + 1, filters, kernel, stride, pad, act, bias, channels))
            size, channels = after, filters
            self.pool(rng, size)
            size = self.size_after(size)
        self.flat = one_of(rng, True, False)
        self.list += ["flatten" if self.flat else "global_avgpool", {"dense": self.classes}]
        self.inputs = size[0] * size[1] * channels if self.flat else channels

    def pool(self, rng, size):
        self.window = None
        if min(size) >= 2 and rng.random() < 0.5:
            kind, window = one_of(rng, "maxpool", "avgpool"), int(rng.integers(2, min(size, default=2) + 1))
            stride = one_of(rng, None, 1, 2, 3)
            self.window = (kind, window, stride or window)
            self.list.append({kind: {"size": window, **({"stride": stride} if stride else {})}})
            self.steps.append(self.window)

    def size_after(self, size):
        return tuple(windows(n, self.window[1], self.window[2], 0) for n in size) if self.window else size

    def weights(self, gen):
        p, number = {}, 0
        for step in self.steps:
            if isinstance(step[0], int):
                number += 1
                _, filters, kernel, _, _, _, bias, channels = step
                p[f"conv{number}.weight"] = normal(gen, filters, kernel, kernel, channels, std=0.3)
                if bias:
                    p[f"conv{number}.bias"] = normal(gen, filters)
        p["dense1.weight"], p["dense1.bias"] = normal(gen, self.classes, self.inputs, std=0.3), normal(gen, self.classes)
        return p

    def loss(self, p, batch):
        x, number = pixels(batch[0], p["dense1.weight"].dtype).permute(0, 3, 1, 2), 0
        for step in self.steps:
            if isinstance(step[0], int):
                number += 1
                _, _, _, stride, pad, act, _, _ = step
                x = ACTIVATIONS[act](conv(p, f"conv{number}", x, stride, pad))
            else:
                x = (F.max_pool2d if step[0] == "maxpool" else F.avg_pool2d)(x, step[1], step[2])
        x = x.permute(0, 2, 3, 1).flatten(1) if self.flat else x.mean((2, 3))
        return F.cross_entropy(dense(p, "dense1", x), batch[1])


def draw_conv(rng):
    net, batch = Convolutions(rng), int(rng.integers(1, 7))
    shape = (*net.shape, net.channels) if net.channels > 1 else net.shape
    terms = max(batch * net.shape[0] * net.shape[1], 7 * 7 * 12, net.inputs)
    return ({"kind": "layers", "layers": net.list}, image_data(batch, 20, shape, net.classes), net.weights, net.loss, batch,
            2 * (len(net.steps) + 2) * terms)


# --- optimisers -------------------------------------------------------------------------------------------

SIDE, UNITS, CLASSES = 5, 16, 3


def small_loss(p, batch):
    x = pixels(batch[0], p["dense1.weight"].dtype).flatten(1)
    return F.cross_entropy(dense(p, "dense2", torch.tanh(dense(p, "dense1", x))), batch[1])


def small_weights(gen):
    return {"dense1.weight": normal(gen, UNITS, SIDE * SIDE, std=0.3), "dense1.bias": normal(gen, UNITS),
            "dense2.weight": normal(gen, CLASSES, UNITS, std=0.3), "dense2.bias": normal(gen, CLASSES)}


def draw_optimiser(rng):
    batch, kind, lr = int(rng.integers(1, 9)), one_of(rng, "adam", "adamw", "sgd"), round(float(10 ** rng.uniform(-4, -1)), 5)
    train = {"optimiser": kind, "lr": lr, "decay": one_of(rng, 0.0, 0.01, 0.1, 0.5), "clip": one_of(rng, 0.0, 0.1, 1.0)}
    if kind == "sgd":
        train.update(momentum=one_of(rng, 0.0, 0.5, 0.9))
        train.update(nesterov=bool(train["momentum"]) and one_of(rng, True, False))
        how = sgd(lr, train["decay"], train["momentum"], train["nesterov"])
    else:
        how = {"adam": adam(lr, train["decay"]), "adamw": adamw(lr, train["decay"], (0.9, 0.999))}[kind]
    layers = ["flatten", {"dense": {"units": UNITS, "activation": "tanh"}}, {"dense": CLASSES}]
    model = {"kind": "layers", "layers": layers}
    return model, image_data(batch, 20, (SIDE, SIDE), CLASSES), small_weights, small_loss, batch, 2 * 4 * SIDE * SIDE, train, how


GROUPS = {"gpt": draw_gpt, "encoder": draw_encoder, "conv": draw_conv, "optimiser": draw_optimiser}


def case_of(rng, group):
    model, data, weights, loss, batch, terms, *train = GROUPS[group](rng)
    settings, how = train or ({"optimiser": "adamw", "lr": 6e-4, "beta2": 0.95, "decay": 0.1}, adamw(6e-4))
    settings = {"model": dict(model, dtype="f64"), "data": {}, "train": dict(settings, batch=batch)}
    print(f"  {model if group != 'optimiser' else settings['train']}", flush=True)
    return oracle.Case(group, STEPS, settings, data, weights, loss, how, clip=settings["train"].get("clip", 0)), LOSS, terms * U


def main(names):
    torch.set_num_threads(2)
    failed = tried = 0
    for group in names or GROUPS:
        begin, done = time.monotonic(), 0
        while done < 4 or time.monotonic() - begin < float(os.environ.get("CHECK_SECONDS") or 5):
            seed = oracle.seed_of(group)
            try:
                oracle.check(*case_of(np.random.default_rng(seed), group), seed=seed)
            except (AssertionError, SystemExit) as e:
                print(f"  FAILED: {e}", flush=True)
                failed += 1
            done += 1
            if "CHECK_SEED" in os.environ:
                break
        tried += done
    print(f"{tried} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
