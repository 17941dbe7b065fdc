#!/usr/bin/env python3
"""frugal export FILE.gguf: the file read here by its specification (docs/formats/gguf.md), every tensor and key against
the model that transformers made; and where llama-cpp-python is installed (in this Python, or the one that LLAMA_PYTHON
names), the logits, greedy tokens and token numbers that llama.cpp gives.

Tolerances. f32: the file has the weights' bits. f16: the nearest. q8_0: half a step of each block's scale, and the scale
is rounded to f16: |x - q d| <= (1/2 + 127 2^-11) d. llama.cpp: it rounds what a product reads to f16 beside f16 weights and to q8_0
beside those, and so does PyTorch here. In f32 logits then differ by the order of sums, 1e-4 of the largest (test_hf.py's
bound for losses). In f16 and q8_0 a number that the order of sums moves across the middle of two neighbours ends half a
step of 127 elsewhere, one of 64 terms of a sum: 1e-2 of the largest. So much is also GPT-2's gelu, which is a table of f16
there. Greedy tokens are PyTorch's but for ties nearer than twice that."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

from theirs import command, need, run_cases  # before torch

need("tokenizers")

import numpy as np
import torch

from oracle import seed_of
from qwen3 import Qwen3

import transformers as T
import tokenizers as K

LLAMA = os.environ.get("LLAMA_PYTHON", sys.executable)
HAS_LLAMA = subprocess.run([LLAMA, "-c", "import llama_cpp"], capture_output=True).returncode == 0
ROWS = 400  # of the embedding; the tokenizers have fewer tokens
SMALL = dict(vocab_size=ROWS, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.3)
GPT2 = dict(vocab_size=ROWS, n_positions=128, n_embd=64, n_layer=2, n_head=4, initializer_range=0.3)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.8, "high_freq_factor": 4.0, "original_max_position_embeddings": 36}
MODELS = {  # class, config, architecture there, tokenizer
    "gpt2": (T.GPT2LMHeadModel, T.GPT2Config(**GPT2), "gpt2", "gpt2"),
    "llama": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rms_norm_eps=1e-4, rope_theta=500.0), "llama", "spm"),
    "llama 3.1": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, head_dim=24, rope_scaling=LLAMA3), "llama", "llama3"),
    "llama linear": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, rope_scaling={"rope_type": "linear", "factor": 2.5}, tie_word_embeddings=True), "llama", None),
    "llama biases": (T.LlamaForCausalLM, T.LlamaConfig(**SMALL, attention_bias=True), "llama", None),
    "mistral": (T.MistralForCausalLM, T.MistralConfig(**SMALL, sliding_window=50), "llama", "spm"),
    "qwen2": (T.Qwen2ForCausalLM, T.Qwen2Config(**SMALL), "qwen2", "qwen2"),
    "qwen3": (Qwen3, dict(head_dim=24, rope_theta=700.0, rms_norm_eps=1e-5), "qwen3", "qwen2"),
}
SPLITS = {"llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
          "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}
TEXT = "The cat sat on the mat, didn't it? In 1234 ways\n\n  they said: \"yes, naïve café\" 🙂 and the cats sat there again. " * 3


def read_gguf(path):
    """By the specification: keys, and tensors as f32 with the type they are stored in."""
    data, at = open(path, "rb").read(), 0

    def take(form):
        nonlocal at
        v = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return v[0]

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            of, n = take("I"), take("Q")
            return [value(of) for _ in range(n)]
        return take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])
    assert data[:4] == b"GGUF"
    at = 4
    assert take("I") == 3
    tensors, keys = take("Q"), take("Q")
    keys = {text(): value(take("I")) for _ in range(keys)}
    infos = [(text(), [take("Q") for _ in range(take("I"))][::-1], take("I"), take("Q")) for _ in range(tensors)]
    begin, out = -(-at // 32) * 32, {}
    for name, shape, kind, offset in infos:
        count = math.prod(shape)
        assert offset % 32 == 0
        if kind == 8:
            block = np.frombuffer(data, np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32, begin + offset)
            x = (block["d"].astype(np.float32)[:, None] * block["q"]).reshape(shape)
        else:
            x = np.frombuffer(data, {0: "<f4", 1: "<f2"}[kind], count, begin + offset).astype(np.float32).reshape(shape)
        out[name] = (x, kind)
    return keys, out


def name_of(theirs):
    """transformers' name to llama.cpp's (gguf-py/gguf/tensor_mapping.py)."""
    table = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "wte": "token_embd", "wpe": "position_embd",
             "ln_f": "output_norm", "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "ln_1": "attn_norm",
             "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    parts = theirs.replace("model.", "", 1).replace("transformer.", "", 1).split(".")
    block = f"blk.{parts[1]}." if parts[0] in ("layers", "h") else ""
    return block + table[".".join(parts[2 if block else 0:-1])] + "." + parts[-1]


def as_there(name, x, config, arch):
    """llama.cpp turns neighbours in a llama, and has GPT-2's matrices as [out, in]."""
    if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
        return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    return x.T if arch == "gpt2" and ".c_" in name and x.ndim == 2 else x


