/* test_tuner.c - the tuner against a simulated pipeline and its clock. */
#include "base/rng.h"
#include "data/tuner.h"
#include "harness.h"

/* A pipeline as a fluid: the rate is that of its narrowest part. */
struct sim {
    f64 cpu_s[STAGE_COUNT], io_s[STAGE_COUNT]; /* of a sample */
    f64 cores;
    f64 caller_s; /* that the caller works on a sample */
    f64 noise;    /* of the rate, either way */
    i64 batch;
    i64 sample_bytes;
    f64 done; /* samples so far */
    u64 seed, draws;
};

static f64 sim_rate(const struct sim *m, const struct tuner_choice *c)
{
    f64 cpu = 0, way = 0, rate = INFINITY;
    for (i64 k = 0; k < STAGE_COUNT; k++) {
        f64 each = m->cpu_s[k] + m->io_s[k];
        rate     = MIN(rate, (f64)c->workers[k] / each);
        cpu += m->cpu_s[k];
        way += each;
    }
    rate = MIN(rate, m->cores / cpu);
    return MIN(rate, (f64)(c->prefetch * m->batch) / way); /* Little's law */
}

static struct tuner_seen sim_run(struct sim *m, const struct tuner_choice *c, f64 seconds)
{
    struct rng_key key  = { .seed = m->seed };
    f64            able = sim_rate(m, c), wants = 1 / m->caller_s; /* inf: it takes them at once */
    f64 rate    = MIN(able * (1 + m->noise * (2 * rng_uniform(key, m->draws++) - 1)), wants);
    f64 away    = MIN(rate * m->caller_s, 1);
    i64 samples = (i64)(m->done + rate * seconds) - (i64)m->done;
    m->done += rate * seconds;
    struct tuner_seen s = { .seconds      = seconds,
                            .wait_s       = seconds * (1 - away),
                            .away_s       = seconds * away,
                            .taken        = samples,
                            .sample_bytes = m->sample_bytes };
    for (i64 k = 0; k < STAGE_COUNT; k++)
        s.stage[k] = (struct tuner_stage){ .samples = samples,
                                           .busy_s  = rate * seconds * (m->cpu_s[k] + m->io_s[k]),
                                           .cpu_s   = rate * seconds * m->cpu_s[k] };
    return s;
}

static void sim_add(struct tuner_seen *sum, const struct tuner_seen *s)
{
    sum->seconds += s->seconds;
    sum->wait_s += s->wait_s;
    sum->away_s += s->away_s;
    sum->taken += s->taken;
    sum->sample_bytes = s->sample_bytes;
    for (i64 k = 0; k < STAGE_COUNT; k++) {
        sum->stage[k].samples += s->stage[k].samples;
        sum->stage[k].busy_s += s->stage[k].busy_s;
        sum->stage[k].cpu_s += s->stage[k].cpu_s;
    }
}

/* The tuner's next `seconds`; returns how many lines it said, and the last of them. */
static i64 sim_tune(struct sim *m, struct tuner *t, f64 seconds, char line[LOADER_LINE_MAX])
{
    struct tuner_seen seen  = { 0 };
    i64               lines = 0;
    for (f64 at = 0; at < seconds; at += 0.05) {
        struct tuner_seen tick = sim_run(m, &t->now, 0.05);
        sim_add(&seen, &tick);
        if (!tuner_enough(t, &seen)) continue;
        lines += tuner_step(t, &seen, line);
        seen = (struct tuner_seen){ 0 };
    }
    return lines;
}

static struct tuner_limits limits_of(const struct sim *m)
{
    return (struct tuner_limits){ .stages       = STAGE_COUNT,
                                  .stage        = { STAGE_READ, STAGE_DECODE, STAGE_AUGMENT },
                                  .workers_max  = LOADER_WORKERS_MAX,
                                  .prefetch_max = LOADER_PREFETCH_MAX,
                                  .cpu          = m->cores,
                                  .memory_bytes = (i64)1 << 40,
                                  .batch        = m->batch,
                                  .batch_bytes  = 1 << 20 };
}

/* Every number of threads, one stage after the other: their rates do not depend on each other's. */
static f64 sim_best(const struct sim *m)
{
    struct tuner_choice c = { .prefetch = LOADER_PREFETCH_MAX };
    for (i64 k = 0; k < STAGE_COUNT; k++) c.workers[k] = LOADER_WORKERS_MAX;
    return MIN(sim_rate(m, &c), 1 / m->caller_s);
}

