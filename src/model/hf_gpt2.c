/* hf_gpt2.c - GPT-2 (Radford et al. 2019) as transformers keeps it: its dense layers are "Conv1D", whose
 * weights are [in, out]. */
#include "model/hf_int.h"

static const struct hf_key keys[] = {
    { "n_layer", HF_READ, NULL },
    { "n_embd", HF_READ, NULL },
    { "n_head", HF_READ, NULL },
    { "n_inner", HF_READ, NULL },
    { "n_positions", HF_READ, NULL },
    { "n_ctx", HF_IGNORED, NULL }, /* an older name of it */
    { "layer_norm_epsilon", HF_READ, NULL },
    { "activation_function", HF_READ, NULL },
    { "add_cross_attention", HF_ONLY, "false" },
    { "attn_pdrop", HF_IGNORED, NULL }, /* model.dropout decides */
    { "embd_pdrop", HF_IGNORED, NULL },
    { "resid_pdrop", HF_IGNORED, NULL },
    { "n_special", HF_IGNORED, NULL }, /* of 2019, as the next: nothing reads them any more */
    { "predict_special_tokens", HF_IGNORED, NULL },
    { "reorder_and_upcast_attn", HF_IGNORED, NULL }, /* another order of the same sums */
    { "scale_attn_by_inverse_layer_idx", HF_ONLY, "false" },
    { "scale_attn_weights", HF_ONLY, "true" },
    { "summary_activation", HF_IGNORED, NULL },
    { "summary_first_dropout", HF_IGNORED, NULL },
    { "summary_proj_to_labels", HF_IGNORED, NULL },
    { "summary_type", HF_IGNORED, NULL },
    { "summary_use_proj", HF_IGNORED, NULL },
    { NULL, HF_READ, NULL },
};

static const struct hf_name names[] = {
    { "wte.weight", HF_WHOLE, { "transformer.wte.weight" } },
    { "wpe.weight", HF_WHOLE, { "transformer.wpe.weight" } },
    { "h.%.ln_1.weight", HF_WHOLE, { "transformer.h.%.ln_1.weight" } },
    { "h.%.ln_1.bias", HF_WHOLE, { "transformer.h.%.ln_1.bias" } },
    { "h.%.attn.qkv.weight", HF_TRANSPOSED, { "transformer.h.%.attn.c_attn.weight" } },
    { "h.%.attn.qkv.bias", HF_WHOLE, { "transformer.h.%.attn.c_attn.bias" } },
    { "h.%.attn.proj.weight", HF_TRANSPOSED, { "transformer.h.%.attn.c_proj.weight" } },
    { "h.%.attn.proj.bias", HF_WHOLE, { "transformer.h.%.attn.c_proj.bias" } },
    { "h.%.ln_2.weight", HF_WHOLE, { "transformer.h.%.ln_2.weight" } },
    { "h.%.ln_2.bias", HF_WHOLE, { "transformer.h.%.ln_2.bias" } },
    { "h.%.mlp.up.weight", HF_TRANSPOSED, { "transformer.h.%.mlp.c_fc.weight" } },
    { "h.%.mlp.up.bias", HF_WHOLE, { "transformer.h.%.mlp.c_fc.bias" } },
    { "h.%.mlp.down.weight", HF_TRANSPOSED, { "transformer.h.%.mlp.c_proj.weight" } },
    { "h.%.mlp.down.bias", HF_WHOLE, { "transformer.h.%.mlp.c_proj.bias" } },
    { "ln_f.weight", HF_WHOLE, { "transformer.ln_f.weight" } },
    { "ln_f.bias", HF_WHOLE, { "transformer.ln_f.bias" } },
    { "head.weight", HF_WHOLE, { "lm_head.weight" } },
    { NULL, HF_WHOLE, { NULL } },
};

/* Masks that older versions saved. */
static const char *const ignored[] = { "*h.*.attn.bias", "*h.*.attn.masked_bias", NULL };

static void read(struct hf_reader *r, struct model_config *c)
{
    c->depth      = hf_count(r, "n_layer", 12, MODEL_DEPTH_MAX);
    c->width      = hf_count(r, "n_embd", 768, MODEL_COUNT_MAX);
    c->heads      = hf_count(r, "n_head", 12, c->width);
    c->kv_heads   = 0;
    c->head_dim   = c->width / c->heads;
    c->hidden     = hf_count(r, "n_inner", 4 * c->width, MODEL_COUNT_MAX);
    c->places     = hf_count(r, "n_positions", 1024, MODEL_COUNT_MAX);
    c->eps        = hf_number(r, "layer_norm_epsilon", 1e-5);
    c->tied       = hf_flag(r, "tie_word_embeddings", true);
    c->bias       = true;
    c->norm       = STR("layer");
    c->positions  = STR("learned");
    c->activation = hf_activation(r, "activation_function", "gelu_new");
    if (c->head_dim * c->heads != c->width) hf_refuse(r, "n_head", "does not divide \"n_embd\"");
}

const struct hf_family hf_family_gpt2 = {
    "gpt2", keys, names, "transformer.", ignored, read, NULL
};
