/* hf.c - reading config.json by a family's table, and finding its tensors. */
#include "model/hf_int.h"
#include <math.h>
#include <string.h>

static const struct hf_family *const families[] = {
#define HF_FAMILY(name) &hf_family_##name,
#include "model/hf.def"
#undef HF_FAMILY
};

/* Of every model: who wrote it, how transformers shall run it, and what its older versions kept here of settings that
 * only its own `generate` reads. */
static const struct hf_key common_keys[] = {
    { "model_type", HF_READ, NULL },
    { "tie_word_embeddings", HF_READ, NULL },
    { "vocab_size", HF_READ, NULL },
    { "_attn_implementation_autoset", HF_IGNORED, NULL },
    { "_name_or_path", HF_IGNORED, NULL },
    { "_num_labels", HF_IGNORED, NULL }, /* id2label has as many */
    { "architectures", HF_IGNORED, NULL },
    { "auto_map", HF_ONLY, "null" }, /* code of its own */
    { "bad_words_ids", HF_IGNORED, NULL },
    { "begin_suppress_tokens", HF_IGNORED, NULL },
    { "bos_token_id", HF_IGNORED, NULL },
    { "chunk_size_feed_forward", HF_IGNORED, NULL },
    { "cross_attention_hidden_size", HF_ONLY, "null" },
    { "decoder_start_token_id", HF_IGNORED, NULL },
    { "diversity_penalty", HF_IGNORED, NULL },
    { "do_sample", HF_IGNORED, NULL },
    { "dtype", HF_IGNORED, NULL },
    { "early_stopping", HF_IGNORED, NULL },
    { "encoder_no_repeat_ngram_size", HF_IGNORED, NULL },
    { "eos_token_id", HF_IGNORED, NULL },
    { "exponential_decay_length_penalty", HF_IGNORED, NULL },
    { "finetuning_task", HF_IGNORED, NULL },
    { "forced_bos_token_id", HF_IGNORED, NULL },
    { "forced_eos_token_id", HF_IGNORED, NULL },
    { "gradient_checkpointing", HF_IGNORED, NULL },
    { "id2label", HF_IGNORED, NULL },
    { "initializer_range", HF_IGNORED, NULL },
    { "is_decoder", HF_IGNORED, NULL },
    { "is_encoder_decoder", HF_ONLY, "false" },
    { "label2id", HF_IGNORED, NULL },
    { "length_penalty", HF_IGNORED, NULL },
    { "max_length", HF_IGNORED, NULL },
    { "min_length", HF_IGNORED, NULL },
    { "no_repeat_ngram_size", HF_IGNORED, NULL },
    { "num_beam_groups", HF_IGNORED, NULL },
    { "num_beams", HF_IGNORED, NULL },
    { "num_return_sequences", HF_IGNORED, NULL },
    { "output_attentions", HF_IGNORED, NULL },
    { "output_hidden_states", HF_IGNORED, NULL },
    { "output_past", HF_IGNORED, NULL },
    { "output_scores", HF_IGNORED, NULL },
    { "pad_token_id", HF_IGNORED, NULL },
    { "prefix", HF_IGNORED, NULL },
    { "pretraining_tp", HF_IGNORED, NULL },
    { "problem_type", HF_IGNORED, NULL },
    { "pruned_heads", HF_ONLY, "{}" },
    { "quantization_config", HF_ONLY, "null" },
    { "remove_invalid_values", HF_IGNORED, NULL },
    { "repetition_penalty", HF_IGNORED, NULL },
    { "return_dict", HF_IGNORED, NULL },
    { "return_dict_in_generate", HF_IGNORED, NULL },
    { "sep_token_id", HF_IGNORED, NULL },
    { "suppress_tokens", HF_IGNORED, NULL },
    { "task_specific_params", HF_IGNORED, NULL },
    { "temperature", HF_IGNORED, NULL },
    { "tf_legacy_loss", HF_IGNORED, NULL },
    { "tie_encoder_decoder", HF_ONLY, "false" },
    { "tokenizer_class", HF_IGNORED, NULL },
    { "top_k", HF_IGNORED, NULL },
    { "top_p", HF_IGNORED, NULL },
    { "torch_dtype", HF_IGNORED, NULL },
    { "torchscript", HF_IGNORED, NULL },
    { "transformers.js_config", HF_IGNORED, NULL },
    { "transformers_version", HF_IGNORED, NULL },
    { "typical_p", HF_IGNORED, NULL },
    { "unsloth_fixed", HF_IGNORED, NULL }, /* who uploaded it again */
    { "unsloth_version", HF_IGNORED, NULL },
    { "use_bfloat16", HF_IGNORED, NULL },
    { "use_cache", HF_IGNORED, NULL },
    { NULL, HF_READ, NULL },
};

