#!/usr/bin/env python3
"""Adapters against Hugging Face's PEFT: small random models of each decoder family, first adapters drawn by frugal and
handed to PEFT as a folder, 20 steps of AdamW from the same batches; the folder that frugal writes, opened by PEFT; merged
weights; resuming; a folder of PEFT's as a beginning.

Tolerances: those of test_hf.py, 1e-5 relative for the first loss and 1e-4 over 20 steps; logits, merged or not, 1e-4."""
import contextlib
import json
import os
import shutil
import struct
import tempfile

from theirs import FIRST, LATER, LOGITS, STEPS, command, compare, logits_of, need, run_cases, same_logits  # before torch

need("peft")

import torch
import torch.nn.functional as F

from oracle import load, seed_of

import transformers as T
import peft

BATCH, CONTEXT, LR, DECAY = 3, 9, 3e-3, 0.1
SMALL = dict(vocab_size=151, hidden_size=24, intermediate_size=44, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=40, initializer_range=0.2)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FAMILIES = {
    "gpt2": (T.GPT2LMHeadModel, T.GPT2Config(vocab_size=151, n_positions=40, n_embd=24, n_layer=2, n_head=3, initializer_range=0.2),
             ["c_attn", "c_proj", "c_fc"]),
    "llama": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rms_norm_eps=1e-4, rope_theta=500.0), ALL),
    "llama, two": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, attention_bias=True), ["q_proj", "v_proj"]),
    "tied, keys and up": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, tie_word_embeddings=True), ["k_proj", "up_proj", "o_proj"]),
    "mistral": (T.MistralForCausalLM, T.MistralConfig(**SMALL, sliding_window=5), ALL),
    "qwen2": (T.Qwen2ForCausalLM, T.Qwen2Config(**SMALL), ALL),
}


def settings(folder, lora, **train):
    return {"data": {"kind": "tokens", "path": f"{folder}/tokens.bin", "context": CONTEXT, "held_out": 0},
            "model": {"kind": "hf", "path": f"{folder}/model"},
            "train": {**dict(steps=STEPS, batch=BATCH, shuffle=False, log_every=1, threads=1, optimiser="adamw", lr=LR,
                             decay=DECAY, out=f"{folder}/out.safetensors"), **({"lora": lora} if lora else {}), **train}}


def frugal(folder, run):
    with open(f"{folder}/run.yaml", "w") as f:
        json.dump(run, f)
    text = command("train", f"{folder}/run.yaml", "--json")
    return [e["loss"] for e in map(json.loads, text.splitlines()) if e["event"] == "step"]


def batch(ids, step):
    a = [(step * BATCH + i) * CONTEXT for i in range(BATCH)]
    return [torch.stack([ids[i + k:i + k + CONTEXT] for i in a]) for k in (0, 1)]


def torch_losses(model, ids):
    opt, losses = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, betas=(0.9, 0.999), eps=1e-8,
                                    weight_decay=DECAY), []
    for step in range(STEPS):
        x, y = batch(ids, step)
        loss = F.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def make(folder, model_class, config, gen, dtype=torch.float32):
    torch.manual_seed(int(torch.randint(1 << 30, (1,), generator=gen)))
    model = model_class(config).to(dtype)
    model.save_pretrained(f"{folder}/model", safe_serialization=True)
    ids = torch.randint(config.vocab_size, (STEPS * BATCH * CONTEXT + 1,), generator=gen)
    ids.numpy().astype("uint16").tofile(f"{folder}/tokens.bin")
    return ids


def base(folder):
    return T.AutoModelForCausalLM.from_pretrained(f"{folder}/model").float()


def ours(path, x):
    """What frugal computes with a folder, every logit."""
    return logits_of("next", "model.kind=hf", f"model.path={path}", tokens=x.tolist()).view(*x.shape, -1)


def check_first(folder, targets, rank):
    """A is uniform within 1/sqrt(in), B is 0, and no two parts are alike."""
    a = load(f"{folder}/first/adapter_model.safetensors")
    assert len(a) == 2 * len({k.rsplit(".lora_", 1)[0] for k in a}) and a
    for name, t in a.items():
        if ".lora_B." in name:
            assert t.abs().max() < 1e-29 and t.shape[1] == rank, name  # after a step that is too small to see
            continue
        bound = t.shape[1] ** -0.5
        assert t.shape[0] == rank and 0.8 * bound < t.abs().max() <= bound and abs(t.mean()) < bound / 3, name
    firsts = [t.flatten()[0].item() for n, t in a.items() if ".lora_A." in n]
    assert len(set(firsts)) == len(firsts), "two adapters begin alike"
    assert {k.split(".lora_")[0].rsplit(".", 1)[1] for k in a} == set(targets), "other matrices than were asked for"


