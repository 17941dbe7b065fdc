/* tuning.c - choices of matrix products and convolutions as text, one line each. */
#include "backend/cuda/tuning.h"
#include <string.h>

#define HEADING "frugal tuning 1"

struct tuned *tuning_find(struct tuning *t, const struct product *p, i64 tried)
{
    for (i32 i = 0; i < t->count; i++) {
        if (!memcmp(&t->list[i].product, p, sizeof *p))
            return t->list[i].tried >= tried ? &t->list[i] : NULL;
    }
    return NULL;
}

void tuning_add(struct tuning *t, struct tuned choice)
{
    struct tuned *at = tuning_find(t, &choice.product, 0);
    if (!at && t->count == TUNED_MAX) return;
    if (!at) at = &t->list[t->count++];
    *at        = choice;
    t->changed = true;
}

struct tuned_conv *tuning_find_conv(struct tuning *t, const struct conv_kind *k, i64 library,
                                    i64 tried)
{
    for (i32 i = 0; i < t->conv_count; i++) {
        struct tuned_conv *c = &t->convs[i];
        if (c->library == library && !memcmp(&c->kind, k, sizeof *k))
            return c->tried >= tried ? c : NULL;
    }
    return NULL;
}

void tuning_add_conv(struct tuning *t, const struct tuned_conv *choice)
{
    struct tuned_conv *at = tuning_find_conv(t, &choice->kind, choice->library, 0);
    if (!at && t->conv_count == TUNED_CONVS_MAX) return;
    if (!at) at = &t->convs[t->conv_count++];
    *at        = *choice;
    t->changed = true;
}

bool tuning_tries_low(const struct conv_kind *k, const struct tuned_conv *kept)
{
    return k->out != k->in && (!kept || kept->way == WAY_LOW);
}

bool tuning_tries_straight(const struct conv_kind *k, const struct tuned_conv *kept, bool low)
{
    if (kept) return kept->way == WAY_ENGINE;
    return !low || k->op != OP_CONV2D_GRAD_W || k->out == k->in;
}

/* --- text --- */

/* Operands of an fp8 product, by 1 + format. */
static const char *const narrow[] = { NULL, "e4m3*e4m3", "e5m2*e4m3", "e4m3*e5m2" };

static const char *dtype_or_none(enum dtype t) { return t == DT_COUNT ? "-" : dtype_name(t).data; }

static struct textbuf begin(const struct tuning *t, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, HEADING "\ngpu %.*s\ncublaslt %lld\n", STR_ARG(t->gpu), (long long)t->library);
    return b;
}

static void add_line(struct textbuf *b, const struct tuned *c)
{
    const struct product *p = &c->product;
    textbuf_fmt(b, "%lld %lld %lld %lld %c%c %s %s %s %s %lld ", (long long)p->M, (long long)p->N,
                (long long)p->K, (long long)p->batch, p->ta ? 't' : 'n', p->tb ? 't' : 'n',
                p->fp8 ? narrow[p->fp8] : dtype_or_none(p->in), dtype_or_none(p->out),
                dtype_or_none(p->bias), p->then < 0 ? "-" : op_info(p->then)->name,
                (long long)c->tried);
    textbuf_f64(b, c->us);
    for (i32 k = 0; k < ALGO_WORDS; k++) textbuf_fmt(b, " %llx", (unsigned long long)c->algo[k]);
    textbuf_fmt(b, "\n");
}

static const char *const ways[] = {
#define WAY(name, text) text,
    WAYS(WAY)
#undef WAY
};

