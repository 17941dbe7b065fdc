/* ckpt_read.c - what lies in a folder of checkpoints, and taking the newest whole one of it. */
#include "base/hash.h"
#include "store/ckpt_int.h"
#include <math.h>
#include <stdlib.h>

enum { READ_TRIES = 3 };
static const i64 read_bytes   = 1 << 20;
static const i64 read_wait_ns = 200000000; /* before the second try; doubled before the next */

struct str ckpt_path(struct arena *perm, struct str folder, struct str name)
{
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
}

/* Its manifest, which must be its own: a folder copied by hand under another name is not. */
static enum status read_manifest_once(struct os *os, struct ckpt *c, struct arena *perm)
{
    struct str  path = ckpt_path(perm, c->folder, STR(CKPT_MANIFEST)), text;
    enum status st   = os_read_all(os, path, perm, &text, &c->why);
    if (!st) st = ckpt_manifest_parse(path, text, perm, &c->manifest, &c->why);
    if (!st && (ckpt_order(c->id, c->manifest.id) || c->id.step != c->manifest.id.step))
        st = err_set(&c->why, STATUS_NO,
                     "%.*s belongs to step %lld, save %lld.%lld, not to this folder", STR_ARG(path),
                     (long long)c->manifest.id.step, (long long)c->manifest.id.attempt,
                     (long long)c->manifest.id.save);
    return st;
}

/* Damage, or a version that nobody wrote, is what two readings say. */
static enum status read_manifest(struct os *os, struct ckpt *c, struct arena *perm)
{
    enum status st = read_manifest_once(os, c, perm);
    if (st != STATUS_NO && st != STATUS_USAGE) return st;
    c->why = (struct err){ 0 };
    return read_manifest_once(os, c, perm);
}

bool ckpt_has_manifest(struct os *os, struct str folder, struct arena scratch, struct err *err)
{
    struct str *names;
    i64         count;
    if (os->list(os, folder, &scratch, &names, &count, err))
        return true; /* of which we cannot say */
    for (i64 i = 0; i < count; i++)
        if (str_eq(names[i], STR(CKPT_MANIFEST))) return true;
    return false;
}

static int newest_first(const void *a, const void *b)
{
    const struct ckpt *x = a, *y = b;
    int                order = ckpt_order(y->id, x->id);
    return order ? order : (y->id.step > x->id.step) - (y->id.step < x->id.step);
}

static enum status list_in(struct os *os, struct str folder, struct arena *perm,
                           struct ckpt_list *out, struct err *err)
{
    struct os_stat stat;
    struct str    *names;
    struct err     why = { 0 };
    i64            count;
    enum status    st = os->stat(os, folder, &stat, &why);
    if (st && why.cause == CAUSE_ABSENT) return STATUS_OK;
    if (st) return err_set(err, st, "%s", why.text);
    st = os->list(os, folder, perm, &names, &count, err);
    if (st) return st;
    out->items = NEW(perm, struct ckpt, count);
    for (i64 i = 0; i < count; i++) {
        struct ckpt c = { 0 };
        if (!ckpt_name_parse(names[i], &c.id)) continue;
        c.folder = ckpt_path(perm, folder, names[i]);
        if (!ckpt_has_manifest(os, c.folder, *perm, &c.why)) continue;
        if (!c.why.status) read_manifest(os, &c, perm);
        if (c.why.status == STATUS_WORLD && c.why.cause == CAUSE_ABSENT)
            continue; /* deleted while we looked */
        out->items[out->count++] = c;
    }
    qsort(out->items, (size_t)out->count, sizeof *out->items, newest_first);
    return STATUS_OK;
}

enum status ckpt_list(struct os *os, struct str folder, struct arena *perm, struct ckpt_list *out,
                      struct err *err)
{
    struct os *inside = os_beneath(os, folder, perm);
    *out              = (struct ckpt_list){ 0 };
    enum status st    = list_in(inside, folder, perm, out, err);
    os_beneath_end(inside);
    return st;
}

