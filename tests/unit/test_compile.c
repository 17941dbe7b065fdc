/* The set of programs: layout, sharing, freezing, the short last batch, and the text. */
#include "backend/backend.h"
#include "base/os.h"
#include "compile/compile_int.h"
#include "harness.h"
#include "ir/build.h"

static i32 param(struct graph *g, const char *name, struct shape s, bool decay)
{
    return graph_param(g, str_of(name), type_of(DT_F32, s), (struct init){ INIT_NORMAL, 0.1 },
                       decay);
}

/* x[B,6] -> dense 8, relu, dropout -> dense 3 -> cross-entropy; one tied bias to exercise sums. */
static enum status build_small(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                               struct err *err)
{
    (void)context;
    i32 x  = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(batch, 6)));
    i32 y  = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(batch)));
    i32 w1 = param(g, "a.weight", shape_2(8, 6), true), b1 = param(g, "a.bias", shape_1(8), false);
    i32 w2 = param(g, "b.weight", shape_2(3, 8), true), b2 = param(g, "b.bias", shape_1(3), false);
    i32 h = build_matmul(g, STR("a"), x, w1, b1, false, true);
    h     = build_unary(g, OP_RELU, STR("relu"), h);
    h     = build_dropout(g, STR("drop"), h, mode == MODE_TRAIN ? 0.5 : 0);
    i32 z = build_matmul(g, STR("b"), h, w2, b2, false, true);
    i32 l = build_xent(g, STR("xent"), z, y, 0);
    i32 s = build_sum(g, STR("loss"), l, 0, 1);
    if (s >= 0) graph_output(g, s, STR("loss"));
    return graph_status(g, err);
}

static struct compile_config small_config(void)
{
    return (struct compile_config){ .optimiser  = OPTIMISER_ADAMW,
                                    .eps        = 1e-8,
                                    .decay      = 0.1,
                                    .clip       = 1,
                                    .batch      = 4,
                                    .batch_last = 3,
                                    .eval_batch = 5 };
}

static struct program_set *compiled_on(i32 queues, struct arena *perm, struct arena scratch,
                                       const struct compile_config *c, struct err *err)
{
    struct target       t   = { .name = STR("test"), .align_bytes = 64, .queues = queues };
    struct program_set *set = NULL;
    enum status         st  = compile(perm, &t, c, build_small, NULL, &set, scratch, err);
    return st ? NULL : set;
}

static struct program_set *compiled(struct arena *perm, struct arena scratch,
                                    const struct compile_config *c, struct err *err)
{
    return compiled_on(1, perm, scratch, c, err);
}

TEST(persistents_lie_in_their_documented_order)
{
    struct err            err = { 0 };
    struct compile_config c   = small_config();
    struct program_set   *s   = compiled(perm, scratch, &c, &err);
    CHECK(s);
    const char *order[] = { "a.weight",      "b.weight",      "a.bias",      "b.bias",
                            "a.weight.grad", "b.weight.grad", "a.bias.grad", "b.bias.grad",
                            "adam.m",        "adam.v" };
    for (i64 i = 1; i < COUNT_OF(order); i++)
        CHECK(program_set_find(s, str_of(order[i - 1]))->offset <
              program_set_find(s, str_of(order[i]))->offset);
    /* gradients repeat the layout of the parameters */
    i64 base = program_set_find(s, STR("a.weight.grad"))->offset;
    for (i64 i = 0; i < 4; i++)
        CHECK_EQ(program_set_find(s, str_of(order[i + 4]))->offset - base,
                 program_set_find(s, str_of(order[i]))->offset);
}

TEST(inputs_take_the_largest_batch)
{
    struct err            err = { 0 };
    struct compile_config c   = small_config();
    struct program_set   *s   = compiled(perm, scratch, &c, &err);
    CHECK_EQ(program_set_find(s, STR("x"))->type.shape.dim[0], 5);
    CHECK(s->programs[PROGRAM_TRAIN_LAST] && s->programs[PROGRAM_EVAL]);
    CHECK(!s->programs[PROGRAM_EVAL_LAST]);
}

TEST(frozen_parameters_have_neither_gradient_nor_state)
{
    struct err            err = { 0 };
    struct compile_config c   = small_config();
    struct program_set   *all = compiled(perm, scratch, &c, &err);
    c.freeze                  = STR("a.*");
    struct program_set *s     = compiled(perm, scratch, &c, &err);
    CHECK(s && program_set_find(s, STR("a.weight"))->frozen);
    CHECK(!program_set_find(s, STR("a.weight.grad")) && !program_set_find(s, STR("a.bias.grad")));
    CHECK(program_set_find(s, STR("b.weight.grad")));
    CHECK(program_set_find(s, STR("adam.m"))->type.shape.dim[0] <
          program_set_find(all, STR("adam.m"))->type.shape.dim[0]);
    c.freeze = STR("nobody.*");
    CHECK(!compiled(perm, scratch, &c, &err));
    CHECK_STR(err.text, "train.freeze=nobody.* matches no parameter; "
                        "`frugal show RUN.YAML train.freeze= --text` lists them");
    c.freeze = STR("*");
    CHECK(!compiled(perm, scratch, &c, &err));
    CHECK_STR(err.text, "no parameter is left to train: all are frozen");
}

