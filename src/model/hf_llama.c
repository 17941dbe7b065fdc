/* hf_llama.c - Llama (Touvron et al. 2023) and those that are built like it: Mistral, Qwen2 with biases on
 * queries, keys and values, Qwen3 with a norm of queries and keys. They differ in what config.json may say. */
#include "model/hf_int.h"

static const f64 pi = 3.14159265358979323846;

#define KEYS_OF_ALL                                                                                \
    { "num_hidden_layers", HF_READ, NULL }, { "hidden_size", HF_READ, NULL },                      \
        { "num_attention_heads", HF_READ, NULL }, { "num_key_value_heads", HF_READ, NULL },        \
        { "head_dim", HF_READ, NULL }, { "intermediate_size", HF_READ, NULL },                     \
        { "rms_norm_eps", HF_READ, NULL }, { "rope_theta", HF_READ, NULL },                        \
        { "rope_scaling", HF_READ, NULL }, { "rope_parameters", HF_READ, NULL },                   \
        { "max_position_embeddings", HF_READ, NULL }, { "hidden_act", HF_ONLY, "silu" },           \
    {                                                                                              \
        "attention_dropout", HF_IGNORED, NULL                                                      \
    } /* model.dropout decides */
#define KEYS_OF_WINDOWS                                                                            \
    { "sliding_window", HF_READ, NULL }, { "use_sliding_window", HF_READ, NULL },                  \
        { "max_window_layers", HF_READ, NULL },                                                    \
    {                                                                                              \
        "layer_types", HF_READ, NULL                                                               \
    }
#define KEYS_END                                                                                   \
    {                                                                                              \
        NULL, HF_READ, NULL                                                                        \
    }

static const struct hf_key llama_keys[] = {
    KEYS_OF_ALL,
    { "attention_bias", HF_READ, NULL },
    { "mlp_bias", HF_READ, NULL },
    { "is_llama_config", HF_IGNORED, NULL }, /* SmolLM has it of nanotron, as the next */
    { "rope_interleaved", HF_ONLY, "false" },
    { "max_sequence_length", HF_IGNORED, NULL }, /* of the first Llama: max_position_embeddings */
    KEYS_END
};
static const struct hf_key mistral_keys[] = { KEYS_OF_ALL, KEYS_OF_WINDOWS, KEYS_END };
static const struct hf_key qwen2_keys[]   = {
      KEYS_OF_ALL, KEYS_OF_WINDOWS, { "use_mrope", HF_ONLY, "false" }, KEYS_END
};
static const struct hf_key qwen3_keys[] = {
    KEYS_OF_ALL, KEYS_OF_WINDOWS, { "attention_bias", HF_READ, NULL }, KEYS_END
};

#define BLOCK "model.layers.%."
static const struct hf_name names[] = {
    { "wte.weight", HF_WHOLE, { "model.embed_tokens.weight" } },
    { "h.%.ln_1.weight", HF_WHOLE, { BLOCK "input_layernorm.weight" } },
    { "h.%.attn.qkv.weight",
      HF_QKV,
      { BLOCK "self_attn.q_proj.weight", BLOCK "self_attn.k_proj.weight",
        BLOCK "self_attn.v_proj.weight" } },
    { "h.%.attn.qkv.bias",
      HF_QKV,
      { BLOCK "self_attn.q_proj.bias", BLOCK "self_attn.k_proj.bias",
        BLOCK "self_attn.v_proj.bias" } },
    { "h.%.attn.q_norm.weight", HF_WHOLE, { BLOCK "self_attn.q_norm.weight" } },
    { "h.%.attn.k_norm.weight", HF_WHOLE, { BLOCK "self_attn.k_norm.weight" } },
    { "h.%.attn.proj.weight", HF_WHOLE, { BLOCK "self_attn.o_proj.weight" } },
    { "h.%.attn.proj.bias", HF_WHOLE, { BLOCK "self_attn.o_proj.bias" } },
    { "h.%.ln_2.weight", HF_WHOLE, { BLOCK "post_attention_layernorm.weight" } },
    { "h.%.mlp.up.weight", HF_GATED, { BLOCK "mlp.gate_proj.weight", BLOCK "mlp.up_proj.weight" } },
    { "h.%.mlp.up.bias", HF_GATED, { BLOCK "mlp.gate_proj.bias", BLOCK "mlp.up_proj.bias" } },
    { "h.%.mlp.down.weight", HF_WHOLE, { BLOCK "mlp.down_proj.weight" } },
    { "h.%.mlp.down.bias", HF_WHOLE, { BLOCK "mlp.down_proj.bias" } },
    { "ln_f.weight", HF_WHOLE, { "model.norm.weight" } },
    { "head.weight", HF_WHOLE, { "lm_head.weight" } },
    { NULL, HF_WHOLE, { NULL } },
};

