/* remote_save.c - telling the uploader what is there, and the user what became of it. */
#include "train/remote_save.h"
#include "run/notice.h"
#include "train/restore.h"
#include <math.h>
#include <stdio.h>

static const f64 behind_least_s = 30;
static const f64 behind         = 2; /* intervals without a remote checkpoint */

static void tell(struct remote_save *e, enum checkpoint_kind kind, i64 step, const char *text)
{
    checkpoint_tell(e->listener,
                    &(struct event_checkpoint){ .what = kind, .step = step, .text = str_of(text) });
}

struct upload_settings train_upload_settings(struct os *os, const struct settings *settings)
{
    const struct checkpoint_config *c     = &settings->checkpoint;
    struct str                      cloud = settings->spot.cloud;
    enum cloud here = str_eq(cloud, STR("auto")) ? cloud_of_machine(os) : CLOUD_NONE;
    return (struct upload_settings){
        .where  = { .to            = c->to,
                    .storage_class = c->storage_class,
                    .ask_aws       = here == CLOUD_AWS || str_eq(cloud, STR("aws")),
                    .ask_gcp       = here == CLOUD_GCP || str_eq(cloud, STR("gcp")) },
        .keep   = c->keep,
        .wait_s = c->upload_wait_s,
    };
}

enum status remote_save_open(struct remote_save *e, struct os *os, const struct settings *settings,
                             const struct train_with *listener, struct ckpt_store *store,
                             struct arena *perm, i64 *attempt, struct err *err)
{
    *e = (struct remote_save){ .os = os, .listener = listener, .since = stopwatch_start(os) };
    if (!settings->checkpoint.to.len) return STATUS_OK;
    struct upload_settings u  = train_upload_settings(os, settings);
    enum status            st = uploader_start(os, &u, store, perm, &e->up, err);
    if (st) return st;
    e->keep  = u.keep;
    *attempt = uploader_attempt(e->up);
    if (!uploader_state(e->up).alone)
        tell(e, CHECKPOINT_SHARED, 0,
             "the object store ignores conditions (If-None-Match), so a second run that writes "
             "there cannot "
             "be detected; valid checkpoints stay intact");
    return STATUS_OK;
}

enum status remote_save_restore(struct remote_save *e, struct ckpt_id have, struct arena *perm,
                                bool *brought, struct err *err)
{
    struct str     said = STR("");
    struct ckpt_id got;
    *brought = false;
    if (!e->up) return STATUS_OK;
    enum status st = uploader_restore(e->up, have, perm, &said, &got, err);
    if (said.len) tell(e, CHECKPOINT_DAMAGED, got.step, said.data);
    *brought = st == STATUS_OK;
    return st == STATUS_NO ? STATUS_OK : st;
}

enum status remote_save_clear(struct remote_save *e, struct err *err)
{
    return e->up ? uploader_clear(e->up, err) : STATUS_OK;
}

void remote_save_saved(void *context, struct ckpt_store *store, const struct ckpt_manifest *m)
{
    struct remote_save *e = context;
    (void)store;
    if (e->up) uploader_offer(e->up, m);
}

f64 remote_save_age_s(struct remote_save *e)
{
    if (!e->up) return NAN;
    struct upload_state s = uploader_state(e->up);
    return s.newest.attempt ? (f64)(e->os->wall_ns(e->os) - s.newest_wall_ns) * 1e-9 : NAN;
}

/* Once, until it is better: the newest, or the start while none is there, is too long ago. */
static void tell_behind(struct remote_save *e, f64 interval_s)
{
    f64  age_s = remote_save_age_s(e), run_s = stopwatch_s(&e->since);
    f64  late_s = isnan(age_s) ? run_s : age_s;
    bool late   = interval_s > 0 && late_s > MAX(behind * interval_s, behind_least_s);
    char text[160];
    snprintf(text, sizeof text, "%s %.0f s, and one was due every %.0f s",
             isnan(age_s) ? "nothing was uploaded to the object store for"
                          : "the age of the newest checkpoint in the object store is",
             late_s, interval_s);
    if (late && !e->told_behind) tell(e, CHECKPOINT_BEHIND, e->told.step, text);
    e->told_behind = late;
}

