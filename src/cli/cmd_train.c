/* cmd_train.c - frugal train RUN.YAML KEY=VALUE...: settings in, a trained model and its bill out. */
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/hearing.h"
#include "cli/logs.h"
#include "cli/profile_show.h"
#include "cli/progress.h"
#include "cli/record.h"
#include <math.h>

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
    struct config        *config;
    struct train_result   result   = { 0 };
    struct progress       shown    = { .say = c->say, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct train_listener show = progress_listener(&shown), profiled, logged, heard, listener;
    struct profile_shown  profile = { .cli = c };
    struct logs           logs;
    struct hearing        hearing;
    struct record         record;
    struct train_orders   orders = TRAIN_ORDERS_NONE;
    enum status           st       = config_of_request(c->request, c->os, c->perm, &config, err);
    if (!st) st = add_profile(c, config, err);
    if (st) return st;
    const struct train_config *t = &config->settings.train;
    if (!t->epochs && !t->steps && isnan(t->target) && !t->patience && isnan(t->max_seconds) &&
        isnan(t->max_dollars))
        return err_set(err, STATUS_USAGE,
                       "when does the run end? Give train.epochs=5, train.steps=1000 or a target");

    shown.every          = t->log_every;
    shown.runs_per_month = config->settings.run.runs_per_month;
    st          = record_init(&record, c, config, "train", err);
    if (st) return st;
    st = hearing_open(&hearing, c->os, &config->settings.spot, &orders, err);
    if (st) return st;
    record.place    = config->settings.checkpoint.dir;
    record.orders   = &orders;
    profile.config  = &config->settings.profile;
    heard           = hearing_listener(&hearing, &show);
    profiled        = profile_listener(&profile, &heard);
    logs            = logs_init(c, config);
    logged          = logs_listener(&logs, &profiled);
    listener        = record_listener(&record, &logged);
    orders.fresh    = c->request->flags & FLAG_fresh;
    listener.orders = &orders;
    os_signals_catch();
    st = train_run(c->os, &config->settings, &listener, &result, err);
    logs_close(&logs);
    hearing_close(&hearing);
    record_close(&record, result.stopped);
    if (!st && result.target_set && !result.target_reached)
        st = err_set(err, STATUS_NO, "the target %g was not reached: %s", t->target, result.why);
    return st;
}
