/* How many samples at once: auto fits its budget to the byte, divides the step, and says why. */
#include "harness.h"
#include "train/train_int.h"

enum { SAMPLES = 20000 };

static struct settings clicks(i64 batch, i64 micro, f64 memory_gib)
{
    struct settings s = {
        .data = { .kind = STR("synthetic_clicks"), .samples = SAMPLES, .buckets = 1000 }
    };
    s.data.held_out     = 0.1;
    s.model.kind        = STR("ranker");
    s.model.table_width = 8;
    s.model.mlp[0]      = 64;
    s.model.mlp_count   = 1;
    s.train             = (struct train_config){ .epochs      = 1000, /* enough for any batch */
                                                 .batch       = batch,
                                                 .micro_batch = micro,
                                                 .eval_batch  = 1 << 20,
                                                 .memory_gib  = memory_gib,
                                                 .optimiser   = STR("adam"),
                                                 .precision   = STR("fp32"),
                                                 .recompute   = STR("none"),
                                                 .threads     = 1 };
    return s;
}

/* What the session chose; -1: it refused. */
struct chosen {
    i64        batch, accumulate, arena_bytes;
    struct str reason;
    struct err err;
};

static struct chosen choose(const struct settings *settings, struct arena *perm)
{
    struct session s;
    struct chosen  c    = { .batch = -1 };
    struct arena   room = arena_part(perm, (i64)1 << 28);
    if (!session_open(&s, os_real(), settings, &room, &c.err)) {
        c.batch       = s.config.batch;
        c.accumulate  = s.config.accumulate;
        c.arena_bytes = s.set->arena_bytes;
        c.reason      = str_copy(perm, s.batch_reason);
    }
    session_close(&s);
    return c;
}

TEST(auto_fits_its_budget_and_hardly_more_would)
{
    struct settings one = clicks(1, 0, NAN), many = clicks(1000, 0, NAN);
    one.train.eval_batch = many.train.eval_batch = 1;
    i64 base                                     = choose(&one, perm).arena_bytes,
        each                                     = (choose(&many, perm).arena_bytes - base) / 999;
    i64 largest                                  = 0;
    for (i64 wanted = 40; wanted < 4000; wanted *= 3) {
        i64             budget = base + each * wanted;
        struct settings s      = clicks(0, 0, (f64)budget / 0x1p30);
        struct chosen   c      = choose(&s, perm);
        CHECK(c.arena_bytes <= budget);
        CHECK(c.reason.len > 0);
        largest += str_starts(c.reason, STR("the largest"));
        if (!str_starts(c.reason, STR("the largest"))) continue; /* more fits, and does not pay */
        i64             n     = c.batch + 2 + c.batch / 50;
        struct settings more  = clicks(n, n, (f64)budget / 0x1p30);
        more.train.eval_batch = 1;
        CHECK_EQ(choose(&more, perm).batch, -1);
    }
    CHECK(largest > 0);
}

TEST(a_step_is_computed_at_once_where_it_fits)
{
    struct settings s = clicks(1000, 0, NAN);
    struct chosen   c = choose(&s, perm);
    CHECK_EQ(c.batch, 1000);
    CHECK_EQ(c.accumulate, 1);
    CHECK_EQ(c.reason.len, 0);
}

/* A budget between what one sample at a time and what all of them at once take. */
TEST(a_step_that_does_not_fit_is_computed_in_parts_that_do)
{
    struct settings one = clicks(10000, 1, NAN), all = clicks(10000, 0, NAN);
    one.train.eval_batch = all.train.eval_batch = 1;
    i64             least = choose(&one, perm).arena_bytes, most = choose(&all, perm).arena_bytes;
    i64             budget = least + (most - least) / 3;
    struct settings s      = clicks(10000, 0, (f64)budget / 0x1p30);
    s.train.eval_batch     = 1;
    struct chosen c        = choose(&s, perm);
    CHECK(c.batch > 1 && c.batch < 10000 && 10000 % c.batch == 0);
    CHECK_EQ(c.batch * c.accumulate, 10000);
    CHECK(c.arena_bytes <= budget);
    CHECK(str_starts(c.reason, STR("the largest part of train.batch=10000 that fits")));
    s.train.batch = 9973; /* a prime: one by one is left, and would take for ever */
    CHECK_EQ(choose(&s, perm).err.status, STATUS_USAGE);
    s.train.batch = s.train.micro_batch = 10000; /* asked for: an error, not another size */
    c                                   = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
}

/* The last step of an epoch, shorter than the others, is computed in parts too. */
TEST(the_rest_of_an_epoch_does_not_keep_the_parts_large)
{
    struct settings one = clicks(8192, 1, NAN), all = clicks(8192, 0, NAN);
    one.train.eval_batch = all.train.eval_batch = 1;
    CHECK(SAMPLES % 8192 > 8192 / 8);
    i64             least = choose(&one, perm).arena_bytes, most = choose(&all, perm).arena_bytes;
    i64             budget = least + (most - least) / 8;
    struct settings s      = clicks(8192, 0, (f64)budget / 0x1p30);
    s.train.eval_batch     = 1;
    struct chosen c        = choose(&s, perm);
    CHECK(c.batch > 1 && c.batch <= 8192 / 4);
    CHECK_EQ(c.batch * c.accumulate, 8192);
    CHECK(c.arena_bytes <= budget);
}

