/* record.c - from what a run tells to rows of the ledger. */
#include "cli/record.h"
#include "cli/foretell.h"
#include "base/hash.h"
#include "plan/catalogue.h"
#include "run/notice.h"
#include "run/report.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- the price ---- */

/* "aws/p4d.24xlarge". */
static enum status find_machine(struct cli *c, struct str asked, const struct catalogue **catalogue,
                                const struct machine **out, struct err *err)
{
    struct catalogue *all;
    struct str        name = asked, provider;
    enum status       st   = catalogue_open(c->os, c->perm, STR(""), &all, err);
    if (st) return st;
    str_cut(&name, '/', &provider);
    *catalogue = all;
    *out       = catalogue_machine(all, provider, name);
    if (*out) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "run.machine=%.*s is not in the catalogue; expected PROVIDER/NAME of a row of "
                   "`frugal prices`",
                   STR_ARG(asked));
}

static enum price price_kind(struct str market)
{
    if (str_eq(market, STR("spot"))) return PRICE_SPOT;
    if (str_eq(market, STR("reserved"))) return PRICE_RESERVED_1Y;
    return str_eq(market, STR("own")) ? PRICE_OWN : PRICE_ON_DEMAND;
}

static enum status find_price(struct config *config, struct cli *c, struct price_row *out,
                              struct err *err)
{
    struct run_config      *run   = &config->settings.run;
    struct train_config    *train = &config->settings.train;
    const struct catalogue *all;
    const struct machine   *m;
    bool                    said = !str_eq(run->market, STR("none"));
    *out                         = (struct price_row){ .usd_hour = train->usd_hour,
                                                       .source   = STR("train.usd_hour"),
                                                       .market   = said ? run->market : STR("") };
    if (!run->machine.len) return STATUS_OK;
    enum status st = find_machine(c, run->machine, &all, &m, err);
    if (st) return st;
    struct billing_rule rule = billing_rule_of(catalogue_billing(all, m->provider));
    out->granularity_s       = rule.granularity_s;
    out->minimum_s           = rule.minimum_s;
    out->free_s              = rule.free_s;
    if (!isnan(train->usd_hour)) return STATUS_OK;
    enum price kind = price_kind(run->market);
    out->market     = said ? run->market : STR("on-demand");
    out->usd_hour = train->usd_hour = machine_usd_h(m, kind);
    out->source = str_fmt(c->perm, "%.*s %s, %.*s %.*s", STR_ARG(run->machine), price_name(kind),
                          STR_ARG(m->fact.source), STR_ARG(day_text(c->perm, m->fact.as_of_day)));
    if (isnan(out->usd_hour))
        say_message(c->say, "the catalogue has no %s price of %.*s: give train.usd_hour\n",
                    price_name(kind), STR_ARG(run->machine));
    return STATUS_OK;
}

/* ---- the run ---- */

struct str record_settings(const struct config *config, struct arena *perm)
{
    struct arena   values = arena_part(perm, 1 << 20);
    struct textbuf b      = textbuf_new(perm);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = values;
        if (config->origin[i].kind == ORIGIN_DEFAULT) continue;
        textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(options[i].key),
                    STR_ARG(option_get_text(&options[i], &config->settings, &here)));
    }
    return textbuf_str(&b);
}

static struct str stem_of(struct str path)
{
    for (i64 i = path.len; i-- > 0;)
        if (path.data[i] == '/') path = str_sub(path, i + 1, path.len), i = 0;
    i64 dot = str_find(path, '.');
    return dot > 0 ? str_sub(path, 0, dot) : path;
}

static struct run_row run_of(const struct config *config, const char *kind, struct arena *perm)
{
    const struct run_config *c = &config->settings.run;
    struct run_row           r = { .name           = c->name.len ? c->name : stem_of(config->file),
                                   .kind           = str_of(kind),
                                   .settings       = record_settings(config, perm),
                                   .runs_per_month = c->runs_per_month,
                                   .target         = config->settings.train.target };
    struct textbuf           b = textbuf_new(perm);
    for (i64 i = 0; i < c->tag_count; i++)
        textbuf_fmt(&b, "%s%.*s", i ? "," : "", STR_ARG(c->tags[i]));
    r.tags = textbuf_str(&b);
    return r;
}

