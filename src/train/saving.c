/* saving.c - the loop's side of checkpoints.
 *
 *     steps   ───┤take├─ gradients ─┤held├ update ─ …    blocked: taken and held; total: it, and what
 *     saver           └─ copy ───────────┴ write, sync     the steps beside it take longer
 *
 * A save that is due while the one before is still being written waits for it, and the steps do not;
 * one that fails is told, and tried again when the next is due. */
#include "train/saving.h"
#include <math.h>

enum { FREE_STEPS_MIN = 3 }; /* steps without a save, before slower ones can be told */
static const i64 wait_ns      = 1000000000;
static const f64 told_again   = 2;   /* the interval, when it has changed by this factor */
static const f64 deadline_use = 0.8; /* of the time left: what a save may be expected to take */
static const i64 farewell_ns  = 1500000000; /* of a notice: for what is said last, and the ledger's rows */

static i64 now_ns(const struct saving *v) { return v->s->os->now_ns(v->s->os); }

static void tell(struct saving *v, const struct train_checkpoint *e)
{
    resume_tell(v->resume.listener, e);
}

struct str train_checkpoint_name(enum train_checkpoint_kind k)
{
    static const struct str names[CHECKPOINT_KIND_COUNT] = {
        [CHECKPOINT_DAMAGED]      = STR_INIT("damaged"),
        [CHECKPOINT_RESUMED]      = STR_INIT("resumed"),
        [CHECKPOINT_CHANGED]      = STR_INIT("changed"),
        [CHECKPOINT_INTERVAL]     = STR_INIT("interval"),
        [CHECKPOINT_SAVED]        = STR_INIT("saved"),
        [CHECKPOINT_FAILED]       = STR_INIT("failed"),
        [CHECKPOINT_UPLOADED]     = STR_INIT("uploaded"),
        [CHECKPOINT_BEHIND]       = STR_INIT("behind"),
        [CHECKPOINT_NOT_UPLOADED] = STR_INIT("not uploaded"),
        [CHECKPOINT_SHARED]       = STR_INIT("shared"),
    };
    return names[k];
}

/* --- the beginning --- */

enum status saving_open(struct saving *v, struct os *os, const struct settings *settings,
                        const struct train_listener *listener, struct arena *perm, struct err *err)
{
    f64 hours = settings->checkpoint.mtti_hours;
    *v        = (struct saving){ .taken_step = -1, .facts = { hazard_prior, NAN, NAN, 0 } };
    v->figures = (struct train_saving){
        .resumed_step = -1, .step = -1, .remote_step = -1, .total_s = NAN, .persist_s = NAN
    };
    f64 shape = settings->checkpoint.mtti_shape;
    if (isnan(shape)) shape = hazard_prior.shape;
    if (hours > 0) v->facts.hazard = hazard_of_mean(hours * 3600, shape);
    enum status st = STATUS_OK;
    if (settings->checkpoint.dir.len || settings->checkpoint.to.len)
        st = cadence_parse(settings->checkpoint.every, &v->cadence, err);
    return st ? st : resume_open(&v->resume, os, settings, listener, perm, err);
}

/* A run that had come to its end goes on if that was moved. */
static void go_on(struct saving *v)
{
    struct stop     *stop   = &v->guard->stop;
    const struct str metric = v->resume.loaded.ckpt->manifest.metric;
    enum stop_reason was    = stop->reason;
    if (was == STOP_END || was == STOP_SIGNAL || v->resume.ends_changed) stop->reason = STOP_NONE;
    if (!metric.len || str_eq(metric, stop->config.metric)) return;
    stop->best  = NAN; /* values of another metric say nothing of this one */
    stop->worse = stop->point_count = 0;
}

