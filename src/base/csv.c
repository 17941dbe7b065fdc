/* csv.c - one field after the other. */
#include "base/csv.h"

struct csv csv_of(struct str path, struct str text)
{
    bool marked = str_starts(text, STR("\xEF\xBB\xBF"));
    return (struct csv){ path, text, marked ? 3 : 0, 1 };
}

static enum status bad_line(const struct csv *c, i64 line, const char *what, struct err *err)
{
    return err_set(err, STATUS_USAGE, "%.*s:%lld: %s", STR_ARG(c->path), (long long)line, what);
}

static int peek(const struct csv *c) { return c->at < c->text.len ? (u8)c->text.data[c->at] : -1; }

/* Behind the opening quote. */
static enum status quoted_field(struct csv *c, struct str *out, struct err *err)
{
    i64 begin = c->at, line = c->line;
    for (;; c->at++) {
        int byte = peek(c);
        if (byte < 0) return bad_line(c, line, "a quote is opened here and never closed", err);
        c->line += byte == '\n';
        if (byte != '"') continue;
        c->at++;
        if (peek(c) != '"') break;
    }
    *out     = str_sub(c->text, begin, c->at - 1);
    int byte = peek(c);
    if (byte == '\r' && c->at + 1 < c->text.len && c->text.data[c->at + 1] == '\n')
        byte = '\n', c->at++;
    if (byte >= 0 && byte != ',' && byte != '\n')
        return bad_line(c, c->line, "something follows the closing quote of a field", err);
    return STATUS_OK;
}

static enum status plain_field(struct csv *c, struct str *out, struct err *err)
{
    i64 begin = c->at;
    for (int byte = peek(c); byte >= 0 && byte != ',' && byte != '\n'; byte = peek(c)) {
        if (byte == '"') return bad_line(c, c->line, "a quote in the middle of a field", err);
        c->at++;
    }
    *out = str_sub(c->text, begin, c->at);
    if (peek(c) != ',' && str_ends(*out, STR("\r"))) out->len--;
    return STATUS_OK;
}

enum status csv_field(struct csv *c, struct str *out, bool *last, struct err *err)
{
    bool quoted = peek(c) == '"';
    c->at += quoted;
    enum status st = quoted ? quoted_field(c, out, err) : plain_field(c, out, err);
    *last          = peek(c) != ',';
    if (!st) {
        c->line += peek(c) == '\n';
        c->at++;
    }
    return st;
}

struct str csv_text(struct str field, struct arena *perm)
{
    i64 len = 0;
    if (str_find(field, '"') < 0) return field;
    char *to = NEW(perm, char, field.len);
    for (i64 i = 0; i < field.len; i++) {
        to[len++] = field.data[i];
        i += field.data[i] == '"'; /* csv_field lets them through in pairs only */
    }
    return (struct str){ to, len };
}

bool csv_more(struct csv *c)
{
    for (;; c->at++) {
        int byte = peek(c);
        c->line += byte == '\n';
        if (byte == '\r' && c->at + 1 < c->text.len && c->text.data[c->at + 1] == '\n') continue;
        if (byte != '\n') return byte >= 0;
    }
}

i64 csv_lines_max(const struct csv *c)
{
    i64 lines = 1;
    for (i64 i = c->at; i < c->text.len; i++) lines += c->text.data[i] == '\n';
    return lines;
}
