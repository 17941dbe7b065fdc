/* record.c - from what a run tells to rows of the ledger. */
#include "job/record.h"
#include "job/predict.h"
#include "job/weights_mark.h"
#include "remote/address.h"
#include "run/notice.h"
#include "run/report.h"
#include <math.h>
#include <string.h>

/* ---- the run ---- */

/* What the run trains, in a word; other programs' models are not known here. */
static struct str model_of(const struct job *j)
{
    struct str name = j->settings->model.kind, path = j->settings->model.path, part;
    if (str_eq(j->kind, STR("supervised")) || str_eq(j->kind, STR("followed"))) return STR("");
    while (str_eq(j->settings->model.kind, STR("hf")) && str_cut(&path, '/', &part))
        if (part.len) name = part; /* the last of its folder's path */
    return name;
}

static struct run_row run_of(const struct job *j)
{
    const struct run_config *c = &j->settings->run;
    struct run_row           r = { .name           = c->name.len ? c->name : j->name,
                                   .kind           = j->kind,
                                   .settings       = j->changed,
                                   .origins        = j->origins,
                                   .model          = model_of(j),
                                   .runs_per_month = c->runs_per_month,
                                   .target         = j->settings->train.target };
    struct textbuf           b = textbuf_new(j->perm);
    for (i64 i = 0; i < c->tag_count; i++)
        textbuf_fmt(&b, "%s%.*s", i ? "," : "", STR_ARG(c->tags[i]));
    r.tags = textbuf_str(&b);
    return r;
}

/* How long spot machines of this kind have lasted, where nobody says: for when to save. */
static void learn_life(struct os *os, struct settings *s, struct str path)
{
    struct arena     memory = arena_open((i64)4 << 30);
    struct ledger   *l;
    struct os_stat   there;
    struct lifetime *lives;
    i64              count = 0;
    bool             saves = s->checkpoint.dir.len || s->checkpoint.to.len;
    bool             spot  = str_eq(s->run.market, STR("spot")) && saves;
    if (spot && isnan(s->checkpoint.mtti_hours) && path.len && memory.begin &&
        !os->stat(os, path, &there, NULL) && !ledger_open(os, path, &memory, &l, NULL)) {
        if (!report_lifetimes(l, s->run.machine, os->wall_ns(os), &memory, &lives, &count, NULL) &&
            count) {
            struct hazard h          = hazard_fit(lives, count);
            s->checkpoint.mtti_hours = hazard_mean_s(h) / 3600;
            s->hazard_shape          = h.shape;
        }
        ledger_close(l);
    }
    if (memory.begin) arena_close(&memory);
}

/* At the end of a run: as long as one request is tried, checkpoint.upload_wait_s where that is less; but so
 * long that the ledger on the disk is written. */
static const f64 rows_wait_s = SHELF_CALL_S, rows_wait_least_s = 2;

static void price_store(struct record *r, enum bill_store store, struct str where, struct str class)
{
    struct store_price price;
    bool               remote = str_starts(where, STR("s3://")) || str_starts(where, STR("gs://"));
    if (!remote || !job_store_price(r->job, where, class, &price)) return;
    bill_store(r->config.bill, store, &price);
    if (store == STORE_CHECKPOINTS) r->remote.usd_gib_month = bill_storage_gib_usd(&price);
}

/* Whether or not there is a ledger: caps hold without one. Rows are written in the bucket's usual class. */
static void price_stores(struct record *r, const struct settings *s)
{
    const struct checkpoint_config *k = &s->checkpoint;
    price_store(r, STORE_CHECKPOINTS, k->to, k->storage_class);
    price_store(r, STORE_ROWS, k->to, STR(""));
    price_store(r, STORE_DATA, s->data.path, STR(""));
    if (!k->to.len) return;
    r->remote.place = address_redacted(r->job->perm, k->to);
    r->remote.keep  = MIN(k->keep, RECORD_REMOTE_MAX);
}

