/* together.c - what several ranks must agree on: their parts of a batch, the first weights, losses, errors, and when to
 * evaluate and to stop. Rank 0 decides whatever depends on a clock, a price or a signal; the others follow. */
#include "base/hash.h"
#include "train/dealt.h"
#include "train/loop.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static enum status checked(const struct session *s, enum status st, struct err *err)
{
    return st ? err_set(err, st, "%s", s->ranks->failed.text) : st;
}

/* --- parts --- */

i64 together_part(const struct session *s, i64 samples)
{
    i64 count = s->ranks->count, rank = s->ranks->rank;
    return samples * (rank + 1) / count - samples * rank / count; /* as the loader cuts them */
}

enum status together_groups(struct session *s, struct err *err)
{
    struct compile_config *c = &s->config;
    if (!s->ranks || c->shard == SHARD_NONE) return STATUS_OK;
    if (!str_eq(s->settings->train.shard_over, STR("machine"))) return STATUS_OK;
    return ranks_by_machine(s->ranks, &c->place, &c->places, err);
}

enum status together_batches(struct session *s, struct err *err)
{
    struct compile_config *c = &s->config;
    if (!s->ranks) {
        s->batch_all = c->batch;
        s->eval_all  = c->eval_batch;
        return STATUS_OK;
    }
    if (c->batch < s->ranks->count)
        return err_set(err, STATUS_USAGE,
                       "a batch of %lld samples has no part for each of %d ranks: a larger "
                       "train.batch or fewer ranks",
                       (long long)c->batch, s->ranks->count);
    i64 eval_last     = c->eval_batch_last;
    c->batch_all      = c->batch;
    c->batch_last_all = c->batch_last;
    s->eval_all       = c->eval_batch;
    c->rank           = s->ranks->rank;
    c->ranks          = s->ranks->count;
    if (!c->places) c->place = c->rank, c->places = c->ranks;
    c->step_samples    = session_step_samples(s);
    c->batch           = together_part(s, c->batch);
    c->batch_last      = together_part(s, c->batch_last);
    c->eval_batch_last = together_part(s, c->eval_batch_last);
    if (c->eval_batch) c->eval_batch = MAX(together_part(s, c->eval_batch), 1);
    bool all = session_deals(s); /* nobody stands aside: the others gather its parts */
    if (all || s->target.queues > 1) c->batch_last = c->batch_last_all ? MAX(c->batch_last, 1) : 0;
    if (all) c->eval_batch_last = eval_last ? MAX(c->eval_batch_last, 1) : 0;
    return STATUS_OK;
}

/* --- the same everywhere --- */

enum status together_say(struct session *s, void *data, i64 bytes, struct err *err)
{
    return s->ranks ? checked(s, ranks_spread(s->ranks, 0, data, bytes), err) : STATUS_OK;
}

static bool is_state(const struct persistent *t)
{
    return t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER || t->kind == VALUE_STATE;
}

enum status together_tensors(struct session *s, struct err *err)
{
    struct backend *b  = s->backend;
    enum status     st = STATUS_OK;
    for (i32 i = 0; s->ranks && !st && i < s->set->persistent_count; i++) {
        const struct persistent *t       = &s->set->persistents[i];
        struct arena             scratch = s->scratch;
        i64                      bytes   = type_bytes(t->type);
        if (!is_state(t) || dealt_is(s, t)) continue; /* each has its own part */
        u8 *copy = NEW(&scratch, u8, bytes);
        b->table->wait(b, b->table->get(b, t->offset, copy, bytes));
        st = together_say(s, copy, bytes, err);
        if (!st && s->ranks->rank) b->table->put(b, t->offset, copy, bytes);
    }
    if (s->ranks) b->table->mark(b);
    return st;
}

/* A hash for each thing that ranks may disagree on. */
enum same { SAME_DATA, SAME_MODEL, SAME_BATCH, SAME_COUNT };

static void add_i64(struct xxh64 *h, i64 v)
{
    xxh64_add(h, (struct str){ (const char *)&v, sizeof v });
}

/* How many samples, and what local files hold; remote ones have the same address. */
static enum status describe_data(const struct session *s, struct xxh64 *to, struct err *err)
{
    struct arena       scratch = s->scratch;
    struct data_config c       = s->settings->data;
    struct fingerprint files[FINGERPRINTS_MAX];
    i64                count = 0;
    enum status        st    = STATUS_OK;
    add_i64(to, dataset_count(s->data, SPLIT_TRAIN));
    add_i64(to, dataset_count(s->data, SPLIT_EVAL));
    if (!data_is_remote(&c)) st = dataset_fingerprints(s->data, &c, &scratch, files, &count, err);
    for (i64 i = 0; !st && i < count; i++) xxh64_add(to, files[i].text);
    return st;
}

