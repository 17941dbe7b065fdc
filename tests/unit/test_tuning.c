/* Choices of kernels: what is printed reads back, what is broken is left alone, files are whole. */
#include "backend/cuda/tuning.h"
#include "harness.h"
#include "support/sim_os.h"

static struct tuning *tuning_of(struct arena *perm, const char *gpu, i64 library)
{
    struct tuning *t = NEW(perm, struct tuning, 1);
    t->gpu           = str_of(gpu);
    t->library       = library;
    return t;
}

static struct tuned choice(i64 M, i64 tried, u64 algo)
{
    struct tuned c;
    memset(&c, 0, sizeof c);
    c.product.M = M, c.product.N = 768, c.product.K = 3072, c.product.batch = 1;
    c.product.tb   = 1;
    c.product.in   = M % 5 ? DT_BF16 : DT_U8;
    c.product.fp8  = M % 5 ? 0 : 1 + M % 3;
    c.product.out  = DT_F32;
    c.product.bias = M % 2 ? DT_F32 : DT_COUNT;
    c.product.then = M % 3 ? OP_ADD : -1;
    c.tried        = tried;
    c.us           = 12.25;
    c.algo[7]      = algo;
    return c;
}

TEST(what_is_printed_reads_back)
{
    struct tuning *t = tuning_of(perm, "NVIDIA H200", 130200),
                  *u = tuning_of(perm, "NVIDIA H200", 130200);
    struct err err   = { 0 };
    for (i64 m = 1; m < 9; m++) tuning_add(t, choice(m, 8, ~(u64)m));
    CHECK_EQ(tuning_parse(u, tuning_print(t, perm), scratch, &err), STATUS_OK);
    CHECK_EQ(u->count, 8);
    for (i32 i = 0; i < u->count; i++) {
        CHECK(!memcmp(&t->list[i].product, &u->list[i].product, sizeof(struct product)));
        CHECK(!memcmp(t->list[i].algo, u->list[i].algo, sizeof t->list[i].algo));
    }
    CHECK_STR(tuning_print(u, perm), tuning_print(t, perm));
}

static struct tuned_conv conv_choice(i64 C, enum way way)
{
    struct tuned_conv c;
    memset(&c, 0, sizeof c);
    c.kind =
        (struct conv_kind){ OP_CONV2D_GRAD_X, 256,    56,       57,    C, 64,   28, 29, 3, 1, 2, 1,
                            DT_BF16,          DT_F32, DT_COUNT, C % 2, 0, { 0 } };
    if (C % 3 == 0) c.kind.map_count = 2, c.kind.maps[0] = OP_ADD, c.kind.maps[1] = OP_RELU_GRAD;
    c.library = 91900;
    c.way     = way;
    c.tried   = 8;
    c.us      = 0.125;
    c.engine  = way == WAY_ENGINE ? 46 : 0;
    for (i32 i = 0; way == WAY_ENGINE && i < KNOBS_MAX; i++)
        c.knobs[c.knob_count++] = (struct knob){ i, i % 2 ? -C : C };
    return c;
}

/* Those of a checkpoint are taken for their bits, those of the file for their speed. */
TEST(choices_of_a_checkpoint_are_exact)
{
    struct err        err  = { 0 };
    struct tuning    *from = tuning_of(perm, "g", 1), *to = tuning_of(perm, "g", 1);
    struct tuned_conv one = conv_choice(1, WAY_ENGINE), two = conv_choice(2, WAY_ENGINE);
    tuning_add_conv(from, &one);
    tuning_add_conv(to, &two);
    to->exact = true;
    CHECK_EQ(tuning_parse(to, tuning_print(from, perm), *perm, &err), STATUS_OK);
    CHECK_EQ(to->conv_count, 2);
    CHECK(!to->convs[0].exact && to->convs[1].exact);
}

TEST(choices_of_convolutions_read_back_beside_those_of_products)
{
    struct tuning *t = tuning_of(perm, "g", 1), *u = tuning_of(perm, "g", 1),
                  *v = tuning_of(perm, "g", 1);
    struct err err   = { 0 };
    tuning_add(t, choice(1, 8, 1));
    for (i64 c = 1; c < 9; c++) {
        struct tuned_conv one = conv_choice(c, (enum way)(c % WAY_COUNT));
        tuning_add_conv(t, &one);
        tuning_add_conv(t, &one); /* in its own place */
    }
    CHECK_EQ(tuning_parse(u, tuning_print(t, perm), scratch, &err), STATUS_OK);
    CHECK_EQ(u->count, 1);
    CHECK_EQ(u->conv_count, 8);
    for (i32 i = 0; i < u->conv_count; i++)
        CHECK(!memcmp(&t->convs[i], &u->convs[i], sizeof t->convs[i]));
    CHECK(tuning_find_conv(u, &t->convs[3].kind, 91900, 8));
    CHECK(!tuning_find_conv(u, &t->convs[3].kind, 91900, 9)); /* from more engines */
    CHECK(!tuning_find_conv(u, &t->convs[3].kind, 92000, 8)); /* another library's engines */
    u->convs[2].used = true;
    CHECK_EQ(tuning_parse(v, tuning_print_used(u, perm), scratch, &err), STATUS_OK);
    CHECK_EQ(v->count, 0);
    CHECK_EQ(v->conv_count, 1);
    CHECK(!memcmp(&v->convs[0].kind, &u->convs[2].kind, sizeof(struct conv_kind)));
}

