/* test_sweep.c - which trials sweep.over makes: combinations, even draws, words for the shell, and what
 * is said of mistakes; results on the disk; what a trial pays. */
#include "harness.h"
#include "job/sweep.h"
#include "support/folder.h"
#include <math.h>

static enum status plan(struct sweep *s, struct arena *perm, const char *text, struct err *err)
{
    struct config *c = config_new(perm);
    *s               = (struct sweep){ .config = c };
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), str_of(text), err), STATUS_OK);
    return sweep_plan(s, perm, err);
}

TEST(every_combination)
{
    struct sweep s;
    struct err   err = { 0 };
    CHECK_EQ(
        plan(&s, perm,
             "sweep:\n  over:\n    - train.lr: [0.1, 0.01, 1e-3]\n    - train.optimiser: [sgd, "
             "adam]\n",
             &err),
        STATUS_OK);
    CHECK_EQ(s.count, 6);
    CHECK_STR(s.trials[0].words, "train.lr=0.1 train.optimiser=sgd");
    CHECK_STR(s.trials[1].words, "train.lr=0.1 train.optimiser=adam");
    CHECK_STR(s.trials[5].words, "train.lr=0.001 train.optimiser=adam");
    CHECK_EQ(s.trials[5].settings.train.lr, 1e-3);
    CHECK_STR(s.trials[4].settings.train.optimiser, "sgd");
    CHECK_EQ(s.trials[5].number, 6);
}

/* Each of 20 parts of a range holds one trial, on its own scale; lists are used evenly. */
TEST(draws_are_even)
{
    struct sweep s;
    struct err   err = { 0 };
    for (i64 count = 2; count <= 40; count += 2) {
        struct arena here        = *perm;
        i64          part[2][40] = { 0 }, wide = 0;
        CHECK_EQ(plan(&s, &here,
                      str_z(&here, str_fmt(&here,
                                           "sweep:\n  count: %lld\n  over:\n"
                                           "    - train.lr: {log: [1e-4, 1]}\n"
                                           "    - train.momentum: {linear: [0, 0.8]}\n"
                                           "    - model.width: [64, 128]\n",
                                           (long long)count)),
                      &err),
                 STATUS_OK);
        CHECK_EQ(s.count, count);
        for (i64 i = 0; i < count; i++) {
            const struct settings *t = &s.trials[i].settings;
            /* The words round to four digits, which may carry a draw over the edge of its part. */
            f64 lr       = (f64)count * log10(t->train.lr / 1e-4) / 4,
                momentum = (f64)count * t->train.momentum / 0.8;
            if (fabs(lr - rint(lr)) > 1e-2) part[0][(i64)lr]++;
            if (fabs(momentum - rint(momentum)) > 1e-2) part[1][(i64)momentum]++;
            wide += t->model.width == 128;
        }
        for (i64 i = 0; i < count; i++) CHECK(part[0][i] <= 1 && part[1][i] <= 1);
        CHECK_EQ(wide, count / 2);
    }
}

TEST(a_setting_more_leaves_the_draws_of_the_others)
{
    struct sweep a, b;
    struct err   err = { 0 };
    CHECK_EQ(plan(&a, perm, "sweep: {count: 5, over: [{train.lr: {log: [1e-4, 1]}}]}", &err),
             STATUS_OK);
    CHECK_EQ(plan(&b, perm,
                  "sweep: {count: 5, over: [{train.decay: {linear: [0, 1]}}, {train.lr: {log: "
                  "[1e-4, 1]}}]}",
                  &err),
             STATUS_OK);
    for (i64 i = 0; i < 5; i++)
        CHECK_EQ(a.trials[i].settings.train.lr, b.trials[i].settings.train.lr);
}

TEST(whole_numbers_are_whole_and_equal_draws_are_one_trial)
{
    struct sweep s;
    struct err   err = { 0 };
    CHECK_EQ(plan(&s, perm, "sweep: {count: 9, over: [{model.depth: {linear: [1, 3]}}]}", &err),
             STATUS_OK);
    CHECK_EQ(s.count, 3);
    CHECK_STR(s.trials[0].words, str_z(perm, str_fmt(perm, "model.depth=%lld",
                                                     (long long)s.trials[0].settings.model.depth)));
}

