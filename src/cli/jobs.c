/* jobs.c - from a request and its settings to a job. */
#include "cli/jobs.h"

struct str settings_changed(const struct config *config, struct arena *perm)
{
    struct arena   values = arena_part(perm, 1 << 20);
    struct textbuf b      = textbuf_new(perm);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = values;
        bool out = str_eq(options[i].key, STR("train.out")) && config->settings.train.out.len;
        if (config->origin[i].kind == ORIGIN_DEFAULT && !out) continue;
        textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(options[i].key),
                    STR_ARG(option_shown_text(&options[i], &config->settings, &here)));
    }
    return textbuf_str(&b);
}

static void say_job(void *context, struct str line)
{
    say_message(context, "%.*s\n", STR_ARG(line));
}

struct job job_of(struct cli *c, struct config *config, const char *kind)
{
    return (struct job){ .os       = c->os,
                         .perm     = c->perm,
                         .settings = &config->settings,
                         .kind     = str_of(kind),
                         .name     = config_run_name(config),
                         .changed  = settings_changed(config, c->perm),
                         .fresh    = c->request->flags & FLAG_fresh,
                         .say      = say_job,
                         .context  = c->say };
}
