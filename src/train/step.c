/* step.c - one optimiser step: the gradients of its micro-batches, its losses, the update. */
#include "train/loop.h"
#include <math.h>

void loop_listen(struct loop *l, bool (*leaves_off)(void *))
{
    l->s.backend->leaves_off = leaves_off;
    l->s.backend->context    = &l->undo;
}

/* Of the step that begins with sample `first` of its epoch. */
static i64 step_samples(const struct loop *l, i64 first)
{
    return MIN(session_step_samples(&l->s), session_epoch_samples(&l->s) - first);
}

static void run_program(struct loop *l, enum program_id id)
{
    profiling_run(l, id, l->s.set->programs[id]);
}

/* The same in all ranks, whose programs of a short batch may recompute other values: then they call each other in
 * another order. So it is not by this rank's part, which may be as large as of a full one. */
enum program_id loop_program_of(const struct session *s, const struct batch *b, i64 first_sample)
{
    bool full = b->all == session_batch_all(s);
    if (first_sample) return full ? PROGRAM_ADD : PROGRAM_ADD_LAST;
    return full ? PROGRAM_TRAIN : PROGRAM_TRAIN_LAST;
}

/* Of several ranks this one has nothing of a short batch: its gradients are 0. */
static void no_part(struct session *s, i64 step, i64 rows, i64 first_sample, f64 lr)
{
    struct backend *b = s->backend;
    session_put_scalars(s, step, rows, first_sample, lr);
    for (i32 i = 0; !first_sample && i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (t->kind != VALUE_GRAD) continue;
        b->table->put(b, t->offset, NULL, type_bytes(t->type));
        if (t->type.dtype != DT_I32) continue;
        i32 none = -1; /* of the rows of a table */
        b->table->put(b, t->offset, &none, sizeof none);
    }
}

/* What programs made the ranks exchange: time that is no computing, and bytes, from which plans learn. */
struct sent {
    i64 busy_ns, bytes;
};

static struct sent sent_so_far(const struct loop *l)
{
    const struct ranks *r = l->s.ranks;
    return r ? (struct sent){ r->busy_ns, r->sent_bytes } : (struct sent){ 0 };
}

static void note_sent(struct loop *l, enum part from, struct sent before)
{
    struct sent now = sent_so_far(l);
    if (!l->s.ranks) return;
    clock_move(l->clock, from, PART_exchange, now.busy_ns - before.busy_ns);
    l->sent_bytes += now.bytes - before.bytes;
}

void loop_micro_step(struct loop *l, const struct batch *b, i64 step, i64 first_sample, f64 lr)
{
    struct session *s    = &l->s;
    enum program_id id   = loop_program_of(s, b, first_sample);
    i64             rows = step_samples(l, b->index - first_sample) * model_rows(s->model);
    struct program *p;
    if (!b->count && !session_calls(s)) {
        no_part(s, step, rows, first_sample, lr);
        return;
    }
    l->input = session_program(s, id, MAX(session_rows(s, b), 1), &p, &l->input_err);
    if (session_calls(s)) together_ready(l);
    if (l->input) return;
    clock_enter(l->clock, PART_copy);
    session_renew_copies(s);
    session_put_scalars(s, step, rows, first_sample + b->first, lr);
    if (!b->count) session_put_nothing(s, id);
    else if (!l->ahead.fed) session_put_batch(s, id, b);
    l->ahead.fed       = false;
    struct sent before = sent_so_far(l);
    profiling_run(l, id, p);
    note_sent(l, PART_compute, before);
}

/* What the last program says of itself. */
struct answers {
    struct asked loss, hits;
};

static void ask_losses(struct loop *l, struct answers *t)
{
    session_ask(&l->s, STR("loss"), &t->loss);
    if (session_has(&l->s, STR("hits"))) session_ask(&l->s, STR("hits"), &t->hits);
}

