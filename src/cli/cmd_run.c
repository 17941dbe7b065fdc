/* cmd_run.c - frugal run [RUN.YAML] [KEY=VALUE...] -- COMMAND...: somebody else's program, watched over.
 * Standard output is the program's alone; what frugal says goes to stderr. */
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/record.h"
#include "supervise/supervise.h"
#include "train/train.h"
#include <math.h>

enum status command_run(struct cli *c, struct err *err);

/* --- what is told while it runs ----------------------------------------------------------------- */

static void on_output(void *context, struct str bytes)
{
    struct say *s = ((struct record *)context)->cli->say;
    say_text(s, bytes);
    fflush(s->results);
}

static void on_message(void *context, const char *sentence)
{
    say_message(((struct record *)context)->cli->say, "frugal: %s\n", sentence);
}

/* A start that goes on from checkpoints is a segment of the run that they are of. */
static struct str on_begin(void *context, struct str run)
{
    struct record *r = context;
    r->config.run.id = run;
    record_open(r);
    return r->recorder ? recorder_run_id(r->recorder) : run;
}

static void on_step(void *context, i64 step, f64 loss)
{
    struct record *r = context;
    if (r->recorder) recorder_step(r->recorder, step, 0, 0, loss);
}

static void on_eval(void *context, f64 loss, f64 metric, bool target_reached)
{
    struct record *r = context;
    if (r->recorder) recorder_eval(r->recorder, loss, metric, target_reached);
}

static void on_carried(void *context, i64 step, i64 bytes)
{
    struct record        *r   = context;
    struct os            *os  = r->cli->os;
    struct checkpoint_row row = { .step          = step,
                                  .place         = r->place,
                                  .bytes         = bytes,
                                  .saved_wall_ns = os->wall_ns(os),
                                  .usd_gib_month = NAN };
    if (r->recorder) recorder_put(r->recorder, LEDGER_TABLE_checkpoint, &row);
}

static void on_interruption(void *context, const char *kind, f64 notice_s, i64 step, i64 saved_step)
{
    struct record          *r   = context;
    struct os              *os  = r->cli->os;
    struct interruption_row row = { .kind       = str_of(kind),
                                    .at_wall_ns = os->wall_ns(os),
                                    .notice_s   = notice_s,
                                    .step       = step,
                                    .saved_step = saved_step };
    if (r->recorder) recorder_put(r->recorder, LEDGER_TABLE_interruption, &row);
}

/* --- before and after --------------------------------------------------------------------------- */

/* What is judged must be read, and what is carried must go somewhere. */
static enum status check(const struct settings *s, struct err *err)
{
    const struct program_config *p    = &s->program;
    const struct train_config   *t    = &s->train;
    bool                         read = !str_eq(p->read, STR("none"));
    if ((!isnan(t->target) || t->patience || t->forecast > 0) && (!read || !p->metric.len))
        return err_set(err, STATUS_USAGE,
                       "train.target, train.patience and train.forecast judge what program.metric "
                       "reads: give program.read and program.metric");
    if (p->folder.len && !s->checkpoint.dir.len)
        return err_set(err, STATUS_USAGE,
                       "where shall the files of program.folder go? Give checkpoint.dir=FOLDER, and "
                       "checkpoint.to=s3://BUCKET/PREFIX where the disk goes with the machine");
    if (!p->folder.len && p->resume_count)
        return err_set(err, STATUS_USAGE,
                       "program.resume goes on from a checkpoint: program.folder says where the "
                       "program keeps them");
    return STATUS_OK;
}

static struct stop_config stop_of(const struct train_config *t)
{
    bool given = !str_eq(t->target_metric, STR("auto"));
    return (struct stop_config){ .metric          = given ? t->target_metric : STR("loss"),
                                 .target          = t->target,
                                 .patience        = t->patience,
                                 .min_improvement = t->min_improvement,
                                 .max_seconds     = t->max_seconds,
                                 .max_dollars     = t->max_dollars,
                                 .usd_hour        = t->usd_hour,
                                 .steps_max       = t->steps,
                                 .forecast        = t->forecast };
}