enum status saving_plan(struct saving *v, struct session *s, struct guard *g, struct run_state *at,
                        struct err *err)
{
    struct resume *r = &v->resume;
    v->s             = s;
    v->guard         = g;
    v->at            = at;
    if (!r->store) return STATUS_OK;
    enum status st = snapshot_open(&v->snapshot, s, g, err);
    if (!st) st = resume_check(r, s, &v->snapshot, err);
    if (st || !r->found) return st;
    const struct st_file *run = ckpt_shard(&r->loaded, STR("run"));
    if (!run) return err_set(err, STATUS_USAGE, "the checkpoint has no run.safetensors");
    st = state_put_back(at, g, run, err);
    if (!st) go_on(v);
    return st;
}

/* Since the machine was started, in ns: hazards go by that. 0: not known. */
static i64 machine_age_ns(struct os *os)
{
    char        text[64];
    struct str  head = { text, 0 }, first;
    struct file f;
    f64         seconds = 0;
    if (os->open_read(os, STR("/proc/uptime"), &f, NULL)) return 0;
    if (os->read(os, f, text, sizeof text, -1, &head.len, NULL)) head.len = 0;
    os->close(os, &f, NULL);
    if (str_cut(&head, ' ', &first)) str_f64(first, &seconds);
    return (i64)(seconds * 1e9);
}

/* From a snapshot until it outlives the machine, by the last one; NaN: nobody knows yet. */
static f64 safe_s(struct saving *v)
{
    return v->figures.persist_s + elsewhere_needs_s(&v->resume.elsewhere, v->figures.bytes);
}

/* When the next is due, counted from the last. */
static void schedule(struct saving *v)
{
    v->facts.age_s     = (f64)(v->taken_ns - v->age_begin_ns) * 1e-9;
    v->facts.persist_s = safe_s(v);
    f64  wait_s        = cadence_seconds(v->cadence, &v->facts);
    bool by_steps      = v->cadence.unit == EVERY_STEPS;
    v->due_ns          = by_steps ? INT64_MAX : v->taken_ns + (i64)(wait_s * 1e9);
    v->due_step        = by_steps ? v->taken_step + (i64)v->cadence.value : INT64_MAX;
    if (v->cadence.unit != EVERY_AUTO || isnan(v->facts.stall_s)) return;
    if (v->told_s > 0 && wait_s < v->told_s * told_again && wait_s > v->told_s / told_again) return;
    struct arena scratch = v->s->scratch;
    v->told_s            = wait_s;
    tell(v, &(struct train_checkpoint){ .kind = CHECKPOINT_INTERVAL,
                                        .step = v->at->step,
                                        .text = cadence_reason(&scratch, &v->facts) });
}

/* Tensors and the guard's copy; where none was kept until now, what is here is sound. */
static void put_back(struct saving *v)
{
    struct guard was = *v->guard; /* its numbers are those of the checkpoint already */
    snapshot_put_back(&v->snapshot, &v->resume.loaded);
    guard_start(v->guard, v->at->step);
    snapshot_add_kept(&v->snapshot);
    if (snapshot_put_back_kept(&v->snapshot, &v->resume.loaded)) {
        v->guard->copy_step = was.copy_step;
        v->guard->copy_eval = was.copy_eval;
    }
    v->figures.resumed_step = v->figures.step = v->at->step;
    v->figures.bytes                          = ckpt_bytes(&v->resume.loaded.ckpt->manifest);
    resume_forget(&v->resume);
}

enum status saving_start(struct saving *v, struct err *err)
{
    struct session *s = v->s;
    if (v->resume.found) {
        put_back(v);
    } else {
        guard_start(v->guard, 0);
        if (v->resume.store) snapshot_add_kept(&v->snapshot);
    }
    if (!v->resume.store) return STATUS_OK;
    struct saver_config c = { .os          = s->os,
                              .store       = v->resume.store,
                              .keep        = s->settings->checkpoint.keep,
                              .prepare     = snapshot_prepare,
                              .copy        = snapshot_copy,
                              .source      = &v->snapshot,
                              .saved       = elsewhere_saved,
                              .context     = &v->resume.elsewhere };
    v->text               = resume_text(s, s->perm);
    enum status st        = saver_open(&c, s->perm, &v->saver, err);
    if (!st && !s->backend->table->behind) saver_prepare(v->saver); /* else after the first step */
    v->guard->saver       = v->saver;
    v->taken_ns           = now_ns(v);
    v->taken_step         = v->at->step;
    v->age_begin_ns       = v->taken_ns - machine_age_ns(s->os);
    schedule(v);
    return st;
}

