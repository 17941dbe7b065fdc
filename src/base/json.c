/* json.c - a recursive parser of RFC 8259, strict, and the two writers. */
#include "base/json.h"
#include <math.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

struct parser {
    struct arena *perm;
    struct str    text;
    i64           at;
    i64           depth;
    struct err   *err;
};

static enum status fail(struct parser *p, i64 at, const char *what)
{
    i64 line = 1;
    for (i64 i = 0; i < at; i++) line += p->text.data[i] == '\n';
    return err_set(p->err, STATUS_USAGE, "line %lld, byte %lld: %s", (long long)line, (long long)at,
                   what);
}

/* The text is the world's, so running out of room for it is an error, not our fault. */
static bool has_room(const struct parser *p, i64 bytes)
{
    return bytes <= p->perm->end - p->perm->begin - 64; /* 64: alignment */
}

static int peek(const struct parser *p)
{
    return p->at < p->text.len ? (u8)p->text.data[p->at] : -1;
}

static void skip_blanks(struct parser *p)
{
    for (int c = peek(p); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(p)) p->at++;
}

static bool take_word(struct parser *p, struct str word)
{
    if (!str_starts(str_sub(p->text, p->at, p->text.len), word)) return false;
    p->at += word.len;
    return true;
}

static bool take_digits(struct parser *p)
{
    i64 begin = p->at;
    while (peek(p) >= '0' && peek(p) <= '9') p->at++;
    return p->at > begin;
}

static enum status parse_number(struct parser *p, struct json *v)
{
    i64 begin = p->at;
    take_word(p, STR("-"));
    if (!take_word(p, STR("0")) && !take_digits(p)) return fail(p, p->at, "expected a digit");
    if (take_word(p, STR(".")) && !take_digits(p)) return fail(p, p->at, "expected a digit");
    if (take_word(p, STR("e")) || take_word(p, STR("E"))) {
        if (!take_word(p, STR("-"))) take_word(p, STR("+"));
        if (!take_digits(p)) return fail(p, p->at, "expected a digit");
    }
    v->kind = JSON_NUMBER;
    v->text = str_sub(p->text, begin, p->at);
    return STATUS_OK;
}

/* The four hexadecimal digits of \uXXXX at `at`, or -1. */
static i32 hex4(struct str s, i64 at)
{
    u32 value;
    return at + 4 <= s.len && str_hex(str_sub(s, at, at + 4), &value) ? (i32)value : -1;
}

/* One escape at p->at (behind the backslash), decoded to `to`; its length goes to *len. */
static enum status parse_escape(struct parser *p, char *to, i64 *len)
{
    static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    i64               begin = p->at - 1;
    int               c     = peek(p);
    const char       *found = c > 0 ? strchr(plain, c) : NULL;
    p->at++;
    if (found) {
        to[0] = meaning[found - plain];
        *len  = 1;
        return STATUS_OK;
    }
    i32 code = c == 'u' ? hex4(p->text, p->at) : -1;
    if (code < 0) return fail(p, begin, "an escape that JSON does not have");
    p->at += 4;
    if (code >= 0xD800 && code < 0xDC00 && take_word(p, STR("\\u"))) {
        i32 low = hex4(p->text, p->at);
        if (low < 0xDC00 || low > 0xDFFF) return fail(p, begin, "half of a surrogate pair");
        p->at += 4;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code < 0xE000) return fail(p, begin, "half of a surrogate pair");
    *len = str_utf8_put(to, (u32)code);
    return STATUS_OK;
}

/* From the opening quote to behind the closing one. Without escapes the text itself serves. */
static enum status parse_string(struct parser *p, struct str *out)
{
    i64 begin = p->at++, end = p->at;
    while (end < p->text.len && p->text.data[end] != '"') end += 1 + (p->text.data[end] == '\\');
    if (end >= p->text.len) return fail(p, begin, "the string is not closed");
    *out = str_sub(p->text, p->at, end);

    bool escaped = str_find(*out, '\\') >= 0;
    if (escaped && !has_room(p, out->len)) return fail(p, begin, "too large for memory");
    char *to  = escaped ? NEW(p->perm, char, out->len) : NULL; /* decoding never lengthens */
    i64   len = 0;
    while (p->at < end) {
        i64 next = str_utf8_end(p->text, p->at);
        u8  c    = (u8)p->text.data[p->at];
        if (next < 0) return fail(p, p->at, "bytes that are not UTF-8");
        if (c < 0x20)
            return fail(p, p->at, "a control character in a string; write it as an escape");
        if (c == '\\') {
            i64 decoded = 0;
            p->at++;
            enum status st = parse_escape(p, to + len, &decoded);
            if (st) return st;
            len += decoded;
            continue;
        }
        if (escaped) memcpy(to + len, p->text.data + p->at, (size_t)(next - p->at));
        len += next - p->at;
        p->at = next;
    }
    if (escaped) *out = (struct str){ to, len };
    p->at = end + 1;
    return STATUS_OK;
}

/* All keys of a map put into a hash table above the arena's end, which is then forgotten. */
static enum status check_keys(struct parser *p, const struct json *map)
{
    i64 slots = 16;
    while (slots < 2 * map->count) slots *= 2;
    if (!has_room(p, slots * (i64)sizeof(struct json *)))
        return fail(p, map->at, "too large for memory");
    struct arena        scratch = *p->perm;
    const struct json **table   = NEW(&scratch, const struct json *, slots);
    for (const struct json *v = map->first; v; v = v->next) {
        u64 slot = str_hash(v->key) & (u64)(slots - 1);
        for (; table[slot]; slot = (slot + 1) & (u64)(slots - 1))
            if (str_eq(table[slot]->key, v->key))
                return fail(p, v->at, "this key was given before");
        table[slot] = v;
    }
    return STATUS_OK;
}

