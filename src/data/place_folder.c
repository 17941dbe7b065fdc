/* place_folder.c - a folder whose subfolders are the classes, in order of name; a file is a sample.
 * Without subfolders the files have no class. What is not named as an image is passed over, and said. */
#include "data/data_int.h"
#include "data/place_int.h"
#include "data/shard.h"
#include <stdio.h>

struct class
{                             /* a subfolder, or the folder itself */
    struct str  folder, name; /* the path, and the last of it */
    struct str *names;        /* of its samples */
    i64         count;
};

struct folder {
    struct class *class;
    i64       *begin;       /* [classes + 1]: number of the first sample */
    i64        count;       /* of classes, at least one */
    i64        passed_over; /* files that no sample is made of */
    struct str first;       /* of these */
};

static bool is_sample(struct str name)
{
    i64 dot = name.len;
    while (dot > 0 && name.data[dot - 1] != '.') dot--;
    return name.len && name.data[0] != '.' && shard_is_payload(str_sub(name, dot, name.len));
}

/* Hidden files are meant to be. */
static void pass_over(struct place *p, struct str folder, struct str name)
{
    struct folder *f = p->state;
    if (!name.len || name.data[0] == '.') return;
    if (!f->passed_over++) f->first = str_fmt(&p->own, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
}

static enum status list_class(struct place *p, struct class *c, struct err *err)
{
    i64         count = 0;
    enum status st    = p->os->list(p->os, c->folder, &p->own, &c->names, &count, err);
    for (i64 i = 0; i < count && !st; i++)
        if (is_sample(c->names[i])) c->names[c->count++] = c->names[i];
        else pass_over(p, c->folder, c->names[i]);
    return st;
}

static bool is_folder(struct os *os, struct str path)
{
    struct os_stat stat;
    return !os->stat(os, path, &stat, NULL) && stat.is_dir;
}

static enum status open_folder(struct place *p, const struct data_config *config, struct str path,
                               struct err *err)
{
    struct folder *f = p->state = NEW(&p->own, struct folder, 1);
    struct str    *names;
    i64            count;
    while (path.len > 1 && str_ends(path, STR("/"))) path.len--;
    path            = str_copy(&p->own, path);
    struct err  why = { 0 };
    enum status st  = p->os->list(p->os, path, &p->own, &names, &count, &why);
    if (st && why.cause == CAUSE_ABSENT) return place_absent(p->os, path, p->own, err);
    if (st) return err_set(err, st, "%s", why.text);
    f->class = NEW(&p->own, struct class, count + 1);
    for (i64 i = 0; i < count; i++) {
        struct str inner = str_fmt(&p->own, "%.*s/%.*s", STR_ARG(path), STR_ARG(names[i]));
        if (names[i].data[0] == '.' || is_sample(names[i]) || !is_folder(p->os, inner)) continue;
        f->class[f->count++] = (struct class){ .folder = inner, .name = names[i] };
    }
    p->classes = f->count;
    for (i64 i = 0; i < count && f->count; i++) /* beside the classes it is in none of them */
        if (is_sample(names[i])) pass_over(p, path, names[i]);
    if (!f->count) f->class[f->count++] = (struct class){ .folder = path };
    f->begin = NEW(&p->own, i64, f->count + 1);
    for (i64 i = 0; i < f->count && !st; i++) {
        st              = list_class(p, &f->class[i], err);
        f->begin[i + 1] = f->begin[i] + f->class[i].count;
    }
    if (st) return st;
    p->count   = f->begin[f->count];
    i64 *whole = NEW(&p->own, i64, 2);
    whole[1]   = p->count;
    /* Neighbours are of one class and cost no more to read apart, so one block is all of it. */
    p->order = order_new(&p->own, whole, 1,
                         config->shuffle_block ? config->shuffle_block : MAX(p->count, 1));
    return STATUS_OK;
}

static void close_folder(struct place *p) { (void)p; }

static i64 class_folder(const struct place *p, i64 n)
{
    const struct folder *f = p->state;
    return p->classes ? last_at_most(f->begin, f->count, n) : -1;
}

static struct str name_folder(const struct place *p, i64 n, struct arena *perm)
{
    const struct folder *f = p->state;
    i64 class              = last_at_most(f->begin, f->count, n);
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(f->class[class].folder),
                   STR_ARG(f->class[class].names[n - f->begin[class]]));
}

static enum status read_folder(const struct place *p, i64 n, struct buffer *to,
                               const atomic_bool *stop, struct err *err)
{
    char           text[4096 + 256];
    struct arena   lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    struct str     path = name_folder(p, n, &lent);
    struct os_stat stat;
    (void)stop;
    enum status st = p->os->stat(p->os, path, &stat, err);
    if (!st) st = buffer_resize(to, stat.bytes, err);
    if (!st) st = read_range(p->os, path, 0, stat.bytes, to->data, err);
    return st;
}

static i64 size_folder(const struct place *p, i64 n, struct arena scratch)
{
    struct os_stat stat = { .bytes = -1 };
    if (p->os->stat(p->os, name_folder(p, n, &scratch), &stat, NULL)) return -1;
    return stat.bytes;
}

static void fingerprint_folder(const struct place *p, struct print *to)
{
    const struct folder *f       = p->state;
    struct arena         scratch = p->own;
    for (i64 c = 0; c < f->count; c++) {
        if (p->classes) print_name(to, f->class[c].folder, f->class[c].count);
        for (i64 i = 0; i < f->class[c].count; i++)
            print_name(to, f->class[c].names[i], size_folder(p, f->begin[c] + i, scratch));
    }
    for (i64 i = 0; i < print_samples(p->count); i++) {
        struct arena mine = scratch;
        i64          n    = print_sample(p->count, i);
        struct str   path = name_folder(p, n, &mine);
        print_content(to, p->os, path, MAX(size_folder(p, n, mine), 0), p->count, mine);
    }
}

static bool says_folder(struct place *p, char line[LOADER_LINE_MAX])
{
    struct folder *f = p->state;
    if (!f->passed_over) return false;
    snprintf(
        line, LOADER_LINE_MAX,
        "%lld files are not read, the first is %.*s%.*s: pictures are .jpg, .jpeg or .png files in "
        "the folder of a class",
        (long long)f->passed_over, f->first.len > 100 ? 3 : 0, "...",
        STR_ARG(str_sub(f->first, f->first.len - 100, f->first.len)));
    f->passed_over = 0; /* once */
    return true;
}

static const struct str *class_names_folder(const struct place *p, struct arena *perm)
{
    const struct folder *f     = p->state;
    struct str          *names = NEW(perm, struct str, p->classes);
    for (i64 i = 0; i < p->classes; i++) names[i] = str_copy(perm, f->class[i].name);
    return names;
}

const struct place_kind place_folder = {
    open_folder,        close_folder, class_folder, name_folder,        read_folder,
    fingerprint_folder, NULL,         says_folder,  class_names_folder,
};