def check_tensors(model, found, arch, dtype):
    expected = {name: p.detach().numpy() for name, p in model.named_parameters()}
    left = dict(found)
    for name, x in expected.items():
        got, kind = left.pop(name_of(name))
        want = as_there(name, x, model.config, arch)
        assert got.shape == want.shape, f"{name}: {got.shape}, not {want.shape}"
        flat = x.ndim == 1 or "wpe" in name
        assert kind == (0 if flat or dtype == "f32" else 1 if dtype == "f16" or want.shape[-1] % 32 else 8), f"{name} is of type {kind}"
        if kind == 8:
            blocks = want.reshape(-1, 32)
            allowed = np.abs(blocks).max(1, keepdims=True) / 127 * (0.5 + 127 * 2 ** -11)
            assert (np.abs(got.reshape(-1, 32) - blocks) <= allowed).all(), f"{name} is too far off"
        else:
            assert (got == (want if kind == 0 else want.astype(np.float16).astype(np.float32))).all(), f"{name} differs"
    if "rope_freqs.weight" in left:
        inv = model.model.layers[0].self_attn.rotary_emb.inv_freq if hasattr(model.model.layers[0].self_attn, "rotary_emb") else model.model.rotary_emb.inv_freq
        plain = model.config.rope_theta ** -(np.arange(0, 2 * len(inv), 2) / (2 * len(inv)))
        assert np.abs(left.pop("rope_freqs.weight")[0] / (plain / inv.numpy()) - 1).max() < 1e-5, "rope_freqs"
    assert not left, f"more tensors: {list(left)}"


