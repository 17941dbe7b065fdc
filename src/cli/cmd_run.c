/* cmd_run.c - frugal run [RUN.YAML] [KEY=VALUE...] -- COMMAND...: somebody else's program, watched over.
 * Standard output is the program's alone; what frugal says goes to stderr. */
#include "cli/commands.h"
#include "cli/config.h"
#include "supervise/supervise.h"
#include <math.h>

enum status command_run(struct cli *c, struct err *err);

static void on_output(void *context, struct str bytes)
{
    struct say *s = context;
    say_text(s, bytes);
    fflush(s->results);
}

static void on_message(void *context, const char *sentence)
{
    say_message(context, "frugal: %s\n", sentence);
}

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
    if (!isnan(t->max_dollars) && isnan(t->usd_hour))
        return err_set(err, STATUS_USAGE,
                       "train.max_dollars needs the price of an hour: train.usd_hour=0.5");
    if (p->folder.len && !s->checkpoint.dir.len)
        return err_set(err, STATUS_USAGE,
                       "where shall the files of program.folder go? Give checkpoint.dir=FOLDER");
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

enum status command_run(struct cli *c, struct err *err)
{
    struct config            *config;
    struct supervise_result   result;
    struct supervise_listener listener = { c->say, on_output, on_message };
    char *const              *command  = c->request->command_line;
    if (!command || !command[0])
        return err_set(err, STATUS_USAGE, "which program? Try: frugal run -- python3 train.py");
    enum status st = read_config(c, &config, err);
    if (!st) st = check(&config->settings, err);
    if (st) return st;
    const struct settings  *s    = &config->settings;
    struct supervise_config told = { .command = (const char *const *)command,
                                     .program = &s->program,
                                     .spot    = &s->spot,
                                     .stop    = stop_of(&s->train),
                                     .store   = s->program.folder.len ? s->checkpoint.dir : STR(""),
                                     .keep    = s->checkpoint.keep };
    os_signals_catch();
    st = supervise_run(c->os, &told, &listener, &result, err);
    if (result.starts) show_result(c->say, &result, s->train.usd_hour, *c->perm);
    if (!st && !isnan(s->train.target) && !result.target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached", s->train.target);
    return st;
}