static f64 sim_now(const struct sim *m, const struct tuner *t)
{
    return MIN(sim_rate(m, &t->now), 1 / m->caller_s);
}

static f64 between(struct sim *m, f64 low, f64 high) /* log-uniform */
{
    struct rng_key key = { .seed = m->seed, .name = 1 };
    return low * pow(high / low, rng_uniform(key, m->draws++));
}

static struct sim sim_draw(u64 seed, bool io)
{
    static const f64 cores[] = { 1, 2, 4, 16, 64 };
    struct sim       m     = { .seed = seed, .batch = 32, .noise = 0.01, .sample_bytes = 1 << 20 };
    m.cores                = cores[rng_mix(seed) % COUNT_OF(cores)];
    m.cpu_s[STAGE_READ]    = between(&m, 1e-5, 1e-4);
    m.cpu_s[STAGE_DECODE]  = between(&m, 1e-3, 1e-2);
    m.cpu_s[STAGE_AUGMENT] = between(&m, 1e-4, 1e-2);
    if (io) m.io_s[STAGE_READ] = between(&m, 1e-3, 5e-2);
    if (seed % 3 == 0) m.io_s[STAGE_DECODE] = between(&m, 1e-4, 1e-2);
    if (seed % 2 == 0) m.caller_s = between(&m, 1e-4, 1e-2);
    return m;
}

TEST(tuner_comes_within_five_percent_of_the_best_in_thirty_seconds)
{
    u64  first = test_seed();
    char line[LOADER_LINE_MAX];
    for (u64 i = 0; i < 300; i++) {
        struct sim          m      = sim_draw(first + i, i % 3 > 0);
        struct tuner_limits limits = limits_of(&m);
        struct tuner        t;
        tuner_start(&t, &limits);
        CHECK_EQ(t.now.workers[STAGE_READ], 1);
        CHECK_EQ(t.now.prefetch, 1);
        CHECK(sim_tune(&m, &t, 30, line) <= 25); /* it does not fidget */
        CHECK(sim_now(&m, &t) >= 0.95 * sim_best(&m));
    }
}

TEST(tuner_follows_when_the_work_changes)
{
    u64  first = test_seed();
    char line[LOADER_LINE_MAX];
    for (u64 i = 0; i < 100; i++) {
        struct sim          m      = sim_draw(first + i, true);
        struct tuner_limits limits = limits_of(&m);
        struct tuner        t;
        tuner_start(&t, &limits);
        sim_tune(&m, &t, 60, line);
        m.io_s[STAGE_READ] *= 4;
        m.cpu_s[STAGE_AUGMENT] /= 2;
        sim_tune(&m, &t, 30, line);
        CHECK(sim_now(&m, &t) >= 0.95 * sim_best(&m));
    }
}

TEST(tuner_takes_no_more_than_the_caller_needs_and_gives_back)
{
    struct sim          m      = { .cpu_s    = { 1e-5, 2e-3, 1e-3 },
                                   .io_s     = { 20e-3, 0, 0 },
                                   .cores    = 16,
                                   .caller_s = 1e-3,
                                   .batch    = 32 };
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    tuner_start(&t, &limits);
    sim_tune(&m, &t, 30, line); /* 1000 samples a second: 20 readers, 2 decoders, 1 to augment */
    CHECK_NEAR(sim_now(&m, &t), 1000, 0);
    CHECK(t.now.workers[STAGE_READ] <= 32);
    CHECK(t.now.workers[STAGE_DECODE] <= 4);
    CHECK(t.now.workers[STAGE_AUGMENT] <= 3);
    m.caller_s *= 10;
    sim_tune(&m, &t, 200, line);
    CHECK_NEAR(sim_now(&m, &t), 100, 0);
    CHECK(t.now.workers[STAGE_READ] <= 6);
}

TEST(tuner_lets_stages_share_the_cores_where_those_are_what_limits)
{
    struct sim          m      = { .cpu_s = { 1e-5, 4e-3, 1e-3 }, .cores = 4, .batch = 32 };
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    tuner_start(&t, &limits);
    sim_tune(&m, &t, 30, line);
    for (i64 k = 0; k < STAGE_COUNT; k++) CHECK_EQ(t.now.workers[k], 4);
    m.io_s[STAGE_DECODE] =
        4e-3; /* 800 samples a second: 6.4 threads, if each that is ready had a core */
    tuner_start(&t, &limits);
    sim_tune(&m, &t, 30, line);
    CHECK(t.now.workers[STAGE_DECODE] >= 12);
    CHECK_EQ(t.now.workers[STAGE_AUGMENT], 4);
}

