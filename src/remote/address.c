/* address.c - what an address says without asking anybody. */
#include "remote/address.h"
#include <string.h>

static const char *const schemes[] = { "https://", "http://", "s3://", "gs://" };

bool address_is_remote(struct str path)
{
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(path, str_of(schemes[i]))) return true;
    return false;
}

struct str address_path(struct str path)
{
    i64 query = address_is_remote(path) ? str_find(path, '?') : -1;
    return query < 0 ? path : str_sub(path, 0, query);
}

/* Of HOST/PATH, with what stands before the last @ of the host. */
static i64 user_len(struct str rest)
{
    i64 user = 0;
    for (i64 i = 0; i < rest.len && !strchr("/?#", rest.data[i]); i++)
        if (rest.data[i] == '@') user = i + 1;
    return user;
}

struct str address_shown(struct arena *perm, struct str url)
{
    struct str scheme = STR(""), rest = address_path(url);
    for (i64 i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(url, str_of(schemes[i]))) scheme = str_of(schemes[i]);
    rest     = str_sub(rest, scheme.len, rest.len);
    i64 user = user_len(rest);
    return str_cat(perm, scheme, str_sub(rest, user, rest.len));
}

static bool ends_address(char c)
{
    return (unsigned char)c <= ' ' || c == '"' || c == '\'' || c == '<' || c == '>';
}

/* NAME=***&NAME=***; one without a name is all secret. */
static void add_query(struct textbuf *b, struct str query)
{
    struct str one;
    for (i64 i = 0; query.len && str_cut(&query, '&', &one); i++) {
        i64 equal = str_find(one, '=');
        textbuf_fmt(b, "%s%.*s***", i ? "&" : "?", (int)(equal + 1), one.data);
    }
}

struct str address_redacted(struct arena *perm, struct str text)
{
    struct textbuf b = textbuf_new(perm);
    i64            i = 0;
    while (i < text.len) {
        if (!str_starts(str_sub(text, i, text.len), STR("://"))) {
            textbuf_fmt(&b, "%c", text.data[i++]);
            continue;
        }
        i64 end = i + 3;
        while (end < text.len && !ends_address(text.data[end])) end++;
        struct str rest = str_sub(text, i + 3, end);
        i64        user = user_len(rest), query;
        textbuf_fmt(&b, user ? "://***@" : "://");
        rest  = str_sub(rest, user, rest.len);
        query = str_find(rest, '?');
        textbuf_add(&b, str_sub(rest, 0, query < 0 ? rest.len : query));
        if (query >= 0) add_query(&b, str_sub(rest, query + 1, rest.len));
        i = end;
    }
    return textbuf_str(&b);
}
