/* far.c - what an address tells by itself. */
#include "base/far.h"

static const char *const schemes[] = { "https://", "http://", "s3://", "gs://" };

bool far_is(struct str path)
{
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(path, str_of(schemes[i]))) return true;
    return false;
}

struct str far_file_path(struct str path)
{
    i64 query = far_is(path) ? str_find(path, '?') : -1;
    return query < 0 ? path : str_sub(path, 0, query);
}

struct str far_shown(struct arena *perm, struct str url)
{
    struct str scheme = STR(""), rest = far_file_path(url);
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(url, str_of(schemes[i]))) scheme = str_of(schemes[i]);
    rest      = str_sub(rest, scheme.len, rest.len);
    i64 slash = str_find(rest, '/'), at = str_find(rest, '@');
    if (at >= 0 && (slash < 0 || at < slash)) rest = str_sub(rest, at + 1, rest.len);
    return str_cat(perm, scheme, rest);
}