/* How long spot machines of this kind have lasted, where nobody says: for when to save. */
static void learn_life(struct cli *c, struct settings *s, struct str path)
{
    struct arena     memory = arena_open((i64)4 << 30);
    struct ledger   *l;
    struct os_stat   there;
    struct lifetime *lives;
    i64              count = 0;
    bool             saves = s->checkpoint.dir.len || s->checkpoint.to.len;
    bool             spot  = str_eq(s->run.market, STR("spot")) && saves;
    if (spot && isnan(s->checkpoint.mtti_hours) && path.len && memory.begin &&
        !c->os->stat(c->os, path, &there, NULL) && !ledger_open(c->os, path, &memory, &l, NULL)) {
        if (!report_lifetimes(l, s->run.machine, c->os->wall_ns(c->os), &memory, &lives, &count,
                              NULL) &&
            count) {
            struct hazard h           = hazard_fit(lives, count);
            s->checkpoint.mtti_hours  = hazard_mean_s(h) / 3600;
            s->checkpoint.mtti_shape  = h.shape;
        }
        ledger_close(l);
    }
    if (memory.begin) arena_close(&memory);
}

/* What keeping and asking costs there. Within a cloud it is taken to lie in the machine's region, where reading is
 * free of charge; to another cloud's machine it goes over the internet. */
static void price_store(struct record *r, const struct settings *s)
{
    const struct checkpoint_config *k        = &s->checkpoint;
    struct str                      provider = str_starts(k->to, STR("gs://")) ? STR("gcp") : STR("aws");
    struct str                      machine = s->run.machine, cloud = STR("");
    struct catalogue               *all;
    char                           *lower = NEW(r->cli->perm, char, k->storage_class.len + 1);
    if (k->endpoint.len || catalogue_open(r->cli->os, r->cli->perm, STR(""), &all, NULL)) return;
    for (i64 i = 0; i < k->storage_class.len; i++)
        lower[i] = (char)tolower((unsigned char)k->storage_class.data[i]);
    r->remote.price =
        catalogue_storage(all, provider, (struct str){ lower, k->storage_class.len });
    str_cut(&machine, '/', &cloud);
    if (r->remote.price && cloud.len && !str_eq(cloud, provider))
        r->remote.egress_gb_usd = r->remote.price->egress_internet_gb_usd;
}

/* With checkpoint.to, the ledger's rows go there too; that they cannot is told like all else. */
static void open_shelf(struct record *r, const struct settings *s)
{
    const struct checkpoint_config *k     = &s->checkpoint;
    enum cloud                      cloud = cloud_of_machine(r->cli->os);
    struct s3_settings              where = { .to       = k->to,
                                              .endpoint = k->endpoint,
                                              .region   = k->region,
                                              .style    = k->style,
                                              .ask_aws = cloud == CLOUD_AWS || str_eq(s->spot.cloud, STR("aws")),
                                              .ask_gcp =
                                                  cloud == CLOUD_GCP || str_eq(s->spot.cloud, STR("gcp")) };
    struct err                      why   = { 0 };
    if (!k->to.len || !r->config.path.len) return;
    r->remote.place = k->to;
    r->remote.keep  = MIN(k->keep_remote, RECORD_REMOTE_MAX);
    price_store(r, s);
    if (shelf_open(&r->shelf, r->cli->os, &where, r->cli->perm, &why))
        return; /* the run says why */
    r->config.store = &r->shelf.store;
}

enum status record_init(struct record *r, struct cli *c, struct config *config, const char *kind,
                        struct err *err)
{
    struct run_config *run = &config->settings.run;
    struct os         *os  = c->os;
    *r                     = (struct record){ .cli = c };
    r->config.path         = ledger_path(os, run->ledger, c->perm);
    r->config.rented       = run->rented;
    r->config.account      = account_new(c->perm, os->now_ns(os) - os_process_age_ns());
    r->config.run          = run_of(config, kind, c->perm);
    learn_life(c, &config->settings, r->config.path);
    open_shelf(r, &config->settings);
    return find_price(config, c, &r->config.price, err);
}

/* Once: the run goes on without. */
static void tell(struct record *r, const struct err *why)
{
    say_message(r->cli->say, "warning: %s\n", why->text);
}