def check_family(name):
    model_class, config, targets = FAMILIES[name]
    gen = torch.Generator().manual_seed(seed_of(name))
    with tempfile.TemporaryDirectory() as folder:
        ids = make(folder, model_class, config, gen)
        lora = dict(rank=4, alpha=10, on=targets)
        frugal(folder, settings(folder, lora, steps=1, lr=1e-30, decay=0))
        command("export", f"{folder}/out.safetensors", f"{folder}/first")
        check_first(folder, targets, 4)
        losses = frugal(folder, settings(folder, lora))
        model = peft.PeftModel.from_pretrained(base(folder), f"{folder}/first", is_trainable=True)
        assert sorted(model.peft_config["default"].target_modules) and model.peft_config["default"].lora_alpha == 10
        model.train(False)  # no dropout
        wide = peft.PeftModel.from_pretrained(base(folder), f"{folder}/first", is_trainable=True).double()
        wide.train(False)
        compare(losses, torch_losses(model, ids), torch_losses(wide, ids))
        command("export", f"{folder}/out.safetensors", f"{folder}/adapters")
        command("export", f"{folder}/out.safetensors", f"{folder}/merged", "--merge")
        x = batch(ids, 0)[0]
        with torch.no_grad():
            theirs = model(input_ids=x).logits
            opened = peft.PeftModel.from_pretrained(base(folder), f"{folder}/adapters").eval()
            wanted = opened(input_ids=x).logits
            chance = (wide(input_ids=x).logits - theirs).abs().max().item()
            same_logits("trained by both", wanted, theirs, max(1e-3, 4 * chance))  # 20 steps of feedback; `chance`: theirs.compare
            same_logits("merged, in transformers", T.AutoModelForCausalLM.from_pretrained(f"{folder}/merged").eval()(input_ids=x).logits, wanted)
            same_logits("merged", ours(f"{folder}/merged", x), wanted)
            same_logits("adapters", ours(f"{folder}/adapters", x), wanted)
        data = (f"data.path={folder}/tokens.bin", "data.kind=tokens", f"data.context={CONTEXT}", "data.held_out=0.5", "--json")
        losses = [json.loads(command("evaluate", f"{folder}/{m}", *data))["loss"] for m in ("out.safetensors", "adapters", "merged")]
        far = max(abs(l - losses[0]) / losses[0] for l in losses)
        assert losses[0] == losses[1] and far <= FIRST, f"evaluated as {losses}"
        write = [command("generate", f"{folder}/{m}", "\x07\x03", "data.kind=text", "--temperature", 0, "--count", 4) for m in ("adapters", "merged")]
        assert write[0] == write[1], "generated otherwise once merged"


def check_theirs():
    """Adapters that PEFT wrote, as the beginning of a run, and with another rank refused."""
    gen = torch.Generator().manual_seed(seed_of("theirs"))
    with tempfile.TemporaryDirectory() as folder:
        ids = make(folder, *FAMILIES["llama"][:2], gen)
        made = peft.get_peft_model(base(folder), peft.LoraConfig(r=3, lora_alpha=7, target_modules=["q_proj", "down_proj"],
                                                                 init_lora_weights=False))
        made.save_pretrained(f"{folder}/theirs")
        made.train(False)
        run = settings(folder, None, init=f"{folder}/theirs")
        compare(frugal(folder, run), torch_losses(made, ids))
        config = json.load(open(f"{folder}/theirs/adapter_config.json"))
        config["base_model_name_or_path"] = f"{folder}/model"
        json.dump(config, open(f"{folder}/theirs/adapter_config.json", "w"))
        x = batch(ids, 0)[0]
        command("export", f"{folder}/theirs", f"{folder}/merged", "--merge")
        with torch.no_grad():
            again = peft.PeftModel.from_pretrained(base(folder), f"{folder}/theirs").eval()
            same_logits("theirs", ours(f"{folder}/theirs", x), again(input_ids=x).logits)
            same_logits("theirs merged", ours(f"{folder}/merged", x), again(input_ids=x).logits)
        refusals = {"train.lora.rank=5": "the adapters of", "use_dora": 'the key "use_dora" is not supported',
                    "peft_type": '"peft_type" is supported only as LORA'}
        command("train", f"{folder}/run.yaml", "train.lora.rank=5", code=2)
        text = command("train", f"{folder}/run.yaml", "train.lora.rank=4", f"train.init={folder}/merged", code=2)
        assert "is no folder of adapters" in text, text
        for key, value in (("use_dora", True), ("peft_type", "IA3"), ("bias", "all"), ("r", 0), ("target_modules", "q.*"), ("modules_to_save", ["lm_head"]), ("init_lora_weights", "pissa")):
            json.dump({**config, key: value}, open(f"{folder}/theirs/adapter_config.json", "w"))
            text = command("train", f"{folder}/run.yaml", code=2)
            assert key in text and len(text.strip().splitlines()) == 1, text
        print(f"  {len(refusals)} mistakes, one sentence each", flush=True)