void hf_refuse(struct hf_reader *r, const char *key, const char *why)
{
    if (r->status) return;
    r->status = err_set(r->err, STATUS_USAGE, "%.*s: \"%s\" %s", STR_ARG(r->path), key, why);
}

static const struct json *given(const struct hf_reader *r, const char *key)
{
    const struct json *v = json_get(r->root, str_of(key));
    return v && v->kind != JSON_NULL ? v : NULL;
}

i64 hf_count(struct hf_reader *r, const char *key, i64 usual, i64 most)
{
    const struct json *v     = given(r, key);
    i64                value = usual;
    if ((!v || json_i64(v, &value)) && value >= 1 && value <= most) return value;
    if (!r->status)
        r->status =
            err_set(r->err, STATUS_USAGE, "%.*s: \"%s\" should be a whole number from 1 to %lld",
                    STR_ARG(r->path), key, (long long)most);
    return 1;
}

f64 hf_number(struct hf_reader *r, const char *key, f64 usual)
{
    const struct json *v     = given(r, key);
    f64                value = usual;
    if ((!v || json_f64(v, &value)) && value > 0 && isfinite(value)) return value;
    hf_refuse(r, key, "should be a number above 0");
    return 1;
}

bool hf_flag(struct hf_reader *r, const char *key, bool usual)
{
    const struct json *v = given(r, key);
    if (v && v->kind != JSON_BOOL) hf_refuse(r, key, "should be true or false");
    return v ? str_eq(v->text, STR("true")) : usual;
}

struct str hf_word(struct hf_reader *r, const char *key, const char *usual)
{
    const struct json *v = given(r, key);
    if (v && v->kind != JSON_STRING) hf_refuse(r, key, "should be a word");
    return v && v->kind == JSON_STRING ? v->text : str_of(usual);
}

struct str hf_activation(struct hf_reader *r, const char *key, const char *usual)
{
    static const char *const names[][2] = { { "gelu", "gelu_erf" },
                                            { "gelu_new", "gelu" },
                                            { "gelu_pytorch_tanh", "gelu" },
                                            { "relu", "relu" },
                                            { "silu", "silu" } };
    struct str               word       = hf_word(r, key, usual);
    for (i64 i = 0; i < COUNT_OF(names); i++)
        if (str_eq(word, str_of(names[i][0]))) return str_of(names[i][1]);
    hf_refuse(r, key, "is supported as gelu, gelu_new, gelu_pytorch_tanh, relu and silu");
    return STR("gelu");
}

struct hf_reader hf_inside(const struct hf_reader *r, const char *key)
{
    static const struct json nothing = { .kind = JSON_MAP };
    struct hf_reader         in      = *r;
    const struct json       *v       = given(r, key);
    in.root                          = v && v->kind == JSON_MAP ? v : &nothing;
    return in;
}

static const struct hf_key *find_key(const struct hf_key *keys, struct str name)
{
    for (; keys->name; keys++)
        if (str_eq(str_of(keys->name), name)) return keys;
    return NULL;
}

static bool is_value(const struct json *v, const char *only)
{
    if (v->kind == JSON_NULL) return true;
    if (v->kind == JSON_MAP) return !v->count && str_eq(STR("{}"), str_of(only));
    return (v->kind == JSON_BOOL || v->kind == JSON_NUMBER || v->kind == JSON_STRING) &&
           str_eq(v->text, str_of(only));
}

static enum status check_keys(struct hf_reader *r, const struct hf_family *f)
{
    for (const struct json *v = r->root->first; v; v = v->next) {
        const struct hf_key *k = find_key(f->keys, v->key);
        if (!k) k = find_key(common_keys, v->key);
        if (!k && v->kind == JSON_NULL) continue;
        if (!k)
            return err_set(r->err, STATUS_USAGE,
                           "%.*s: the key \"%.*s\" is not supported in a model of type %s",
                           STR_ARG(r->path), (int)MIN(v->key.len, 80), v->key.data, f->type);
        if (k->rule == HF_ONLY && !is_value(v, k->only))
            return err_set(r->err, STATUS_USAGE, "%.*s: \"%s\" is supported only as %s",
                           STR_ARG(r->path), k->name, k->only);
    }
    return STATUS_OK;
}

static enum status unknown_type(const struct hf_reader *r, struct str type)
{
    char           lent[256];
    struct arena   scratch = { .begin = (u8 *)lent, .end = (u8 *)lent + sizeof lent };
    struct textbuf b       = textbuf_new(&scratch);
    for (i64 i = 0; i < COUNT_OF(families); i++)
        textbuf_fmt(&b, "%s%s", i ? ", " : "", families[i]->type);
    return err_set(r->err, STATUS_USAGE,
                   "%.*s: model_type \"%.*s\" is not supported; supported are %.*s",
                   STR_ARG(r->path), (int)MIN(type.len, 40), type.data, STR_ARG(textbuf_str(&b)));
}

