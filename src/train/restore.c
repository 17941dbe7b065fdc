/* restore.c - the newest valid checkpoint, here or in the object store: found, compared, put back. */
#include "train/restore.h"
#include "base/json.h"
#include "base/rng.h"
#include "run/tally.h"
#include <math.h>
#include <string.h>

enum { BATCH_MAX = 1 << 30 }; /* samples at a time: more no machine holds */

/* --- finding --- */

void checkpoint_tell(const struct train_with *to, const struct event_checkpoint *e)
{
    struct event_checkpoint known = *e;
    if (e->what != CHECKPOINT_SAVED) known.blocked_s = known.persist_s = NAN;
    if (!e->bytes) known.bytes = -1;
    emit_checkpoint(to->to, &known);
}

static void tell(const struct restore *r, enum checkpoint_kind kind, i64 step, struct str text)
{
    checkpoint_tell(r->with,
                    &(struct event_checkpoint){ .what = kind, .step = step, .text = text });
}

/* What was chosen for the machine of then stays as it was. */
static enum status keep_choices(struct restore *r, struct arena *perm, struct err *err)
{
    struct train_config *t     = &r->settings->train;
    i64                  batch = 0, block = 0;
    t->init              = STR(""); /* its weights are in the checkpoint */
    r->settings->resumed = true;
    r->settings->choices = identity_before(r->before, "choices");
    struct str said      = identity_before(r->before, "batch"),
               blocks    = identity_before(r->before, "data.shuffle_block");
    if ((said.len && (!str_i64(said, &batch) || batch < 0 || batch > BATCH_MAX)) ||
        (blocks.len && (!str_i64(blocks, &block) || block < 0)))
        return err_set(err, STATUS_WORLD, "%.*s says a batch of %.*s and a shuffle block of %.*s",
                       STR_ARG(r->found ? r->loaded.ckpt->folder : STR("the checkpoint")),
                       STR_ARG(said), STR_ARG(blocks));
    if (!r->settings->data.shuffle_block) r->settings->data.shuffle_block = block;
    bool halved = t->noise_scale && !t->micro_batch; /* session.c */
    if (!t->batch) t->batch = halved ? 2 * batch : batch;
    else if (!halved && !t->micro_batch && batch && t->batch % batch == 0) t->micro_batch = batch;
    if (str_eq(t->precision, STR("auto"))) {
        t->precision                = str_copy(perm, identity_before(r->before, "train.precision"));
        r->settings->precision_kept = true;
    }
    if (str_eq(t->optimiser, STR("auto")))
        r->settings->optimiser_chosen = identity_before(r->before, "train.optimiser");
    return STATUS_OK;
}

static void forget(struct restore *r)
{
    if (r->found) ckpt_unload(r->os, &r->loaded);
    r->found = false;
}

/* The newest of the folder. NO: there are some, and all of them are damaged. */
static enum status find(struct restore *r, struct str folder, struct arena *perm, struct err *err)
{
    enum status st = ckpt_list(r->os, folder, perm, &r->list, err);
    if (st || !r->list.count) return st;
    st = ckpt_load_newest(r->os, &r->list, perm, &r->loaded, err);
    if (st) return st;
    r->found = true;
    r->run   = r->loaded.ckpt->manifest.run;
    st       = json_parse(perm, r->loaded.ckpt->manifest.state, &r->before, err);
    return st ? st : keep_choices(r, perm, err);
}

/* Where the run stands: all that its next step depends on but the tensors. */
static enum status read_numbers(struct restore *r, struct run_state *at, struct guard *g,
                                struct err *err)
{
    const struct st_file *run = ckpt_shard(&r->loaded, STR("run"));
    if (!run) return err_set(err, STATUS_USAGE, "the checkpoint has no run.safetensors");
    return state_put_back(at, g, run, err);
}

/* Those that are damaged and newer than the one that is taken, and what that costs. */
static void tell_passed_over(struct restore *r, struct arena scratch)
{
    for (i64 i = 0; r->found && i < r->list.count && &r->list.items[i] != r->loaded.ckpt; i++) {
        const struct ckpt *c  = &r->list.items[i];
        i64                to = r->loaded.ckpt->id.step;
        tell(r, CHECKPOINT_DAMAGED, c->id.step,
             str_fmt(&scratch, "%s; %lld steps are repeated, from step %lld on", c->why.text,
                     (long long)MAX(c->id.step - to, 0), (long long)to));
    }
}

static enum status stays(struct err *err, enum status st, struct str folder, const char *why)
{
    return err_set(
        err, st == STATUS_NO ? STATUS_WORLD : st,
        "%s. Nothing was trained and nothing deleted: start again once it can be read, or "
        "start over with --fresh (frugal checkpoints verify %.*s)",
        why, STR_ARG(folder));
}