def types_of(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
    return {t["dtype"] for n, t in header.items() if n != "__metadata__"}


def check_rounded(folder):
    """Each merged weight in bf16 is W + scale B A rounded once: within half a unit in its last of 8 bits, 2^-8 relative,
    and 1e-4 of that for PyTorch's own sums in f32."""
    command("export", f"{folder}/out.safetensors", f"{folder}/adapters")
    command("export", f"{folder}/out.safetensors", f"{folder}/merged", "--merge", "--dtype", "bf16")
    assert types_of(f"{folder}/merged/model.safetensors") == {"BF16"}
    exact = peft.PeftModel.from_pretrained(base(folder), f"{folder}/adapters").merge_and_unload().state_dict()
    low = T.AutoModelForCausalLM.from_pretrained(f"{folder}/merged", torch_dtype=torch.bfloat16).state_dict()
    far = max(((low[k].float() - v).abs() / v.abs().clamp_min(1e-20)).max().item() for k, v in exact.items())
    moved = max((exact[k] - v).abs().max().item() for k, v in base(folder).state_dict().items())
    print(f"  merged weights in bf16 within {far:.5f} (allowed {2 ** -8 * 1.0001:.5f}), moved by up to {moved:.2g}", flush=True)
    assert set(low) == set(exact) and moved > 1e-3 and far <= 2 ** -8 * 1.0001


def check_rounded_logits(folder, x, picked=24):
    """The logits of weights that were merged and rounded to bf16, against those of the exact ones. Rounding moves each weight w by a number
    that is uniform within half of its spacing, u(w) = 2^(floor(log2 |w|) - 8), and independent of the others, so that to first order a logit moves by a
    sum with variance sum of (dlogit/dw u)^2 / 3: six standard deviations, which one in 5e8 exceeds, and 1e-4 for sums in f32."""
    exact = peft.PeftModel.from_pretrained(base(folder), f"{folder}/adapters").merge_and_unload()
    weights, worst = [p.requires_grad_() for p in exact.parameters()], 0.0
    logits, low = exact(input_ids=x).logits, ours(f"{folder}/merged", x)
    for place in torch.randperm(logits.numel())[:picked].tolist():
        slopes = torch.autograd.grad(logits.flatten()[place], weights, retain_graph=True, allow_unused=True)
        spacing = lambda w: 2.0 ** (torch.floor(torch.log2(w.detach().abs().clamp_min(1e-30))) - 8)
        spread = sum(((g * spacing(w)) ** 2).sum().item() / 3 for g, w in zip(slopes, weights) if g is not None) ** 0.5
        worst = max(worst, abs(low.flatten()[place] - logits.flatten()[place]).item() / (6 * spread + LOGITS))
    print(f"  merged in bf16: {picked} logits within {worst:.2f} of what rounding allows", flush=True)
    assert 0.01 < worst <= 1, "rounding moves logits by more than it can, or not at all"


@contextlib.contextmanager
def precision(word):
    """In place of the one that oracle.py sets for all."""
    before = os.environ.get("FRUGAL_TRAIN_PRECISION", "")
    os.environ["FRUGAL_TRAIN_PRECISION"] = word
    yield
    os.environ["FRUGAL_TRAIN_PRECISION"] = before


def check_bf16():
    """Frozen weights in bf16. PyTorch computes with the same rounded weights in f32. Ours rounds activations, by up to 2^-8 each,
    about 40 times in a row in this network; they do not all point one way: a loss within an eighth of their sum."""
    gen = torch.Generator().manual_seed(seed_of("bf16"))
    with tempfile.TemporaryDirectory() as folder, precision("bf16"):
        ids = make(folder, *FAMILIES["llama"][:2], gen, torch.bfloat16)
        lora = dict(rank=4, alpha=8)
        frugal(folder, settings(folder, lora, steps=1, lr=1e-30, decay=0))
        command("export", f"{folder}/out.safetensors", f"{folder}/first")
        losses = frugal(folder, settings(folder, lora))
        model = peft.PeftModel.from_pretrained(base(folder), f"{folder}/first", is_trainable=True)
        model.train(False)
        theirs = torch_losses(model, ids)
        far = max(abs(a - b) / b for a, b in zip(losses, theirs))
        print(f"  20 losses in bf16 within {far:.1e} (allowed {40 * 2**-8 / 8:.1e})", flush=True)
        assert far <= 40 * 2 ** -8 / 8 and losses[-1] != losses[0]
        check_rounded(folder)
        check_rounded_logits(folder, batch(ids, 0)[0])
        text = command("show", f"{folder}/run.yaml", "--text")
        frozen = [l for l in text.splitlines() if " frozen" in l and "param" in l]
        assert frozen and all("bf16[" in l for l in frozen if "," in l.split("[")[1].split("]")[0]), frozen[:3]
        assert not [l for l in text.splitlines() if "qkv.weight.grad" in l], "a frozen matrix has a gradient"


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]  # bitsandbytes


