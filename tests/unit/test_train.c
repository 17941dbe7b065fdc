/* A whole run, small: what it allocates while stepping, what it uses of what it planned, that the
 * number of threads does not matter, and that every sample counts once. */
#include "base/os.h"
#include "harness.h"
#include "support/small_run.h"
#include "train/train_int.h"
#include <stdatomic.h>
#include <unistd.h>

/* Every allocation of the process is counted, the libraries' too. Sanitizers bring their own malloc:
 * there the count stays 0 and only the arenas are watched. */
static atomic_long allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *p, size_t bytes)
{
    allocations++;
    return __libc_realloc(p, bytes);
}
#endif

static const char *const network = "- conv: {filters: 8, activation: relu}\n"
                                   "- batchnorm\n"
                                   "- maxpool: 2\n"
                                   "- dropout: 0.2\n"
                                   "- flatten\n"
                                   "- dense: 4\n";

struct watch {
    struct event_start start;       /* its texts are gone */
    long               first, last; /* allocations after the first step, after the last */
    i64                arena_first, arena_last;
    i64                steps;
    f64                losses[64];
};

static void on_step(void *context, const struct event_step *p)
{
    struct watch *w = context;
    w->last         = allocations;
    w->arena_last   = arena_system_calls();
    if (p->step == 1) {
        w->first       = w->last;
        w->arena_first = w->arena_last;
    }
    w->losses[w->steps++ % 64] = p->loss;
}

static void on_start(void *context, const struct event_start *t)
{
    ((struct watch *)context)->start = *t;
}

static struct watch run(const struct settings *s, struct train_result *r)
{
    struct watch      w   = { 0 };
    struct err        err = { 0 };
    struct subscriber l   = { .context = &w, .on_start = on_start, .on_step = on_step };
    if (train_run(os_real(), s, &(struct train_with){ .to = &l }, r, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return w;
}

static const char *temp_folder(struct arena *perm)
{
    char *path = NEW(perm, char, 64);
    snprintf(path, 64, "/tmp/frugal-test-XXXXXX");
    CHECK(mkdtemp(path));
    return path;
}

static void remove_run(const struct settings *s, const char *folder)
{
    unlink(s->data.path.data);
    unlink(s->data.labels.data);
    rmdir(folder);
}

TEST(no_allocation_between_steps)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    s.data.held_out = 0; /* an evaluation may open its loader */
    struct watch w  = run(&s, &r);
    CHECK_EQ(w.steps, 15); /* 70 samples: four batches of 16 and one of 6, three times */
    CHECK_EQ(w.last - w.first, 0);
    CHECK_EQ(w.arena_last - w.arena_first, 0);
    remove_run(&s, folder);
}

TEST(planned_memory_is_used_memory)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    run(&s, &r);
    CHECK_EQ(r.arena_bytes_planned, r.arena_bytes_used);
    remove_run(&s, folder);
}

TEST(threads_do_not_change_a_bit)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    struct watch        one, many;
    s.train.threads = 1;
    one             = run(&s, &r);
    for (s.train.threads = 2; s.train.threads <= 3; s.train.threads++) {
        many = run(&s, &r);
        CHECK_EQ(memcmp(one.losses, many.losses, sizeof one.losses), 0);
    }
    remove_run(&s, folder);
}

TEST(muon_keeps_the_same_rules)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    s.data.held_out   = 0;
    s.train.optimiser = STR("muon");
    s.train.muon_lr   = 0.02;
    s.train.threads   = 1;
    struct watch one  = run(&s, &r);
    CHECK_EQ(one.last - one.first, 0);
    CHECK_EQ(r.arena_bytes_planned, r.arena_bytes_used);
    CHECK(one.losses[14] < one.losses[0]);
    s.train.threads   = 3;
    struct watch many = run(&s, &r);
    CHECK_EQ(memcmp(one.losses, many.losses, sizeof one.losses), 0);
    remove_run(&s, folder);
}

