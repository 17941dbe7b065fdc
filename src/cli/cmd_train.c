/* cmd_train.c - frugal train RUN.YAML KEY=VALUE...: settings in, a trained model and its bill out. */
#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/profile_show.h"
#include "cli/progress.h"

enum status command_train(struct cli *c, struct err *err);

enum { EVENT_BYTES = 1 << 16 };

/* --profile wait=1,warmup=1,active=3 is short for profile.wait=1 and so on, behind the other settings. */
static enum status with_profile(struct cli *c, struct request *r, struct err *err)
{
    struct str rest = c->request->value[FLAG_INDEX_profile], one;
    *r              = *c->request;
    while (r->argument_count && str_cut(&rest, ',', &one)) {
        if (r->argument_count == ARGUMENTS_MAX)
            return err_set(err, STATUS_USAGE, "more than %d arguments", ARGUMENTS_MAX);
        r->arguments[r->argument_count++] = str_cat(c->perm, STR("profile."), one);
    }
    return STATUS_OK;
}

enum status command_train(struct cli *c, struct err *err)
{
    struct config       *config;
    struct train_result  result;
    struct progress      shown    = { .say = c->say, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct profile_shown profile  = { .cli = c };
    struct subscriber    show     = progress_subscriber(&shown);
    struct subscriber    profiled = profile_subscriber(&profile, &show);
    struct request      *r        = NEW(c->perm, struct request, 1);
    enum status          st       = with_profile(c, r, err);
    if (!st) st = config_of_request(r, c->os, c->perm, &config, err);
    if (st) return st;
    shown.every    = config->settings.train.log_every;
    profile.config = &config->settings.profile;
    struct job job = job_of(c, config, "train");
    return job_train(&job, &profiled, &result, err);
}
