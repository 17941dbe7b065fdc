/* test_follow.c - what a training loop reports becomes the run's stream, with the time, the dollars and the orders that
 * only we can know; and nothing that it may write does harm. */
#include "harness.h"
#include "supervise/follow.h"

static struct os      world;
static i64            now;
static enum os_signal pending;

static i64            fake_now(struct os *os) { return (void)os, now; }
static enum os_signal take_signal(struct os *os)
{
    enum os_signal s = pending;
    (void)os;
    pending = OS_SIGNAL_NONE;
    return s;
}

struct stage {
    struct spot_config   spot;
    struct subscriber    hears;
    struct textbuf       stream;
    i64                  count[EVENT_COUNT];
    struct event_step    step;
    struct event_done    done;
    struct event_eval    eval;
    struct event_order   order;
    char                 why[STOP_TEXT_MAX], what[16];
    struct follow_config config;
    struct follow_result result;
    struct follow       *f;
    struct err           err;
};

static void on_event(void *context, enum event_kind kind, const void *event)
{
    struct stage *s = context;
    s->count[kind]++;
    if (kind == EVENT_step) s->step = *(const struct event_step *)event;
    if (kind == EVENT_eval) s->eval = *(const struct event_eval *)event;
    if (kind == EVENT_done) s->done = *(const struct event_done *)event;
    if (kind != EVENT_order) return;
    s->order = *(const struct event_order *)event;
    snprintf(s->why, sizeof s->why, "%.*s", STR_ARG(s->order.why));
    snprintf(s->what, sizeof s->what, "%.*s", STR_ARG(s->order.what));
}

static struct stage *open_stage(struct arena *perm)
{
    struct stage *s   = NEW(perm, struct stage, 1);
    world             = *os_real();
    world.now_ns      = fake_now;
    world.signal_take = take_signal;
    now               = (i64)1e9;
    pending           = OS_SIGNAL_NONE;
    s->hears          = (struct subscriber){ .context = s, .on_event = on_event };
    s->config         = (struct follow_config){ .spot   = &s->spot,
                                                .bill   = bill_new(perm, clock_new(perm, &world)),
                                                .run    = STR("abc"),
                                                .events = &s->hears };
    s->config.stop    = (struct stop_config){ .metric      = STR("accuracy"),
                                              .target      = NAN,
                                              .max_seconds = NAN,
                                              .max_dollars = NAN,
                                              .usd_hour    = 3.6 };
    bill_price(s->config.bill, &(struct price_row){ .usd_hour = 3.6 }); /* a dollar per 1,000 s */
    return s;
}

static void say(struct stage *s, const char *line)
{
    struct err err = { 0 };
    CHECK_EQ(follow_take(s->f, str_of(line), &err), STATUS_OK);
    CHECK_EQ(follow_take(s->f, STR("\n"), &err), STATUS_OK);
    follow_look(s->f);
}

static void pass(f64 seconds) { now += (i64)(seconds * 1e9); }

static struct stage *started(struct arena *perm, struct stage *s)
{
    s->f = follow_new(&world, perm, &s->config);
    say(s, "{\"event\":\"part\",\"part\":\"start\",\"seconds\":5}");
    say(s, "{\"event\":\"start\",\"steps\":100,\"batch\":8,\"accumulate\":2,\"sample_tokens\":10}");
    return s;
}

static void one_step(struct stage *s, i64 step, f64 input_s, f64 compute_s)
{
    char line[128];
    say(s, "{\"event\":\"part\",\"part\":\"input\"}");
    pass(input_s);
    say(s, "{\"event\":\"part\",\"part\":\"compute\"}");
    pass(compute_s);
    snprintf(line, sizeof line, "{\"event\":\"step\",\"step\":%lld,\"samples\":%lld,\"loss\":0.5}",
             (long long)step, (long long)(16 * step));
    say(s, line);
}

