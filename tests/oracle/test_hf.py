#!/usr/bin/env python3
"""Other people's models: tiny random ones of each family, made by transformers and saved by it, trained by frugal and by
PyTorch from the same batches. A model that is not what it should be, one sentence each.

Tolerances: as in test_models.py, 1e-4 relative over 20 steps of AdamW; the first loss, before anything feeds back, 1e-5.
Qwen3 is younger than the transformers that runs on this system's PyTorch: it is written out in qwen3.py."""
import json
import os
import shutil
import struct
import subprocess
import tempfile

from theirs import FIRST, STEPS, command, compare, logits_of, run_cases, same_logits  # before torch

import numpy as np
import torch
import torch.nn.functional as F

from oracle import FRUGAL, load, seed_of
from qwen3 import Qwen3, save_tensors

import transformers

BATCH, CONTEXT, LR, DECAY = 3, 9, 3e-3, 0.1
SMALL = dict(vocab_size=151, hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=40, initializer_range=0.2)


def of_transformers(model_class, config):
    def make(folder, gen, **how):
        torch.manual_seed(int(torch.randint(1 << 30, (1,), generator=gen)))
        model = model_class(config).float()
        with torch.no_grad():  # biases and norms begin at 0 and 1, where an error would not be seen
            for name, p in model.named_parameters():
                if p.dim() == 1:
                    p.add_(torch.randn(p.shape) * 0.2)
        model.save_pretrained(folder, safe_serialization=True, **how)
        model.train(False)  # no dropout: model.dropout decides
        return model, lambda x: model(x).logits
    return make


def qwen3(folder, gen, **_):
    model = Qwen3(SMALL, dict(head_dim=10, rope_theta=1e6, rms_norm_eps=1e-6), gen)
    model.save_pretrained(folder)
    return model, model


T = transformers
FAMILIES = {
    "gpt2": of_transformers(T.GPT2LMHeadModel, T.GPT2Config(vocab_size=151, n_positions=40, n_embd=24, n_layer=2, n_head=3,
                                                           initializer_range=0.2, layer_norm_epsilon=1e-4)),
    "gpt2 exact gelu": of_transformers(T.GPT2LMHeadModel, T.GPT2Config(vocab_size=151, n_positions=40, n_embd=24, n_layer=2, n_head=3, activation_function="gelu",
                                                           initializer_range=0.2, layer_norm_epsilon=1e-4)),
    "gpt2 relu, narrow": of_transformers(T.GPT2LMHeadModel, T.GPT2Config(vocab_size=77, n_positions=CONTEXT, n_embd=15, n_layer=2,
                                         n_head=5, n_inner=22, activation_function="relu", initializer_range=0.2)),
    "llama": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rms_norm_eps=1e-4, rope_theta=500.0)),
    "llama biases": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True)),
    "llama wide heads": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, head_dim=10)),
    "tied": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, tie_word_embeddings=True)),
    "llama linear": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rope_scaling={"rope_type": "linear", "factor": 2.5})),
    "llama dynamic": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rope_scaling={"rope_type": "dynamic", "factor": 3.0})),
    "llama 3.1": of_transformers(T.LlamaForCausalLM, T.LlamaConfig(**SMALL, head_dim=10, rope_scaling={  # all three kinds of frequency
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.8, "high_freq_factor": 4.0, "original_max_position_embeddings": 36})),
    "mistral": of_transformers(T.MistralForCausalLM, T.MistralConfig(**SMALL, sliding_window=None)),
    "mistral window": of_transformers(T.MistralForCausalLM, T.MistralConfig(**SMALL, sliding_window=5)),
    "qwen2": of_transformers(T.Qwen2ForCausalLM, T.Qwen2Config(**SMALL)),
    "qwen2 window": of_transformers(T.Qwen2ForCausalLM, T.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=0)),
    "qwen3": qwen3,
}


def settings(folder, path, **train):
    train.setdefault("out", "none")
    return {"data": {"kind": "tokens", "path": f"{folder}/tokens.bin", "context": CONTEXT, "held_out": 0},
            "model": {"kind": "hf", "path": path},
            "train": dict(steps=STEPS, batch=BATCH, shuffle=False, log_every=1, threads=1, optimiser="adamw", lr=LR,
                          decay=DECAY, **train)}


