"""Using a model on one GPU, for `bench/run gpu generate`: a folder of GPT-2 124M with random weights (Llama's is gpu_lora.py's), and
transformers' side of the same.

    gpu_generate.py make FOLDER            config.json and model.safetensors of GPT-2 124M in bf16
    gpu_generate.py peer SHAPE COUNT       gpt2 or llama: greedy, COUNT new tokens after 8, static cache, compiled, bf16; one JSON object
    gpu_generate.py copy                   bytes/s that the GPU reads and writes in a copy of 4 GiB; one JSON object
"""
import functools
import json
import sys
import time

import gpu_lora

GPT2 = dict(model_type="gpt2", vocab_size=50257, n_embd=768, n_layer=12, n_head=12, n_positions=1024, n_inner=None,
            activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=True)


def tensors(s):
    """Names and shapes, as transformers has them."""
    width = s["n_embd"]
    yield "transformer.wte.weight", (s["vocab_size"], width)
    yield "transformer.wpe.weight", (s["n_positions"], width)
    for i in range(s["n_layer"]):
        at = f"transformer.h.{i}."
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, 4 * width),
                                    ("mlp.c_proj", 4 * width, width)):
            yield f"{at}{name}.weight", (rows, columns)
            yield f"{at}{name}.bias", (columns,)
        for name in ("ln_1", "ln_2"):
            yield f"{at}{name}.weight", (width,)
            yield f"{at}{name}.bias", (width,)
    yield "transformer.ln_f.weight", (width,)
    yield "transformer.ln_f.bias", (width,)


def peer(shape, count):
    import torch
    import transformers
    s = {k: v for k, v in (GPT2 if shape == "gpt2" else gpu_lora.SHAPES["llama"]).items() if k != "model_type"}
    kind = (transformers.GPT2Config, transformers.GPT2LMHeadModel) if shape == "gpt2" else (transformers.LlamaConfig, transformers.LlamaForCausalLM)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = kind[1](kind[0](**s, attn_implementation="sdpa")).eval()
    torch.set_default_dtype(torch.float32)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    x = torch.arange(8, device="cuda")[None]
    how = dict(attention_mask=torch.ones_like(x), do_sample=False, cache_implementation="static")

    def seconds(n, **more):
        torch.cuda.synchronize()
        begin = time.time()
        assert model.generate(x, max_new_tokens=n, min_new_tokens=n, **how, **more).shape[1] == 8 + n
        torch.cuda.synchronize()
        return time.time() - begin

    def measure(**more):
        for _ in range(2):
            seconds(count, **more)
        return count / min(seconds(count, **more) for _ in range(3))

    rates, begin = {"its own": measure()}, time.time()  # generate compiles the step itself where it knows that the model lets it
    eager, step = model.forward, torch.compile(model.forward, mode="reduce-overhead")

    @functools.wraps(eager)
    def forward(*arguments, **given):
        if given["input_ids"].shape[1] > 1:
            return eager(*arguments, **given)
        torch.compiler.cudagraph_mark_step_begin()
        return step(*arguments, **given)

    model.forward = forward
    try:
        rates["compiled"] = measure(disable_compile=True)
    except Exception as why:
        print(why, file=sys.stderr)
    print(json.dumps({"tokens_s": max(rates.values()), "rates": rates, "compile_s": time.time() - begin, "version": transformers.__version__}), flush=True)


def copy():
    import torch
    a = torch.empty(1 << 32, dtype=torch.uint8, device="cuda")
    b, times = torch.empty_like(a), []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        b.copy_(a)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    print(json.dumps({"bytes_s": 2 * a.numel() / min(times)}))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "make":
        gpu_lora.write(GPT2, tensors(GPT2), rest[0])
    elif what == "copy":
        copy()
    else:
        peer(rest[0], int(rest[1]))