static void show_result(struct say *s, const struct supervise_result *r, f64 usd_hour,
                        struct arena perm)
{
    say_message(s, "frugal: %lld start%s, %lld checkpoint%s carried, %.1f s redone\n",
                (long long)r->starts, r->starts == 1 ? "" : "s", (long long)r->carried,
                r->carried == 1 ? "" : "s", r->redone_s);
    if (r->step >= 0)
        say_message(s, "frugal: step %lld, %.4g steps a second\n", (long long)r->step,
                    r->steps_per_s);
    if (!isnan(r->metric)) say_message(s, "frugal: metric %.6g\n", r->metric);
    if (usage_is_ill(r->seen.usage.shape))
        say_message(s, "frugal: %s: %.*s\n", r->seen.gpu ? "GPUs" : "cores",
                    STR_ARG(usage_text(&r->seen.usage, &perm)));
    if (r->stopped && r->stopped != STOP_SIGNAL) say_message(s, "frugal: stopped: %s\n", r->why);
    if (isnan(r->dollars))
        say_message(s, "frugal: %.1f s; the price is not known (train.usd_hour)\n", r->seconds);
    else
        say_message(s, "frugal: %.*s for %.1f s at $%g an hour\n",
                    STR_ARG(text_dollars(&perm, r->dollars)), r->seconds, usd_hour);
}

static enum status read_config(struct cli *c, struct config **out, struct err *err)
{
    const struct request *r     = c->request;
    bool                  named = r->argument_count && str_find(r->arguments[0], '=') < 0;
    return config_read(c->os, c->perm, named ? r->arguments[0] : STR(""), r->arguments + named,
                       r->argument_count - named, out, err);
}

/* The ledger calls the run by its command where no file gives it a name. */
static struct str name_of(char *const *command, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; command[i] && b.len < 80; i++)
        textbuf_fmt(&b, "%s%s", i ? " " : "", command[i]);
    return textbuf_str(&b);
}

static enum status supervise(struct record *r, const struct settings *s, char *const *command,
                             struct supervise_result *result, struct err *err)
{
    struct upload_settings    to       = train_upload_settings(r->cli->os, s);
    struct supervise_listener listener = { r,       on_output, on_message, on_begin,
                                           on_step, on_eval,   on_carried, on_interruption };
    struct supervise_config   told     = { .command = (const char *const *)command,
                                           .program = &s->program,
                                           .spot    = &s->spot,
                                           .stop    = stop_of(&s->train),
                                           .store   = r->place,
                                           .keep    = s->checkpoint.keep,
                                           .to      = s->checkpoint.to.len ? &to : NULL,
                                           .account = r->config.account };
    r->config.run.metric               = told.stop.metric;
    r->config.run.steps_planned        = s->train.steps;
    os_signals_catch();
    enum status st = supervise_run(r->cli->os, &told, &listener, result, err);
    if (r->recorder && result->seen.usage.shape)
        recorder_usage(r->recorder, str_of(usage_name(result->seen.usage.shape)), result->seen.usage.mean);
    r->deadline_ns = result->deadline_ns;
    record_close(r, result->stopped ? result->stopped : st ? STOP_NONE : STOP_END);
    return st;
}

enum status command_run(struct cli *c, struct err *err)
{
    struct config          *config;
    struct supervise_result result;
    struct record           record;
    char *const            *command = c->request->command_line;
    if (!command || !command[0])
        return err_set(err, STATUS_USAGE, "which program? Try: frugal run -- python3 train.py");
    enum status st = read_config(c, &config, err);
    if (!st) st = check(&config->settings, err);
    if (!st) st = record_init(&record, c, config, "supervised", err);
    if (st) return st;
    const struct settings *s = &config->settings;
    if (!isnan(s->train.max_dollars) && isnan(s->train.usd_hour))
        return err_set(err, STATUS_USAGE,
                       "train.max_dollars needs the price of an hour: train.usd_hour=0.5");
    if (s->program.folder.len) record.place = s->checkpoint.dir;
    if (!config->file.len) record.config.run.name = name_of(command, c->perm);
    st = supervise(&record, s, command, &result, err);
    if (result.starts) show_result(c->say, &result, s->train.usd_hour, *c->perm);
    if (!st && !isnan(s->train.target) && !result.target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached", s->train.target);
    return st;
}
