/* train.c - a run from its settings to its result: restores (restore.c), opens everything else, runs the loop (loop.c),
 * closes everything. */
#include "backend/ranks/alike.h"
#include "remote/files.h"
#include "train/dealt.h"
#include "train/loop.h"
#include "train/mistakes.h"
#include "train/save_parts.h"
#include <math.h>

enum { PERM_RESERVE_GIB = 64 }; /* address space only: pages are taken when touched */

static i64 grouped(const struct session *s)
{
    return str_eq(s->settings->train.shuffle, STR("by_length")) ? session_step_samples(s) : 0;
}

static enum status open_loader(struct loop *l, struct err *err)
{
    const struct train_config *c      = &l->s.settings->train;
    struct loader_config       config = { .split   = SPLIT_TRAIN,
                                          .seed    = c->seed,
                                          .shuffle = !str_eq(c->shuffle, STR("false")),
                                          .whole   = session_whole(&l->s),
                                          .forever = true,
                                          .skip = str_eq(l->s.settings->data.on_error, STR("skip")),
                                          .batch     = session_batch_all(&l->s),
                                          .part      = l->s.config.rank,
                                          .parts     = l->s.config.ranks,
                                          .group     = grouped(&l->s),
                                          .epoch     = l->at.next_epoch,
                                          .index     = l->at.next_index,
                                          .epochs    = l->limits.epochs,
                                          .in_pieces = l->limits.in_pieces,
                                          .options   = l->s.settings->loader };
    if (l->s.settings->data.pieces && !l->limits.steps)
        return err_set(
            err, STATUS_USAGE,
            "data.pieces is for the first half of a run: set train.steps or train.epochs");
    return loader_open(l->s.perm, l->s.data, &config, &l->loader, err);
}

/* What the user wants written, also after an interruption; but untrained weights never take the
 * place of older ones. A failure to write outranks the interruption. */
static enum status keep(struct loop *l, enum status st, struct err *err)
{
    struct session            *s = &l->s;
    const struct train_config *c = &s->settings->train;
    struct err                 why;
    enum status                bad  = STATUS_OK;
    bool                       best = guard_restore_best(&l->guard, l->at.step, st);
    if (best) l->at.last_eval = l->guard.copy_eval;
    else if (st == STATUS_NO) l->at.eval_step = -1; /* what was judged then is lost */
    bool trained = l->at.step || (!st && l->guard.stop.reason != STOP_BUDGET);
    if (!best && (!trained || (st && st != STATUS_INTERRUPTED))) return st;
    if (s->ranks && s->ranks->rank) return st; /* rank 0 writes */
    if (c->out.len) bad = weights_save(s, WEIGHTS_VALUES, train_out_file(s->perm, c->out), &why);
    if (!bad && c->gradients.len) bad = weights_save(s, WEIGHTS_GRADIENTS, c->gradients, &why);
    if (bad && err) *err = why;
    l->kept = c->out.len && !bad;
    return bad ? bad : st;
}

/* Rank 0 writes, and asks the others for their parts. They wait here for its last word while it saves and uploads. */
static enum status keep_together(struct loop *l, enum status st, struct err *err)
{
    struct session *s       = &l->s;
    enum status     kept    = keep(l, st, err), bad;
    bool            follows = s->ranks && s->ranks->rank;
    if (s->ranks && s->ranks->failed.status) return kept; /* nobody answers: ranks_agree says why */
    bad = follows ? parts_follow_last(&l->saving, err) : dealt_say_last(s, DEALT_GO_ON, err);
    return bad ? bad : kept;
}

/* Found out before the first step, not after the last. */
static enum status keep_check(struct session *s, struct err *err)
{
    const struct train_config *c      = &s->settings->train;
    bool                       folder = str_ends(c->out, STR("/"));
    i64                        copies = folder ? 2 : 1; /* it is made of a file */
    enum status                st     = STATUS_OK;
    if (folder) st = s->os->make_dir(s->os, c->out, err);
    if (!st && c->out.len)
        st = weights_save_check(s, WEIGHTS_VALUES, train_out_file(s->perm, c->out), copies, err);
    if (!st && c->gradients.len && session_shards(s) && !session_deals(s))
        st = err_set(err, STATUS_USAGE,
                     "train.gradients: with train.shard=state no rank has the whole sums; with "
                     "train.shard=none or all the gradients are the same, and are written");
    if (!st && c->gradients.len)
        st = weights_save_check(s, WEIGHTS_GRADIENTS, c->gradients, 1, err);
    return st;
}

