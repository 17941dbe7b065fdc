/* xml.c - a reader as small as the replies it is for. */
#include "remote/xml.h"
#include <string.h>

static i64 find_text(struct str s, i64 from, struct str what)
{
    for (i64 i = from; i + what.len <= s.len; i++)
        if (memcmp(s.data + i, what.data, (size_t)what.len) == 0) return i;
    return -1;
}

enum tag_kind { TAG_NONE, TAG_OPEN, TAG_CLOSE, TAG_EMPTY };

struct tag {
    enum tag_kind kind;
    struct str    name;
    i64           begin, end; /* of the tag itself */
};

/* What begins with <! or <? ends here; -1: nowhere. */
static i64 skip_markup(struct str s, i64 at)
{
    struct str rest  = str_sub(s, at, s.len);
    struct str close = str_starts(rest, STR("<!--"))        ? STR("-->")
                       : str_starts(rest, STR("<![CDATA[")) ? STR("]]>")
                                                            : STR(">");
    i64        end   = find_text(s, at + 2, close);
    return end < 0 ? -1 : end + close.len;
}

static struct tag next_tag(struct str s, i64 at)
{
    for (;;) {
        at = find_text(s, at, STR("<"));
        if (at < 0 || at + 1 >= s.len) return (struct tag){ 0 };
        if (s.data[at + 1] != '!' && s.data[at + 1] != '?') break;
        at = skip_markup(s, at);
        if (at < 0) return (struct tag){ 0 };
    }
    i64 end = find_text(s, at, STR(">"));
    if (end < 0) return (struct tag){ 0 };
    struct tag t = { TAG_OPEN, str_sub(s, at + 1, end), at, end + 1 };
    if (str_starts(t.name, STR("/"))) {
        t.kind = TAG_CLOSE;
        t.name = str_sub(t.name, 1, t.name.len);
    } else if (str_ends(t.name, STR("/"))) {
        t.kind = TAG_EMPTY;
        t.name.len--;
    }
    for (i64 i = 0; i < t.name.len; i++)
        if (strchr(" \t\r\n", t.name.data[i])) t.name.len = i; /* attributes begin */
    i64 colon = str_find(t.name, ':');
    t.name    = str_sub(t.name, colon + 1, t.name.len);
    return t;
}

bool xml_next(struct str *rest, struct xml *out)
{
    struct str s     = *rest;
    struct tag first = next_tag(s, 0), t;
    if (first.kind == TAG_EMPTY) {
        *out  = (struct xml){ first.name, str_sub(s, first.end, first.end),
                              str_sub(s, first.begin, first.end) };
        *rest = str_sub(s, first.end, s.len);
        return true;
    }
    if (first.kind != TAG_OPEN) return false;
    i64 depth = 1;
    for (t = first; depth > 0;) {
        t = next_tag(s, t.end);
        if (t.kind == TAG_NONE) return false;
        depth += (t.kind == TAG_OPEN) - (t.kind == TAG_CLOSE);
    }
    if (!str_eq(t.name, first.name)) return false;
    *out =
        (struct xml){ first.name, str_sub(s, first.end, t.begin), str_sub(s, first.begin, t.end) };
    *rest = str_sub(s, t.end, s.len);
    return true;
}

struct str xml_child(struct str inner, struct str name)
{
    struct xml x;
    while (xml_next(&inner, &x))
        if (str_eq(x.name, name)) return x.inner;
    return (struct str){ 0 };
}

static const struct entity {
    struct str code;
    char       c;
} entities[] = { { STR_INIT("&amp;"), '&' },   { STR_INIT("&lt;"), '<' },
                 { STR_INIT("&gt;"), '>' },    { STR_INIT("&quot;"), '"' },
                 { STR_INIT("&apos;"), '\'' }, { STR_INIT("&#34;"), '"' },
                 { STR_INIT("&#39;"), '\'' } };

struct str xml_text(struct arena *perm, struct str inner)
{
    char *to  = NEW(perm, char, inner.len + 1);
    i64   len = 0;
    for (i64 at = 0; at < inner.len;) {
        struct str rest = str_sub(inner, at, inner.len);
        to[len]         = inner.data[at++];
        for (i64 i = 0; i < COUNT_OF(entities); i++)
            if (str_starts(rest, entities[i].code)) {
                to[len] = entities[i].c;
                at += entities[i].code.len - 1;
                break;
            }
        len++;
    }
    return str_trim((struct str){ to, len });
}

void xml_escape(struct textbuf *b, struct str text)
{
    for (i64 i = 0; i < text.len; i++) {
        struct str c = str_sub(text, i, i + 1);
        for (i64 e = 0; e < 5; e++)
            if (entities[e].c == text.data[i]) c = entities[e].code;
        textbuf_add(b, c);
    }
}
