/* test_samples.c - what a text model writes while it is trained: the run computes the same with it and without, the
 * text is what its weights write, and neither the time nor a signal is taken from the run. */
#include "harness.h"
#include "infer/generate.h"
#include "infer/specimen.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/seldom.h"
#include <math.h>
#include <stdatomic.h>

static struct settings gpt_run(struct arena *perm, const char *positions, u64 seed)
{
    struct str      folder = folder_new(perm);
    struct settings s      = small_text_run(perm, folder.data, positions, seed);
    s.train.seed           = seed;
    s.train.out            = str_cat(perm, folder, STR("/out.safetensors"));
    return s;
}

struct read {
    struct arena *perm;
    i64           count, steps[32];
    struct str    last;
};

static void on_sample(void *context, const struct event_sample *e)
{
    struct read *r = context;
    ASSERT(r->count < COUNT_OF(r->steps));
    r->steps[r->count++] = e->step;
    r->last              = str_copy(r->perm, e->text);
}

static struct train_text twice(struct session *now, f64 seconds, struct arena *perm)
{
    struct train_text a = specimen_write(now, seconds, perm);
    struct train_text b = specimen_write(now, seconds, perm);
    CHECK(a.text.len > 0);
    CHECK(str_eq(a.text, b.text));
    return b;
}

static struct read train(struct arena *perm, const struct settings *s, train_writer *write)
{
    struct read         r  = { .perm = perm };
    struct err          e  = { 0 };
    struct subscriber   to = { .context = &r, .on_sample = on_sample };
    struct train_result result;
    struct train_with   with = { .to = &to, .write = write, .write_part = INFINITY };
    if (train_run(os_real(), s, &with, &result, &e)) harness_fail(__FILE__, __LINE__, "%s", e.text);
    return r;
}

struct text {
    char bytes[4096];
    i64  len;
};

static bool on_token(void *context, i64 index, i64 token, struct str bytes)
{
    struct text *t = context;
    (void)index, (void)token;
    memcpy(t->bytes + t->len, bytes.data, (size_t)bytes.len);
    t->len += bytes.len;
    return true;
}

/* From the file that the run has written, as frugal generate does. */
static void check_file_writes(const struct settings *s, struct str want, struct arena scratch)
{
    struct text            t        = { .len = 0 };
    struct settings        from     = *s;
    i32                    tokens[] = { 'T', 'h', 'e', [63] = 0 };
    struct generation      one      = { tokens, 3, GENERATED_ENOUGH };
    struct use_next_config how      = { .sequences = 1 };
    struct generating      g        = { .tokens_max = TRAIN_TEXT_TOKENS,
                                        .sampling   = { .temperature = 0.8, .top_p = 1, .seed = 1 },
                                        .on_token   = on_token,
                                        .context    = &t };
    from.train.init                 = s->train.out;
    CHECK_EQ(use_open_next(os_real(), &from, &how, &g.use, NULL), STATUS_OK);
    CHECK_EQ(words_open(&g.words, os_real(), STR(""), &scratch, NULL), STATUS_OK);
    generate(&g, &one, 1, scratch);
    CHECK_EQ(one.count, use_length(g.use));
    for (i64 i = 0; i < t.len && (u8)t.bytes[i] < 0x80;
         i++) /* what is no character is shown as "?" */
        CHECK(i < want.len && want.data[i] == t.bytes[i]);
    use_close(g.use);
}

static struct str bytes_of(struct arena *perm, struct str path)
{
    struct str bytes;
    CHECK_EQ(os_read_all(os_real(), path, perm, &bytes, NULL), STATUS_OK);
    return bytes;
}

static void check_same(const char *positions, const char *precision, i64 micro, struct arena *perm,
                       struct arena scratch)
{
    static const i64 steps[] = { 7, 14, 21, 25 };
    u64              seed    = test_seed();
    struct settings  s       = gpt_run(perm, positions, seed);
    s.train.precision        = str_of(precision);
    s.train.micro_batch      = micro;
    CHECK_EQ(train(perm, &s, NULL).count, 0);
    struct str  plain = bytes_of(perm, s.train.out);
    struct read r     = train(perm, &s, twice);
    CHECK_EQ(r.count, COUNT_OF(steps));
    for (i64 i = 0; i < r.count; i++) CHECK_EQ(r.steps[i], steps[i]);
    CHECK(str_eq(plain, bytes_of(perm, s.train.out)));
    check_file_writes(&s, r.last, scratch);
}

TEST(a_run_that_is_read_computes_the_same) { check_same("rotary", "fp32", 4, perm, scratch); }
TEST(with_learned_positions_in_bf16_too) { check_same("learned", "bf16", 0, perm, scratch); }

