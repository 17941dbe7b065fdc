/* How many samples at once: auto fits its budget to the byte, divides the step, and says why. */
#include "harness.h"
#include "train/train_int.h"

enum { SAMPLES = 20000 };

static struct settings clicks(i64 batch, i64 total, f64 memory_gib)
{
    struct settings s = {
        .data = { .kind = STR("synthetic_clicks"), .samples = SAMPLES, .buckets = 1000 }
    };
    s.data.held_out     = 0.1;
    s.model.kind        = STR("ranker");
    s.model.table_width = 8;
    s.model.mlp[0]      = 64;
    s.model.mlp_count   = 1;
    s.train             = (struct train_config){ .batch       = batch,
                                                 .batch_total = total,
                                                 .accumulate  = 1,
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
        struct settings more  = clicks(c.batch + 2 + c.batch / 50, 0, (f64)budget / 0x1p30);
        more.train.eval_batch = 1;
        CHECK_EQ(choose(&more, perm).batch, -1);
    }
    CHECK(largest > 0);
}

TEST(auto_divides_the_step_that_was_asked_for)
{
    struct settings s = clicks(0, 1000, 0.25);
    struct chosen   c = choose(&s, perm);
    CHECK(c.batch >= 1 && 1000 % c.batch == 0);
    CHECK_EQ(c.batch * c.accumulate, 1000);
    s = clicks(0, 997, 0.25); /* a prime: all at once, or one by one */
    c = choose(&s, perm);
    CHECK(c.batch == 997 || c.batch == 1);
    CHECK_EQ(c.batch * c.accumulate, 997);
}

TEST(auto_never_takes_more_than_there_is)
{
    struct settings s = clicks(0, 0, 2);
    s.data.samples    = 30;
    CHECK(choose(&s, perm).batch <= 30);
    s.train.batch_total = 512;
    CHECK(choose(&s, perm).batch <= 30);
}

TEST(a_step_in_batches_of_its_own_divisor)
{
    struct settings s = clicks(50, 1000, NAN);
    CHECK_EQ(choose(&s, perm).accumulate, 20);
    s.train.accumulate = 20; /* said twice, and the same */
    CHECK_EQ(choose(&s, perm).accumulate, 20);
    s.train.batch_total = 0;
    s.train.accumulate  = 3;
    CHECK_EQ(choose(&s, perm).accumulate, 3);
}

TEST(a_step_that_does_not_divide_is_a_sentence)
{
    struct settings s = clicks(48, 1000, NAN);
    struct chosen   c = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
    CHECK(strstr(c.err.text, "960 or 1008"));
    s                  = clicks(50, 1000, NAN);
    s.train.accumulate = 4;
    c                  = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
    CHECK(strstr(c.err.text, "train.accumulate=4"));
}

TEST(a_budget_that_no_sample_fits_is_a_sentence)
{
    struct settings s = clicks(0, 0, 1e-4);
    struct chosen   c = choose(&s, perm);
    CHECK_EQ(c.err.status, STATUS_USAGE);
    CHECK(strstr(c.err.text, "even one sample"));
}
