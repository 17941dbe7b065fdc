#!/usr/bin/env python3
"""Every model against PyTorch: losses over several steps and the gradient of the first.

Tolerances: the issue of a long sum in f32 is 1e-7 times a small factor a step; losses may drift
apart as the steps feed back, so 1e-4 relative over STEPS (20 steps for models with batch norm, whose
statistics amplify rounding). Gradients are held against PyTorch in f64: 1e-5 by norm a tensor. A
relu or a maximum whose inputs are equal up to rounding may fall on either side, which moves the
gradient by a whole element; among 300,000 activations in f32 that is common. So the network with
kinks runs in f64 on both sides, where numbers that near do not occur by chance, and is held to f64's
own tolerances, GRADIENT_F64 and LOSS_F64 below."""
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

from oracle import Case, main, write_idx

STEPS = 50 if float(os.environ.get("CHECK_SECONDS", "60")) >= 60 else 30  # past the warm-up; `./check --long` has 50


def normal(gen, *shape, std=0.05):
    return torch.randn(*shape, generator=gen) * std


# --- data: files for frugal, batches for PyTorch ----------------------------------------------

def text_data(batch, context, windows, separator=None):
    def data(folder, rng, settings):
        text = rng.integers(32, 127, windows * context + 1, dtype="uint8")
        text[::3] = text[0]  # something to learn
        if separator is not None:  # some documents of one token, some longer than a window
            text[rng.random(len(text)) < 0.1] = separator
            text[5 * context:7 * context] = text[0]
            settings["data"]["documents"] = separator
        text.tofile(f"{folder}/text.txt")
        settings["data"].update(kind="text", path=f"{folder}/text.txt", context=context)
        ids = torch.from_numpy(text.astype("int64"))

        def batches(step):
            first = [(step * batch + i) % windows * context for i in range(batch)]
            x = torch.stack([ids[a:a + context] for a in first])
            y = torch.stack([ids[a + 1:a + 1 + context] for a in first])
            return x, y
        return batches
    return data


def image_data(batch, count, shape, classes, common=None):
    """The last batch of an epoch is short unless batch divides count. Only the first `common` of the
    classes occur, but for one image of the last."""
    def data(folder, rng, settings):
        x = rng.integers(0, 256, (count, *shape), dtype="uint8")
        y = rng.integers(0, common or classes, count, dtype="uint8")
        y[0] = classes - 1
        write_idx(f"{folder}/x", x)
        write_idx(f"{folder}/y", y)
        settings["data"].update(kind="idx", path=f"{folder}/x", labels=f"{folder}/y")
        tx, ty = torch.from_numpy(x.reshape(count, *shape, *([1] if len(shape) == 2 else []))), torch.from_numpy(y.astype("int64"))
        per_epoch = -(-count // batch)

        def batches(step):
            a = step % per_epoch * batch
            return tx[a:a + batch], ty[a:a + batch]
        return batches
    return data


def line_data(batch, count, context, classes):
    def data(folder, rng, settings):
        lines = [[bytes(rng.integers(97, 123, rng.integers(1, context + 4), dtype="uint8")) for _ in range(count)] for _ in range(classes)]
        files = []
        for k, of in enumerate(lines):
            files.append(f"{folder}/class{k}.txt")
            with open(files[-1], "wb") as f:
                f.write(b"\n".join(of) + b"\n")
        settings["data"].update(kind="lines", files=files, context=context, held_out=0)
        flat = [(line, k) for k, of in enumerate(lines) for line in of]

        def batches(step):
            rows = [flat[(step * batch + i) % len(flat)] for i in range(batch)]
            x = torch.zeros(batch, context, dtype=torch.long)
            for i, (line, _) in enumerate(rows):
                cut = line[:context]
                x[i, :len(cut)] = torch.tensor([b + 1 for b in cut])
            lens = torch.tensor([min(len(line), context) for line, _ in rows])
            return x, lens, torch.tensor([k for _, k in rows])
        return batches
    return data


def click_data(batch, count, buckets, columns, numbers):
    def data(folder, rng, settings):
        cats, nums = rng.integers(0, buckets, (count, columns)), rng.random((count, numbers)).astype("float32").round(4)
        label = rng.integers(0, 2, count)
        with open(f"{folder}/clicks.csv", "w") as f:
            f.write(",".join([f"c{i}" for i in range(columns)] + [f"n{i}" for i in range(numbers)] + ["clicked"]) + "\n")
            for i in range(count):
                f.write(",".join([*map(str, cats[i]), *(f"{v:.4f}" for v in nums[i]), str(label[i])]) + "\n")
        settings["data"].update(kind="csv", path=f"{folder}/clicks.csv", label="clicked", buckets=buckets,
                                categorical=[f"c{i}" for i in range(columns)], numeric=[f"n{i}" for i in range(numbers)])
        ids = torch.from_numpy(cats) + torch.arange(columns) * buckets

        def batches(step):
            at = [(step * batch + i) % count for i in range(batch)]
            return ids[at], torch.from_numpy(nums)[at], torch.from_numpy(label)[at].float()
        return batches
    return data


# --- models in plain PyTorch --------------------------------------------------------------------

def dense(p, name, x):
    return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def norm(p, name, x, eps):
    if f"{name}.bias" in p:
        return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], eps)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * p[f"{name}.weight"]