/* More asked for than there are: all of them, once. */
TEST(a_count_beyond_the_combinations_is_all_of_them)
{
    struct sweep s;
    struct err   err = { 0 };
    CHECK_EQ(
        plan(&s, perm,
             "sweep: {count: 100, over: [{train.lr: [1, 2]}, {train.nesterov: [true, false]}]}",
             &err),
        STATUS_OK);
    CHECK_EQ(s.count, 4);
}

TEST(words_that_a_shell_would_take_apart_are_quoted)
{
    struct sweep s;
    struct err   err = { 0 };
    CHECK_EQ(
        plan(&s, perm,
             "sweep: {over: [{model.mlp: [[64, 32], [8]]}, {train.freeze: [\"a b*\", \"it's\"]}]}",
             &err),
        STATUS_OK);
    CHECK_EQ(s.count, 4);
    CHECK_STR(s.trials[0].words, "'model.mlp=[64, 32]' 'train.freeze=a b*'");
    CHECK_STR(s.trials[3].words, "'model.mlp=[8]' 'train.freeze=it'\\''s'");
    CHECK_EQ(s.trials[0].settings.model.mlp[1], 32);
}

static void check_refused(struct arena *perm, const char *over, const char *sentence)
{
    struct sweep s;
    struct err   err  = { 0 };
    const char  *text = str_z(perm, str_fmt(perm, "train:\nsweep:\n  over: %s\n", over));
    CHECK_EQ(plan(&s, perm, text, &err), STATUS_USAGE);
    if (!strstr(err.text, sentence)) printf("\n  %s\n", err.text);
    CHECK(strstr(err.text, sentence));
    CHECK(strstr(err.text, "run.yaml:3: sweep.over: ") || !strcmp(over, "[]"));
}

TEST(mistakes_are_said_with_the_remedy)
{
    check_refused(perm, "[]", "nothing varies; try: sweep.over=");
    check_refused(perm, "[train.lr]", "expected one setting per item");
    check_refused(perm, "[{train.lr: [1], train.batch: [1]}]", "expected one setting per item");
    check_refused(perm, "[{train.bach: [1]}]", "unknown key train.bach; did you mean train.batch?");
    check_refused(perm, "[{sweep.count: [1]}]", "sweep.count cannot vary within a sweep");
    check_refused(perm, "[{train.lr: [1]}, {train.lr: [2]}]", "train.lr is given twice");
    check_refused(perm, "[{train.lr: 1}]", "expected values in brackets");
    check_refused(perm, "[{train.lr: {lug: [1, 2]}}]", "expected values in brackets");
    check_refused(perm, "[{train.lr: {log: [1]}}]", "expected values in brackets");
    check_refused(perm, "[{train.lr: {log: [0, 1]}}]", "expected two numbers above 0");
    check_refused(perm, "[{train.lr: {linear: [2, 1]}}]", "the lower one first");
    check_refused(perm, "[{train.optimiser: {linear: [0, 1]}}]", "train.optimiser is not a number");
    check_refused(perm, "[{train.lr: {log: [1, 2]}}]", "sweep.count=16");
    check_refused(perm, "[{train.lr: [fast]}]", "train.lr is fast; expected a number above 0");
}

TEST(more_combinations_than_trials_may_be_are_refused)
{
    struct sweep s;
    struct err   err        = { 0 };
    char         list[4096] = "sweep: {over: [";
    for (int k = 0; k < 3; k++) {
        static const char *const keys[] = { "train.lr", "train.decay", "train.eps" };
        sprintf(list + strlen(list), "%s{%s: [1", k ? ", " : "", keys[k]);
        for (int i = 2; i <= 11; i++) sprintf(list + strlen(list), ", %d", i);
        strcat(list, "]}");
    }
    strcat(list, "]}");
    CHECK_EQ(plan(&s, perm, list, &err), STATUS_USAGE); /* 1331 */
    CHECK(strstr(err.text, "more than 1000 combinations"));
}

