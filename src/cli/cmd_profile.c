/* cmd_profile.c - frugal profile RUN.YAML KEY=VALUE...: a few steps of the run, looked at closely. */
#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/profile_show.h"
#include "cli/progress.h"
#include "cli/verdict_show.h"
#include "job/experiments.h"
#include "run/verdict_events.h"

enum status command_profile(struct cli *c, struct err *err);

enum { EVENT_BYTES = 1 << 16 };

static const f64 verdict_seconds = 6; /* from five on the machine's rates are measured too */

/* sort=memory is short for profile.sort=memory. */
static struct str whole_key(struct arena *perm, struct str key_value)
{
    struct str key = str_sub(key_value, 0, MAX(str_find(key_value, '='), 0));
    bool       has = !key.len || str_find(key, '.') >= 0;
    return has ? key_value : str_cat(perm, STR("profile."), key_value);
}

static enum status seconds_of(const struct request *r, f64 *out, struct err *err)
{
    struct str given = r->value[FLAG_seconds];
    if (str_f64(given, out) && *out >= 0 && *out <= 3600) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "--seconds is %.*s; expected a number like 6, or 0 for no verdict",
                   STR_ARG(given));
}

struct look {
    struct cli    *cli;
    struct config *config;
};

static enum status look_at_steps(void *context, struct err *err)
{
    struct look         *l       = context;
    struct cli          *c       = l->cli;
    struct progress      started = { .say = c->say, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct subscriber    all     = progress_subscriber(&started);
    struct subscriber    show    = { .context    = all.context,
                                     .on_start   = all.on_start,
                                     .on_note    = all.on_note,
                                     .on_finding = all.on_finding };
    struct profile_shown shown   = { .cli = c, .config = &l->config->settings.profile };
    struct subscriber    listen  = profile_subscriber(&shown, &show);
    struct job           job     = job_of(c, l->config, "");
    struct train_result  result;
    enum status          st = job_train(&job, &listen, &result, err);
    if (!st && shown.err.status) st = err_set(err, shown.err.status, "%s", shown.err.text);
    if (!st && !shown.steps)
        st = err_set(err, STATUS_USAGE,
                     "the run ended before a step was profiled: lower profile.wait");
    struct err *first = st ? NULL : err; /* what was told goes out in any case */
    return say_close(c->say, first) && !st ? STATUS_WORLD : st;
}

static void on_try(void *context, const char *problem)
{
    struct cli  *c = context;
    u8           room[512]; /* c->perm holds what is tried out */
    struct arena scratch = { room, room + sizeof room, NULL };
    if (c->say->live) say_live(c->say, str_fmt(&scratch, "trying out %s", problem));
}

static enum status show_verdict(struct cli *c, const struct config *config, f64 seconds,
                                struct err *err)
{
    struct experiments *e = NEW(c->perm, struct experiments, 1);
    if (!(seconds > 0)) return STATUS_OK;
    e->on_try      = on_try;
    e->context     = c;
    enum status st = experiments_run(e, c->os, config, seconds, c->perm, err);
    if (st) return st;
    if (!c->say->json) say_result(c->say, "\n");
    struct verdict_shown  shown = { .say = c->say, .scratch = arena_part(c->perm, 1 << 16) };
    struct subscriber     show  = verdict_subscriber(&shown);
    struct verdict_of_run run   = { e->usd_run, config->settings.run.runs_per_month, false };
    verdict_emit(&show, &e->whole.evidence, &e->verdict, run, *c->perm);
    return STATUS_OK;
}

enum status command_profile(struct cli *c, struct err *err)
{
    struct request *r = NEW(c->perm, struct request, 1);
    struct config  *config;
    *r = *c->request;
    for (i64 i = 1; i < r->argument_count; i++)
        r->arguments[i] = whole_key(c->perm, r->arguments[i]);
    enum status st = only_process(c, "profile", err);
    if (!st) st = config_of_request(r, c->os, c->perm, &config, err);
    f64 seconds = verdict_seconds;
    if (!st && r->given[FLAG_seconds]) st = seconds_of(r, &seconds, err);
    if (st) return st;
    struct config *asked = NEW(c->perm, struct config, 1); /* the run as it is, for its verdict */
    *asked               = *config;
    profile_steps_only(&config->settings);
    os_signals_catch();
    struct look l = { c, config };
    st            = run_apart(c->os, look_at_steps, &l, err);
    return st ? st : show_verdict(c, asked, seconds, err);
}
