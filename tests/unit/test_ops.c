/* The op table against itself: every column of every row speaks of operands that are there, and a
 * gradient rule reads what its row says it needs, no more and no less. */
#include "harness.h"
#include "ir/graph.h"
#include "support/op_case.h"

enum { OUT_BIT = 16 }; /* results begin here in `needs` */

/* Without a gradient on purpose: they end the way back, or stand beside it. What is called NAME_grad
 * is itself one, and nothing here is differentiated twice. */
static const i32 ends[] = { OP_FILL,
                            OP_BATCHNORM_EVAL,
                            OP_HITS,
                            OP_ACCUMULATE,
                            OP_ALL_REDUCE,
                            OP_REDUCE_SCATTER,
                            OP_ALL_GATHER,
                            OP_GATHER_PARTS,
                            OP_RANK_BROADCAST,
                            OP_ROWS_REDUCE,
                            OP_SUMSQ,
                            OP_CLIP,
                            OP_SGD,
                            OP_ADAM,
                            OP_ADAMW,
                            OP_MUON,
                            OP_UNSCALE,
                            OP_ADD_LAYERNORM,
                            OP_ADD_RMSNORM,
                            OP_XENT_BOTH,
                            OP_QUANTISE,
                            OP_MATMUL_FP8,
                            OP_UNPACK,
                            OP_FP8_ADVANCE,
                            OP_PACK,
                            OP_EMBEDDING_ROWS,
                            OP_ROWS_JOIN,
                            OP_ROWS_SGD,
                            OP_ROWS_ADAGRAD,
                            OP_ROWS_ADAM,
                            OP_ATTENTION_CACHED };

static bool is_end(i32 op)
{
    for (i64 i = 0; i < COUNT_OF(ends); i++)
        if (ends[i] == op) return true;
    return false;
}

static bool is_gradient(i32 op) { return strstr(op_info(op)->name, "_grad") != NULL; }

static u64 bits(i32 count) { return count >= 64 ? ~(u64)0 : ((u64)1 << count) - 1; }

#define CHECK_ROW(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) harness_fail(__FILE__, __LINE__, "%s: %s", row->name, #condition);       \
    } while (0)

TEST(every_row_speaks_of_what_it_has)
{
    for (i32 op = 0; op < OP_COUNT; op++) {
        const struct op_info *row = op_info(op);
        CHECK_ROW(row->in_min >= 0 && row->in_min <= row->in_max && row->in_max <= OP_IN_MAX);
        CHECK_ROW(row->out_count >= 0 && row->out_count <= OP_OUT_MAX);
        CHECK_ROW(row->shape && row->cost && row->work && !row->run);
        CHECK_ROW(row->attrs >> ATTR_COUNT == 0);
        CHECK_ROW((row->needs & bits(OUT_BIT) & ~bits(row->in_max)) == 0);
        CHECK_ROW((row->needs >> OUT_BIT & ~bits(row->out_count)) == 0);
        CHECK_ROW((row->share & ~bits(row->in_max)) == 0);
        CHECK_ROW((row->writes & ~bits(row->in_max)) == 0);
        CHECK_ROW(!row->share || row->out_count > 0);
        CHECK_ROW((row->share & row->writes) == 0);
        CHECK_ROW((row->effect == EFFECT_STATE) == (row->writes != 0));
        bool keyed = (row->attrs & A_key) != 0; /* an optimiser's: it may round at random */
        CHECK_ROW(keyed == (row->effect == EFFECT_RANDOM) ||
                  (keyed && row->effect == EFFECT_STATE));
        CHECK_ROW(row->out_count > 0 || row->effect == EFFECT_STATE);
        CHECK_ROW(!op_is_view(op) ||
                  (row->share == IN0 && row->in_max == 1 && row->out_count == 1));
    }
}

TEST(names_are_words_and_belong_to_one_op)
{
    for (i32 op = 0; op < OP_COUNT; op++) {
        const struct op_info *row = op_info(op);
        i32                   found;
        CHECK_ROW(strlen(row->name) > 0);
        CHECK_ROW(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(row->name));
        CHECK_ROW(op_find(str_of(row->name), &found) && found == op);
    }
}

TEST(every_op_has_a_gradient_or_is_listed_as_having_none)
{
    for (i32 op = 0; op < OP_COUNT; op++) {
        const struct op_info *row = op_info(op);
        CHECK_ROW((row->grad == NULL) == (is_gradient(op) || is_end(op)));
        CHECK_ROW(row->grad || !row->needs);
    }
}