static enum status another(const struct restore *r, struct err *err, struct str what)
{
    return err_set(
        err, STATUS_USAGE,
        "%.*s holds the checkpoints of another run: %.*s. Give this run its own checkpoint.dir, "
        "or start over with --fresh, which deletes them",
        STR_ARG(r->settings->checkpoint.dir), STR_ARG(what));
}

static void say_change(void *context, struct str text)
{
    struct restore *r = context;
    tell(r, CHECKPOINT_CHANGED, r->loaded.ckpt->id.step, text);
}

/* Is it this run, by its settings? Then this is where it stands. */
static enum status judge(struct restore *r, struct arena scratch, struct err *err)
{
    struct err   why = { 0 };
    struct guard g; /* is opened later */
    if (!r->found) return STATUS_OK;
    r->changes = (struct identity_changes){ .say = say_change, .context = r };
    if (identity_compare_settings(r->before, r->os, r->settings, &r->changes, scratch, &why))
        return another(r, err, str_of(why.text));
    return read_numbers(r, &r->at, &g, err);
}

/* Did `frugal run` write the newest of them? Its files are those of another program. */
static bool is_of_program(const struct restore *r, struct arena scratch)
{
    const struct ckpt *newest = r->list.items;
    struct json       *root;
    return r->list.count && !newest->why.status &&
           !json_parse(&scratch, newest->manifest.state, &root, NULL) &&
           json_get(root, STR("carried"));
}

/* The newest here, unless there is a newer one in the object store. */
static enum status find_anywhere(struct restore *r, struct arena *perm, struct err *err)
{
    struct str     folder = r->settings->checkpoint.dir;
    struct ckpt_id have   = { 0 };
    struct err     why    = { 0 };
    bool           brought;
    enum status    st = find(r, folder, perm, &why);
    if (is_of_program(r, *perm))
        return another(r, err, STR("`frugal run` copied the files of a program there"));
    if (st && st != STATUS_NO) return stays(err, st, folder, why.text);
    if (r->found) have = r->loaded.ckpt->id;
    enum status remote = remote_save_restore(&r->remote, have, perm, &brought, err);
    if (remote == STATUS_WORLD) return stays(err, remote, r->settings->checkpoint.to, err->text);
    if (remote) return remote;
    if (brought) {
        forget(r);
        st = find(r, folder, perm, &why);
    }
    if (st) return stays(err, st, folder, why.text);
    tell_passed_over(r, *perm);
    return judge(r, *perm, err);
}

struct str train_checkpoint_dir(const struct settings *settings)
{
    const struct checkpoint_config *c = &settings->checkpoint;
    return c->to.len && !c->dir.len ? STR("checkpoints") : c->dir;
}

static bool is_fresh(const struct restore *r) { return r->with->orders && r->with->orders->fresh; }

/* As a start has it that ended before its first checkpoint (run/tally.h); else a new one. */
static struct str name_run(struct restore *r)
{
    struct str run = STR("");
    if (!is_fresh(r)) run = tally_read(r->os, r->settings->checkpoint.dir, &r->perm).run;
    if (run.len) return run;
    return str_fmt(&r->perm, "%016llx", (unsigned long long)rng_mix((u64)r->os->wall_ns(r->os)));
}

enum status restore(struct restore *r, struct err *err)
{
    struct str *dir = &r->settings->checkpoint.dir;
    r->at           = (struct run_state){ .loss = NAN, .spent_usd = NAN, .eval_step = -1 };
    *dir            = train_checkpoint_dir(r->settings);
    if (!dir->len) return STATUS_OK;
    enum status st = ckpt_store_open(r->os, *dir, &r->perm, &r->store, err);
    if (st) return st;
    r->attempt = ckpt_attempt_last(r->store) + 1;
    r->run     = name_run(r);
    st = remote_save_open(&r->remote, r->os, r->settings, r->with, r->store, &r->perm, &r->attempt,
                          err);
    return st || is_fresh(r) ? st : find_anywhere(r, &r->perm, err);
}

enum status restore_clear(struct restore *r, struct err *err)
{
    if (!r->store || !is_fresh(r)) return STATUS_OK;
    enum status st = ckpt_clear(r->store, r->perm, err);
    return st ? st : remote_save_clear(&r->remote, err);
}

void restore_close(struct restore *r)
{
    forget(r);
    remote_save_close(&r->remote, r->ended);
    if (r->store) ckpt_store_close(r->store);
    r->store = NULL;
}

/* --- once the run is compiled --- */

