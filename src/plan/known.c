/* known.c - parameters and FLOPs of a shape, and the model of ours that stands for it. */
#include "plan/known.h"
#include <math.h>

static const struct known known[] = {
#define KNOWN(name, kind, depth, width, heads, kv, head_dim, hidden, vocabulary, context,          \
              positions, segments, experts, used, traits)                                          \
    { STR_INIT(name), KNOWN_##kind, depth,     width,    heads,   kv,   head_dim, hidden,          \
      vocabulary,     context,      positions, segments, experts, used, traits },
#include "plan/known.def"
#undef KNOWN
};

i64                 known_count(void) { return COUNT_OF(known); }
const struct known *known_at(i64 index) { return &known[index]; }

static char plain(char c)
{
    if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return c == '.' || c == '_' ? '-' : c;
}

static bool alike(struct str a, struct str b)
{
    if (a.len != b.len) return false;
    for (i64 i = 0; i < a.len; i++)
        if (plain(a.data[i]) != plain(b.data[i])) return false;
    return true;
}

const struct known *known_find(struct str name)
{
    struct str owner;
    while (str_find(name, '/') >= 0) str_cut(&name, '/', &owner);
    for (i64 i = 0; i < known_count(); i++)
        if (alike(known[i].name, name)) return &known[i];
    return NULL;
}

/* ---- counting ---- */

static f64 attention_weights(const struct known *k)
{
    return (f64)k->width * (f64)(2 * k->heads + 2 * k->kv_heads) * (f64)k->head_dim;
}

static f64 mlp_weights(const struct known *k) /* of one expert */
{
    return (k->traits & KNOWN_GATED ? 3.0 : 2.0) * (f64)k->width * (f64)k->hidden;
}

static f64 router_weights(const struct known *k)
{
    return k->experts > 1 ? (f64)k->width * (f64)k->experts : 0;
}

/* Biases and norms of a block: what is added, not multiplied. */
static f64 block_vectors(const struct known *k)
{
    f64 norm   = (k->traits & KNOWN_RMS ? 1.0 : 2.0) * (f64)k->width;
    f64 qkv    = (f64)((k->heads + 2 * k->kv_heads) * k->head_dim);
    f64 hidden = (k->traits & KNOWN_GATED ? 2.0 : 1.0) * (f64)k->hidden;
    f64 sum    = 2 * norm;
    if (k->traits & KNOWN_BIAS_QKV) sum += qkv;
    if (k->traits & KNOWN_BIAS_OUT) sum += (f64)k->width;
    if (k->traits & KNOWN_BIAS_MLP) sum += (f64)k->experts * (hidden + (f64)k->width);
    if (k->traits & KNOWN_QK_NORM) sum += 2 * (f64)k->head_dim;
    return sum;
}

/* Embeddings, the norm before or behind all blocks, an untied head, the pooler. */
static f64 outer_parameters(const struct known *k)
{
    f64 rows = (f64)(k->vocabulary + k->positions + k->segments);
    f64 sum  = rows * (f64)k->width + (k->traits & KNOWN_RMS ? 1.0 : 2.0) * (f64)k->width;
    if (!(k->traits & KNOWN_TIED)) sum += (f64)k->vocabulary * (f64)k->width;
    if (k->traits & KNOWN_POOLER) sum += (f64)k->width * (f64)(k->width + 1);
    if (k->traits & KNOWN_MASKED)
        sum += (f64)k->width * (f64)(k->width + 1) + 2 * (f64)k->width + (f64)k->vocabulary;
    return sum;
}

static f64 parameters_of(const struct known *k, i64 experts)
{
    f64 block = attention_weights(k) + router_weights(k) + (f64)experts * mlp_weights(k);
    return (f64)k->depth * (block + block_vectors(k)) + outer_parameters(k);
}

f64 known_parameters(const struct known *k) { return parameters_of(k, k->experts); }
f64 known_parameters_used(const struct known *k) { return parameters_of(k, k->experts_used); }