TEST(a_network_learns_and_stops_at_its_target)
{
    const char     *folder = temp_folder(perm);
    struct settings s =
        small_run(perm, folder, "- flatten\n- dense: {units: 32, activation: relu}\n- dense: 4\n");
    struct train_result r;
    s.train.epochs = 200;
    s.train.target = 0.9;
    struct watch w = run(&s, &r);
    CHECK(r.target_reached && r.steps < 200 * 4);
    CHECK_EQ(w.steps, r.steps);
    CHECK_STR(r.metrics[0].name, "accuracy");
    CHECK(r.metrics[0].value >= 0.9);
    remove_run(&s, folder);
}

/* 60 samples a step at once and as four times 15, then the ten that are left: the same losses up
 * to the rounding of sums in another order; dropout is addressed by the sample, not the batch. */
TEST(accumulated_micro_batches_equal_the_large_batch)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder,
                                           "- conv: {filters: 8, activation: relu}\n"
                                                    "- dropout: 0.2\n- flatten\n- dense: 4\n");
    struct train_result r;
    s.data.held_out     = 0;
    s.train.epochs      = 5;
    s.train.lr          = 6e-4;
    s.train.batch       = 60;
    struct watch large  = run(&s, &r);
    s.train.micro_batch = 15;
    struct watch micro  = run(&s, &r);
    CHECK_EQ(large.steps, 10);
    CHECK_EQ(micro.steps, 10);
    for (i64 i = 0; i < 10; i++)
        CHECK_NEAR(micro.losses[i], large.losses[i], 1e-5 * large.losses[i]);
    CHECK_EQ(r.arena_bytes_planned, r.arena_bytes_used);
    remove_run(&s, folder);
}

/* At weights that stand still, a quarter or half of a step compared with the whole are two estimates of
 * one number, each from a hundred steps: between 0.77 and 1.37 of each other with twelve seeds. A batch
 * taken for another would make it 4 times as much. */
TEST(the_noise_scale_does_not_depend_on_the_parts)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder,
                                           "- flatten\n- dense: {units: 8, activation: tanh}\n"
                                                    "- dense: 4\n");
    struct train_result r;
    s.data.held_out     = 0;
    s.train.drop_last   = true;
    s.train.epochs      = 0;
    s.train.steps       = 200;
    s.train.lr          = 1e-12;
    s.train.noise_scale = true;
    s.train.batch       = 32; /* two halves */
    struct watch half   = run(&s, &r);
    f64          by_two = r.noise_scale;
    CHECK_EQ(half.start.batch, 16);
    CHECK_EQ(half.start.accumulate, 2);
    CHECK_EQ(r.step_samples, 32);
    CHECK_EQ(r.arena_bytes_planned, r.arena_bytes_used);
    s.train.micro_batch = 8;
    run(&s, &r);
    CHECK(by_two > 0 && r.noise_scale > 0);
    CHECK_NEAR(r.noise_scale / by_two, 1, 0.5);

    struct err        err = { 0 };
    struct subscriber l   = { 0 };
    s.train.micro_batch   = 0;
    s.train.batch         = 7;
    CHECK_EQ(train_run(os_real(), &s, &(struct train_with){ .to = &l }, &r, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "train.noise_scale=true computes a step in two halves"));
    remove_run(&s, folder);
}

TEST(the_start_tells_what_a_step_of_micro_batches_is)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    s.train.steps            = 1;
    struct event_start one   = run(&s, &r).start;
    s.train.batch            = 48;
    s.train.micro_batch      = 16;
    struct event_start three = run(&s, &r).start;
    CHECK_EQ(one.accumulate, 1);
    CHECK_EQ(three.accumulate, 3);
    CHECK_EQ(three.batch, 16);
    CHECK(one.batch_norm && three.batch_norm);
    CHECK(three.flops_step > 2 * one.flops_step && three.flops_step < 3.1 * one.flops_step);
    remove_run(&s, folder);
    s = small_run(perm, folder = temp_folder(perm), "- flatten\n- dense: 4\n");
    CHECK(!run(&s, &r).start.batch_norm);
    remove_run(&s, folder);
}