TEST(too_little_memory_is_a_sentence_before_the_run)
{
    struct err            err = { 0 };
    struct compile_config c   = small_config();
    struct target t = { .name = STR("a small machine"), .align_bytes = 64, .memory_bytes = 1000 };
    struct program_set *set;
    CHECK_EQ(compile(perm, &t, &c, build_small, NULL, &set, scratch, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "a small machine") && strstr(err.text, "train.micro_batch=auto"));
}

/* Rank 1 of 2, everything sharded: what they send is in the programs. */
static struct compile_config sharded_config(void)
{
    struct compile_config c = small_config();
    c.shard                 = SHARD_ALL;
    c.rank                  = 1;
    c.ranks                 = 2;
    return c;
}

/* Rank 3 of 4, which has place 1 on the second of two machines. */
static struct compile_config hybrid_config(enum shard_kind shard)
{
    struct compile_config c = small_config();
    c.shard                 = shard;
    c.rank                  = 3;
    c.ranks                 = 4;
    c.place                 = 1;
    c.places                = 2;
    return c;
}

/* Rank 1 of 2, which sum gradients: in the update, or as they come where there is a queue for that. */
static struct compile_config summed_config(void)
{
    struct compile_config c = small_config();
    c.rank                  = 1;
    c.ranks                 = 2;
    return c;
}

static void read_back(const struct compile_config *c, i32 queues, struct arena *perm,
                      struct arena scratch)
{
    struct err          err = { 0 };
    struct program_set *s   = compiled_on(queues, perm, scratch, c, &err);
    for (i32 i = 0; i < PROGRAM_COUNT; i++) {
        struct program *again;
        if (!s->programs[i]) continue;
        struct str  text = program_print(s->programs[i], perm, scratch);
        enum status st   = program_parse(perm, text, &again, &err);
        if (st) harness_fail(__FILE__, __LINE__, "%s", err.text);
        CHECK_STR(program_print(again, perm, scratch), text);
        CHECK_EQ(graph_verify(again->graph, scratch, &err), STATUS_OK);
        CHECK_EQ(program_verify(again, scratch, &err), STATUS_OK);
    }
}

TEST(text_read_back_prints_the_same_text)
{
    struct compile_config one = small_config(), some = sharded_config(), sums = summed_config();
    read_back(&one, 1, perm, scratch);
    read_back(&some, 1, perm, scratch);
    read_back(&some, 2, perm, scratch);
    read_back(&sums, 2, perm, scratch);
    for (enum shard_kind k = SHARD_STATE; k <= SHARD_ALL; k++) {
        struct compile_config copied = hybrid_config(k);
        read_back(&copied, 1, perm, scratch);
        read_back(&copied, 2, perm, scratch);
    }
}

