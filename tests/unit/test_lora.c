/* test_lora.c - adapters beside a frozen model: what is trained, in which types things are kept, what names mean, and
 * what PEFT calls it. The arithmetic is compared with PEFT's in tests/oracle/test_lora.py. */
#include "harness.h"
#include "model/lora.h"
#include <math.h>

static struct model_config small(void)
{
    return (struct model_config){ .kind       = STR("gpt"),
                                  .depth      = 2,
                                  .width      = 128,
                                  .heads      = 2,
                                  .kv_heads   = 2,
                                  .hidden     = 256,
                                  .norm       = STR("rms"),
                                  .positions  = STR("rotary"),
                                  .activation = STR("swiglu"),
                                  .rope_base  = 1e4,
                                  .dtype      = DT_F32,
                                  .lora       = { .rank = 4, .alpha = NAN } };
}

static struct model *made(struct arena *perm, const struct model_config *c, struct err *err)
{
    struct feed   x = { STR("x"), { DT_I32, { .rank = 1, .dim = { 8 } } }, 32 }, y = x;
    struct feeds  feeds = { .count = 2 };
    struct model *m     = NULL;
    y.name              = STR("y");
    feeds.feed[0]       = x;
    feeds.feed[1]       = y;
    model_new(perm, c, &feeds, &m, err);
    return m;
}

static struct program_set *compiled(struct arena *perm, struct model *m, enum dtype precision,
                                    enum recompute_kind recompute, struct arena scratch)
{
    struct target         t   = { .name = STR("test"), .align_bytes = 64 };
    struct compile_config c   = { .optimiser  = OPTIMISER_ADAMW,
                                  .precision  = precision,
                                  .frozen_low = true,
                                  .recompute  = { .kind = recompute },
                                  .batch      = 2,
                                  .eval_batch = 2 };
    struct program_set   *set = NULL;
    struct err            err = { 0 };
    CHECK_EQ(compile(perm, &t, &c, model_build, m, &set, scratch, &err), STATUS_OK);
    return set;
}

TEST(adapters_are_trained_and_everything_else_is_frozen)
{
    struct err          err   = { 0 };
    struct model_config c     = small();
    struct model       *m     = made(perm, &c, &err);
    struct program_set *set   = compiled(perm, m, DT_BF16, RECOMPUTE_NONE, scratch);
    i64                 grads = 0, adapters = 0;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t       = &set->persistents[i];
        bool                     adapter = lora_is_adapter(t->name);
        grads += t->kind == VALUE_GRAD;
        if (t->kind == VALUE_GRAD) CHECK(adapter && t->type.dtype == DT_F32);
        if (t->kind != VALUE_PARAM) continue;
        adapters += adapter;
        CHECK_EQ(t->frozen, !adapter);
        CHECK_EQ(t->type.dtype, !adapter && t->type.shape.rank > 1 ? DT_BF16 : DT_F32);
    }
    CHECK_EQ(adapters, 2 * 4 * 2);
    CHECK_EQ(grads, adapters);
    const struct persistent *a = program_set_find(set, STR("h.1.attn.qkv.lora_A.weight")),
                            *b = program_set_find(set, STR("h.1.attn.qkv.lora_B.weight"));
    CHECK(shape_eq(a->type.shape, shape_2(3 * 4, 128)) && a->init.kind == INIT_UNIFORM);
    CHECK_EQ(a->init.scale, 1 / sqrt(128.0));
    CHECK(shape_eq(b->type.shape, shape_2(3 * 128, 4)) && b->init.kind == INIT_ZERO);
    /* Of frozen matrices no product is left but those of the values and of what came before. */
    set = compiled(perm, m, DT_F32, RECOMPUTE_NONE, scratch);
    CHECK_EQ(program_set_find(set, STR("h.0.mlp.up.weight"))->type.dtype, DT_F32);
    CHECK(!program_set_find(set, STR("h.0.mlp.up.weight.grad")));
}

TEST(names_of_matrices_are_theirs_or_ours_and_must_mean_one)
{
    struct err          err = { 0 };
    struct model_config c   = small();
    struct hf_source    s;
    c.lora.on[0]                   = STR("q_proj");
    c.lora.on[1]                   = STR("self_attn.v_proj");
    c.lora.on[2]                   = STR("mlp.down");
    c.lora.on_count                = 3;
    struct model            *m     = made(perm, &c, &err);
    struct program_set      *set   = compiled(perm, m, DT_F32, RECOMPUTE_NONE, scratch);
    struct model_config      names = lora_names(&c);
    const struct persistent *b     = program_set_find(set, STR("h.0.attn.qkv.lora_B.weight"));
    CHECK(shape_eq(b->type.shape, shape_2(2 * 128, 4)));
    CHECK(!program_set_find(set, STR("h.0.mlp.up.lora_A.weight")));
    CHECK(lora_source(&names, b->name, b->type.shape, perm, &s));
    CHECK_EQ(s.count, 2);
    CHECK_STR(s.name[1], "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight");
    CHECK_EQ(s.rows[0], 128);
    CHECK_EQ(s.rows[1], 128);
    c.lora.on[1] = STR("roj");
    CHECK(!made(perm, &c, &err));
    CHECK_STR(str_of(err.text), "train.lora.on: the model has no matrix roj in its blocks");
    c.kind = STR("encoder");
    CHECK(!made(perm, &c, &err));
}

static i64 count_of(const struct program *p, i32 op, bool backward)
{
    i64 count = 0;
    for (i32 i = 0; i < p->graph->node_count; i++)
        count += p->graph->nodes[i].op == op && (i >= p->graph->forward_count) == backward;
    return count;
}

/* Twice a step and no more: in the forward half and in the backward half, where every block but the first wants a
 * gradient of its first matrix's input. */
TEST(matrices_in_fewer_bits_are_unpacked_where_they_are_read)
{
    struct err          err     = { 0 };
    struct model_config c       = small();
    enum recompute_kind kinds[] = { RECOMPUTE_NONE, RECOMPUTE_ALL };
    c.lora.weights              = STR("nf4");
    struct model *m             = made(perm, &c, &err);
    i64           bytes         = 0;
    for (i64 i = 0; i < COUNT_OF(kinds); i++) {
        struct arena        room = *perm;
        struct program_set *set  = compiled(&room, m, DT_BF16, kinds[i], scratch);
        struct program     *p    = set->programs[PROGRAM_TRAIN];
        CHECK_EQ(count_of(p, OP_UNPACK, false), 2 * 4);
        CHECK_EQ(count_of(p, OP_UNPACK, true), kinds[i] == RECOMPUTE_ALL ? 2 * 4 : 2 * 4 - 1);
        for (i32 k = 0; k < set->persistent_count; k++)
            if (str_starts(set->persistents[k].name, STR("h.1.mlp.up.weight")))
                bytes += type_bytes(set->persistents[k].type);
    }
    CHECK_EQ(bytes, 2 * (512 * 128 / 2 + 512 * 128 / 64 + 4 * 2 * 4));
}