def rope(x, base):
    """x [B,T,H,D]: pairs (i, i + D/2) turned by t * base^(-2i/D)."""
    t, half = x.shape[1], x.shape[3] // 2
    angle = torch.arange(t, dtype=x.dtype)[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)
    c, s = angle.cos()[None, :, None], angle.sin()[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


STEP = [0]  # of the batch that was asked for last


def counted(data):
    def make(folder, rng, settings):
        batches = data(folder, rng, settings)

        def one(step):
            STEP[0] = step
            return batches(step)
        return one
    return make


def mix(x):
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def kept(name, shape, rate, seed=1):
    """What dropout multiplies the weights [sample, head, query, key] of attention `name` by: Philox4x32-10 (Salmon et al. 2011) with base/rng.h's
    packing; the element of a weight is head 2^48 + query 2^24 + key."""
    with np.errstate(over="ignore"):
        hashed = np.uint64(14695981039346656037)
        for byte in name.encode():
            hashed = (hashed ^ np.uint64(byte)) * np.uint64(1099511628211)
        key = mix(mix(mix(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)) ^ hashed))
        sample, head, query, four = np.indices((*shape[:3], -(-shape[3] // 4)), dtype=np.uint64)
        block = (head << np.uint64(46)) + (query << np.uint64(22)) + four
        low = np.uint64(0xFFFFFFFF)
        c = [block & low, block >> np.uint64(32), sample, np.full_like(block, STEP[0])]
        k0, k1 = key & low, key >> np.uint64(32)
        for _ in range(10):
            p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
            c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
            k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    words = np.stack(c, -1).reshape(*shape[:3], -1)[..., :shape[3]]
    return torch.from_numpy((words * 2.0**-32 >= rate) / (1 - rate))


def attention(p, name, x, m, causal, lens=None, ids=None):
    B, T, C = x.shape
    H, G = m["heads"], m.get("kv_heads") or m["heads"]
    D = C // H
    q, k, v = dense(p, f"{name}.qkv", x).split([H * D, G * D, G * D], -1)
    if f"{name}.values.weight" in p:
        v = v + p[f"{name}.values.weight"][ids]
    q, k, v = q.view(B, T, H, D), k.view(B, T, G, D), v.view(B, T, G, D)
    if m.get("qk_norm"):
        q, k = [u * torch.rsqrt(u.pow(2).mean(-1, keepdim=True) + 1e-6) for u in (q, k)]
    if m.get("positions") == "rotary":
        q, k = (rope(u, m.get("rope_base", 10000)) for u in (q, k))
    k, v = k.repeat_interleave(H // G, 2), v.repeat_interleave(H // G, 2)
    w = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D)
    if causal:
        w = w.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
    if m.get("window"):
        w = w.masked_fill(torch.ones(T, T, dtype=torch.bool).tril(-m["window"]), -math.inf)
    if lens is not None:
        w = w.masked_fill((torch.arange(T)[None] >= lens[:, None])[:, None, None], -math.inf)
    w = w.softmax(-1)
    if m.get("attention_dropout"):
        w = w * kept(name, w.shape, m["attention_dropout"]).to(w.dtype)
    o = torch.einsum("bhts,bshd->bthd", w, v).reshape(B, T, H * D)
    if lens is not None:
        o = o * (torch.arange(T)[None] < lens[:, None])[..., None]
    return dense(p, f"{name}.proj", o)


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


ACTIVATIONS = {"gelu": gelu, "relu": F.relu, "relu2": lambda x: F.relu(x) ** 2, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
               "none": lambda x: x}


def mlp(p, name, x, m):
    h, kind = dense(p, f"{name}.up", x), m.get("activation", "gelu")
    if kind == "swiglu":
        a, b = h.chunk(2, -1)
        h = F.silu(a) * b
    else:
        h = ACTIVATIONS[kind](h)
    return dense(p, f"{name}.down", h)


def gpt_logits(p, ids, m):
    x = p["wte.weight"][ids]
    if "wpe.weight" in p:
        x = x + p["wpe.weight"][:ids.shape[1]]
    for i in range(m["depth"]):
        x = x + attention(p, f"h.{i}.attn", norm(p, f"h.{i}.ln_1", x, 1e-5), m, True, ids=ids)
        x = x + mlp(p, f"h.{i}.mlp", norm(p, f"h.{i}.ln_2", x, 1e-5), m)
    z = F.linear(norm(p, "ln_f", x, 1e-5), p.get("head.weight", p["wte.weight"]))
    return m["softcap"] * torch.tanh(z / m["softcap"]) if m.get("softcap") else z


def gpt_loss(m):
    def loss(p, batch):
        ids, targets = batch
        return F.cross_entropy(gpt_logits(p, ids, m).flatten(0, 1), targets.flatten(), label_smoothing=m.get("smoothing", 0.0))
    return loss


def documents_of(row, separator):
    """Where each document of a row of tokens begins and ends, its separator included."""
    ends = [i + 1 for i, t in enumerate(row.tolist()) if t == separator]
    if not ends or ends[-1] < len(row):
        ends.append(len(row))
    return list(zip([0] + ends, ends))


def documents_loss(m, separator):
    """Each document by itself, as if there were no other. The loss is the mean of what is predicted; its gradient has every
    token weigh 1 / all tokens of the batch, so that it does not depend on how the step is cut into micro-batches."""
    def loss(p, batch):
        total, count = 0, 0
        for ids, targets in zip(*batch):
            for a, b in documents_of(ids, separator):
                kept = targets[a:b].masked_fill(ids[a:b] == separator, -100)
                total = total + F.cross_entropy(gpt_logits(p, ids[None, a:b], m)[0], kept, ignore_index=-100, reduction="sum")
                count += int((kept >= 0).sum())
        scaled = total / batch[0].numel()
        return scaled + (total / count - scaled).detach()
    return loss


def block_weights(gen, m, layer):
    C, H = m["width"], m["heads"]
    G, bias = m.get("kv_heads") or H, m.get("bias", True)
    F_ = m["hidden"]
    up = 2 * F_ if m.get("activation") == "swiglu" else F_
    p = {}
    for i in range(m["depth"]):
        sizes = {"attn.qkv": ((H + 2 * G) * (C // H), C), "attn.proj": (C, C), "mlp.up": (up, C), "mlp.down": (C, F_)}
        for name, shape in sizes.items():
            p[f"h.{i}.{name}.weight"] = normal(gen, *shape)
            if bias:
                p[f"h.{i}.{name}.bias"] = normal(gen, shape[0])
        for n in ("ln_1", "ln_2"):
            p.update(norm_weights(gen, f"h.{i}.{n}", C, layer))
    return p


def norm_weights(gen, name, width, layer):
    p = {f"{name}.weight": 1 + normal(gen, width)}
    if layer:
        p[f"{name}.bias"] = normal(gen, width)
    return p


def gpt_weights(m, context, vocabulary=256):
    def weights(gen):
        layer = m.get("norm", "layer") == "layer"
        p = {"wte.weight": normal(gen, vocabulary, m["width"])}
        if m.get("positions", "learned") == "learned":
            p["wpe.weight"] = normal(gen, context, m["width"])
        p.update(block_weights(gen, m, layer))
        for i in range(m.get("value_tables", 0)):
            p[f"h.{m['depth'] - 1 - 2 * i}.attn.values.weight"] = normal(gen, vocabulary, m["width"] // m["heads"] * (m.get("kv_heads") or m["heads"]))
        p.update(norm_weights(gen, "ln_f", m["width"], layer))
        if not m.get("tied", True):
            p["head.weight"] = normal(gen, vocabulary, m["width"])
        return p
    return weights


def encoder_loss(m):
    def loss(p, batch):
        ids, lens, targets = batch
        x = p["wte.weight"][ids] + p.get("wpe.weight", 0)
        x = norm(p, "ln_emb", x, 1e-12)
        for i in range(m["depth"]):
            x = norm(p, f"h.{i}.ln_1", x + attention(p, f"h.{i}.attn", x, m, False, lens), 1e-12)
            x = norm(p, f"h.{i}.ln_2", x + mlp(p, f"h.{i}.mlp", x, m), 1e-12)
        z = dense(p, "classifier", torch.tanh(dense(p, "pooler", x[:, 0])))
        return F.cross_entropy(z, targets, label_smoothing=m.get("smoothing", 0.0))
    return loss


def encoder_weights(m, context, classes):
    def weights(gen):
        C, layer = m["width"], m.get("norm", "layer") == "layer"
        p = {"wte.weight": normal(gen, 257, C)}
        if m.get("positions", "learned") == "learned":
            p["wpe.weight"] = normal(gen, context, C)
        p.update(block_weights(gen, m, layer))
        p.update(norm_weights(gen, "ln_emb", C, layer))
        for name, rows in (("pooler", C), ("classifier", classes)):
            p[f"{name}.weight"], p[f"{name}.bias"] = normal(gen, rows, C), normal(gen, rows)
        return p
    return weights


def ranker_loss(p, batch):
    ids, numbers, targets = batch
    x = torch.cat([p["table.weight"][ids].flatten(1), numbers.to(p["table.weight"].dtype)], 1)
    x = F.relu(dense(p, "mlp.0", x))
    x = F.relu(dense(p, "mlp.1", x))
    return F.binary_cross_entropy_with_logits(dense(p, "mlp.2", x)[:, 0], targets.to(x.dtype))


def ranker_rows_loss(p, batch):
    """The same, the table's gradient of the batch's rows alone."""
    ids, numbers, targets = batch
    x = torch.cat([F.embedding(ids, p["table.weight"], sparse=True).flatten(1), numbers.to(p["table.weight"].dtype)], 1)
    x = F.relu(dense(p, "mlp.0", x))
    x = F.relu(dense(p, "mlp.1", x))
    return F.binary_cross_entropy_with_logits(dense(p, "mlp.2", x)[:, 0], targets.to(x.dtype))


def ranker_weights(gen, buckets=40):
    p = {"table.weight": normal(gen, 5 * buckets, 4, std=0.3)}
    for i, (o, n) in enumerate(((24, 5 * 4 + 3), (8, 24), (1, 8))):
        p[f"mlp.{i}.weight"], p[f"mlp.{i}.bias"] = normal(gen, o, n, std=0.3), normal(gen, o)
    return p


def pixels(x, dtype):
    return x.to(dtype) / 255


def classifier_loss(p, batch):
    x = pixels(batch[0], p["dense1.weight"].dtype).flatten(1)
    return F.cross_entropy(dense(p, "dense2", F.relu(dense(p, "dense1", x))), batch[1])


def classifier_weights(gen):
    return {"dense1.weight": normal(gen, 128, 784), "dense1.bias": normal(gen, 128),
            "dense2.weight": normal(gen, 10, 128), "dense2.bias": normal(gen, 10)}


def conv(p, name, x, stride=1, pad=1):
    return F.conv2d(x, p[f"{name}.weight"].permute(0, 3, 1, 2), p.get(f"{name}.bias"), stride, pad)


def batchnorm(p, name, x):
    return F.batch_norm(x, p[f"{name}.running_mean"], p[f"{name}.running_var"], p[f"{name}.weight"], p[f"{name}.bias"], True, 0.1, 1e-5)


def resnet_loss(act, pool):
    def loss(p, batch):
        x = pixels(batch[0], p["conv1.weight"].dtype).permute(0, 3, 1, 2)
        x = act(batchnorm(p, "batchnorm1", conv(p, "conv1", x)))
        for i, stride in enumerate((1, 2), 1):
            r = f"residual{i}"
            h = act(batchnorm(p, f"{r}.batchnorm1", conv(p, f"{r}.conv1", x, stride)))
            h = batchnorm(p, f"{r}.batchnorm2", conv(p, f"{r}.conv2", h))
            if f"{r}.shortcut.conv.weight" in p:
                x = batchnorm(p, f"{r}.shortcut.batchnorm", conv(p, f"{r}.shortcut.conv", x, stride, 0))
            x = act(h + x)
        return F.cross_entropy(dense(p, "dense1", pool(x, 2).mean((2, 3))), batch[1])
    return loss


def resnet_shapes():
    s = {"conv1": (16, 3, 3, 3), "residual1.conv1": (16, 3, 3, 16), "residual1.conv2": (16, 3, 3, 16),
         "residual2.conv1": (32, 3, 3, 16), "residual2.conv2": (32, 3, 3, 32), "residual2.shortcut.conv": (32, 1, 1, 16)}
    norms = {"batchnorm1": 16, "residual1.batchnorm1": 16, "residual1.batchnorm2": 16, "residual2.batchnorm1": 32,
             "residual2.batchnorm2": 32, "residual2.shortcut.batchnorm": 32}
    return s, norms


def resnet_weights(gen):
    convs, norms = resnet_shapes()
    p = {f"{k}.weight": normal(gen, *v, std=0.15) for k, v in convs.items()}
    for k, c in norms.items():
        p[f"{k}.weight"], p[f"{k}.bias"] = 1 + normal(gen, c), normal(gen, c)
        p[f"{k}.running_mean"], p[f"{k}.running_var"] = torch.zeros(c), torch.ones(c)
    p["dense1.weight"], p["dense1.bias"] = normal(gen, 10, 32), normal(gen, 10)
    return p


def resnet_layers(act, pool):
    return [{"conv": {"filters": 16, "bias": False}}, "batchnorm", act,
            *({"residual": {"activation": act, "layers": [
                {"conv": {"filters": f, "stride": s, "bias": False}}, "batchnorm", act,
                {"conv": {"filters": f, "bias": False}}, "batchnorm"]}} for f, s in ((16, 1), (32, 2))),
            {pool: 2}, "global_avgpool", {"dense": 10}]


def resnet_case(name, steps, act, torch_act, pool, torch_pool, **model):
    train = {"optimiser": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": True, "decay": 1e-4, "batch": 16}
    return Case(name, steps, {"model": {"kind": "layers", "layers": resnet_layers(act, pool), **model}, "data": {}, "train": train},
                image_data(16, 56, (16, 16, 3), 10), resnet_weights, resnet_loss(torch_act, torch_pool),
                sgd(0.01, 1e-4, 0.9, True), buffers=[f"{k}.running_{s}" for k in resnet_shapes()[1] for s in ("mean", "var")])


# --- optimisers -----------------------------------------------------------------------------------

def groups(params, decay):
    """Decay for matrices only, as frugal does."""
    trained = [v for v in params.values() if v.requires_grad]
    return [{"params": [v for v in trained if v.dim() > 1], "weight_decay": decay},
            {"params": [v for v in trained if v.dim() <= 1], "weight_decay": 0.0}]


def adamw(lr, decay=0.1, betas=(0.9, 0.95)):
    return lambda p: torch.optim.AdamW(groups(p, decay), lr=lr, betas=betas, eps=1e-8)


def adam(lr, decay=0.0):
    return lambda p: torch.optim.Adam(groups(p, decay), lr=lr, betas=(0.9, 0.999), eps=1e-8)


def orthogonal(x):
    """Newton and Schulz as in torch.optim.Muon (which Debian's PyTorch lacks), in the type of x."""
    wide = x if x.shape[0] <= x.shape[1] else x.T
    wide = wide / wide.norm()
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * gram + 2.0315 * gram @ gram) @ wide
    return wide if x.shape[0] <= x.shape[1] else wide.T


class Muon(torch.optim.AdamW):
    """torch.optim.Muon for the matrices in blocks, each of those packed into one by itself; AdamW for
    the rest, and its rate is Muon's too but for the factor `ratio`."""

    def __init__(self, params, m, ratio, decay, **adamw):
        self.hidden = {k: v for k, v in params.items() if k.startswith("h.") and v.dim() > 1}
        self.momentum = {k: torch.zeros_like(v) for k, v in self.hidden.items()}
        self.m, self.ratio, self.decay = m, ratio, decay
        super().__init__(groups({k: v for k, v in params.items() if k not in self.hidden}, decay), **adamw)

    def rows(self, name, p):
        head = self.m["width"] // self.m["heads"]
        if "qkv" in name:
            return [self.m["heads"] * head] + 2 * [self.m.get("kv_heads", self.m["heads"]) * head]
        gated = self.m.get("activation") == "swiglu" and "up" in name
        return 2 * [len(p) // 2] if gated else [len(p)]

    @torch.no_grad()
    def step(self):
        lr = self.param_groups[0]["lr"] * self.ratio
        for name, p in self.hidden.items():
            momentum = self.momentum[name].lerp_(p.grad, 0.05)
            p.mul_(1 - lr * self.decay)
            for part, x in zip(p.split(self.rows(name, p)), p.grad.lerp(momentum, 0.95).split(self.rows(name, p))):
                part.sub_(orthogonal(x), alpha=lr * math.sqrt(max(1, x.shape[0] / x.shape[1])))
        super().step()

    def zero_grad(self):
        super().zero_grad()
        for p in self.hidden.values():
            p.grad = None


def muon(m, lr, muon_lr):
    return lambda p: Muon(p, m, muon_lr / lr, 0.1, lr=lr, betas=(0.9, 0.95), eps=1e-8)


class RowwiseAdagrad(torch.optim.Optimizer):
    """One sum a row: of the mean of squares along it (Naumov et al. 2019, arXiv 1906.00091)."""
    def __init__(self, params, lr, eps):
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad.coalesce()
                sums = self.state[p].setdefault("sums", torch.zeros(len(p), dtype=p.dtype))
                rows, values = g.indices()[0], g.values()
                sums[rows] += values.pow(2).mean(1)
                p[rows] -= group["lr"] * values / (sums[rows].sqrt() + group["eps"])[:, None]


class Both:
    """Two optimisers as one."""
    def __init__(self, *all):
        self.all = all
        self.param_groups = [g for o in all for g in o.param_groups]

    def zero_grad(self):
        [o.zero_grad() for o in self.all]

    def step(self):
        [o.step() for o in self.all]


TABLES = {"adam": lambda p, lr: torch.optim.SparseAdam(p, lr=lr, betas=(0.9, 0.999), eps=1e-8),
          "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr), "adagrad": lambda p, lr: RowwiseAdagrad(p, lr, 1e-8)}


def by_rows(kind, lr):
    def optimiser(p):
        rest = {k: v for k, v in p.items() if k != "table.weight"}
        return Both(torch.optim.Adam(rest.values(), lr=lr, eps=1e-8), TABLES[kind]([p["table.weight"]], lr))
    return optimiser


def ranker_rows_case(kind, word, lr):
    """Tables of 2,000 rows each, of which a step reads at most 64."""
    return Case(f"ranker-rows-{kind}", STEPS, {"model": {"kind": "ranker", "table_width": 4, "mlp": [24, 8]}, "data": {},
                                            "train": {"optimiser": "adam", "lr": lr, "batch": 64, "tables": word}},
                click_data(64, 320, 2000, 5, 3), lambda gen: ranker_weights(gen, 2000), ranker_rows_loss, by_rows(kind, lr))


def sgd(lr, decay, momentum, nesterov):
    return lambda p: torch.optim.SGD(groups(p, decay), lr=lr, momentum=momentum, nesterov=nesterov)


ADAMW = {"optimiser": "adamw", "lr": 6e-4, "beta2": 0.95, "decay": 0.1, "warmup": 20, "clip": 1.0}
GPT = {"kind": "gpt", "depth": 3, "width": 64, "heads": 4, "hidden": 256}
MODERN = {"kind": "gpt", "depth": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96, "norm": "rms", "positions": "rotary",
          "activation": "swiglu", "qk_norm": True, "tied": False, "softcap": 15.0, "bias": False}
RELU2 = dict(MODERN, activation="relu2", kv_heads=4, hidden=128)
ENCODER = {"kind": "encoder", "depth": 2, "width": 48, "heads": 3, "hidden": 96}
ENCODER_MODERN = {"kind": "encoder", "depth": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96, "norm": "rms",
                  "positions": "rotary", "activation": "swiglu", "qk_norm": True, "bias": False}


def warmed(step):
    return 6e-4 * min(1.0, (step + 1) / 20)


def gpt_case(name, m):
    return Case(name, STEPS, {"model": m, "data": {}, "train": dict(ADAMW, batch=4)}, counted(text_data(4, 32, 40)), gpt_weights(m, 32),
                gpt_loss(m), adamw(6e-4), lr=warmed, clip=1.0)


def documents_case(name, m):
    return Case(name, 20, {"model": m, "data": {}, "train": dict(ADAMW, batch=4)}, text_data(4, 32, 40, separator=10), gpt_weights(m, 32),
                documents_loss(m, 10), adamw(6e-4), lr=warmed, clip=1.0)


def muon_case(name, m):
    return Case(name, STEPS, {"model": m, "data": {}, "train": dict(ADAMW, batch=4, optimiser="muon", muon_lr=0.01)}, text_data(4, 32, 40),
                gpt_weights(m, 32), gpt_loss(m), muon(m, 6e-4, 0.01), lr=warmed, clip=1.0)


def encoder_case(name, m):
    return Case(name, STEPS, {"model": m, "data": {}, "train": dict(ADAMW, batch=8)}, counted(line_data(8, 40, 12, 3)),
                encoder_weights(m, 12, 3), encoder_loss(m), adamw(6e-4), lr=warmed, clip=1.0)


# The longest sums of the ResNet are those of a batch norm's statistics, over 16 images of 16 x 16. A sum of n terms is off by n units of
# roundoff (2^-53) at most, and four batch norms lie between the loss and the first weight, each passed forward and back.
GRADIENT_F64 = 2 * 4 * 16 * 16 * 16 * 2.0**-53
# Rate, momentum and losses pass through f32 whatever the type of the weights: a roundoff of 2^-24 a step.
KINK_STEPS = 6
LOSS_F64 = KINK_STEPS * 2.0**-24


CASES = [
    (Case("classifier", STEPS, {"model": {"kind": "layers", "dtype": "f64", "layers": ["flatten", {"dense": {"units": 128, "activation": "relu"}}, {"dense": 10}]},
                             "data": {}, "train": {"optimiser": "adam", "lr": 1e-3, "batch": 32}},
          image_data(32, 200, (28, 28), 10), classifier_weights, classifier_loss, adam(1e-3)), STEPS * 2.0**-24, GRADIENT_F64, STEPS * 2.0**-24),
    (gpt_case("gpt2", GPT), 1e-4, 1e-5),
    (gpt_case("gpt-modern", MODERN), 1e-4, 1e-5),
    (gpt_case("gpt-relu2", RELU2), 1e-4, 1e-5),
    (gpt_case("gpt-values", dict(MODERN, depth=3, value_tables=2)), 1e-4, 1e-5),
    (gpt_case("gpt-window", dict(MODERN, window=5)), 1e-4, 1e-5),
    (gpt_case("gpt2-window-1", dict(GPT, window=1)), 1e-4, 1e-5),
    (gpt_case("gpt-attention-dropout", dict(MODERN, attention_dropout=0.2)), 1e-4, 1e-5),
    (documents_case("gpt2-documents", GPT), 1e-4, 1e-5),
    (documents_case("gpt-documents-window", dict(MODERN, window=7)), 1e-4, 1e-5),
    (muon_case("gpt-muon", MODERN), 1e-4, 1e-5),
    (muon_case("gpt2-muon", GPT), 1e-4, 1e-5),
    (encoder_case("encoder", ENCODER), 1e-4, 1e-5),
    (encoder_case("encoder-modern", ENCODER_MODERN), 1e-4, 1e-5),
    (encoder_case("encoder-attention-dropout", dict(ENCODER, attention_dropout=0.3)), 1e-4, 1e-5),
    (Case("ranker", STEPS, {"model": {"kind": "ranker", "table_width": 4, "mlp": [24, 8]}, "data": {},
                         "train": {"optimiser": "adam", "lr": 1e-3, "batch": 64}},
          click_data(64, 320, 40, 5, 3), ranker_weights, ranker_loss, adam(1e-3)), 1e-4, 1e-5),
    (ranker_rows_case("adam", "auto", 1e-3), 1e-4, 1e-5),
    (ranker_rows_case("sgd", "sgd", 1e-3), 1e-4, 1e-5),
    (ranker_rows_case("adagrad", "adagrad", 1e-3), 1e-4, 1e-5),
    (resnet_case("resnet", 20, "silu", F.silu, "avgpool", F.avg_pool2d), 1e-4, 1e-5),
    (resnet_case("resnet-relu", KINK_STEPS, "relu", F.relu, "maxpool", F.max_pool2d, dtype="f64"), LOSS_F64, GRADIENT_F64, LOSS_F64),
]

if __name__ == "__main__":
    main(CASES)