enum status hf_config_read(struct str path, struct str text, struct arena *perm,
                           struct model_config *c, struct err *err)
{
    struct json     *root;
    struct err       why = { 0 };
    struct hf_reader r   = { .path = path, .err = err };
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    if (root->kind != JSON_MAP)
        return err_set(err, STATUS_USAGE, "%.*s is not a map of settings", STR_ARG(path));
    r.root                  = root;
    const struct json *v    = json_get(root, STR("model_type"));
    struct str         type = v && v->kind == JSON_STRING ? v->text : STR("");
    i64                i    = 0;
    while (i < COUNT_OF(families) && !str_eq(type, str_of(families[i]->type))) i++;
    if (i == COUNT_OF(families)) return unknown_type(&r, type);
    enum status st = check_keys(&r, families[i]);
    if (st) return st;
    c->kind       = STR("hf");
    c->family     = families[i];
    c->vocabulary = hf_count(&r, "vocab_size", 0, MODEL_COUNT_MAX);
    families[i]->read(&r, c);
    if (r.status) c->family = NULL;
    return r.status;
}

/* --- names --- */

/* Does `name` match, and what does % stand for? Empty: the pattern has none. */
static bool match(const char *pattern, struct str name, struct str *block)
{
    struct str p  = str_of(pattern);
    i64        at = str_find(p, '%');
    *block        = STR("");
    if (at < 0) return str_eq(p, name);
    struct str head = str_sub(p, 0, at), tail = str_sub(p, at + 1, p.len);
    if (!str_starts(name, head) || !str_ends(name, tail) || name.len <= head.len + tail.len)
        return false;
    *block = str_sub(name, head.len, name.len - tail.len);
    return str_find(*block, '.') < 0;
}

static struct str fill_in(struct arena *perm, const char *pattern, struct str block)
{
    struct str p  = str_of(pattern);
    i64        at = str_find(p, '%');
    if (at < 0) return p;
    return str_fmt(perm, "%.*s%.*s%s", (int)at, p.data, STR_ARG(block), p.data + at + 1);
}

bool hf_source(const struct model_config *c, struct str ours, struct shape shape,
               struct arena *perm, struct hf_source *out)
{
    struct str block;
    i64        kv   = (c->kv_heads ? c->kv_heads : c->heads) * c->head_dim;
    i64        half = shape.dim[0] / 2;
    for (const struct hf_name *n = c->family->names; n->ours; n++) {
        if (!match(n->ours, ours, &block)) continue;
        *out = (struct hf_source){ .transposed = n->split == HF_TRANSPOSED };
        for (i32 i = 0; i < HF_PARTS_MAX && n->theirs[i]; i++)
            out->name[out->count++] = fill_in(perm, n->theirs[i], block);
        i64 qkv[HF_PARTS_MAX] = { c->heads * c->head_dim, kv, kv };
        i64 two[HF_PARTS_MAX] = { half, half }, one[HF_PARTS_MAX] = { shape.dim[0] };
        memcpy(out->rows,
               n->split == HF_QKV     ? qkv
               : n->split == HF_GATED ? two
                                      : one,
               sizeof out->rows);
        return true;
    }
    return false;
}

bool hf_is_transposed(const struct model_config *c)
{
    const struct hf_name *n = c->family->names;
    while (n->ours && n->split != HF_TRANSPOSED) n++;
    return n->ours != NULL;
}

bool hf_is_encoder(const struct model_config *c) { return c->family && c->family->classifier; }

bool hf_may_lack(const struct model_config *c, struct str ours)
{
    return c->new_head &&
           (str_starts(ours, STR("pooler.")) || str_starts(ours, STR("classifier.")));
}

struct str hf_prefix(const struct model_config *c) { return str_of(c->family->prefix); }

bool hf_is_ignored(const struct model_config *c, struct str theirs)
{
    if (c->tied && str_eq(theirs, STR("lm_head.weight"))) return true;
    for (const char *const *g = c->family->ignored; *g; g++)
        if (str_glob(str_of(*g), theirs)) return true;
    return false;
}

/* --- as a model --- */

enum status hf_check(const struct model *m, struct err *err)
{
    if (!m->config.family)
        return err_set(err, STATUS_USAGE, "model.kind=hf needs model.path, the folder of a model");
    return hf_is_encoder(&m->config) ? encoder_check(m, err) : gpt_check(m, err);
}

enum status hf_build(struct builder *b, struct err *err)
{
    return hf_is_encoder(&b->m->config) ? encoder_build(b, err) : gpt_build(b, err);
}
