/* test_passes.c - the list of passes: each has a rule that its result keeps, and that a graph with a fault does not. */
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"
#include "ir/collective.h"

/* A table of many rows, two hidden layers, each a block, and a head; sizes that 8-bit products take. */
enum { BATCH = 16, WIDTH = 32, CLASSES = 16, ROWS = 1000 };

static i32 dense(struct graph *g, const char *name, i32 x, i64 out, i64 in)
{
    struct str weight = str_fmt(g->perm, "%s.weight", name),
               bias   = str_fmt(g->perm, "%s.bias", name);
    struct init init  = { INIT_NORMAL, 0.1 };
    i32         w     = graph_param(g, weight, type_of(DT_F32, shape_2(out, in)), init, true);
    i32         b = graph_param(g, bias, type_of(DT_F32, shape_1(out)), (struct init){ 0 }, false);
    return build_matmul(g, str_of(name), x, w, b, false, true);
}

static enum status build_net(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                             struct err *err)
{
    i32 x     = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(batch, WIDTH)));
    i32 y     = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(batch)));
    i32 ids   = graph_value(g, VALUE_INPUT, STR("ids"), type_of(DT_I32, shape_1(batch)));
    i32 table = graph_param(g, STR("table"), type_of(DT_F32, shape_2(ROWS, WIDTH)),
                            (struct init){ INIT_NORMAL, 0.1 }, false);
    (void)context, (void)mode;
    if (table >= 0) g->values[table].table = true;
    x        = build_binary(g, OP_ADD, STR("in"), x, build_embedding(g, STR("rows"), table, ids));
    g->block = 1;
    i32 h    = build_unary(g, OP_RELU, STR("relu"), dense(g, "a", x, WIDTH, WIDTH));
    g->block = 2;
    h        = build_unary(g, OP_GELU, STR("gelu"), dense(g, "b", h, WIDTH, WIDTH));
    g->block = 0;
    i32 loss = build_xent(g, STR("xent"), dense(g, "head", h, CLASSES, WIDTH), y, 0);
    i32 sum  = build_sum(g, STR("loss"), loss, 0, 1);
    if (sum >= 0) graph_output(g, sum, STR("loss"));
    return graph_status(g, err);
}

/* One under which every pass applies. */
static struct compile_config whole_config(void)
{
    return (struct compile_config){ .optimiser  = OPTIMISER_MUON,
                                    .decay      = 0.1,
                                    .clip       = 1,
                                    .freeze     = STR("head.bias"),
                                    .precision  = DT_BF16,
                                    .fp8        = FP8_ON,
                                    .recompute  = { .kind = RECOMPUTE_ALL },
                                    .fuse       = FUSE_EPILOGUE,
                                    .square     = true,
                                    .accumulate = 2,
                                    .ranks      = 4,
                                    .batch      = BATCH,
                                    .eval_batch = BATCH };
}

/* Of its 4 ranks so many share a machine and one sharded state; 0: all do. */
static i32 places;

struct bench {
    struct compile_config config;
    struct target         target;
    struct pass_input     in;
    struct graph         *g;
};

/* The graph after the pass, in a program that has it. */
static void run_to(struct bench *b, const char *pass, struct arena *perm, struct arena scratch)
{
    struct err err    = { 0 };
    bool       update = !strcmp(pass, "update") || !strcmp(pass, "shard"),
         square       = !strcmp(pass, "square");
    b->config         = whole_config();
    bool ahead = !strcmp(pass, "ahead"), early = !strcmp(pass, "early");
    if (ahead || !strcmp(pass, "deal")) b->config.shard = SHARD_ALL;
    else if (places) b->config.shard = SHARD_STATE;
    bool copies = !strcmp(pass, "copies");
    if (copies) b->config.optimiser = OPTIMISER_ADAMW, b->config.fp8 = FP8_OFF;
    b->config.places = places;
    b->target        = (struct target){ .name = STR("test"), .align_bytes = 64 };
    if (ahead || early || places) b->target.queues = 2;
    b->in     = (struct pass_input){ .config = &b->config,
                                     .target = &b->target,
                                     .id     = PROGRAM_ADD,
                                     .build  = build_net,
                                     .batch  = BATCH,
                                     .copies = copies };
    bool once = early || (places && b->config.shard == SHARD_ALL);
    if (once) b->config.accumulate = 1;
    if (once) b->in.id = PROGRAM_TRAIN;
    if (update || square) {
        run_to(b, "accumulate", perm, scratch);
        b->in.train = b->g;
        b->in.id    = update ? PROGRAM_UPDATE : PROGRAM_SQUARE;
    }
    b->g       = graph_new(perm, STR("test"));
    b->in.drop = NEW(perm, bool, 4096);
    const struct pass *p;
    for (i32 i = 0; (p = pass_at(i)); i++) {
        if (!pass_applies(p, &b->in)) continue;
        if (p->run(b->g, &b->in, scratch, &err) || graph_verify(b->g, scratch, &err) ||
            p->holds(b->g, &b->in, scratch, &err))
            harness_fail(__FILE__, __LINE__, "%s: %s", p->name, err.text);
        if (!strcmp(p->name, pass)) return;
    }
    harness_fail(__FILE__, __LINE__, "%s did not run", pass);
}