/* All that can be found out before memory is allocated for it. */
static enum status prepare(struct loop *l, struct os *os, const struct settings *settings,
                           struct arena *perm, struct err *err)
{
    enum status st = lint_check_allowed(&settings->train, err);
    l->s.ranks     = l->with ? l->with->ranks : NULL;
    if (!st) st = session_open_timed(&l->s, l->clock, os, settings, perm, err);
    if (st) return st;
    l->s.orders       = l->with ? l->with->orders : NULL;
    l->s.to           = l->with ? l->with->to : NULL;
    l->s.mistakes     = mistakes_new(&l->s);
    l->limits         = session_limits(&l->s);
    l->evaluates      = dataset_count(l->s.data, SPLIT_EVAL) > 0;
    l->ahead.feeds    = can_feed_ahead(&l->s);
    l->ahead.computes = can_look_ahead(&l->s);
    l->replay.wanted  = MIN(settings->replay, REPLAY_MAX);
    st                = target_check(&l->s, err);
    if (!st) st = guard_open(&l->guard, &l->s, l->limits.steps, err);
    if (!st) st = saving_plan(&l->saving, l->restore, &l->s, &l->guard, &l->at, err);
    if (!st) st = restore_confirm(l->restore, &l->s, &l->saving.snapshot, &l->guard, err);
    if (!st) st = open_loader(l, err);
    if (!st) st = keep_check(&l->s, err);
    if (!st) l->facts = facts_of(&l->s, &l->limits);
    return st;
}

/* The caller may keep one since the process began; else the run begins here. */
static struct bill *bill_of(const struct train_with *with, struct os *os,
                            const struct settings *settings, struct arena *perm)
{
    if (with->bill) return with->bill;
    struct bill *b = bill_new(perm, clock_new(perm, os));
    bill_price(b, &(struct price_row){ .usd_hour = settings->train.usd_hour });
    return b;
}

static struct store_requests data_requests(void *remote)
{
    struct s3_sums s = remote_files_stores(remote);
    return (struct store_requests){ s.puts, s.gets, s.bytes_in };
}

/* Every rank reads its own part of the data, and rank 0 has the bill. A link that is cut says nothing. */
static void bill_ranks(struct loop *l)
{
    struct store_requests own = { 0 };
    if (!l->s.ranks || l->s.ranks->count < 2) return;
    if (l->s.remote) own = data_requests(l->s.remote);
    f64 all[] = { (f64)own.puts, (f64)own.gets, (f64)own.bytes_out };
    if (ranks_sum(l->s.ranks, all, COUNT_OF(all)) || l->s.ranks->rank) return;
    bill_told(l->bill, STORE_DATA, l->s.ranks,
              (struct store_requests){ (i64)all[0] - own.puts, (i64)all[1] - own.gets,
                                       (i64)all[2] - own.bytes_out });
}

/* The uploader's last requests are made while it closes. */
static bool close_stores(struct loop *l)
{
    struct remote_save *remote = &l->restore->remote;
    bill_counted(l->bill, remote);
    restore_close(l->restore);
    bill_counted_all(l->bill, remote, remote_save_requests(remote));
    bill_counted(l->bill, l->s.remote);
    return session_close(&l->s);
}

/* The bill is closed: what is printed, and what the ledger keeps, is this. */
static void end_bill(struct loop *l, struct train_result *r)
{
    if (tell_taken(l->with, r)) bill_taken(l->bill);
    bill_stop(l->bill);
    r->saving.requests_usd = bill_requests(l->bill);
    r->saving.storage_usd  = bill_storage(l->bill);
}

/* Compiled, and about to run. */
static void begin(struct loop *l)
{
    l->before     = l->at;
    l->scaling    = scaling_now(&l->s);
    l->meter      = meter_begin(&l->s);
    l->lookout    = judge_begin(&l->s);
    l->step_flops = session_step_flops(&l->s);
    clock_enter(l->clock, PART_other);
    undo_open(&l->undo, &l->s, &l->saving, clock_step_times(l->clock));
    profiling_open(l);
}

enum status train_restore(struct os *os, struct settings *settings, const struct train_with *with,
                          struct restore **out, struct err *err)
{
    struct arena perm = arena_open((i64)PERM_RESERVE_GIB << 30);
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct restore *r = NEW(&perm, struct restore, 1);
    *r                = (struct restore){ .os = os, .with = with, .settings = settings };
    r->bill           = bill_of(with, os, settings, &perm);
    r->perm           = perm;
    r->ranks          = with->ranks;
    enum status st    = adapters_settings(os, settings, &r->perm, err);
    if (!st) st = restore(r, err);
    st = ranks_agree(r->ranks, st, err);
    if (!st) st = restore_share_choices(r, err);
    if (!st) st = parts_meet(r, err);
    if (r->remote.up) bill_count(r->bill, STORE_CHECKPOINTS, remote_save_requests, &r->remote);
    *out = r;
    return st;
}

