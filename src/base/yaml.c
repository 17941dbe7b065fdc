/* yaml.c - a parser that reads block structure by the column of the next thing to read.
 *
 * Between values the reader stands on the first character of a content line (comments and empty
 * lines skipped) and knows its column; `- ` moves it to the column of the item, so that in
 *
 *     layers:
 *       - conv:          the list is at column 2, its first map at 4,
 *           filters: 16  the map inside that at 6
 *
 * a block ends where a line stands further left than it began. */
#include "base/yaml.h"
#include <string.h>

enum { DEPTH_MAX = 64, CHILDREN_MAX = 10000, TEXT_BYTES_MAX = 1 << 20 };

struct parser {
    struct arena *perm;
    struct str    file, text;
    i64           at;
    i64           line_at; /* where the current line begins */
    i32           line;
    i32           depth;
    struct err   *err;
};

enum context { BLOCK, FLOW }; /* in flow, brackets and commas end a plain scalar */

static const i64 END = -1; /* column when nothing is left */

static enum status fail_at(struct parser *p, i32 line, const char *what)
{
    return err_set(p->err, STATUS_USAGE, "%.*s:%d: %s", STR_ARG(p->file), line, what);
}

static enum status fail(struct parser *p, const char *what) { return fail_at(p, p->line, what); }

static int peek_at(const struct parser *p, i64 at)
{
    return at < p->text.len ? (u8)p->text.data[at] : -1;
}

static int peek(const struct parser *p) { return peek_at(p, p->at); }

static bool line_ends_at(const struct parser *p, i64 at)
{
    int c = peek_at(p, at);
    return c < 0 || c == '\n' || (c == '\r' && peek_at(p, at + 1) == '\n');
}

static bool gap_at(const struct parser *p, i64 at)
{
    return peek_at(p, at) == ' ' || peek_at(p, at) == '\t' || line_ends_at(p, at);
}

/* A '#' is a comment at the start of a line or behind a blank. */
static bool comment_at(const struct parser *p, i64 at)
{
    return peek_at(p, at) == '#' && (at == p->line_at || peek_at(p, at - 1) == ' ');
}

static i64 column(const struct parser *p) { return p->at < p->text.len ? p->at - p->line_at : END; }

static enum status skip_blanks(struct parser *p)
{
    while (peek(p) == ' ') p->at++;
    return peek(p) == '\t' ? fail(p, "a tab outside of quotes; use spaces") : STATUS_OK;
}

/* Over blanks and a comment; *more tells whether something else follows on this line. */
static enum status skip_to_end_of_line(struct parser *p, bool *more)
{
    enum status st = skip_blanks(p);
    if (comment_at(p, p->at))
        while (!line_ends_at(p, p->at)) p->at++;
    *more = !line_ends_at(p, p->at);
    return st;
}

static void next_line(struct parser *p)
{
    while (peek(p) >= 0 && peek(p) != '\n') p->at++;
    if (peek(p) == '\n') {
        p->at++;
        p->line++;
    }
    p->line_at = p->at;
}

static bool marker_here(const struct parser *p, struct str marker)
{
    return column(p) == 0 && str_starts(str_sub(p->text, p->at, p->text.len), marker) &&
           gap_at(p, p->at + 3);
}

/* From the end of one line's content to the start of the next one's. */
static enum status next_content(struct parser *p)
{
    bool        more = false;
    enum status st   = STATUS_OK;
    while (!st && !more && peek(p) >= 0) {
        st = skip_to_end_of_line(p, &more);
        if (!st && !more) next_line(p);
    }
    return st;
}

/* What ends a line: nothing but blanks and a comment may follow a value. */
static enum status finish_line(struct parser *p)
{
    bool        more;
    enum status st = skip_to_end_of_line(p, &more);
    if (!st && more) st = fail(p, "something follows the end of the value");
    if (!st) st = next_content(p);
    if (!st && (marker_here(p, STR("---")) || marker_here(p, STR("..."))))
        st = fail(p, "more than one document in the file; only one is supported");
    return st;
}

/* A new last child of `parent`, in *last. */
static enum status node_new(struct parser *p, struct yaml *parent, struct yaml **last)
{
    if (parent->count == CHILDREN_MAX) return fail(p, "more than 10000 entries");
    if (p->perm->end - p->perm->begin < (i64)sizeof **last + 64)
        return fail(p, "too large for memory");
    struct yaml *v = NEW(p->perm, struct yaml, 1);
    v->line        = p->line;
    if (*last) (*last)->next = v;
    else parent->first = v;
    *last = v;
    parent->count++;
    return STATUS_OK;
}

/* ---- scalars ---- */

static bool is_flow_mark(int c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}'; }

