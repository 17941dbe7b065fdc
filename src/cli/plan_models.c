/* plan_models.c - `frugal plan --models`: what it knows by name, and what to do about a name that it does not. */
#include "cli/plan.h"
#include "plan/known.h"

void plan_models(struct cli *c)
{
    if (!c->say->json)
        say_result(c->say, "%-20s %10s %14s %10s\n", "model", "parameters", "used per token",
                   "context");
    for (i64 i = 0; i < known_count(); i++) {
        const struct known *k = known_at(i);
        struct arena        s = *c->perm;
        if (c->say->json) {
            struct textbuf b = event_begin(&s, "model");
            event_str(&b, "name", k->name);
            event_f64(&b, "parameters", known_parameters(k));
            event_f64(&b, "parameters_used", known_parameters_used(k));
            event_i64(&b, "context", k->context);
            event_end(&b, c->say);
            continue;
        }
        say_result(c->say, "%-20.*s %10.*s %14.*s %10.*s\n", STR_ARG(k->name),
                   STR_ARG(plan_parameters(&s, known_parameters(k))),
                   STR_ARG(plan_parameters(&s, known_parameters_used(k))),
                   STR_ARG(text_count(&s, (f64)k->context)));
    }
    struct arena s = *c->perm;
    if (!c->say->json)
        say_result(c->say,
                   "\nAny config.json of Hugging Face with one of these model_types: %.*s\n",
                   STR_ARG(known_types(&s)));
}

enum status plan_unknown(struct cli *c, struct str name, struct err *err)
{
    const struct known *best  = NULL;
    i64                 least = 4; /* slips of the finger */
    struct arena        s     = *c->perm;
    struct textbuf      b     = textbuf_new(&s);
    for (i64 i = 0; i < known_count(); i++) {
        const struct known *k = known_at(i);
        i64 d = name.len < 64 ? str_distance(k->name, name, arena_part(&s, 1 << 14)) : least;
        if (d < least) best = k;
        least = MIN(least, d);
    }
    for (i64 i = 0; i < known_count(); i++)
        textbuf_fmt(&b, "%s%.*s", i ? ", " : "", STR_ARG(known_at(i)->name));
    say_message(c->say, "Known models: %.*s.\n", STR_ARG(textbuf_str(&b)));
    return err_set(
        err, STATUS_USAGE,
        "%.*s is neither a known model nor a file%s%.*s%s; give a run file, a config.json "
        "or one of the models above (`frugal plan --models`)",
        (int)MIN(name.len, 60), name.data, best ? " (did you mean " : "",
        best ? (int)best->name.len : 0, best ? best->name.data : "", best ? "?)" : "");
}
