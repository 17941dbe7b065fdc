/* cmd_train.c - frugal train RUN.YAML KEY=VALUE...: settings in, a trained model and its bill out. */
#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/late.h"
#include "cli/profile_show.h"
#include "cli/progress.h"
#include "infer/out_folder.h"
#include "infer/specimen.h"
#include "job/meet.h"
#include "job/several.h"

enum status command_train(struct cli *c, struct err *err);

enum { EVENT_BYTES = 1 << 16 };

/* --profile wait=2,active=3 is short for profile.wait=1 and so on, behind the other settings. */
static enum status with_profile(struct cli *c, struct request *r, struct err *err)
{
    struct str rest = c->request->value[FLAG_profile], one;
    *r              = *c->request;
    while (r->argument_count && str_cut(&rest, ',', &one)) {
        if (r->argument_count == ARGUMENTS_MAX)
            return err_set(err, STATUS_USAGE, "more than %d arguments", ARGUMENTS_MAX);
        r->arguments[r->argument_count++] = str_cat(c->perm, STR("profile."), one);
    }
    return STATUS_OK;
}

/* As one of the processes that torchrun has started: what is wrong with the settings the rank says, with the others. */
static enum status start_rank(struct cli *c, struct err *err)
{
    struct config  *config;
    struct request *r  = NEW(c->perm, struct request, 1);
    enum status     st = with_profile(c, r, NULL);
    if (!st) st = config_of_request(r, c->os, c->perm, &config, NULL);
    if (st) config = config_new(c->perm);
    return meet_run(c->os, config->settings.train.join_s, c->perm, err);
}

static enum status meet_ranks(struct cli *c, f64 join_s, struct ranks **out, struct err *err)
{
    struct several us = several_announced(c->os);
    if (us.count > 1) late_begin(join_s, us.rank, us.count);
    enum status st = several_open(c->os, join_s, c->perm, out, err);
    if (us.count > 1) late_end();
    return st;
}

/* A launcher may have started several of us: one speaks, from the beginning, and what is wrong with the settings of one
 * all hear of. */
static enum status begin_ranks(struct cli *c, struct request *r, struct config **config,
                               struct ranks **out, struct err *err)
{
    struct err why = { 0 };
    *out           = NULL;
    say_nothing(c->say, !several_speaks(c->os, NULL));
    enum status st = with_profile(c, r, err);
    if (!st) st = config_of_request(r, c->os, c->perm, config, err);
    if (!st) st = out_folder_check(c->os, &(*config)->settings, err);
    const struct config *known =
        st ? config_new(c->perm) : *config; /* without settings the defaults */
    enum status met = meet_ranks(c, known->settings.train.join_s, out, &why);
    if (met && !st && err) *err = why;
    return several_agree(*out, st ? st : met, err); /* without the others: as it is */
}

/* Everything is printed before the ranks part: a launcher ends all of them as soon as one has ended with another code
 * than 0, and rank 0 would take with it what it had not written yet. */
static enum status end_ranks(struct cli *c, struct ranks *ranks, enum status st, struct err *err)
{
    if (ranks && several_speaks(c->os, ranks)) say_nothing(c->say, false);
    if (ranks && st && err->text[0]) {
        say_error(c->say, err, *c->perm);
        err->text[0] = 0;
    }
    say_flush(c->say);
    several_close(ranks);
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
    struct request      *r        = NEW(c->perm, struct request, 1);
    struct ranks        *ranks;
    if (several_announced(c->os).meets) return start_rank(c, err);
    enum status st = begin_ranks(c, r, &config, &ranks, err);
    if (st) return end_ranks(c, ranks, st, err);
    shown.every    = config->settings.train.log_every;
    shown.chat     = str_eq(config->settings.data.kind, STR("chat"));
    profile.config = &config->settings.profile;
    struct job job = job_of(c, config, "train");
    job.ranks      = ranks;
    job.write      = specimen_write;
    st             = several_same(ranks, job.changed, err);
    if (!st) {
        st = job_train(&job, &profiled, &result, err);
        st = out_folder_write(c->os, result.out, st, c->perm, err);
    }
    return end_ranks(c, ranks, st, err);
}