/* What learns is the number of steps: a batch that leaves few is not taken, whatever the machine would gain. */
TEST(auto_leaves_the_run_a_thousand_steps)
{
    struct settings s = clicks(0, 0, 2);
    for (i64 epochs = 0; epochs <= 64; epochs = epochs ? 4 * epochs : 1) {
        s.train.epochs    = epochs;
        struct chosen c   = choose(&s, perm);
        i64           all = SAMPLES * MAX(epochs, 1);
        CHECK(c.batch >= 1 && (c.batch <= 16 || all / c.batch >= 1000));
        CHECK((c.batch & (c.batch - 1)) == 0);
        CHECK(strstr(str_z(perm, c.reason),
                     "the largest power of two that leaves the run 1000 steps"));
        CHECK(strstr(str_z(perm, c.reason), "train.noise_scale=true measures"));
    }
}

/* Few samples: 16 is where auto begins. With train.steps the batch does not decide how many steps the run has. */
TEST(auto_claims_no_steps_that_the_run_does_not_make)
{
    static const struct {
        i64         samples, steps, epochs;
        const char *why;
    } rows[] = { { 5000, 0, 0, "auto's choice where the run has fewer than 1000 steps" },
                 { 5000, 40, 0, "auto's choice where an epoch has fewer than 1000 steps" },
                 { SAMPLES, 40, 64,
                   "the largest power of two that leaves train.epochs 1000 steps" } };
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct settings s     = clicks(0, 0, 2);
        s.data.samples        = rows[i].samples;
        s.train.steps         = rows[i].steps;
        s.train.epochs        = rows[i].epochs;
        s.train.deterministic = true;
        struct chosen c       = choose(&s, perm);
        const char   *says    = str_z(perm, c.reason);
        CHECK(strstr(says, rows[i].why));
        /* Nothing measured decides on the 16: every start takes it. */
        bool fixed = rows[i].samples < SAMPLES;
        if (fixed) CHECK_EQ(c.batch, 16);
        CHECK_EQ(strstr(says, "another start may choose differently") == NULL, fixed);
    }
}

TEST(auto_never_takes_more_than_there_is)
{
    struct settings s = clicks(0, 0, 2);
    s.data.samples    = 30;
    CHECK(choose(&s, perm).batch <= 30);
    s.train.batch = 512;
    CHECK_EQ(choose(&s, perm).batch, 30);
}

TEST(a_step_in_micro_batches_of_its_own_divisor)
{
    struct settings s = clicks(1000, 50, NAN);
    CHECK_EQ(choose(&s, perm).accumulate, 20);
    CHECK_EQ(choose(&s, perm).batch, 50);
}

TEST(a_step_that_does_not_divide_is_a_sentence)
{
    struct settings s = clicks(1000, 48, NAN);
    struct chosen   c = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
    CHECK(
        strstr(c.err.text, "train.micro_batch=48 does not divide train.batch=1000: 40 and 50 do"));
    s = clicks(10, 48, NAN);
    CHECK(strstr(choose(&s, perm).err.text,
                 "train.micro_batch=48 does not divide train.batch=10: 10 and 10 do"));
    s = clicks(0, 4, NAN);
    CHECK(strstr(choose(&s, perm).err.text, "leave out train.micro_batch=4"));
}

TEST(a_budget_that_no_sample_fits_is_a_sentence)
{
    struct settings s = clicks(0, 0, 1e-4);
    s.train.tables    = STR("dense");
    struct chosen c   = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
    CHECK(strstr(c.err.text, "even one sample"));
}

TEST(tables_that_no_budget_holds_are_named_with_their_bytes)
{
    static const struct {
        i64         batch, micro;
        const char *tables;
        enum dtype  dtype;
        const char *text;
    } rows[] = {
        /* 26 columns of 1,000, 8 wide: 208,000 numbers of 4 or 2 bytes, and two of 4 each in Adam's state */
        { 0, 0, "adam", DT_F32,
          "0.000775 of them for the embedding table and 0.00155 for its optimiser's state" },
        { 100, 0, "adam", DT_F32,
          "try model.table_dtype=bf16, train.tables=adagrad, a smaller data.buckets" },
        { 100, 10, "adagrad", DT_F32, "try model.table_dtype=bf16, a smaller data.buckets" },
        { 100, 0, "sgd", DT_BF16,
          "0.000387 of them for the embedding table and 0 for its optimiser's state" },
        { 100, 0, "sgd", DT_BF16,
          "has 0.0001 GiB: try a smaller data.buckets or model.table_width" },
    };
    for (i32 i = 0; i < COUNT_OF(rows); i++) {
        struct settings s   = clicks(rows[i].batch, rows[i].micro, 1e-4);
        s.train.tables      = str_of(rows[i].tables);
        s.model.table_dtype = rows[i].dtype;
        struct chosen c     = choose(&s, perm);
        CHECK_EQ(c.err.status, STATUS_USAGE);
        if (!strstr(c.err.text, rows[i].text))
            harness_fail(__FILE__, __LINE__, "%s\nis not in: %s", rows[i].text, c.err.text);
    }
}