/* --- while steps are made --- */

static void take(struct saving *v)
{
    struct run_state *at    = v->at;
    i64               begin = now_ns(v);
    snapshot_take(&v->snapshot, at);
    struct ckpt_manifest m = { .id    = { .step = at->step, .attempt = v->resume.attempt },
                               .run   = v->resume.run,
                               .state = v->text };
    if (at->eval_step >= 0) {
        m.metric           = v->guard->stop.config.metric;
        m.value            = eval_metric(m.metric, &at->last_eval);
        m.higher_is_better = !metric_falls(m.metric);
    }
    saver_begin(v->saver, &m, v->snapshot.parts, v->snapshot.part_count);
    v->taken_ns         = begin;
    v->taken_step       = at->step;
    v->beside           = true;
    v->window_ns        = 0;
    v->window_steps     = 0;
    v->blocked_s        = (f64)(now_ns(v) - begin) * 1e-9;
    v->held_s           = 0;
    v->s->asked_to_save = false;
    schedule(v);
}

bool saving_copies(struct saving *v) { return v->saver && !saver_copied(v->saver); }

void saving_wait_copied(struct saving *v)
{
    i64 begin = now_ns(v);
    saver_wait_copied(v->saver);
    v->held_s += (f64)(now_ns(v) - begin) * 1e-9;
}

/* What became of the last one, and what it took. */
static void settle(struct saving *v)
{
    struct train_saving *f = &v->figures;
    struct saved         done;
    if (!saver_take(v->saver, &done)) return;
    struct train_checkpoint e = { .kind      = CHECKPOINT_SAVED,
                                  .step      = done.id.step,
                                  .blocked_s = v->blocked_s + v->held_s,
                                  .persist_s = done.persist_s,
                                  .bytes     = done.bytes };
    f->blocked_s += e.blocked_s;
    if (done.err.status) {
        f->failed++;
        e.kind = CHECKPOINT_FAILED;
        e.text = str_of(done.err.text);
    } else {
        f->count++;
        f->persist_s = done.persist_s;
        f->step      = done.id.step;
        f->bytes     = done.bytes;
    }
    tell(v, &e);
    f64 slower_s = 0;
    if (v->free_steps >= FREE_STEPS_MIN) {
        slower_s = (f64)v->window_ns * 1e-9 -
                   (f64)v->window_steps * (f64)v->free_ns * 1e-9 / (f64)v->free_steps;
        f->total_s = (isnan(f->total_s) ? 0 : f->total_s) + v->blocked_s + MAX(slower_s, 0);
    }
    v->facts.stall_s = v->blocked_s + MAX(slower_s, 0);
    schedule(v);
}

/* Seconds from one save to the next; NaN: nobody knows yet. */
static f64 interval_s(const struct saving *v)
{
    if (v->due_step == INT64_MAX) return (f64)(v->due_ns - v->taken_ns) * 1e-9;
    return v->free_steps
               ? (f64)(v->due_step - v->taken_step) * (f64)v->free_ns / (f64)v->free_steps * 1e-9
               : NAN;
}

static bool is_due(const struct saving *v)
{
    return v->s->asked_to_save || v->at->step >= v->due_step || now_ns(v) >= v->due_ns;
}

/* Once: it is prepared before the first is saved. */
static void tell_slower(struct saving *v)
{
    struct str text = str_of(v->snapshot.slower.text);
    for (const struct train_listener *to = v->resume.listener; to; to = to->next)
        if (to->on_note) to->on_note(to->context, text);
    v->snapshot.slower = (struct err){ 0 };
}