def make_tokenizer(kind, folder):
    if kind == "spm":  # as Llama 2's: bytes for what is no token, merges of characters
        blank, learned = "\u2581", K.Tokenizer(K.models.BPE())
        learned.pre_tokenizer = K.pre_tokenizers.Metaspace(replacement=blank)
        learned.train_from_iterator([TEXT], K.trainers.BpeTrainer(vocab_size=120, show_progress=False))
        made, vocab = json.loads(learned.to_str())["model"], {}
        for name in ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + sorted(made["vocab"], key=made["vocab"].get):
            vocab.setdefault(name, len(vocab))
        merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in made["merges"]]
        t = K.Tokenizer(K.models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        t.normalizer = K.normalizers.Sequence([K.normalizers.Prepend(blank), K.normalizers.Replace(" ", blank)])
        t.add_special_tokens([K.AddedToken(a, normalized=False) for a in ("<unk>", "<s>", "</s>")])
        t.post_processor = K.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        text = t.to_str()
    else:
        t = K.Tokenizer(K.models.BPE())
        level = K.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
        t.pre_tokenizer = level if kind == "gpt2" else K.pre_tokenizers.Sequence([K.pre_tokenizers.Split(K.Regex(SPLITS[kind]), "isolated"), level])
        t.decoder = K.decoders.ByteLevel()
        t.train_from_iterator([TEXT], K.trainers.BpeTrainer(vocab_size=290, special_tokens=["<|endoftext|>"], show_progress=False,
                                                            initial_alphabet=K.pre_tokenizers.ByteLevel.alphabet()))
        if kind == "llama3":
            said = json.loads(t.to_str())
            said["model"]["ignore_merges"] = True
            t = K.Tokenizer.from_str(json.dumps(said))
        text = t.to_str()
    with open(f"{folder}/tokenizer.json", "w") as f:
        f.write(text)
    end = "</s>" if kind == "spm" else "<|endoftext|>"
    with open(f"{folder}/tokenizer_config.json", "w") as f:
        json.dump({"eos_token": end, "bos_token": "<s>" if kind == "spm" else end, "chat_template": "{{ messages }}"}, f)
    return K.Tokenizer.from_str(text)


def check_keys(keys, config, arch, tokenizer):
    gpt2 = arch == "gpt2"
    window = getattr(config, "sliding_window", None) if config.model_type == "mistral" else None
    want = {"general.architecture": arch, "general.alignment": 32, f"{arch}.block_count": 2, f"{arch}.embedding_length": 64,
            f"{arch}.context_length": window or 128, f"{arch}.attention.head_count": 4, f"{arch}.vocab_size": ROWS,
            f"{arch}.attention.head_count_kv": 4 if gpt2 else 2, f"{arch}.feed_forward_length": 256 if gpt2 else 96}
    if not gpt2:
        want[f"{arch}.rope.freq_base"] = config.rope_theta
    if tokenizer:
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        tokens = keys["tokenizer.ggml.tokens"]
        assert len(tokens) == ROWS and all(tokens[i] == t for t, i in vocabulary.items()), "other tokens"
        eos = "</s>" if "</s>" in vocabulary else "<|endoftext|>"
        want |= {"tokenizer.ggml.eos_token_id": vocabulary[eos], "tokenizer.chat_template": "{{ messages }}"}
        assert keys["tokenizer.ggml.token_type"][vocabulary[eos]] == 3 and keys["tokenizer.ggml.token_type"][ROWS - 1] == 5
    if arch == "qwen3":
        want |= {f"{arch}.attention.key_length": config.head_dim, f"{arch}.attention.value_length": config.head_dim}
    for key, value in want.items():
        assert keys.get(key) == value, f"{key} is {keys.get(key)}, not {value}"


IN_LLAMA = """
import json, sys, llama_cpp, numpy as np
path, ask = sys.argv[1], json.load(sys.stdin)
m = llama_cpp.Llama(path, n_ctx=128, n_batch=128, n_threads=1, logits_all=True, verbose=False, type_k=0, type_v=0)
out = {"tokens": [m.tokenize(t.encode(), add_bos=False, special=False) for t in ask["texts"]]}
m.reset(); m.eval(ask["prompt"])
out["logits"] = m.scores[len(ask["prompt"]) - 1].astype(float).tolist()
x = list(ask["prompt"])
for _ in range(ask["count"]):
    x.append(int(np.argmax(m.scores[len(x) - 1])))
    m.eval(x[-1:])
out["greedy"] = x
print(json.dumps(out))
"""


def lower(x, kind):
    """What a product reads beside weights of that type."""
    if kind == 1:
        return x.half().float()
    if kind != 8:
        return x
    blocks = x.reshape(-1, 32)
    d = blocks.abs().amax(1, keepdim=True) / 127
    q = torch.where(d > 0, blocks / d, torch.zeros_like(blocks))
    return (torch.sign(q) * torch.floor(q.abs() + 0.5) * d.half().float()).reshape(x.shape)


def round_inputs(model, found):
    hooks = []
    if isinstance(model, Qwen3):
        model.read = lambda name, x: lower(x, found[name_of(name)][1])
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.Linear, T.pytorch_utils.Conv1D)):
            continue
        kind = found.get(name_of(name + ".weight"), found["token_embd.weight"])[1]
        hooks.append(module.register_forward_pre_hook(lambda m, a, kind=kind: (lower(a[0], kind),)))
    return hooks


