"""Fine-tuning on one GPU, for `bench/run gpu lora`: models of real shapes with random weights, as a folder that ours reads, and
PyTorch's side of the same.

    gpu_lora.py make SHAPE FOLDER          llama, qwen or gpt2: config.json and model.safetensors in bf16 (16 GB for llama; a GPU draws them)
    gpu_lora.py peer MODE BATCH CONTEXT    transformers + PEFT on random weights: MODE compile, ckpt (every block recomputed), 4bit (the same beside
                                           bitsandbytes' nf4, with the folder as another argument) or full (all weights of qwen). It prints
                                           `warm` after five steps, reads a line, times nine, and prints one JSON object
"""
import json
import math
import os
import statistics
import struct
import sys
import time

SHAPES = {
    "llama": dict(model_type="llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                  num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072, rope_theta=500000.0,
                  rms_norm_eps=1e-5, tie_word_embeddings=False, hidden_act="silu"),
    "qwen": dict(model_type="qwen2", vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                 num_attention_heads=12, num_key_value_heads=2, max_position_embeddings=32768, rope_theta=1e6, rms_norm_eps=1e-6,
                 tie_word_embeddings=True, hidden_act="silu"),
}


def tensors(s):
    """Names and shapes, as transformers has them."""
    width, hidden, words = s["hidden_size"], s["intermediate_size"], s["vocab_size"]
    kv = s["num_key_value_heads"] * (width // s["num_attention_heads"])
    yield "model.embed_tokens.weight", (words, width)
    for i in range(s["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name, rows, columns in (("self_attn.q", width, width), ("self_attn.k", kv, width), ("self_attn.v", kv, width),
                                    ("self_attn.o", width, width), ("mlp.gate", hidden, width), ("mlp.up", hidden, width),
                                    ("mlp.down", width, hidden)):
            yield f"{at}{name}_proj.weight", (rows, columns)
            if s["model_type"] == "qwen2" and name[-1] in "qkv":
                yield f"{at}{name}_proj.bias", (rows,)
        yield at + "input_layernorm.weight", (width,)
        yield at + "post_attention_layernorm.weight", (width,)
    yield "model.norm.weight", (width,)
    if not s["tie_word_embeddings"]:
        yield "lm_head.weight", (words, width)


def write(config, parts, folder):
    """A folder with config.json and model.safetensors, bf16: norms' weights are 1, biases 0, all else is normal. `parts`: names and shapes."""
    import torch
    header, at, parts = {}, 0, list(parts)
    for name, size in parts:
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [at, at + 2 * math.prod(size)]}
        at += 2 * math.prod(size)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    room = torch.empty(max(math.prod(size) for _, size in parts), dtype=torch.bfloat16, pin_memory=True)
    with open(f"{folder}/model.safetensors", "wb", buffering=0) as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, size in parts:
            t = torch.ones(size, dtype=torch.bfloat16, device="cuda") if "norm" in name or "ln_" in name else \
                torch.empty(size, dtype=torch.bfloat16, device="cuda").normal_(0, 0.02)
            if name.endswith(".bias"):
                t.zero_()
            room[:t.numel()].copy_(t.flatten())
            left = memoryview(room[:t.numel()].view(torch.uint8).numpy())
            while len(left):
                left = left[f.write(left):]
    with open(f"{folder}/config.json", "w") as f:  # last: it says that the folder is whole
        json.dump(config, f)


def make(shape, folder):
    import gpu_generate
    write(*((gpu_generate.GPT2, gpu_generate.tensors(gpu_generate.GPT2)) if shape == "gpt2" else (SHAPES[shape], tensors(SHAPES[shape]))), folder)


def turn():
    """Says that the next step is a warm one, and waits until the GPU is ours (bench/gpu_models.py)."""
    import torch
    torch.cuda.synchronize()
    print("warm", flush=True)
    sys.stdin.readline()


def model_of(mode, folder):
    """Random weights in bf16; with 4bit the folder's, as bitsandbytes packs them."""
    import torch
    import transformers
    if mode == "4bit":
        packed = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)
        return transformers.LlamaForCausalLM.from_pretrained(folder, quantization_config=packed, dtype=torch.bfloat16, device_map={"": 0}, attn_implementation="sdpa")
    s = {k: v for k, v in SHAPES["qwen" if mode == "full" else "llama"].items() if k != "model_type"}
    kind = (transformers.Qwen2Config, transformers.Qwen2ForCausalLM) if mode == "full" else (transformers.LlamaConfig, transformers.LlamaForCausalLM)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = kind[1](kind[0](**s, attn_implementation="sdpa"))
    torch.set_default_dtype(torch.float32)
    return model


def nf4_unlike():
    """How many codes, sizes and scales of blocks bitsandbytes makes on this GPU of the numbers in tests/golden/nf4.safetensors that are not the ones
    there, which are ours too (tests/unit/test_nf4.c). Codes of a block of zeros do not count: its CUDA kernel multiplies by 1 / 0 there, and
    takes the code of -1; ours, and its own on a processor, that of 0."""
    import torch
    import safetensors.torch
    from bitsandbytes import functional
    kept = safetensors.torch.load_file(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "nf4.safetensors"), "cuda")
    codes, state = functional.quantize_4bit(kept["a"], blocksize=64, compress_statistics=True, quant_type="nf4")
    zeros = (kept["a"].view(-1, 64) == 0).all(1, keepdim=True)
    codes = torch.where(zeros, kept["codes"].view(-1, 32), codes.view(-1, 32)).flatten()
    pairs = (codes, kept["codes"]), (state.absmax, kept["absmax"]), (state.state2.absmax, kept["scales"]), (state.offset.view(1), kept["offset"])
    return sum(int((ours != theirs).sum()) for theirs, ours in pairs)


def peer(mode, batch, context, folder=None):
    begun = time.time()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # reserves little more than it needs: another is beside it
    import torch
    model = model_of(mode, folder)
    if mode != "full":
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, task_type="CAUSAL_LM", target_modules=[
            "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    model.train()
    model.config.use_cache = False
    if mode in ("ckpt", "4bit"):
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    weights = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(weights, 1e-4, fused=True)
    run = torch.compile(model) if mode in ("compile", "full") else model
    x = torch.randint(0, 128000, (batch, context), device="cuda")

    def step(x):
        torch.cuda.synchronize()
        begin = time.time()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(input_ids=x, labels=x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.time() - begin

    more = {}
    if mode == "4bit":
        torch.cuda.reset_peak_memory_stats()
        for _ in range(2):
            step(x[:1])
        more = {"peak_gib_of_one": torch.cuda.max_memory_allocated() / 2**30, "nf4_unlike": nf4_unlike()}
    for _ in range(5):
        step(x)
    five = time.time() - begun
    turn()
    times = [step(x) for _ in range(9)]
    print(json.dumps({"tokens_s": batch * context / statistics.median(times), "five_steps_s": five,
                      "peak_gib": torch.cuda.max_memory_allocated() / 2**30, **more}), flush=True)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    make(*rest) if what == "make" else peer(rest[0], int(rest[1]), int(rest[2]), *rest[3:])