/* Adapters, and the weights that they stand beside. */
TEST(adapters_write_too)
{
    struct settings s = gpt_run(perm, "rotary", test_seed());
    s.train.steps     = 3;
    train(perm, &s, NULL);
    s.train.init       = s.train.out;
    s.train.out        = STR("");
    s.train.lora.rank  = 2;
    s.train.lora.alpha = 4;
    CHECK(train(perm, &s, twice).count > 0);
}

/* Without an evaluation one is written at the end. */
TEST(a_run_without_evaluations_ends_with_one)
{
    struct settings s = gpt_run(perm, "rotary", test_seed());
    s.data.held_out   = 0;
    s.train.steps     = 5;
    struct read r     = train(perm, &s, twice);
    CHECK_EQ(r.count, 1);
    CHECK_EQ(r.steps[0], 5);
}

static struct train_text must_not(struct session *now, f64 seconds, struct arena *perm)
{
    (void)now, (void)seconds, (void)perm;
    harness_fail(__FILE__, __LINE__, "there is no time for it");
    return (struct train_text){ { 0 }, { 0 } };
}

TEST(no_time_no_text)
{
    struct settings     s    = gpt_run(perm, "rotary", test_seed());
    struct read         r    = { .perm = perm };
    struct subscriber   to   = { .context = &r, .on_sample = on_sample };
    struct train_with   with = { .to = &to, .write = must_not };
    struct train_result result;
    CHECK_EQ(train_run(os_real(), &s, &with, &result, NULL), STATUS_OK); /* a part of 0 */
    with.write_part     = INFINITY;
    s.train.max_seconds = 1e-6;
    train_run(os_real(), &s, &with, &result, NULL);
}

/* A clock whose every reading, by any thread, is a millisecond after the last. */
static _Atomic i64 fake_ns;
static i64         slow_now(struct os *os)
{
    (void)os;
    return atomic_fetch_add(&fake_ns, 1000000) + 1000000;
}

static const f64 part = 0.25, slack_s = 1; /* src/train/samples.c */
static f64       spent_s;
static i64       begun_ns, asked;

static struct train_text slow_writer(struct session *now, f64 seconds, struct arena *perm)
{
    (void)now, (void)perm;
    asked++;
    CHECK(seconds > slack_s);
    CHECK(seconds - slack_s + spent_s <= part * (f64)(fake_ns - begun_ns) * 1e-9);
    fake_ns += (i64)(0.8 * (seconds - slack_s) * 1e9);
    spent_s += 0.8 * (seconds - slack_s);
    return (struct train_text){ STR("a"), STR("b") };
}

/* Each may take what is left of its part, and asks for no more than that. */
TEST(they_take_no_more_than_their_part)
{
    struct os           os   = *os_real();
    struct settings     s    = gpt_run(perm, "rotary", test_seed());
    struct read         r    = { .perm = perm };
    struct subscriber   to   = { .context = &r, .on_sample = on_sample };
    struct train_with   with = { .to = &to, .write = slow_writer, .write_part = part };
    struct train_result result;
    os.now_ns          = slow_now;
    begun_ns           = fake_ns;
    s.train.eval_every = 1;
    CHECK_EQ(train_run(&os, &s, &with, &result, NULL), STATUS_OK);
    CHECK(asked > 0);
    CHECK_EQ(r.count, asked);
}

static bool           comes;
static enum os_signal term_once(struct os *os)
{
    (void)os;
    enum os_signal got = comes ? OS_SIGNAL_TERM : OS_SIGNAL_NONE;
    comes              = false;
    return got;
}

static struct train_text interrupted(struct session *now, f64 seconds, struct arena *perm)
{
    comes               = true;
    struct train_text t = specimen_write(now, seconds, perm);
    CHECK(!comes);
    CHECK(t.text.len <= 1); /* it was left */
    return t;
}

/* The model that writes sees it first: it must reach the run. */
TEST(a_signal_while_it_writes_stops_the_run)
{
    struct os           os   = *os_real();
    struct settings     s    = gpt_run(perm, "rotary", test_seed());
    struct read         r    = { .perm = perm };
    struct subscriber   to   = { .context = &r, .on_sample = on_sample };
    struct train_with   with = { .to = &to, .write = interrupted, .write_part = INFINITY };
    struct train_result result;
    os.signal_take = term_once;
    CHECK_EQ(train_run(&os, &s, &with, &result, NULL), STATUS_INTERRUPTED);
    CHECK_EQ(result.steps, 7);
}

TEST(a_month_shows_some_fifty)
{
    struct seldom when = { 0 };
    i64           made = 0;
    for (i64 minute = 1; minute <= 31 * 24 * 60; minute++)
        made += seldom_due(&when, 60.0 * (f64)minute, false);
    CHECK(made > 20);
    CHECK(made < 80);
    CHECK(seldom_due(&when, 60.0 * 31 * 24 * 60, true));
}