enum status saving_step(struct saving *v, i64 step_ns, struct err *err)
{
    if (!v->saver) return STATUS_OK;
    bool idle = saver_idle(v->saver);
    saver_prepare(v->saver);
    *(v->beside ? &v->window_ns : &v->free_ns) += step_ns;
    *(v->beside ? &v->window_steps : &v->free_steps) += 1;
    v->beside = !idle;
    if (idle) settle(v);
    if (idle && v->snapshot.slower.status) tell_slower(v);
    if (is_due(v)) {
        if (idle) take(v);
        else if (!v->late) v->figures.late++;
        v->late = !idle;
    }
    return elsewhere_step(&v->resume.elsewhere, interval_s(v), err);
}

/* --- the end --- */

static void wait_idle(struct saving *v)
{
    while (!saver_wait(v->saver, wait_ns)) continue; /* a second Ctrl-C ends the process */
    settle(v);
}

/* Is there time for one more, by what the last one took? */
static bool in_time(struct saving *v, i64 deadline_ns)
{
    f64 left_s = (f64)(deadline_ns - now_ns(v)) * 1e-9, needed_s = safe_s(v);
    if (!deadline_ns || isnan(needed_s) || needed_s < deadline_use * left_s) return true;
    struct arena scratch = v->s->scratch;
    tell(v, &(struct train_checkpoint){
                .kind = CHECKPOINT_FAILED,
                .step = v->at->step,
                .text = str_fmt(&scratch,
                                "a save takes %.3g s and there are %.3g: the %lld steps since the "
                                "last one will be done again",
                                needed_s, left_s, (long long)(v->at->step - v->figures.step)) });
    return false;
}

static i64 deadline_ns(struct train_orders *o)
{
    if (!o) return 0;
    pthread_mutex_lock(&o->lock);
    i64 at = o->deadline_ns;
    pthread_mutex_unlock(&o->lock);
    return at ? at - farewell_ns : 0;
}

/* Waits for the uploads. A run that is interrupted anyway says what is not there, and ends as such. */
static enum status end_elsewhere(struct saving *v, enum status so_far, i64 deadline,
                                 struct err *err)
{
    struct err  why = { 0 };
    enum status st  = elsewhere_end(&v->resume.elsewhere, deadline, &why);
    elsewhere_figures(&v->resume.elsewhere, &v->figures);
    if (st != STATUS_NO) return st ? err_set(err, st, "%s", why.text) : st;
    if (!so_far) return err_set(err, STATUS_WORLD, "%s", why.text);
    struct arena scratch = v->s->scratch;
    i64          there   = MAX(v->figures.remote_step, 0);
    tell(v, &(struct train_checkpoint){
                .kind = CHECKPOINT_NOT_UPLOADED,
                .step = v->figures.step,
                .text = str_fmt(&scratch, "%s; %lld steps will be done again, from step %lld on", why.text,
                                (long long)(v->figures.step - there), (long long)there) });
    return STATUS_OK;
}

enum status saving_end(struct saving *v, enum status so_far, struct err *err)
{
    if (!v->saver) return STATUS_OK;
    i64 deadline = deadline_ns(v->s->orders);
    saver_prepare(v->saver);
    wait_idle(v);
    if (v->at->step != v->figures.step && v->at->step > 0 && in_time(v, deadline)) {
        take(v);
        wait_idle(v);
    }
    if (v->figures.step < 0 && v->at->step > 0)
        return err_set(err, STATUS_WORLD, "nothing of this run could be saved in %.*s",
                       STR_ARG(v->s->settings->checkpoint.dir));
    return end_elsewhere(v, so_far, deadline, err);
}

void saving_close(struct saving *v)
{
    if (v->saver) saver_close(v->saver);
    snapshot_close(&v->snapshot);
    resume_close(&v->resume);
}
