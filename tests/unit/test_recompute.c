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
    struct model_config c = { .kind       = STR("gpt"),
                              .depth      = 6,
                              .width      = 32,
                              .heads      = 2,
                              .norm       = STR("layer"),
                              .positions  = STR("learned"),
                              .activation = STR("gelu"),
                              .tied       = true,
                              .bias       = true,
                              .dropout    = 0.1 };
    struct model       *m;
    struct err          err = { 0 };
    if (model_new(perm, &c, &feeds, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

struct outcome {
    enum status         status;
    struct program_set *set;
    struct cost         cost;      /* of the training program */
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

static struct outcome run(struct recompute_config c, struct arena *perm, struct arena scratch)
{
    struct backend       *b;
    struct target         target;
    struct outcome        o      = { 0 };
    struct err            err    = { 0 };
    struct compile_config config = { .optimiser = OPTIMISER_ADAMW, .batch = BATCH, .recompute = c };
    CHECK_EQ(backend_cpu_open(perm, 2, BACKEND_FAST, &b, &err), STATUS_OK);
    b->table->describe(b, &target);
    o.status = compile(perm, &target, &config, model_build, small_gpt(perm), &o.set, scratch, &err);
    if (!o.status) {
        struct program *p = o.set->programs[PROGRAM_TRAIN];
        o.cost            = program_cost(p, scratch);
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
                CHECK(o.cost.flops <= fixed[k].cost.flops * 1.0001);
        }
    }
}

TEST(a_budget_that_nothing_fits_is_a_sentence)
{
    CHECK_EQ(run((struct recompute_config){ RECOMPUTE_AUTO, 0, 1000 }, perm, scratch).status,
             STATUS_USAGE);
}