static struct str read_file(struct arena *perm, const char *path)
{
    struct str text;
    struct err err = { 0 };
    if (os_read_all(os_real(), str_of(path), perm, &text, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return text;
}

/* Whatever changes the compiled program shows as a diff of this file; UPDATE_GOLDEN=1 renews it. */
static void check_golden(const char *path, const struct compile_config *c, i32 queues,
                         struct arena *perm, struct arena scratch)
{
    struct err          err  = { 0 };
    struct program_set *s    = compiled_on(queues, perm, scratch, c, &err);
    struct arena        text = arena_part(perm, 1 << 20);
    struct textbuf      b    = textbuf_new(&text);
    for (i32 i = 0; i < PROGRAM_COUNT; i++) {
        if (s->programs[i]) textbuf_add(&b, program_print(s->programs[i], perm, scratch));
    }
    struct str now = textbuf_str(&b);
    if (getenv("UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");
        CHECK(f && fwrite(now.data, 1, (size_t)now.len, f) == (size_t)now.len && !fclose(f));
    }
    CHECK_STR(read_file(perm, path), now);
}

TEST(programs_agree_with_the_golden_text)
{
    struct compile_config one = small_config(), some = sharded_config(), sums = summed_config();
    check_golden("tests/golden/small.program", &one, 1, perm, scratch);
    check_golden("tests/golden/small_sharded.program", &some, 1, perm, scratch);
    check_golden("tests/golden/small_ahead.program", &some, 2, perm, scratch);
    check_golden("tests/golden/small_early.program", &sums, 2, perm, scratch);
    struct compile_config state = hybrid_config(SHARD_STATE), all = hybrid_config(SHARD_ALL);
    check_golden("tests/golden/small_hybrid_state.program", &state, 1, perm, scratch);
    check_golden("tests/golden/small_hybrid_all.program", &all, 1, perm, scratch);
    check_golden("tests/golden/small_hybrid_early.program", &all, 2, perm, scratch);
}

/* The verifier is the second opinion: it must see a layout that is wrong. */
TEST(verifier_sees_values_that_share_bytes)
{
    struct err            err  = { 0 };
    struct compile_config c    = small_config();
    struct program       *p    = compiled(perm, scratch, &c, &err)->programs[PROGRAM_TRAIN];
    i32                   seen = 0;
    for (i32 i = 1; i < p->graph->node_count; i++) {
        i32 a = p->graph->nodes[0].out, b = p->graph->nodes[i].out;
        if (p->graph->values[b].kind != VALUE_TEMP || p->offset[a] == p->offset[b]) continue;
        i64 keep     = p->offset[b];
        p->offset[b] = p->offset[a];
        seen += program_verify(p, scratch, &err) != STATUS_OK;
        p->offset[b] = keep;
    }
    CHECK(seen > 0);
    CHECK_EQ(program_verify(p, scratch, &err), STATUS_OK);
}

TEST(the_program_of_the_fuzzer_is_sound)
{
    struct program *p;
    struct err      err = { 0 };
    if (program_parse(perm, read_file(perm, "tests/fuzz/corpus/program/ops"), &p, &err) ||
        program_verify(p, scratch, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
}

/* Texts that no pass would make; each is read or refused, and verified without harm. */
TEST(programs_that_cannot_be_are_refused)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "program p bytes=64\n%1 = relu(%0) \"r\" -> f32[] @0 ; kernel=- work=0@0\n",
          "node 0 (relu) reads %0 before it is written" },
        { "program p bytes=64\n%0 = reshape(%0) {dims=[1]} \"r\" -> f32[1] @0\n",
          "node 0 (reshape) reads %0 before it is written" },
        { "program p bytes=64\n%0 = input \"x\" f32[2] @0\nadd(%0) \"a\"\n",
          "program text, line 3: wrong number of results at \"\"" },
        { "program p bytes=64\n%0 = input \"x\" f32[2] @0\n%1 = add(%0) \"a\" -> f32[2] @8\n",
          "node 0 (add) has 1 inputs" },
        { "program p bytes=64\n%0 = input \"x\" f32[2] @60\n", "p: %0 ends at byte 68 of 64" },
        { "program p bytes=64\n%0 = input \"x\" f32[2] @0\n"
          "%1 = relu(%0) \"r\" -> f32[2] @-1 ; kernel=- work=0@0\n",
          "p: an operand of r has no place" },
        { "program p bytes=64\n%0 = input \"x\" f32[4294967296,4294967296] @0\n",
          "program text, line 2: sizes below 0 or beyond any memory at \" @0\"" },
        { "program p bytes=64\n%0 = input \"x\" f32[-1] @0\n",
          "program text, line 2: sizes below 0 or beyond any memory at \" @0\"" },
        { "program p bytes=64\n%65536 = input \"x\" f32[1] @0\n",
          "program text, line 2: no such value at \" = input \"x\" f32[1] \"" },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct program *p;
        struct err      err = { 0 };
        enum status     st  = program_parse(perm, str_of(cases[i].text), &p, &err);
        if (!st) st = program_verify(p, scratch, &err);
        CHECK(st);
        CHECK_STR(err.text, cases[i].why);
    }
}

/* loss = sum(reshape(p) + q): one value is the gradient of both, of p in another shape. */
static enum status build_viewed(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                                struct err *err)
{
    bool p_first = *(bool *)context;
    i32  first   = param(g, p_first ? "p" : "q", p_first ? shape_2(2, 3) : shape_1(6), true);
    i32  other   = param(g, p_first ? "q" : "p", p_first ? shape_1(6) : shape_2(2, 3), true);
    i32  p = p_first ? first : other, q = p_first ? other : first;
    (void)batch;
    (void)mode;
    i32 flat = build_reshape(g, STR("flat"), p, shape_1(6));
    i32 sum  = build_sum(g, STR("sum"), build_binary(g, OP_ADD, STR("add"), flat, q), 0, 1);
    graph_output(g, sum, STR("loss"));
    return graph_status(g, err);
}

TEST(gradients_that_view_one_value_each_have_their_own_bytes)
{
    for (i32 p_first = 0; p_first <= 1; p_first++) {
        struct err            err     = { 0 };
        struct target         t       = { .name = STR("test"), .align_bytes = 64 };
        struct compile_config c       = small_config();
        bool                  context = p_first;
        struct program_set   *s;
        CHECK_EQ(compile(perm, &t, &c, build_viewed, &context, &s, scratch, &err), STATUS_OK);
        const struct program *train = s->programs[PROGRAM_TRAIN];
        for (i32 v = 0; v < train->graph->value_count; v++) {
            const struct value *x = &train->graph->values[v];
            if (x->kind == VALUE_GRAD)
                CHECK_EQ(train->offset[v], program_set_find(s, x->name)->offset);
        }
    }
}

TEST(a_gradient_through_a_second_result_is_refused)
{
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("g"));
    i32           w   = param(g, "w", shape_2(3, 4), true);
    i32           y   = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(3)));
    i32           l   = build_xent(g, STR("xent"), w, y, 0);
    i32           z   = build_binary(g, OP_ADD, STR("z"), l, l + 1); /* + log of the sum */
    graph_output(g, build_sum(g, STR("sum"), z, 0, 1), STR("loss"));
    CHECK_EQ(differentiate(g, scratch, &err), STATUS_USAGE);
    CHECK_STR(err.text, "xent (xent): only its first result has a gradient, and the loss depends "
                        "on result 1");
}