/* Opens all the rest, in the order in which mistakes are cheapest to find. */
static enum status open_rest(struct loop *l, struct err *err)
{
    struct restore *r  = l->restore;
    enum status     st = saving_init(&l->saving, r->settings, err);
    if (!st) st = restore_clear(r, err);
    l->at = r->at;
    if (!st && r->store) emit_open(l->with->to, &(struct event_open){ r->run });
    st = ranks_agree(r->ranks, st, err);
    if (!st) st = prepare(l, r->os, r->settings, &r->perm, err);
    st = ranks_agree(r->ranks, st, err);
    if (!st) st = restore_share_numbers(r, &l->guard, err);
    if (l->s.remote) bill_count(l->bill, STORE_DATA, data_requests, l->s.remote);
    if (st) return st;
    bill_earlier(l->bill, (struct spent){ l->at.elapsed_ns, l->at.spent_usd });
    l->all_flops = together_flops(&l->s);
    tell_start(l);
    tell_findings(l);
    st = ranks_agree(r->ranks, session_start(&l->s, err), err);
    if (!st) st = restore_tensors(r, &l->saving.snapshot, &l->guard, err);
    if (!st) st = saving_start(&l->saving, err);
    return ranks_agree(r->ranks, st, err);
}

enum status train_restored(struct restore *r, enum status st, struct train_result *result,
                           struct err *err)
{
    const struct train_with *with = r->with;
    struct loop              l    = { .restore       = r,
                                      .with          = with,
                                      .bill          = r->bill,
                                      .clock         = bill_clock(r->bill),
                                      .result        = result,
                                      .useful        = NAN,
                                      .peak_flops_s  = NAN,
                                      .scaling.scale = NAN };
    *result                       = (struct train_result){ .first_step_ms = NAN };
    st                            = ranks_agree(r->ranks, st, err);
    if (!st) st = open_rest(&l, err);
    bool ended = false; /* well, diverged or by a signal: there is something to tell */
    if (!st) {
        begin(&l);
        st    = loop_run(&l, err);
        ended = !st || st == STATUS_INTERRUPTED || st == STATUS_NO;
        clock_enter(l.clock, PART_checkpoint);
        st = ranks_agree(r->ranks, keep_together(&l, st, err), err);
        bill_ranks(&l);
        if (!st) samples_write(&l, true);
        tell_result(&l);
    }
    clock_enter(l.clock, PART_end);
    if (l.loader) loader_close(l.loader);
    r->ended = !st;
    saving_close(&l.saving);
    bool closed = close_stores(&l);
    if (ended) end_bill(&l, result);
    result->seconds = bill_elapsed_s(l.bill);
    result->dollars = bill_spent(l.bill).usd;
    if (ended) tell_verdict(with, r->settings, result, r->perm);
    if (ended) tell_done(with, result, l.clock);
    struct arena perm = r->perm; /* r lies in it */
    if (closed) arena_close(&perm);
    return st;
}

enum status train_run(struct os *os, const struct settings *settings, const struct train_with *with,
                      struct train_result *result, struct err *err)
{
    struct settings own = *settings;
    struct restore *r   = NULL;
    enum status     st  = train_restore(os, &own, with, &r, err);
    *result             = (struct train_result){ .first_step_ms = NAN };
    return r ? train_restored(r, st, result, err) : st;
}

enum status train_compile(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_compiled *out, struct err *err)
{
    struct session s;
    i32 ranks = MAX(settings->shown_ranks, 1), machines = MAX(settings->shown_machines, 1);
    s.ranks               = ranks > 1 ? ranks_alike(perm, ranks - 1, ranks, machines) : NULL;
    enum status st        = session_open_timed(&s, NULL, os, settings, perm, err);
    out->set              = s.set;
    out->optimiser        = optimiser_name(s.config.optimiser);
    out->optimiser_reason = s.optimiser_reason;
    session_close(&s);
    return st;
}

enum status train_check(struct os *os, const struct settings *settings, struct arena *perm,
                        struct train_checked *out, struct err *err)
{
    struct restore none = { 0 };
    struct loop    l    = { .at.loss = NAN, .restore = &none };
    enum status    st   = prepare(&l, os, settings, perm, err);
    *out                = (struct train_checked){ 0 };
    if (!st) {
        facts_measure(&l.s, l.loader, &l.facts);
        *out               = (struct train_checked){ .arena_bytes  = l.s.set->arena_bytes,
                                                     .batch        = l.s.config.batch,
                                                     .accumulate   = MAX(l.s.config.accumulate, 1),
                                                     .batch_reason = l.s.batch_reason,
                                                     .load_s       = l.facts.load_s,
                                                     .compute_s    = l.facts.compute_s };
        out->finding_count = lint(&l.facts, out->findings, perm);
    }
    if (l.loader) loader_close(l.loader);
    session_close(&l.s);
    return st;
}