static void add_conv_line(struct textbuf *b, const struct tuned_conv *c)
{
    const struct conv_kind *k       = &c->kind;
    const i64               sizes[] = { k->N,  k->H,  k->W,  k->C,      k->O,  k->OH,
                                        k->OW, k->KH, k->KW, k->stride, k->pad };
    textbuf_fmt(b, "%s", op_info((i32)k->op)->name);
    for (i64 i = 0; i < COUNT_OF(sizes); i++) textbuf_fmt(b, " %lld", (long long)sizes[i]);
    textbuf_fmt(b, " %s %s %s %s ", dtype_or_none((enum dtype)k->in),
                dtype_or_none((enum dtype)k->out), dtype_or_none((enum dtype)k->bias),
                k->any_order ? "any" : "fixed");
    for (i64 i = 0; i < k->map_count; i++)
        textbuf_fmt(b, "%s%s", i ? "," : "", op_info((i32)k->maps[i])->name);
    textbuf_fmt(b, "%s %lld %s %lld ", k->map_count ? "" : "-", (long long)c->library, ways[c->way],
                (long long)c->tried);
    textbuf_f64(b, c->us);
    textbuf_fmt(b, " %lld", (long long)c->engine);
    for (i32 i = 0; i < c->knob_count; i++)
        textbuf_fmt(b, " %lld:%lld", (long long)c->knobs[i].type, (long long)c->knobs[i].value);
    textbuf_fmt(b, "\n");
}

struct str tuning_print(const struct tuning *t, struct arena *perm)
{
    struct textbuf b = begin(t, perm);
    for (i32 i = 0; i < t->count; i++) add_line(&b, &t->list[i]);
    for (i32 i = 0; i < t->conv_count; i++) add_conv_line(&b, &t->convs[i]);
    return textbuf_str(&b);
}

struct str tuning_print_used(const struct tuning *t, struct arena *perm)
{
    struct textbuf b = begin(t, perm);
    for (i32 i = 0; i < t->count; i++) {
        if (t->list[i].used) add_line(&b, &t->list[i]);
    }
    for (i32 i = 0; i < t->conv_count; i++) {
        if (t->convs[i].used) add_conv_line(&b, &t->convs[i]);
    }
    return textbuf_str(&b);
}

/* The words of a line, one after the other; `bad` once one was not as it must be. */
struct words {
    struct str rest;
    bool       bad;
};

static struct str next(struct words *w)
{
    struct str word = STR("");
    if (!str_cut(&w->rest, ' ', &word) || !word.len) w->bad = true;
    return word;
}

static i64 number(struct words *w, i64 least)
{
    i64 v = 0;
    if (!str_i64(next(w), &v) || v < least) w->bad = true;
    return v;
}

static enum dtype dtype(struct words *w, bool optional)
{
    enum dtype t    = DT_COUNT;
    struct str word = next(w);
    if (optional && str_eq(word, STR("-"))) return DT_COUNT;
    if (!dtype_parse(word, &t)) w->bad = true;
    return t;
}

static void operands(struct words *w, struct product *p)
{
    struct words before = *w;
    struct str   word   = next(w);
    for (i64 i = 1; i < COUNT_OF(narrow); i++) {
        if (!str_eq(word, str_of(narrow[i]))) continue;
        p->fp8 = i;
        p->in  = DT_U8;
        return;
    }
    *w    = before;
    p->in = dtype(w, false);
}

static i32 map_or_none(struct words *w)
{
    i32        op   = -1;
    struct str word = next(w);
    if (str_eq(word, STR("-"))) return -1;
    if (!op_find(word, &op) || !op_is_map(op)) w->bad = true;
    return op;
}

static u64 hex(struct words *w)
{
    u64        v    = 0;
    struct str word = next(w);
    if (word.len > 16) w->bad = true;
    for (i64 i = 0; i < word.len; i++) {
        char c = word.data[i];
        i32  d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) w->bad = true;
        v = v << 4 | (u64)(d & 15);
    }
    return v;
}

