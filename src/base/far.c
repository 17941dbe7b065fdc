/* far.c - what an address tells by itself. */
#include "base/far.h"

static const char *const schemes[] = { "https://", "http://", "s3://", "gs://" };

bool far_is(struct str path)
{
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(path, str_of(schemes[i]))) return true;
    return false;
}

struct str far_shown(struct arena *perm, struct str url)
{
    struct str scheme = STR(""), rest = url;
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(url, str_of(schemes[i]))) scheme = str_of(schemes[i]);
    i64 mark = str_find(rest, '?');
    if (mark >= 0 && str_starts(scheme, STR("http"))) rest = str_sub(rest, 0, mark);
    rest      = str_sub(rest, scheme.len, rest.len);
    i64 slash = str_find(rest, '/'), at = str_find(rest, '@');
    if (at >= 0 && (slash < 0 || at < slash)) rest = str_sub(rest, at + 1, rest.len);
    return str_cat(perm, scheme, rest);
}