static const char *const ignored[] = { "*.rotary_emb.inv_freq", NULL };

/* Llama 3 counts in turns within the context that the model was first trained on: those that make fewer than
 * low_freq_factor there are slowed down, those that make more than high_freq_factor are not. */
static void read_llama3(struct hf_reader *in, struct model_config *c)
{
    f64 length = (f64)hf_count(in, "original_max_position_embeddings", 0, MODEL_WINDOW_MAX);
    f64 low = hf_number(in, "low_freq_factor", 1), high = hf_number(in, "high_freq_factor", 4);
    if (!(high > low)) hf_refuse(in, "high_freq_factor", "should be above \"low_freq_factor\"");
    c->rope_scaling.low  = low * 2 * pi / length;
    c->rope_scaling.high = high * 2 * pi / length;
}

static void read_scaling(struct hf_reader *in, const char *map, struct model_config *c)
{
    struct str type = hf_word(in, "rope_type", "");
    if (!type.len) type = hf_word(in, "type", "default");
    if (in->status || str_eq(type, STR("default"))) return;
    if (str_eq(type, STR("dynamic")))
        return; /* the same up to max_position_embeddings, and no run goes beyond */
    bool llama3 = str_eq(type, STR("llama3"));
    if (!llama3 && !str_eq(type, STR("linear"))) {
        in->status = err_set(in->err, STATUS_USAGE,
                             "%.*s: \"%s\" of type %.*s is not supported; supported are default, "
                             "linear, dynamic and llama3",
                             STR_ARG(in->path), map, (int)MIN(type.len, 40), type.data);
        return;
    }
    c->rope_scaling.stretch = hf_number(in, "factor", 0);
    if (llama3) read_llama3(in, c);
}

/* The base is a key of its own, or, in newer files, of rope_parameters, which is also what scales positions. */
static void read_rope(struct hf_reader *r, struct model_config *c)
{
    static const char *const maps[] = { "rope_scaling", "rope_parameters" };
    c->rope_base                    = hf_number(r, "rope_theta", 10000);
    for (i64 i = 0; i < COUNT_OF(maps); i++) {
        struct hf_reader in = hf_inside(r, maps[i]);
        read_scaling(&in, maps[i], c);
        c->rope_base = hf_number(&in, "rope_theta", c->rope_base);
        if (in.status) r->status = in.status;
    }
}

static void read_all(struct hf_reader *r, struct model_config *c)
{
    c->depth      = hf_count(r, "num_hidden_layers", 0, MODEL_DEPTH_MAX);
    c->width      = hf_count(r, "hidden_size", 0, MODEL_COUNT_MAX);
    c->heads      = hf_count(r, "num_attention_heads", 0, c->width);
    c->kv_heads   = hf_count(r, "num_key_value_heads", c->heads, c->heads);
    c->head_dim   = hf_count(r, "head_dim", c->width / c->heads, MODEL_COUNT_MAX);
    c->hidden     = hf_count(r, "intermediate_size", 0, MODEL_COUNT_MAX);
    c->context    = hf_count(r, "max_position_embeddings", 2048, MODEL_COUNT_MAX);
    c->eps        = hf_number(r, "rms_norm_eps", 1e-6);
    c->tied       = hf_flag(r, "tie_word_embeddings", false);
    c->bias       = false;
    c->norm       = STR("rms");
    c->positions  = STR("rotary");
    c->activation = STR("swiglu");
    read_rope(r, c);
    if (c->heads % c->kv_heads)
        hf_refuse(r, "num_key_value_heads", "does not divide \"num_attention_heads\"");
    if (c->head_dim % 2) hf_refuse(r, "head_dim", "should be even");
}