TEST(drop_last_leaves_the_short_batch_out)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    s.train.drop_last = true;
    s.data.held_out   = 0;
    CHECK_EQ(run(&s, &r).steps, 12);
    s.train.batch = 32; /* of 70 samples: two steps an epoch, whatever is computed at once */
    CHECK_EQ(run(&s, &r).steps, 6);
    s.train.micro_batch = 4;
    CHECK_EQ(run(&s, &r).steps, 6);
    CHECK_EQ(r.step_samples, 32);
    s.train.batch       = 96; /* more than there are: of its micro-batches, those that are whole */
    s.train.micro_batch = 16;
    CHECK_EQ(run(&s, &r).steps, 3);
    remove_run(&s, folder);
}

TEST(a_loss_that_is_not_a_number_ends_the_run_with_advice)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    struct err          err = { 0 };
    struct subscriber   l   = { 0 };
    s.train.lr              = 1e30;
    CHECK_EQ(train_run(os_real(), &s, &(struct train_with){ .to = &l }, &r, &err), STATUS_NO);
    CHECK(strstr(err.text, "train.lr"));
    remove_run(&s, folder);
}

/* --- stopping and going back ----------------------------------------------------------------- */

static const char *const two_layers =
    "- flatten\n- dense: {units: 32, activation: relu}\n- dense: 4\n";

struct course {
    i64 evals, rollbacks, steps;
    f64 best_loss, first_lr, lr;
};

static void course_step(void *context, const struct event_step *p)
{
    struct course *c = context;
    c->lr            = p->lr;
    if (!c->steps++) c->first_lr = p->lr;
}

static void course_eval(void *context, const struct event_eval *e)
{
    struct course *c = context;
    c->best_loss     = c->evals++ ? fmin(c->best_loss, e->loss) : e->loss;
}

static void course_rollback(void *context, const struct event_rollback *b)
{
    struct course *c = context;
    CHECK(b->to_step <= b->step);
    CHECK_EQ(b->lr_factor, pow(0.5, (f64)b->rollbacks));
    CHECK_EQ(++c->rollbacks, b->rollbacks);
}

static enum status run_course(const struct settings *s, struct course *c, struct train_result *r,
                              struct err *err)
{
    struct subscriber l = {
        .context = c, .on_step = course_step, .on_eval = course_eval, .on_rollback = course_rollback
    };
    *c = (struct course){ 0 };
    return train_run(os_real(), s, &(struct train_with){ .to = &l }, r, err);
}

/* A rate that is far too high is halved, from the first weights on, until the run holds. */
TEST(a_run_that_diverges_goes_back_until_its_rate_is_sound)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, two_layers);
    struct train_result r;
    struct course       c;
    struct err          err = { 0 };
    s.train.optimiser       = STR("sgd");
    s.train.schedule        = STR("constant");
    s.train.clip            = 0;
    s.train.lr              = 1e4;
    s.train.rollbacks       = 60;
    s.train.epochs          = 20;
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK(c.rollbacks > 3 && r.rollbacks == c.rollbacks);
    CHECK_EQ(r.stopped, STOP_END);
    CHECK_EQ(r.steps, 20 * 4); /* all of them, beside those that were lost */
    CHECK(c.steps > r.steps);
    CHECK_EQ(c.lr, c.first_lr * pow(0.5, (f64)c.rollbacks));
    CHECK(r.loss < 2.4); /* the first loss, ln 4, and a nat: what counts as sound */
    s.train.rollbacks = 2;
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_NO);
    CHECK_EQ(c.rollbacks, 2);
    CHECK_EQ(r.stopped, STOP_DIVERGED);
    CHECK(strstr(err.text, "going back 2 times did not help"));
    remove_run(&s, folder);
}