/* --- faults --- */

static void cast_again(struct graph *g)
{
    i32          weight = graph_find(g, STR("b.weight"));
    struct attrs at     = { .dtype = DT_BF16 };
    graph_op(g, OP_CAST, STR("again"), &weight, 1, &at);
}

static struct value *named(struct graph *g, const char *name)
{
    i32 v = graph_find(g, str_of(name));
    CHECK(v >= 0);
    return &g->values[v];
}

/* The first of that op, or the last. */
static struct node *of_op(struct graph *g, i32 op, bool last)
{
    struct node *found = NULL;
    for (i32 i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == op && (last || !found)) found = &g->nodes[i];
    CHECK(found);
    return found;
}

static void own_gradient(struct graph *g)
{
    graph_value(g, VALUE_GRAD, STR("a.weight.grad"), type_of(DT_F32, shape_1(1)));
}
static void not_frozen(struct graph *g) { named(g, "head.bias")->frozen = false; }
static void hidden_bias(struct graph *g) { named(g, "a.bias")->hidden = true; }
static void hidden_frozen(struct graph *g) { named(g, "b.weight")->frozen = true; }
static void hidden_operand(struct graph *g)
{
    struct node *n = of_op(g, OP_MATMUL, false);
    i32          x = n->in[0];
    n->in[0]       = n->in[1];
    n->in[1]       = x;
}
static void table_read_twice(struct graph *g)
{
    const struct node *n = of_op(g, OP_EMBEDDING, false);
    graph_op(g, OP_EMBEDDING, STR("again"), n->in, 2, NULL);
}
static void table_frozen(struct graph *g) { named(g, "table")->frozen = true; }
static void table_without_room(struct graph *g) { named(g, "table")->sparse_rows = BATCH - 1; }
static void rows_lost(struct graph *g) { named(g, "table.grad")->sparse_rows = 0; }
static void table_not_updated(struct graph *g) { of_op(g, OP_ROWS_ADAM, false)->op = OP_SUMSQ; }
static void rows_added_twice(struct graph *g)
{
    struct node *n = of_op(g, OP_ROWS_JOIN, false);
    graph_op(g, OP_ROWS_JOIN, STR("again"), n->in, 4, NULL);
}
static void gradient_lost(struct graph *g) { named(g, "b.bias.grad")->kind = VALUE_OUTPUT; }
static void gradient_of_frozen(struct graph *g) { named(g, "b.bias")->frozen = true; }
static void gradient_of_forward(struct graph *g) { g->forward_count = g->node_count; }
static void dead_node(struct graph *g)
{
    build_unary(g, OP_EXP, STR("dead"), of_op(g, OP_ACCUMULATE, false)->in[1]);
}
static void dead_forward(struct graph *g)
{
    build_unary(g, OP_EXP, STR("dead"), of_op(g, OP_MATMUL, false)->out);
}
static void low_output(struct graph *g) { named(g, "loss")->type.dtype = DT_BF16; }
static void wide_product(struct graph *g)
{
    struct node *n                 = of_op(g, OP_MATMUL, true);
    g->values[n->in[0]].type.dtype = DT_F32;
}
static void shared_row(struct graph *g)
{
    of_op(g, OP_QUANTISE, true)->at.start = of_op(g, OP_QUANTISE, false)->at.start;
}
static void wrong_format(struct graph *g) { of_op(g, OP_MATMUL_FP8, false)->at.format ^= 1; }
static void wrong_factor(struct graph *g)
{
    struct node *n = of_op(g, OP_MATMUL_FP8, false);
    n->in[2]       = n->in[3];
}
static void gathered_from_few(struct graph *g) { of_op(g, OP_GATHER_PARTS, false)->at.ranks = 2; }
static void part_read(struct graph *g) { of_op(g, OP_GATHER_PARTS, true)->op = OP_SUMSQ; }
static void part_not_summed(struct graph *g)
{
    of_op(g, OP_REDUCE_SCATTER, false)->op = OP_ALL_GATHER;
}
/* The second gather of the forward half goes back to where it is read. */
static void gathered_late(struct graph *g)
{
    i32 from = 0, to;
    for (i32 seen = 0; seen < 2; from++) seen += g->nodes[from].op == OP_GATHER_PARTS;
    from--;
    struct node n = g->nodes[from];
    for (to = from; to + 1 < g->forward_count; to++) {
        bool reads = false;
        for (i32 k = 0; k < g->nodes[to + 1].in_count; k++)
            reads |= g->nodes[to + 1].in[k] == n.out;
        if (reads) break;
        g->nodes[to] = g->nodes[to + 1];
        for (i32 k = 0; k < node_results(&g->nodes[to]); k++)
            g->values[g->nodes[to].out + k].node = to;
    }
    g->nodes[to]          = n;
    g->values[n.out].node = to;
}
static void added_twice(struct graph *g)
{
    struct node *n = of_op(g, OP_ACCUMULATE, false);
    graph_op(g, OP_ACCUMULATE, STR("again"), n->in, 2, NULL);
}
static void not_added(struct graph *g) { of_op(g, OP_ACCUMULATE, true)->op = OP_ADD; }
static void summed_twice(struct graph *g)
{
    const struct node *n = of_op(g, OP_ALL_REDUCE, false);
    graph_op(g, OP_ALL_REDUCE, STR("again"), n->in, 1, &n->at);
}
static void not_summed(struct graph *g) { of_op(g, OP_ALL_REDUCE, true)->op = OP_ALL_GATHER; }
static void rows_not_summed(struct graph *g)
{
    of_op(g, OP_ROWS_REDUCE, false)->op = OP_ALL_GATHER;
}
static void buffer_not_shared(struct graph *g)
{
    i32 own = graph_value(g, VALUE_BUFFER, STR("stat"), type_of(DT_F32, shape_1(1)));
    graph_op(g, OP_RANK_BROADCAST, STR("again"), &own, 1, &of_op(g, OP_ALL_REDUCE, false)->at);
}
static void         too_few_ranks(struct graph *g) { of_op(g, OP_ALL_REDUCE, false)->at.ranks = 2; }
static struct node *of_copies(struct graph *g)
{
    i32 i = 0;
    while (i < g->node_count && g->nodes[i].at.over != OVER_COPIES) i++;
    CHECK(i < g->node_count);
    return &g->nodes[i];
}
static void copies_not_summed(struct graph *g) { of_copies(g)->op = OP_ALL_GATHER; }
static void copies_summed_twice(struct graph *g)
{
    const struct node *n = of_copies(g);
    graph_op(g, OP_ALL_REDUCE, STR("again"), n->in, 1, &n->at);
}
static void too_many_copies(struct graph *g) { of_copies(g)->at.ranks = 4; }
static void machine_is_all(struct graph *g)
{
    of_op(g, OP_REDUCE_SCATTER, false)->at.over = OVER_ALL;
}
static void updated_twice(struct graph *g)
{
    const struct node *n = of_op(g, OP_MUON, false);
    graph_op(g, OP_MUON, STR("again"), n->in, n->in_count, &n->at);
}
static void not_updated(struct graph *g) { of_op(g, OP_ADAMW, true)->op = OP_SUMSQ; }
static void frozen_updated(struct graph *g)
{
    of_op(g, OP_ADAMW, false)->in[0] =
        graph_value(g, VALUE_PARAM, STR("params"), type_of(DT_F32, shape_1(16)));
}
static void scale_stands(struct graph *g) { of_op(g, OP_FP8_ADVANCE, false)->op = OP_SUMSQ; }
static void no_square(struct graph *g) { named(g, "grad_square")->name = STR("square"); }
static void square_writes(struct graph *g)
{
    i32 sum = graph_value(g, VALUE_GRAD, STR("more"), type_of(DT_F32, shape_1(1)));
    graph_op(g, OP_ACCUMULATE, STR("write"), (i32[]){ sum, graph_find(g, STR("grad_square")) }, 2,
             NULL);
}
static void reads_dropped(struct graph *g)
{
    of_op(g, OP_GELU_GRAD, false)->in[1] = of_op(g, OP_GELU, false)->in[0];
}
static void writes_buffer(struct graph *g)
{
    i32 stat = graph_value(g, VALUE_BUFFER, STR("stat"), type_of(DT_F32, shape_1(1)));
    graph_op(g, OP_ACCUMULATE, STR("late"), (i32[]){ stat, graph_find(g, STR("loss")) }, 2, NULL);
}
static void fused_though_off(struct graph *g)
{
    struct node *n   = of_op(g, OP_GELU_GRAD, false);
    n->at.then.op[0] = OP_RELU;
    n->at.then.count = 1;
}

