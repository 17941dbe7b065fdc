/* pattern.c - counts the nodes of a POSIX extended expression with its repeats written out. */
#include "supervise/pattern.h"
#include <string.h>

struct counted {
    i64  nodes;      /* of this group so far */
    i64  last;       /* of them, what a repeat would repeat; 0: there is nothing */
    bool last_empty; /* that may match nothing */
    bool before;     /* and so may all before it, in this alternative */
    bool other;      /* and so may another alternative */
};

static const struct counted nothing = { .last_empty = true, .before = true };
static const i64            plenty  = (i64)1 << 40; /* products of two of them still fit */

static bool may_be_empty(const struct counted *c)
{
    return c->other || (c->before && c->last_empty);
}

static void add(struct counted *c, i64 nodes, bool empty)
{
    c->before     = c->before && c->last_empty;
    c->last       = nodes;
    c->last_empty = empty;
    c->nodes      = MIN(c->nodes + nodes, plenty);
}

static void alternative(struct counted *c)
{
    *c = (struct counted){
        .nodes = c->nodes + 1, .last_empty = true, .before = true, .other = may_be_empty(c)
    };
}

static void repeat(struct counted *c, i64 times, bool optional)
{
    i64 all       = MIN(c->last * MIN(times, PATTERN_NODES_MAX + 1), plenty) + 1;
    c->nodes      = MIN(c->nodes - c->last + all, plenty);
    c->last       = all;
    c->last_empty = optional;
}

/* Behind the "[" of a bracket expression: where it ends. */
static i64 bracket_end(struct str p, i64 i)
{
    if (i < p.len && p.data[i] == '^') i++;
    if (i < p.len && p.data[i] == ']') i++;
    while (i < p.len && p.data[i] != ']') {
        char kind  = i + 1 < p.len ? p.data[i + 1] : '\0';
        bool named = p.data[i] == '[' && (kind == ':' || kind == '.' || kind == '=');
        if (!named) i++;
        for (i += named ? 2 : 0; named && i < p.len; i++)
            if (p.data[i - 1] == kind && p.data[i] == ']') break;
        if (named) i++;
    }
    return MIN(i + 1, p.len);
}

/* Behind the "{": the larger number of "m}", "m,}", "m,n}" and whether the first is 0; *end is where it
 * ends. -1: none, a plain brace. */
static i64 braces(struct str p, i64 i, i64 *end, bool *optional)
{
    i64  number = 0, largest = 0;
    bool first = true;
    *optional  = true;
    for (; i < p.len && p.data[i] != '}'; i++) {
        bool digit = p.data[i] >= '0' && p.data[i] <= '9';
        if (!digit && p.data[i] != ',') return -1;
        number  = digit ? MIN(number * 10 + (p.data[i] - '0'), plenty) : 0;
        largest = MAX(largest, number);
        first   = first && digit;
        if (first) *optional = !number;
    }
    *end = i + 1;
    return i < p.len ? largest : -1;
}

/* What follows a backslash: a place between characters, or a character. */
static bool is_place(char c) { return c && strchr("bB<>`'", c); }

/* A repeat of what may match nothing, (a*)*, makes a circle without a character in it, on which the C
 * library's compiler takes exponential time; without one its work is bounded by the nodes. */
const char *pattern_refused(struct str p)
{
    struct counted stack[PATTERN_DEEP_MAX + 1] = { nothing }, *c = stack;
    if (p.len > PATTERN_BYTES_MAX) return "it is longer than 1,000 bytes";
    for (i64 i = 0; i < p.len;) {
        char at = p.data[i++], next = i < p.len ? p.data[i] : '\0';
        i64  end      = i;
        bool optional = at == '*' || at == '?';
        i64  times = optional ? 1 : at == '+' ? 2 : at == '{' ? braces(p, i, &end, &optional) : -1;
        if (at == '(' && c == stack + PATTERN_DEEP_MAX)
            return "it has more than 16 groups in groups";
        if (times >= 0 && c->last_empty)
            return "it repeats an expression that may match nothing, such as (a*)+ or .*? (there "
                   "are no lazy repeats here)";
        if (at == '\\' && next >= '1' && next <= '9')
            return "it refers back to a group (\\1)"; /* which takes exponential time */
        if (at == '(') *++c = nothing;
        else if (at == ')' && c > stack) c--, add(c, c[1].nodes + 1, may_be_empty(&c[1]));
        else if (at == '|') alternative(c);
        else if (times >= 0) repeat(c, MAX(times, 1) + (at == '{'), optional), i = end;
        else add(c, 1, at == '^' || at == '$' || (at == '\\' && is_place(next)));
        if (at == '\\' && i < p.len) i++;
        if (at == '[') i = bracket_end(p, i);
    }
    i64 all = 0;
    for (; c >= stack; c--) all = MIN(all + c->nodes, plenty);
    return all > PATTERN_NODES_MAX ? "its repeats expand to more than 1,000 nodes" : NULL;
}
