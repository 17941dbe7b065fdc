/* What a real run tells of itself at its end, and the verdict on it. The problems here outweigh by far what
 * a busy machine does to a run of milliseconds: one is ten times the rest, the other is asleep. */
#include "data/image.h"
#include "harness.h"
#include "support/folder.h"
#include "support/picture.h"
#include "support/small_run.h"
#include "train/train.h"
#include <stdatomic.h>
#include <unistd.h>

static const char layers[] = "[flatten, {dense: 8}, relu, {dense: 4}]";

static void sleep_at_step(void *context, const struct event_step *p)
{
    (void)context, (void)p;
    usleep(5000);
}

static bool has(const struct verdict *v, enum problem_kind a)
{
    for (i64 i = 0; i < v->count; i++)
        if (v->problem[i].kind == a) return true;
    return false;
}

static struct verdict verdict_with(struct os *os, const struct settings *s,
                                   const struct subscriber *l, struct train_result *r,
                                   struct arena *perm)
{
    struct err err = { 0 };
    if (train_run(os, s, &(struct train_with){ .to = l }, r, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return verdict_of(&r->evidence, perm);
}

static struct verdict verdict_on(const struct settings *s, const struct subscriber *l,
                                 struct train_result *r, struct arena *perm)
{
    return verdict_with(os_real(), s, l, r, perm);
}

/* A disk that takes 30 ms for each read. */
static enum status slow_read(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                             struct err *err)
{
    (void)os;
    usleep(30000);
    return os_real()->read(os_real(), f, to, bytes, at, got, err);
}

static struct str pictures(struct arena *perm)
{
    struct str dir = folder_new(perm);
    for (i64 i = 0; i < 12; i++) {
        struct str sub = str_fmt(perm, "%.*s/%s", STR_ARG(dir), i % 2 ? "ant" : "bee");
        CHECK(!os_real()->make_dir(os_real(), sub, NULL));
        folder_put(perm, sub, str_z(perm, str_fmt(perm, "%02lld.jpg", (long long)i)),
                   picture_jpeg(perm, 40, 40, (u64)i));
    }
    return dir;
}

TEST(a_run_that_evaluates_after_every_step_is_told_to_do_it_less)
{
    struct settings     s = small_run(perm, folder_new(perm).data, layers);
    struct subscriber   l = { 0 };
    struct train_result r;
    s.data.held_out    = 0.5;
    s.train.batch      = 4;
    s.train.eval_batch = 1; /* 35 programs an evaluation, one a step */
    s.train.eval_every = 1;
    s.train.steps      = 500; /* a lost core most likely falls into the evaluations, */
    s.train.epochs     = 0;
    struct verdict v   = verdict_on(&s, &l, &r, perm);
    for (i32 again = 0; again < 4 && v.bound != BOUND_evaluation; again++)
        v = verdict_on(&s, &l, &r, perm); /* and not five times into the wait for a batch */
    CHECK_EQ(r.evidence.steps, 500);
    CHECK_EQ(r.evidence.eval_count, 500);
    CHECK_EQ(r.evidence.eval_every, 1);
    CHECK_EQ(r.evidence.batch, 4);
    CHECK(r.evidence.threads >= 1 && r.evidence.load.core_count >= 1);
    CHECK_EQ(v.bound, BOUND_evaluation);
    CHECK(has(&v, PROBLEM_evaluation_too_often));
    for (i64 i = 0; i < PART_LOOP_COUNT; i++) /* all but the wait for the first batch */
        CHECK_EQ(r.evidence.split.ns[i], i == PART_fill ? 0 : r.split.ns[i]);
}

TEST(a_run_that_tells_of_every_step_is_told_not_to)
{
    struct settings     s = small_run(perm, folder_new(perm).data, layers);
    struct subscriber   l = { .on_step = sleep_at_step };
    struct train_result r;
    s.train.log_every = 1;
    struct verdict v  = verdict_on(&s, &l, &r, perm);
    CHECK(has(&v, PROBLEM_logging_every_step));
    s.train.log_every = 0; /* the same, and nobody asked for it: no setting would help */
    v                 = verdict_on(&s, &l, &r, perm);
    CHECK(!has(&v, PROBLEM_logging_every_step));
}

TEST(a_slow_disk_at_the_seam_is_named)
{
    struct settings     s  = small_run(perm, folder_new(perm).data, "[flatten, {dense: 2}]");
    struct os           os = *os_real();
    struct subscriber   l  = { 0 };
    struct train_result r;
    if (!image_library(IMAGE_JPEG)) SKIP("this build has no libjpeg");
    os.read                = slow_read;
    s.data                 = (struct data_config){ .kind            = STR("images"),
                                                   .path            = pictures(perm),
                                                   .image_size      = 8,
                                                   .image_normalise = STR("none") };
    s.train.batch          = 4;
    s.train.epochs         = 1;
    s.loader.workers[0]    = 2; /* of each stage, and no more */
    s.loader.workers_count = 1;
    struct verdict v       = verdict_with(&os, &s, &l, &r, perm);
    struct load   *m       = &r.evidence.load;
    if (m->memory_free_bytes < 0.15 * m->memory_bytes || m->swap_bytes_s > 0)
        SKIP("this machine is short of memory, which comes first");
    CHECK_EQ(v.bound, BOUND_data);
    CHECK(r.evidence.read_s > 12 * 0.03 && r.evidence.workers >= 1);
    CHECK(has(&v, PROBLEM_slow_disk));
    CHECK_STR(v.problem[0].fix, "loader.workers=auto");
    CHECK(!has(&v, PROBLEM_slow_network) && !has(&v, PROBLEM_slow_augmentation));
}

/* By this clock a step takes six seconds, all of them in the subscriber. */
static _Atomic i64 slow_ns;
static i64         slow_now(struct os *os)
{
    (void)os;
    return atomic_load(&slow_ns);
}

static void six_seconds(void *context, const struct event_step *p)
{
    (void)context, (void)p;
    slow_ns += 6000000000;
}

struct heard {
    i64 count, so_far;
    f64 dollars[8]; /* of the whole run, by each verdict */
};

static void on_verdict(void *context, const struct event_verdict *v)
{
    struct heard *h = context;
    ASSERT(h->count < COUNT_OF(h->dollars));
    h->count++;
    h->so_far += v->so_far;
    CHECK(v->text.len > 0 && v->problems > 0);
}

static void on_problem(void *context, const struct event_problem *p)
{
    struct heard *h = context;
    CHECK(h->count > 0);
    if (str_eq(p->problem, STR("logging_every_step")))
        h->dollars[h->count - 1] = p->dollars_run / p->gain;
}

/* The machine is measured by the real clock, so what it takes is not seen here; that it was done is. */
static i64 ticking_now(struct os *os)
{
    (void)os;
    return atomic_fetch_add(&slow_ns, 1) + 1;
}

TEST(the_machine_is_measured_once_there_is_time_and_never_after_a_cap)
{
    static const struct {
        i64  steps;
        f64  cap_s;
        bool measured;
    } runs[] = {
        { 2, NAN, true }, /* after 6 seconds */
        { 2, 12.5, true },
        { 2, 6.5, false }, /* the cap would be passed */
        { 1, 6.5, false },
    };
    struct os os = *os_real();
    os.now_ns    = ticking_now;
    for (i64 i = 0; i < COUNT_OF(runs); i++) {
        struct settings     s = small_run(perm, folder_new(perm).data, layers);
        struct subscriber   l = { .on_step = six_seconds };
        struct train_result r;
        slow_ns             = 1;
        s.train.steps       = runs[i].steps;
        s.train.epochs      = 0;
        s.train.max_seconds = runs[i].cap_s;
        verdict_with(&os, &s, &l, &r, perm);
        CHECK_EQ(!isnan(r.evidence.flops_part), runs[i].measured);
    }
}

TEST(a_run_is_judged_while_it_goes_on)
{
    struct settings     s = small_run(perm, folder_new(perm).data, layers);
    struct heard        h = { 0 };
    struct train_result r;
    struct subscriber   l = {
          .context = &h, .on_step = six_seconds, .on_verdict = on_verdict, .on_problem = on_problem
    };
    struct os os      = *os_real();
    slow_ns           = 1;
    os.now_ns         = slow_now;
    s.train.steps     = 10;
    s.train.epochs    = 0;
    s.train.log_every = 1;
    s.train.usd_hour  = 3600;
    verdict_with(&os, &s, &l, &r, perm);
    CHECK_EQ(h.so_far, 3); /* after 12, 24 and 48 seconds */
    CHECK_EQ(h.count, 4);
    for (i64 i = 0; i < h.count; i++) CHECK_NEAR(h.dollars[i], 60, 0.01);
    h                   = (struct heard){ 0 };
    s.train.max_seconds = 30; /* which ends it first */
    verdict_with(&os, &s, &l, &r, perm);
    CHECK_EQ(h.so_far, 2);
    for (i64 i = 0; i < h.so_far; i++) CHECK_NEAR(h.dollars[i], 30, 0.01);
}
