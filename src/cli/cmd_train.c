/* cmd_train.c - frugal train RUN.YAML KEY=VALUE...: settings in, a trained model and its bill out. */
#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/profile_show.h"
#include "cli/progress.h"

enum status command_train(struct cli *c, struct err *err);

enum { EVENT_BYTES = 1 << 16 };

/* --profile wait=1,warmup=1,active=3 */
static enum status add_profile(struct cli *c, struct config *config, struct err *err)
{
    struct str  rest = c->request->value[FLAG_INDEX_profile], one;
    enum status st   = STATUS_OK;
    while (!st && str_cut(&rest, ',', &one))
        st = config_add_override(config, c->perm, str_cat(c->perm, STR("profile."), one), err);
    return st;
}

enum status command_train(struct cli *c, struct err *err)
{
    struct config       *config;
    struct train_result  result;
    struct progress      shown    = { .say = c->say, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct profile_shown profile  = { .cli = c };
    struct subscriber    show     = progress_subscriber(&shown);
    struct subscriber    profiled = profile_subscriber(&profile, &show);
    enum status          st       = config_of_request(c->request, c->os, c->perm, &config, err);
    if (!st) st = add_profile(c, config, err);
    if (st) return st;
    shown.every    = config->settings.train.log_every;
    profile.config = &config->settings.profile;
    struct job job = job_of(c, config, "train");
    return job_train(&job, &profiled, &result, err);
}