/* Whichever tensor that carries state is spoilt, it comes back. */
TEST(going_back_brings_all_state_back)
{
    const char     *folder = temp_folder(perm);
    struct settings s      = small_run(perm, folder, network);
    struct session  session;
    struct guard    g;
    struct err      err   = { 0 };
    struct arena    arena = arena_open((i64)1 << 30);
    CHECK_EQ(session_open(&session, os_real(), &s, &arena, &err), STATUS_OK);
    s.train.rollbacks = 1;
    CHECK_EQ(guard_open(&g, &session, 10, &err), STATUS_OK);
    CHECK_EQ(session_start(&session, &err), STATUS_OK);
    guard_start(&g, 0);
    struct persistent *all   = session.set->persistents;
    i64                state = 0, changed = 0;
    u8                 noise[64] = { 1, 2, 3 }, before[64], now[64];
    for (i32 i = 0; i < session.set->persistent_count; i++) {
        bool carries =
            all[i].kind == VALUE_PARAM || all[i].kind == VALUE_STATE || all[i].kind == VALUE_BUFFER;
        i64 bytes = MIN(type_bytes(all[i].type), 64);
        if (!carries) continue;
        state += type_bytes(all[i].type);
        session_get(&session, all[i].name, before, bytes);
        session_put(&session, all[i].name, noise, bytes);
        guard_roll_back(&g);
        session_get(&session, all[i].name, now, bytes);
        CHECK_EQ(memcmp(before, now, (size_t)bytes), 0);
        changed++;
    }
    CHECK_EQ(state, g.copy_bytes);
    CHECK(changed >= 4 + 2 + 2); /* weights and biases, Adam's two, batch norm's two */
    session_close(&session);
    arena_close(&arena);
    remove_run(&s, folder);
}

TEST(the_best_weights_are_kept_and_are_worth_what_was_said)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, two_layers);
    struct train_result r, again;
    struct course       c;
    struct err          err = { 0 };
    s.train.lr              = 0.3; /* jumps about */
    s.train.schedule        = STR("constant");
    s.train.target_metric   = STR("loss");
    s.train.keep_best       = STR("true");
    s.train.epochs          = 30;
    s.train.out             = str_fmt(perm, "%s/w", folder);
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.loss, c.best_loss);
    CHECK(r.weights_step < r.steps);
    s.train.init      = s.train.out;
    s.train.out       = STR("");
    s.train.keep_best = STR("false");
    s.train.lr        = 1e-30; /* nothing moves */
    s.train.epochs    = 1;
    CHECK_EQ(run_course(&s, &c, &again, &err), STATUS_OK);
    CHECK_EQ(again.loss, r.loss);
    unlink(s.train.init.data);
    remove_run(&s, folder);
}

/* By default, of the weights alone; not where there is nothing to choose from. */
TEST(the_best_weights_are_kept_by_default)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct train_result r;
    struct course       c;
    struct session      session;
    struct guard        g;
    struct err          err     = { 0 };
    struct arena        arena   = arena_open((i64)1 << 30);
    i64                 weights = 0;
    s.train.lr                  = 0.3; /* jumps about */
    s.train.schedule            = STR("constant");
    s.train.target_metric       = STR("loss");
    s.train.epochs              = 30;
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.loss, c.best_loss);
    CHECK(r.weights_step < r.steps);
    CHECK_EQ(session_open(&session, os_real(), &s, &arena, &err), STATUS_OK);
    for (i32 i = 0; i < session.set->persistent_count; i++) {
        const struct persistent *t = &session.set->persistents[i];
        if (t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER) weights += type_bytes(t->type);
    }
    CHECK_EQ(guard_open(&g, &session, 120, &err), STATUS_OK);
    CHECK_EQ(g.copy_bytes, weights);
    s.train.eval_every = 120;
    CHECK_EQ(guard_open(&g, &session, 120, &err), STATUS_OK);
    CHECK_EQ(g.copy_bytes, 0);
    s.train.eval_every = 4;
    s.train.keep_best  = STR("false");
    CHECK_EQ(guard_open(&g, &session, 120, &err), STATUS_OK);
    CHECK_EQ(g.copy_bytes, 0);
    session_close(&session);
    arena_close(&arena);
    remove_run(&s, folder);
}

