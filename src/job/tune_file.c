/* tune_file.c - run.tuned.yaml, a run file of its own: what the user said, and what won in its place. */
#include "base/json.h"
#include "job/tuning.h"

static const struct str ours = { "# frugal tune", 13 };

/* As YAML takes it: words may hold what has a meaning there. */
static void add_value(struct textbuf *b, const struct option *o, struct str text)
{
    if (o->kind == OPTION_TEXT) json_add_string(b, text);
    else textbuf_add(b, text);
}

static void add_settings(struct textbuf *b, const struct config *before, const struct config *after,
                         struct arena *perm)
{
    struct str section = STR("");
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const struct option *o   = &options[i];
        struct str           was = option_get_text(o, &before->settings, perm),
                   is            = option_get_text(o, &after->settings, perm);
        enum origin_kind from =
            before->origin[i].kind; /* the environment goes on saying what it says */
        bool changed = !str_eq(was, is), said = from == ORIGIN_FILE || from == ORIGIN_COMMAND_LINE;
        if (!changed && !said) continue;
        if (!str_eq(section, option_section(o)))
            textbuf_fmt(b, "%.*s:\n", STR_ARG(option_section(o)));
        section = option_section(o);
        textbuf_fmt(b, "  %.*s: ", STR_ARG(option_name(o)));
        add_value(b, o, is);
        if (changed) textbuf_fmt(b, " # was %.*s", STR_ARG(was));
        textbuf_fmt(b, "\n");
    }
}

enum status tune_write(struct os *os, const struct config *before, const struct config *after,
                       struct str head, struct arena *perm, struct str *path, struct err *err)
{
    struct str     name = before->file, there;
    struct textbuf b    = textbuf_new(perm);
    struct os_stat stat;
    if (str_ends(name, STR(".yaml"))) name = str_sub(name, 0, name.len - 5);
    *path = str_cat(perm, name, STR(".tuned.yaml"));
    if (!os->stat(os, *path, &stat, NULL)) {
        enum status st = os_read_all(os, *path, perm, &there, err);
        if (st) return st;
        if (!str_starts(there, ours))
            return err_set(err, STATUS_USAGE,
                           "%.*s exists and is not from `frugal tune`: move it away",
                           STR_ARG(*path));
    }
    textbuf_fmt(&b, "%.*s %.*s\n", STR_ARG(ours), STR_ARG(head));
    struct arena scratch = arena_part(perm, 1 << 20);
    add_settings(&b, before, after, &scratch);
    return os_publish(os, *path, textbuf_str(&b), scratch, err);
}
