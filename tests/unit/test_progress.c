/* test_progress.c - what a run shows: the line of a step, how often, the events, the summary. */
#include "base/digits.h"
#include "base/json.h"
#include "cli/progress.h"
#include "harness.h"
#include "run/verdict_events.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct shown {
    char             *out, *err;
    size_t            out_bytes, err_bytes;
    struct say        say;
    struct progress   progress;
    struct subscriber listener;
};

static void shown_open(struct shown *s, struct arena *perm)
{
    *s              = (struct shown){ 0 };
    s->say.results  = open_memstream(&s->out, &s->out_bytes);
    s->say.messages = open_memstream(&s->err, &s->err_bytes);
    s->say.columns  = 120;
    s->progress     = (struct progress){ .say = &s->say, .scratch = arena_part(perm, 1 << 16) };
    s->listener     = progress_subscriber(&s->progress);
}

static void shown_close(struct shown *s, struct arena *perm, struct str *out, struct str *err)
{
    fclose(s->say.results);
    fclose(s->say.messages);
    *out = str_copy(perm, str_of(s->out));
    *err = str_copy(perm, str_of(s->err));
    free(s->out);
    free(s->err);
}

static i64 count_of(struct str text, char c)
{
    i64 n = 0;
    for (i64 i = 0; i < text.len; i++) n += text.data[i] == c;
    return n;
}

static const struct event_step a_step = { .step          = 120,
                                          .steps         = 1875,
                                          .epoch         = 1,
                                          .elapsed_s     = 3,
                                          .eta_s         = 12,
                                          .lr            = 1e-3,
                                          .loss          = 0.43121,
                                          .metrics       = { { { { "accuracy", 8 }, 0.8412 } }, 1 },
                                          .loss_scale    = NAN,
                                          .samples_per_s = 31200.4,
                                          .tokens_per_s  = NAN,
                                          .steps_per_s   = NAN,
                                          .mfu           = NAN,
                                          .remote_age_s  = NAN,
                                          .dollars       = 0.0001 };

TEST(the_line_of_a_step)
{
    struct event_step t = a_step;
    CHECK_STR(progress_line(perm, &t, 0), "step 120/1875  loss 0.4312  acc 84.1 %  ETA 0:12  "
                                          "31,200 samples/s  $0.0001");
    t.steps         = 0;
    t.eta_s         = NAN;
    t.dollars       = NAN;
    t.tokens_per_s  = 1234567;
    t.metrics.count = 0;
    CHECK_STR(progress_line(perm, &t, 0), "step 120  loss 0.4312  1,234,567 tokens/s");
    t.loss_scale = 32768;
    t.skipped    = 1;
    CHECK_STR(progress_line(perm, &t, 0), "step 120  loss 0.4312  skipped 1  1,234,567 tokens/s");
    struct quantiles *q = NEW(perm, struct quantiles, 1);
    for (i64 i = 0; i < 4; i++) quantiles_add(q, 2000000);
    t.times       = q;
    t.input_share = 0.031;
    t.mfu         = 0.413;
    event_step_fill(&t);
    CHECK_STR(progress_line(perm, &t, 0), "step 120  loss 0.4312  skipped 1  1,234,567 tokens/s  "
                                          "500 steps/s  p50/95/99 2/2/2 ms  wait 3 %  MFU 41 %");
}

/* Ten minutes of steps of a millisecond: how many are shown? */
static struct str steps_shown(struct arena *perm, bool live, bool json)
{
    struct shown      s;
    struct str        out, err;
    struct event_step t = a_step;
    shown_open(&s, perm);
    s.say.live = live;
    s.say.json = json;
    for (i64 i = 1; i <= 600000; i++) {
        t.step      = i;
        t.elapsed_s = 1e-3 * (f64)i;
        s.listener.on_step(s.listener.context, &t);
    }
    shown_close(&s, perm, &out, &err);
    if (json) CHECK_EQ(err.len, 0);
    else CHECK_EQ(out.len, 0);
    return json ? out : err;
}