/* A signal while the run still improves ends with the newest weights, one after the best evaluation with the best. */
TEST(an_interrupted_run_keeps_the_steps_since_its_best_evaluation)
{
    const char     *folder = temp_folder(perm);
    struct settings s      = small_run(perm, folder, two_layers);
    struct session  session;
    struct guard    g;
    struct err      err   = { 0 };
    struct arena    arena = arena_open((i64)1 << 30);
    s.train.target_metric = STR("loss");
    CHECK_EQ(session_open(&session, os_real(), &s, &arena, &err), STATUS_OK);
    CHECK_EQ(guard_open(&g, &session, 100, &err), STATUS_OK);
    CHECK_EQ(session_start(&session, &err), STATUS_OK);
    guard_start(&g, 0);
    CHECK_EQ(guard_eval(&g, &(struct train_eval){ .step = 4, .samples = 4, .loss = 1 }, 0),
             STOP_GO_ON);
    CHECK(!guard_restore_best(&g, 6, STATUS_INTERRUPTED));
    CHECK_EQ(guard_eval(&g, &(struct train_eval){ .step = 8, .samples = 4, .loss = 2 }, 0),
             STOP_GO_ON);
    CHECK(guard_restore_best(&g, 9, STATUS_INTERRUPTED));
    CHECK_EQ(g.copy_step, 4);
    session_close(&session);
    arena_close(&arena);
    rmdir(folder);
}

/* Overfitted, it is surer of its mistakes, which are fewer: the loss rises, the accuracy too. */
TEST(the_best_evaluation_is_kept_whatever_its_loss)
{
    static const struct {
        f64 loss, accuracy;
        i64 kept; /* step of the copy then, without and with rollbacks */
        i64 sound;
    } evals[] = {
        { 1, 0.5, 1, 1 },   { 5, 0.4, 1, 1 },   { 5, 0.6, 3, 1 },
        { 1.2, 0.7, 4, 4 }, { 1.1, 0.7, 5, 5 }, { 1.2, 0.7, 5, 5 }
    }; /* as accurate: the lower loss */
    const char *folder = temp_folder(perm);
    for (i64 rollbacks = 0; rollbacks < 2; rollbacks++) {
        struct settings s = small_run(perm, folder, two_layers);
        struct session  session;
        struct guard    g;
        struct err      err     = { 0 };
        struct arena    arena   = arena_open((i64)1 << 30);
        s.train.keep_best       = STR("true");
        s.train.target_metric   = STR("accuracy");
        s.train.rollbacks       = rollbacks;
        struct event_metric hit = { STR("accuracy"), 0 };
        CHECK_EQ(session_open(&session, os_real(), &s, &arena, &err), STATUS_OK);
        CHECK_EQ(guard_open(&g, &session, 10, &err), STATUS_OK);
        CHECK_EQ(session_start(&session, &err), STATUS_OK);
        guard_start(&g, 0);
        for (i64 i = 0; i < COUNT_OF(evals); i++) {
            hit.value           = evals[i].accuracy;
            struct train_eval e = { .step = i + 1, .samples = 4, .loss = evals[i].loss };
            e.metrics[0]        = hit;
            e.metric_count      = 1;
            CHECK_EQ(stop_step(&g.stop, i + 1, (f64)i, 1.4), STOP_GO_ON);
            CHECK_EQ(guard_eval(&g, &e, 0), STOP_GO_ON);
            CHECK_EQ(g.copy_step, rollbacks ? evals[i].sound : evals[i].kept);
        }
        session_close(&session);
        arena_close(&arena);
    }
    rmdir(folder);
}