/* A run that had come to its end goes on if that was moved. */
static void move_end(const struct restore *r, struct stop *stop)
{
    const struct str metric = r->loaded.ckpt->manifest.metric;
    enum stop_reason was    = stop->reason;
    if (was == STOP_END || was == STOP_SIGNAL || r->changes.end) stop->reason = STOP_NONE;
    if (!metric.len || str_eq(metric, stop->config.metric)) return;
    stop->best  = NAN; /* values of another metric say nothing of this one */
    stop->worse = stop->point_count = 0;
}

enum status restore_confirm(struct restore *r, struct session *s, struct snapshot *n,
                            struct guard *g, struct err *err)
{
    struct err       why = { 0 };
    struct run_state at;
    if (!r->store) return STATUS_OK;
    enum status st = identity_init(&r->identity, s, err);
    if (st || !r->found) return st;
    if (snapshot_fits(n, &r->loaded, &why) || identity_compare(&r->identity, r->before, s, &why))
        return another(r, err, str_of(why.text));
    st = read_numbers(r, &at, g, err);
    if (!st) st = state_check_place(&at, session_step_samples(s), session_epoch_samples(s), err);
    if (st) return st;
    move_end(r, &g->stop);
    struct str text = identity_other_bits(&r->identity, r->before, s, s->perm);
    if (!text.len && r->changes.course) text = STR("settings have changed");
    tell(r, CHECKPOINT_RESUMED, r->loaded.ckpt->id.step, text);
    return STATUS_OK;
}

/* Tensors and the guard's copy; where none was kept until now, what is here is sound, and the best if its evaluation
 * was. */
enum status restore_tensors(struct restore *r, struct snapshot *n, struct guard *g, struct err *err)
{
    struct guard was = *g; /* its numbers are those of the checkpoint already */
    if (r->found) snapshot_put_back(n);
    bool        found = r->found;
    enum status st    = together_tensors(g->s, err);
    if (!st) st = together_say(g->s, &found, sizeof found, err);
    if (!st && found) st = snapshot_hand_out(n, g->s, err);
    if (st) return st;
    guard_start(g, r->at.step);
    if (r->store) snapshot_add_kept(n);
    bool kept = r->found && snapshot_put_back_kept(n, &r->loaded);
    st        = together_say(g->s, &kept, sizeof kept, err);
    if (!st && kept) st = together_say(g->s, g->copy, g->copy_bytes, err);
    if (st) return st;
    if (kept) {
        g->copy_step = was.copy_step;
        g->copy_eval = was.copy_eval;
    } else if (r->at.eval_step == r->at.step && stop_improved(&g->stop)) {
        g->copy_eval = r->at.last_eval;
    }
    if (r->found) r->bytes = ckpt_bytes(&r->loaded.ckpt->manifest);
    r->resumed = r->found;
    forget(r);
    return STATUS_OK;
}

/* --- of several ranks --- */

static enum status say(struct restore *r, void *data, i64 bytes, struct err *err)
{
    enum status st = ranks_spread(r->ranks, 0, data, bytes);
    return st ? err_set(err, st, "%s", r->ranks->failed.text) : st;
}

/* The numbers of both as bytes that mean the same in every process. */
static enum status share_state(struct restore *r, struct run_state *at, struct guard *g,
                               struct err *err)
{
    struct arena   scratch = r->perm;
    u8            *bytes   = NEW(&scratch, u8, state_bytes());
    struct st_file file    = { .tensors = NEW(&scratch, struct st_tensor, state_count()),
                               .count   = state_count() };
    state_describe(file.tensors, bytes);
    if (!r->ranks->rank) state_collect(at, g, bytes);
    enum status st = say(r, bytes, state_bytes(), err);
    return st || !r->ranks->rank ? st : state_put_back(at, g, &file, err);
}

enum status restore_share_choices(struct restore *r, struct err *err)
{
    struct guard none = { .lr_factor = 1 }; /* is opened later */
    struct str   text = r->found ? r->loaded.ckpt->manifest.state : STR("");
    i64          len  = text.len;
    if (!r->ranks) return STATUS_OK;
    stop_init(&none.stop, &(struct stop_config){ .target = NAN, .max_seconds = NAN });
    enum status st = say(r, &len, sizeof len, err);
    if (st || !len) return st;
    char *copy = NEW(&r->perm, char, len);
    if (!r->ranks->rank) memcpy(copy, text.data, (size_t)len);
    st = say(r, copy, len, err);
    if (!st) st = share_state(r, &r->at, &none, err);
    if (st || !r->ranks->rank) return st;
    st = json_parse(&r->perm, (struct str){ copy, len }, &r->before, err);
    return st ? st : keep_choices(r, &r->perm, err);
}

enum status restore_share_numbers(struct restore *r, struct guard *g, struct err *err)
{
    struct run_state at = r->at;
    return r->ranks ? share_state(r, &at, g, err) : STATUS_OK;
}