void record_open(struct record *r)
{
    struct err why = { 0 };
    if (!r->config.path.len) return;
    if (recorder_open(r->cli->os, r->cli->perm, &r->config, &r->recorder, &why)) tell(r, &why);
}

static void on_start(void *context, const struct train_start *e)
{
    struct record *r            = context;
    r->sample_tokens            = e->sample_tokens;
    r->config.run.id            = e->run;
    r->config.run.metric        = str_copy(r->cli->perm, e->metric);
    r->config.run.unit          = e->sample_tokens ? STR("tokens") : STR("samples");
    r->config.run.steps_planned = e->steps;
    r->config.segment           = (struct segment_row){ .device      = e->device,
                                                        .gpus        = e->gpus,
                                                        .precision   = e->precision,
                                                        .batch       = e->batch,
                                                        .accumulate  = e->accumulate,
                                                        .flops_step  = e->flops_step,
                                                        .arena_bytes = e->arena_bytes_planned,
                                                        .step_from   = e->step };
    record_open(r);
    struct prediction_row told;
    if (r->recorder && foretell_step(r->cli->os, e, r->cli->perm, &told)) {
        told.made_wall_ns = r->cli->os->wall_ns(r->cli->os);
        recorder_put(r->recorder, LEDGER_TABLE_prediction, &told);
    }
    if (r->recorder && e->step)
        account_steps_done(r->config.account, recorder_steps_before(r->recorder));
}

static void on_step(void *context, const struct train_progress *e)
{
    struct record *r = context;
    struct err     why;
    if (!r->recorder) return;
    recorder_step(r->recorder, e->step, e->samples, e->samples * r->sample_tokens, e->loss);
    if (recorder_warning(r->recorder, &why)) tell(r, &why);
}

static void on_eval(void *context, const struct train_eval *e)
{
    struct record *r     = context;
    f64            value = e->loss;
    for (i64 i = 0; i < e->metric_count; i++)
        if (str_eq(e->metrics[i].name, r->config.run.metric)) value = e->metrics[i].value;
    if (r->recorder) recorder_eval(r->recorder, e->loss, value, e->target_reached);
}

static const f64 gib_gb = 1.073741824;

static f64 requests_usd(const struct record *r, const struct s3_sums *asked)
{
    const struct storage *s = r->remote.price;
    if (!s) return NAN;
    return ((f64)asked->puts * s->put_1000_usd + (f64)asked->gets * s->get_1000_usd) / 1000 +
           (f64)asked->bytes_in * 1e-9 * r->remote.egress_gb_usd;
}

/* A new one in the object store; the oldest goes when there are more than shall stay. */
static void put_remote(struct record *r, const struct checkpoint_row *row)
{
    struct remote_rows *m = &r->remote;
    if (m->keep && m->count == m->keep) {
        m->rows[0].removed_wall_ns = row->saved_wall_ns;
        recorder_put(r->recorder, LEDGER_TABLE_checkpoint, &m->rows[0]);
        memmove(m->rows, m->rows + 1, (size_t)--m->count * sizeof *m->rows);
    }
    if (m->keep) m->rows[m->count++] = *row;
    recorder_put(r->recorder, LEDGER_TABLE_checkpoint, row);
}

static void on_checkpoint(void *context, const struct train_checkpoint *e)
{
    struct record        *r   = context;
    struct checkpoint_row row = { .step          = e->step,
                                  .place         = r->place,
                                  .bytes         = e->bytes,
                                  .blocked_ns    = (i64)(e->blocked_s * 1e9),
                                  .persist_ns    = (i64)(e->persist_s * 1e9),
                                  .saved_wall_ns = r->cli->os->wall_ns(r->cli->os) };
    if (!r->recorder) return;
    if (e->kind == CHECKPOINT_SAVED) {
        r->saved_step  = e->step;
        r->saved_bytes = e->bytes;
        recorder_put(r->recorder, LEDGER_TABLE_checkpoint, &row);
    }
    if (e->kind == CHECKPOINT_UPLOADED) {
        row.place         = r->remote.place;
        row.bytes         = e->bytes ? e->bytes : r->saved_bytes; /* all of a run are alike */
        row.usd_gib_month = r->remote.price ? r->remote.price->gb_month_usd * gib_gb : NAN;
        put_remote(r, &row);
        recorder_requests(r->recorder, requests_usd(r, &e->asked));
    }
}

