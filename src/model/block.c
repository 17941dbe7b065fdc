/* block.c - what gpt and encoder share: embeddings, attention and the two-matrix network.
 *
 *   x -> qkv (one matrix: query heads, key heads, value heads) -> qk norm -> rotary
 *     -> attention -> proj                       x -> up -> activation -> down
 *
 * The order of norms and additions around them is the model's own. */
#include "model/model_int.h"
#include <math.h>

static const f64 init_std    = 0.02;
static const f64 qk_norm_eps = 1e-6;
static const i64 swiglu_step = 64; /* widths that suit the matrix product's tiles */

struct init block_init(f64 scale) { return (struct init){ INIT_NORMAL, init_std * scale }; }

struct init block_init_or_zero(bool zero, f64 scale)
{
    return zero ? (struct init){ INIT_ZERO, 0 } : block_init(scale);
}

static i64 kv_heads(const struct model *m)
{
    return m->config.kv_heads ? m->config.kv_heads : m->config.heads;
}

static i64 head_dim_of(const struct model_config *c)
{
    return c->head_dim ? c->head_dim : c->width / c->heads;
}

static bool is_word(struct str s, const char *word) { return str_eq(s, str_of(word)); }

/* The usual 4 x width; a gated network has three matrices instead of two, so two thirds of that
 * cost the same (Shazeer 2020). */
i64 block_hidden(const struct model_config *c)
{
    if (c->hidden) return c->hidden;
    if (!is_word(c->activation, "swiglu")) return 4 * c->width;
    return (8 * c->width / 3 + swiglu_step - 1) / swiglu_step * swiglu_step;
}

static enum status check_heads(const struct model_config *c, struct err *err)
{
    if (!c->head_dim && c->width % c->heads)
        return err_set(err, STATUS_USAGE, "model.heads=%lld does not divide model.width=%lld",
                       (long long)c->heads, (long long)c->width);
    if (c->kv_heads && c->heads % c->kv_heads)
        return err_set(err, STATUS_USAGE, "model.kv_heads=%lld does not divide model.heads=%lld",
                       (long long)c->kv_heads, (long long)c->heads);
    i64  head_dim = head_dim_of(c);
    bool pairs    = c->qk_norm || is_word(c->positions, "rotary");
    if (pairs && head_dim % 2)
        return err_set(err, STATUS_USAGE,
                       "model.width/model.heads=%lld must be even for rotary positions and qk_norm",
                       (long long)head_dim);
    if (is_word(c->positions, "rotary") && !(c->rope_base > 1))
        return err_set(err, STATUS_USAGE, "model.rope_base=%g must be above 1", c->rope_base);
    return STATUS_OK;
}

/* A model that was trained before has so many tokens and positions, and no more. */
static enum status check_data(const struct model *m, struct err *err)
{
    const struct model_config *c = &m->config;
    const struct feed         *x = feeds_find(&m->feeds, STR("x"));
    i64 length = x->type.shape.dim[0], most = c->places ? c->places - c->first_place : c->context;
    if (c->vocabulary && x->range > c->vocabulary)
        return err_set(err, STATUS_USAGE,
                       "the data has tokens up to %lld, and the vocabulary of %.*s %lld; tokenize "
                       "the text with the model's own tokenizer",
                       (long long)x->range - 1, STR_ARG(c->path), (long long)c->vocabulary);
    if (most && length > most)
        return err_set(err, STATUS_USAGE,
                       "data.context=%lld is more than the %lld positions of %.*s",
                       (long long)length, (long long)most, STR_ARG(c->path));
    return STATUS_OK;
}

enum status block_check(const struct model *m, struct err *err)
{
    const struct model_config *c  = &m->config;
    enum status                st = check_feed(m, STR("x"), DT_I32, 1, err);
    if (!st) st = check_count("model.depth", c->depth, 1, MODEL_DEPTH_MAX, err);
    if (!st) st = check_count("model.width", c->width, 1, MODEL_COUNT_MAX, err);
    if (!st) st = check_count("model.heads", c->heads, 1, MODEL_COUNT_MAX, err);
    if (!st) st = check_count("model.kv_heads", c->kv_heads, 0, MODEL_COUNT_MAX, err);
    if (!st) st = check_count("model.hidden", c->hidden, 0, MODEL_COUNT_MAX, err);
    if (!st) st = check_word("model.norm", c->norm, "layer rms", err);
    if (!st) st = check_word("model.positions", c->positions, "learned rotary", err);
    if (!st)
        st = check_word("model.activation", c->activation, "gelu gelu_erf relu2 swiglu relu silu",
                        err);
    if (!st) st = check_heads(c, err);
    return st ? st : check_data(m, err);
}

static bool is_cached(const struct builder *b) { return b->cached.sequence >= 0; }
/* x is rows with places of their own instead of [batch, T]. */
static bool is_packed(const struct builder *b) { return b->rows.offsets >= 0 || is_cached(b); }
static i32  places(const struct builder *b)
{
    return is_cached(b) ? b->cached.place : b->rows.position;
}