TEST(steps_are_shown_now_and_then)
{
    i64 redrawn = count_of(steps_shown(perm, true, false), '\r');
    CHECK(redrawn > 5000 && redrawn <= 6001); /* ten times a second at most */
    i64 lines = count_of(steps_shown(perm, false, false), '\n');
    CHECK(lines > 60 && lines <= 121); /* every five seconds */
    i64 events = count_of(steps_shown(perm, true, true), '\n');
    CHECK(events > 500 && events <= 601); /* every second */
}

TEST(a_live_line_fits_the_terminal_and_is_cleared)
{
    for (i32 columns = 1; columns < 140; columns++) {
        struct shown s;
        struct str   out, err;
        shown_open(&s, perm);
        s.say.live    = true;
        s.say.columns = columns;
        s.listener.on_step(s.listener.context, &a_step);
        say_message(&s.say, "x\n");
        shown_close(&s, perm, &out, &err);
        CHECK(str_starts(err, STR("\r")));
        CHECK(str_ends(err, STR("\033[K\r\033[Kx\n")));
        CHECK(err.len - 1 - 3 - 6 <= MAX(columns - 1, 1));
        CHECK_EQ(str_find(err, '[') == 1, columns >= 40);
    }
    CHECK_STR(progress_line(perm, &a_step, 60),
              "[------] step 120/1875  loss 0.4312  acc 84.1 %  ETA 0:12");
    CHECK_STR(progress_line(perm, &a_step, 80),
              "[----------] step 120/1875  loss 0.4312  acc 84.1 %  ETA 0:12  31,200 samples/s");
    CHECK_STR(progress_line(perm, &a_step, 30), "step 120/1875  loss 0.4312");
}

/* A bar over the held-out samples, so that the line moves while the steps do not. */
TEST(an_evaluation_moves_the_bar)
{
    struct shown         s;
    struct str           out, err;
    struct eval_progress at = { 120, 5000, 10000 };
    shown_open(&s, perm);
    s.listener.on_evaluating(s.listener.context,
                             &(struct event_evaluating){ &at }); /* no terminal */
    s.say.live    = true;
    s.say.columns = 80;
    s.listener.on_evaluating(s.listener.context, &(struct event_evaluating){ &at });
    shown_close(&s, perm, &out, &err);
    CHECK_STR(err, "\r[#####-----] evaluating  step 120  5,000 of 10,000 samples\033[K");
}

static void checkpoint_event(struct shown *s, enum checkpoint_kind what, struct str text)
{
    s->listener.on_checkpoint(s->listener.context,
                              &(struct event_checkpoint){ .what = what, .step = 7, .text = text });
}

TEST(the_schedule_of_checkpoints_is_said_once_and_failing_saves_now_and_then)
{
    struct shown s;
    struct str   out, err;
    shown_open(&s, perm);
    for (i64 i = 0; i < 5; i++) checkpoint_event(&s, CHECKPOINT_INTERVAL, STR("every 4 s"));
    for (i64 i = 0; i < 100; i++)
        checkpoint_event(&s, CHECKPOINT_FAILED, STR("No space left on device"));
    shown_close(&s, perm, &out, &err);
    CHECK(str_starts(err, STR("checkpoints every 4 s\nwarning: the checkpoint of step 7 was not "
                              "saved: No space left")));
    CHECK_EQ(count_of(err, '\n'), 1 + 7); /* 1, 2, 4, …, 64 */
}