def check_llama(path, model, found, arch, dtype, tokenizer, gen):
    """PyTorch computes with the numbers of the file, and follows llama.cpp's tokens."""
    prompt, count = torch.randint(3, 250, (9,), generator=gen).tolist(), 24
    texts = ["The cat sat", " there again: 1234!", "naïve\n\n  cats"] if tokenizer else []
    ask = json.dumps({"prompt": prompt, "count": count, "texts": texts})
    done = subprocess.run([LLAMA, "-c", IN_LLAMA, path], input=ask, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-600:]
    said = json.loads(done.stdout)
    for text, got in zip(texts, said["tokens"]):
        want = tokenizer.encode(text, add_special_tokens=False).ids
        assert got == want, f"{text!r} has the tokens {got} in llama.cpp, not {want}"
    back = lambda name, x: as_back(name, x, model.config, arch)
    hooks = round_inputs(model, found)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.tensor(back(name, found[name_of(name)][0])))
        out = model(torch.tensor([said["greedy"]]))
        logits = getattr(out, "logits", out)[0].numpy()
    for hook in hooks:
        hook.remove()
    size, first = np.abs(logits).max(), len(prompt) - 1
    far = np.abs(np.array(said["logits"]) - logits[first]).max() / size
    allowed = 1e-4 if dtype == "f32" and arch != "gpt2" else 1e-2
    assert far <= allowed, f"logits differ by {far:.1e} of the largest"
    same = 0
    for i in range(first, len(said["greedy"]) - 1):
        best, taken = logits[i].max(), logits[i][said["greedy"][i + 1]]
        same += best == taken
        assert best - taken <= 2 * allowed * size, f"token {i + 1} is not the likeliest: {taken} of {best}"
    print(f"    llama.cpp: logits within {far:.1e}, {same} of {count} tokens the likeliest")


def as_back(name, x, config, arch):
    if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
        return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape).copy()
    return (x.T if arch == "gpt2" and ".c_" in name and x.ndim == 2 else x).copy()


def build(make, config, folder, gen):
    if make is Qwen3:
        model = make(SMALL, config, gen)
        model.save_pretrained(folder)
        return model
    model = make(config).float().eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=gen) * 0.2)
    model.save_pretrained(folder, safe_serialization=True)
    return model


def check(name):
    make, config, arch, kind = MODELS[name]
    gen = torch.Generator().manual_seed(seed_of(f"gguf {name}"))
    torch.manual_seed(int(torch.randint(1 << 30, (1,), generator=gen)))
    with tempfile.TemporaryDirectory() as folder:
        model = build(make, config, f"{folder}/model", gen)
        state = {n: p.detach().clone() for n, p in model.named_parameters()}
        tokenizer = make_tokenizer(kind, f"{folder}/model") if kind else None
        for dtype in ("f32", "f16", "q8_0"):
            path = f"{folder}/{dtype}.gguf"
            command("export", f"{folder}/model", path, "--dtype", dtype)
            keys, found = read_gguf(path)
            with torch.no_grad():
                for n, p in model.named_parameters():
                    p.copy_(state[n])
            check_tensors(model, found, arch, dtype)
            check_keys(keys, model.config, arch, tokenizer)
            print(f"  {dtype}: {len(found)} tensors and {len(keys)} keys, {os.path.getsize(path)} bytes", flush=True)
            if HAS_LLAMA:
                check_llama(path, model, found, arch, dtype, tokenizer, gen)


def main():
    if not HAS_LLAMA:
        print("llama-cpp-python is not installed: what llama.cpp computes is not compared (LLAMA_PYTHON names a Python that has it)")
    run_cases({name: lambda name=name: check(name) for name in MODELS})


main()
