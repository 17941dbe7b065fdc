/* lora_config.c - adapter_config.json, as Hugging Face's PEFT writes and reads it. */
#include "model/hf_int.h"
#include "model/lora.h"
#include <math.h>

/* What changes nothing of the arithmetic: settings of how the adapters were first filled, and where PEFT shall look
 * for things. Every other key must be what it is where nobody asked for anything: null, false, or empty. */
static const char *const ignored[] = { "arrow_config",
                                       "auto_mapping",
                                       "base_model_class",
                                       "corda_config",
                                       "eva_config",
                                       "fan_in_fan_out",
                                       "inference_mode",
                                       "loftq_config",
                                       "lora_ga_config",
                                       "megatron_core",
                                       "parent_library",
                                       "peft_version",
                                       "qalora_group_size",
                                       "revision",
                                       "runtime_config",
                                       "task_type",
                                       NULL };
static const char *const known[]   = { "base_model_name_or_path",
                                       "bias",
                                       "init_lora_weights",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "peft_type",
                                       "r",
                                       "target_modules",
                                       "use_rslora",
                                       NULL };
/* Of init_lora_weights; others (pissa, olora, corda, loftq) take something from the model's own matrices, and their
 * adapters mean nothing beside those of its folder. */
static const char *const plain_inits[] = { "true", "false", "gaussian", "eva", "orthogonal", NULL };

static bool is_one_of(struct str key, const char *const *list)
{
    for (; *list; list++)
        if (str_eq(key, str_of(*list))) return true;
    return false;
}

static bool is_nothing(const struct json *v)
{
    bool list = v->kind == JSON_LIST || v->kind == JSON_MAP;
    return v->kind == JSON_NULL || (v->kind == JSON_BOOL && str_eq(v->text, STR("false"))) ||
           (list && !v->count);
}

static void read_targets(struct hf_reader *r, struct lora_config *l)
{
    const struct json *v = json_get(r->root, STR("target_modules"));
    if (v && v->kind == JSON_STRING && str_eq(v->text, STR("all-linear"))) return;
    if (!v || v->kind != JSON_LIST || !v->count || v->count > LORA_ON_MAX) {
        hf_refuse(r, "target_modules", "should be a list of up to 16 names");
        return;
    }
    for (v = v->first; v; v = v->next) {
        if (v->kind != JSON_STRING || !v->text.len)
            hf_refuse(r, "target_modules", "should be a list of names");
        l->on[l->on_count++] = v->text;
    }
}

enum status lora_config_read(struct str path, struct str text, struct arena *perm,
                             struct lora_config *out, struct str *base, struct err *err)
{
    struct json     *root;
    struct err       why = { 0 };
    struct hf_reader r   = { .path = path, .err = err };
    *out                 = (struct lora_config){ 0 };
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    if (root->kind != JSON_MAP)
        return err_set(err, STATUS_USAGE, "%.*s is not a map of settings", STR_ARG(path));
    r.root = root;
    if (!str_eq(hf_word(&r, "peft_type", ""), STR("LORA")))
        hf_refuse(&r, "peft_type", "is supported only as LORA");
    if (!str_eq(hf_word(&r, "bias", "none"), STR("none")))
        hf_refuse(&r, "bias", "is supported only as none");
    const struct json *init = json_get(root, STR("init_lora_weights"));
    if (init && init->kind != JSON_NULL && !is_one_of(init->text, plain_inits))
        hf_refuse(&r, "init_lora_weights",
                  "is supported only as true, false, gaussian, eva and orthogonal: others change "
                  "the model's own weights");
    for (const struct json *v = root->first; v && !r.status; v = v->next)
        if (!is_one_of(v->key, ignored) && !is_one_of(v->key, known) && !is_nothing(v))
            return err_set(err, STATUS_USAGE, "%.*s: the key \"%.*s\" is not supported",
                           STR_ARG(path), (int)MIN(v->key.len, 80), v->key.data);
    out->rank               = hf_count(&r, "r", 8, LORA_RANK_MAX);
    out->alpha              = hf_number(&r, "lora_alpha", 8);
    out->dropout            = 0;
    const struct json *drop = json_get(root, STR("lora_dropout"));
    if (drop && !(json_f64(drop, &out->dropout) && out->dropout >= 0 && out->dropout < 1))
        hf_refuse(&r, "lora_dropout", "should be at least 0 and below 1");
    if (hf_flag(&r, "use_rslora", false)) out->alpha *= sqrt((f64)out->rank);
    read_targets(&r, out);
    *base = hf_word(&r, "base_model_name_or_path", "");
    return r.status;
}

static const char *const matrices[] = { "h.0.attn.qkv.weight", "h.0.attn.proj.weight",
                                        "h.0.mlp.up.weight", "h.0.mlp.down.weight" };

/* The last `words` words of model.layers.0.self_attn.q_proj.weight before "weight". */
static struct str last_words(struct str tensor, i32 words)
{
    struct str module = str_sub(tensor, 0, tensor.len - STR(".weight").len);
    i64        at     = module.len;
    while (at > 0 && words > 0) words -= module.data[--at] == '.';
    return words ? module : str_sub(module, at + 1, module.len);
}

/* "q_proj"; "mlp.c_proj" in a GPT-2, whose attention has a c_proj, too. */
static struct str target_of(const struct model_config *names, struct str tensor,
                            struct arena scratch)
{
    struct str word = last_words(tensor, 1);
    i64        same = 0;
    for (i64 i = 0; i < COUNT_OF(matrices); i++) {
        struct hf_source m;
        if (!hf_source(names, str_of(matrices[i]), shape_2(2, 1), &scratch, &m)) continue;
        for (i32 k = 0; k < m.count; k++) same += str_eq(last_words(m.name[k], 1), word);
    }
    return same > 1 ? last_words(tensor, 2) : word;
}

/* By name, each once: of every block the same. */
static void add_targets(struct textbuf *b, const struct model_config *names, struct arena scratch)
{
    bool any = false;
    for (i64 i = 0; i < COUNT_OF(matrices); i++) {
        struct hf_source m;
        if (!hf_source(names, str_of(matrices[i]), shape_2(2, 1), &scratch, &m)) continue;
        u32 bits = lora_parts(names, &m, str_of(matrices[i]), NULL);
        for (i32 k = 0; k < m.count; k++) {
            if (!(bits >> k & 1)) continue;
            textbuf_add(b, any ? STR(", ") : STR(""));
            json_add_string(b, target_of(names, m.name[k], scratch));
            any = true;
        }
    }
}

struct str lora_config_write(const struct model_config *names, struct str base, struct arena *perm)
{
    const struct lora_config *l       = &names->lora;
    struct arena              scratch = arena_part(perm, 1 << 16);
    struct textbuf            b       = textbuf_new(perm);
    textbuf_fmt(&b, "{\n  \"base_model_name_or_path\": ");
    if (base.len) json_add_string(&b, base);
    else textbuf_add(&b, STR("null"));
    textbuf_fmt(
        &b, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n",
        names->family == &hf_family_gpt2 ? "true" : "false");
    textbuf_fmt(&b, "  \"lora_alpha\": ");
    json_add_f64(&b, isnan(l->alpha) ? (f64)l->rank : l->alpha);
    textbuf_fmt(&b, ",\n  \"lora_dropout\": ");
    json_add_f64(&b, l->dropout);
    textbuf_fmt(&b, ",\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n  \"target_modules\": [",
                (long long)l->rank);
    add_targets(&b, names, scratch);
    textbuf_fmt(&b, "],\n  \"task_type\": \"CAUSAL_LM\"\n}\n");
    return textbuf_str(&b);
}