static struct event_done a_result(f64 dollars)
{
    return (struct event_done){
        .steps          = 1875,
        .epochs         = 5,
        .seconds        = 12.34,
        .first_step_ms  = 85,
        .samples_per_s  = 31200,
        .tokens_per_s   = NAN,
        .flops_per_s    = 19.04e9,
        .mfu            = 0.5,
        .mfu_measured   = true,
        .steps_per_s    = 975,
        .step_p50_s     = 0.00102,
        .step_p95_s     = 0.0012,
        .step_p99_s     = 0.004,
        .input_share    = 0.031,
        .split_ns       = { .ns = { [PART_input] = 31, [PART_compute] = 949, [PART_update] = 20 } },
        .energy_wh      = NAN,
        .watts          = NAN,
        .sm_activity    = NAN,
        .loss           = 0.0812,
        .metrics        = { { { STR("accuracy"), 0.976 } }, 1 },
        .target_reached = true,
        .loss_scale     = NAN,
        .weights_step   = 1875,
        .noise_scale    = NAN,
        .stopped        = STOP_END,
        .saved_s        = NAN,
        .saved_dollars  = NAN,
        .dollars        = dollars,
        .arena_bytes_planned = 4100000,
        .arena_bytes_used    = 4100000,
        .device_bytes        = -1,
        .peak_rss_bytes      = 38000000,
        .out                 = STR("w.safetensors")
    };
}

/* `frugal prices >file 2>&1`: results are buffered by the file, messages are not. */
TEST(a_message_stands_behind_the_results_before_it)
{
    char       *text;
    size_t      bytes;
    static char buffer[1 << 12];
    struct say  say = { .messages = open_memstream(&text, &bytes) };
    int         ends[2];
    CHECK_EQ(pipe(ends), 0);
    say.results = fdopen(ends[1], "w");
    setvbuf(say.results, buffer, _IOFBF, sizeof buffer);
    CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    say_result(&say, "a row\n");
    say_message(&say, "a message\n");
    char got[16] = { 0 };
    CHECK_EQ(read(ends[0], got, sizeof got), 6); /* it is there, and nothing was closed yet */
    CHECK_STR(str_of(got), "a row\n");
    fclose(say.results);
    fclose(say.messages);
    close(ends[0]);
    free(text);
}

static struct str labelled(struct arena *perm, i32 columns, const char *text)
{
    struct shown s;
    struct str   out, err;
    shown_open(&s, perm);
    s.say.table_columns = columns;
    say_labelled(&s.say, "spent", str_of(text));
    shown_close(&s, perm, &out, &err);
    return out;
}

TEST(a_labelled_line_is_broken_at_the_width_of_the_terminal)
{
    const char *text = "compute 80.6 %, update 2.9 %, evaluation 3.7 %";
    CHECK_STR(labelled(perm, 0, text),
              "spent       compute 80.6 %, update 2.9 %, evaluation 3.7 %\n"); /* a file */
    CHECK_STR(labelled(perm, 58, text),
              "spent       compute 80.6 %, update 2.9 %, evaluation 3.7 %\n"); /* just fits */
    CHECK_STR(labelled(perm, 57, text), "spent       compute 80.6 %, update 2.9 %,\n"
                                        "            evaluation 3.7 %\n");
    CHECK_STR(labelled(perm, 40, text), "spent       compute 80.6 %,\n"
                                        "            update 2.9 %,\n"
                                        "            evaluation 3.7 %\n");
    CHECK_STR(labelled(perm, 32, "everything was on disk"), "spent       everything was on\n"
                                                            "            disk\n");
    CHECK_STR(labelled(perm, 32, "0123456789012345678901234 6"),
              "spent       01234567890123456789\n"
              "            01234 6\n");
}

TEST(the_summary_of_one_step_and_one_sample)
{
    struct shown      s;
    struct str        out, err;
    struct event_done r = a_result(NAN);
    shown_open(&s, perm);
    r.loss_scale      = 32768;
    r.skipped         = 1;
    r.samples_skipped = 1;
    s.listener.on_done(s.listener.context, &r);
    r.samples_skipped = 2;
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK(strstr(str_z(perm, out), "; 1 step overflowed and was skipped\n"));
    CHECK(strstr(str_z(perm, out), "skipped     1 sample was unreadable and replaced\n"));
    CHECK(strstr(str_z(perm, out), "skipped     2 samples were unreadable and replaced\n"));
}