/* A node of the op over the drawn types, and its gradient: which operands do the new nodes read? */
static u32 gradient_reads(const struct op_case *c, struct arena *perm, struct arena scratch)
{
    struct graph         *g   = graph_new(perm, STR("g"));
    const struct op_info *row = op_info(c->op);
    i32                   in[OP_IN_MAX], din[OP_IN_MAX], dout[OP_OUT_MAX] = { -1, -1, -1, -1 };
    bool                  want[OP_IN_MAX];
    u32                   reads = 0;
    struct err            err   = { 0 };
    for (i32 i = 0; i < c->in_count; i++) {
        enum value_kind kind = row->writes >> MIN(i, 31) & 1 ? VALUE_BUFFER : VALUE_PARAM;
        in[i]                = graph_value(g, kind, str_fmt(perm, "in%d", i), c->in[i]);
        din[i]               = -1;
        want[i]              = dtype_is_float(c->in[i].dtype);
    }
    i32 out = graph_op(g, c->op, STR("op"), in, c->in_count, &c->at);
    if (out < 0) harness_fail(__FILE__, __LINE__, "%s", g->err.text);
    dout[0]       = graph_value(g, VALUE_INPUT, STR("dout"), graph_type(g, out));
    struct node n = g->nodes[0]; /* the array may move */
    row->grad(g, &n, dout, want, din);
    if (graph_verify(g, scratch, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);

    for (i32 i = 0; i < c->in_count; i++)
        CHECK_ROW(din[i] < 0 || type_eq(graph_type(g, din[i]), c->in[i]));
    for (i32 i = 1; i < g->node_count; i++)
        for (i32 k = 0; k < g->nodes[i].in_count; k++) {
            i32 v = graph_viewed(g, g->nodes[i].in[k]);
            for (i32 a = 0; a < c->in_count; a++) reads |= v == in[a] ? 1u << a : 0;
            for (i32 a = 0; a < row->out_count; a++) reads |= v == out + a ? (u32)OUT0 << a : 0;
        }
    return reads;
}

TEST(a_gradient_reads_what_its_row_says_it_needs)
{
    enum { DRAWS = 40 }; /* enough that each optional operand is there in some of them */
    struct draw draw = { .state = test_seed(), .types_only = true };
    for (i32 op = 0; op < OP_COUNT; op++) {
        const struct op_info *row   = op_info(op);
        u32                   reads = 0;
        for (i32 i = 0; i < DRAWS && row->grad; i++) {
            struct arena   room = *perm;
            struct op_case c;
            op_case_draw(&c, op, DT_F32, &draw, &room);
            reads |= gradient_reads(&c, &room, scratch);
        }
        if (reads != row->needs)
            harness_fail(__FILE__, __LINE__, "%s reads %x and says it needs %x", row->name, reads,
                         row->needs);
    }
}

/* A row has bits for its first 16 inputs, and concat takes up to 64. */
TEST(a_cost_counts_inputs_that_have_no_bit_in_the_row)
{
    struct type  in[OP_IN_MAX], out = type_of(DT_F32, shape_1(OP_IN_MAX * 8));
    struct attrs at = { 0 };
    for (i32 i = 0; i < OP_IN_MAX; i++) in[i] = type_of(DT_F32, shape_1(8));
    struct sig s = { in, OP_IN_MAX, &out, &at, OP_CONCAT };
    CHECK_EQ(op_info(OP_CONCAT)->cost(&s).bytes,
             2.0 * OP_IN_MAX * 8 * 4); /* read, and written once */
    for (i32 k = 0; k < OP_IN_MAX; k++) CHECK(!op_writes(op_info(OP_CONCAT), k));
    CHECK(op_writes(op_info(OP_ADAMW), 0));
}

/* Two products a pair of a query and a key that it sees, 2 D FLOPs each; the row counts a diagonal as half. */
TEST(attention_costs_what_its_window_lets_be_seen)
{
    enum { T = 64, D = 8, H = 3 };
    struct type  in  = type_of(DT_F32, shape_3(2, T, 3 * H * D)), out[2];
    struct err   err = { 0 };
    struct attrs at  = { .heads = H, .kv_heads = H, .causal = 1, .scale = 1 };
    struct sig   s   = { &in, 1, out, &at, OP_ATTENTION };
    for (at.window = 0; at.window < T + 9; at.window++) {
        f64 pairs = 0;
        for (i64 t = 0; t < T; t++) pairs += (f64)(at.window ? MIN(t + 1, at.window) : t + 1) - 0.5;
        if (at.window && at.window < T) pairs += (f64)(T - at.window) * 0.5; /* no diagonal there */
        CHECK_EQ(op_info(OP_ATTENTION)->shape(&s, &err), STATUS_OK);
        CHECK_NEAR(op_info(OP_ATTENTION)->cost(&s).flops / (2 * 2 * 2 * H * D * pairs), 1, 1e-12);
    }
    at.causal = 0;
    CHECK_EQ(op_info(OP_ATTENTION)->shape(&s, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "a window needs causal attention"));
}