/* Whether a ':', '-' or '?' before `at` stands alone there, and so has a meaning. */
static bool alone_before(const struct parser *p, i64 at, enum context where)
{
    return gap_at(p, at) || (where == FLOW && is_flow_mark(peek_at(p, at)));
}

/* Says what stands at the start of a plain scalar that may not. */
static const char *refusal(const struct parser *p, enum context where)
{
    int  c     = peek(p);
    bool alone = alone_before(p, p->at + 1, where);
    if (c == '&' || c == '*') return "anchors and aliases (& and *) are not supported";
    if (c == '!') return "tags (!) are not supported";
    if (c == '|' || c == '>') return "block scalars (| and >) are not supported; use quotes";
    if (c == '%' || c == '@' || c == '`') return "a value may not begin with %, @ or `; use quotes";
    if (c == '?' && alone) return "complex keys (?) are not supported";
    if (c == '-' && alone) return "a list item may not begin here; put it on a line of its own";
    if (c == ',') return "a value is missing before ','";
    if (c == ']' || c == '}') return "a bracket that nothing opened";
    if (c == '#') return "a comment needs a space before its '#'";
    if (c == ':' && alone) return "a key is missing before ':'";
    return NULL;
}

/* Where the plain scalar at `at` ends: at ": ", " #", the end of the line, in flow at a bracket. */
static i64 plain_end(const struct parser *p, i64 at, enum context where)
{
    i64 end = at;
    for (; !line_ends_at(p, at); at++) {
        int c = peek_at(p, at);
        if (comment_at(p, at) || c == '\t') break;
        if (c == ':' && alone_before(p, at + 1, where)) break;
        if (where == FLOW && is_flow_mark(c)) break;
        if (c != ' ') end = at + 1;
    }
    return end;
}

static struct str take_plain(struct parser *p, enum context where)
{
    i64        end = plain_end(p, p->at, where);
    struct str s   = str_sub(p->text, p->at, end);
    p->at          = end;
    return s;
}

/* Where the quoted scalar at `at` ends, behind its closing quote; -1 if not on this line. */
static i64 quoted_end(const struct parser *p, i64 at)
{
    int quote = peek_at(p, at);
    for (at++; !line_ends_at(p, at); at++) {
        int c = peek_at(p, at);
        if (c == '\\' && quote == '"') at++;
        else if (c == quote && quote == '\'' && peek_at(p, at + 1) == '\'') at++;
        else if (c == quote) return at + 1;
    }
    return -1;
}

/* One escape of a double-quoted scalar, behind its backslash. Returns bytes written, 0: unknown. */
static i64 take_escape(struct parser *p, char *to)
{
    static const char plain[] = "0abtnvfre\"/\\ ", meaning[] = "\0\a\b\t\n\v\f\r\033\"/\\ ";
    int               c     = peek(p);
    const char       *found = c > 0 ? strchr(plain, c) : NULL;
    p->at++;
    if (found) {
        to[0] = meaning[found - plain];
        return 1;
    }
    i64 digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    u32 code   = 0;
    if (!str_hex(str_sub(p->text, p->at, p->at + digits), &code)) return 0;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
    p->at += digits;
    return str_utf8_put(to, code);
}

static enum status take_quoted(struct parser *p, struct str *out)
{
    int quote = peek(p);
    i64 end   = quoted_end(p, p->at);
    if (end < 0) return fail(p, "the quote is not closed on this line");
    if (p->perm->end - p->perm->begin < end - p->at) return fail(p, "too large for memory");
    char *to  = NEW(p->perm, char, end - p->at); /* decoding never lengthens */
    i64   len = 0;
    for (p->at++; p->at < end - 1;) {
        int c = peek(p);
        p->at++;
        if (c == '\\' && quote == '"') {
            i64 bytes = take_escape(p, to + len);
            if (!bytes || p->at > end - 1) return fail(p, "an escape that is not supported");
            len += bytes;
        } else {
            to[len++] = (char)c;
            p->at += c == '\'' && quote == '\''; /* '' stands for ' */
        }
    }
    p->at = end;
    *out  = (struct str){ to, len };
    return STATUS_OK;
}

static bool is_null(struct str s)
{
    return str_eq(s, STR("~")) || str_eq(s, STR("null")) || str_eq(s, STR("Null")) ||
           str_eq(s, STR("NULL"));
}

static enum status parse_scalar(struct parser *p, struct yaml *v, enum context where)
{
    v->kind   = YAML_SCALAR;
    v->quoted = peek(p) == '"' || peek(p) == '\'';
    if (v->quoted) return take_quoted(p, &v->text);
    const char *no = refusal(p, where);
    if (no) return fail(p, no);
    v->text = take_plain(p, where);
    if (is_null(v->text)) v->text = STR("");
    return STATUS_OK;
}

/* ---- keys ---- */

static bool quote_at(const struct parser *p, i64 at)
{
    return peek_at(p, at) == '"' || peek_at(p, at) == '\'';
}