TEST(the_summary)
{
    struct shown      s;
    struct str        out, err;
    struct event_done r = a_result(0.00033), unpriced = a_result(NAN);
    shown_open(&s, perm);
    s.progress.usd_hour = 0.096;
    s.listener.on_done(s.listener.context, &r);
    say_text(&s.say, STR("--\n"));
    unpriced.target_reached = false;
    unpriced.loss_scale     = 32768;
    unpriced.skipped        = 3;
    s.listener.on_done(s.listener.context, &unpriced);
    shown_close(&s, perm, &out, &err);
    CHECK_EQ(err.len, 0);
    CHECK_STR(out, "accuracy    97.6 %\n"
                   "loss        0.0812\n"
                   "target      reached\n"
                   "throughput  31,200 samples/s, 975 steps/s, 19.0 GFLOP/s\n"
                   "step        1.02 ms p50, 1.2 p95, 4 p99; 3.1 % of it waiting for data\n"
                   "spent       input 3.1 %, compute 94.9 %, update 2.0 %\n"
                   "MFU         50.0 % of the measured peak of a large matrix product here\n"
                   "time        12.34 s for 1875 steps; the first finished after 85 ms\n"
                   "memory      4.1 MB planned, 4.1 MB used; the process took 38.0 MB at its peak\n"
                   "weights     w.safetensors\n"
                   "cost        $0.0003 at $0.096 an hour\n"
                   "next        frugal predict w.safetensors\n"
                   "--\n"
                   "accuracy    97.6 %\n"
                   "loss        0.0812\n"
                   "target      not reached\n"
                   "loss scale  32768 at the end; 3 steps overflowed and were skipped\n"
                   "throughput  31,200 samples/s, 975 steps/s, 19.0 GFLOP/s\n"
                   "step        1.02 ms p50, 1.2 p95, 4 p99; 3.1 % of it waiting for data\n"
                   "spent       input 3.1 %, compute 94.9 %, update 2.0 %\n"
                   "MFU         50.0 % of the measured peak of a large matrix product here\n"
                   "time        12.34 s for 1875 steps; the first finished after 85 ms\n"
                   "memory      4.1 MB planned, 4.1 MB used; the process took 38.0 MB at its peak\n"
                   "weights     w.safetensors\n"
                   "cost        price unknown; give the price of an hour: train.usd_hour=0.10\n"
                   "next        frugal predict w.safetensors\n");
}

TEST(the_summary_of_a_gpu)
{
    struct shown       s;
    struct str         out, err;
    struct event_done  r = a_result(NAN);
    struct event_start t = { .device    = STR("NVIDIA H200"),
                             .precision = STR("bf16"),
                             .usd_hour  = NAN };
    r.mfu_measured       = false;
    r.energy_wh          = 1.5;
    r.watts              = 540;
    r.sm_activity        = 0.875;
    shown_open(&s, perm);
    s.listener.on_start(s.listener.context, &t);
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK(strstr(str_z(perm, out), "\nMFU         50.0 % of the GPU's dense peak\n"
                                   "energy      1.5 Wh, 540 W on average\n"
                                   "activity    multiprocessors had work 88 % of the time\n"));
}

static struct str start_of(struct arena *perm, i64 samples, i64 batch, i64 accumulate,
                           bool batch_norm)
{
    struct shown       s;
    struct str         out, err;
    struct event_start t = { .device              = STR("cpu"),
                             .parameters          = 1500,
                             .train_samples       = samples,
                             .batch               = batch,
                             .accumulate          = accumulate,
                             .batch_norm          = batch_norm,
                             .arena_bytes_planned = 4100000,
                             .lr                  = 0.1,
                             .lr_given            = 0.1 };
    shown_open(&s, perm);
    s.listener.on_start(s.listener.context, &t);
    shown_close(&s, perm, &out, &err);
    CHECK_EQ(out.len, 0);
    return err;
}