i64 ckpt_best(const struct ckpt_list *l)
{
    i64 best = -1;
    for (i64 i = 0; i < l->count; i++) { /* by the metric of the newest that has one */
        const struct ckpt_manifest *m = &l->items[i].manifest;
        if (l->items[i].why.status || !m->metric.len || isnan(m->value)) continue;
        const struct ckpt_manifest *b = best < 0 ? m : &l->items[best].manifest;
        if (!str_eq(m->metric, b->metric) || m->higher_is_better != b->higher_is_better) continue;
        if (best < 0 || (m->higher_is_better ? m->value > b->value : m->value < b->value)) best = i;
    }
    return best;
}

void ckpt_mark_kept(const struct ckpt_list *l, i64 keep, bool *kept)
{
    i64 best = ckpt_best(l), believed = 0;
    for (i64 i = 0; i < l->count; i++) {
        enum status why = l->items[i].why.status;
        believed += !why;
        kept[i] = why || believed <= keep || i == best;
    }
}

enum status ckpt_shard_verify(struct os *os, struct file f, struct str path,
                              const struct ckpt_shard *s, const atomic_bool *urgent,
                              struct arena scratch, struct err *err)
{
    struct xxh64 hash;
    i64          room = MIN(read_bytes, s->bytes + 1); /* one more, to see whether there is more */
    char        *buffer = NEW(&scratch, char, room);
    enum status  st     = STATUS_OK;
    xxh64_init(&hash);
    for (i64 got = 1; !st && got > 0 && (i64)hash.bytes <= s->bytes;) {
        if (urgent && atomic_load(urgent)) return STATUS_INTERRUPTED;
        st = os->read(os, f, buffer, room, -1, &got, err);
        if (!st) xxh64_add(&hash, (struct str){ buffer, got });
    }
    if (st) return st;
    if ((i64)hash.bytes != s->bytes)
        return err_set(err, STATUS_NO, "%.*s has %s bytes than the %lld its manifest says",
                       STR_ARG(path), (i64)hash.bytes < s->bytes ? "fewer" : "more",
                       (long long)s->bytes);
    if (xxh64_end(&hash) != s->hash)
        return err_set(
            err, STATUS_NO, "%.*s is damaged: its hash is %016llx, and its manifest says %016llx",
            STR_ARG(path), (unsigned long long)xxh64_end(&hash), (unsigned long long)s->hash);
    return STATUS_OK;
}

/* Read, not mapped: a disk that cannot read must give an error here, not a signal. */
static enum status verify_shard(struct os *os, struct str path, const struct ckpt_shard *s,
                                const atomic_bool *urgent, struct arena scratch, struct err *err)
{
    struct file f;
    struct err  why = { 0 };
    enum status st  = os->open_read(os, path, &f, &why);
    if (st && why.cause == CAUSE_ABSENT)
        return err_set(err, STATUS_NO, "%.*s is missing", STR_ARG(path));
    if (st) return err_set(err, st, "%s", why.text);
    st = ckpt_shard_verify(os, f, path, s, urgent, scratch, err);
    os->close(os, &f, NULL);
    return st;
}

enum status ckpt_verify(struct os *os, const struct ckpt *c, struct arena scratch, struct err *err)
{
    return ckpt_verify_unless(os, c, NULL, scratch, err);
}

enum status ckpt_verify_unless(struct os *os, const struct ckpt *c, const atomic_bool *urgent,
                               struct arena scratch, struct err *err)
{
    enum status st = c->why.status;
    if (st) return err_set(err, st, "%s", c->why.text);
    for (i64 i = 0; i < c->manifest.shard_count && !st; i++) {
        const struct ckpt_shard *s    = &c->manifest.shards[i];
        struct str               path = ckpt_path(&scratch, c->folder, s->name);
        struct err               why  = { 0 };
        st                            = verify_shard(os, path, s, urgent, scratch, &why);
        if (st == STATUS_NO) /* one bad reading is not damage yet */
            st = verify_shard(os, path, s, urgent, scratch, &why);
        if (st == STATUS_INTERRUPTED) return st;
        if (st) err_set(err, st, "%s", why.text);
    }
    return st;
}

