/* known_read.c - a Hugging Face config.json as a shape. Each model_type is a row: what its fields are
 * called, what they are when left out, and which traits its code has without saying so. */
#include "base/json.h"
#include "plan/known.h"

struct names { /* of fields, one way and the other */
    const char *depth, *width, *heads, *hidden, *context;
};
static const struct names names_new = { "num_hidden_layers", "hidden_size", "num_attention_heads",
                                        "intermediate_size", "max_position_embeddings" };
static const struct names names_old = { "n_layer", "n_embd", "n_head", "n_inner", "n_positions" };

static const struct type_row {
    const char         *type;
    const struct names *names;
    enum known_kind     kind;
    bool                learned; /* positions */
    u32                 traits;  /* KNOWN_TIED: unless tie_word_embeddings says otherwise */
} type_rows[] = {
    { "gpt2", &names_old, KNOWN_DECODER, true, KNOWN_TIED | KNOWN_BIASES },
    { "gpt_neox", &names_new, KNOWN_DECODER, false, KNOWN_BIASES },
    { "llama", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS },
    { "mistral", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS },
    { "mixtral", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS },
    { "qwen2", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS | KNOWN_BIAS_QKV },
    { "qwen3", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS | KNOWN_QK_NORM },
    { "gemma", &names_new, KNOWN_DECODER, false, KNOWN_GATED | KNOWN_RMS | KNOWN_TIED },
    { "bert", &names_new, KNOWN_ENCODER, true, KNOWN_TIED | KNOWN_BIASES | KNOWN_POOLER },
    { "roberta", &names_new, KNOWN_ENCODER, true, KNOWN_TIED | KNOWN_BIASES | KNOWN_POOLER },
};

enum { COUNT_MAX = 1 << 24, DEPTH_MAX = 1024, CONTEXT_USUAL_MAX = 8192 };

struct reader {
    const struct json *root;
    struct str         path;
    enum status        status; /* sticky */
    struct err        *err;
};

/* A whole number of at least 1; `usual` where it is left out or null. */
static i64 field(struct reader *r, const char *name, i64 usual, i64 most)
{
    const struct json *v     = json_get(r->root, str_of(name));
    i64                value = usual;
    if (r->status) return 1;
    bool given = v && v->kind != JSON_NULL;
    if ((given && !json_i64(v, &value)) || value < 1 || value > most) {
        r->status =
            err_set(r->err, STATUS_USAGE, "%.*s: \"%s\" should be a whole number from 1 to %lld",
                    STR_ARG(r->path), name, (long long)most);
        return 1;
    }
    return value;
}

static bool flag(const struct reader *r, const char *name, bool usual)
{
    const struct json *v = json_get(r->root, str_of(name));
    return v && v->kind == JSON_BOOL ? str_eq(v->text, STR("true")) : usual;
}

static enum status unknown_type(const struct reader *r, struct str type)
{
    char           lent[256];
    struct arena   scratch = { (u8 *)lent, (u8 *)lent + sizeof lent, NULL };
    struct textbuf b       = textbuf_new(&scratch);
    for (i64 i = 0; i < COUNT_OF(type_rows); i++)
        textbuf_fmt(&b, "%s%s", i ? ", " : "", type_rows[i].type);
    return err_set(r->err, STATUS_USAGE,
                   "%.*s: model_type \"%.*s\" is not supported; supported are %.*s",
                   STR_ARG(r->path), (int)MIN(type.len, 40), type.data, STR_ARG(textbuf_str(&b)));
}

/* "BertForMaskedLM" predicts tokens at every position; what classifies, or is a BertModel alone, reads the first. */
static u32 with_head(const struct reader *r, u32 traits)
{
    const struct json *list = json_get(r->root, STR("architectures"));
    struct str name = list && list->kind == JSON_LIST && list->first ? list->first->text : STR("");
    if (str_ends(name, STR("ForPreTraining"))) return traits | KNOWN_MASKED;
    if (!str_ends(name, STR("ForMaskedLM"))) return traits;
    return (traits | KNOWN_MASKED) & ~(u32)KNOWN_POOLER;
}

static void read_shape(struct reader *r, const struct type_row *t, struct known *k)
{
    const struct names *n = t->names;
    k->kind               = t->kind;
    k->depth              = field(r, n->depth, 0, DEPTH_MAX);
    k->width              = field(r, n->width, 0, COUNT_MAX);
    k->heads              = field(r, n->heads, 0, COUNT_MAX);
    k->kv_heads           = field(r, "num_key_value_heads", k->heads, k->heads);
    k->head_dim           = field(r, "head_dim", k->width / k->heads, COUNT_MAX);
    k->hidden             = field(r, n->hidden, 4 * k->width, 4 * (i64)COUNT_MAX);
    k->vocabulary         = field(r, "vocab_size", 0, COUNT_MAX);
    k->context            = field(r, n->context, CONTEXT_USUAL_MAX, COUNT_MAX);
    k->positions          = t->learned ? k->context : 0;
    k->context      = MIN(k->context, CONTEXT_USUAL_MAX); /* it may read more than it learnt from */
    k->experts      = field(r, "num_local_experts", 1, COUNT_MAX);
    k->experts_used = field(r, "num_experts_per_tok", 1, k->experts);
    if (t->kind == KNOWN_ENCODER) k->segments = field(r, "type_vocab_size", 2, COUNT_MAX);
    k->traits = t->traits & ~(u32)KNOWN_TIED;
    if (flag(r, "tie_word_embeddings", t->traits & KNOWN_TIED)) k->traits |= KNOWN_TIED;
    if (t->kind == KNOWN_ENCODER) k->traits = with_head(r, k->traits);
    if (flag(r, "attention_bias", false)) k->traits |= KNOWN_BIAS_QKV | KNOWN_BIAS_OUT;
    if (flag(r, "mlp_bias", false)) k->traits |= KNOWN_BIAS_MLP;
}

enum status known_read(struct str path, struct str text, struct arena *perm, struct known *out,
                       struct err *err)
{
    struct json  *root;
    struct err    why = { 0 };
    struct reader r   = { .path = path, .err = err };
    *out              = (struct known){ .name = path };
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    r.root                  = root;
    const struct json *v    = json_get(root, STR("model_type"));
    struct str         type = v && v->kind == JSON_STRING ? v->text : STR("");
    i64                i    = 0;
    while (i < COUNT_OF(type_rows) && !str_eq(type, str_of(type_rows[i].type))) i++;
    if (i == COUNT_OF(type_rows)) return unknown_type(&r, type);
    read_shape(&r, &type_rows[i], out);
    return r.status;
}