enum status remote_save_step(struct remote_save *e, f64 interval_s, struct err *err)
{
    if (!e->up) return STATUS_OK;
    struct upload_state s = uploader_state(e->up);
    if (ckpt_order(e->told, s.newest) < 0) {
        struct store_requests now = { s.sums.puts, s.sums.gets, 0 };
        if (e->told.attempt)
            e->each = (struct store_requests){ now.puts - e->at_told.puts,
                                               now.gets - e->at_told.gets, 0 };
        e->at_told = now;
        e->told    = s.newest;
        checkpoint_tell(e->listener,
                        &(struct event_checkpoint){ .what            = CHECKPOINT_UPLOADED,
                                                    .step            = s.newest.step,
                                                    .remote_puts     = s.sums.puts,
                                                    .remote_gets     = s.sums.gets,
                                                    .remote_bytes_in = s.sums.bytes_in });
    }
    if (s.failed.status && !e->told_failed)
        tell(e, CHECKPOINT_NOT_UPLOADED, s.newest.step, s.failed.text);
    if (s.note.status && !e->told_note)
        tell(e, CHECKPOINT_NOT_UPLOADED, s.newest.step, s.note.text);
    e->told_failed = s.failed.status != STATUS_OK;
    e->told_note |= s.note.status != STATUS_OK;
    tell_behind(e, interval_s);
    if (!s.taken_over_by) return STATUS_OK;
    return uploader_wait_until(e->up, 0, err); /* its sentence */
}

f64 remote_save_needs_s(struct remote_save *e, i64 bytes)
{
    if (!e->up) return 0;
    struct upload_state s = uploader_state(e->up);
    return s.bytes_s > 0 ? (f64)(s.bytes_left + bytes) / s.bytes_s : 0;
}

static void on_waiting(void *context, const char *sentence)
{
    struct remote_save *e = context;
    emit_note(e->listener->to, &(struct event_note){ str_of(sentence) });
}

enum status remote_save_end(struct remote_save *e, i64 deadline_ns, i64 (*until_ns)(void *context),
                            void *context, struct err *err)
{
    if (!e->up) return STATUS_OK;
    uploader_listen(e->up, until_ns, context);
    enum status st = uploader_wait_end(e->up, deadline_ns, on_waiting, e, err);
    if (!st) st = remote_save_step(e, NAN, err);
    return st;
}

struct store_requests remote_save_requests(void *remote_save)
{
    struct remote_save *e = remote_save;
    struct s3_sums      s = e->up ? uploader_state(e->up).sums : e->last;
    return (struct store_requests){ s.puts, s.gets, s.bytes_in };
}

/* Of a save: parts as s3_upload sends them, shards, each begun and completed, the manifest and a list of what is
 * there; manifests, and what is read back before others are deleted. At the end, one that is under way still, and a tag
 * for each shard of those that stay. */
struct store_requests remote_save_last_requests(struct remote_save *e, i64 bytes, i64 shards)
{
    enum { PART_BYTES = 8 << 20, LOOKS = 16 };
    i64 beside = 2 * shards + 2;
    i64 parts = (bytes + PART_BYTES - 1) / PART_BYTES, saves = uploader_state(e->up).busy ? 2 : 1;
    return (struct store_requests){ saves * MAX(parts + beside, e->each.puts) +
                                        shards * (e->keep + 1),
                                    saves * MAX(parts + LOOKS, e->each.gets), 0 };
}

void remote_save_figures(struct remote_save *e, struct train_saving *to)
{
    if (!e->up) return;
    struct upload_state s = uploader_state(e->up);
    to->remote_step       = s.newest.attempt ? s.newest.step : -1;
    to->remote_puts       = s.sums.puts;
    to->remote_gets       = s.sums.gets;
    to->remote_bytes      = s.sums.bytes_out;
    to->remote_bytes_in   = s.sums.bytes_in;
}

void remote_save_close(struct remote_save *e, bool ended)
{
    if (e->up) e->last = uploader_close(e->up, ended);
    e->up = NULL;
}