/* What nobody reads has no memory: the derivative of a quotient by a constant emits such a node. */
TEST(dead_values_take_no_memory)
{
    struct graph  *g = graph_new(perm, STR("g"));
    struct program p = { .graph = g };
    struct target  t = { .align_bytes = 64 };
    i32            x = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_1(1024)));
    build_unary(g, OP_EXP, STR("dead"), x);
    graph_output(g, build_sum(g, STR("sum"), x, 0, 1), STR("loss"));
    remove_dead(g, scratch);
    CHECK_EQ(g->node_count, 1);
    p.offset = NEW(perm, i64, g->value_count);
    for (i32 v = 0; v < g->value_count; v++)
        p.offset[v] = g->values[v].kind == VALUE_TEMP ? -1 : 4096 * v;
    place_temps(&p, &t, 65536, scratch);
    CHECK(p.bytes < 65536);
}

TEST(a_node_without_gradient_on_the_way_is_named)
{
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("g"));
    i32           w   = param(g, "w", shape_2(3, 4), true);
    i32           y   = graph_value(g, VALUE_INPUT, STR("y"), type_of(DT_I32, shape_1(3)));
    i32           h   = graph_op(g, OP_HITS, STR("hits"), (i32[]){ w, y }, 2, NULL);
    graph_output(g, build_sum(g, STR("sum"), h, 0, 1), STR("loss"));
    CHECK_EQ(differentiate(g, scratch, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "hits"));
}

TEST(a_product_of_dimensions_that_overflows_is_a_sentence)
{
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("g"));
    i64           big = (i64)1 << 40;
    i32 a = param(g, "a", shape_2(big, 1), true), b = param(g, "b", shape_2(big, 1), true);
    CHECK_EQ(build_matmul(g, STR("dense"), a, b, -1, false, true), -1); /* big squared wraps to 0 */
    CHECK_EQ(graph_status(g, &err), STATUS_USAGE);
    CHECK_STR(err.text, "dense would be f32[1099511627776,1099511627776], more than 64 TiB; "
                        "a smaller batch or model fits");

    g = graph_new(perm, STR("g"));
    CHECK_EQ(param(g, "table", shape_3(big, big, big), true), -1);
    CHECK_EQ(graph_status(g, &err), STATUS_USAGE);
    g = graph_new(perm, STR("g"));
    CHECK(param(g, "largest", shape_1(TENSOR_BYTES_MAX / 4), true) >= 0);
    CHECK(param(g, "none", shape_3(0, big, big), true) < 0); /* big * big * 4 does not fit either */
}

TEST(a_head_that_no_kernel_takes_is_a_sentence)
{
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("g"));
    i32           x   = param(g, "x", shape_3(1, 2, 3 * (HEAD_DIM_MAX + 1)), true);
    CHECK_EQ(build_attention(g, STR("attn"), x, -1, 1, 1, (struct seeing){ .causal = true }), -1);
    CHECK_EQ(graph_status(g, &err), STATUS_USAGE);
    CHECK_STR(err.text,
              "attn (attention): needs heads of at most 1024 numbers; more heads make them "
              "smaller, not f32[1,2,3075]");
}

TEST(wrong_shapes_are_named_with_their_node)
{
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("g"));
    i32           a = param(g, "a", shape_2(3, 4), true), b = param(g, "b", shape_2(5, 6), true);
    CHECK_EQ(build_matmul(g, STR("dense"), a, b, -1, false, true), -1);
    CHECK_EQ(build_unary(g, OP_RELU, STR("after"), a), -1); /* sticky */
    CHECK_EQ(graph_status(g, &err), STATUS_USAGE);
    CHECK_STR(err.text, "dense (matmul): do not multiply: f32[3,4] and f32[5,6]");
}
