/* cmd_evaluate.c - frugal evaluate MODEL [KEY=VALUE...]: how good a trained model is on held-out data. */
#include "cli/jobs.h"
#include "train/use.h"

enum status command_evaluate(struct cli *c, struct err *err);

static void show(struct cli *c, const struct train_eval *e)
{
    struct arena scratch = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "evaluated");
        event_f64(&b, "loss", e->loss);
        for (i64 i = 0; i < e->metric_count; i++)
            event_f64(&b, str_z(&scratch, e->metrics[i].name), e->metrics[i].value);
        event_i64(&b, "samples", e->samples);
        event_end(&b, c->say);
        return;
    }
    for (i64 i = 0; i < e->metric_count; i++)
        say_result(c->say, "%-12.*s%.*s\n", STR_ARG(e->metrics[i].name),
                   STR_ARG(text_metric(&scratch, e->metrics[i].name, e->metrics[i].value)));
    say_result(c->say, "%-12s%.4f\n%-12s%lld\n", "loss", e->loss, "samples", (long long)e->samples);
}

enum status command_evaluate(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct config        *config;
    struct use           *use = NULL;
    struct train_eval     eval;
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE, "which model? Try: frugal evaluate last");
    enum status st = model_of_request(c, 1, &config, err);
    os_signals_catch();
    if (!st) st = use_open(c->os, &config->settings, USE_EVALUATE, &use, err);
    if (!st) st = use_evaluate(use, &eval, err);
    if (!st) show(c, &eval);
    use_close(use);
    return st;
}