static const struct {
    const char *pass;
    void (*break_it)(struct graph *g);
    const char *said;
} faults[] = {
    { "build", own_gradient, "a.weight.grad is not a value that a model makes" },
    { "build", gradient_of_forward, "marked as forward" },
    { "freeze", not_frozen, "head.bias is not frozen" },
    { "hidden", hidden_bias, "a.bias is hidden, and not a trained matrix" },
    { "hidden", hidden_frozen, "b.weight is hidden, and not a trained matrix" },
    { "hidden", hidden_operand, "a reads hidden a.weight otherwise than as its weight" },
    { "tables", table_read_twice, "again reads the table table otherwise than by rows" },
    { "tables", table_without_room, "rows reads the table table otherwise than by rows" },
    { "tables", table_frozen, "table is not a trained table" },
    { "differentiate", gradient_lost, "b.bias has no gradient" },
    { "differentiate", rows_lost, "table has no gradient" },
    { "differentiate", gradient_of_frozen, "7 gradients belong to 6 of trained parameters" },
    { "differentiate", gradient_of_forward, "has no gradient" },
    { "remove_dead", dead_forward, "nothing reads what dead makes" },
    { "precision", low_output, "loss persists in low precision" },
    { "precision", wide_product, "is a product in full precision" },
    { "precision", dead_forward, "nothing reads what dead makes" },
    { "fp8", shared_row, "has no row of the state to itself" },
    { "fp8", wrong_format, "reads what no cast made" },
    { "fp8", wrong_factor, "reads what no cast made" },
    { "copies", cast_again, "b.weight is cast beside its copy" },
    { "deal", gathered_from_few, ".whole reads a part of a parameter" },
    { "deal", part_read, "head.weight.whole reads a part of a parameter" },
    { "deal", part_not_summed, "is not summed over the ranks" },
    { "deal", dead_forward, "nothing reads what dead makes" },
    { "early", summed_twice, "is not summed over the ranks once" },
    { "early", not_summed, "is not summed over the ranks once" },
    { "early", too_few_ranks, "is not summed over the ranks once" },
    { "accumulate", added_twice, "is not added to once" },
    { "accumulate", not_added, "is not added to once" },
    { "accumulate", rows_added_twice, "is not added to once" },
    { "shard", summed_twice, "not every gradient is summed over the ranks once" },
    { "shard", rows_not_summed, "not every gradient is summed over the ranks once" },
    { "shard", buffer_not_shared, "not every buffer is shared by the ranks once" },
    { "shard", too_few_ranks, "grads.sum is not over all ranks" },
    { "update", updated_twice, "a.weight is not a range to update" },
    { "update", not_updated, "is not updated once" },
    { "update", table_not_updated, "table is not updated once" },
    { "update", frozen_updated, "params is not a range to update" },
    { "update", scale_stands, "fp8.amax is not advanced" },
    { "square", no_square, "there is no grad_square" },
    { "square", square_writes, "write writes" },
    { "recompute", reads_dropped, "which is not kept" },
    { "recompute", writes_buffer, "late writes stat again" },
    { "ahead", gathered_late, "gathered before it is read, not one" },
    { "fuse", fused_though_off, "is fused, which is off" },
    { "fuse", dead_node, "nothing reads what dead makes" },
};