/* --- results on the disk, and what was saved --- */

/* Two trials with an end of their runs in view, as sweep_run leaves them before the first starts. */
static struct sweep two_trials(struct arena *perm, struct job *job, struct str results)
{
    struct sweep s;
    struct err   err;
    CHECK_EQ(plan(&s, perm,
                  "train: {lr: 1, steps: 100, usd_hour: 7.2}\n"
                  "sweep: {over: [{train.lr: [0.1, 0.2]}], at_once: 2}\n",
                  &err),
             STATUS_OK);
    CHECK_EQ(s.count, 2);
    struct config *c          = (struct config *)(uintptr_t)s.config; /* ours: plan made it */
    c->settings.sweep.results = results;
    *job                      = (struct job){ .os = os_real(), .perm = perm };
    s.job                     = job;
    s.scratch                 = arena_part(perm, 4 << 20);
    s.asha                    = asha_new(perm, s.count, 2, 0.05);
    return s;
}

TEST(results_read_back_and_those_of_other_runs_stay)
{
    struct str   folder = folder_new(perm), text;
    struct str   path   = folder_put(perm, folder, "r.jsonl", STR("{\"run\":\"another\"}\n"));
    struct job   job;
    struct sweep a = two_trials(perm, &job, path), b = two_trials(perm, &job, path);
    CHECK(a.asha->rung_count > 1);
    a.trials[1].known[0] = (struct note){ .kind    = NOTE_RUNG,
                                          .step    = 5,
                                          .steps   = 100,
                                          .seconds = 2,
                                          .begin_s = 0.5,
                                          .loss    = 0.25,
                                          .value   = 0.75,
                                          .metric  = "accuracy" };
    CHECK_EQ(results_read(&a, perm, NULL), STATUS_OK);
    CHECK_EQ(results_write(&a, NULL), STATUS_OK);
    CHECK_EQ(os_read_all(os_real(), path, perm, &text, NULL), STATUS_OK);
    CHECK(str_starts(text, STR("{\"run\":\"another\"}\n")));
    CHECK_EQ(results_read(&b, perm, NULL), STATUS_OK);
    const struct note *n = &b.trials[1].known[0];
    CHECK_EQ(n->kind, NOTE_RUNG);
    CHECK_EQ(n->step, 5);
    CHECK_EQ(n->steps, 100);
    CHECK_EQ(n->begin_s, 0.5);
    CHECK_EQ(n->value, 0.75);
    CHECK_STR(str_of(n->metric), STR("accuracy"));
    CHECK_EQ(b.trials[0].known[0].steps, 0);
    CHECK(!sweep_never_compared(&b));

    struct sweep c = two_trials(perm, &job, path); /* with other settings they are another run's */
    ((struct config *)(uintptr_t)c.config)->settings.train.steps = 101;
    CHECK_EQ(results_read(&c, perm, NULL), STATUS_OK);
    CHECK_EQ(c.trials[1].known[0].steps, 0);
    CHECK(sweep_never_compared(&c));
}

TEST(a_broken_line_of_results_is_named)
{
    struct job   job;
    struct err   err;
    struct str   path = folder_put(perm, folder_new(perm), "r.jsonl", STR("{}\n{\n"));
    struct sweep s    = two_trials(perm, &job, path);
    CHECK_EQ(results_read(&s, perm, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "r.jsonl:2: "));
}

TEST(trials_at_once_share_the_price_of_the_machine)
{
    struct job   job;
    struct sweep s = two_trials(perm, &job, STR(""));
    CHECK_NEAR(sweep_trial_usd(&s, 1000), 1, 1e-9); /* half of $7.20 an hour */
    CHECK(!note_failed(&(struct note){ .kind = NOTE_END }));
    CHECK(!note_failed(&(struct note){ .kind = NOTE_RUNG, .status = STATUS_NO }));
    CHECK(note_failed(&(struct note){ .kind = NOTE_END, .status = STATUS_NO }));
}