/* With checkpoint.to, the ledger's rows go there too; that they cannot is told like all else. */
static void open_shelf(struct record *r, const struct settings *s)
{
    const struct checkpoint_config *k     = &s->checkpoint;
    enum cloud                      cloud = cloud_of_machine(r->job->os);
    struct s3_settings              where = { .to = k->to,
                                              .ask_aws = cloud == CLOUD_AWS || str_eq(s->spot.cloud, STR("aws")),
                                              .ask_gcp =
                                                  cloud == CLOUD_GCP || str_eq(s->spot.cloud, STR("gcp")) };
    struct err                      why   = { 0 };
    if (!k->to.len || !r->config.path.len) return;
    if (shelf_open(&r->shelf, r->job->os, &where, r->job->perm, &why))
        return; /* the run says why */
    r->config.store = &r->shelf.store;
    bill_count(r->config.bill, STORE_ROWS, shelf_requests, &r->shelf);
    bill_expects(r->config.bill, STORE_ROWS,
                 (struct store_requests){ .puts = r->config.log ? 2 : 1 }); /* of the end */
    r->shelf_wait_ns =
        (i64)(fmax(fmin(rows_wait_s, k->upload_wait_s), rows_wait_least_s) * 1e9); /* none: NaN */
}

/* Once: the run goes on without. */
static void tell(struct record *r, const struct err *why)
{
    job_say(r->job, "warning: %s", why->text);
}

void record_new(struct record *r, const struct job *j)
{
    struct run_config *run = &j->settings->run;
    *r                     = (struct record){ .job = j, .remote.usd_gib_month = NAN };
    r->config.path         = ledger_path(j->os, run->ledger, j->perm);
    r->homeless            = !r->config.path.len && !str_eq(run->ledger, STR("none"));
    r->config.rented       = run->rented;
    r->config.bill = j->bill ? j->bill : bill_new(j->perm, clock_of_process(j->perm, j->os));
    r->config.run  = run_of(j);
    if (r->config.path.len) r->config.log = event_log_new(j->perm, j->os);
}

enum status record_prepare(struct record *r, struct err *err)
{
    const struct job *j = r->job;
    learn_life(j->os, j->settings, r->config.path);
    price_stores(r, j->settings);
    open_shelf(r, j->settings);
    enum status st = job_price(j, &r->config.price, err);
    if (!st) bill_price(r->config.bill, &r->config.price);
    return st;
}

enum status record_init(struct record *r, const struct job *j, struct err *err)
{
    record_new(r, j);
    return record_prepare(r, err);
}

struct str record_resume(struct record *r, struct str folder, bool fresh)
{
    r->folder = folder;
    r->before = (struct tally_file){ 0 };
    if (folder.len && !fresh) r->before = tally_read(r->job->os, folder, r->job->perm);
    return r->before.run;
}

/* The run's id is known, and the folder is ours: from here on what it spends is counted there. */
static void begin(struct record *r, struct str run)
{
    struct err why = { 0 };
    if (!str_eq(r->before.run, run)) r->before = (struct tally_file){ 0 };
    if (r->before.run.len) bill_earlier(r->config.bill, r->before.spent);
    if (!r->folder.len || r->tally) return;
    if (tally_open(r->job->os, r->folder, run, &r->before, r->config.bill, r->job->perm, &r->tally,
                   &why))
        tell(r, &why);
    else r->config.segment.id = tally_segment(r->tally);
}

/* ---- what is in the object store ---- */

static void put_row(struct record *r, const struct checkpoint_row *row)
{
    if (r->recorder) recorder_put(r->recorder, LEDGER_TABLE_checkpoint, row);
}

/* The oldest go when there are more than shall stay; the bill hears what is left. */
static void settle_remote(struct record *r)
{
    struct remote_rows *m = &r->remote;
    while (m->keep && m->count > m->keep) {
        m->rows[0].removed_wall_ns = r->job->os->wall_ns(r->job->os);
        put_row(r, &m->rows[0]);
        m->bytes -= m->rows[0].bytes;
        memmove(m->rows, m->rows + 1, (size_t)--m->count * sizeof *m->rows);
    }
    bill_keeps(r->config.bill, m->bytes);
}

static void put_remote(struct record *r, const struct checkpoint_row *row)
{
    struct remote_rows *m = &r->remote;
    put_row(r, row);
    m->bytes += row->bytes;
    if (m->keep) m->rows[m->count++] = *row;
    settle_remote(r);
}