static struct conv_kind kind_of(i64 op, enum dtype in, enum dtype out)
{
    return (struct conv_kind){ .op = op, .in = in, .out = out, .bias = DT_COUNT };
}

/* An engine that stores f32 is compiled at run time: half of the core time of a first run, and never chosen. */
TEST(an_engine_stores_a_16_bit_weight_gradient_in_f32_only_where_the_low_type_has_none)
{
    static const enum dtype low[] = { DT_BF16, DT_F16 };
    struct conv_kind        wide  = kind_of(OP_CONV2D_GRAD_W, DT_F32, DT_F32);
    for (i64 i = 0; i < COUNT_OF(low); i++) {
        struct conv_kind k    = kind_of(OP_CONV2D_GRAD_W, low[i], DT_F32);
        struct conv_kind same = kind_of(OP_CONV2D_GRAD_W, low[i], low[i]);
        CHECK(tuning_tries_low(&k, NULL));
        CHECK(!tuning_tries_straight(&k, NULL, true));
        CHECK(tuning_tries_straight(&k, NULL, false));
        CHECK(!tuning_tries_low(&same, NULL));
        CHECK(tuning_tries_straight(&same, NULL, false));
    }
    CHECK(!tuning_tries_low(&wide, NULL));
    CHECK(tuning_tries_straight(&wide, NULL, false));
}

TEST(other_convolutions_try_both_ways_and_a_kept_choice_only_its_own)
{
    static const i64  ops[] = { OP_CONV2D, OP_CONV2D_GRAD_X, OP_CONV2D_GRAD_W };
    struct tuned_conv kept  = { 0 };
    for (i64 i = 0; i < COUNT_OF(ops); i++) {
        struct conv_kind k = kind_of(ops[i], DT_BF16, DT_F32);
        CHECK_EQ(tuning_tries_straight(&k, NULL, true), ops[i] != OP_CONV2D_GRAD_W);
        CHECK(tuning_tries_low(&k, NULL));
        for (kept.way = 0; kept.way < WAY_COUNT; kept.way++) {
            CHECK_EQ(tuning_tries_straight(&k, &kept, true), kept.way == WAY_ENGINE);
            CHECK_EQ(tuning_tries_low(&k, &kept), kept.way == WAY_LOW);
        }
    }
}

TEST(a_choice_counts_for_its_product_and_for_as_many_tries)
{
    struct tuning *t = tuning_of(perm, "g", 1);
    struct tuned   c = choice(4, 8, 7), other = choice(5, 8, 7);
    tuning_add(t, c);
    CHECK(tuning_find(t, &c.product, 8));
    CHECK(!tuning_find(t, &c.product, 64)); /* max-autotune tries more */
    CHECK(!tuning_find(t, &other.product, 8));
    tuning_add(t, choice(4, 64, 9));
    CHECK_EQ(t->count, 1);
    CHECK_EQ(tuning_find(t, &c.product, 64)->algo[7], 9u);
}

TEST(what_travels_is_what_was_used)
{
    struct tuning *t = tuning_of(perm, "g", 1), *u = tuning_of(perm, "g", 1);
    for (i64 m = 1; m < 5; m++) tuning_add(t, choice(m, 8, 1));
    tuning_find(t, &t->list[2].product, 8)->used = true;
    CHECK_EQ(tuning_parse(u, tuning_print_used(t, perm), scratch, NULL), STATUS_OK);
    CHECK_EQ(u->count, 1);
    CHECK(!memcmp(&u->list[0].product, &t->list[2].product, sizeof(struct product)));
}

TEST(a_full_table_takes_no_more)
{
    struct tuning *t = tuning_of(perm, "g", 1);
    for (i64 m = 1; m <= TUNED_MAX + 5; m++) tuning_add(t, choice(m, 8, 0));
    CHECK_EQ(t->count, TUNED_MAX);
}