static struct str start_shown(struct arena *perm, i64 accumulate, bool batch_norm)
{
    return start_of(perm, 70, 16, accumulate, batch_norm);
}

TEST(one_sample_is_not_called_samples)
{
    CHECK_STR(start_of(perm, 1, 1, 2, true),
              "1,500 parameters, 1 sample, batch 2 x 1, on cpu; 4.1 MB planned\n"
              "batch norm sees 1 sample at a time, not the 2 of a step: the result differs from "
              "train.batch=2 computed at once\n");
}

TEST(the_noise_of_gradients_becomes_advice)
{
    struct shown      s;
    struct str        out, err;
    struct event_done r = a_result(NAN);
    r.noise_scale       = 400;
    r.step_samples      = 100;
    r.tokens_per_s      = r.samples_per_s * 128;
    shown_open(&s, perm);
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK(strstr(str_z(perm, out),
                 "\nnoise       scale 400 samples (51,200 tokens): with 100 a step the run takes 5 "
                 "times the fewest steps and 1.25 times the least data; with about 512 a step it "
                 "would take twice the fewest steps and twice the least data\n"));
}

TEST(the_start_tells_of_batch_norm_in_micro_batches)
{
    const char *alone = "1,500 parameters, 70 samples, batch 16, on cpu; 4.1 MB planned\n";
    CHECK_STR(start_shown(perm, 1, false), alone);
    CHECK_STR(start_shown(perm, 1, true), alone);
    CHECK_STR(start_shown(perm, 4, false),
              "1,500 parameters, 70 samples, batch 4 x 16, on cpu; 4.1 MB planned\n");
    CHECK_STR(start_shown(perm, 4, true),
              "1,500 parameters, 70 samples, batch 4 x 16, on cpu; 4.1 MB planned\n"
              "batch norm sees 16 samples at a time, not the 64 of a step: the result differs "
              "from train.batch=64 computed at once\n");
}

/* `spent` counts the wait for the last checkpoint and the weights too: the line of checkpoints says how much it is. */
TEST(the_time_of_checkpoints_is_the_same_in_both_lines)
{
    struct shown      s;
    struct str        out, err;
    struct event_done r            = a_result(NAN);
    i64               ns           = 40000000000;
    r.split_ns                     = (struct step_split){ { 0 } };
    r.split_ns.ns[PART_compute]    = ns / 10 * 9;
    r.split_ns.ns[PART_checkpoint] = ns / 10;
    r.checkpoints = 2, r.checkpoint_step = 1875, r.checkpoint_bytes = 1000;
    r.checkpoint_blocked_s = (f64)ns * 1e-9 / 40;
    r.checkpoint_total_s   = (f64)ns * 1e-9 / 20;
    shown_open(&s, perm);
    s.listener.on_done(s.listener.context, &r);
    r.checkpoint_blocked_s = (f64)ns * 1e-9 / 10; /* all of it while steps were made */
    r.checkpoint_total_s   = NAN;
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK(strstr(out.data, "compute 90.0 %, checkpoint 10.0 %\n"));
    CHECK(strstr(
        out.data,
        str_z(perm, str_fmt(perm,
                            "training paused for %s s (%s s with the steps that were slower while "
                            "one was written), and %s s at the end until everything was on disk\n",
                            DIGITS((f64)ns * 1e-9 / 40), DIGITS((f64)ns * 1e-9 / 20),
                            DIGITS((f64)ns * 1e-9 * 3 / 40)))));
    CHECK(strstr(out.data, str_z(perm, str_fmt(perm, "training paused for %s s\n",
                                               DIGITS((f64)ns * 1e-9 / 10)))));
}