void block_continue(struct builder *b)
{
    struct type one     = type_of(DT_I32, shape_1(b->batch));
    b->cached.sequences = b->m->config.cached;
    b->cached.length    = feeds_find(&b->m->feeds, STR("x"))->type.shape.dim[0];
    b->rows.tokens      = graph_value(b->g, VALUE_INPUT, STR("x"), one);
    b->cached.place     = graph_value(b->g, VALUE_INPUT, STR("place"), one);
    b->cached.sequence  = graph_value(b->g, VALUE_INPUT, STR("sequence"), one);
}

void block_pack(struct builder *b)
{
    /* One after the other: which argument of a call is evaluated first is the compiler's choice. */
    i32 lens = part_input(b, STR("lens")), x = part_input(b, STR("x"));
    b->rows = build_pack(b->g, STR("pack"), x, lens);
}

i32 block_first(struct builder *b, i32 x)
{
    i32 first       = build_slice(b->g, STR("first"), b->rows.offsets, 0, 0, b->batch);
    b->rows.offsets = -1;
    return build_embedding(b->g, STR("first.row"), x, first);
}

/* The rows of the table of positions from the first that is used on. */
static i32 places_used(struct builder *b, i32 wpe, i64 places)
{
    i64 first = b->m->config.first_place;
    return first ? build_slice(b->g, STR("wpe.used"), wpe, 0, first, places - first) : wpe;
}

/* Of one text all tokens are of the first type. */
static i32 add_type(struct builder *b, i32 x)
{
    i64 width = b->m->config.width, types = b->m->config.types;
    if (!types) return x;
    i32 wtt = part_weight(b, STR("wtt"), shape_2(types, width), block_init(1));
    wtt     = build_slice(b->g, STR("wtt.first"), wtt, 0, 0, 1);
    wtt     = build_reshape(b->g, STR("wtt.row"), wtt, shape_1(width));
    return build_binary(b->g, OP_ADD, STR("wtt"), x, wtt);
}

i32 block_embed(struct builder *b)
{
    const struct feed *x     = feeds_find(&b->m->feeds, STR("x"));
    i64                width = b->m->config.width, context = x->type.shape.dim[0];
    i64                rows  = b->m->config.vocabulary ? b->m->config.vocabulary : x->range;
    i64                table = b->m->config.places ? b->m->config.places : context;
    i32                wte   = part_weight(b, STR("wte"), shape_2(rows, width), block_init(1));
    i32                ids   = is_packed(b) ? b->rows.tokens : part_input(b, STR("x"));
    i32                y     = build_embedding(b->g, STR("wte"), wte, ids);
    if (!is_word(b->m->config.positions, "learned")) return y;
    i32 wpe = part_weight(b, STR("wpe"), shape_2(table, width), block_init(1));
    i32 at  = is_packed(b) ? places(b) : b->position;
    wpe     = places_used(b, wpe, table);
    table -= b->m->config.first_place;
    if (at >= 0) wpe = build_embedding(b->g, STR("wpe.rows"), wpe, at);
    else if (table != context) wpe = build_slice(b->g, STR("wpe.first"), wpe, 0, 0, context);
    return add_type(b, build_binary(b->g, OP_ADD, STR("wpe"), y, wpe));
}

i32 block_norm(struct builder *b, struct str path, i32 x, const struct block *k)
{
    return is_word(b->m->config.norm, "rms") ? part_rmsnorm(b, path, x, k->eps)
                                             : part_layernorm(b, path, x, k->eps);
}

/* Norm and rotation of heads, which know sequences: packed rows are one, with positions of their own; so
 * have documents. */
static i32 block_heads(struct builder *b, struct str path, i32 x, i64 heads, i64 head_dim)
{
    const struct model_config *c    = &b->m->config;
    struct graph              *g    = b->g;
    bool                       turn = is_word(c->positions, "rotary");
    if (g->err.status || (!c->qk_norm && !turn)) return x;
    struct shape was = graph_type(g, x).shape;
    i32          at  = b->position;
    if (is_packed(b)) {
        x  = build_reshape(g, part_name(b, path, "one"), x, shape_3(1, was.dim[0], was.dim[1]));
        at = build_reshape(g, part_name(b, path, "at"), places(b), shape_2(1, was.dim[0]));
    }
    if (c->qk_norm)
        x = build_qknorm(g, part_name(b, path, "qknorm"), x, heads, head_dim, qk_norm_eps);
    if (turn)
        x = build_rope(g, part_name(b, path, "rope"), x, at, heads, head_dim, c->rope_base,
                       c->rope_scaling);
    return build_reshape(g, part_name(b, path, "rows"), x, was);
}