static enum status describe_here(const struct session *s, u64 *to, struct err *err)
{
    struct xxh64 data, model;
    i64          batch[] = { s->batch_all, s->eval_all, s->config.accumulate, s->config.precision,
                             s->config.optimiser };
    xxh64_init(&data);
    xxh64_init(&model);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (!is_state(t)) continue;
        xxh64_add(&model, t->name);
        add_i64(&model, t->offset);
    }
    enum status st = describe_data(s, &data, err);
    to[SAME_DATA]  = xxh64_end(&data);
    to[SAME_MODEL] = xxh64_end(&model);
    to[SAME_BATCH] = xxh64((struct str){ (const char *)batch, sizeof batch });
    return st;
}

enum status together_same(struct session *s, struct err *err)
{
    static const char *const what[] = { "other data", "another model",
                                        "another batch, precision or optimiser" };
    u64                      own[SAME_COUNT];
    if (!s->ranks) return STATUS_OK;
    struct arena scratch = s->scratch;
    u64         *all     = NEW(&scratch, u64, (i64)s->ranks->count * SAME_COUNT);
    enum status  st      = ranks_agree(s->ranks, describe_here(s, own, err), err);
    memcpy(all + (i64)s->ranks->rank * SAME_COUNT, own, sizeof own);
    if (!st) st = checked(s, ranks_gather(s->ranks, all, s->ranks->count, sizeof own), err);
    for (i32 i = 1; !st && i < s->ranks->count; i++)
        for (i32 k = 0; !st && k < SAME_COUNT; k++)
            if (all[(i64)i * SAME_COUNT + k] != all[k])
                st =
                    err_set(err, STATUS_USAGE,
                            "rank %d has %s than rank 0: all ranks need the same run file and data",
                            i, what[k]);
    return st;
}

/* --- a step --- */

/* What each rank says before the update. */
struct word {
    f64 loss, metric;
    i64 targets, left_ns; /* left: until it is killed; 0: nobody says */
    i32 status, exits, saves;
};

static i64 left_ns(const struct session *s)
{
    i64 at_ns = 0;
    if (!s->orders) return 0;
    pthread_mutex_lock(&s->orders->lock);
    at_ns = s->orders->deadline_ns;
    pthread_mutex_unlock(&s->orders->lock);
    return at_ns ? MAX(at_ns - clock_now(s->clock), 1) : 0;
}

/* Why a rank was asked to stop. */
struct reason {
    char text[sizeof((struct session *)0)->exit_why];
    bool ordered;
    f64  notice_s; /* that its provider gave; 0: it said nothing */
};

static struct reason own_reason(const struct session *s)
{
    struct reason why = { .ordered = s->exit_ordered };
    memcpy(why.text, s->exit_why, sizeof why.text);
    if (!s->orders) return why;
    pthread_mutex_lock(&s->orders->lock);
    why.notice_s = s->orders->notice_s;
    pthread_mutex_unlock(&s->orders->lock);
    return why;
}

static void note_notice(struct train_orders *o, f64 notice_s)
{
    pthread_mutex_lock(&o->lock);
    if (o->notice_s == 0) o->notice_s = notice_s;
    pthread_mutex_unlock(&o->lock);
}

/* One rank was asked to stop, so all stop, with its words. */
static void agree_to_exit(struct session *s, i32 rank, i64 left)
{
    struct reason why = own_reason(s);
    s->exit_agreed    = true;
    if (left && s->orders) train_order(s->orders, ORDER_NONE, clock_now(s->clock) + left, "");
    if (ranks_spread(s->ranks, rank, &why, sizeof why) || s->asked_to_exit) return;
    s->asked_to_exit = true;
    s->exit_ordered  = why.ordered;
    snprintf(s->exit_why, sizeof s->exit_why,
             why.ordered ? "%.220s (rank %d)" : "%.220s at rank %d", why.text, rank);
    if (s->orders) note_notice(s->orders, why.notice_s);
}

/* The first of them that failed says why. */
static void take_failure(struct loop *l, const struct word *all)
{
    struct ranks *r   = l->s.ranks;
    struct err    why = l->input_err;
    i32           who = 0;
    while (!all[who].status) who++;
    l->input = (enum status)all[who].status;
    if (ranks_spread(r, who, &why, sizeof why)) why = r->failed;
    l->input_err = why;
}

enum status together_ready(struct loop *l)
{
    struct ranks *r = l->s.ranks;
    struct word   all[RANKS_MAX];
    bool          bad = false;
    clock_enter(l->clock, PART_slowest);
    all[r->rank]   = (struct word){ .status = (i32)l->input };
    enum status st = ranks_gather(r, all, r->count, sizeof *all);
    clock_enter(l->clock, PART_other);
    if (st) {
        l->input_err    = r->failed;
        return l->input = st;
    }
    for (i32 i = 0; i < r->count; i++) bad |= all[i].status != 0;
    if (bad) take_failure(l, all);
    return l->input;
}

