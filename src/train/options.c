/* options.c - the table of settings, and how to find a row. */
#include "train/options.h"
#include <ctype.h>
#include <math.h>

/* The type that each kind of row asks of its field. */
#define FIELD(field) (((struct settings *)0)->field)
#define IS_INT(f) _Generic(f, i64 : 1, u64 : 1, default : 0)
#define IS_FLOAT(f) _Generic(f, f64 : 1, default : 0)
#define IS_BOOL(f) _Generic(f, bool : 1, default : 0)
#define IS_TEXT(f) _Generic(f, struct str : 1, default : 0)
#define IS_CHOICE(f) IS_TEXT(f)
#define IS_DTYPE(f) _Generic(f, enum dtype : 1, default : 0)
#define IS_TREE(f) _Generic(f, struct yaml * : 1, default : 0)
#define IS_INTS(f) _Generic(f, i64 * : 1, default : 0)
#define IS_TEXTS(f) _Generic(f, struct str * : 1, default : 0)

#define SCALAR(kind, field, ...)                                                                   \
    _Static_assert(IS_##kind(FIELD(field)), #field " is not of that kind");
#define LIST(kind, field, count_field, ...)                                                        \
    _Static_assert(IS_##kind(FIELD(field)), #field " is not of that kind");                        \
    _Static_assert(IS_INT(FIELD(count_field)), #count_field " does not count");
#include "train/options.def"

const struct option options[OPTION_COUNT] = {
/* clang-format off */
#define SCALAR(kind, field, initial, allowed, example, resume, needs, help, more)                  \
    { STR_INIT(#field), OPTION_##kind, offsetof(struct settings, field), 0, 0, STR_INIT(initial),  \
      STR_INIT(allowed), STR_INIT(example), RESUME_##resume, STR_INIT(needs), STR_INIT(help), STR_INIT(more) },
#define LIST(kind, field, count_field, initial, allowed, example, resume, needs, help, more)       \
    { STR_INIT(#field), OPTION_##kind, offsetof(struct settings, field),                           \
      offsetof(struct settings, count_field), COUNT_OF(FIELD(field)), STR_INIT(initial),           \
      STR_INIT(allowed), STR_INIT(example), RESUME_##resume, STR_INIT(needs), STR_INIT(help), STR_INIT(more) },
/* clang-format on */
#include "train/options.def"
};

const struct option *option_find(struct str key)
{
    for (i64 i = 0; i < OPTION_COUNT; i++)
        if (str_eq(options[i].key, key)) return &options[i];
    return NULL;
}

struct str option_section(const struct option *o)
{
    return str_sub(o->key, 0, str_find(o->key, '.'));
}

struct str option_name(const struct option *o)
{
    return str_sub(o->key, str_find(o->key, '.') + 1, o->key.len);
}

bool option_is_list(const struct option *o) { return o->count_max > 0; }

bool option_is_number(const struct option *o)
{
    return o->kind == OPTION_INT || o->kind == OPTION_FLOAT || o->kind == OPTION_INTS;
}

static bool contains(struct str s, struct str part)
{
    for (i64 at = 0; at + part.len <= s.len; at++)
        if (str_eq(str_sub(s, at, at + part.len), part)) return true;
    return false;
}

/* How far a row is from a key that does not exist: spelling of the name, and 1 for another section,
 * where a short name must not be misspelt as well (model.dim is no checkpoint.dir). batch_size holds
 * "batch" (counts as 1), and the help of train.lr says "learning rate" (2). */
static i64 distance(const struct option *o, struct str section, struct str name, struct str words,
                    struct arena scratch)
{
    struct str ours = option_name(o);
    i64        d    = str_distance(ours, name, scratch);
    if (MIN(ours.len, name.len) >= 3 && (contains(name, ours) || contains(ours, name)))
        d = MIN(d, 1);
    if (words.len >= 3 && str_starts(o->help, words)) d = MIN(d, 2);
    bool other = !str_eq(option_section(o), section);
    if (other && section.len && d && name.len <= 3) d += 3;
    return 2 * d + other;
}

const struct option *option_nearest(struct str key, struct arena scratch)
{
    i64        dot     = str_find(key, '.');
    struct str section = str_sub(key, 0, MAX(dot, 0));
    struct str name    = str_sub(key, dot + 1, key.len);
    if (name.len > 64) return NULL; /* longer than any of ours: no slip of the finger */

    char *spaced = (char *)str_z(&scratch, name); /* ours alone: str_z copies */
    for (char *c = spaced; *c; c++)
        if (*c == '_') *c = ' ';

    const struct option *best   = NULL;
    i64                  best_d = 2 * (1 + name.len / 3) + 2; /* beyond it, no likeness */
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        i64 d = distance(&options[i], section, name, str_of(spaced), scratch);
        if (d < best_d) {
            best   = &options[i];
            best_d = d;
        }
    }
    return best;
}

static const struct {
    struct str old, new, remedy;
} gone[] = {
#define GONE(old, new, remedy) { STR_INIT(old), STR_INIT(new), STR_INIT(remedy) },
#include "train/gone.def"
};

static i64 gone_find(struct str key)
{
    for (i64 i = 0; i < COUNT_OF(gone); i++)
        if (str_eq(gone[i].old, key)) return i;
    return -1;
}

bool option_is_gone(struct str key) { return gone_find(key) >= 0; }

enum status option_unknown(struct str key, struct arena scratch, struct err *err)
{
    i64 i = gone_find(key);
    if (i >= 0)
        return err_set(err, STATUS_USAGE, "%.*s was %s%.*s: %.*s", STR_ARG(key),
                       gone[i].new.len ? "replaced by " : "removed", STR_ARG(gone[i].new),
                       STR_ARG(gone[i].remedy));
    const struct option *near = option_nearest(key, scratch);
    int                  len  = (int)MIN(key.len, 80);
    if (!near)
        return err_set(err, STATUS_USAGE, "unknown key %.*s; `frugal help options` lists them", len,
                       key.data);
    return err_set(err, STATUS_USAGE, "unknown key %.*s; did you mean %.*s?", len, key.data,
                   STR_ARG(near->key));
}

struct str option_environment(const struct option *o, struct arena *perm)
{
    struct str s    = str_cat(perm, STR("FRUGAL_"), o->key);
    char      *data = (char *)s.data; /* ours alone: str_cat copies */
    for (i64 i = 0; i < s.len; i++)
        data[i] = data[i] == '.' ? '_' : (char)toupper((unsigned char)data[i]);
    return s;
}

struct str option_needs_text(const struct option *o, struct arena *perm)
{
    bool without = str_starts(o->needs, STR("!"));
    return without ? str_cat(perm, STR("no "), str_sub(o->needs, 1, o->needs.len)) : o->needs;
}

struct str option_resume_text(const struct option *o)
{
    static const struct str words[] = {
        [RESUME_FREE]   = STR_INIT("may change"),
        [RESUME_END]    = STR_INIT("may change"),
        [RESUME_LENGTH] = STR_INIT("may change; not bit-exact with a schedule or data.pieces"),
        [RESUME_EVALS]  = STR_INIT("may change; not bit-exact where evaluations decide"),
        [RESUME_COURSE] = STR_INIT("may change, not bit-exact"),
        [RESUME_EQUAL]  = STR_INIT("must be equal")
    };
    return words[o->resume];
}

static bool bound_parse(struct str text, f64 *out)
{
    text = str_trim(text);
    if (str_eq(text, STR("inf"))) return *out = INFINITY, true;
    if (str_eq(text, STR("-inf"))) return *out = -INFINITY, true;
    return str_f64(text, out);
}

bool interval_parse(struct str text, struct interval *out)
{
    i64 bar = str_find(text, '|'); /* a word may follow */
    if (bar >= 0) text = str_sub(text, 0, bar);
    if (text.len < 2) return false;
    char first = text.data[0], last = text.data[text.len - 1];
    out->low_open   = first == '(';
    out->high_open  = last == ')';
    struct str rest = str_sub(text, 1, text.len - 1), low;
    return (first == '[' || first == '(') && (last == ']' || last == ')') &&
           str_cut(&rest, ',', &low) && bound_parse(low, &out->low) &&
           bound_parse(rest, &out->high) && out->low <= out->high;
}

bool interval_has(struct interval i, f64 value)
{
    return (i.low_open ? value > i.low : value >= i.low) &&
           (i.high_open ? value < i.high : value <= i.high);
}

static struct str interval_words(struct str text, struct arena *perm)
{
    struct interval i;
    ASSERT(interval_parse(text, &i));
    if (isinf(i.low) && isinf(i.high)) return STR("");
    if (isinf(i.high)) return str_fmt(perm, i.low_open ? " above %g" : " of at least %g", i.low);
    return str_fmt(perm, i.high_open ? " from %g to below %g" : " from %g to %g", i.low, i.high);
}

struct str option_zero_word(const struct option *o)
{
    bool whole = o->kind == OPTION_INT || o->kind == OPTION_INTS;
    i64  bar   = whole ? str_find(o->allowed, '|') : -1;
    return bar < 0 ? STR("") : str_sub(o->allowed, bar + 1, o->allowed.len);
}

/* "one of none|all|auto, or a whole number from 2 to 1024" */
static struct str choice_words(const struct option *o, struct arena *perm)
{
    i64 at = str_find(o->allowed, '[');
    if (at < 0) return str_fmt(perm, "one of %.*s", STR_ARG(o->allowed));
    struct str range = interval_words(str_sub(o->allowed, at, o->allowed.len), perm);
    return str_fmt(perm, "one of %.*s, or a whole number%.*s", (int)at - 1, o->allowed.data,
                   STR_ARG(range));
}

struct str option_expects(const struct option *o, struct arena *perm)
{
    struct str range = option_is_number(o) ? interval_words(o->allowed, perm) : STR("");
    switch (o->kind) {
    case OPTION_INT:
        return str_fmt(perm, "a whole number%.*s%s%.*s", STR_ARG(range),
                       option_zero_word(o).len ? " or " : "", STR_ARG(option_zero_word(o)));
    case OPTION_FLOAT:
        return str_fmt(perm, "a number%.*s%s", STR_ARG(range),
                       str_eq(o->initial, STR("none")) ? " or none" : "");
    case OPTION_BOOL: return STR("true or false");
    case OPTION_TEXT: return str_fmt(perm, "a text (%.*s)", STR_ARG(o->allowed));
    case OPTION_CHOICE: return choice_words(o, perm);
    case OPTION_DTYPE: return str_fmt(perm, "one of %.*s", STR_ARG(o->allowed));
    case OPTION_INTS:
        return str_fmt(perm, "a list of whole numbers%.*s%s%.*s, %lld of them at most",
                       STR_ARG(range), option_zero_word(o).len ? " or " : "",
                       STR_ARG(option_zero_word(o)), (long long)o->count_max);
    case OPTION_TEXTS:
        return str_fmt(perm, "a list of texts (%.*s), %lld of them at most", STR_ARG(o->allowed),
                       (long long)o->count_max);
    case OPTION_TREE: return STR("a list");
    }
    ASSERT(!"a kind without words");
    return STR("");
}