/* Whether a key and its ':' stand here. */
static bool key_here(const struct parser *p)
{
    if (is_flow_mark(peek(p))) return false;
    i64 end = quote_at(p, p->at) ? quoted_end(p, p->at) : plain_end(p, p->at, BLOCK);
    while (end >= 0 && peek_at(p, end) == ' ') end++;
    return end > p->at && peek_at(p, end) == ':' && gap_at(p, end + 1);
}

static enum status check_key(struct parser *p, const struct yaml *map, const struct yaml *v)
{
    for (const struct yaml *w = map->first; w != v; w = w->next)
        if (str_eq(w->key, v->key))
            return err_set(p->err, STATUS_USAGE,
                           "%.*s:%d: the key %.*s was already given in line %d", STR_ARG(p->file),
                           v->line, (int)MIN(v->key.len, 80), v->key.data, w->line);
    return STATUS_OK;
}

static enum status take_key(struct parser *p, const struct yaml *map, struct yaml *v,
                            enum context where)
{
    enum status st = STATUS_OK;
    const char *no = quote_at(p, p->at) ? NULL : refusal(p, where);
    if (no) return fail(p, no);
    if (quote_at(p, p->at)) st = take_quoted(p, &v->key);
    else v->key = take_plain(p, where);
    if (!st && v->key.len == 0) st = fail(p, "a key is empty");
    if (!st) st = check_key(p, map, v);
    return st ? st : skip_blanks(p);
}

/* ---- flow: [a, b] and {a: 1} ---- */

static enum status skip_flow_gap(struct parser *p)
{
    bool more = false;
    while (!more) {
        enum status st = skip_to_end_of_line(p, &more);
        if (st) return st;
        if (!more && peek(p) < 0) return fail(p, "the file ends inside [ ] or { }");
        if (!more) next_line(p);
    }
    return STATUS_OK;
}

static enum status parse_flow(struct parser *p, struct yaml *v);

static enum status parse_flow_value(struct parser *p, struct yaml *v)
{
    if (peek(p) == '[' || peek(p) == '{') return parse_flow(p, v);
    return parse_scalar(p, v, FLOW);
}

static enum status parse_flow_entry(struct parser *p, struct yaml *map, struct yaml *v)
{
    enum status st = STATUS_OK;
    if (map->kind == YAML_MAP) {
        bool quoted = quote_at(p, p->at);
        st          = take_key(p, map, v, FLOW);
        if (st) return st;
        if (peek(p) != ':') return fail(p, "expected ': ' after the key");
        p->at++;
        if (!quoted && !alone_before(p, p->at, FLOW)) return fail(p, "expected a space after ':'");
        st = skip_flow_gap(p);
        if (!st && (peek(p) == ',' || peek(p) == '}')) return STATUS_OK; /* null */
    }
    if (!st) st = parse_flow_value(p, v);
    return st ? st : skip_flow_gap(p);
}

