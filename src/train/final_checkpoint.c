/* final_checkpoint.c - a run's last checkpoint: how much of a notice is left for it, whether it fits, and waiting until
 * it is on the disk and in the object store. */
#include "base/digits.h"
#include "train/dealt.h"
#include "train/save_parts.h"
#include <math.h>

static const i64 wait_ns      = 50000000; /* between two looks for a signal */
static const i64 ask_ns       = 2000000;  /* … that also ask other ranks for their parts */
static const f64 deadline_use = 0.8; /* of the time left: what a save may be expected to take */
static const f64 overdue      = 0.1; /* of a save: what a slow one is expected to need still */
/* Of a notice: for what is said last, and the ledger's rows. A request to the object store is given up within a
 * second, and there may be two in a row. A third of a short notice is for the save even so. */
static const i64 farewell_ns = 1500000000, farewell_store_ns = 2500000000, usable_part = 3;

static i64 now_ns(const struct saving *v) { return clock_now(v->s->clock); }

i64 saving_usable_ns(const struct saving *v, i64 notice_ns)
{
    return MAX(notice_ns - (v->from->remote.up ? farewell_store_ns : farewell_ns),
               notice_ns / usable_part);
}

i64 saving_until_ns(struct saving *v, i64 deadline_ns)
{
    if (!deadline_ns) return 0;
    if (deadline_ns != v->deadline_ns) v->heard_ns = now_ns(v);
    v->deadline_ns = deadline_ns;
    return v->heard_ns + saving_usable_ns(v, MAX(deadline_ns - v->heard_ns, 0));
}

static f64 known_s(f64 seconds) { return isnan(seconds) ? 0 : seconds; }

/* Of the first, which nobody has timed: what a cloud's usual block disk sustains (AWS gp3, data sheet: 125 MB/s), and a
 * link of a gigabit; on a disk at least ten syncs (three shards, the manifest, their folders) of up to 10 ms each
 * ("single-digit millisecond latency", likewise). */
static const f64 first_bytes_s = 125e6, first_syncs_s = 0.1;

f64 saving_needs_s(struct saving *v)
{
    struct remote_save *e = v->writer ? &v->from->remote : NULL;
    f64 whole = v->writer ? (f64)MAX(saving_file_bytes(v), v->figures.bytes) / first_bytes_s : 0;
    if (!v->writer) return 0;
    f64 disk_s =
        isnan(v->figures.persist_s) ? whole + first_syncs_s : v->blocked_s + v->figures.persist_s;
    f64 sent_s = remote_save_needs_s(e, v->figures.bytes);
    return disk_s + (e->up && !(sent_s > 0) ? whole : sent_s);
}

/* Of a checkpoint, those of other ranks included. */
static i64 file_count(const struct saving *v)
{
    enum { ALONE = 3 }; /* weights, optimiser, run */
    const struct snapshot *n      = &v->snapshot;
    i64                    others = n->shared ? dealt_parts(v->s) - 1 : 0;
    return MAX(n->part_count, ALONE) + SNAPSHOT_TENSOR_PARTS * others;
}

f64 saving_needs_usd(struct saving *v, struct bill *bill)
{
    if (!v->writer || !v->from->remote.up) return 0;
    i64 bytes = MAX(saving_file_bytes(v), v->figures.bytes);
    f64 usd   = bill_requests_usd(bill, STORE_CHECKPOINTS,
                                  remote_save_last_requests(&v->from->remote, bytes, file_count(v)));
    return isnan(usd) ? 0 : usd;
}

/* Until the one that is being written is on the disk. */
static f64 writing_s(struct saving *v)
{
    f64 whole_s = known_s(v->figures.persist_s);
    if (!v->writer || !checkpoint_writer_writes(v->writer)) return 0;
    return MAX(whole_s - (f64)(now_ns(v) - v->taken_ns) * 1e-9, overdue * whole_s);
}

f64 saving_end_s(struct saving *v)
{
    f64 whole_s = v->busy_s, since_s = (f64)(now_ns(v) - v->taken_ns) * 1e-9;
    if (!v->writer) return 0;
    f64 beside_s =
        checkpoint_writer_idle(v->writer) ? 0 : MAX(whole_s - since_s, overdue * whole_s);
    f64 more_s = isnan(v->figures.persist_s) ? 0 : MAX(whole_s - v->figures.persist_s, 0);
    return beside_s + saving_needs_s(v) + more_s;
}

/* By what the last one took, which the next may exceed. */
static bool is_time(struct saving *v, f64 before_s, f64 save_s, i64 until_ns)
{
    return before_s + save_s / deadline_use <= (f64)(until_ns - now_ns(v)) * 1e-9;
}

bool saving_fits(struct saving *v, f64 before_s, i64 until_ns)
{
    return is_time(v, before_s, writing_s(v) + saving_needs_s(v), until_ns);
}