TEST(a_run_ends_by_patience_and_by_the_clock)
{
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, two_layers);
    struct train_result r;
    struct course       c;
    struct err          err = { 0 };
    s.train.lr              = 1e-30; /* never better */
    s.train.epochs          = 100;
    s.train.patience        = 3;
    s.train.usd_hour        = 2;
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.stopped, STOP_PATIENCE);
    CHECK_EQ(c.evals, 4);
    CHECK_EQ(r.steps, 16);
    CHECK(r.saved_s > 0 && r.saved_s < r.seconds * 384 / 15); /* steps; the first is not counted */
    CHECK_NEAR(r.saved_dollars, r.saved_s / 3600 * 2, 1e-15);
    s.train.patience    = 0;
    s.train.epochs      = 0;
    s.train.max_seconds = 0.3;
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.stopped, STOP_BUDGET);
    CHECK(r.seconds >= 0.2 && r.seconds < 60); /* the machine may be busy */
    CHECK(isnan(r.saved_s));
    s.train.max_seconds = NAN;
    s.train.max_dollars = 1e-4; /* 0.18 s */
    CHECK_EQ(run_course(&s, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.stopped, STOP_BUDGET);
    CHECK(strstr(r.why, "train.max_dollars"));
    remove_run(&s, folder);
}

/* A clock that only moves when the loop's thread reads it, so that nothing lies between two readings but
 * what the loop itself put there. */
static _Atomic i64 ticks;
static pthread_t   loop_thread;

static i64 ticking_now(struct os *os)
{
    (void)os;
    i64 tick = pthread_equal(pthread_self(), loop_thread) ? 1000 : 0;
    return atomic_fetch_add(&ticks, tick) + tick;
}

struct split_watch {
    struct clock     *clock;
    struct step_split last;
    i64               steps, last_ns;
    bool              adds_up;
};

static i64 sum_of(const struct step_split *s)
{
    i64 sum = 0;
    for (i64 i = 0; i < PART_COUNT; i++) sum += s->ns[i];
    return sum;
}

static void split_step(void *context, const struct event_step *p)
{
    struct split_watch *w = context;
    i64                 terms[TERM_COUNT];
    i64                 now_ns = sum_of(p->split);
    w->steps++;
    w->adds_up = w->adds_up && now_ns > w->last_ns && clock_terms(w->clock, terms) > now_ns;
    for (i64 i = 0; i < PART_COUNT; i++)
        w->adds_up = w->adds_up && p->split->ns[i] >= w->last.ns[i];
    w->last    = *p->split;
    w->last_ns = now_ns;
}

TEST(the_parts_of_a_run_sum_to_its_wall_clock)
{
    struct os           os     = *os_real();
    const char         *folder = temp_folder(perm);
    struct settings     s      = small_run(perm, folder, network);
    struct split_watch  w      = { .adds_up = true };
    struct subscriber   l      = { .context = &w, .on_step = split_step };
    struct train_result r;
    struct err          err = { 0 };
    loop_thread             = pthread_self();
    os.now_ns               = ticking_now;
    s.train.epochs          = 2;
    s.train.batch           = 32;
    s.train.micro_batch     = 16;
    i64 terms[TERM_COUNT], begin_ns = ticks;
    w.clock                = clock_new(perm, &os);
    struct train_with with = { .to = &l, .bill = bill_new(perm, w.clock) };
    CHECK_EQ(train_run(&os, &s, &with, &r, &err), STATUS_OK);
    CHECK(w.adds_up);
    CHECK_EQ(w.steps, r.steps);
    struct step_split all = clock_split(w.clock); /* it stands still since the run ended */
    CHECK_EQ(clock_terms(w.clock, terms), sum_of(&all));
    CHECK_EQ(llround(1e9 * r.seconds), sum_of(&all));
    CHECK(sum_of(&all) <= ticks - begin_ns);
    static const enum part used[] = { PART_fill,   PART_input,      PART_copy,         PART_compute,
                                      PART_update, PART_evaluation, PART_logging,      PART_other,
                                      PART_start,  PART_start_data, PART_start_compile };
    for (i64 i = 0; i < (i64)(sizeof used / sizeof *used); i++) CHECK(r.split.ns[used[i]] > 0);
    CHECK_EQ(r.split.ns[PART_launch], 0); /* a processor works inside the call */
    CHECK_EQ(r.split.ns[PART_forward], 0);
    CHECK_EQ(r.split.ns[PART_checkpoint],
             1000); /* between two readings of the clock: nothing is kept */
    remove_run(&s, folder);
}
