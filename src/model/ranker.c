/* ranker.c - the chance of a click from categories and numbers: one row of a table for each
 * category, all of them beside the numbers, and a stack of dense layers on top (the deep half of
 * Cheng et al. 2016, Wide & Deep).
 *
 *   x i32[columns] -> table rows -> [columns * table_width] ++ dense -> mlp... -> one logit
 *
 * The columns share one table: the data adds to each its own offset. */
#include "model/model_int.h"
#include <math.h>

enum status ranker_check(const struct model *m, struct err *err)
{
    const struct model_config *c = &m->config;
    if (!feeds_find(&m->feeds, STR("x")) && feeds_find(&m->feeds, STR("dense")))
        return err_set(err, STATUS_USAGE,
                       "model.kind=ranker needs columns of categories: set data.categorical, or "
                       "use model.kind=layers for numbers alone");
    enum status st = check_feed(m, STR("x"), DT_I32, 1, err);
    if (!st) st = check_feed(m, STR("y"), DT_F32, 0, err);
    if (!st && feeds_find(&m->feeds, STR("dense")))
        st = check_feed(m, STR("dense"), DT_F32, 1, err);
    if (!st) st = check_count("model.table_width", c->table_width, 1, MODEL_COUNT_MAX, err);
    ASSERT(c->mlp_count >= 0 && c->mlp_count <= COUNT_OF(c->mlp));
    for (i64 i = 0; !st && i < c->mlp_count; i++)
        st = check_count("model.mlp", c->mlp[i], 1, MODEL_COUNT_MAX, err);
    return st;
}

/* Every category's row, then the numbers: [batch, columns * table_width + numbers]. */
static i32 ranker_inputs(struct builder *b)
{
    const struct feed *f     = feeds_find(&b->m->feeds, STR("x"));
    i64                width = b->m->config.table_width;
    struct init        init  = { INIT_NORMAL, 1 / sqrt((f64)width) };
    i32                table = part_weight(b, STR("table"), shape_2(f->range, width), init);
    bool               low   = b->m->config.table_dtype == DT_BF16;
    if (table >= 0 && low) b->g->values[table].type.dtype = DT_BF16;
    i32 rows = build_embedding(b->g, STR("table"), table, part_input(b, STR("x")));
    if (low) rows = build_cast(b->g, STR("table.wide"), rows, b->m->config.dtype);
    if (table >= 0) b->g->values[table].decay = false; /* else rows never seen would fade */
    if (table >= 0) b->g->values[table].table = true;
    rows = build_reshape(b->g, STR("table.row"), rows,
                         shape_2(b->batch, f->type.shape.dim[0] * width));
    if (!feeds_find(&b->m->feeds, STR("dense"))) return rows;
    i32 both[] = { rows, part_float(b, part_input(b, STR("dense"))) };
    return build_concat(b->g, STR("concat"), both, 2, 1);
}

enum status ranker_build(struct builder *b, struct err *err)
{
    const struct model_config *c = &b->m->config;
    i32                        x = ranker_inputs(b);
    for (i64 i = 0; i <= c->mlp_count; i++) {
        bool         last  = i == c->mlp_count;
        struct str   path  = str_fmt(b->g->perm, "mlp.%lld", (long long)i);
        i64          units = last ? 1 : c->mlp[i];
        struct dense d     = { units, true, part_glorot(shape_last(part_sample(b, x)), units) };
        x                  = part_dense(b, path, x, d);
        if (!last) x = build_unary(b->g, OP_RELU, part_name(b, path, "act"), x);
    }
    part_loss_clicks(b, build_reshape(b->g, STR("score"), x, shape_1(b->batch)));
    return graph_status(b->g, err);
}
