"""qwen3.py - Qwen3 in plain PyTorch, for tests/oracle: it is younger than the transformers that runs on this system's."""
import json
import math
import os
import struct
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F


def save_tensors(path, tensors, dtype="F32"):
    header, at, blobs = {"__metadata__": {"format": "pt"}}, 0, []
    for name, value in tensors.items():
        data = value.detach().contiguous().numpy().astype(np.float32)
        blob = (data.view(np.uint32) >> 16).astype(np.uint16).tobytes() if dtype == "BF16" else data.tobytes()
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Qwen3(torch.nn.Module):
    """transformers' Qwen3ForCausalLM in plain PyTorch: Qwen2 without biases, queries and keys normalised by head."""

    def __init__(self, sizes, more, gen):
        """sizes: of config.json, as other families have them; more: head_dim, rope_theta, rms_norm_eps."""
        super().__init__()
        c = self.config = SimpleNamespace(**sizes, **more, model_type="qwen3")
        width, hidden, vocab = c.hidden_size, c.intermediate_size, c.vocab_size
        heads, kv, dim, depth = c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.num_hidden_layers
        self.read = lambda name, x: x  # what a product with that weight reads of x
        w = lambda *s: torch.nn.Parameter(torch.randn(*s, generator=gen) * 0.2)
        p = {"model.embed_tokens.weight": w(vocab, width), "model.norm.weight": 1 + w(width), "lm_head.weight": w(vocab, width)}
        for i in range(depth):
            at = f"model.layers.{i}."
            p |= {at + "input_layernorm.weight": 1 + w(width), at + "post_attention_layernorm.weight": 1 + w(width),
                  at + "self_attn.q_proj.weight": w(heads * dim, width), at + "self_attn.k_proj.weight": w(kv * dim, width),
                  at + "self_attn.v_proj.weight": w(kv * dim, width), at + "self_attn.o_proj.weight": w(width, heads * dim),
                  at + "self_attn.q_norm.weight": 1 + w(dim), at + "self_attn.k_norm.weight": 1 + w(dim),
                  at + "mlp.gate_proj.weight": w(hidden, width), at + "mlp.up_proj.weight": w(hidden, width),
                  at + "mlp.down_proj.weight": w(width, hidden)}
        self.p = {k: torch.nn.Parameter(v.detach()) for k, v in p.items()}

    def parameters(self):
        return self.p.values()

    def named_parameters(self):
        return self.p.items()

    def state_dict(self):
        return {k: v.detach() for k, v in self.p.items()}

    def forward(self, x):
        c, p, (B, T) = self.config, self.p, x.shape
        heads, kv, dim, eps, base, depth = c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.rms_norm_eps, c.rope_theta, c.num_hidden_layers
        product = lambda x, w: F.linear(self.read(w, x), p[w])
        norm = lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * p[w]
        angle = torch.arange(T)[:, None] * base ** (-torch.arange(0, dim, 2) / dim)
        cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]

        def turn(x):
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        x = p["model.embed_tokens.weight"][x]
        for i in range(depth):
            at = f"model.layers.{i}."
            y = norm(x, at + "input_layernorm.weight")
            q, k, v = [product(y, f"{at}self_attn.{n}_proj.weight").view(B, T, -1, dim) for n in "qkv"]
            q, k = turn(norm(q, at + "self_attn.q_norm.weight")), turn(norm(k, at + "self_attn.k_norm.weight"))
            k, v = k.repeat_interleave(heads // kv, 2), v.repeat_interleave(heads // kv, 2)
            a = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(dim)
            a = a.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
            y = torch.einsum("bhts,bshd->bthd", a, v).reshape(B, T, -1)
            x = x + product(y, at + "self_attn.o_proj.weight")
            y = norm(x, at + "post_attention_layernorm.weight")
            y = F.silu(product(y, at + "mlp.gate_proj.weight")) * product(y, at + "mlp.up_proj.weight")
            x = x + product(y, at + "mlp.down_proj.weight")
        return product(norm(x, "model.norm.weight"), "lm_head.weight")

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/config.json", "w") as f:
            json.dump(dict(vars(self.config), hidden_act="silu", attention_bias=False, use_sliding_window=False, sliding_window=None,
                           tie_word_embeddings=False, architectures=["Qwen3ForCausalLM"],
                           layer_types=["full_attention"] * self.config.num_hidden_layers), f)
        save_tensors(f"{folder}/model.safetensors", self.state_dict())