static enum status parse_flow(struct parser *p, struct yaml *v)
{
    struct yaml *last = NULL;
    int          end  = peek(p) == '[' ? ']' : '}';
    v->kind           = end == ']' ? YAML_LIST : YAML_MAP;
    if (p->depth == DEPTH_MAX) return fail(p, "more than 64 levels deep");
    p->depth++;
    p->at++;
    enum status st = skip_flow_gap(p);
    while (!st && peek(p) != end) {
        st = node_new(p, v, &last);
        if (!st) st = parse_flow_entry(p, v, last);
        if (st || peek(p) == end) break;
        if (peek(p) != ',')
            return fail(p, end == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
        p->at++;
        st = skip_flow_gap(p);
    }
    p->at++;
    p->depth--;
    return st;
}

/* ---- blocks ---- */

static enum status parse_block(struct parser *p, struct yaml *v);

static bool dash_here(const struct parser *p) { return peek(p) == '-' && gap_at(p, p->at + 1); }

/* A value on the rest of a line. */
static enum status parse_inline(struct parser *p, struct yaml *v)
{
    bool        flow = peek(p) == '[' || peek(p) == '{';
    enum status st   = flow ? parse_flow(p, v) : parse_scalar(p, v, BLOCK);
    return st ? st : finish_line(p);
}

static enum status parse_list(struct parser *p, struct yaml *v)
{
    struct yaml *last = NULL;
    i64          here = column(p);
    enum status  st   = STATUS_OK;
    v->kind           = YAML_LIST;
    while (!st && column(p) == here && dash_here(p)) {
        bool more = false;
        st        = node_new(p, v, &last);
        p->at++;
        if (!st) st = skip_to_end_of_line(p, &more);
        if (!st && !more) st = next_content(p);
        if (!st && column(p) > here) st = parse_block(p, last); /* else null */
    }
    return st;
}

static enum status parse_member(struct parser *p, i64 here, const struct yaml *map, struct yaml *v)
{
    bool        more = false;
    enum status st   = take_key(p, map, v, BLOCK);
    p->at++; /* the ':', which key_here has seen */
    if (!st) st = skip_to_end_of_line(p, &more);
    if (!st && more && key_here(p))
        st = fail(p, "a second key on the line; begin a new one or use {}");
    if (!st && more) return parse_inline(p, v);
    if (!st) st = next_content(p);
    if (!st && column(p) > here) return parse_block(p, v);
    if (!st && column(p) == here && dash_here(p))
        return parse_list(p, v); /* a list may stand as far left as its key */
    return st;                   /* null */
}

static enum status parse_map(struct parser *p, struct yaml *v)
{
    struct yaml *last = NULL;
    i64          here = column(p);
    enum status  st   = STATUS_OK;
    v->kind           = YAML_MAP;
    while (!st && column(p) == here) {
        if (dash_here(p)) return fail(p, "a list item where a key should be");
        if (!key_here(p)) return fail(p, "expected 'key: value'");
        st = node_new(p, v, &last);
        if (!st) st = parse_member(p, here, v, last);
    }
    return st;
}

/* Blanks at the start of the last line with content before this one. */
static i64 indent_above(const struct parser *p)
{
    i64 at = p->line_at, indent = 0;
    while (at > 0) {
        i64 begin = at - 1;
        while (begin > 0 && p->text.data[begin - 1] != '\n') begin--;
        for (indent = 0; p->text.data[begin + indent] == ' ';) indent++;
        int first = peek_at(p, begin + indent);
        if (first != '\n' && first != '\r' && first != '#') break;
        at = begin;
    }
    return indent;
}

static enum status fail_indent(struct parser *p)
{
    i64         here = column(p), above = indent_above(p);
    const char *more = here > above ? ", and a value must end on its line" : "";
    return err_set(p->err, STATUS_USAGE,
                   "%.*s:%d: indented by %lld space%s, but the line above by %lld: keys of one "
                   "section need the same indentation%s",
                   STR_ARG(p->file), p->line, (long long)here, here == 1 ? "" : "s",
                   (long long)above, more);
}

/* A list, a map or one value that begins here; ends before the next line further left. */
static enum status parse_block(struct parser *p, struct yaml *v)
{
    i64         here = column(p);
    enum status st;
    if (p->depth == DEPTH_MAX) return fail(p, "more than 64 levels deep");
    p->depth++;
    if (dash_here(p)) {
        st = parse_list(p, v);
    } else if (key_here(p)) {
        st = parse_map(p, v);
    } else {
        st = parse_inline(p, v);
    }
    p->depth--;
    if (!st && column(p) > here) st = fail_indent(p);
    return st;
}

/* ---- the whole ---- */

/* Every byte is looked at once here, so that the parser need not think of bad ones. */
static enum status check_text(struct parser *p)
{
    i32 line = 1;
    if (p->text.len > TEXT_BYTES_MAX) return fail(p, "the file is larger than 1 MiB");
    for (i64 at = 0; at < p->text.len;) {
        i64 next = str_utf8_end(p->text, at);
        int c    = peek_at(p, at);
        if (next < 0) return fail_at(p, line, "bytes that are not UTF-8");
        if ((c < 0x20 && c != '\t' && !line_ends_at(p, at)) || c == 0x7F)
            return fail_at(p, line, "a control character");
        line += c == '\n';
        at = next;
    }
    return STATUS_OK;
}

enum status yaml_parse(struct arena *perm, struct str file, struct str text, struct yaml **root,
                       struct err *err)
{
    struct str    bom = STR("\xEF\xBB\xBF"); /* some editors begin a file with it */
    struct parser p   = { .perm = perm, .file = file, .text = text, .line = 1, .err = err };
    struct yaml   top = { 0 }, *v = NULL;
    *root = NULL;
    if (str_starts(text, bom)) p.at = p.line_at = bom.len;
    enum status st = check_text(&p);
    if (!st) st = next_content(&p);
    if (!st && marker_here(&p, STR("---"))) { /* the start of the one document */
        p.at += 3;
        st = finish_line(&p);
    }
    if (!st) st = node_new(&p, &top, &v);
    i64 first = column(&p);
    if (!st && first != END) st = parse_block(&p, v);
    if (!st && column(&p) != END)
        st = column(&p) == first ? fail(&p, "expected a list item, '- …', as above")
                                 : fail_indent(&p);
    if (!st) *root = v;
    return st;
}

struct yaml *yaml_get(const struct yaml *map, struct str key)
{
    if (!map || map->kind != YAML_MAP) return NULL;
    for (struct yaml *v = map->first; v; v = v->next)
        if (str_eq(v->key, key)) return v;
    return NULL;
}
