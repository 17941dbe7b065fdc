/* cmd_evaluate.c - frugal evaluate MODEL [DATA] [KEY=VALUE...]: how good a trained model is on held-out data. */
#include "cli/jobs.h"
#include "train/use.h"

enum status command_evaluate(struct cli *c, struct err *err);

enum { CLASSES_SHOWN = 20 }; /* more make a table that nobody reads */

/* A row for each class of the samples, a column for each that the model took them for. */
static void show_confusion(struct cli *c, const struct use_confusion *k)
{
    i64 most = 0;
    for (i64 i = 0; i < k->classes * k->classes; i++) most = MAX(most, k->counts[i]);
    int wide = most < 100 ? 4 : most < 10000 ? 6 : 9;
    say_result(c->say, "%-12s", "confusion");
    for (i64 i = 0; i < k->classes; i++) say_result(c->say, "%*lld", wide, (long long)i);
    say_result(c->say, "\n");
    for (i64 y = 0; y < k->classes; y++) {
        say_result(c->say, "  class %-4lld", (long long)y);
        for (i64 i = 0; i < k->classes; i++)
            say_result(c->say, "%*lld", wide, (long long)k->counts[y * k->classes + i]);
        say_result(c->say, k->names[y].len ? "  %.*s\n" : "%.*s\n", STR_ARG(k->names[y]));
    }
}

static void event_confusion(struct textbuf *b, const struct use_confusion *k)
{
    textbuf_add(b, STR(",\"confusion\":["));
    for (i64 i = 0; i < k->classes * k->classes; i++) {
        bool first = i % k->classes == 0, last = i % k->classes == k->classes - 1;
        textbuf_fmt(b, "%s%lld%s",
                    !first ? ","
                    : i    ? ",["
                           : "[",
                    (long long)k->counts[i], last ? "]" : "");
    }
    textbuf_add(b, STR("]"));
}

static void show(struct cli *c, const struct train_eval *e, const struct use_confusion *k)
{
    struct arena scratch = *c->perm;
    bool         shows   = k->classes > 0 && k->classes <= CLASSES_SHOWN;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "evaluated");
        event_f64(&b, "loss", e->loss);
        for (i64 i = 0; i < e->metric_count; i++)
            event_f64(&b, str_z(&scratch, e->metrics[i].name), e->metrics[i].value);
        event_i64(&b, "samples", e->samples);
        if (shows) event_confusion(&b, k);
        event_end(&b, c->say);
        return;
    }
    for (i64 i = 0; i < e->metric_count; i++)
        say_result(c->say, "%-12.*s%.*s\n", STR_ARG(e->metrics[i].name),
                   STR_ARG(text_metric(&scratch, e->metrics[i].name, e->metrics[i].value)));
    say_result(c->say, "%-12s%.4f\n%-12s%lld\n", "loss", e->loss, "samples", (long long)e->samples);
    if (shows) show_confusion(c, k);
}

/* In a second pass: the first computes what training's evaluation does, and no logits come out of that. */
static enum status confuse(struct cli *c, const struct settings *s, const struct train_eval *e,
                           struct use_confusion *out, struct err *err)
{
    struct use *use     = NULL;
    bool        classes = false;
    for (i64 i = 0; i < e->metric_count; i++)
        classes |= str_eq(e->metrics[i].name, STR("accuracy"));
    if (!classes) return STATUS_OK;
    enum status st = use_open(c->os, s, USE_PREDICT, &use, err);
    if (!st) st = use_confuse(use, out, c->perm, err);
    use_close(use);
    return st;
}

enum status command_evaluate(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct config        *config;
    struct use           *use = NULL;
    struct train_eval     eval;
    struct use_confusion  confusion = { 0 };
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE, "which model? Try: frugal evaluate last");
    enum status st = model_and_data(c, &config, err);
    os_signals_catch();
    if (!st) st = use_open(c->os, &config->settings, USE_EVALUATE, &use, err);
    if (!st) st = use_evaluate(use, &eval, err);
    use_close(use);
    if (!st) st = confuse(c, &config->settings, &eval, &confusion, err);
    if (!st) show(c, &eval, &confusion);
    if (!st && eval_explains(&eval)) say_message(c->say, "%s\n", eval_explains(&eval));
    return st;
}