static void add_losses(struct loop *l, const struct answers *t, i64 rows)
{
    clock_enter(l->clock, PART_compute); /* until the answers are there, scaling_now's too */
    l->at.loss += session_answer(&l->s, &t->loss) / (f64)rows;
    if (session_has(&l->s, STR("hits"))) {
        l->metric.name = STR("accuracy");
        l->metric.value += session_answer(&l->s, &t->hits) / (f64)rows;
    }
}

/* The squared norm of the gradients summed so far in this step. */
static f64 gradient_square(struct loop *l)
{
    struct session *s = &l->s;
    f64             square, scale = scaling_now(s).scale; /* of fp16 losses; NaN: none */
    run_program(l, PROGRAM_SQUARE);
    clock_enter(l->clock, PART_compute);
    session_get_numbers(s, STR("grad_square"), &square, 1);
    return isnan(scale) ? square : square / (scale * scale);
}

static void update(struct loop *l)
{
    struct backend *b = l->s.backend;
    if (saving_copies(&l->saving)) {
        clock_enter(l->clock, PART_checkpoint);
        saving_wait_copied(&l->saving);
        clock_enter(l->clock, PART_other);
    }
    struct sent before = sent_so_far(l);
    run_program(l, PROGRAM_UPDATE);
    note_sent(l, PART_update, before);
    b->table->mark(b);
}

/* The step cannot be finished: of several ranks, the others wait to hear it. */
static struct batch left(struct loop *l)
{
    if (l->s.ranks && l->input) together_tell_failure(l);
    return (struct batch){ 0 };
}

/* A rank that went away while gradients were summed has left numbers that are worth nothing. */
static bool is_broken(struct loop *l)
{
    const struct ranks *r = l->s.ranks;
    l->broken             = r->failed.status != STATUS_OK;
    if (l->broken) l->input_err = r->failed, l->input = r->failed.status;
    return l->broken;
}

/* The epoch's end makes a smaller one. */
struct batch loop_step(struct loop *l, struct batch *b, f64 lr)
{
    struct session *s       = &l->s;
    i64             samples = step_samples(l, b->index), rows = samples * model_rows(s->model);
    i64             done = 0, first = b->count, targets = 0;
    f64             part = NAN; /* of the whole gradient's square, from the first batch alone */
    struct answers  answers;
    l->at.loss = l->metric.value = 0;
    for (;;) {
        if (!l->ahead.begun) loop_micro_step(l, b, l->at.step, done, lr);
        if (l->input) return session_calls(s) ? (struct batch){ 0 } : left(l);
        l->ahead.begun = false;
        if (l->undo.left_off) return (struct batch){ 0 };
        if (b->count) ask_losses(l, &answers);
        if (!done && s->config.square) part = gradient_square(l);
        done += b->all;
        targets += session_targets(s, b);
        if (done >= samples) break;
        if (b->count) add_losses(l, &answers, rows);
        b = undo_leaves(&l->undo) ? NULL : feed_next(l);
        if (!b) return left(l);
    }
    if (undo_leaves(&l->undo)) return (struct batch){ 0 };
    if (s->config.square) {
        f64 times = (f64)samples / (f64)first; /* it was divided by all the step's rows */
        noise_add(&l->at.noise, part * times * times, first, gradient_square(l), samples);
    }
    if (l->undo.left_off) return (struct batch){ 0 };
    if (s->ranks && b->count) add_losses(l, &answers, rows);
    if (s->ranks && together_step(l, &targets)) return (struct batch){ 0 };
    update(l);
    if (s->ranks && is_broken(l)) return (struct batch){ 0 };
    struct batch last = *b; /* the loader may take it back now */
    feed_ahead(l, b);
    if (!s->ranks) add_losses(l, &answers, rows);
    if (targets && targets < rows)
        l->at.loss *= (f64)rows / (f64)targets; /* the mean of what is predicted */
    l->scaling = scaling_now(s);
    l->at.step++;
    l->at.samples += samples;
    return last;
}