/* The same with copies in two machines of two ranks. */
static const struct {
    const char *pass;
    void (*break_it)(struct graph *g);
    const char *said;
} copied[] = {
    { "shard", copies_not_summed, "not every gradient is summed over the ranks once" },
    { "shard", copies_summed_twice, "not every gradient is summed over the ranks once" },
    { "shard", too_many_copies, "is not over all ranks of its group" },
    { "shard", machine_is_all, "is not over all ranks of its group" },
    { "deal", copies_not_summed, "is not summed over the ranks" },
    { "deal", copies_summed_twice, "is not summed over the ranks" },
    { "deal", machine_is_all, "is not summed over the ranks" },
};

static const struct pass *pass_named(const char *name)
{
    const struct pass *p;
    for (i32 i = 0; (p = pass_at(i)); i++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

TEST(sums_over_copies_are_checked)
{
    for (i64 i = 0; i < COUNT_OF(copied); i++) {
        struct bench b;
        struct arena room = *perm;
        struct err   err  = { 0 };
        places            = 2;
        run_to(&b, copied[i].pass, &room, scratch);
        places = 0;
        copied[i].break_it(b.g);
        enum status st = pass_named(copied[i].pass)->holds(b.g, &b.in, scratch, &err);
        if (st != STATUS_WORLD || !strstr(err.text, copied[i].said))
            harness_fail(__FILE__, __LINE__, "%s, %s: %s", copied[i].pass, copied[i].said,
                         err.text);
    }
}

TEST(every_rule_holds_after_its_pass_and_catches_what_breaks_it)
{
    for (i64 i = 0; i < COUNT_OF(faults); i++) {
        struct bench b;
        struct arena room = *perm;
        struct err   err  = { 0 };
        run_to(&b, faults[i].pass, &room, scratch);
        faults[i].break_it(b.g);
        enum status st = pass_named(faults[i].pass)->holds(b.g, &b.in, scratch, &err);
        if (st != STATUS_WORLD || !strstr(err.text, faults[i].said))
            harness_fail(__FILE__, __LINE__, "%s, %s: %s", faults[i].pass, faults[i].said,
                         err.text);
    }
}

TEST(every_pass_has_a_fault_that_its_rule_catches)
{
    const struct pass *p;
    for (i32 i = 0; (p = pass_at(i)); i++) {
        i64 count = 0;
        for (i64 k = 0; k < COUNT_OF(faults); k++) count += !strcmp(faults[k].pass, p->name);
        if (!count) harness_fail(__FILE__, __LINE__, "nothing breaks %s", p->name);
    }
}

/* A model that breaks the first rule ends the compilation, with the name of the pass. */
static enum status build_wrong(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                               struct err *err)
{
    own_gradient(g);
    return build_net(context, g, batch, mode, err);
}

static struct program_set *compiled(const struct compile_config *c, graph_builder *build,
                                    struct arena *perm, struct arena scratch, struct err *err)
{
    struct target       t   = { .name = STR("test"), .align_bytes = 64 };
    struct program_set *set = NULL;
    return compile(perm, &t, c, build, NULL, &set, scratch, err) ? NULL : set;
}

TEST(a_broken_rule_ends_the_compilation_and_names_the_pass)
{
    struct compile_config c   = whole_config();
    struct err            err = { 0 };
    CHECK(!compiled(&c, build_wrong, perm, scratch, &err));
    CHECK_EQ(err.status, STATUS_WORLD);
    CHECK_STR(err.text, "after build: a.weight.grad is not a value that a model makes");
}

TEST(graphs_are_kept_after_each_pass_where_that_is_asked_for)
{
    struct compile_config c   = whole_config();
    struct err            err = { 0 };
    struct textbuf        b   = textbuf_new(perm);
    struct arena          own = arena_part(&scratch, 64 << 20);
    CHECK_EQ(compiled(&c, build_net, &own, scratch, &err)->passes.count, 0);
    c.keep_passes           = true;
    struct program_set *set = compiled(&c, build_net, &own, scratch, &err);
    CHECK(set);
    for (i32 i = 0; i < set->passes.count; i++) {
        const struct pass_text *p = &set->passes.items[i];
        if (p->program == PROGRAM_ADD) textbuf_fmt(&b, "%.*s ", STR_ARG(p->pass));
        if (p->program != PROGRAM_EVAL || !str_eq(p->pass, STR("fuse"))) continue;
        CHECK_EQ(p->nodes,
                 set->programs[PROGRAM_EVAL]->graph->node_count); /* the last is the program's */
        CHECK_STR(p->text, str_z(&own, graph_print(set->programs[PROGRAM_EVAL]->graph, &own)));
    }
    CHECK_STR(textbuf_str(&b), "build freeze hidden tables differentiate remove_dead precision fp8 "
                               "accumulate recompute fuse ");
}