/* Verified before. */
static enum status map_shards(struct os *os, const struct ckpt *c, struct arena *perm,
                              struct ckpt_loaded *out, struct err *err)
{
    const struct ckpt_manifest *m      = &c->manifest;
    struct arena                before = *perm;
    enum status                 st     = STATUS_OK;
    *out = (struct ckpt_loaded){ c, NEW(perm, struct st_file, m->shard_count) };
    for (i64 i = 0; i < m->shard_count && !st; i++)
        st = st_open(os, ckpt_path(perm, c->folder, m->shards[i].name), perm, &out->shards[i], err);
    if (st) {
        ckpt_unload(os, out);
        *perm = before;
    }
    return st;
}

enum status ckpt_load(struct os *os, const struct ckpt *c, struct arena *perm,
                      struct ckpt_loaded *out, struct err *err)
{
    enum status st = ckpt_verify(os, c, *perm, err);
    return st ? st : map_shards(os, c, perm, out, err);
}

/* Reads all of it; what could not be read is tried again, for a moment. */
static enum status check(struct os *os, struct ckpt *c, struct arena *perm)
{
    for (i64 i = 0;; i++) {
        if (!c->why.status) ckpt_verify(os, c, *perm, &c->why);
        if (c->why.status != STATUS_WORLD || i == READ_TRIES - 1) return c->why.status;
        os->sleep_ns(os, read_wait_ns << i);
        c->why = (struct err){ 0 };
        read_manifest(os, c, perm);
    }
}

enum status ckpt_newest(struct os *os, struct ckpt_list *l, struct arena *perm, struct ckpt **out,
                        struct err *err)
{
    for (i64 i = 0; i < l->count; i++) {
        struct ckpt *c = *out = &l->items[i];
        enum status  st       = check(os, c, perm);
        if (!st) return STATUS_OK;
        if (st != STATUS_NO) return err_set(err, st, "%s", c->why.text);
    }
    *out = NULL;
    if (!l->count) return err_set(err, STATUS_NO, "there is no checkpoint");
    return err_set(err, STATUS_NO, "none of the %lld checkpoints is valid; the newest: %s",
                   (long long)l->count, l->items[0].why.text);
}

enum status ckpt_load_newest(struct os *os, struct ckpt_list *l, struct arena *perm,
                             struct ckpt_loaded *out, struct err *err)
{
    struct ckpt *c;
    enum status  st = ckpt_newest(os, l, perm, &c, err);
    return st ? st : map_shards(os, c, perm, out, err);
}

void ckpt_unload(struct os *os, struct ckpt_loaded *l)
{
    for (i64 i = 0; l->ckpt && i < l->ckpt->manifest.shard_count; i++) st_close(os, &l->shards[i]);
    *l = (struct ckpt_loaded){ 0 };
}

const struct st_file *ckpt_shard(const struct ckpt_loaded *l, struct str part)
{
    const struct ckpt_manifest *m = &l->ckpt->manifest;
    for (i64 i = 0; i < m->shard_count; i++) {
        struct str name = m->shards[i].name, tail = STR(".safetensors");
        if (str_ends(name, tail) && str_eq(str_sub(name, 0, name.len - tail.len), part))
            return &l->shards[i];
    }
    return NULL;
}

enum status ckpt_joined(const struct ckpt_loaded *l, struct str part, struct arena *perm,
                        struct st_parts *out, struct err *err)
{
    const struct st_file *first = ckpt_shard(l, part);
    if (!first) return err_set(err, STATUS_USAGE, "it has no %.*s", STR_ARG(part));
    struct st_file *files = NEW(perm, struct st_file, first->parts);
    for (i64 i = 0; i < first->parts; i++) {
        struct str            name = st_part_name(perm, part, i + 1, first->parts);
        const struct st_file *f    = ckpt_shard(l, name);
        if (!f) return err_set(err, STATUS_USAGE, "it has no %.*s", STR_ARG(name));
        files[i] = *f;
    }
    return st_parts_join(l->ckpt->folder, files, first->parts, perm, out, err);
}