def nf4(w):
    """The matrix as 4 bits have it, without the second quantisation of the blocks' sizes: that moves them by up to 0.9 / 128 of
    the spread of all sizes, here a hundredth."""
    x, table = w.reshape(-1, 64), torch.tensor(NF4)
    size = x.abs().max(1, keepdim=True)[0]
    return (table[torch.bucketize(x / size, (table[1:] + table[:-1]) / 2)] * size).view(w.shape)


def e4m3(w):
    """Rounded to 4 significant bits, and below 2^-6 to steps of 2^-9, of the largest of its row as 448."""
    scale = w.abs().max(1, keepdim=True)[0] / 448
    x = w / scale
    step = 2.0 ** (torch.floor(torch.log2(x.abs().clamp_min(2.0 ** -6))) - 3)
    return torch.round(x / step) * step * scale


def check_packed():
    """Frozen matrices in 4 and in 8 bits: PyTorch trains the same adapters beside the same rounded matrices. In fp8 these are the
    same, and the losses agree as in full. In nf4 the sizes of blocks are rounded a second time: losses within 1e-2."""
    wide = dict(SMALL, hidden_size=128, intermediate_size=256, num_attention_heads=2, num_key_value_heads=2, initializer_range=0.1)
    for kind, rounded, allowed in (("fp8", e4m3, LATER), ("nf4", nf4, 1e-2)):
        gen = torch.Generator().manual_seed(seed_of(kind))
        with tempfile.TemporaryDirectory() as folder:
            ids = make(folder, T.LlamaForCausalLM, T.LlamaConfig(**wide), gen)
            lora = dict(rank=4, alpha=8, weights=kind)
            frugal(folder, settings(folder, lora, steps=1, lr=1e-30, decay=0))
            command("export", f"{folder}/out.safetensors", f"{folder}/first")
            ours = frugal(folder, settings(folder, lora))
            begun = settings(folder, lora)
            begun["train"]["init"] = f"{folder}/first"
            assert frugal(folder, begun) == ours, "begun with a folder of adapters, the frozen matrices are kept otherwise"
            plain = base(folder)
            with torch.no_grad():
                for name, p in plain.named_parameters():
                    if "proj" in name:
                        p.copy_(rounded(p))
            model = peft.PeftModel.from_pretrained(plain, f"{folder}/first", is_trainable=True)
            model.train(False)
            theirs = torch_losses(model, ids)
            far = max(abs(a - b) / b for a, b in zip(ours, theirs))
            full = frugal(folder, settings(folder, dict(rank=4, alpha=8)))
            print(f"  {kind}: 20 losses within {far:.1e} (allowed {allowed:.0e}); of the first {abs(ours[0] - full[0]) / full[0]:.1e} by the bits", flush=True)
            assert far <= allowed and ours[0] != full[0]
            data = (f"data.path={folder}/tokens.bin", "data.kind=tokens", f"data.context={CONTEXT}", "data.held_out=0.5", "--json")
            frugal(folder, settings(folder, lora, recompute="all"))
            assert json.loads(command("evaluate", f"{folder}/out.safetensors", *data))["loss"] > 0
            again = frugal(folder, settings(folder, lora, recompute="all"))
            assert again == ours, "recomputing changes the losses"
            text = command("show", f"{folder}/run.yaml", "--text")
            codes = [l for l in text.splitlines() if "param " in l and "qkv.weight\"" in l]
            assert codes and all(" u8[" in l for l in codes), codes
            train = text.split('program "train"')[-1].split('program "')[0] if 'program "train"' in text else text
            assert ".weight*" in train, "matrices are not unpacked again for the backward half"
            command("train", f"{folder}/run.yaml", "train.steps=2", "train.precision=bf16", "train.recompute=auto")