TEST(tuner_keeps_to_the_cores_and_the_memory_that_it_may_have)
{
    u64  first = test_seed();
    char line[LOADER_LINE_MAX];
    for (u64 i = 0; i < 100; i++) {
        struct sim          m      = sim_draw(first + i, true);
        struct tuner_limits limits = limits_of(&m);
        struct tuner        t;
        limits.cpu          = 1 + (f64)(i % 3);
        limits.cpu_strict   = true;
        limits.memory_bytes = (i64)(200 + i) << 20;
        limits.prefetch_max = 50;
        m.cores             = 64; /* that the machine has */
        tuner_start(&t, &limits);
        struct tuner_choice ones = { .workers = { 1, 1, 1 }, .prefetch = LOADER_PREFETCH_MAX };
        f64 cpu_s = m.cpu_s[0] + m.cpu_s[1] + m.cpu_s[2], least = sim_rate(&m, &ones) * cpu_s;
        sim_tune(&m, &t, 30, line);
        i64 bytes = (t.now.prefetch + 1) * limits.batch_bytes;
        for (i64 k = 0; k < STAGE_COUNT; k++)
            bytes += (t.now.workers[k] + t.now.queue[k]) * m.sample_bytes;
        /* A stage has a thread, whatever that takes; and a sample's times were measured, to 1 %. */
        CHECK(sim_now(&m, &t) * cpu_s <= 1.02 * MAX(limits.cpu, least));
        CHECK(bytes <= limits.memory_bytes);
    }
}

TEST(tuner_makes_room_when_samples_grow)
{
    struct sim          m      = { .cpu_s        = { 1e-5, 2e-3, 1e-3 },
                                   .io_s         = { 20e-3, 0, 0 },
                                   .cores        = 16,
                                   .batch        = 32,
                                   .sample_bytes = 1 << 20 };
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    limits.memory_bytes = (i64)1 << 30;
    tuner_start(&t, &limits);
    sim_tune(&m, &t, 20, line);
    i64 before     = t.now.workers[STAGE_READ];
    m.sample_bytes = 8 << 20;
    sim_tune(&m, &t, 1, line);
    CHECK(t.now.workers[STAGE_READ] < before / 2);
    sim_tune(&m, &t, 60, line);
    CHECK(t.now.workers[STAGE_READ] < before / 2);
}

TEST(tuner_leaves_fixed_numbers_alone)
{
    struct sim          m      = sim_draw(6, true);
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    limits.workers[STAGE_READ] = 3;
    limits.prefetch            = 2;
    limits.queue               = 5;
    tuner_start(&t, &limits);
    sim_tune(&m, &t, 30, line);
    CHECK_EQ(t.now.workers[STAGE_READ], 3);
    CHECK_EQ(t.now.prefetch, 2);
    CHECK_EQ(t.now.queue[STAGE_DECODE], 5);
}

TEST(tuner_says_what_came_of_it)
{
    struct sim m = { .cpu_s = { 1e-4, 5e-3, 1e-4 }, .cores = 16, .caller_s = 2.5e-3, .batch = 32 };
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    limits.workers[STAGE_READ] = limits.workers[STAGE_AUGMENT] = 1;
    limits.prefetch                                            = 8;
    tuner_start(&t, &limits);
    CHECK_EQ(sim_tune(&m, &t, 3, line), 1);
    CHECK_STR(line, "decode 1 → 3 workers: wait 50 % → 0 %, 200 → 400 samples/s");
}

/* More threads that make it slower are not kept. */
TEST(tuner_takes_back_what_harms)
{
    struct sim          m      = { .cpu_s = { 1e-4, 4e-3, 1e-4 }, .cores = 2, .batch = 32 };
    struct tuner_limits limits = limits_of(&m);
    struct tuner        t;
    char                line[LOADER_LINE_MAX];
    limits.cpu = 8; /* it is told of more than there are */
    tuner_start(&t, &limits);
    i64 lines = 0;
    for (i64 i = 0; i < 40; i++) { /* each thread beyond two costs a tenth of the rate */
        m.noise = 0;
        m.cores = 2 - 0.2 * (f64)MAX(t.now.workers[STAGE_DECODE] - 2, 0);
        m.cores = MAX(m.cores, 0.1);
        lines += sim_tune(&m, &t, 0.6, line);
    }
    CHECK(lines > 1);
    CHECK(str_ends(str_of(line), STR("; reverted")));
    CHECK(t.now.workers[STAGE_DECODE] <= 4); /* of the eight that it was told of */
}