/* What earlier starts left there lies before our own; what does not fit is not theirs to keep. */
static void keep_earlier(struct record *r, const struct checkpoint_row *rows, i64 count)
{
    struct remote_rows *m = &r->remote;
    for (i64 i = count; i-- > 0;) {
        m->bytes += rows[i].bytes;
        if (!m->keep || m->count == COUNT_OF(m->rows)) continue;
        memmove(m->rows + 1, m->rows, (size_t)m->count++ * sizeof *m->rows);
        m->rows[0] = rows[i];
    }
    if (count) settle_remote(r);
}

/* A ledger that is locked keeps nobody waiting: what it knows is heard of later. */
static const i64 before_wait_ns = (i64)1000000000;

static void hear_before(struct record *r, i64 limit_ns)
{
    struct recorder_before before;
    if (!r->before_due || !recorder_before(r->recorder, limit_ns, &before)) return;
    r->before_due = false;
    bill_earlier(r->config.bill, before.spent);
    clock_steps_done(bill_clock(r->config.bill), before.steps);
    keep_earlier(r, before.kept, before.kept_count);
    if (r->tally) tally_recorded(r->tally);
}

/* events/RUN/SEGMENT.jsonl beside the ledger. */
static struct str log_path(const struct record *r)
{
    struct str folder = r->config.path;
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    return str_fmt(r->job->perm, "%.*sevents/%.*s/%.*s.jsonl", STR_ARG(folder),
                   STR_ARG(r->config.run.id), STR_ARG(r->config.segment.id));
}

void record_open(struct record *r)
{
    struct err why = { 0 };
    if (!r->config.path.len && r->homeless)
        job_say(r->job,
                "warning: this run is not recorded: HOME is not set, and neither is run.ledger");
    if (!r->config.path.len) return;
    r->config.before = r->before;
    if (!r->config.segment.id.len) r->config.segment.id = ledger_new_id(r->job->perm);
    if (!r->config.run.id.len) r->config.run.id = ledger_new_id(r->job->perm);
    if (r->config.log) event_log_to(r->config.log, log_path(r));
    if (recorder_open(r->job->os, r->job->perm, &r->config, &r->recorder, &why)) tell(r, &why);
    r->before_due = r->recorder != NULL;
    hear_before(r, before_wait_ns);
}

static void on_open(void *context, const struct event_open *e) { begin(context, e->run); }

static void on_start(void *context, const struct event_start *e)
{
    struct record *r     = context;
    r->sample_tokens     = e->sample_tokens;
    r->config.run.id     = e->run;
    r->config.run.metric = str_copy(r->job->perm, e->metric);
    r->config.run.unit   = e->sample_tokens ? STR("tokens") : e->batch ? STR("samples") : STR("");
    r->config.run.steps_planned = e->steps;
    r->config.run.parameters    = e->parameters;
    struct str id               = r->config.segment.id;
    r->config.segment           = (struct segment_row){ .id          = id,
                                                        .device      = e->device,
                                                        .gpus        = e->gpus,
                                                        .precision   = e->precision,
                                                        .batch       = e->batch,
                                                        .accumulate  = e->accumulate,
                                                        .flops_step  = e->flops_step,
                                                        .arena_bytes = e->arena_bytes_planned,
                                                        .step_from   = e->from_step };
    record_open(r);
    struct prediction_row told;
    if (r->recorder && predict_step(r->job->os, e, r->job->perm, &told)) {
        told.made_wall_ns = r->job->os->wall_ns(r->job->os);
        recorder_put(r->recorder, LEDGER_TABLE_prediction, &told);
    }
}

static void on_step(void *context, const struct event_step *e)
{
    struct record *r = context;
    struct err     why;
    if (!r->recorder) return;
    hear_before(r, 0);
    recorder_step(r->recorder, e->step, e->samples, e->samples * r->sample_tokens, e->loss);
    if (recorder_warning(r->recorder, &why)) tell(r, &why);
}

/* Of run.metric; the loss where that is the metric. */
static f64 value_of(const struct record *r, const struct event_metrics *m, f64 loss)
{
    for (i64 i = 0; i < m->count; i++)
        if (str_eq(m->items[i].name, r->config.run.metric)) return m->items[i].value;
    return loss;
}

