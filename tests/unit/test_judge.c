/* What a real run tells of itself at its end, and the verdict on it. The ailments here outweigh by far what
 * a busy machine does to a run of milliseconds: one is ten times the rest, the other is asleep. */
#include "harness.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/train.h"
#include <unistd.h>

static const char layers[] = "[flatten, {dense: 8}, relu, {dense: 4}]";

static void sleep_at_step(void *context, const struct train_progress *p)
{
    (void)context, (void)p;
    usleep(5000);
}

static bool has(const struct verdict *v, enum ailment a)
{
    for (i64 i = 0; i < v->count; i++)
        if (v->ailing[i].ailment == a) return true;
    return false;
}

static struct verdict verdict_on(const struct settings *s, const struct train_listener *l,
                                 struct train_result *r, struct arena *perm)
{
    struct err err = { 0 };
    CHECK_EQ(train_run(os_real(), s, l, r, &err), STATUS_OK);
    return verdict_of(&r->evidence, perm);
}

TEST(a_run_that_evaluates_after_every_step_is_told_to_do_it_less)
{
    struct settings       s = small_run(perm, folder_new(perm).data, layers);
    struct train_listener l = { 0 };
    struct train_result   r;
    s.data.held_out    = 0.5;
    s.train.batch      = 4;
    s.train.eval_batch = 1; /* 35 programs an evaluation, one a step */
    s.train.eval_every = 1;
    s.train.steps      = 100;
    s.train.epochs     = 0;
    struct verdict v   = verdict_on(&s, &l, &r, perm);
    CHECK_EQ(r.evidence.steps, 100);
    CHECK_EQ(r.evidence.eval_count, 100);
    CHECK_EQ(r.evidence.eval_every, 1);
    CHECK_EQ(r.evidence.batch, 4);
    CHECK(r.evidence.threads >= 1 && r.evidence.load.core_count >= 1);
    CHECK_EQ(v.bound, BOUND_evaluation);
    CHECK(has(&v, AILMENT_evaluation_too_often));
    CHECK_EQ(split_sum(&r.evidence.split), split_sum(&r.split));
}

TEST(a_run_that_tells_of_every_step_is_told_not_to)
{
    struct settings       s = small_run(perm, folder_new(perm).data, layers);
    struct train_listener l = { .on_step = sleep_at_step };
    struct train_result   r;
    s.train.log_every = 1;
    struct verdict v  = verdict_on(&s, &l, &r, perm);
    CHECK(has(&v, AILMENT_logging_every_step));
    s.train.log_every = 0; /* the same, and nobody asked for it: no setting would help */
    v                 = verdict_on(&s, &l, &r, perm);
    CHECK(!has(&v, AILMENT_logging_every_step));
}
