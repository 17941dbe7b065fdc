/* checkpoint_schedule.c - the loop's side of checkpoints.
 *
 *     steps   ───┤take├─ gradients ─┤held├ update ─ …    blocked: taken and held; total: it, and what
 *     writer          └─ copy ───────────┴ write, sync     the steps beside it take longer
 *
 * A save that is due while the one before is still being written waits for it, and the steps do not;
 * one that fails is told, and tried again when the next is due. */
#include "train/checkpoint_schedule.h"
#include "base/digits.h"
#include "train/dealt.h"
#include "train/save_parts.h"
#include <math.h>

enum { FREE_STEPS_MIN = 3 };     /* steps without a save, before slower ones can be told */
static const f64 told_again = 2; /* the interval, when it has changed by this factor */

static i64 now_ns(const struct saving *v) { return clock_now(v->s->clock); }

void saving_tell(struct saving *v, const struct event_checkpoint *e)
{
    checkpoint_tell(v->from->with, e);
}

static void tell_note(const struct saving *v, struct str text)
{
    emit_note(v->from->with->to, &(struct event_note){ text });
}

/* --- the beginning --- */

/* Whether the settings say that the machine may be taken away. */
static bool is_spot(const struct settings *s)
{
    bool cloud = !str_eq(s->spot.cloud, STR("auto")) && !str_eq(s->spot.cloud, STR("none"));
    return str_eq(s->run.market, STR("spot")) || s->spot.grace_s > 0 ||
           (cloud && s->spot.cloud.len);
}

enum status saving_init(struct saving *v, const struct settings *settings, struct err *err)
{
    const struct checkpoint_config *c = &settings->checkpoint;
    f64           shape  = settings->hazard_shape > 0 ? settings->hazard_shape : hazard_prior.shape;
    struct hazard hazard = is_spot(settings) ? hazard_prior : hazard_lasting;
    *v                   = (struct saving){ .taken_step = -1, .facts = { hazard, NAN, NAN, 0, 0 } };
    v->figures           = (struct train_saving){
                  .resumed_step = -1, .step = -1, .remote_step = -1, .total_s = NAN, .persist_s = NAN
    };
    if (c->mtti_hours > 0) v->facts.hazard = hazard_of_mean(c->mtti_hours * 3600, shape);
    return c->dir.len || c->to.len ? cadence_parse(c->every, &v->cadence, err) : STATUS_OK;
}

i64 saving_file_bytes(const struct saving *v)
{
    return v->snapshot.file_bytes + (v->guard ? v->guard->copy_bytes : 0);
}