TEST(the_summary_of_a_run_that_stopped_early)
{
    struct shown          s;
    struct str            out, err;
    struct event_done     r = a_result(0.00033);
    struct event_rollback b = { .step          = 120,
                                .to_step       = 100,
                                .rollbacks     = 1,
                                .rollbacks_max = 2,
                                .lr_factor     = 0.5,
                                .why           = STR("the loss is not a number after step 120") };
    r.stopped               = STOP_PATIENCE;
    r.saved_s               = 75;
    r.weights_step          = 1500;
    r.why                   = STR("3 evaluations in a row were no better");
    shown_open(&s, perm);
    s.listener.on_rollback(s.listener.context, &b);
    s.listener.on_done(s.listener.context, &r);
    r.saved_dollars = 0.002;
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK_STR(err,
              "the loss is not a number after step 120: back to the weights of step 100, with 0.5 "
              "times the learning rate (rollback 1 of 2)\n");
    CHECK(strstr(out.data, "\nstopped     3 evaluations in a row were no better\n"));
    CHECK(strstr(out.data, "\nweights     w.safetensors, those of step 1500\n"));
    CHECK(strstr(out.data, "\nsaved       1:15 of the planned run\n"));
    CHECK(strstr(out.data, "\nsaved       1:15 and $0.0020 of the planned run\n"));
}

static void check_number(const struct json *map, const char *key, f64 value)
{
    f64 got = NAN;
    CHECK(json_f64(json_get(map, str_of(key)), &got));
    CHECK_EQ(got, value);
}

TEST(events_are_json_a_line_each)
{
    struct shown       s;
    struct str         out, err, line;
    struct event_done  r     = a_result(NAN);
    struct event_start start = { .device = STR("a \"cpu\""), .parameters = 7, .usd_hour = NAN };
    struct event_eval  eval  = {
          .step = 3, .loss = 1.5, .metrics = { { { STR("accuracy"), 0.5 }, { STR("auc"), 0.25 } }, 2 }
    };
    shown_open(&s, perm);
    s.say.json = true;
    s.listener.on_start(s.listener.context, &start);
    s.listener.on_step(s.listener.context, &a_step);
    s.listener.on_eval(s.listener.context, &eval);
    s.listener.on_done(s.listener.context, &r);
    shown_close(&s, perm, &out, &err);
    CHECK_EQ(err.len, 0);

    static const char *const events[] = { "start", "step", "eval", "done" };
    struct json             *v[COUNT_OF(events)];
    for (i64 i = 0; i < COUNT_OF(events); i++) {
        struct err why = { 0 };
        CHECK(str_cut(&out, '\n', &line));
        CHECK_EQ(json_parse(perm, line, &v[i], &why), STATUS_OK);
        CHECK_STR(json_get(v[i], STR("event"))->text, events[i]);
    }
    CHECK_EQ(out.len, 0);
    CHECK_STR(json_get(v[0], STR("device"))->text, "a \"cpu\"");
    CHECK_EQ(json_get(v[0], STR("usd_hour"))->kind, JSON_NULL);
    check_number(v[1], "step", 120);
    check_number(json_get(v[1], STR("metrics")), "accuracy", 0.8412);
    CHECK_EQ(json_get(v[1], STR("tokens_per_s"))->kind, JSON_NULL);
    check_number(json_get(v[2], STR("metrics")), "auc", 0.25);
    CHECK_EQ(json_get(v[3], STR("dollars"))->kind, JSON_NULL);
    check_number(v[3], "seconds", 12.34);
    check_number(v[3], "peak_rss_bytes", 38000000);
}