static bool choice_of(struct str line, struct tuned *c)
{
    struct words    w = { line, false };
    struct product *p = &c->product;
    *c                = (struct tuned){ 0 };
    p->M = number(&w, 1), p->N = number(&w, 1), p->K = number(&w, 1), p->batch = number(&w, 1);
    struct str turns = next(&w);
    if (turns.len != 2) return false;
    p->ta = turns.data[0] == 't', p->tb = turns.data[1] == 't';
    if ((!p->ta && turns.data[0] != 'n') || (!p->tb && turns.data[1] != 'n')) return false;
    operands(&w, p);
    p->out = dtype(&w, false), p->bias = dtype(&w, true);
    p->then  = map_or_none(&w);
    c->tried = number(&w, 1);
    if (!str_f64(next(&w), &c->us) || c->us < 0) return false;
    for (i32 k = 0; k < ALGO_WORDS; k++) c->algo[k] = hex(&w);
    return !w.bad && !w.rest.len;
}

static void maps(struct words *w, struct conv_kind *k)
{
    struct str list = next(w), word;
    if (str_eq(list, STR("-"))) return;
    while (str_cut(&list, ',', &word)) {
        i32 op = -1;
        if (k->map_count == THEN_MAX || !op_find(word, &op) || !op_is_map(op)) {
            w->bad = true;
            return;
        }
        k->maps[k->map_count++] = op;
    }
}

static enum way way(struct words *w)
{
    struct str word = next(w);
    for (i32 i = 0; i < WAY_COUNT; i++) {
        if (str_eq(word, str_of(ways[i]))) return (enum way)i;
    }
    w->bad = true;
    return WAY_ENGINE;
}

static void knobs(struct words *w, struct tuned_conv *c)
{
    while (!w->bad && w->rest.len) {
        struct str   word = next(w), type;
        struct knob *k    = &c->knobs[c->knob_count];
        if (c->knob_count == KNOBS_MAX || !str_cut(&word, ':', &type) || !str_i64(type, &k->type) ||
            !str_i64(word, &k->value))
            w->bad = true;
        else c->knob_count++;
    }
}

static bool conv_of(struct str line, struct tuned_conv *c)
{
    struct words      w       = { line, false };
    struct conv_kind *k       = &c->kind;
    i64 *const        sizes[] = { &k->N,  &k->H,  &k->W,  &k->C,      &k->O,  &k->OH,
                                  &k->OW, &k->KH, &k->KW, &k->stride, &k->pad };
    i32               op      = -1;
    *c                        = (struct tuned_conv){ 0 };
    if (!op_find(next(&w), &op) ||
        (op != OP_CONV2D && op != OP_CONV2D_GRAD_X && op != OP_CONV2D_GRAD_W))
        return false;
    k->op = op;
    for (i64 i = 0; i < COUNT_OF(sizes); i++) *sizes[i] = number(&w, sizes[i] == &k->pad ? 0 : 1);
    k->in = dtype(&w, false), k->out = dtype(&w, false), k->bias = dtype(&w, true);
    struct str order = next(&w);
    k->any_order     = str_eq(order, STR("any"));
    if (!k->any_order && !str_eq(order, STR("fixed"))) return false;
    maps(&w, k);
    c->library = number(&w, 1);
    c->way     = way(&w);
    c->tried   = number(&w, 1);
    if (!str_f64(next(&w), &c->us) || c->us < 0) return false;
    c->engine = number(&w, 0);
    knobs(&w, c);
    return !w.bad;
}

/* A line: a convolution begins with its op's name, a product with a number. */
static bool add_choice(struct tuning *t, struct str line)
{
    struct tuned      product;
    struct tuned_conv conv;
    if (line.len && line.data[0] >= 'a' && line.data[0] <= 'z') {
        if (!conv_of(line, &conv)) return false;
        tuning_add_conv(t, &conv);
        return true;
    }
    if (!choice_of(line, &product)) return false;
    tuning_add(t, product);
    return true;
}

/* The line must begin so; what follows is the value. */
static bool heading(struct str *text, struct str begins, struct str *value)
{
    struct str line;
    if (!str_cut(text, '\n', &line) || !str_starts(line, begins)) return false;
    *value = str_sub(line, begins.len, line.len);
    return true;
}

