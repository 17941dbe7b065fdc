/* json_walk.c - where values end: by quotes and brackets alone. */
#include "base/json_walk.h"

static enum status fail(const struct json_walk *w, const char *what, struct err *err)
{
    return err_set(err, STATUS_USAGE, "byte %lld: %s", (long long)w->at, what);
}

static int peek(const struct json_walk *w)
{
    return w->at < w->text.len ? (u8)w->text.data[w->at] : -1;
}

static int skip_blanks(struct json_walk *w)
{
    int c = peek(w);
    for (; c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(w)) w->at++;
    return c;
}

enum status json_walk_open(struct json_walk *w, struct str text, struct err *err)
{
    *w    = (struct json_walk){ .text = text };
    int c = skip_blanks(w);
    if (c != '{' && c != '[') return fail(w, "expected a map or a list", err);
    w->map = c == '{';
    w->at++;
    return STATUS_OK;
}

/* From the opening quote to behind the closing one. */
static enum status skip_string(struct json_walk *w, struct err *err)
{
    const char *s = w->text.data;
    i64         end, begin = w->at;
    for (end = begin + 1; end < w->text.len && s[end] != '"'; end++) end += s[end] == '\\';
    if (end >= w->text.len) return fail(w, "the string is not closed", err);
    w->at = end + 1;
    return STATUS_OK;
}

static enum status skip_value(struct json_walk *w, struct err *err)
{
    i64 depth = 0;
    do {
        int         c  = peek(w);
        enum status st = STATUS_OK;
        if (c < 0) return fail(w, "the text ends within a value", err);
        if (c == '"') st = skip_string(w, err);
        else w->at++;
        if (st) return st;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth < 0) return fail(w, "a bracket too many", err);
        if (depth || c == '"' || c == '}' || c == ']') continue;
        for (c = peek(w); c >= 0 && c != ',' && c != '}' && c != ']' && c != '"' && c != '\n';
             c = peek(w))
            w->at++; /* a number or a word */
    } while (depth);
    return STATUS_OK;
}

enum status json_walk_next(struct json_walk *w, struct str *key, struct str *value, struct err *err)
{
    enum status st = STATUS_OK;
    int         c  = skip_blanks(w);
    *key           = STR("");
    if (c == (w->map ? '}' : ']')) return STATUS_NO;
    if (w->begun && c != ',') return fail(w, "expected ',' or the end of the map or list", err);
    w->at += w->begun;
    w->begun = true;
    c        = skip_blanks(w);
    if (w->map) {
        i64 begin = w->at + 1;
        if (c != '"') return fail(w, "expected a key in quotes", err);
        st = skip_string(w, err);
        if (st) return st;
        *key = str_sub(w->text, begin, w->at - 1);
        if (skip_blanks(w) != ':') return fail(w, "expected ':' after the key", err);
        w->at++;
        skip_blanks(w);
    }
    i64 begin = w->at;
    st        = skip_value(w, err);
    *value    = str_trim(str_sub(w->text, begin, w->at));
    return st;
}

enum status json_walk_find(struct str map, struct str key, struct str *value, struct err *err)
{
    struct json_walk w;
    struct str       k;
    enum status      st = json_walk_open(&w, map, err);
    while (!st) {
        st = json_walk_next(&w, &k, value, err);
        if (!st && str_eq(k, key)) return STATUS_OK;
    }
    return st;
}