static enum status parse_value(struct parser *p, struct json *v);

static enum status parse_key(struct parser *p, struct json *v)
{
    if (peek(p) != '"') return fail(p, p->at, "expected a key in quotes");
    enum status st = parse_string(p, &v->key);
    if (st) return st;
    skip_blanks(p);
    return take_word(p, STR(":")) ? STATUS_OK : fail(p, p->at, "expected ':' after the key");
}

static enum status parse_children(struct parser *p, struct json *v)
{
    struct str    close = v->kind == JSON_MAP ? STR("}") : STR("]");
    struct json **tail  = &v->first;
    p->at++;
    skip_blanks(p);
    if (take_word(p, close)) return STATUS_OK;
    for (;;) {
        enum status st = STATUS_OK;
        skip_blanks(p);
        if (!has_room(p, sizeof *v)) return fail(p, p->at, "too large for memory");
        struct json *child = NEW(p->perm, struct json, 1);
        child->at          = p->at;
        if (v->kind == JSON_MAP) st = parse_key(p, child);
        if (!st) st = parse_value(p, child);
        if (st) return st;
        *tail = child;
        tail  = &child->next;
        v->count++;
        skip_blanks(p);
        if (take_word(p, close)) break;
        if (!take_word(p, STR(",")))
            return fail(p, p->at,
                        v->kind == JSON_MAP ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    return v->kind == JSON_MAP ? check_keys(p, v) : STATUS_OK;
}

static enum status parse_value(struct parser *p, struct json *v)
{
    skip_blanks(p);
    i64 begin = p->at;
    int c     = peek(p);
    if (c == '{' || c == '[') {
        if (p->depth == DEPTH_MAX) return fail(p, p->at, "more than 64 levels deep");
        v->kind = c == '{' ? JSON_MAP : JSON_LIST;
        p->depth++;
        enum status st = parse_children(p, v);
        p->depth--;
        return st;
    }
    if (c == '"') {
        v->kind = JSON_STRING;
        return parse_string(p, &v->text);
    }
    if (c == '-' || (c >= '0' && c <= '9')) return parse_number(p, v);
    if (take_word(p, STR("true")) || take_word(p, STR("false"))) v->kind = JSON_BOOL;
    else if (take_word(p, STR("null"))) v->kind = JSON_NULL;
    else
        return fail(p, p->at, c < 0 ? "the text ends where a value should be" : "expected a value");
    v->text = str_sub(p->text, begin, p->at);
    return STATUS_OK;
}

enum status json_parse(struct arena *perm, struct str text, struct json **root, struct err *err)
{
    struct parser p = { .perm = perm, .text = text, .err = err };
    *root           = NULL;
    skip_blanks(&p);
    if (!has_room(&p, sizeof **root)) return fail(&p, 0, "too large for memory");
    struct json *v = NEW(perm, struct json, 1);
    v->at          = p.at;
    enum status st = parse_value(&p, v);
    if (st) return st;
    skip_blanks(&p);
    if (p.at < text.len) return fail(&p, p.at, "something follows the end of the value");
    *root = v;
    return STATUS_OK;
}

enum status json_parse_line(struct arena *perm, struct str line, struct json **root,
                            struct err *err)
{
    static const char first[] = "line 1, ";
    enum status       st      = json_parse(perm, line, root, err);
    struct str        said    = err ? str_of(err->text) : STR("");
    if (st && str_starts(said, STR(first)))
        memmove(err->text, err->text + sizeof first - 1, (size_t)said.len - (sizeof first - 2));
    return st;
}

struct json *json_get(const struct json *map, struct str key)
{
    if (!map || map->kind != JSON_MAP) return NULL;
    for (struct json *v = map->first; v; v = v->next)
        if (str_eq(v->key, key)) return v;
    return NULL;
}

bool json_i64(const struct json *v, i64 *out)
{
    return v && v->kind == JSON_NUMBER && str_i64(v->text, out);
}

bool json_f64(const struct json *v, f64 *out)
{
    return v && v->kind == JSON_NUMBER && str_f64(v->text, out);
}

void json_add_string(struct textbuf *b, struct str s)
{
    textbuf_add(b, STR("\""));
    for (i64 at = 0, next; at < s.len; at = next) {
        u8 c = (u8)s.data[at];
        next = str_utf8_end(s, at);
        if (next < 0) {
            next = at + 1;
            textbuf_add(b, STR("\xEF\xBF\xBD"));
        } else if (c == '"' || c == '\\') {
            textbuf_fmt(b, "\\%c", c);
        } else if (c == '\n') {
            textbuf_add(b, STR("\\n"));
        } else if (c < 0x20 || c == 0x7f) {
            textbuf_fmt(b, "\\u%04x", c);
        } else if (c == 0xC2 && (u8)s.data[at + 1] < 0xA0) { /* C1: terminals obey some of them */
            textbuf_fmt(b, "\\u%04x", (u8)s.data[at + 1]);
        } else {
            textbuf_add(b, str_sub(s, at, next));
        }
    }
    textbuf_add(b, STR("\""));
}

void json_add_f64(struct textbuf *b, f64 v)
{
    if (isfinite(v)) textbuf_f64(b, v);
    else textbuf_add(b, STR("null"));
}
