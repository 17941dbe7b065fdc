/* option_value.c - a setting's value from YAML or text into its field, and back into text. */
#include "base/json.h"
#include "remote/address.h"
#include "train/options.h"
#include <math.h>
#include <strings.h>

static void *field_of(struct settings *s, size_t offset) { return (char *)s + offset; }

static const void *field_in(const struct settings *s, size_t offset)
{
    return (const char *)s + offset;
}

/* One of the choices may be an interval of whole numbers. */
static bool in_choices(struct str choices, struct str word)
{
    struct str      one;
    struct interval range;
    i64             number;
    while (str_cut(&choices, '|', &one))
        if (str_eq(one, word) || (interval_parse(one, &range) && str_i64(word, &number) &&
                                  interval_has(range, (f64)number)))
            return true;
    return false;
}

static bool bool_parse(struct str text, bool *out)
{
    static const struct {
        const char *word;
        bool        value;
    } words[] = { { "true", true }, { "false", false }, { "yes", true }, { "no", false } };
    for (i64 i = 0; i < COUNT_OF(words); i++)
        if (str_eq(str_of(words[i].word), text)) return *out = words[i].value, true;
    return false;
}

/* One of the words, or yes and no where true and false are among them. */
static bool choice_parse(const struct option *o, struct str text, struct str *out,
                         struct arena *perm)
{
    bool truth;
    if (!in_choices(o->allowed, text) && bool_parse(text, &truth))
        text = truth ? STR("true") : STR("false");
    if (!in_choices(o->allowed, text)) return false;
    *out = str_copy(perm, text);
    return true;
}

static bool number_in(const struct option *o, f64 value)
{
    struct interval i;
    ASSERT(interval_parse(o->allowed, &i));
    return interval_has(i, value);
}

static bool int_parse(const struct option *o, const struct yaml *v, i64 *out)
{
    i64        value = 0;
    struct str word  = option_zero_word(o);
    if (word.len && str_eq(v->text, word)) return *out = 0, true;
    bool ok = v->kind == YAML_SCALAR && !v->quoted && str_i64(v->text, &value);
    if (!ok || !number_in(o, (f64)value)) return false;
    *out = value;
    return true;
}

static bool float_parse(const struct option *o, const struct yaml *v, f64 *out)
{
    f64 value = 0;
    if (v->quoted) return false;
    if (str_eq(o->initial, STR("none")) && str_eq(v->text, STR("none"))) return *out = NAN, true;
    if (!str_f64(v->text, &value) || !number_in(o, value)) return false;
    *out = value;
    return true;
}

/* The node is a scalar; false: it is not of the kind. */
static bool scalar_set(const struct option *o, void *field, const struct yaml *v,
                       struct arena *perm)
{
    switch (o->kind) {
    case OPTION_INT: return int_parse(o, v, field);
    case OPTION_FLOAT: return float_parse(o, v, field);
    case OPTION_BOOL: return !v->quoted && bool_parse(v->text, field);
    case OPTION_TEXT: *(struct str *)field = str_copy(perm, v->text); return true;
    case OPTION_CHOICE: return choice_parse(o, v->text, field, perm);
    case OPTION_DTYPE: return in_choices(o->allowed, v->text) && dtype_parse(v->text, field);
    default: ASSERT(!"not a scalar"); return false;
    }
}

static bool list_set(const struct option *o, struct settings *s, const struct yaml *v,
                     struct arena *perm)
{
    i64               *count = field_of(s, o->count_offset), n = 0;
    i64               *ints  = field_of(s, o->offset);
    struct str        *texts = field_of(s, o->offset);
    const struct yaml *item  = v->kind == YAML_LIST ? v->first : v; /* one item needs no brackets */

    for (; item; item = v->kind == YAML_LIST ? item->next : NULL, n++) {
        if (n == o->count_max || item->kind != YAML_SCALAR) return false;
        if (o->kind == OPTION_INTS && !int_parse(o, item, &ints[n])) return false;
        if (o->kind == OPTION_TEXTS) texts[n] = str_copy(perm, item->text);
    }
    *count = n;
    return true;
}

/* What the user wrote, short enough for a sentence. */
static struct str shown(const struct yaml *v, struct arena *scratch)
{
    if (v->kind == YAML_LIST) return STR("a list");
    if (v->kind == YAML_MAP) return STR("a map");
    if (v->text.len == 0) return STR("empty");
    const char *quote = v->quoted ? "\"" : "";
    return str_fmt(scratch, "%s%.*s%s%s", quote, (int)MIN(v->text.len, 60), v->text.data,
                   v->text.len > 60 ? "..." : "", quote);
}

enum status option_set(const struct option *o, struct settings *s, const struct yaml *value,
                       struct arena *perm, struct err *err)
{
    bool ok = false;
    if (o->kind == OPTION_TREE) {
        ok = value->kind == YAML_LIST;
        if (ok) *(const struct yaml **)field_of(s, o->offset) = value;
    } else if (option_is_list(o)) {
        ok = list_set(o, s, value, perm);
    } else if (value->kind == YAML_SCALAR) {
        ok = scalar_set(o, field_of(s, o->offset), value, perm);
    }
    if (ok) return STATUS_OK;

