/* sweep_plan.c - the trials of a sweep from sweep.over.
 *
 * With a count, draws are even in each setting (a Latin hypercube: McKay et al. 1979): the range, or
 * the list, is cut into `count` parts, and each is used by one trial, in an order of its own for each
 * setting. Without one, every combination of the lists is a trial. Draws are addressed by seed, key
 * and trial, so adding a setting leaves those of the others as they were. */
#include "base/rng.h"
#include "job/sweep.h"
#include <math.h>

static const u64 seed = 1; /* of the draws */

enum axis_kind { AXIS_LIST, AXIS_LINEAR, AXIS_LOG };

struct axis {
    const struct option *option;
    enum axis_kind       kind;
    const struct yaml   *first; /* LIST */
    i64                  count;
    f64                  low, high; /* ranges */
};

struct plan {
    struct axis axes[SWEEP_AXES_MAX];
    i64         axis_count;
    i64         combinations; /* of the lists; 0: there is a range, so no end of them */
};

static enum status range_read(struct axis *a, const struct yaml *v, struct err *err)
{
    const struct yaml *ends  = v->first;
    bool               log   = ends && str_eq(ends->key, STR("log"));
    bool               known = v->count == 1 && (log || str_eq(ends->key, STR("linear"))) &&
                 ends->kind == YAML_LIST && ends->count == 2;
    if (!known)
        return err_set(
            err, STATUS_USAGE,
            "%.*s: expected values in brackets, {log: [from, to]} or {linear: [from, to]}",
            STR_ARG(v->key));
    a->kind   = log ? AXIS_LOG : AXIS_LINEAR;
    bool read = str_f64(ends->first->text, &a->low) && str_f64(ends->first->next->text, &a->high);
    if (!read || !(a->low < a->high) || (log && a->low <= 0))
        return err_set(err, STATUS_USAGE, "%.*s: expected two numbers%s, the lower one first",
                       STR_ARG(v->key), log ? " above 0" : "");
    if (a->option->kind != OPTION_INT && a->option->kind != OPTION_FLOAT)
        return err_set(err, STATUS_USAGE, "%.*s is not a number: list its values in brackets",
                       STR_ARG(v->key));
    return STATUS_OK;
}

/* One item of sweep.over: a map with one key. */
static enum status axis_read(struct plan *p, const struct yaml *item, struct arena scratch,
                             struct err *err)
{
    if (p->axis_count == SWEEP_AXES_MAX)
        return err_set(err, STATUS_USAGE, "more than %d settings", SWEEP_AXES_MAX);
    if (item->kind != YAML_MAP || item->count != 1)
        return err_set(err, STATUS_USAGE,
                       "expected one setting per item, like - train.lr: [0.001, 0.01]");
    const struct yaml *v = item->first;
    struct axis       *a = &p->axes[p->axis_count++];
    *a = (struct axis){ .option = option_find(v->key), .first = v->first, .count = v->count };
    if (!a->option) return option_unknown(v->key, scratch, err);
    if (str_eq(option_section(a->option), STR("sweep")))
        return err_set(err, STATUS_USAGE, "%.*s cannot vary within a sweep", STR_ARG(v->key));
    for (i64 i = 0; i + 1 < p->axis_count; i++)
        if (p->axes[i].option == a->option)
            return err_set(err, STATUS_USAGE, "%.*s is given twice", STR_ARG(v->key));
    if (v->kind == YAML_LIST && v->count) return STATUS_OK;
    p->combinations = 0;
    return range_read(a, v->kind == YAML_MAP ? v : &(struct yaml){ .key = v->key }, err);
}

static enum status plan_read(struct plan *p, const struct yaml *over, struct arena scratch,
                             struct err *err)
{
    enum status st  = STATUS_OK;
    p->combinations = 1;
    for (const struct yaml *item = over ? over->first : NULL; item && !st; item = item->next)
        st = axis_read(p, item, scratch, err);
    for (i64 i = 0; i < p->axis_count && !st; i++) /* a product that stays small enough to count */
        p->combinations = MIN(p->combinations * p->axes[i].count, 2 * SWEEP_TRIALS_MAX);
    if (!st && !p->axis_count)
        st = err_set(err, STATUS_USAGE,
                     "nothing varies; try: sweep.over=[{train.lr: {log: [1e-4, 1e-1]}}]");
    return st;
}

static enum status axis_set(const struct axis *a, struct settings *s, f64 where, struct arena *perm,
                            struct err *err)
{
    if (a->kind == AXIS_LIST) {
        const struct yaml *v = a->first;
        for (i64 i = MIN((i64)(where * (f64)a->count), a->count - 1); i > 0; i--) v = v->next;
        return option_set(a->option, s, v, perm, err);
    }
    f64  value = a->kind == AXIS_LOG ? a->low * pow(a->high / a->low, where)
                                     : a->low + (a->high - a->low) * where;
    bool whole = a->option->kind == OPTION_INT;
    return option_set_text(a->option, s, str_fmt(perm, whole ? "%.0f" : "%.4g", value), perm, err);
}

