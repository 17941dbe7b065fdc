/* json_out.c - JSON field by field. */
#include "base/json_out.h"
#include "base/json.h"

static void key_of(struct textbuf *b, const char *key)
{
    if (key) textbuf_fmt(b, "\"%s\":", key);
}

void out_text(struct textbuf *b, const char *key, struct str value)
{
    key_of(b, key);
    json_add_string(b, value);
    textbuf_fmt(b, ",");
}

void out_f64(struct textbuf *b, const char *key, f64 value)
{
    key_of(b, key);
    json_add_f64(b, value);
    textbuf_fmt(b, ",");
}

void out_i64(struct textbuf *b, const char *key, i64 value)
{
    key_of(b, key);
    textbuf_fmt(b, "%lld,", (long long)value);
}

void out_bool(struct textbuf *b, const char *key, bool value)
{
    key_of(b, key);
    textbuf_fmt(b, value ? "true," : "false,");
}

void out_open(struct textbuf *b, const char *key, char bracket)
{
    key_of(b, key);
    textbuf_fmt(b, "%c", bracket);
}

void out_close(struct textbuf *b, char bracket)
{
    if (b->data[b->len - 1] == ',') b->len--;
    textbuf_fmt(b, "%c,", bracket);
}

struct str out_whole(struct textbuf *b)
{
    if (b->len && b->data[b->len - 1] == ',') b->len--;
    return textbuf_str(b);
}