void together_tell_failure(struct loop *l)
{
    i64 none = 0;
    if (session_calls(&l->s)) together_ready(l);
    else together_step(l, &none);
}

enum status together_step(struct loop *l, i64 *targets)
{
    struct session *s = &l->s;
    struct ranks   *r = s->ranks;
    struct word     all[RANKS_MAX];
    i64             deadline_ns, left = 0;
    i32             exits = -1;
    bool            bad   = false;
    clock_enter(l->clock, PART_slowest);
    session_must_exit(s, &deadline_ns);
    all[r->rank]   = (struct word){ .loss    = l->at.loss,
                                    .metric  = l->metric.value,
                                    .targets = *targets,
                                    .left_ns = left_ns(s),
                                    .status  = (i32)l->input,
                                    .exits   = s->asked_to_exit,
                                    .saves   = s->asked_to_save };
    enum status st = ranks_gather(r, all, r->count, sizeof *all);
    clock_enter(l->clock, PART_other);
    if (st) { /* a GPU learns late that a sum of its last update never came */
        l->broken       = s->backend->table->behind;
        l->input_err    = r->failed;
        return l->input = st;
    }
    l->at.loss = l->metric.value = 0;
    *targets                     = 0;
    for (i32 i = 0; i < r->count; i++) {
        l->at.loss += all[i].loss;
        l->metric.value += all[i].metric;
        *targets += all[i].targets;
        bad |= all[i].status != 0;
        s->asked_to_save |= !r->rank && all[i].saves;
        if (all[i].exits && exits < 0) exits = i;
        if (all[i].left_ns && (!left || all[i].left_ns < left)) left = all[i].left_ns;
    }
    if (r->rank) s->asked_to_save = false; /* rank 0 saves */
    if (bad) take_failure(l, all);
    if (exits >= 0) agree_to_exit(s, exits, left);
    return l->input;
}

void together_fail(struct loop *l, enum status st, const struct err *err)
{
    l->input     = st;
    l->input_err = err ? *err : (struct err){ .status = st };
    if (!l->s.ranks->failed.status) together_tell_failure(l);
}

f64 together_flops(const struct session *s)
{
    f64 flops = session_step_flops(s);
    return ranks_sum(s->ranks, &flops, 1) ? NAN : flops;
}

static i32 machines_of(const struct ranks *r)
{
    i32 count = 0;
    for (i32 i = 0; i < r->count; i++) {
        bool known = false;
        for (i32 j = 0; j < i && !known; j++) known = r->machine_of[j] == r->machine_of[i];
        count += !known;
    }
    return count;
}

struct waited together_waited(struct loop *l)
{
    struct ranks *r   = l->s.ranks;
    struct waited out = { .ranks = 1, .machines = 1, .slowest = -1 };
    i64           waited[RANKS_MAX], sum = 0;
    i32           least = 0;
    if (!r) return out;
    out = (struct waited){ r->count, r->machine_of ? machines_of(r) : 1, -1, 0, l->sent_bytes };
    waited[r->rank] = clock_part_ns(l->clock, PART_slowest);
    if (ranks_gather(r, waited, r->count, sizeof *waited)) return out;
    for (i32 i = 0; i < r->count; i++) {
        if (waited[i] < waited[least]) least = i;
        sum += waited[i];
    }
    out.slowest = least;
    if (r->count > 1) out.waited_ns = (sum - waited[least]) / (r->count - 1);
    return out;
}

/* --- decisions --- */

struct decision {
    i32         now, eval_due;
    struct stop stop;
};

enum status together_decide(struct loop *l, enum stop_action *now, struct err *err)
{
    struct decision d = { .now = (i32)*now, .eval_due = l->at.eval_due, .stop = l->guard.stop };
    struct str      metric = l->guard.stop.config.metric; /* points into this process */
    if (!l->s.ranks) return STATUS_OK;
    clock_enter(l->clock, PART_exchange);
    enum status st = together_say(&l->s, &d, sizeof d, err);
    clock_enter(l->clock, PART_other);
    if (st) return st;
    *now                        = (enum stop_action)d.now;
    l->at.eval_due              = d.eval_due;
    l->guard.stop               = d.stop;
    l->guard.stop.config.metric = metric;
    return STATUS_OK;
}

enum status together_eval(struct loop *l, struct train_eval *e, struct err *err)
{
    f64         times[] = { e->elapsed_s, e->eval_s, e->dollars };
    enum status st      = together_say(&l->s, times, sizeof times, err);
    e->elapsed_s        = times[0];
    e->eval_s           = times[1];
    e->dollars          = times[2];
    return st;
}