/* By its provider, which says when; a user's signal says nothing. Returns the time it gave, NaN: none. */
static f64 hear_deadline(struct record *r)
{
    struct train_orders *o = r->orders;
    if (!o) return NAN;
    pthread_mutex_lock(&o->lock);
    f64 notice_s   = o->notice_s != 0 ? o->notice_s : NAN;
    r->deadline_ns = o->deadline_ns;
    pthread_mutex_unlock(&o->lock);
    return notice_s;
}

static void on_done(void *context, const struct train_result *e)
{
    struct record          *r        = context;
    f64                     notice_s = hear_deadline(r);
    struct interruption_row row = { .kind       = isnan(notice_s) ? STR("signal") : STR("notice"),
                                    .at_wall_ns = r->cli->os->wall_ns(r->cli->os),
                                    .notice_s   = notice_s,
                                    .step       = e->steps,
                                    .saved_step = r->saved_step };
    if (!r->recorder) return;
    recorder_energy(r->recorder, e->power.energy_wh);
    if (e->evidence.usage.shape)
        recorder_usage(r->recorder, str_of(usage_name(e->evidence.usage.shape)), e->evidence.usage.mean);
    if (r->remote.place.len) {
        struct s3_sums asked = { e->saving.remote_puts, e->saving.remote_gets, e->saving.remote_bytes,
                                 e->saving.remote_bytes_in };
        recorder_requests(r->recorder, requests_usd(r, &asked));
    }
    if (e->stopped == STOP_SIGNAL) recorder_put(r->recorder, LEDGER_TABLE_interruption, &row);
}

struct train_listener record_listener(struct record *r, const struct train_listener *next)
{
    return (struct train_listener){ .context       = r,
                                    .next          = next,
                                    .account       = r->config.account,
                                    .on_start      = on_start,
                                    .on_step       = on_step,
                                    .on_eval       = on_eval,
                                    .on_done       = on_done,
                                    .on_checkpoint = on_checkpoint };
}

void record_close(struct record *r, enum stop_reason why)
{
    struct err failure = { 0 };
    struct str ended   = why ? stop_reason_name(why) : STR("failed");
    hear_deadline(r); /* it may have come before there was anything to tell of */
    if (r->recorder) recorder_close(r->recorder, ended, r->deadline_ns, NULL);
    if (r->recorder && recorder_warning(r->recorder, &failure)) tell(r, &failure);
    r->recorder = NULL;
    shelf_close(&r->shelf);
}

void record_work_open(struct record *r, const struct settings *s, const char *unit)
{
    struct os *os             = r->cli->os;
    r->config.run.unit        = str_of(unit);
    r->config.run.metric      = s->train.target_metric;
    r->config.segment.batch   = s->train.batch;
    record_open(r);
    account_enter(r->config.account, TERM_compute, os->now_ns(os));
}

void record_work_close(struct record *r, i64 done, enum status st)
{
    if (r->recorder) recorder_step(r->recorder, done, done, 0, NAN);
    record_close(r, st == STATUS_INTERRUPTED ? STOP_SIGNAL : st ? STOP_NONE : STOP_END);
}

void record_prediction(struct cli *c, const struct config *config,
                       const struct prediction_row *foretold)
{
    struct arena          memory = arena_open((i64)1 << 30);
    struct str            path   = ledger_path(c->os, config->settings.run.ledger, c->perm);
    struct prediction_row row    = *foretold;
    struct ledger        *l;
    if (!memory.begin) return;
    row.made_wall_ns = c->os->wall_ns(c->os);
    row.settings     = report_settings_key(record_settings(config, &memory), &memory);
    struct str key = str_fmt(&memory, "%.*s %.*s", STR_ARG(row.settings), STR_ARG(row.machine));
    row.id         = str_sub(sha256_hex(&memory, key), 0, 12);
    if (path.len && !ledger_open(c->os, path, &memory, &l, NULL)) {
        ledger_put(l, LEDGER_TABLE_prediction, &row, NULL);
        ledger_close(l);
    }
    arena_close(&memory);
}
