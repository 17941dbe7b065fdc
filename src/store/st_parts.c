/* st_parts.c - from ranges in several files to whole tensors. */
#include "store/st_parts.h"
#include <stdlib.h>
#include <string.h>

struct str st_part_name(struct arena *perm, struct str name, i64 index, i64 count)
{
    if (index == 1) return name;
    return str_fmt(perm, "%.*s-%05lld-of-%05lld", STR_ARG(name), (long long)index,
                   (long long)count);
}

struct str st_range_name(struct arena *perm, struct str name, struct shape shape, i64 begin)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%.*s[", STR_ARG(name));
    for (i32 i = 0; i < shape.rank; i++)
        textbuf_fmt(&b, "%s%lld", i ? "," : "", (long long)shape.dim[i]);
    textbuf_fmt(&b, "]#%lld", (long long)begin);
    return textbuf_str(&b);
}

static bool cut_digits(struct str *text)
{
    i64 len = text->len;
    while (text->len && text->data[text->len - 1] >= '0' && text->data[text->len - 1] <= '9')
        text->len--;
    return text->len < len;
}

static bool cut_end(struct str *text, struct str end)
{
    bool is = str_ends(*text, end);
    if (is) text->len -= end.len;
    return is;
}

bool st_is_part(struct str name)
{
    return cut_end(&name, STR(".safetensors")) && cut_digits(&name) &&
           cut_end(&name, STR("-of-")) && cut_digits(&name) && str_ends(name, STR("-"));
}

/* --- names of ranges --- */

/* One tensor of one file, and what it is a range of. */
struct entry {
    const struct st_tensor *t;
    struct str              name;
    struct shape            shape;
    i64                     begin, elements; /* of the whole */
};

static bool digits(struct str text, i64 *out)
{
    for (i64 i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return text.len && str_i64(text, out);
}

/* Where the last `c` stands; -1: nowhere. */
static i64 find_last(struct str text, char c)
{
    i64 at = text.len - 1;
    while (at >= 0 && text.data[at] != c) at--;
    return at;
}

static bool parse_shape(struct str text, struct shape *out, i64 *elements)
{
    struct str one;
    *elements = 1;
    while (text.len) {
        if (out->rank == RANK_MAX || !str_cut(&text, ',', &one)) return false;
        if (!digits(one, &out->dim[out->rank])) return false;
        i64 dim = out->dim[out->rank++];
        if (dim && *elements > INT64_MAX / 16 / dim) return false;
        *elements *= dim;
    }
    return true;
}

/* False: it is a tensor like any other. */
static bool parse_range(struct str name, struct entry *e)
{
    i64        hash = find_last(name, '#'), open;
    struct str head = str_sub(name, 0, MAX(hash, 0));
    if (hash < 0 || !str_ends(head, STR("]")) ||
        !digits(str_sub(name, hash + 1, name.len), &e->begin))
        return false;
    open = find_last(head, '[');
    if (open < 0 || !parse_shape(str_sub(head, open + 1, head.len - 1), &e->shape, &e->elements))
        return false;
    e->name = str_sub(head, 0, open);
    return e->begin <= e->elements;
}

static struct entry entry_of(const struct st_tensor *t, bool ranges)
{
    struct entry e = { .t = t };
    if (ranges && t->shape.rank == 1 && parse_range(t->name, &e)) return e;
    return (struct entry){ t, t->name, t->shape, 0, shape_count(t->shape) };
}

/* --- joining --- */

static int text_order(struct str a, struct str b)
{
    int order = memcmp(a.data, b.data, (size_t)MIN(a.len, b.len));
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_name_and_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int                 order = text_order(x->name, y->name);
    if (order || x->begin != y->begin) return order ? order : x->begin < y->begin ? -1 : 1;
    i64 xs = x->t->bytes.len, ys = y->t->bytes.len; /* empty ones first */
    return (xs > ys) - (xs < ys);
}

static i64 element_bytes(const struct st_tensor *t)
{
    return t->bytes.len / MAX(shape_count(t->shape), 1);
}

/* Entries of one name become one tensor. */
static enum status join_one(struct str where, const struct entry *e, i64 count, struct arena *perm,
                            struct st_whole *out, struct err *err)
{
    i64 at = 0, item = 0;
    *out = (struct st_whole){ .name   = e->name,
                              .dtype  = e->t->dtype,
                              .shape  = e->shape,
                              .ranges = NEW(perm, struct st_range, count) };
    for (i64 i = 0; i < count; i++) item = MAX(item, element_bytes(e[i].t));
    for (i64 i = 0; i < count; i++) {
        const struct st_tensor *t = e[i].t;
        if (!shape_eq(e[i].shape, e->shape) || !str_eq(t->dtype, e->t->dtype))
            return err_set(err, STATUS_USAGE, "%.*s: ranges of tensor %.*s differ in shape or type",
                           STR_ARG(where), STR_ARG(e->name));
        if (e[i].begin * item != at)
            return err_set(err, STATUS_USAGE, "%.*s: elements of tensor %.*s are %s before %lld",
                           STR_ARG(where), STR_ARG(e->name),
                           e[i].begin * item > at ? "missing" : "there twice",
                           (long long)e[i].begin);
        out->ranges[out->range_count++] = (struct st_range){ at, t->bytes };
        at += t->bytes.len;
    }
    out->bytes = at;
    if (at == e->elements * item) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s: tensor %.*s has %lld bytes in all ranges, not %lld",
                   STR_ARG(where), STR_ARG(e->name), (long long)at,
                   (long long)(e->elements * item));
}