struct known_flops known_flops_per_token(const struct known *k, i64 context)
{
    bool decoder = k->kind == KNOWN_DECODER;
    f64  block   = attention_weights(k) + router_weights(k) + (f64)k->experts_used * mlp_weights(k);
    bool masked  = k->traits & KNOWN_MASKED;
    f64  head    = decoder || masked ? (f64)k->vocabulary * (f64)k->width : 0;
    if (masked) head += (f64)k->width * (f64)k->width;
    f64 scores = 12 * (f64)k->depth * (f64)(k->heads * k->head_dim) * (f64)context;
    return (struct known_flops){ 6 * ((f64)k->depth * block + head),
                                 decoder ? scores / 2 : scores };
}

/* ---- as a model of ours ---- */

static i64 divisor_at_most(i64 of, i64 most)
{
    while (most > 1 && of % most) most--;
    return most;
}

static struct feed feed_of(struct str name, i32 rank, i64 count, i64 range)
{
    return (struct feed){ name, { DT_I32, { .rank = rank, .dim = { count } } }, range };
}

enum status known_model_new(const struct known *k, i64 context, struct arena *perm,
                            struct model **out, struct str *differs, struct err *err)
{
    bool                decoder = k->kind == KNOWN_DECODER;
    i64                 heads   = MAX(k->width / k->head_dim, 1);
    struct textbuf      words   = textbuf_new(perm);
    struct model_config c       = {
              .kind       = decoder ? STR("gpt") : STR("encoder"),
              .depth      = k->depth,
              .width      = k->width,
              .heads      = divisor_at_most(k->width, heads),
              .hidden     = k->hidden * k->experts_used,
              .norm       = k->traits & KNOWN_RMS ? STR("rms") : STR("layer"),
              .positions  = k->positions ? STR("learned") : STR("rotary"),
              .activation = k->traits & KNOWN_GATED ? STR("swiglu") : STR("gelu"),
              .tied       = k->traits & KNOWN_TIED,
              .bias       = (k->traits & KNOWN_BIASES) == KNOWN_BIASES,
              .qk_norm    = k->traits & KNOWN_QK_NORM,
              .rope_base  = 10000,
              .dtype      = DT_F32,
    };
    struct feeds feeds = { 0 };
    c.masked           = k->traits & KNOWN_MASKED;
    c.kv_heads         = divisor_at_most(c.heads, k->kv_heads);
    if (c.heads != k->heads)
        textbuf_fmt(&words, "; %lld heads of %lld instead of %lld", (long long)c.heads,
                    (long long)(c.width / c.heads), (long long)k->heads);
    if (k->experts > 1)
        textbuf_fmt(&words,
                    "; the %lld of %lld experts that a token uses are one MLP, the others "
                    "are left out",
                    (long long)k->experts_used, (long long)k->experts);
    if (k->traits & KNOWN_BIASES && !c.bias) textbuf_fmt(&words, "; its biases are left out");
    if (k->traits & KNOWN_QK_NORM)
        textbuf_fmt(&words, "; a norm of queries and keys without weights");
    if (c.masked) textbuf_fmt(&words, "; no segments");
    else if (!decoder) textbuf_fmt(&words, "; a classifier of two classes; no segments");
    *differs                  = str_sub(textbuf_str(&words), 2, words.len);
    feeds.feed[feeds.count++] = feed_of(STR("x"), 1, context, k->vocabulary);
    if (decoder || c.masked)
        feeds.feed[feeds.count++] = feed_of(STR("y"), 1, context, k->vocabulary);
    else {
        feeds.feed[feeds.count++] = feed_of(STR("lens"), 0, 0, 0);
        feeds.feed[feeds.count++] = feed_of(STR("y"), 0, 0, 2);
    }
    return model_new(perm, &c, &feeds, out, err);
}
