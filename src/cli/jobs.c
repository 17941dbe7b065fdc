/* jobs.c - from a request and its settings to a job. */
#include "cli/jobs.h"

struct str settings_changed(const struct config *config, struct arena *perm)
{
    struct arena   values = arena_part(perm, 1 << 20);
    struct textbuf b      = textbuf_new(perm);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = values;
        if (config->origin[i].kind == ORIGIN_DEFAULT) continue;
        textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(options[i].key),
                    STR_ARG(option_shown_text(&options[i], &config->settings, &here)));
    }
    return textbuf_str(&b);
}

static struct str stem_of(struct str path)
{
    for (i64 i = path.len; i-- > 0;)
        if (path.data[i] == '/') path = str_sub(path, i + 1, path.len), i = 0;
    i64 dot = str_find(path, '.');
    return dot > 0 ? str_sub(path, 0, dot) : path;
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
                         .name     = stem_of(config->file),
                         .changed  = settings_changed(config, c->perm),
                         .fresh    = c->request->flags & FLAG_fresh,
                         .say      = say_job,
                         .context  = c->say };
}