TEST(a_loop_that_reports_gets_time_rates_dollars_and_a_bill)
{
    struct stage *s = started(perm, open_stage(perm));
    for (i64 i = 1; i <= 4; i++) one_step(s, i, 0.5, 1.5);
    CHECK_EQ(s->count[EVENT_open], 1);
    CHECK_EQ(s->count[EVENT_step], 4);
    CHECK_EQ(s->step.steps, 100);
    CHECK_NEAR(s->step.elapsed_s, 5 + 8, 1e-9); /* what it did before it reported is on the bill */
    CHECK_NEAR(s->step.dollars, 0.013, 1e-9);
    CHECK_NEAR(s->step.samples_per_s, 8, 0.08); /* percentiles and rates are within 1 % */
    CHECK_NEAR(s->step.tokens_per_s, 80, 0.8);
    CHECK_NEAR(s->step.input_share, 0.25, 1e-9);
    CHECK_NEAR(s->step.step_p50_s, 2, 0.02);
    CHECK_NEAR(s->step.eta_s, 192, 2);

    say(s, "{\"event\":\"part\",\"part\":\"evaluation\"}");
    pass(3);
    say(s, "{\"event\":\"eval\",\"step\":4,\"loss\":0.4,\"metrics\":{\"accuracy\":0.9}}");
    CHECK_NEAR(s->eval.eval_s, 3, 1e-9);
    say(s, "{\"event\":\"part\",\"part\":\"checkpoint\"}");
    pass(2);
    say(s, "{\"event\":\"checkpoint\",\"what\":\"saved\",\"step\":4,\"bytes\":1000}");
    say(s, "{\"event\":\"done\",\"steps\":4,\"stopped\":\"end\"}");
    CHECK(follow_is_done(s->f));
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_OK);
    CHECK_EQ(s->result.stopped, STOP_END);
    CHECK_NEAR(s->done.seconds, 18, 1e-9);
    CHECK_NEAR(s->done.dollars, 0.018, 1e-9);
    CHECK_NEAR(s->done.checkpoint_blocked_s, 2, 1e-9);
    CHECK_NEAR(s->done.terms_ns.ns[TERM_evaluation], 3e9, 1);
    CHECK_NEAR(s->done.terms_ns.ns[TERM_loading], 2e9, 1);
    CHECK_NEAR(s->done.terms_ns.ns[TERM_starting], 5e9, 1);
    CHECK_NEAR(s->done.loss, 0.4, 1e-9);
    CHECK_EQ(s->done.checkpoint_step, 4);
}

TEST(a_cap_on_dollars_asks_the_loop_to_stop_with_time_to_save)
{
    struct stage *s            = open_stage(perm);
    s->config.stop.max_dollars = 0.02; /* 20 s */
    started(perm, s);
    one_step(s, 1, 0, 1);
    say(s, "{\"event\":\"part\",\"part\":\"checkpoint\"}");
    pass(4);
    say(s, "{\"event\":\"checkpoint\",\"what\":\"saved\",\"step\":1}");
    for (i64 i = 2; i < 100 && !s->count[EVENT_order]; i++) one_step(s, i, 0, 1);
    CHECK_STR(s->what, "stop");
    CHECK_EQ(s->order.reason, STOP_BUDGET);
    CHECK(s->step.elapsed_s > 13 && s->step.elapsed_s <= 16); /* a save took 4 s */
    say(s, "{\"event\":\"done\"}");
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_OK);
    CHECK_EQ(s->result.stopped, STOP_BUDGET);
}

TEST(a_target_and_patience_are_judged_as_in_our_own_runs)
{
    struct stage *s       = open_stage(perm);
    s->config.stop.target = 0.95;
    started(perm, s);
    one_step(s, 1, 0, 1);
    say(s, "{\"event\":\"eval\",\"step\":1,\"metrics\":{\"other\":1,\"accuracy\":0.9}}");
    CHECK_EQ(s->count[EVENT_order], 0);
    one_step(s, 2, 0, 1);
    say(s, "{\"event\":\"eval\",\"step\":2,\"metrics\":{\"accuracy\":0.96}}");
    CHECK_EQ(s->order.reason, STOP_TARGET);
    CHECK(s->eval.target_reached);
    follow_take(s->f, STR("{\"event\":\"done\"}\n"), NULL);
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_OK);
    CHECK(s->result.target_reached);
}

