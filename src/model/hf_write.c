/* hf_write.c - the other way: a model of ours as one of theirs, and its config.json. */
#include "base/json_walk.h"
#include "model/hf_int.h"

struct str hf_type(const struct model_config *c) { return str_of(c->family->type); }

static bool is(struct str s, const char *word) { return str_eq(s, str_of(word)); }

/* Is there a family that computes the same? GPT-2 as gpt is by default, or Llama. */
enum status hf_family_of(struct model_config *c, struct err *err)
{
    bool  own_kv = c->kv_heads && c->kv_heads != c->heads;
    char *why    = NULL;
    if (!is(c->kind, "gpt"))
        return err_set(err, STATUS_USAGE,
                       "model.kind=%.*s has no counterpart in transformers; gpt has",
                       STR_ARG(c->kind));
    if (c->softcap > 0) why = "model.softcap";
    else if (c->qk_norm) why = "model.qk_norm";
    else if (c->value_tables) why = "model.value_tables";
    else if (is(c->norm, "layer") && is(c->positions, "learned") && !is(c->activation, "swiglu") &&
             !is(c->activation, "relu2") && c->bias && !own_kv)
        c->family = &hf_family_gpt2;
    else if (is(c->norm, "rms") && is(c->positions, "rotary") && is(c->activation, "swiglu"))
        c->family = &hf_family_llama;
    else why = "this mixture of model.norm, positions, activation, bias and kv_heads";
    if (why)
        return err_set(err, STATUS_USAGE,
                       "%s has no counterpart in transformers: as GPT-2 a model has norm=layer, "
                       "positions=learned, bias=true and activation gelu, gelu_erf, relu or silu; "
                       "as Llama norm=rms, "
                       "positions=rotary and activation=swiglu",
                       why);
    c->head_dim = c->width / c->heads;
    if (!c->kv_heads) c->kv_heads = c->heads;
    c->eps = 1e-5; /* as gpt.c */
    return STATUS_OK;
}

static const char *flag(bool on) { return on ? "true" : "false"; }

static struct str gpt2_text(const struct model_config *c, struct str dtype, struct arena *perm)
{
    struct str act = is(c->activation, "gelu")       ? STR("gelu_new")
                     : is(c->activation, "gelu_erf") ? STR("gelu")
                                                     : c->activation;
    return str_fmt(perm,
                   "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
                   "  \"activation_function\": \"%.*s\",\n  \"layer_norm_epsilon\": %g,\n"
                   "  \"n_embd\": %lld,\n  \"n_head\": %lld,\n  \"n_inner\": %lld,\n"
                   "  \"n_layer\": %lld,\n  \"n_positions\": %lld,\n"
                   "  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"%.*s\",\n"
                   "  \"vocab_size\": %lld\n}\n",
                   STR_ARG(act), c->eps, (long long)c->width, (long long)c->heads,
                   (long long)c->hidden, (long long)c->depth, (long long)c->places, flag(c->tied),
                   STR_ARG(dtype), (long long)c->vocabulary);
}

static struct str llama_text(const struct model_config *c, struct str dtype, struct arena *perm)
{
    return str_fmt(
        perm,
        "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
        "  \"attention_bias\": %s,\n  \"hidden_act\": \"silu\",\n  \"hidden_size\": %lld,\n"
        "  \"intermediate_size\": %lld,\n  \"max_position_embeddings\": %lld,\n"
        "  \"mlp_bias\": %s,\n  \"num_attention_heads\": %lld,\n"
        "  \"num_hidden_layers\": %lld,\n  \"num_key_value_heads\": %lld,\n"
        "  \"rms_norm_eps\": %g,\n  \"rope_theta\": %.17g,\n"
        "  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"%.*s\",\n"
        "  \"vocab_size\": %lld\n}\n",
        flag(c->bias), (long long)c->width, (long long)c->hidden, (long long)c->context,
        flag(c->bias), (long long)c->heads, (long long)c->depth, (long long)c->kv_heads, c->eps,
        c->rope_base, flag(c->tied), STR_ARG(dtype), (long long)c->vocabulary);
}

/* Their own text with another value of one key; each other key stays as it is. */
static struct str with_key(struct str text, const char *key, struct str value, struct arena *perm)
{
    struct err why;
    struct str old;
    if (json_walk_find(text, str_of(key), &old, &why) == STATUS_OK) {
        i64 at = old.data - text.data;
        return str_fmt(perm, "%.*s%.*s%.*s", (int)at, text.data, STR_ARG(value),
                       STR_ARG(str_sub(text, at + old.len, text.len)));
    }
    i64 at = str_find(text, '{') + 1;
    return str_fmt(perm, "%.*s\n  \"%s\": %.*s,%.*s", (int)at, text.data, key, STR_ARG(value),
                   STR_ARG(str_sub(text, at, text.len)));
}

/* Numbers of classes and their names, as far as anybody knows them. */
static struct str with_classes(struct str text, const struct model_config *c,
                               const struct hf_written *how, struct arena *perm)
{
    struct str *names = NEW(perm, struct str, c->classes);
    for (i64 i = 0; i < c->classes; i++)
        names[i] =
            i < how->class_count ? how->class_names[i] : str_fmt(perm, "LABEL_%lld", (long long)i);
    struct textbuf id = textbuf_new(perm);
    textbuf_fmt(&id, "{");
    for (i64 i = 0; i < c->classes; i++) {
        textbuf_fmt(&id, "%s\"%lld\": ", i ? ", " : "", (long long)i);
        json_add_string(&id, names[i]);
    }
    textbuf_fmt(&id, "}");
    struct str     ids   = textbuf_str(&id);
    struct textbuf label = textbuf_new(perm);
    textbuf_fmt(&label, "{");
    for (i64 i = 0; i < c->classes; i++) {
        textbuf_fmt(&label, "%s", i ? ", " : "");
        json_add_string(&label, names[i]);
        textbuf_fmt(&label, ": %lld", (long long)i);
    }
    textbuf_fmt(&label, "}");
    struct str labels = textbuf_str(&label);
    text              = with_key(text, "id2label", ids, perm);
    return with_key(text, "label2id", labels, perm);
}

static struct str with_dtype(struct str text, const struct json *root, struct str dtype,
                             struct arena *perm)
{
    bool newer = json_get(root, STR("dtype")) && !json_get(root, STR("torch_dtype"));
    return with_key(text, newer ? "dtype" : "torch_dtype",
                    str_fmt(perm, "\"%.*s\"", STR_ARG(dtype)), perm);
}

enum status hf_config_write(const struct model_config *c, struct str before,
                            const struct hf_written *how, struct arena *perm, struct str *out,
                            struct err *err)
{
    struct json *root;
    if (before.len) {
        enum status st = json_parse(perm, before, &root, err);
        if (!st) *out = with_dtype(before, root, how->dtype, perm);
        if (!st && c->new_head)
            *out = with_key(*out, "architectures", str_fmt(perm, "[\"%s\"]", c->family->classifier),
                            perm);
        if (!st && (c->new_head || (how->class_count && hf_is_encoder(c))))
            *out = with_classes(*out, c, how, perm);
        return st;
    }
    *out = c->family == &hf_family_gpt2 ? gpt2_text(c, how->dtype, perm)
                                        : llama_text(c, how->dtype, perm);
    return STATUS_OK;
}