def check_ours():
    """A gpt of ours: trained, then with adapters, exported for PEFT and merged."""
    gen = torch.Generator().manual_seed(seed_of("ours"))
    with tempfile.TemporaryDirectory() as folder:
        ids = torch.randint(151, (STEPS * BATCH * CONTEXT + 1,), generator=gen)
        ids.numpy().astype("uint16").tofile(f"{folder}/tokens.bin")
        run = settings(folder, None, out=f"{folder}/base.safetensors")
        run["model"] = dict(kind="gpt", depth=2, width=24, heads=3)
        frugal(folder, run)
        command("export", f"{folder}/base.safetensors", f"{folder}/model")
        run["train"].update(lora=dict(rank=4, on=["attn.qkv", "mlp.down"]), init=f"{folder}/base.safetensors", out=f"{folder}/out.safetensors")
        losses = frugal(folder, run)
        assert losses[-1] != losses[0]
        command("export", f"{folder}/out.safetensors", f"{folder}/adapters")
        command("export", f"{folder}/out.safetensors", f"{folder}/merged", "--merge")
        x = batch(ids, 0)[0]
        with torch.no_grad():
            opened = peft.PeftModel.from_pretrained(base(folder), f"{folder}/adapters").eval()
            same_logits("ours merged", T.AutoModelForCausalLM.from_pretrained(f"{folder}/merged").eval()(input_ids=x).logits, opened(input_ids=x).logits)
        data = (f"data.path={folder}/tokens.bin", "data.held_out=0.5", "--json")
        a = json.loads(command("evaluate", f"{folder}/out.safetensors", *data))["loss"]
        b = json.loads(command("evaluate", f"{folder}/merged", f"data.context={CONTEXT}", "data.kind=tokens", *data))["loss"]
        assert abs(a - b) / a <= FIRST, (a, b)


def check_resume():
    """Killed after a checkpoint, resumed: the same bits. The checkpoint holds adapters, not the model; another model's
    folder in its place is refused."""
    gen = torch.Generator().manual_seed(seed_of("resume"))
    with tempfile.TemporaryDirectory() as folder:
        make(folder, *FAMILIES["llama"][:2], gen)
        lora = dict(rank=4, alpha=8, dropout=0.1)
        whole = frugal(folder, settings(folder, lora))
        shutil.copy(f"{folder}/out.safetensors", f"{folder}/whole.safetensors")
        run = settings(folder, lora, steps=12)
        run["checkpoint"] = dict(dir=f"{folder}/kept", every="4 steps")
        frugal(folder, run)
        os.remove(f"{folder}/out.safetensors")
        run["train"]["steps"] = STEPS
        rest = frugal(folder, run)
        assert rest == whole[12:], "the resumed run takes another course"
        assert open(f"{folder}/out.safetensors", "rb").read() == open(f"{folder}/whole.safetensors", "rb").read(), "other bits"
        weights = [f"{d}/{n}" for d, _, names in os.walk(f"{folder}/kept") for n in names if n.startswith("weights")]
        assert weights and all(".lora_" in n for w in weights for n in load(w)), "a checkpoint holds frozen weights"
        kept = folder + "/kept"
        shutil.rmtree(f"{folder}/model")
        FAMILIES["llama"][0](FAMILIES["llama"][1]).save_pretrained(f"{folder}/model", safe_serialization=True)
        run["train"]["steps"] = STEPS + 4
        with open(f"{folder}/run.yaml", "w") as f:
            json.dump(run, f)
        text = command("train", f"{folder}/run.yaml", code=2)
        assert "model.path" in text and kept, text
        print("  bit-exact; another model is refused", flush=True)


def main():
    cases = {name: lambda name=name: check_family(name) for name in FAMILIES}
    cases |= {"theirs": check_theirs, "bf16": check_bf16, "packed": check_packed, "ours": check_ours, "resume": check_resume}
    run_cases(cases)


main()