TEST(text_that_is_broken_or_of_another_gpu_adds_nothing)
{
    static const char *const bad[] = {
        "",
        "frugal tuning 2\ngpu g\ncublaslt 1\n",
        "frugal tuning 1\ngpu other\ncublaslt 1\n",
        "frugal tuning 1\ngpu g\ncublaslt 2\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f32 f32 - - 8 1 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f32 f32 - - 8 1 0 0 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nx f32 f32 - - 8 1 0 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f31 f32 - - 8 1 0 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n0 1 1 1 nn f32 f32 - - 8 1 0 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f32 f32 - matmul 8 1 0 0 0 0 0 0 0 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f32 f32 - - 8 1 0 0 0 0 0 0 0 g\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nmatmul 1 1 1 1 1 1 1 1 1 1 0 f32 f32 - any - 1 engine "
        "8 1 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nconv2d 1 1 1 1 1 1 1 1 1 1 0 f32 f32 - some - 1 "
        "engine 8 1 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nconv2d 1 1 1 1 1 1 1 1 1 1 0 f32 f32 - any - 1 guess "
        "8 1 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nconv2d 1 1 1 1 1 1 1 1 1 1 0 f32 f32 - any matmul 1 "
        "engine 8 1 0\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nconv2d 1 1 1 1 1 1 1 1 1 1 0 f32 f32 - any - 1 engine "
        "8 1 0 3\n",
        "frugal tuning 1\ngpu g\ncublaslt 1\nconv2d 0 1 1 1 1 1 1 1 1 1 0 f32 f32 - any - 1 engine "
        "8 1 0\n",
    };
    for (i64 i = 0; i < COUNT_OF(bad); i++) {
        struct tuning *t   = tuning_of(perm, "g", 1);
        struct err     err = { 0 };
        CHECK_EQ(tuning_parse(t, str_of(bad[i]), scratch, &err), STATUS_USAGE);
        CHECK(err.text[0] && !t->count && !t->conv_count);
    }
    struct tuning *t = tuning_of(perm, "g", 1);
    CHECK_EQ(
        tuning_parse(
            t,
            STR("frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1 1 nn f32 f32 - - 8 1 0 0 0 0 0 0 0 0\n"),
            scratch, NULL),
        STATUS_OK);
    CHECK_EQ(t->count, 1);
}

static struct sim_os *world(struct arena *perm)
{
    struct sim_os *sim = sim_os_new(perm);
    sim->env[0][0]     = STR("XDG_CACHE_HOME");
    sim->env[0][1]     = STR("cache");
    sim->env_count     = 1;
    return sim;
}

TEST(files_are_named_by_gpu_and_library_and_join_what_others_wrote)
{
    struct sim_os *sim = world(perm);
    struct tuning *t   = tuning_of(perm, "NVIDIA H200/x", 130200),
                  *u   = tuning_of(perm, "NVIDIA H200/x", 130200);
    CHECK_STR(tuning_path(&sim->os, t, perm), "cache/frugal/gemm-NVIDIA-H200-x-130200.txt");
    CHECK_EQ(tuning_load(t, &sim->os, scratch, NULL), STATUS_OK); /* none yet */
    tuning_add(t, choice(1, 8, 1));
    tuning_add(u, choice(2, 8, 2));
    CHECK_EQ(tuning_save(t, &sim->os, scratch, NULL), STATUS_OK);
    CHECK_EQ(tuning_save(u, &sim->os, scratch, NULL), STATUS_OK);
    struct tuning *both = tuning_of(perm, "NVIDIA H200/x", 130200);
    CHECK_EQ(tuning_load(both, &sim->os, scratch, NULL), STATUS_OK);
    CHECK_EQ(both->count, 2);
    i64 calls = sim->calls;
    CHECK_EQ(tuning_save(u, &sim->os, scratch, NULL), STATUS_OK); /* nothing new */
    CHECK_EQ(sim->calls, calls);
}

TEST(a_file_that_is_broken_has_a_sentence_and_is_written_anew)
{
    struct sim_os *sim  = world(perm);
    struct tuning *t    = tuning_of(perm, "g", 1);
    struct str     path = tuning_path(&sim->os, t, perm);
    struct err     err  = { 0 };
    sim_os_put(sim, path, STR("frugal tuning 1\ngpu g\ncublaslt 1\n1 1 1"));
    CHECK_EQ(tuning_load(t, &sim->os, scratch, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "line 4") && strstr(err.text, "gemm-g-1.txt"));
    CHECK_EQ(t->count, 0);
    tuning_add(t, choice(1, 8, 1));
    CHECK_EQ(tuning_save(t, &sim->os, scratch, &err), STATUS_OK);
    struct tuning *again = tuning_of(perm, "g", 1);
    CHECK_EQ(tuning_load(again, &sim->os, scratch, &err), STATUS_OK);
    CHECK_EQ(again->count, 1);
}

/* Killed at any call, the next process finds whole choices, old or new. Where the power is cut, the folder
 * itself may be lost: it is a cache. */
TEST(a_power_cut_leaves_a_whole_file)
{
    for (i64 kill = 1, done = 0; !done; kill++) {
        for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
            struct arena   room = *perm;
            struct sim_os *sim  = world(&room);
            struct tuning *t = tuning_of(&room, "g", 1), *next = tuning_of(&room, "g", 1);
            tuning_add(t, choice(1, 8, 1));
            CHECK_EQ(tuning_save(t, &sim->os, scratch, NULL), STATUS_OK);
            tuning_add(t, choice(2, 8, 1));
            sim->kill_at = sim->calls + kill;
            done         = !tuning_save(t, &sim->os, scratch, NULL);
            sim_os_crash(sim, (enum sim_survive)survive);
            CHECK_EQ(tuning_load(next, &sim->os, scratch, NULL), STATUS_OK);
            if (survive == SIM_ALL) CHECK(next->count == 2 || (!done && next->count == 1));
        }
    }
}