static void on_eval(void *context, const struct event_eval *e)
{
    struct record *r = context;
    if (r->recorder)
        recorder_eval(r->recorder, &e->terms_ns, e->loss, value_of(r, &e->metrics, e->loss),
                      e->target_reached);
}

static void on_checkpoint(void *context, const struct event_checkpoint *e)
{
    struct record        *r   = context;
    struct checkpoint_row row = { .step          = e->step,
                                  .place         = r->place,
                                  .bytes         = MAX(e->bytes, 0),
                                  .saved_wall_ns = r->job->os->wall_ns(r->job->os) };
    if (e->what == CHECKPOINT_SAVED) {
        if (!isnan(e->blocked_s)) row.blocked_ns = llround(e->blocked_s * 1e9);
        if (!isnan(e->persist_s)) row.persist_ns = llround(e->persist_s * 1e9);
        r->saved_bytes = e->bytes;
        put_row(r, &row);
    }
    if (e->what == CHECKPOINT_UPLOADED) {
        row.place         = r->remote.place;
        row.bytes         = e->bytes > 0 ? e->bytes : r->saved_bytes; /* all of a run are alike */
        row.usd_gib_month = r->remote.usd_gib_month;
        put_remote(r, &row);
    }
}

/* When the machine goes, if anybody says so. */
static void hear_deadline(struct record *r)
{
    struct train_orders *o = r->orders;
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    r->deadline_ns = o->deadline_ns;
    pthread_mutex_unlock(&o->lock);
}

static void on_interruption(void *context, const struct event_interruption *e)
{
    struct record          *r   = context;
    struct interruption_row row = { .kind       = e->kind,
                                    .at_wall_ns = r->job->os->wall_ns(r->job->os),
                                    .notice_s   = e->notice_s,
                                    .step       = e->step,
                                    .saved_step = e->saved_step };
    if (!str_eq(e->kind, STR("signal"))) bill_taken(r->config.bill);
    if (r->recorder) recorder_put(r->recorder, LEDGER_TABLE_interruption, &row);
}

static void on_done(void *context, const struct event_done *e)
{
    struct record *r = context;
    hear_deadline(r);
    if (r->recorder) recorder_done(r->recorder, e);
    if (r->recorder && e->weights_step < e->steps) /* the result is that of the best evaluation */
        recorder_result(r->recorder, e->loss, value_of(r, &e->metrics, e->loss));
    if (r->recorder && e->out.len)
        recorder_weights(r->recorder, weights_mark(r->job->os, e->out, r->job->perm));
}

struct subscriber record_subscriber(struct record *r, const struct subscriber *next)
{
    return (struct subscriber){ .context         = r,
                                .next            = next,
                                .on_open         = on_open,
                                .on_start        = on_start,
                                .on_step         = on_step,
                                .on_eval         = on_eval,
                                .on_checkpoint   = on_checkpoint,
                                .on_interruption = on_interruption,
                                .on_done         = on_done };
}

struct subscriber record_log_subscriber(struct record *r, const struct subscriber *next)
{
    if (r->config.log) return event_log_subscriber(r->config.log, next);
    return (struct subscriber){ .next = next };
}

/* Of a notice: what is left for the last words once nothing is waited for any more. A request to the object store
 * is given up within a second. */
static const i64 farewell_ns = (i64)500000000, farewell_store_ns = (i64)1500000000;

void record_close(struct record *r, enum stop_reason why)
{
    struct err failure = { 0 };
    struct str ended   = why ? stop_reason_name(why) : STR("failed");
    hear_deadline(r); /* it may have come before there was anything to tell of */
    i64 last_ns  = r->config.store ? farewell_store_ns : farewell_ns;
    i64 until_ns = r->deadline_ns    ? r->deadline_ns - last_ns
                   : r->config.store ? clock_now(bill_clock(r->config.bill)) + r->shelf_wait_ns
                                     : 0;
    if (r->recorder) recorder_close(r->recorder, ended, until_ns, NULL);
    if (r->recorder && recorder_warning(r->recorder, &failure)) tell(r, &failure);
    r->recorder = NULL;
    tally_close(r->tally);
    r->tally = NULL;
    bill_counted(r->config.bill, &r->shelf);
    shelf_close(&r->shelf);
}
