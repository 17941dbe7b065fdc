/* A verdict's arithmetic: what binds, what comes first, experiments, dollars, words. The rules one by one
 * are test_problems.c's. */
#include "harness.h"
#include "run/verdict.h"

static struct evidence with_parts(i64 compute, i64 input, i64 evaluation, i64 launch)
{
    struct evidence e           = { .flops_part     = 0.5,
                                    .bandwidth_part = 0.3,
                                    .low_speedup    = NAN,
                                    .hazard         = hazard_prior,
                                    .eval_count     = 1 };
    e.split.ns[PART_compute]    = compute;
    e.split.ns[PART_input]      = input;
    e.split.ns[PART_evaluation] = evaluation;
    e.split.ns[PART_launch]     = launch;
    return e;
}

static enum bound bound_of(struct evidence e, struct arena *perm)
{
    return verdict_of(&e, perm).bound;
}

TEST(the_largest_part_beyond_its_limit_binds)
{
    CHECK_EQ(bound_of(with_parts(95, 4, 1, 0), perm), BOUND_compute);
    CHECK_EQ(bound_of(with_parts(94, 6, 0, 0), perm), BOUND_data);
    CHECK_EQ(bound_of(with_parts(80, 6, 14, 0), perm), BOUND_evaluation);
    CHECK_EQ(bound_of(with_parts(80, 6, 0, 14), perm), BOUND_data); /* launches below theirs */
    CHECK_EQ(bound_of(with_parts(70, 6, 0, 24), perm), BOUND_launch);
    struct evidence e           = with_parts(85, 5, 0, 0);
    e.split.ns[PART_checkpoint] = 10;
    CHECK(bound_of(e, perm) != BOUND_checkpoint); /* there is none: copies of the best weights */
    e.saves = 1;
    CHECK_EQ(bound_of(e, perm), BOUND_checkpoint);
    e.split.ns[PART_copy] = 20; /* to a GPU */
    CHECK_EQ(bound_of(e, perm), BOUND_communication);
    e.threads = 2; /* in the processor's own memory */
    CHECK_EQ(bound_of(e, perm), BOUND_checkpoint);
    e.split.ns[PART_exchange] = 30; /* with other ranks */
    CHECK_EQ(bound_of(e, perm), BOUND_communication);
}

/* Rank 0 is the slowest and never waits: the others' wait binds, and the verdict says for whom. */
TEST(the_slowest_rank_is_named)
{
    struct evidence e = with_parts(95, 5, 0, 0);
    e.slowest         = 2;
    e.waited_ns       = 9;
    CHECK_EQ(bound_of(e, perm), BOUND_data);
    e.waited_ns      = 24;
    struct verdict v = verdict_of(&e, perm);
    CHECK_EQ(v.bound, BOUND_waiting);
    CHECK_STR(verdict_text(&v, perm),
              "waiting bound: waiting for rank 2, the slowest, takes 24 % of the time");
    e.waited_ns              = 0; /* while the run goes on */
    e.split.ns[PART_slowest] = 25;
    v                        = verdict_of(&e, perm);
    CHECK_STR(verdict_text(&v, perm), "waiting bound: it takes 20 % of the time");
}

TEST(arithmetic_is_bound_by_what_it_uses_most_of)
{
    struct evidence e = with_parts(99, 1, 0, 0);
    e.bandwidth_part  = 0.8;
    struct verdict v  = verdict_of(&e, perm);
    CHECK_EQ(v.bound, BOUND_bandwidth);
    CHECK_STR(verdict_text(&v, perm),
              "memory bandwidth bound, at 80 % of what this machine can do");
    e.bandwidth_part = 1.2; /* it lies in a cache */
    v                = verdict_of(&e, perm);
    CHECK_STR(verdict_text(&v, perm),
              "memory bandwidth bound, above the measured peak of this machine");
    e.bandwidth_part = e.flops_part = NAN; /* nobody knows */
    v                               = verdict_of(&e, perm);
    CHECK_STR(verdict_text(&v, perm), "compute bound");
    struct evidence none = { .low_speedup = NAN };
    CHECK_EQ(verdict_of(&none, perm).count, 0); /* no step was done */
}

TEST(the_largest_gain_comes_first)
{
    struct evidence e = with_parts(60, 10, 30, 0);
    e.eval_count      = 9;
    e.eval_every      = 10;
    e.read_s          = 1;
    struct verdict v  = verdict_of(&e, perm);
    CHECK_EQ(v.count, 2);
    CHECK_EQ(v.problem[0].kind, PROBLEM_evaluation_too_often);
    CHECK_EQ(v.problem[1].kind, PROBLEM_slow_disk);
    CHECK(v.problem[0].gain > v.problem[1].gain);
}