enum status saving_plan(struct saving *v, struct restore *from, struct session *s, struct guard *g,
                        struct run_state *at, struct err *err)
{
    v->from  = from;
    v->s     = s;
    v->guard = g;
    v->at    = at;
    if (!from->store && !from->shared) return STATUS_OK;
    return snapshot_open(&v->snapshot, s, g, from->shared, err);
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
f64 saving_safe_s(struct saving *v)
{
    return v->figures.persist_s + remote_save_needs_s(&v->from->remote, v->figures.bytes);
}

/* When the next is due, counted from the last. */
static void schedule(struct saving *v)
{
    v->facts.age_s     = (f64)(v->taken_ns - v->age_begin_ns) * 1e-9;
    v->facts.persist_s = saving_safe_s(v);
    f64  wait_s        = cadence_seconds(v->cadence, &v->facts);
    bool by_steps      = v->cadence.unit == EVERY_STEPS;
    v->due_ns          = by_steps ? INT64_MAX : v->taken_ns + (i64)(wait_s * 1e9);
    v->due_step        = by_steps ? v->taken_step + (i64)v->cadence.value : INT64_MAX;
    if (v->cadence.unit != EVERY_AUTO || isnan(v->facts.stall_s) || isnan(v->facts.persist_s))
        return;
    if (v->told_s > 0 && wait_s < v->told_s * told_again && wait_s > v->told_s / told_again) return;
    struct arena scratch = v->s->scratch;
    v->told_s            = wait_s;
    saving_tell(v, &(struct event_checkpoint){ .what = CHECKPOINT_INTERVAL,
                                               .step = v->at->step,
                                               .text = cadence_reason(&scratch, &v->facts) });
}

/* Beside those that are kept, the next one is being written. A disk without room for one is an error. */
static enum status check_room(struct saving *v, struct err *err)
{
    const struct checkpoint_config *c       = &v->s->settings->checkpoint;
    struct arena                    scratch = v->s->scratch;
    i64 room = os_disk_free_bytes(str_cat(&scratch, c->dir, STR("/"))), there = 0;
    for (i64 i = 0; i < v->from->list.count; i++)
        if (!v->from->list.items[i].why.status)
            there += ckpt_bytes(&v->from->list.items[i].manifest);
    i64 fit = (room + there) / MAX(saving_file_bytes(v), 1);
    if (room < 0 || fit > c->keep) return STATUS_OK;
    if (!fit)
        return err_set(err, STATUS_WORLD,
                       "checkpoint.dir=%.*s: a checkpoint takes %s MB, and its disk has %s MB "
                       "free; free some space, or use another disk",
                       STR_ARG(c->dir), DIGITS((f64)saving_file_bytes(v) / 1e6),
                       DIGITS((f64)room / 1e6));
    tell_note(
        v,
        str_fmt(&scratch,
                "%.*s has space for %lld checkpoint%s of %s MB, and "
                "checkpoint.keep=%lld needs space for "
                "%lld: %s",
                STR_ARG(c->dir), (long long)fit, fit == 1 ? "" : "s",
                DIGITS((f64)saving_file_bytes(v) / 1e6), (long long)c->keep, (long long)c->keep + 1,
                fit < 2 ? "a second one cannot be saved" : "older ones will be deleted earlier"));
    return STATUS_OK;
}

/* Kernels chosen since for programs of other capacities belong to what a resumed run must repeat. */
static void write_text(struct saving *v)
{
    v->text          = identity_text(&v->from->identity, v->s, v->s->perm);
    v->text_prepared = v->s->prepared;
}

enum status saving_start(struct saving *v, struct err *err)
{
    struct session *s = v->s;
    if (!v->from->store) return v->snapshot.shared ? parts_start(v, err) : STATUS_OK;
    if (v->from->resumed) {
        v->figures.resumed_step = v->figures.step = v->at->step;
        v->figures.bytes                          = v->from->bytes;
    }
    struct checkpoint_writer_config c = { .os      = s->os,
                                          .store   = v->from->store,
                                          .shared  = v->snapshot.shared,
                                          .bytes   = v->snapshot.shared ? saving_file_bytes(v) : 0,
                                          .keep    = s->settings->checkpoint.keep,
                                          .prepare = snapshot_prepare,
                                          .copy    = snapshot_copy,
                                          .source  = &v->snapshot,
                                          .saved   = remote_save_saved,
                                          .context = &v->from->remote };
    write_text(v);
    enum status st = check_room(v, err);
    if (!st) st = checkpoint_writer_open(&c, s->perm, &v->writer, err);
    if (st) return st;
    if (!s->backend->table->behind)
        checkpoint_writer_prepare(v->writer); /* else after the first step */
    v->guard->writer = v->writer;
    v->taken_ns      = now_ns(v);
    v->taken_step    = v->at->step;
    v->age_begin_ns  = v->taken_ns - machine_age_ns(s->os);
    schedule(v);
    return STATUS_OK;
}

/* --- while steps are made --- */

void saving_take(struct saving *v)
{
    struct run_state *at    = v->at;
    i64               begin = now_ns(v);
    if (v->text_prepared != v->s->prepared) write_text(v);
    if (snapshot_take(&v->snapshot, at)) return; /* a rank is gone, and so is the run */
    if (v->snapshot.shared && dealt_say(v->s, DEALT_TAKE, NULL)) return;
    struct ckpt_manifest m = { .id    = { .step = at->step, .attempt = v->from->attempt },
                               .run   = v->from->run,
                               .state = v->text };
    if (at->eval_step >= 0) {
        m.metric           = v->guard->stop.config.metric;
        m.value            = eval_metric(m.metric, &at->last_eval);
        m.higher_is_better = !metric_falls(m.metric);
    }
    checkpoint_writer_begin(v->writer, &m, v->snapshot.parts, v->snapshot.part_count);
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

bool saving_copies(struct saving *v) { return v->writer && !checkpoint_writer_copied(v->writer); }

void saving_wait_copied(struct saving *v)
{
    i64 begin = now_ns(v);
    checkpoint_writer_wait_copied(v->writer);
    v->held_s += (f64)(now_ns(v) - begin) * 1e-9;
}

/* Once: the next save will find the disk as full. */
static void tell_freed(struct saving *v)
{
    struct arena scratch = v->s->scratch;
    if (!v->told_full)
        tell_note(
            v, str_fmt(&scratch,
                       "the disk of %.*s is full: older checkpoints are deleted to make room, and "
                       "fewer than checkpoint.keep=%lld are kept",
                       STR_ARG(v->s->settings->checkpoint.dir),
                       (long long)v->s->settings->checkpoint.keep));
    v->told_full = true;
}

/* What became of the last one, and what it took. */
void saving_settle(struct saving *v)
{
    struct train_saving *f = &v->figures;
    struct saved         done;
    if (!checkpoint_writer_take(v->writer, &done)) return;
    struct event_checkpoint e = { .what      = CHECKPOINT_SAVED,
                                  .step      = done.id.step,
                                  .blocked_s = v->blocked_s + v->held_s,
                                  .persist_s = done.persist_s,
                                  .bytes     = done.bytes };
    f->blocked_s += e.blocked_s;
    if (done.err.status) {
        f->failed++;
        v->facts.failed++;
        e.what = CHECKPOINT_FAILED;
        e.text = str_of(done.err.text);
        if (done.err.status == STATUS_INTERRUPTED) v->lost = done.err;
    } else {
        f->count++;
        v->facts.failed = 0;
        f->persist_s    = done.persist_s;
        v->busy_s       = done.busy_s;
        f->step         = done.id.step;
        f->bytes        = done.bytes;
    }
    saving_tell(v, &e);
    if (done.freed) tell_freed(v);
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

/* Close to a cap the last save stands for one that is due: of two in a row the cap has promised only one. What has
 * diverged must not become the newest. */
static bool is_due(struct saving *v)
{
    if (v->guard->stop.reason == STOP_DIVERGED) return false;
    if (v->s->asked_to_save) return true;
    if (v->at->step < v->due_step && now_ns(v) < v->due_ns) return false;
    return stop_save_fits(&v->guard->stop, MAX(v->busy_s, saving_needs_s(v)));
}

/* Once: it is prepared before the first is saved. */
static void tell_slower(struct saving *v)
{
    tell_note(v, str_of(v->snapshot.slower.text));
    v->snapshot.slower = (struct err){ 0 };
}

enum status saving_step(struct saving *v, i64 step_ns, struct err *err)
{
    if (!v->writer) return STATUS_OK;
    parts_poll(v);
    bool idle = checkpoint_writer_idle(v->writer);
    checkpoint_writer_prepare(v->writer);
    *(v->beside ? &v->window_ns : &v->free_ns) += step_ns;
    *(v->beside ? &v->window_steps : &v->free_steps) += 1;
    v->beside = !idle;
    if (idle) saving_settle(v);
    if (idle && v->snapshot.slower.status) tell_slower(v);
    if (is_due(v)) {
        if (idle) saving_take(v);
        else if (!v->late) v->figures.late++;
        v->late = !idle;
    }
    if (v->lost.status) return err_set(err, v->lost.status, "%s", v->lost.text);
    return remote_save_step(&v->from->remote, interval_s(v), err);
}

void saving_close(struct saving *v)
{
    if (v->writer) checkpoint_writer_close(v->writer);
    snapshot_close(&v->snapshot);
}
