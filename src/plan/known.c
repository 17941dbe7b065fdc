/* known.c - parameters and FLOPs of a shape, and the model of ours that stands for it. */
#include "plan/known.h"
#include <math.h>

static const struct known known[] = {
#define KNOWN(n, k, d, w, h, kv, dim, hid, v, c, pos, seg, all, used, ...)                         \
    { .name         = STR_INIT(n),                                                                 \
      .kind         = KNOWN_##k,                                                                   \
      .depth        = d,                                                                           \
      .width        = w,                                                                           \
      .heads        = h,                                                                           \
      .kv_heads     = kv,                                                                          \
      .head_dim     = dim,                                                                         \
      .hidden       = hid,                                                                         \
      .vocabulary   = v,                                                                           \
      .context      = c,                                                                           \
      .positions    = pos,                                                                         \
      .segments     = seg,                                                                         \
      .experts      = all,                                                                         \
      .experts_used = used,                                                                        \
      .traits       = __VA_ARGS__ },
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

const struct known *known_nearest(struct str name, struct arena scratch)
{
    const struct known *best  = NULL;
    i64                 least = MIN(4, 1 + name.len / 2); /* slips of the finger */
    for (i64 i = 0; i < known_count(); i++) {
        i64 d = name.len < 64 ? str_distance(known[i].name, name, arena_part(&scratch, 1 << 14))
                              : least;
        if (d < least) best = &known[i];
        least = MIN(least, d);
    }
    return best;
}

/* ---- counting ---- */

static f64 attention_weights(const struct known *k)
{
    f64 width = (f64)k->width, heads = (f64)k->heads, dim = (f64)k->head_dim;
    if (!k->kv_rank) return width * (2 * heads + 2 * (f64)k->kv_heads) * dim;
    f64 key = dim + (f64)k->rope_dim, value = (f64)k->value_dim, kv = (f64)k->kv_rank;
    f64 q     = (f64)k->query_rank;
    f64 query = k->query_rank ? width * q + q * heads * key : width * heads * key;
    return query + width * (kv + (f64)k->rope_dim) + kv * heads * (dim + value) +
           heads * value * width;
}

/* Of one MLP; of three matrices where it is gated. */
static f64 mlp_weights(const struct known *k, i64 hidden)
{
    return (k->traits & KNOWN_GATED ? 3.0 : 2.0) * (f64)k->width * (f64)hidden;
}

static i64 blocks_of_experts(const struct known *k)
{
    return k->experts > 1 ? k->depth - k->dense_blocks : 0;
}

/* Matrices of all blocks, with so many of each one's experts. */
static f64 matrices_of(const struct known *k, i64 experts)
{
    i64 each   = k->expert_hidden ? k->expert_hidden : k->hidden;
    f64 sparse = (f64)blocks_of_experts(k), dense = (f64)k->depth - sparse;
    f64 gates = (f64)k->experts + (k->traits & KNOWN_SHARED_GATE ? 1 : 0);
    f64 block = (f64)experts * mlp_weights(k, each) + mlp_weights(k, k->shared_hidden) +
                (f64)k->width * gates;
    return (f64)k->depth * attention_weights(k) + dense * mlp_weights(k, k->hidden) +
           sparse * block;
}

/* Biases and norms of a block: what is added, not multiplied. */
static f64 block_vectors(const struct known *k)
{
    f64 norm   = (k->traits & KNOWN_RMS ? 1.0 : 2.0) * (f64)k->width;
    f64 qkv    = (f64)((k->heads + 2 * k->kv_heads) * k->head_dim);
    f64 hidden = (k->traits & KNOWN_GATED ? 2.0 : 1.0) * (f64)k->hidden;
    f64 sum    = (k->traits & KNOWN_NORMS_4 ? 4 : 2) * norm + (f64)(k->kv_rank + k->query_rank);
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
    return matrices_of(k, experts) + (f64)k->depth * block_vectors(k) + outer_parameters(k);
}

f64 known_parameters(const struct known *k) { return parameters_of(k, k->experts); }
f64 known_parameters_used(const struct known *k) { return parameters_of(k, k->experts_used); }

/* Of all heads: the mean of what is compared (queries, keys) and what is added up (values). */
static f64 attention_width(const struct known *k)
{
    f64 value = k->kv_rank ? (f64)k->value_dim : (f64)k->head_dim;
    return (f64)k->heads * ((f64)(k->head_dim + k->rope_dim) + value) / 2;
}

f64 known_attention_part(const struct known *k) { return attention_width(k) / (f64)k->width; }

struct known_flops known_flops_per_token(const struct known *k, i64 context)
{
    bool decoder = k->kind == KNOWN_DECODER;
    bool masked  = k->traits & KNOWN_MASKED;
    f64  head    = decoder || masked ? (f64)k->vocabulary * (f64)k->width : 0;
    f64  scores  = 12 * (f64)k->depth * attention_width(k) * (f64)context;
    if (masked) head += (f64)k->width * (f64)k->width;
    return (struct known_flops){ 6 * (matrices_of(k, k->experts_used) + head),
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

/* An MLP with what a token uses of a block and our attention has not, the mean of all blocks. */
static i64 hidden_of(const struct known *k, i64 heads, i64 kv_heads)
{
    f64 width = (f64)k->width, head = width / (f64)heads;
    f64 ours = width * (2 * width + 2 * (f64)kv_heads * head);
    f64 mlp  = matrices_of(k, k->experts_used) / (f64)k->depth - ours;
    return MAX((i64)(mlp / mlp_weights(k, 1) + 0.5), 1);
}

static void what_differs(const struct known *k, const struct model_config *c, struct textbuf *to)
{
    if (k->experts > 1)
        textbuf_fmt(
            to,
            "; the %lld of %lld experts that a token uses are computed as one MLP, the memory "
            "is that of all",
            (long long)k->experts_used, (long long)k->experts);
    if (k->kv_rank) textbuf_fmt(to, "; attention with low-rank keys and values");
    else if (c->heads != k->heads)
        textbuf_fmt(to, "; %lld heads of %lld instead of %lld, the other weights in the MLP",
                    (long long)c->heads, (long long)(c->width / c->heads), (long long)k->heads);
    if (k->window)
        textbuf_fmt(to, "; attention over the whole sequence, not %lld tokens",
                    (long long)k->window);
    if (k->traits & KNOWN_BIASES && !c->bias) textbuf_fmt(to, "; its biases are left out");
    if (k->traits & KNOWN_NORMS_4) textbuf_fmt(to, "; two norms per block instead of four");
    if (k->traits & KNOWN_QK_NORM) textbuf_fmt(to, "; a norm of queries and keys without weights");
    if (c->masked) textbuf_fmt(to, "; no segments");
    else if (k->kind == KNOWN_ENCODER)
        textbuf_fmt(to, "; a classifier of two classes; no segments");
}

enum status known_model_new(const struct known *k, i64 depth, i64 context,
                            const struct lora_config *lora, struct arena *perm, struct model **out,
                            struct str *differs, struct err *err)
{
    bool                decoder = k->kind == KNOWN_DECODER;
    i64                 heads   = MAX(k->width / k->head_dim, 1);
    struct textbuf      words   = textbuf_new(perm);
    struct model_config c       = {
              .kind       = decoder ? STR("gpt") : STR("encoder"),
              .depth      = depth,
              .width      = k->width,
              .heads      = divisor_at_most(k->width, heads),
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
    if (lora) c.lora = *lora;
    c.kv_heads = divisor_at_most(c.heads, k->kv_heads);
    c.hidden   = hidden_of(k, c.heads, c.kv_heads);
    what_differs(k, &c, &words);
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