/* What is asked of us while we wait: nobody waits for pruning then. */
static bool must_exit(struct saving *v, i64 *deadline_ns)
{
    if (!session_must_exit(v->s, deadline_ns)) return false;
    checkpoint_writer_hurry(v->writer);
    if (v->from->remote.up) uploader_hurry(v->from->remote.up);
    return true;
}

/* The others wait for our next word, for train.join_s at most. */
static void tell_at_work(struct saving *v)
{
    static const f64 most_s = 1, part = 0.25;
    i64              every = (i64)(1e9 * fmin(most_s, part * v->s->settings->train.join_s));
    if (!v->s->ranks || now_ns(v) - v->told_ns < every) return;
    v->told_ns = now_ns(v);
    dealt_say_last(v->s, DEALT_WAIT, NULL); /* without them we still finish */
}

static void wait_idle(struct saving *v)
{
    i64  deadline_ns;
    bool shared = v->snapshot.shared;
    do {
        if (shared && v->s->ranks->failed.status) return; /* nobody will answer the writer */
        must_exit(v, &deadline_ns);
        tell_at_work(v);
        parts_poll(v);
    } while (!checkpoint_writer_wait(v->writer, shared ? ask_ns : wait_ns));
    /* a second Ctrl-C ends the process */
    saving_settle(v);
}

/* Is there time for one more on this disk? An upload that is not in time is reported by its own end. */
static bool in_time(struct saving *v, i64 until_ns)
{
    f64 left_s = (f64)(until_ns - now_ns(v)) * 1e-9, needed_s = v->blocked_s + v->figures.persist_s;
    if (!until_ns || isnan(needed_s) || is_time(v, 0, needed_s, until_ns)) return true;
    struct arena scratch = v->s->scratch;
    saving_tell(
        v, &(struct event_checkpoint){
               .what = CHECKPOINT_FAILED,
               .step = v->at->step,
               .text = str_fmt(&scratch,
                               "a save takes %s s and only %s s are left: the %lld steps since "
                               "the last one will be repeated",
                               DIGITS(needed_s), DIGITS(left_s),
                               (long long)(v->at->step - v->figures.step)) });
    return false;
}

/* Until when; 0: nobody has set a deadline. */
static i64 now_until_ns(struct saving *v)
{
    i64 deadline_ns;
    must_exit(v, &deadline_ns);
    return saving_until_ns(v, deadline_ns);
}

/* For uploader_listen: a deadline that is set during the wait counts, and a run that was at its end is
 * interrupted by a signal without one. */
static i64 upload_until_ns(void *context)
{
    static const i64 at_once = 1;
    struct saving   *v       = context;
    i64              until   = now_until_ns(v);
    tell_at_work(v);
    return !until && v->s->asked_to_exit && !v->interrupted ? at_once : until;
}

/* Waits for the uploads. A run that is interrupted anyway says what is not there, and ends as such. */
static enum status end_remote(struct saving *v, enum status so_far, struct err *err)
{
    struct err why = { 0 };
    v->interrupted = v->s->asked_to_exit;
    enum status st = remote_save_end(&v->from->remote, now_until_ns(v), upload_until_ns, v, &why);
    remote_save_figures(&v->from->remote, &v->figures);
    if (st != STATUS_NO) return st ? err_set(err, st, "%s", why.text) : st;
    enum status asked = so_far ? STATUS_OK : session_check_signal(v->s, v->at->step, err);
    if (!so_far && !asked) return err_set(err, STATUS_WORLD, "%s", why.text);
    struct arena scratch = v->s->scratch;
    i64          there   = MAX(v->figures.remote_step, 0);
    saving_tell(
        v, &(struct event_checkpoint){
               .what = CHECKPOINT_NOT_UPLOADED,
               .step = v->figures.step,
               .text = str_fmt(&scratch, "%s; %lld steps will be repeated, from step %lld on",
                               why.text, (long long)(v->figures.step - there), (long long)there) });
    return asked;
}

void saving_finish(struct saving *v)
{
    if (v->writer && v->snapshot.shared && checkpoint_writer_writes(v->writer)) wait_idle(v);
}

enum status saving_end(struct saving *v, enum status so_far, struct err *err)
{
    if (!v->writer) return STATUS_OK;
    checkpoint_writer_prepare(v->writer);
    wait_idle(v);
    if (v->lost.status) return err_set(err, v->lost.status, "%s", v->lost.text);
    if (v->at->step != v->figures.step && v->at->step > 0 && in_time(v, now_until_ns(v))) {
        saving_take(v);
        wait_idle(v);
    }
    if (v->figures.step < 0 && v->at->step > 0)
        return err_set(err, STATUS_WORLD, "nothing of this run could be saved in %.*s",
                       STR_ARG(v->s->settings->checkpoint.dir));
    return end_remote(v, so_far, err);
}
