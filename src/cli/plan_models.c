/* plan_models.c - `frugal plan --models`: what it knows by name, and what to do about a name that it does not. */
#include "cli/plan_show.h"
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

void plan_models_names(struct cli *c)
{
    struct arena   s = *c->perm;
    struct textbuf b = textbuf_new(&s);
    for (i64 i = 0; i < known_count(); i++)
        textbuf_fmt(&b, "%s%.*s", i ? ", " : "", STR_ARG(known_at(i)->name));
    say_message(c->say, "Known models: %.*s.\n", STR_ARG(textbuf_str(&b)));
}