/* Where on an axis, from 0 to below 1, a trial lies. */
static f64 place(const struct plan *p, i64 axis, i64 trial, i64 count, bool draws)
{
    u64 name = str_hash(p->axes[axis].option->key);
    if (draws) {
        i64 part = rng_permute(seed ^ name, 0, trial, count);
        f64 in   = rng_uniform((struct rng_key){ .seed = seed, .name = name }, (u64)trial);
        return ((f64)part + in) / (f64)count;
    }
    for (i64 i = p->axis_count - 1; i > axis; i--) trial /= p->axes[i].count;
    return ((f64)(trial % p->axes[axis].count) + 0.5) / (f64)p->axes[axis].count;
}

static bool needs_quotes(struct str s)
{
    static const struct str plain = STR_INIT("_-+./:=,@%");
    for (i64 i = 0; i < s.len; i++) {
        bool letter = (s.data[i] | 32) >= 'a' && (s.data[i] | 32) <= 'z';
        bool digit  = s.data[i] >= '0' && s.data[i] <= '9';
        if (!letter && !digit && str_find(plain, s.data[i]) < 0) return true;
    }
    return false;
}

void add_shell_word(struct textbuf *b, struct str word)
{
    if (!needs_quotes(word)) {
        textbuf_add(b, word);
        return;
    }
    textbuf_fmt(b, "'");
    for (i64 i = 0; i < word.len; i++)
        if (word.data[i] == '\'') textbuf_fmt(b, "'\\''");
        else textbuf_fmt(b, "%c", word.data[i]);
    textbuf_fmt(b, "'");
}

static struct str words_of(const struct plan *p, const struct settings *s, struct arena *perm)
{
    struct arena   parts = arena_part(perm, 1 << 14);
    struct textbuf b     = textbuf_new(perm);
    for (i64 i = 0; i < p->axis_count; i++) {
        struct arena scratch = parts;
        struct str   value   = option_get_text(p->axes[i].option, s, &scratch);
        if (i) textbuf_fmt(&b, " ");
        add_shell_word(
            &b, str_fmt(&scratch, "%.*s=%.*s", STR_ARG(p->axes[i].option->key), STR_ARG(value)));
    }
    return textbuf_str(&b);
}

static bool seen_before(const struct sweep *s, struct str words)
{
    for (i64 i = 0; i < s->count; i++)
        if (str_eq(s->trials[i].words, words)) return true;
    return false;
}

static enum status plan_trials(struct sweep *s, const struct plan *p, struct arena *perm,
                               struct err *err)
{
    const struct sweep_config *c = &s->config->settings.sweep;
    bool draws                   = c->count && !(p->combinations && c->count >= p->combinations);
    i64  count                   = draws ? c->count : p->combinations;
    if (!count)
        return err_set(err, STATUS_USAGE,
                       "a range has infinitely many values: give the number of trials, "
                       "sweep.count=16");
    if (count > SWEEP_TRIALS_MAX)
        return err_set(err, STATUS_USAGE,
                       "more than %d combinations: give the number of trials, "
                       "sweep.count=64",
                       SWEEP_TRIALS_MAX);
    s->trials = NEW(perm, struct trial, count);
    for (i64 i = 0; i < count; i++) {
        struct trial *t = &s->trials[s->count];
        *t              = (struct trial){ .number = s->count + 1, .settings = s->config->settings };
        for (i64 k = 0; k < p->axis_count; k++) {
            f64         where = place(p, k, i, count, draws);
            enum status st    = axis_set(&p->axes[k], &t->settings, where, perm, err);
            if (st) return st;
        }
        t->words = words_of(p, &t->settings, perm);
        if (!seen_before(s, t->words)) s->count++; /* two equal draws are one trial */
    }
    return STATUS_OK;
}

enum status sweep_plan(struct sweep *s, struct arena *perm, struct err *err)
{
    const struct option *over = option_find(STR("sweep.over"));
    struct plan          p    = { 0 };
    struct err           why;
    enum status          st = plan_read(&p, s->config->settings.sweep.over, *perm, &why);
    if (!st) st = plan_trials(s, &p, perm, &why);
    if (!st) return STATUS_OK;
    if (s->config->origin[over - options].kind == ORIGIN_DEFAULT)
        return err_set(err, st, "sweep.over: %s", why.text);
    return err_set(err, st, "%.*s: sweep.over: %s",
                   STR_ARG(config_origin_text(s->config, over, perm)), why.text);
}