TEST(quantities_as_people_read_them)
{
    CHECK_STR(text_count(perm, 0), "0");
    CHECK_STR(text_count(perm, 999), "999");
    CHECK_STR(text_count(perm, 1000), "1,000");
    CHECK_STR(text_count(perm, 1234567.4), "1,234,567");
    CHECK_STR(text_bytes(perm, 0), "0 B");
    CHECK_STR(text_bytes(perm, 999), "999 B");
    CHECK_STR(text_bytes(perm, 999.6), "1.0 kB");
    CHECK_STR(text_bytes(perm, 12345678), "12.3 MB");
    CHECK_STR(text_bytes(perm, 999.96e6), "1.0 GB");
    CHECK_STR(text_clock(perm, 59.4), "0:59");
    CHECK_STR(text_clock(perm, 59.6), "1:00");
    CHECK_STR(text_clock(perm, 3723), "1:02:03");
    CHECK_STR(text_clock(perm, NAN), "-");
    CHECK_STR(text_dollars(perm, 0), "$0.0000");
    CHECK_STR(text_dollars(perm, 0.00001), "under $0.0001");
    CHECK_STR(text_dollars(perm, 0.12345), "$0.1235");
    CHECK_STR(text_dollars(perm, 12.345), "$12.35");
    CHECK_STR(text_dollars(perm, NAN), "price unknown");
}

static void write_line(void *context, enum event_kind kind, const void *event)
{
    event_json(kind, event, context);
    textbuf_fmt(context, "\n");
}

/* Half of the time goes into waiting for data that one worker decodes. */
static struct evidence slow_decoding(void)
{
    struct evidence e = {
        .steps          = 100,
        .flops_part     = NAN,
        .bandwidth_part = NAN,
        .decode_s       = 50,
        .workers        = 1,
        .workers_fixed  = true,
        .low_speedup    = NAN,
        .saving_s       = NAN,
        .threads        = 1,
        .load           = { .seconds = 100, .core_count = 8, .busy = 0.25, .own_cores = 1 },
        .usage          = { .shape = USAGE_STEADY_LOW, .seconds = 60, .mean = 0.3, .lag_s = NAN }
    };
    e.split.ns[PART_input]   = 50000000000;
    e.split.ns[PART_forward] = 50000000000;
    return e;
}

/* What `frugal train` shows of it is what a replayed stream shows. */
TEST(a_verdict_is_in_the_stream)
{
    struct evidence   e     = slow_decoding();
    struct arena      texts = arena_part(perm, 1 << 16), room = arena_part(perm, 1 << 16);
    struct verdict    v      = verdict_of(&e, &texts);
    struct textbuf    stream = textbuf_new(&room);
    struct subscriber writes = { .context = &stream, .on_event = write_line };
    struct str        out[2], err, lines, line;
    struct shown      s;

    struct verdict_of_run run = { .usd = 3.5, .runs_per_month = 10 };
    CHECK(verdict_is_due(&e.split));
    CHECK(v.count >= 1);
    verdict_emit(&writes, &e, &v, run, *perm);
    lines = textbuf_str(&stream);
    CHECK(str_starts(lines, STR("{\"event\":\"verdict\",\"bound\":\"data\",\"part\":0.5,"
                                "\"usage\":\"steady-low\",")));
    CHECK(strstr(str_z(perm, lines), "\n{\"event\":\"problem\",\"problem\":\""));
    shown_open(&s, perm);
    verdict_emit(&s.listener, &e, &v, (struct verdict_of_run){ 3.5, 10, .so_far = true }, *perm);
    verdict_emit(&s.listener, &e, &v, run, *perm); /* the one before it is not shown in words */
    shown_close(&s, perm, &out[0], &err);
    CHECK_STR(out[0], "verdict     data bound: it takes 50 % of the time\n"
                      "usage       cores: steady-low, 30 % busy; other programs took 1.0 cores\n"
                      "problem     slow_augmentation: steps wait for data 50 % of the time, and "
                      "most of that is decoding; "
                      "loader.workers=auto saves 50 % of the run, $1.75 a run, $210 a year\n");
    shown_open(&s, perm);
    while (str_cut(&lines, '\n', &line)) {
        union event_any event;
        enum event_kind kind;
        CHECK_EQ(event_read(line, perm, &kind, &event, NULL), STATUS_OK);
        events_emit(&s.listener, kind, &event);
    }
    shown_close(&s, perm, &out[1], &err);
    CHECK_STR(out[1], str_z(perm, out[0]));
}