TEST(a_signal_becomes_an_order_and_the_loop_that_obeys_is_interrupted)
{
    struct stage *s = open_stage(perm);
    s->spot.grace_s = 40;
    started(perm, s);
    one_step(s, 1, 0, 1);
    pending = OS_SIGNAL_TERM;
    follow_look(s->f);
    CHECK_STR(s->what, "stop");
    CHECK_EQ(s->order.reason, STOP_SIGNAL);
    CHECK_NEAR(s->order.seconds, 30, 1e-6); /* three quarters of it are the loop's */
    say(s, "{\"event\":\"checkpoint\",\"what\":\"saved\",\"step\":1}");
    say(s, "{\"event\":\"done\"}");
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_INTERRUPTED);
    CHECK_EQ(s->result.stopped, STOP_SIGNAL);
    CHECK_EQ(s->count[EVENT_interruption], 1);
}

TEST(a_signal_that_the_loop_itself_caught_is_an_interruption_too)
{
    struct stage *s = started(perm, open_stage(perm));
    one_step(s, 1, 0, 1);
    say(s, "{\"event\":\"interruption\",\"kind\":\"signal\",\"step\":1,\"saved_step\":0}");
    say(s, "{\"event\":\"done\"}");
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_INTERRUPTED);
}

TEST(a_loop_that_dies_is_said_to_have_died)
{
    struct stage *s = started(perm, open_stage(perm));
    one_step(s, 1, 0, 1);
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_NO);
    CHECK_STR(s->err.text, "the program ended without saying so, after step 1");
    CHECK_EQ(s->result.stopped, STOP_NONE);
    CHECK_EQ(s->count[EVENT_interruption], 1);
}

TEST(steps_without_parts_are_compute_and_steps_before_the_start_are_passed_over)
{
    struct stage *s = open_stage(perm);
    s->f            = follow_new(&world, perm, &s->config);
    say(s, "{\"event\":\"step\",\"step\":1}");
    CHECK_EQ(s->count[EVENT_step], 0);
    say(s, "{\"event\":\"start\",\"from_step\":7}");
    for (i64 i = 8; i < 12; i++) {
        char line[64];
        pass(1);
        snprintf(line, sizeof line, "{\"event\":\"step\",\"step\":%lld}", (long long)i);
        say(s, line);
    }
    say(s, "{\"event\":\"step\",\"step\":6}");
    CHECK_EQ(s->count[EVENT_step], 4);
    say(s, "{\"event\":\"done\"}");
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_OK);
    CHECK_EQ(s->done.steps, 11);
    CHECK_EQ(s->done.resumed_step, 7);
    CHECK_NEAR(s->done.steps_per_s, 1, 0.01);
}

TEST(what_is_no_event_is_a_sentence_and_the_run_continues)
{
    struct stage *s    = started(perm, open_stage(perm));
    i64           size = 70000;
    char         *line = NEW(perm, char, size);
    CHECK_EQ(follow_take(s->f, STR("no event\n{\"event\":\"step\",\"step\":1}\n"), &s->err),
             STATUS_USAGE);
    CHECK_EQ(s->count[EVENT_step], 1);
    memset(line, ' ', (size_t)size);
    line[size - 1] = '\n';
    CHECK_EQ(follow_take(s->f, (struct str){ line, size }, &s->err), STATUS_USAGE);
    CHECK_STR(s->err.text, "a line has more than 65536 bytes");
    CHECK_EQ(follow_take(s->f, STR("{\"event\":\"from the future\"}\n"), &s->err), STATUS_OK);
    one_step(s, 2, 0, 1);
    CHECK_EQ(s->count[EVENT_step], 2);
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_NO);
}

TEST(lines_come_in_any_pieces)
{
    struct stage *s = open_stage(perm);
    struct str    all =
        STR("{\"event\":\"start\"}\n{\"event\":\"step\",\"step\":1}\n{\"event\":\"done\"}\n");
    s->f = follow_new(&world, perm, &s->config);
    for (i64 i = 0; i < all.len; i++)
        CHECK_EQ(follow_take(s->f, str_sub(all, i, i + 1), &s->err), STATUS_OK);
    CHECK(follow_is_done(s->f));
    CHECK_EQ(s->count[EVENT_step], 1);
    CHECK_EQ(follow_end(s->f, &s->result, &s->err), STATUS_OK);
}