static void add_all(struct tuning *t, const struct tuning *more)
{
    for (i32 i = 0; i < more->count; i++) tuning_add(t, more->list[i]);
    for (i32 i = 0; i < more->conv_count; i++) {
        struct tuned_conv c = more->convs[i];
        c.exact |= t->exact;
        tuning_add_conv(t, &c);
    }
}

enum status tuning_parse(struct tuning *t, struct str text, struct arena scratch, struct err *err)
{
    struct tuning *all = NEW(&scratch, struct tuning, 1); /* joins t once every line was read */
    struct str     gpu, version, empty, line;
    i64            library = 0, count = 0;
    if (!heading(&text, STR(HEADING), &empty) || empty.len || !heading(&text, STR("gpu "), &gpu) ||
        !heading(&text, STR("cublaslt "), &version) || !str_i64(version, &library))
        return err_set(err, STATUS_USAGE, "it is not a file of kernel choices");
    if (!str_eq(gpu, t->gpu) || library != t->library)
        return err_set(err, STATUS_USAGE, "it is for a %.*s with cuBLASLt %lld", STR_ARG(gpu),
                       (long long)library);
    while (str_cut(&text, '\n', &line)) {
        if (count++ == TUNED_MAX + TUNED_CONVS_MAX)
            return err_set(err, STATUS_USAGE, "it has too many lines");
        if (!add_choice(all, line))
            return err_set(err, STATUS_USAGE, "line %lld is not a kernel choice",
                           (long long)count + 3);
    }
    add_all(t, all);
    return STATUS_OK;
}

/* --- the file --- */

static struct str cache_folder(struct os *os, struct arena *perm)
{
    struct str base = os->env(os, "XDG_CACHE_HOME"), home = os->env(os, "HOME");
    if (base.len) return str_cat(perm, base, STR("/frugal"));
    return home.len ? str_cat(perm, home, STR("/.cache/frugal")) : STR("");
}

struct str tuning_path(struct os *os, const struct tuning *t, struct arena *perm)
{
    struct str folder = cache_folder(os, perm);
    char      *kind   = NEW(perm, char, t->gpu.len + 1); /* letters and digits alone */
    for (i64 i = 0; i < t->gpu.len; i++) {
        char c     = t->gpu.data[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        kind[i]    = plain ? c : '-';
    }
    if (!folder.len) return STR("");
    return str_fmt(perm, "%.*s/gemm-%s-%lld.txt", STR_ARG(folder), kind, (long long)t->library);
}

enum status tuning_load(struct tuning *t, struct os *os, struct arena scratch, struct err *err)
{
    struct str     path = tuning_path(os, t, &scratch), text;
    struct os_stat there;
    struct err     why = { 0 };
    if (!path.len || os->stat(os, path, &there, NULL)) return STATUS_OK;
    enum status st = os_read_all(os, path, &scratch, &text, err);
    if (!st && tuning_parse(t, text, scratch, &why))
        st = err_set(
            err, STATUS_WORLD,
            "the saved kernel choices in %.*s are not used (%s): they are measured and saved again",
            STR_ARG(path), why.text);
    return st;
}

enum status tuning_save(struct tuning *t, struct os *os, struct arena scratch, struct err *err)
{
    struct str     folder = cache_folder(os, &scratch), path = tuning_path(os, t, &scratch);
    struct tuning *both = NEW(&scratch, struct tuning, 1);
    if (!t->changed || !path.len) return STATUS_OK;
    both->gpu     = t->gpu;
    both->library = t->library;
    (void)tuning_load(both, os, scratch, NULL); /* what cannot be read is written over */
    add_all(both, t);
    bool        was = os_private(true);
    enum status st  = os->make_dir(os, folder, err);
    if (!st) st = os_publish(os, path, tuning_print(both, &scratch), scratch, err);
    os_private(was);
    if (!st) t->changed = false;
    return st;
}
