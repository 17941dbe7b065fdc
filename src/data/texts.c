/* texts.c - files below folders, in the order of their names. */
#include "data/texts.h"

static enum status add(struct os *os, struct str path, i32 depth, struct arena *perm,
                       struct texts *to, struct err *err)
{
    struct os_stat stat;
    struct str    *names;
    i64            count;
    enum status    st = os->stat(os, path, &stat, err);
    if (st) return st;
    if (to->count == TEXTS_MAX || depth > TEXTS_DEEP_MAX)
        return err_set(err, STATUS_USAGE, "%.*s: more than %d files, or folders more than %d deep",
                       STR_ARG(path), TEXTS_MAX, TEXTS_DEEP_MAX);
    if (!stat.is_dir) {
        to->paths[to->count++] = path;
        return STATUS_OK;
    }
    st = os->list(os, path, perm, &names, &count, err);
    for (i64 i = 0; i < count && !st; i++)
        st = add(os, str_fmt(perm, "%.*s/%.*s", STR_ARG(path), STR_ARG(names[i])), depth + 1, perm,
                 to, err);
    return st;
}

enum status texts_find(struct os *os, const struct str *from, i64 from_count, struct arena *perm,
                       struct texts *out, struct err *err)
{
    enum status st = STATUS_OK;
    *out           = (struct texts){ NEW(perm, struct str, TEXTS_MAX), 0 };
    for (i64 i = 0; i < from_count && !st; i++) st = add(os, from[i], 0, perm, out, err);
    return st;
}
