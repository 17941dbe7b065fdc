/* cmd_run.c - frugal run [RUN.YAML] [KEY=VALUE...] -- COMMAND...: somebody else's program, watched over.
 * Standard output is the program's alone; what frugal says goes to stderr. */
#include "base/digits.h"
#include "cli/jobs.h"
#include "job/supervised.h"
#include "remote/address.h"
#include <math.h>

enum status command_run(struct cli *c, struct err *err);

static void on_output(void *context, struct str bytes)
{
    struct say *s = context;
    say_text(s, bytes);
    fflush(s->results);
}

static void show_result(struct say *s, const struct supervise_result *r, f64 usd_hour,
                        struct arena perm)
{
    say_message(s, "frugal: %lld start%s, %lld checkpoint%s copied, %.1f s repeated\n",
                (long long)r->starts, r->starts == 1 ? "" : "s", (long long)r->carried,
                r->carried == 1 ? "" : "s", r->redone_s);
    if (r->step >= 0 && isnan(r->steps_per_s)) /* one step has no pace */
        say_message(s, "frugal: step %lld\n", (long long)r->step);
    else if (r->step >= 0)
        say_message(s, "frugal: step %lld, %s steps per second\n", (long long)r->step,
                    DIGITS(r->steps_per_s));
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
    return config_read(c->os, c->perm, r->command->name, named ? r->arguments[0] : STR(""),
                       r->arguments + named, r->argument_count - named, out, err);
}

/* The ledger calls the run by its command where no file gives it a name. */
static struct str name_of(char *const *command, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; command[i] && b.len < 80; i++)
        textbuf_fmt(&b, "%s%s", i ? " " : "", command[i]);
    return address_redacted(perm, textbuf_str(&b));
}

enum status command_run(struct cli *c, struct err *err)
{
    struct config          *config;
    struct supervise_result result;
    char *const            *command = c->request->command_line;
    struct job_program      program = { (const char *const *)command, on_output, c->say };
    if (!command || !command[0])
        return err_set(err, STATUS_USAGE, "which program? Try: frugal run -- python3 train.py");
    enum status st = read_config(c, &config, err);
    if (st) return st;
    struct job job = job_of(c, config, "supervised");
    if (!config->file.len) job.name = name_of(command, c->perm);
    st = job_supervise(&job, &program, &result, err);
    if (result.starts) show_result(c->say, &result, config->settings.train.usd_hour, *c->perm);
    return st;
}
