/* encoder.c - a classifier of sequences (Devlin et al. 2019, BERT): every position reads every
 * other, the norm follows the addition, and the first position stands for the whole.
 *
 *   x = norm(wte[token] + wpe[position])
 *   depth times:  x = norm(x + attention(x));  x = norm(x + mlp(x))
 *   logits = classifier(tanh(pooler(x at position 0)))
 *   or, where the target is a token at every position (as BERT was trained; no data of ours has it, plans do):
 *   logits = norm(gelu(transform(x))) . wte^T + bias
 *
 * BERT puts a token [CLS] first. Data that has none loses little: position 0 knows by its
 * position that it is the one to be asked, and reads all the others. Positions at or after `lens`
 * are padding: the rows before it are packed one sequence after the other, and the model works on
 * these alone. */
#include "model/model_int.h"

static const f64 norm_eps = 1e-12; /* as BERT */

enum status encoder_check(const struct model *m, struct err *err)
{
    enum status st = block_check(m, err);
    if (!st && m->config.masked) return check_feed(m, STR("y"), DT_I32, 1, err);
    if (!st) st = check_feed(m, STR("lens"), DT_I32, 0, err);
    if (!st) st = check_feed(m, STR("y"), DT_I32, 0, err);
    i64 classes = st ? 0 : feeds_find(&m->feeds, STR("y"))->range;
    if (m->config.classes && classes > m->config.classes)
        st = err_set(err, STATUS_USAGE, "the data has %lld classes, and %.*s was trained for %lld",
                     (long long)classes, STR_ARG(m->config.path), (long long)m->config.classes);
    return st;
}

static i32 masked_head(struct builder *b, i32 x, const struct block *k)
{
    i64          width = b->m->config.width, words = feeds_find(&b->m->feeds, STR("y"))->range;
    struct dense first = { width, true, block_init(1) };
    x = build_unary(b->g, OP_GELU, STR("transform.act"), part_dense(b, STR("transform"), x, first));
    x = block_norm(b, STR("transform.norm"), x, k);
    i32 weight = part_weight(b, STR("wte"), shape_2(words, width), block_init(1));
    i32 bias   = part_vector(b, STR("head"), "bias", words, 0);
    return build_matmul(b->g, STR("head"), x, weight, bias, false, true);
}

static i32 encoder_head(struct builder *b, i32 x)
{
    const struct model_config *c = &b->m->config;
    i64          classes = c->classes ? c->classes : feeds_find(&b->m->feeds, STR("y"))->range;
    struct dense pooler  = { c->width, true, block_init(1) };
    struct dense last    = { classes, true, block_init(1) };
    i32          act     = OP_TANH;
    if (c->pooler.len) part_activation_find(c->pooler, &act);

    x = block_first(b, x);
    x = build_unary(b->g, act, STR("pooler.act"), part_dense(b, STR("pooler"), x, pooler));
    x = part_dropout(b, STR("pooler"), x, c->dropout);
    return part_dense(b, STR("classifier"), x, last);
}

enum status encoder_build(struct builder *b, struct err *err)
{
    struct block k = { .causal = false, .out_scale = 1, .eps = norm_eps };
    if (b->m->config.eps > 0) k.eps = b->m->config.eps;
    bool masked = b->m->config.masked;
    if (!masked) block_pack(b);
    i32 x = block_norm(b, STR("ln_emb"), block_embed(b), &k);
    x     = part_dropout(b, STR("wte"), x, b->m->config.dropout);

    for (i64 i = 0; i < b->m->config.depth && !b->g->err.status; i++) {
        struct str h = str_fmt(b->g->perm, "h.%lld", (long long)i);
        b->g->block  = (i32)i + 1;
        i32 y        = block_attention(b, part_name(b, h, "attn"), x, &k);
        y            = build_binary(b->g, OP_ADD, part_name(b, h, "add_1"), x, y);
        x            = block_norm(b, part_name(b, h, "ln_1"), y, &k);
        y            = block_mlp(b, part_name(b, h, "mlp"), x, &k);
        y            = build_binary(b->g, OP_ADD, part_name(b, h, "add_2"), x, y);
        x            = block_norm(b, part_name(b, h, "ln_2"), y, &k);
    }
    b->g->block = 0;
    part_loss_classes(b, masked ? masked_head(b, x, &k) : encoder_head(b, x));
    return graph_status(b->g, err);
}
