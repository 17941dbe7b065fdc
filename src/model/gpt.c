/* gpt.c - a decoder that predicts the next token (Radford et al. 2019, GPT-2), and by options the
 * blocks that came after it: rms norm, rotary positions, gated or squared-relu networks, grouped
 * keys, qk norm, windows of attention, tables of values, an untied head, a soft cap on the logits.
 *
 *   x = wte[token] + wpe[position]
 *   depth times:  x += attention(norm(x));  x += mlp(norm(x))
 *   logits = norm(x) . wte^T
 *
 * Where the data has the feed `position`, its rows are documents one after the other: attention stays within each, and
 * positions count from the document's first row, so that a document gives the logits that it gives alone. */
#include "model/model_int.h"
#include <math.h>

static const f64 norm_eps = 1e-5; /* as GPT-2 */

enum status gpt_check(const struct model *m, struct err *err)
{
    enum status st = block_check(m, err);
    if (!st) st = check_feed(m, STR("y"), DT_I32, 1, err);
    if (st) return st;
    i64 in = feeds_find(&m->feeds, STR("x"))->range, out = feeds_find(&m->feeds, STR("y"))->range;
    if (m->config.tied && !m->config.vocabulary && in != out)
        st = err_set(err, STATUS_USAGE,
                     "model.tied=true needs one vocabulary, but x has %lld values and y %lld",
                     (long long)in, (long long)out);
    if (!st) st = check_count("model.window", m->config.window, 0, MODEL_WINDOW_MAX, err);
    if (!st)
        st = check_count("model.value_tables", m->config.value_tables, 0, MODEL_DEPTH_MAX, err);
    if (!(m->config.softcap >= 0))
        st = err_set(err, STATUS_USAGE, "model.softcap=%g must not be negative", m->config.softcap);
    return st;
}

static i32 gpt_head(struct builder *b, i32 x)
{
    const struct model_config *c = &b->m->config;
    i64          rows   = c->vocabulary ? c->vocabulary : feeds_find(&b->m->feeds, STR("y"))->range;
    struct shape size   = shape_2(rows, c->width);
    struct init  init   = block_init_or_zero(false, 1);
    i32          weight = part_weight(b, c->tied ? STR("wte") : STR("head"), size, init);
    i32          logits = build_matmul(b->g, STR("head"), x, weight, -1, false, true);
    if (c->softcap > 0) logits = build_softcap(b->g, STR("head.softcap"), logits, c->softcap);
    return logits;
}

/* One position of each sequence: what follows it is asked for, and the head is not computed for the others. */
static void gpt_next(struct builder *b, i32 x)
{
    i64 cached = b->m->config.cached;
    if (b->g->err.status) return;
    struct shape s    = graph_type(b->g, x).shape;
    struct shape rows = shape_2(shape_rows(s), shape_last(s));
    i32 at = cached ? graph_value(b->g, VALUE_INPUT, STR("at"), type_of(DT_I32, shape_1(cached)))
                    : part_input(b, STR("at"));
    x      = build_reshape(b->g, STR("next.rows"), x, rows);
    x      = build_embedding(b->g, STR("next.row"), x, at);
    graph_output(b->g, gpt_head(b, x), STR("logits"));
}

/* The last block and every second one before it, until there are so many (as nanochat). */
static bool has_values(const struct model_config *c, i64 block)
{
    i64 above = c->depth - 1 - block;
    return above % 2 == 0 && above / 2 < c->value_tables;
}

enum status gpt_build(struct builder *b, struct err *err)
{
    const struct model_config *c     = &b->m->config;
    i64                        depth = c->depth;
    struct block               k     = { .causal = true,
                                         .out_scale = 1 / sqrt(2.0 * (f64)depth), /* two additions a block */
                                         .eps       = c->eps > 0 ? c->eps : norm_eps };
    if (feeds_find(&b->m->feeds, STR("position"))) b->position = part_input(b, STR("position"));
    if (b->mode == MODE_EVAL && c->ask == ASK_NEXT && c->cached) block_continue(b);
    i32 x = part_dropout(b, STR("wte"), block_embed(b), c->dropout);

    for (i64 i = 0; i < depth && !b->g->err.status; i++) {
        struct str h = str_fmt(b->g->perm, "h.%lld", (long long)i);
        b->g->block  = (i32)i + 1;
        k.values     = has_values(c, i);
        i32 y        = block_norm(b, part_name(b, h, "ln_1"), x, &k);
        y            = block_attention(b, part_name(b, h, "attn"), y, &k);
        x            = build_binary(b->g, OP_ADD, part_name(b, h, "add_1"), x, y);
        y            = block_norm(b, part_name(b, h, "ln_2"), x, &k);
        y            = block_mlp(b, part_name(b, h, "mlp"), y, &k);
        x            = build_binary(b->g, OP_ADD, part_name(b, h, "add_2"), x, y);
    }
    b->g->block = 0;
    x           = block_norm(b, STR("ln_f"), x, &k);
    if (b->mode == MODE_EVAL && c->ask == ASK_NEXT) gpt_next(b, x);
    else part_loss_classes(b, gpt_head(b, x));
    return graph_status(b->g, err);
}