enum status st_parts_join(struct str where, const struct st_file *files, i64 count,
                          struct arena *perm, struct st_parts *out, struct err *err)
{
    i64         all = 0, n = 0;
    enum status st = STATUS_OK;
    for (i64 i = 0; i < count; i++) all += files[i].count;
    struct entry *e = NEW(perm, struct entry, all);
    for (i64 i = 0; i < count; i++)
        for (i64 k = 0; k < files[i].count; k++) e[n++] = entry_of(&files[i].tensors[k], count > 1);
    qsort(e, (size_t)n, sizeof *e, by_name_and_place);
    *out = (struct st_parts){ .tensors = NEW(perm, struct st_whole, n) };
    for (i64 i = 0, end; i < n && !st; i = end) {
        for (end = i + 1; end < n && str_eq(e[end].name, e[i].name);) end++;
        st = join_one(where, e + i, end - i, perm, &out->tensors[out->count++], err);
    }
    return st;
}

enum status st_parts_open(struct os *os, struct str path, struct arena *perm, struct st_parts *out,
                          struct err *err)
{
    struct st_file first;
    struct str     tail = STR(".safetensors");
    enum status    st   = st_open(os, path, perm, &first, err);
    *out                = (struct st_parts){ 0 };
    if (st) return st;
    i64             count = str_ends(path, tail) ? first.parts : 1, opened = 1;
    struct st_file *files = NEW(perm, struct st_file, count);
    files[0]              = first;
    for (; opened < count && !st; opened += !st) {
        struct str base = str_sub(path, 0, path.len - tail.len);
        struct str name = st_part_name(perm, base, opened + 1, count);
        st              = st_open(os, str_cat(perm, name, tail), perm, &files[opened], err);
    }
    if (!st) st = st_parts_join(path, files, count, perm, out, err);
    out->files      = files;
    out->file_count = opened;
    if (st) st_parts_close(os, out);
    return st;
}

void st_parts_close(struct os *os, struct st_parts *p)
{
    for (i64 i = 0; i < p->file_count; i++) st_close(os, &p->files[i]);
    *p = (struct st_parts){ 0 };
}

static int name_and_tensor(const void *name, const void *tensor)
{
    return text_order(*(const struct str *)name, ((const struct st_whole *)tensor)->name);
}

const struct st_whole *st_parts_find(const struct st_parts *p, struct str name)
{
    if (!p->count) return NULL;
    return bsearch(&name, p->tensors, (size_t)p->count, sizeof *p->tensors, name_and_tensor);
}

void st_whole_read(const struct st_whole *w, i64 from, i64 bytes, void *to)
{
    ASSERT(from >= 0 && from + bytes <= w->bytes);
    for (i64 i = 0; i < w->range_count; i++) {
        const struct st_range *r     = &w->ranges[i];
        i64                    begin = MAX(from, r->from);
        i64                    end   = MIN(from + bytes, r->from + r->bytes.len);
        if (begin < end)
            memcpy((u8 *)to + (begin - from), r->bytes.data + (begin - r->from),
                   (size_t)(end - begin));
    }
}

struct st_tensor st_whole_tensor(const struct st_whole *w)
{
    struct str bytes = w->range_count == 1 ? w->ranges->bytes : STR("");
    return (struct st_tensor){ w->name, w->dtype, w->shape, bytes };
}

struct st_file st_parts_flat(const struct st_parts *p, struct arena *perm)
{
    struct st_file f = { .tensors = NEW(perm, struct st_tensor, p->count),
                         .count   = p->count,
                         .parts   = 1 };
    for (i64 i = 0; i < p->count; i++) {
        const struct st_whole *w = &p->tensors[i];
        f.tensors[i]             = st_whole_tensor(w);
        if (w->range_count == 1) continue;
        u8 *all = arena_take(perm, 1, w->bytes, sizeof(f64));
        st_whole_read(w, 0, w->bytes, all);
        f.tensors[i].bytes = (struct str){ (const char *)all, w->bytes };
    }
    return f;
}
