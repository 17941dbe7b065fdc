/* test_series.c - curves from event logs: read as they grow, thinned without losing their lowest and highest points. */
#include "base/rng.h"
#include "harness.h"
#include "page/series.h"
#include "support/sim_os.h"
#include <math.h>
#include <string.h>

static struct str step_line(struct arena *perm, i64 step, f64 loss)
{
    return str_fmt(perm,
                   "{\"event\":\"step\",\"step\":%lld,\"elapsed_s\":%g,\"loss\":%g,\"dollars\":%g,"
                   "\"wall_ns\":17000000%02lld000000000}\n",
                   (long long)step, (f64)step / 10, loss, (f64)step / 100, (long long)step);
}

static const char *const start_line = "{\"event\":\"start\",\"batch\":8,\"accumulate\":2,\"sample_"
                                      "tokens\":16,\"metric\":\"accuracy\","
                                      "\"wall_ns\":1700000000000000000}\n";

TEST(a_log_is_read_as_it_grows)
{
    struct sim_os *sim = sim_os_new(perm);
    i64            count;
    sim->os.make_dir(&sim->os, STR("/events/run"), NULL);
    struct str a = str_cat(perm, str_of(start_line), step_line(perm, 1, 2.5));
    sim_os_put(sim, STR("/events/run/b.jsonl"), str_cat(perm, a, STR("{\"event\":\"st")));
    struct series *s = series_open(&sim->os, STR("/events/run"));
    series_update(s);
    const struct point *p = series_points(s, &count);
    CHECK_EQ(count, 1);
    CHECK_EQ(p[0].v[POINT_loss], 2.5);
    CHECK_EQ(p[0].v[POINT_work], 8 * 2 * 16);
    CHECK_EQ(p[0].v[POINT_wall_s], 1700000001);
    CHECK(isnan(p[0].v[POINT_mfu]));
    struct str eval =
        STR("{\"event\":\"eval\",\"step\":2,\"loss\":2,\"metrics\":{\"accuracy\":0.5},"
            "\"wall_ns\":1700000002000000000}\n");
    sim_os_put(sim, STR("/events/run/b.jsonl"),
               str_cat(perm, a, eval));                                 /* the torn line is whole */
    sim_os_put(sim, STR("/events/run/a.jsonl"), step_line(perm, 3, 1)); /* a later start */
    series_update(s);
    p = series_points(s, &count);
    CHECK_EQ(count, 3);
    CHECK(p[1].is_eval);
    CHECK_EQ(p[1].v[POINT_value], 0.5);
    CHECK_EQ(p[2].segment, 1);
    series_lines(s, &count);
    CHECK_EQ(count, 1); /* the start */
    series_close(s);
}

/* The log is rank 0's, whose batch is a part of a step. */
TEST(the_work_of_a_step_is_that_of_all_ranks)
{
    struct sim_os *sim = sim_os_new(perm);
    struct str start = STR("{\"event\":\"start\",\"batch\":4,\"accumulate\":1,\"sample_tokens\":16,"
                           "\"step_samples\":13,\"ranks\":3,\"wall_ns\":1700000000000000000}\n");
    i64        count;
    sim->os.make_dir(&sim->os, STR("/events/run"), NULL);
    sim_os_put(sim, STR("/events/run/b.jsonl"), str_cat(perm, start, step_line(perm, 2, 2.5)));
    struct series *s = series_open(&sim->os, STR("/events/run"));
    series_update(s);
    const struct point *p = series_points(s, &count);
    CHECK_EQ(count, 1);
    CHECK_EQ(p[0].v[POINT_work], 2 * 13 * 16);
    series_close(s);
}

TEST(lines_of_anybody_do_no_harm)
{
    struct sim_os *sim = sim_os_new(perm);
    i64            count;
    sim->os.make_dir(&sim->os, STR("/events/run"), NULL);
    sim_os_put(sim, STR("/events/run/a.jsonl"),
               STR("\n{}\n[]\nnull\n{\"event\":\"step\"}\n{\"event\":\"note\",\"text\":7}\n\xff\n"
                   "{\"event\":\"later\"}\n{\"wall_ns\":}\n{\"event\":\"note\",\"wall_ns\":1}\n"));
    struct series *s = series_open(&sim->os, STR("/events/run"));
    series_update(s);
    series_points(s, &count);
    CHECK(count <= 1);
    series_close(s);
}

TEST(thinning_keeps_the_lowest_and_the_highest)
{
    enum { POINTS = 1000000, BUCKETS = 500 };
    struct point  *p    = NEW(perm, struct point, POINTS);
    i64           *kept = NEW(perm, i64, POINTS);
    f64            low = INFINITY, high = -INFINITY;
    struct rng_key key = { .seed = test_seed() };
    for (i64 i = 0; i < POINTS; i++) {
        for (i64 v = 0; v < POINT_VALUE_COUNT; v++) p[i].v[v] = NAN;
        p[i].v[POINT_step] = (f64)i;
        p[i].v[POINT_loss] = rng_uniform(key, (u64)i);
        p[i].segment       = i >= POINTS / 3;
        low                = MIN(low, p[i].v[POINT_loss]);
        high               = MAX(high, p[i].v[POINT_loss]);
    }
    i64 count = series_thin(p, POINTS, POINT_step, BUCKETS, kept);
    CHECK(count <= 4 * (BUCKETS + 2));
    CHECK(count >= 2 * BUCKETS);
    f64 kept_low = INFINITY, kept_high = -INFINITY;
    for (i64 i = 0; i < count; i++) {
        CHECK(!i || kept[i] > kept[i - 1]);
        kept_low  = MIN(kept_low, p[kept[i]].v[POINT_loss]);
        kept_high = MAX(kept_high, p[kept[i]].v[POINT_loss]);
    }
    CHECK_EQ(kept_low, low);
    CHECK_EQ(kept_high, high);
    CHECK_EQ(kept[0], 0);
    CHECK_EQ(kept[count - 1], POINTS - 1);
}