static void read_llama(struct hf_reader *r, struct model_config *c)
{
    read_all(r, c);
    c->bias_qkv = c->bias_proj = hf_flag(r, "attention_bias", false);
    c->bias_mlp                = hf_flag(r, "mlp_bias", false);
}

/* Blocks whose attention sees a window: layer_types says it of each; without it all from max_window_layers on. */
static i64 windowed_blocks(struct hf_reader *r, const struct model_config *c, i64 full)
{
    const struct json *types = json_get(r->root, STR("layer_types"));
    const struct json *from  = json_get(r->root, STR("max_window_layers"));
    i64                count = 0;
    for (const struct json *v = types ? types->first : NULL; v; v = v->next) {
        bool window = str_eq(v->text, STR("sliding_attention"));
        count += window;
        if (!window && !str_eq(v->text, STR("full_attention")))
            hf_refuse(r, "layer_types", "has a kind of attention that is not supported");
    }
    if (types && types->kind == JSON_LIST) return count;
    if (from && from->kind != JSON_NULL && !json_i64(from, &full))
        hf_refuse(r, "max_window_layers", "should be a whole number");
    return c->depth - MAX(MIN(full, c->depth), 0);
}

/* A window that no sequence can fill is none. `full`: blocks without it where config.json does not say. */
static void read_window(struct hf_reader *r, struct model_config *c, bool used, i64 full)
{
    const struct json *window = json_get(r->root, STR("sliding_window"));
    const struct json *types  = json_get(r->root, STR("layer_types"));
    i64                blocks = windowed_blocks(r, c, full);
    if (!used || !blocks || !window || window->kind == JSON_NULL) return;
    c->window = hf_count(r, "sliding_window", 0, (i64)1 << 40);
    if (blocks < c->depth && c->window < c->context)
        hf_refuse(r, types && types->kind == JSON_LIST ? "layer_types" : "max_window_layers",
                  "gives a window to some blocks and not to others, which is not supported");
}

#define QWEN_FULL 28 /* of transformers, for max_window_layers */

static void read_mistral(struct hf_reader *r, struct model_config *c)
{
    read_all(r, c);
    read_window(r, c, true, 0);
}

static void read_qwen2(struct hf_reader *r, struct model_config *c)
{
    read_all(r, c);
    read_window(r, c, hf_flag(r, "use_sliding_window", false), QWEN_FULL);
    c->bias_qkv = true;
}

static void read_qwen3(struct hf_reader *r, struct model_config *c)
{
    read_all(r, c);
    c->head_dim = hf_count(r, "head_dim", 128, MODEL_COUNT_MAX);
    read_window(r, c, hf_flag(r, "use_sliding_window", false), QWEN_FULL);
    c->bias_qkv = c->bias_proj = hf_flag(r, "attention_bias", false);
    c->qk_weights              = true;
}

const struct hf_family hf_family_llama   = { "llama", llama_keys, names, "model.",
                                             ignored, read_llama, NULL };
const struct hf_family hf_family_mistral = { "mistral", mistral_keys, names, "model.",
                                             ignored,   read_mistral, NULL };
const struct hf_family hf_family_qwen2   = { "qwen2", qwen2_keys, names, "model.",
                                             ignored, read_qwen2, NULL };
const struct hf_family hf_family_qwen3   = { "qwen3", qwen3_keys, names, "model.",
                                             ignored, read_qwen3, NULL };
