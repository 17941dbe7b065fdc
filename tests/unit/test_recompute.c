/* Recomputation: the same bits in less memory, and `auto` never dearer than a fixed policy. */
#include "backend/backend.h"
#include "base/rng.h"
#include "harness.h"
#include "model/model.h"

enum { BATCH = 2, CONTEXT = 32, VOCABULARY = 40 };

static struct model *small_gpt(struct arena *perm)
{
    struct feeds feeds = { .count = 2 };
    feeds.feed[0]      = (struct feed){ STR("x"), type_of(DT_I32, shape_1(CONTEXT)), VOCABULARY };
    feeds.feed[1]      = (struct feed){ STR("y"), type_of(DT_I32, shape_1(CONTEXT)), VOCABULARY };
    struct model_config c = { .kind              = STR("gpt"),
                              .depth             = 6,
                              .width             = 32,
                              .heads             = 2,
                              .norm              = STR("layer"),
                              .positions         = STR("learned"),
                              .activation        = STR("gelu"),
                              .tied              = true,
                              .bias              = true,
                              .dropout           = 0.1,
                              .attention_dropout = 0.1 };
    struct model       *m;
    struct err          err = { 0 };
    if (model_new(perm, &c, &feeds, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

struct outcome {
    enum status         status;
    struct program_set *set;
    struct cost         cost;      /* of the training program */
    f64                 seconds;   /* of it, by the cost rules */
    u64                 gradients; /* hash of them all */
};

static void put(struct backend *b, const struct program_set *set, struct str name, const void *data)
{
    const struct persistent *t = program_set_find(set, name);
    if (t) b->table->put(b, t->offset, data, type_bytes(t->type));
}

static void feed(struct backend *b, const struct program_set *set, struct arena scratch)
{
    i32 *ids = NEW(&scratch, i32, BATCH * CONTEXT);
    for (i32 i = 0; i < BATCH * CONTEXT; i++)
        ids[i] = (i32)(rng_u32((struct rng_key){ .seed = 9 }, (u64)i) % VOCABULARY);
    put(b, set, STR("x"), ids);
    put(b, set, STR("y"), ids);
    put(b, set, STR("loss_seed"), &(f32){ 1.0f / (BATCH * CONTEXT) });
    put(b, set, STR("rng"), (i32[]){ 1, 0, 0, 0 });
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (t->kind != VALUE_PARAM) continue;
        f32 *w = NEW(&scratch, f32, shape_count(t->type.shape));
        for (i64 k = 0; k < shape_count(t->type.shape); k++)
            w[k] = (f32)(0.1 * rng_normal((struct rng_key){ .seed = 4, .name = str_hash(t->name) },
                                          (u64)k));
        put(b, set, t->name, w);
    }
}

static u64 hash_gradients(struct backend *b, const struct program_set *set, struct arena scratch)
{
    u64 h = 1;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (t->kind != VALUE_GRAD) continue;
        char *copy = NEW(&scratch, char, type_bytes(t->type));
        b->table->get(b, t->offset, copy, type_bytes(t->type));
        h = h * 31 + str_hash((struct str){ copy, type_bytes(t->type) });
    }
    return h;
}

static f64 seconds_of(const struct program *p, const struct target *t, struct arena scratch)
{
    f64 sum = 0;
    for (i32 i = 0; i < p->instr_count; i++)
        sum += target_seconds(t, p->graph, &p->graph->nodes[p->instrs[i].node], scratch);
    return sum;
}

static struct outcome run(struct recompute_config c, struct arena *perm, struct arena scratch)
{
    struct backend       *b;
    struct target         target;
    struct outcome        o      = { 0 };
    struct err            err    = { 0 };
    struct compile_config config = { .optimiser = OPTIMISER_ADAMW, .batch = BATCH, .recompute = c };
    CHECK_EQ(backend_cpu_open(perm, 2, BACKEND_FAST, &b, &err), STATUS_OK);
    b->table->describe(b, &target);
    target.seconds = NULL; /* the rules' figures, which do not change from run to run */
    o.status = compile(perm, &target, &config, model_build, small_gpt(perm), &o.set, scratch, &err);
    if (!o.status) {
        struct program *p = o.set->programs[PROGRAM_TRAIN];
        o.cost            = program_cost(p, scratch);
        o.seconds         = seconds_of(p, &target, scratch);
        CHECK_EQ(b->table->alloc(b, o.set->arena_bytes, &err), STATUS_OK);
        CHECK_EQ(b->table->prepare(b, p, perm, &err), STATUS_OK);
        feed(b, o.set, scratch);
        b->table->run(b, p);
        o.gradients = hash_gradients(b, o.set, scratch);
    }
    b->table->close(b);
    return o;
}

TEST(recomputing_changes_memory_and_work_but_no_bit)
{
    struct outcome none = run((struct recompute_config){ RECOMPUTE_NONE, 0, 0 }, perm, scratch);
    struct outcome two  = run((struct recompute_config){ RECOMPUTE_EVERY, 2, 0 }, perm, scratch);
    struct outcome all  = run((struct recompute_config){ RECOMPUTE_ALL, 0, 0 }, perm, scratch);
    CHECK(all.set->arena_bytes < two.set->arena_bytes &&
          two.set->arena_bytes < none.set->arena_bytes);
    CHECK(none.cost.flops < two.cost.flops && two.cost.flops < all.cost.flops);
    /* a second forward pass of the blocks: a third of the step at most */
    CHECK(all.cost.flops < none.cost.flops * 4 / 3);
    CHECK_EQ(two.gradients, none.gradients);
    CHECK_EQ(all.gradients, none.gradients);
}

TEST(auto_fits_its_budget_and_is_no_dearer_than_a_fixed_policy)
{
    struct outcome fixed[5];
    fixed[0] = run((struct recompute_config){ RECOMPUTE_NONE, 0, 0 }, perm, scratch);
    for (i64 k = 1; k <= 4; k++)
        fixed[k] = run((struct recompute_config){ RECOMPUTE_EVERY, k, 0 }, perm, scratch);
    i64 most = fixed[0].set->arena_bytes, least = fixed[1].set->arena_bytes;
    for (i64 i = 0; i <= 5; i++) {
        i64            budget = least + (most - least) * i / 5;
        struct outcome o =
            run((struct recompute_config){ RECOMPUTE_AUTO, 0, budget }, perm, scratch);
        CHECK_EQ(o.status, STATUS_OK);
        CHECK(o.set->arena_bytes <= budget);
        CHECK_EQ(o.gradients, fixed[0].gradients);
        for (i64 k = 0; k <= 4; k++) {
            if (fixed[k].set->arena_bytes <= budget)
                CHECK(o.seconds <= fixed[k].seconds * (1 + 1e-9));
        }
    }
}

/* --- a deep model, compiled and not run --- */

enum { DEEP = 24, DEEP_CONTEXT = 64, DEEP_WIDTH = 128, DEEP_BATCH = 4 };

struct deep {
    i64 activation_bytes; /* of the training program: its peak less what persists */
    i64 bytes;            /* with it */
    f64 flops, seconds;   /* of the training program, by the cost rules */
};

static struct model *deep_gpt(i64 depth, struct arena *perm)
{
    struct feed         x     = { STR("x"), type_of(DT_I32, shape_1(DEEP_CONTEXT)), VOCABULARY };
    struct feed         y     = { STR("y"), x.type, VOCABULARY };
    struct feeds        feeds = { .count = 2, .feed = { x, y } };
    struct model_config c     = { .kind       = STR("gpt"),
                                  .depth      = depth,
                                  .width      = DEEP_WIDTH,
                                  .heads      = 4,
                                  .norm       = STR("layer"),
                                  .positions  = STR("learned"),
                                  .activation = STR("gelu"),
                                  .tied       = true };
    struct model       *m;
    struct err          err = { 0 };
    if (model_new(perm, &c, &feeds, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

static struct deep deep(i64 depth, struct recompute_config c, struct arena *perm,
                        struct arena scratch)
{
    struct compile_config config = { .optimiser = OPTIMISER_ADAMW,
                                     .batch     = DEEP_BATCH,
                                     .recompute = c };
    struct backend       *b;
    struct target         target;
    struct program_set   *set;
    struct err            err = { 0 };
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_FAST, &b, &err), STATUS_OK);
    b->table->describe(b, &target);
    target.seconds  = NULL; /* the rules' figures, which do not change from run to run */
    struct model *m = deep_gpt(depth, perm);
    CHECK_EQ(compile(perm, &target, &config, model_build, m, &set, scratch, &err), STATUS_OK);
    const struct program *p = set->programs[PROGRAM_TRAIN];
    struct deep           d = { p->bytes - set->persistent_bytes, p->bytes, 0, 0 };
    d.flops                 = program_cost(p, scratch).flops;
    d.seconds               = seconds_of(p, &target, scratch);
    b->table->close(b);
    return d;
}

static struct deep deep_every(i64 every, struct arena *perm, struct arena scratch)
{
    return deep(DEEP, (struct recompute_config){ RECOMPUTE_EVERY, every, 0 }, perm, scratch);
}

/* Korthikanti et al. (arXiv 2205.05198): recomputing all is a second forward pass, a third more
 * FLOPs; every other block half of that. Ours is less, because the last product of a block is read by
 * nobody in its backward half and is not run again: of a block's 24 C^2 + 2 T C a token (C width, T
 * context, causal attention) 16 C^2 + 2 T C are. Backward takes twice the products and 5/2 of the
 * attention, the head 6 C V. Maps and norms are not in the formula: 5 %. */
TEST(a_deep_model_recomputes_as_many_flops_as_theory_says)
{
    f64         c = DEEP_WIDTH, t = DEEP_CONTEXT, tokens = DEEP_BATCH * DEEP_CONTEXT;
    struct deep none = deep(DEEP, (struct recompute_config){ 0 }, perm, scratch);
    struct deep all = deep_every(1, perm, scratch), two = deep_every(2, perm, scratch);
    f64         step  = tokens * (DEEP * (3 * 24 * c * c + 7 * t * c) + 6 * c * VOCABULARY);
    f64         again = tokens * DEEP * (16 * c * c + 2 * t * c);
    CHECK_NEAR(none.flops / step, 1, 0.05);
    CHECK_NEAR((all.flops - none.flops) / again, 1, 0.05);
    CHECK_NEAR((two.flops - none.flops) / (all.flops - none.flops), 0.5, 1e-9);
    CHECK(all.flops < none.flops * 4 / 3 && two.flops < none.flops * 7 / 6);
}

/* Kept a token and block: 16 C numbers with everything (the inputs of both norms, of the four
 * products and of gelu, and the heads' q, k, v), C with all recomputed. What one block needs while it
 * is differentiated comes on top; it is a 24th of a half, and more with the gradients in flight. */
TEST(a_deep_model_keeps_as_many_bytes_as_theory_says)
{
    f64         numbers = 4.0 * DEEP_BATCH * DEEP_CONTEXT * DEEP_WIDTH; /* bytes of C a token */
    struct deep none    = deep(DEEP, (struct recompute_config){ 0 }, perm, scratch);
    f64         most    = (f64)none.activation_bytes;
    CHECK_NEAR(most / (16 * numbers * DEEP), 1, 0.05);
    CHECK_NEAR(1 - (f64)deep_every(1, perm, scratch).activation_bytes / most, 0.91, 0.03);
    CHECK_NEAR(1 - (f64)deep_every(2, perm, scratch).activation_bytes / most, 0.47, 0.02);
}

TEST(a_deep_model_finds_less_than_any_fixed_policy_at_five_budgets)
{
    static const i64 every[] = { DEEP + 1, 1, 2, 3, 4, 5, 6, 8, 12 }; /* the first recomputes one */
    struct deep      fixed[COUNT_OF(every)],
        none = deep(DEEP, (struct recompute_config){ 0 }, perm, scratch);
    for (i64 i = 0; i < COUNT_OF(every); i++) fixed[i] = deep_every(every[i], perm, scratch);
    for (i64 i = 1; i <= 5; i++) {
        i64         budget = none.bytes - (none.bytes - fixed[1].bytes) * i / 5;
        struct deep d =
            deep(DEEP, (struct recompute_config){ RECOMPUTE_AUTO, 0, budget }, perm, scratch);
        CHECK(d.bytes <= budget);
        for (i64 k = 0; k < COUNT_OF(every); k++)
            if (fixed[k].bytes <= budget) CHECK(d.seconds <= fixed[k].seconds * (1 + 1e-9));
        /* norms and gelu alone give a third back: nothing that takes time is run again for it */
        if (i == 1) CHECK(d.flops < none.flops * 1.01);
    }
}

/* --- several ranks that gather each other's weights --- */

enum { RANKS = 3, RANKS_DEPTH = 8, BATCH_ALL = 8, LAST_ALL = 2 };

/* As rank `r` of RANKS; `chosen`: of rank 0. */
static struct program_set *of_rank(i32 r, struct recompute_config c, i32 queues, struct str chosen,
                                   f64 *seconds, struct arena *perm, struct arena scratch)
{
    struct compile_config config = { .optimiser        = OPTIMISER_ADAMW,
                                     .recompute        = c,
                                     .recompute_chosen = chosen,
                                     .rank             = r,
                                     .ranks            = RANKS,
                                     .shard            = SHARD_ALL,
                                     .batch_all        = BATCH_ALL,
                                     .batch_last_all   = LAST_ALL };
    struct target         target = { .align_bytes       = 64,
                                     .threads           = 1,
                                     .queues            = queues,
                                     .flops_s           = { [DT_F32] = 1e11 },
                                     .bandwidth_bytes_s = 2e10 };
    struct program_set   *set;
    struct err            err = { 0 };
    config.batch              = BATCH_ALL * (r + 1) / RANKS - BATCH_ALL * r / RANKS;
    config.batch_last         = MAX(LAST_ALL * (r + 1) / RANKS - LAST_ALL * r / RANKS, 1);
    if (compile(perm, &target, &config, model_build, deep_gpt(RANKS_DEPTH, perm), &set, scratch,
                &err))
        harness_fail(__FILE__, __LINE__, "rank %d: %s", r, err.text);
    *seconds = seconds_of(set->programs[PROGRAM_TRAIN], &target, scratch);
    return set;
}

/* The ops that wait for other ranks, in order. */
static i32 calls_of(const struct program *p, struct str *names)
{
    i32 count = 0;
    for (i32 i = 0; i < p->instr_count; i++) {
        const struct node *n = &p->graph->nodes[p->instrs[i].node];
        if (op_info(n->op)->attrs & A_ranks) names[count++] = n->name;
    }
    return count;
}

static void check_calls(const struct program_set *a, const struct program_set *b,
                        enum program_id id, struct arena scratch)
{
    struct str *own   = NEW(&scratch, struct str, a->programs[id]->instr_count),
               *other = NEW(&scratch, struct str, b->programs[id]->instr_count);
    i32 count         = calls_of(a->programs[id], own);
    CHECK_EQ(calls_of(b->programs[id], other), count);
    for (i32 i = 0; i < count; i++) CHECK(str_eq(own[i], other[i]));
}

/* Parts of 2, 3 and 3 samples, of the last batch none, 1 and 1. */
TEST(ranks_call_each_other_in_one_order_and_fit_one_budget)
{
    static const struct recompute_config fixed[] = { { RECOMPUTE_NONE, 0, 0 },
                                                     { RECOMPUTE_EVERY, 1, 0 },
                                                     { RECOMPUTE_EVERY, 2, 0 },
                                                     { RECOMPUTE_EVERY, 3, 0 },
                                                     { RECOMPUTE_EVERY, 4, 0 } };
    for (i32 queues = 1; queues <= 2; queues++) {
        f64 seconds[COUNT_OF(fixed)], now;
        i64 bytes[COUNT_OF(fixed)];
        for (i64 k = 0; k < COUNT_OF(fixed); k++)
            bytes[k] = of_rank(RANKS - 1, fixed[k], queues, STR(""), &seconds[k], perm, scratch)
                           ->arena_bytes;
        for (i64 i = 0; i <= 5; i++) {
            struct recompute_config c      = { RECOMPUTE_AUTO, 0,
                                               bytes[1] + (bytes[0] - bytes[1]) * i / 5 };
            struct program_set     *first  = of_rank(0, c, queues, STR(""), &now, perm, scratch);
            struct str              chosen = compile_chosen(first, perm);
            CHECK(first->arena_bytes <= c.memory_bytes);
            for (i32 r = 1; r < RANKS; r++) {
                struct program_set *set = of_rank(r, c, queues, chosen, &now, perm, scratch);
                CHECK(set->arena_bytes <= c.memory_bytes);
                check_calls(first, set, PROGRAM_TRAIN, scratch);
                check_calls(first, set, PROGRAM_TRAIN_LAST, scratch);
            }
            for (i64 k = 0; k < COUNT_OF(fixed); k++)
                if (bytes[k] <= c.memory_bytes) CHECK(now <= seconds[k] * (1 + 1e-9));
        }
    }
}

/* --- long sequences on a GPU, compiled and not run --- */

enum { LONG = 32768, LONG_DEPTH = 16, LONG_WIDTH = 2048, LONG_HEADS = 16, LONG_WORDS = 50304 };

static struct model *long_gpt(struct arena *perm)
{
    struct feed         x     = { STR("x"), type_of(DT_I32, shape_1(LONG)), LONG_WORDS };
    struct feed         y     = { STR("y"), x.type, LONG_WORDS };
    struct feeds        feeds = { .count = 2, .feed = { x, y } };
    struct model_config c     = { .kind       = STR("gpt"),
                                  .depth      = LONG_DEPTH,
                                  .width      = LONG_WIDTH,
                                  .heads      = LONG_HEADS,
                                  .kv_heads   = 4,
                                  .hidden     = 5632,
                                  .norm       = STR("rms"),
                                  .positions  = STR("rotary"),
                                  .rope_base  = 1e4,
                                  .activation = STR("swiglu") };
    struct model       *m;
    struct err          err = { 0 };
    if (model_new(perm, &c, &feeds, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

static i64 attentions(struct recompute_config c, i64 *bytes, struct arena *perm,
                      struct arena scratch)
{
    struct compile_config config = { .optimiser = OPTIMISER_ADAMW,
                                     .batch     = 1,
                                     .precision = DT_BF16,
                                     .clip      = 1,
                                     .fuse      = ~0u,
                                     .recompute = c };
    struct target         target = { .align_bytes       = TARGET_GPU_ALIGN_BYTES,
                                     .loss_part_bytes   = TARGET_GPU_LOSS_PART_BYTES,
                                     .threads           = 1,
                                     .gpus              = 1,
                                     .flops_s           = { [DT_F32] = 5e13, [DT_BF16] = 7e14 },
                                     .bandwidth_bytes_s = 4e12 }; /* near an H200's */
    struct program_set   *set;
    struct err            err = { 0 };
    i64                   sum = 0;
    CHECK_EQ(compile(perm, &target, &config, model_build, long_gpt(perm), &set, scratch, &err),
             STATUS_OK);
    const struct program *p = set->programs[PROGRAM_TRAIN];
    for (i32 i = 0; i < p->instr_count; i++)
        sum += p->graph->nodes[p->instrs[i].node].op == OP_ATTENTION;
    *bytes = p->bytes;
    return sum;
}

/* Attention takes most of the time for few bytes: what is left of the budget beside the recomputation of every block
 * keeps its results, C numbers of a token and one a head. Packing may lose one block's. */
TEST(what_a_budget_leaves_over_keeps_attention)
{
    struct recompute_config all    = { RECOMPUTE_ALL, 0, 0 };
    i64                     result = (i64)LONG * (2 * LONG_WIDTH + 4 * LONG_HEADS), least, bytes;
    CHECK_EQ(attentions(all, &least, perm, scratch), 2 * LONG_DEPTH);
    for (i64 kept = 3; kept < LONG_DEPTH; kept += 3) {
        struct recompute_config more = { RECOMPUTE_AUTO, 0, least + kept * result };
        CHECK(attentions(more, &bytes, perm, scratch) <= 2 * LONG_DEPTH - kept + 1);
        CHECK(bytes <= more.memory_bytes);
    }
}

/* In a very deep model the blocks' inputs alone are much: several blocks begin at one value. */
TEST(less_memory_than_all_blocks_one_by_one_is_found_too)
{
    struct recompute_config c    = { RECOMPUTE_ALL, 0, 0 };
    struct deep             all  = deep(3 * DEEP, c, perm, scratch);
    i64                     less = all.bytes - all.activation_bytes / 10;
    struct deep             d =
        deep(3 * DEEP, (struct recompute_config){ RECOMPUTE_AUTO, 0, less }, perm, scratch);
    CHECK(d.bytes <= less);
}

TEST(a_budget_that_nothing_fits_is_a_sentence)
{
    CHECK_EQ(run((struct recompute_config){ RECOMPUTE_AUTO, 0, 1000 }, perm, scratch).status,
             STATUS_USAGE);
}