def frugal(folder, run, code=0):
    with open(f"{folder}/run.yaml", "w") as f:
        json.dump(run, f)
    done = subprocess.run([FRUGAL, "train", f"{folder}/run.yaml", "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == code, f"exit {done.returncode}: {done.stderr.strip()}"
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def write_tokens(folder, gen, vocabulary):
    ids = torch.randint(vocabulary, (STEPS * BATCH * CONTEXT + 1,), generator=gen)
    ids.numpy().astype("uint16").tofile(f"{folder}/tokens.bin")
    return ids


def torch_losses(model, logits, ids):
    """As frugal's AdamW: matrices decay, vectors do not."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}]
    opt, losses = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.999), eps=1e-8), []
    for step in range(STEPS):
        a = [(step * BATCH + i) * CONTEXT for i in range(BATCH)]
        x = torch.stack([ids[i:i + CONTEXT] for i in a])
        y = torch.stack([ids[i + 1:i + 1 + CONTEXT] for i in a])
        loss = F.cross_entropy(logits(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def check_use(folder, logits):
    """The likeliest tokens are PyTorch's, up to one that ends a text; tokens are bytes here."""
    x, path = [7, 3, 11], f"{folder}/model/generation_config.json"
    end = json.load(open(path)).get("eos_token_id") if os.path.exists(path) else None
    wrote = command("generate", f"{folder}/model", bytes(x).decode(), "data.kind=text", "--temperature", 0, "--count", 6)
    while len(x) < 9 and (token := int(logits(torch.tensor([x]))[0, -1].argmax())) != end:
        x.append(token)
    wrote = list(wrote.encode(errors="surrogateescape"))
    assert wrote == x + [10], f"generated {wrote}, PyTorch {x}"


def check_logits(name, path, logits, ids, *settings):
    """Of two sequences, by one pass over the whole and with a cache."""
    lines = [ids[i:i + CONTEXT].tolist() for i in (0, CONTEXT)]
    with torch.no_grad():
        theirs = logits(torch.tensor(lines)).flatten(0, 1)
    for how in ("next", "cached"):
        same_logits(f"{name}, {how}", logits_of(how, "model.kind=hf", f"model.path={path}", *settings, tokens=lines), theirs)


def held_out_loss(logits, ids, first):
    windows = range(first, len(ids) - CONTEXT, CONTEXT)
    x, y = [torch.stack([ids[i + k:i + k + CONTEXT] for i in windows]) for k in (0, 1)]
    with torch.no_grad():
        return F.cross_entropy(logits(x).flatten(0, 1), y.flatten()).item()


def check_export(folder, ids, *arguments):
    """What was trained, as a folder: transformers opens it, and gives the loss that frugal gives to both."""
    command("export", f"{folder}/out.safetensors", f"{folder}/exported")
    data = (f"data.path={folder}/tokens.bin", "data.kind=tokens", f"data.context={CONTEXT}", "data.held_out=0.5", "--json", *arguments)
    ours = json.loads(command("evaluate", f"{folder}/exported", *data))
    trained = json.loads(command("evaluate", f"{folder}/out.safetensors", *data))
    assert ours["loss"] == trained["loss"], "the exported folder gives another loss than the weights"
    kind = json.load(open(f"{folder}/exported/config.json"))["model_type"]
    if kind != "qwen3":
        theirs = T.AutoModelForCausalLM.from_pretrained(f"{folder}/exported").float().eval()
        windows = (len(ids) - 1) // CONTEXT
        loss = held_out_loss(lambda x: theirs(x).logits, ids, (windows - ours["samples"]) * CONTEXT)
        far = abs(ours["loss"] - loss) / loss
        print(f"  exported: loss {loss:.5f} within {far:.1e} (allowed {FIRST:.0e})", flush=True)
        assert far <= FIRST, "the exported model has another loss in transformers"
        check_logits("exported", f"{folder}/exported", lambda x: theirs(x).logits, ids)


def check_identity(name, make):
    """Imported, trained by nothing, and exported: the same bits, and in bf16 those of PyTorch's rounding."""
    gen = torch.Generator().manual_seed(seed_of(f"identity {name}"))
    with tempfile.TemporaryDirectory() as folder:
        make(f"{folder}/model", gen)
        write_tokens(folder, gen, json.load(open(f"{folder}/model/config.json"))["vocab_size"])
        run = settings(folder, f"{folder}/model", out=f"{folder}/out.safetensors")
        run["train"].update(steps=1, lr=1e-30, decay=0)  # too small a step to change a bit
        frugal(folder, run)
        before = load(f"{folder}/model/model.safetensors")
        command("export", f"{folder}/out.safetensors", f"{folder}/again")
        after = load(f"{folder}/again/model.safetensors")
        assert set(before) == set(after), set(before) ^ set(after)
        assert all(torch.equal(before[k], after[k]) for k in before), "other bits"
        was, now = [json.load(open(f"{folder}/{f}/config.json")) for f in ("model", "again")]
        key = "dtype" if "dtype" in was else "torch_dtype"  # of transformers 5 or before
        assert {**was, key: "float32"} == now, (was, now)
        command("export", f"{folder}/out.safetensors", f"{folder}/low", "--dtype", "bf16")
        low = from_bf16(f"{folder}/low/model.safetensors")
        assert all(torch.equal(low[k], before[k].bfloat16()) for k in before), "other bits in bf16"
        assert json.load(open(f"{folder}/low/config.json"))[key] == "bfloat16"
        print(f"  {len(after)} tensors are bit-exact", flush=True)


def from_bf16(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, body = json.loads(f.read(size)), f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            wide = np.frombuffer(body[a:b], np.uint16).astype(np.uint32) << 16
            out[name] = torch.from_numpy(wide.view(np.float32).reshape(t["shape"]).copy()).bfloat16()
    return out


def check_ours(name, **model):
    """A gpt of ours that is built like one of theirs."""
    gen = torch.Generator().manual_seed(seed_of(name))
    with tempfile.TemporaryDirectory() as folder:
        ids = write_tokens(folder, gen, 151)
        run = settings(folder, "", out=f"{folder}/out.safetensors")
        run["model"] = dict(kind="gpt", depth=2, width=24, heads=3, **model)
        frugal(folder, run)
        check_export(folder, ids)


def check_family(name, make):
    gen = torch.Generator().manual_seed(seed_of(name))
    with tempfile.TemporaryDirectory() as folder:
        model, logits = make(f"{folder}/model", gen)
        vocabulary = json.load(open(f"{folder}/model/config.json"))["vocab_size"]
        ids = write_tokens(folder, gen, vocabulary)
        check_use(folder, logits)
        check_logits("imported", f"{folder}/model", logits, ids)
        events, _ = frugal(folder, settings(folder, f"{folder}/model", out=f"{folder}/out.safetensors"))
        compare([e["loss"] for e in events if e["event"] == "step"], torch_losses(model, logits, ids))
        check_export(folder, ids)
        if name == "qwen3":  # which this transformers cannot open
            with torch.no_grad():
                for key, value in load(f"{folder}/exported/model.safetensors").items():
                    model.p[key].copy_(value)
            check_logits("exported", f"{folder}/exported", logits, ids)


def check_files():
    """One file or many, bf16, and only the model's body: the same first loss as of the whole in f32, or of its rounded weights."""
    gen = torch.Generator().manual_seed(seed_of("files"))
    with tempfile.TemporaryDirectory() as folder:
        model, logits = FAMILIES["llama"](f"{folder}/whole", gen)
        ids = write_tokens(folder, gen, 151)
        model.save_pretrained(f"{folder}/many", safe_serialization=True, max_shard_size="20KB")
        shards = [n for n in os.listdir(f"{folder}/many") if n.startswith("model-")]
        assert len(shards) > 2, shards
        first = lambda path: [e["loss"] for e in frugal(folder, settings(folder, path))[0] if e["event"] == "step"]
        whole = first(f"{folder}/whole")
        assert first(f"{folder}/many") == whole, "shards give other numbers"
        shutil.copytree(f"{folder}/whole", f"{folder}/low")
        save_tensors(f"{folder}/low/model.safetensors", model.state_dict(), "BF16")
        with torch.no_grad():
            for p in model.parameters():  # as save_tensors cuts them
                p.copy_(torch.from_numpy((p.numpy().view(np.uint32) >> 16 << 16).view(np.float32)))
        compare(first(f"{folder}/low"), torch_losses(model, logits, ids))
        gpt, logits = FAMILIES["gpt2"](f"{folder}/gpt", gen)
        before = first(f"{folder}/gpt")
        bare = {k.removeprefix("transformer."): v for k, v in load(f"{folder}/gpt/model.safetensors").items()}
        save_tensors(f"{folder}/gpt/model.safetensors", bare)
        assert first(f"{folder}/gpt") == before, "names without the prefix give other numbers"
        print(f"  {len(shards)} shards, bf16 and names without a prefix", flush=True)


def refused(folder, run, *words, code=2):
    _, text = frugal(folder, run, code)
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    assert len(text.strip().splitlines()) == 1, text


def check_refusals():
    gen = torch.Generator().manual_seed(seed_of("refusals"))
    with tempfile.TemporaryDirectory() as folder:
        model, _ = FAMILIES["llama"](f"{folder}/good", gen)
        write_tokens(folder, gen, 151)
        good, bad = f"{folder}/good", f"{folder}/bad"
        tensors = {k: v for k, v in model.state_dict().items()}

        def broken(change=None, config=None, many=False):
            shutil.rmtree(bad, ignore_errors=True)
            if many:
                model.save_pretrained(bad, safe_serialization=True, max_shard_size="20KB")
            else:
                shutil.copytree(good, bad)
            if config:
                was = json.load(open(f"{bad}/config.json"))
                json.dump({**was, **config}, open(f"{bad}/config.json", "w"))
            if change:
                change()
            return settings(folder, bad)

        def weights(**changed):
            kept = {**tensors, **changed}
            save_tensors(f"{bad}/model.safetensors", {k: v for k, v in kept.items() if v is not None})

        def index(change):
            path = f"{bad}/model.safetensors.index.json"
            was = json.load(open(path))
            change(was["weight_map"])
            json.dump(was, open(path, "w"))

        def pickle():
            os.remove(f"{bad}/model.safetensors")
            open(f"{bad}/pytorch_model.bin", "w").close()

        def truncate():
            name = sorted(n for n in os.listdir(bad) if n.startswith("model-"))[1]
            os.truncate(f"{bad}/{name}", os.path.getsize(f"{bad}/{name}") - 5)
        norm = "model.norm.weight"
        shard = lambda n: f"model-0000{n}-of-0000"
        refused(folder, broken(pickle), "pytorch_model.bin, a pickle", "architectures[0]).from_pretrained(p).save_pretrained(p)")
        refused(folder, broken(lambda: os.remove(f"{bad}/model.safetensors")), "has neither model.safetensors nor")
        refused(folder, broken(lambda: os.remove(f"{bad}/config.json")), "cannot find", "config.json", code=3)
        refused(folder, broken(config={"model_type": "mamba"}), 'model_type "mamba" is not supported', "gpt2, llama")
        refused(folder, broken(config={"new_trick": 3}), 'the key "new_trick" is not supported in a model of type llama')
        refused(folder, broken(config={"hidden_act": "gelu"}), '"hidden_act" is supported only as silu')
        refused(folder, broken(config={"rope_scaling": {"rope_type": "yarn", "factor": 8.0}}), '"rope_scaling" of type yarn is not supported')
        refused(folder, broken(config={"hidden_size": "wide"}), '"hidden_size" should be a whole number')
        refused(folder, broken(config={"quantization_config": {"bits": 4}}), '"quantization_config" is supported only as null')
        refused(folder, broken(lambda: weights(**{norm: None})), f"lacks the tensor {norm}")
        refused(folder, broken(lambda: weights(**{norm: tensors[norm][:-1]})), f"the shape of tensor {norm} is [23]", "[24]")
        refused(folder, broken(lambda: weights(extra=tensors[norm])), "has the tensor extra, which the model of its config.json lacks")
        refused(folder, broken(truncate, many=True), shard(2), "truncated")
        refused(folder, broken(lambda: index(lambda m: m.pop(norm)), many=True), f"has the tensor {norm}, which", "does not list")
        refused(folder, broken(lambda: index(lambda m: m.update({norm: m["model.embed_tokens.weight"]})), many=True), f"says that tensor {norm} is in", "and it is not")
        refused(folder, broken(lambda: index(lambda m: m.update({norm: "../x.safetensors"})), many=True), f"tensor {norm} is not in a file of this folder")
        refused(folder, {**settings(folder, good), "model": {"kind": "hf"}}, "needs model.path")
        long = settings(folder, good)
        long["data"]["context"] = 41
        refused(folder, long, "data.context=41 is more than the 40 positions")
        wide = settings(folder, good)
        wide["data"]["vocabulary"] = 152
        refused(folder, wide, "tokens up to 151, and the vocabulary of", "151")
        print("  each mistake one sentence", flush=True)


def main():
    cases = {name: lambda name=name, make=make: check_family(name, make) for name, make in FAMILIES.items()}
    cases |= {f"identity {name}": lambda name=name, make=make: check_identity(name, make) for name, make in FAMILIES.items()}
    cases |= {"ours as gpt2": lambda: check_ours("ours as gpt2"),
              "ours as gpt2, untied": lambda: check_ours("ours as gpt2, untied", tied=False, activation="relu", hidden=40),
              "ours as llama": lambda: check_ours("ours as llama", norm="rms", positions="rotary", activation="swiglu", bias=False,
                                                  kv_heads=1, tied=False, rope_base=500),
              "files": check_files, "refusals": check_refusals}
    run_cases(cases)


main()
