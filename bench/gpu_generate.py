"""Using a model on one GPU, for `bench/run gpu generate`: GPT-2 124M's tensors, for a folder with random weights (gpu_lora.py writes it, as
Llama's), and transformers' side of the same.

    gpu_generate.py peer SHAPE COUNT MODE  gpt2 or llama: greedy, COUNT new tokens after 8, static cache, bf16; MODE "its own": generate compiles
                                           the step itself where it knows that the model lets it; compiled: torch.compile does. It prints `warm`
                                           after two texts, reads a line, takes the best of three, and prints one JSON object
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


def compile_step(model):
    """Each new token by a step that is compiled with CUDA graphs, the prompt by the eager one."""
    import torch
    eager, step = model.forward, torch.compile(model.forward, mode="reduce-overhead")

    @functools.wraps(eager)
    def forward(*arguments, **given):
        if given["input_ids"].shape[1] > 1:
            return eager(*arguments, **given)
        torch.compiler.cudagraph_mark_step_begin()
        return step(*arguments, **given)

    model.forward = forward


def peer(shape, count, mode):
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
    if mode == "compiled":
        compile_step(model)
        how["disable_compile"] = True

    def seconds():
        torch.cuda.synchronize()
        begin = time.time()
        assert model.generate(x, max_new_tokens=count, min_new_tokens=count, **how).shape[1] == 8 + count
        torch.cuda.synchronize()
        return time.time() - begin

    for _ in range(2):
        seconds()
    gpu_lora.turn()
    print(json.dumps({"tokens_s": count / min(seconds() for _ in range(3)), "version": transformers.__version__}), flush=True)


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
    copy() if what == "copy" else peer(rest[0], int(rest[1]), rest[2])