/* Queries and keys normalised by head, each with one weight for all heads (Qwen3). */
static i32 normed_heads(struct builder *b, struct str path, i32 x, i64 heads, i64 kv, i64 head_dim,
                        f64 eps)
{
    static const char *const leaf[] = { "q_norm", "k_norm", "v" };
    struct graph            *g      = b->g;
    i64                      of[] = { heads, kv, kv }, from = 0;
    i32                      part[3];
    if (g->err.status) return -1;
    struct shape s    = graph_type(g, x).shape;
    i32          axis = s.rank - 1;
    for (i32 i = 0; i < 3; i++) {
        struct str name  = part_name(b, path, leaf[i]);
        i64        width = of[i] * head_dim, rows = shape_rows(s);
        part[i] = build_slice(g, part_name(b, name, "slice"), x, axis, from, width);
        from += width;
        if (i == 2) continue;
        s.dim[axis] = width;
        part[i] =
            build_reshape(g, part_name(b, name, "heads"), part[i], shape_2(rows * of[i], head_dim));
        part[i] = part_rmsnorm(b, name, part[i], eps);
        part[i] = build_reshape(g, part_name(b, name, "rows"), part[i], s);
    }
    return build_concat(g, part_name(b, path, "qkv.normed"), part, 3, axis);
}

/* Each token's values plus a row that only its number decides (Zhou et al. 2024; modded-nanogpt's value embeddings):
 * what a token passes on need not be carried by the residual stream. A table has no product to pay for. */
static i32 add_values(struct builder *b, struct str path, i32 x, i64 before, i64 width)
{
    const struct model_config *c = &b->m->config;
    struct graph              *g = b->g;
    i64        rows  = c->vocabulary ? c->vocabulary : feeds_find(&b->m->feeds, STR("x"))->range;
    struct str name  = part_name(b, path, "values");
    i32        table = part_weight(b, name, shape_2(rows, width), block_init(1));
    i32        ids   = is_packed(b) ? b->rows.tokens : part_input(b, STR("x"));
    i32        part[2];
    if (g->err.status) return -1;
    i32 axis = graph_type(g, x).shape.rank - 1;
    part[0]  = build_slice(g, part_name(b, name, "others"), x, axis, 0, before);
    part[1]  = build_slice(g, part_name(b, name, "own"), x, axis, before, width);
    part[1]  = build_binary(g, OP_ADD, part_name(b, name, "add"), part[1],
                            build_embedding(g, name, table, ids));
    return build_concat(g, part_name(b, name, "qkv"), part, 2, axis);
}

i32 block_attention(struct builder *b, struct str path, i32 x, const struct block *k)
{
    const struct model_config *c     = &b->m->config;
    struct graph              *g     = b->g;
    i64                        heads = c->heads, kv = kv_heads(b->m), head_dim = head_dim_of(c);
    struct dense packed = { (heads + 2 * kv) * head_dim, c->bias || c->bias_qkv, block_init(1) };
    struct dense proj   = { c->width, c->bias || c->bias_proj,
                            block_init_or_zero(c->zero_init, k->out_scale) };

    x = part_dense(b, part_name(b, path, "qkv"), x, packed);
    part_packed(b, part_name(b, path, "qkv"), heads * head_dim, kv * head_dim, kv * head_dim);
    if (k->values) x = add_values(b, path, x, (heads + kv) * head_dim, kv * head_dim);
    if (c->qk_weights) x = normed_heads(b, path, x, heads, kv, head_dim, k->eps);
    x                 = block_heads(b, path, x, heads + kv, head_dim);
    struct seeing how = { k->causal, c->window, b->mode == MODE_EVAL ? 0 : c->attention_dropout,
                          0 };
    if (is_cached(b)) x = build_attention_cached(g, path, x, &b->cached, heads, kv, c->window);
    else if (is_packed(b)) x = build_attention_packed(g, path, x, &b->rows, heads, kv, how);
    else x = build_attention(g, path, x, b->position, heads, kv, how);
    x = part_dense(b, part_name(b, path, "proj"), x, proj);
    return part_dropout(b, path, x, c->dropout);
}

i32 block_mlp(struct builder *b, struct str path, i32 x, const struct block *k)
{
    const struct model_config *c    = &b->m->config;
    i32                        op   = OP_SWIGLU;
    bool                       gate = !part_activation_find(c->activation, &op);
    bool                       bias = c->bias || c->bias_mlp;
    struct dense               up   = { block_hidden(c) * (gate ? 2 : 1), bias, block_init(1) };
    struct dense down = { c->width, bias, block_init_or_zero(c->zero_init, k->out_scale) };

    x = part_dense(b, part_name(b, path, "up"), x, up);
    if (gate) part_packed(b, part_name(b, path, "up"), block_hidden(c), block_hidden(c), 0);
    x = build_unary(b->g, op, part_name(b, path, "act"), x);
    x = part_dense(b, part_name(b, path, "down"), x, down);
    return part_dropout(b, path, x, c->dropout);
}