/* Steps that take longer beside a save are its cost, too. */
TEST(a_checkpoint_costs_more_than_the_time_it_stops_the_run)
{
    struct evidence e           = with_parts(96, 1, 0, 0);
    e.split.ns[PART_checkpoint] = 3;
    e.saves                     = 10;
    e.saving_s                  = NAN; /* nobody knows */
    CHECK_EQ(verdict_of(&e, perm).count, 0);
    e.saving_s       = 30e-9;
    struct verdict v = verdict_of(&e, perm);
    CHECK_EQ(v.bound, BOUND_checkpoint);
    CHECK_EQ(v.count, 1);
    CHECK_EQ(v.problem[0].kind, PROBLEM_checkpoint_too_often);
    CHECK_NEAR(v.part, 0.3, 1e-12);
    e.saves_auto = true; /* nobody asked for so many: checkpoint.every=auto is no fix */
    CHECK_EQ(verdict_of(&e, perm).count, 0);
}

/* Late data are a symptom there: the row of memory is named, not the disk's. */
TEST(memory_comes_before_data)
{
    struct evidence e = with_parts(50, 50, 0, 0);
    e.read_s          = 1;
    CHECK_EQ(verdict_of(&e, perm).problem[0].kind, PROBLEM_slow_disk);
    e.batch          = 8;
    e.load           = (struct load){ .seconds           = 1,
                                      .swap_bytes_s      = 1e8,
                                      .memory_stalled    = 0.3,
                                      .core_slowest      = NAN,
                                      .memory_bytes      = 1e9,
                                      .memory_free_bytes = 1e7 };
    struct verdict v = verdict_of(&e, perm);
    CHECK_EQ(v.count, 1);
    CHECK_EQ(v.problem[0].kind, PROBLEM_swapping);
    CHECK_EQ(v.problem[0].gain, 0.3);
}

TEST(an_experiment_confirms_or_refutes)
{
    struct problem a = { .gain = 0.4, .predicted = 0.2, .measured = NAN };
    verdict_confirm(&a, 1.0, 0.85);
    CHECK(a.confirmed);
    CHECK_NEAR(a.measured, 0.15, 1e-12);
    CHECK_NEAR(a.gain, 0.3, 1e-12); /* what came by what was predicted */
    a = (struct problem){ .gain = 0.4, .predicted = 0.4, .measured = NAN };
    verdict_confirm(&a, 1.0, 0.85); /* less than half of it */
    CHECK(!a.confirmed);
    a = (struct problem){ .gain = 0.02, .predicted = 0.02, .measured = NAN };
    verdict_confirm(&a, 1.0, 0.99); /* noise */
    CHECK(!a.confirmed);
    a = (struct problem){ .gain = 0.2, .predicted = 0.2, .measured = NAN };
    verdict_confirm(&a, 1.0, 1.1); /* it got worse */
    CHECK(!a.confirmed);
    CHECK_EQ(a.gain, 0.0);
    a = (struct problem){ .gain = NAN, .predicted = NAN, .measured = NAN };
    verdict_confirm(&a, 1.0, 0.5); /* nobody had dared to say how much */
    CHECK(a.confirmed && a.gain == 0.5);
}

TEST(dollars_a_year_only_where_the_rate_is_known)
{
    struct problem a = { .kind     = PROBLEM_evaluation_too_often,
                         .gain     = 0.25,
                         .text     = STR("so it is"),
                         .fix      = STR("train.eval_every=100"),
                         .tried    = STR("train.eval_every=20"),
                         .measured = NAN };
    CHECK_EQ(problem_dollars(&a, 8, 5).run, 2.0);
    CHECK_EQ(problem_dollars(&a, 8, 5).year, 120.0);
    CHECK_STR(
        problem_text(&a, problem_dollars(&a, 8, 5), perm),
        "evaluation_too_often: so it is; train.eval_every=100 saves 25 % of the run, $2.00 a run, "
        "$120 a year");
    CHECK_STR(
        problem_text(&a, problem_dollars(&a, 8, NAN), perm),
        "evaluation_too_often: so it is; train.eval_every=100 saves 25 % of the run, $2.00 a run");
    CHECK_STR(problem_text(&a, problem_dollars(&a, NAN, 5), perm),
              "evaluation_too_often: so it is; train.eval_every=100 saves 25 % of the run");
    a.predicted = 0.25;
    verdict_confirm(&a, 1, 0.75);
    CHECK_STR(problem_text(&a, problem_dollars(&a, NAN, 5), perm),
              "evaluation_too_often: so it is; train.eval_every=100 saves 25 % of the run; with "
              "train.eval_every=20 a sample took 25 % less: confirmed");
    a.kind = PROBLEM_slow_disk;
    verdict_confirm(&a, 1, 1.02);
    CHECK(strstr(problem_text(&a, problem_dollars(&a, NAN, 5), perm).data,
                 "with batches from memory a sample took 2 % longer: refuted"));
}
