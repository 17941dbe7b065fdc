/* cmd_predict.c - frugal predict MODEL [DATA] [KEY=VALUE...]: the class of each sample, and how likely it is. Samples
 * are the lines of standard input, or else the held-out ones. */
#include "base/lines.h"
#include "cli/jobs.h"
#include "train/use.h"

enum status command_predict(struct cli *c, struct err *err);

struct asked {
    struct cli *c;
    struct use *use;
};

/* "sample<TAB>class<TAB>probability", the class by name where it has one; of clicks it is 0 or 1, and the probability
 * that of a click. */
static void show_answer(void *context, i64 sample, const f64 *probability, i64 count)
{
    struct asked *a       = context;
    struct cli   *c       = a->c;
    struct arena  scratch = *c->perm;
    i64           best    = 0;
    for (i64 i = 1; i < count; i++)
        if (probability[i] > probability[best]) best = i;
    i64 class       = count == 1 ? probability[0] > 0.5 : best;
    struct str name = count == 1 ? STR("") : use_class_name(a->use, class);
    if (!c->say->json) {
        struct str shown = name.len ? name : str_fmt(&scratch, "%lld", (long long)class);
        say_result(c->say, "%lld\t%.*s\t%.6g\n", (long long)sample, STR_ARG(shown),
                   probability[best]);
        return;
    }
    struct textbuf b = event_begin(&scratch, "prediction");
    event_i64(&b, "sample", sample);
    event_i64(&b, "class", class);
    if (name.len) event_str(&b, "name", name);
    event_f64(&b, "probability", probability[best]);
    event_end(&b, c->say);
}

/* A terminal is nobody's file of rows, and data.eval_path names another. */
static bool reads_rows(const struct request *r)
{
    bool named = false;
    for (i64 i = 1; i < r->argument_count; i++)
        named |= is_data(r->arguments[i]) || str_starts(r->arguments[i], STR("data.eval_path="));
    return !named && lines_are_given();
}

/* Whoever waits at the other end of a pipe has each answer when it is known. */
static void show_at_once(void *context, i64 sample, const f64 *probability, i64 count)
{
    struct asked *a = context;
    show_answer(a, sample, probability, count);
    fflush(a->c->say->results);
}

enum status command_predict(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct config        *config;
    struct use           *use  = NULL;
    bool                  rows = reads_rows(r);
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE, "which model? Try: frugal predict last");
    enum status st = model_and_data(c, &config, err);
    os_signals_catch();
    if (!st && rows) say_message(c->say, "rows        from standard input\n");
    if (!st) st = use_open(c->os, &config->settings, rows ? USE_ROWS : USE_PREDICT, &use, err);
    struct asked asked = { c, use };
    if (!st && rows) st = use_rows(use, (struct file){ 0 }, show_at_once, &asked, err);
    if (!st && !rows) st = use_predict(use, show_answer, &asked, err);
    use_close(use);
    return st;
}
