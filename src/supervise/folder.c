/* folder.c - walking and copying. */
#include "supervise/folder.h"
#include "base/hash.h"
#include <string.h>

enum { DEEP_MAX = 16 };

static const i64 piece_bytes = 1 << 20;

struct str folder_path(struct arena *perm, struct str folder, struct str path)
{
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(path));
}

struct walk {
    struct os          *os, *inside; /* inside: no link below the folder is followed */
    struct str          folder;
    const struct str   *patterns;
    i64                 pattern_count;
    struct arena       *perm;
    struct folder_list *out;
    struct err         *err;
};

static bool is_ours(struct str name)
{
    return str_starts(name, STR(".frugal")) || str_ends(name, STR(".part"));
}

static bool is_text(struct str s)
{
    for (i64 at = 0; at < s.len;) {
        at = str_utf8_end(s, at);
        if (at < 0) return false;
    }
    return true;
}

static enum status add(struct walk *w, struct str path, struct str name, const struct os_stat *stat)
{
    bool wanted = false;
    for (i64 i = 0; i < w->pattern_count; i++) wanted |= str_glob(w->patterns[i], name);
    if (!wanted) return STATUS_OK;
    if (!is_text(path))
        return err_set(w->err, STATUS_WORLD, "a name in %.*s is not UTF-8 and cannot be copied",
                       STR_ARG(w->folder));
    if (w->out->count == FOLDER_FILES_MAX)
        return err_set(w->err, STATUS_WORLD,
                       "%.*s holds more than %d files; program.files=[PATTERN] says which to copy",
                       STR_ARG(w->folder), FOLDER_FILES_MAX);
    w->out->files[w->out->count++] = (struct folder_file){ .path       = path,
                                                           .bytes      = stat->bytes,
                                                           .mtime_ns   = stat->mtime_ns,
                                                           .is_private = stat->is_private };
    return STATUS_OK;
}

/* What a name stands for; NO: nothing that is ours to copy, or it went away meanwhile. */
static enum status look_at(struct walk *w, struct str path, struct os_stat *stat)
{
    struct err  why = { 0 };
    struct str  all = folder_path(w->perm, w->folder, path);
    enum status st  = w->inside->stat(w->inside, all, stat, &why);
    if (!st && stat->is_link) {
        st = w->os->stat(w->os, all, stat, &why);
        if (!st && stat->is_dir) return STATUS_NO;
    }
    if (st && why.cause == CAUSE_ABSENT) return STATUS_NO;
    if (st) return err_set(w->err, st, "%s", why.text);
    return stat->is_dir || stat->is_plain ? STATUS_OK : STATUS_NO;
}

static enum status walk(struct walk *w, struct str within, i64 deep)
{
    struct str *names;
    struct err  why   = { 0 };
    i64         count = 0;
    struct str  dir   = within.len ? folder_path(w->perm, w->folder, within) : w->folder;
    enum status st    = w->inside->list(w->inside, dir, w->perm, &names, &count, &why);
    if (st && within.len && why.cause == CAUSE_ABSENT)
        return STATUS_OK; /* it went away meanwhile */
    if (st) return err_set(w->err, st, "%s", why.text);
    for (i64 i = 0; i < count && !st; i++) {
        struct os_stat stat;
        if (is_ours(names[i])) continue;
        struct str path = within.len ? folder_path(w->perm, within, names[i]) : names[i];
        st              = look_at(w, path, &stat);
        if (st == STATUS_NO) st = STATUS_OK;
        else if (!st && !stat.is_dir) st = add(w, path, names[i], &stat);
        else if (!st && deep < DEEP_MAX) st = walk(w, path, deep + 1);
    }
    return st;
}

enum status folder_scan(struct os *os, struct str folder, const struct str *patterns, i64 count,
                        struct arena *perm, struct folder_list *out, struct err *err)
{
    struct os_stat stat;
    struct err     why    = { 0 };
    struct os     *inside = os_beneath(os, folder, perm);
    struct walk    w      = { os, inside, folder, patterns, count, perm, out, err };
    *out           = (struct folder_list){ NEW(perm, struct folder_file, FOLDER_FILES_MAX), 0 };
    enum status st = os->stat(os, folder, &stat, &why);
    if (st && why.cause == CAUSE_ABSENT) return STATUS_OK;
    st = st ? err_set(err, st, "%s", why.text) : walk(&w, STR(""), 0);
    os_beneath_end(inside);
    return st;
}

const struct folder_file *folder_find(const struct folder_list *l, struct str path)
{
    for (i64 i = 0; i < l->count; i++)
        if (str_eq(l->files[i].path, path)) return &l->files[i];
    return NULL;
}

bool folder_same(const struct folder_file *a, const struct folder_file *b)
{
    return a && b && str_eq(a->path, b->path) && a->bytes == b->bytes && a->mtime_ns == b->mtime_ns;
}

enum status folder_copy(struct os *os, struct str from, struct str to, struct arena scratch,
                        struct copied *out, struct err *err)
{
    struct file  in = { -1 }, copy = { -1 };
    struct xxh64 hash;
    char        *piece = NEW(&scratch, char, piece_bytes);
    i64          got   = 1;
    xxh64_init(&hash);
    enum status st = os->open_read(os, from, &in, err);
    if (!st && to.len) st = os->create(os, to, &copy, err);
    while (!st && got > 0) {
        st = os->read(os, in, piece, piece_bytes, -1, &got, err);
        if (st) break;
        xxh64_add(&hash, (struct str){ piece, got });
        if (to.len) st = os->write(os, copy, (struct str){ piece, got }, err);
    }
    if (in.fd >= 0) os->close(os, &in, NULL);
    if (copy.fd >= 0 && st) os->close(os, &copy, NULL);
    else if (copy.fd >= 0) st = os->close(os, &copy, err);
    *out = (struct copied){ (i64)hash.bytes, xxh64_end(&hash) };
    return st;
}