    struct arena scratch = *perm; /* a copy: the sentence is finished before anyone else takes */
    struct str   got = shown(value, &scratch), expected = option_expects(o, &scratch);
    return err_set(err, STATUS_USAGE, "%.*s is %.*s; expected %.*s, like %.*s", STR_ARG(o->key),
                   STR_ARG(got), STR_ARG(expected), STR_ARG(o->example));
}

enum status option_set_text(const struct option *o, struct settings *s, struct str text,
                            struct arena *perm, struct err *err)
{
    struct yaml  scalar = { .kind = YAML_SCALAR, .text = text, .line = 1 };
    struct yaml *root   = &scalar;
    if (option_is_list(o) || o->kind == OPTION_TREE) {
        bool bare      = !str_starts(str_trim(text), STR("["));
        text           = str_fmt(perm, bare ? "[%.*s]" : "%.*s", STR_ARG(text));
        enum status st = yaml_parse(perm, o->key, text, &root, err);
        if (st) return st;
        ASSERT(root);
    }
    return option_set(o, s, root, perm, err);
}

static struct str f64_text(f64 v, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    if (isnan(v)) return STR("none");
    if (v == rint(v) && fabs(v) < 1e15) textbuf_fmt(&b, "%.0f", v);
    else textbuf_f64(&b, v);
    return textbuf_str(&b);
}

/* Text inside brackets: quoted where YAML would read it otherwise. */
static void add_word(struct textbuf *b, struct str s, bool quoted)
{
    static const struct str special = STR_INIT(",[]{}:#\"'\\&*!|>%@`?~");
    bool plain = !quoted && s.len > 0 && str_trim(s).len == s.len && s.data[0] != '-';
    if (s.len == 4 && strncasecmp(s.data, "null", 4) == 0) plain = false;
    for (i64 i = 0; i < s.len; i++)
        if ((unsigned char)s.data[i] < ' ' || str_find(special, s.data[i]) >= 0) plain = false;
    if (plain) textbuf_add(b, s);
    else json_add_string(b, s);
}

static void add_tree(struct textbuf *b, const struct yaml *v)
{
    if (v->kind == YAML_SCALAR) {
        add_word(b, v->text, v->quoted);
        return;
    }
    textbuf_fmt(b, v->kind == YAML_LIST ? "[" : "{");
    for (const struct yaml *c = v->first; c; c = c->next) {
        if (v->kind == YAML_MAP) {
            add_word(b, c->key, false);
            textbuf_fmt(b, ": ");
        }
        add_tree(b, c);
        if (c->next) textbuf_fmt(b, ", ");
    }
    textbuf_fmt(b, v->kind == YAML_LIST ? "]" : "}");
}

static struct str list_text(const struct option *o, const struct settings *s, struct arena *perm)
{
    const i64        *ints  = field_in(s, o->offset);
    const struct str *texts = field_in(s, o->offset);
    i64               count = *(const i64 *)field_in(s, o->count_offset);
    struct textbuf    b     = textbuf_new(perm);
    textbuf_fmt(&b, "[");
    for (i64 i = 0; i < count; i++) {
        if (i) textbuf_fmt(&b, ", ");
        bool word = o->kind == OPTION_INTS && !ints[i] && option_zero_word(o).len;
        if (word) textbuf_add(&b, option_zero_word(o));
        else if (o->kind == OPTION_INTS) textbuf_fmt(&b, "%lld", (long long)ints[i]);
        else add_word(&b, texts[i], false);
    }
    textbuf_fmt(&b, "]");
    return textbuf_str(&b);
}

struct str option_get_text(const struct option *o, const struct settings *s, struct arena *perm)
{
    const void *field = field_in(s, o->offset);
    switch (o->kind) {
    case OPTION_INT:
        if (!*(const i64 *)field && option_zero_word(o).len) return option_zero_word(o);
        return str_fmt(perm, "%lld", (long long)*(const i64 *)field);
    case OPTION_FLOAT: return f64_text(*(const f64 *)field, perm);
    case OPTION_BOOL: return *(const bool *)field ? STR("true") : STR("false");
    case OPTION_TEXT:
    case OPTION_CHOICE: return *(const struct str *)field;
    case OPTION_DTYPE: return dtype_name(*(const enum dtype *)field);
    case OPTION_INTS:
    case OPTION_TEXTS: return list_text(o, s, perm);
    case OPTION_TREE: break;
    }
    struct textbuf     b    = textbuf_new(perm);
    const struct yaml *tree = *(struct yaml *const *)field;
    if (tree) add_tree(&b, tree);
    return textbuf_str(&b);
}

struct str option_shown_text(const struct option *o, const struct settings *s, struct arena *perm)
{
    return address_redacted(perm, option_get_text(o, s, perm));
}
