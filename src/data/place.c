/* place.c - which kind of place a path is, and what both kinds share. */
#include "data/place_int.h"
#include "remote/address.h"
#include <string.h>

static const i64 own_bytes = (i64)64 << 30; /* address space: names of some 10^9 samples */

static bool is_shards(struct str path)
{
    return str_find(path, '{') >= 0 || str_ends(address_path(path), STR(".tar"));
}

/* NAME-000007.tar: where its number begins. */
static i64 number_at(struct str shard)
{
    i64 at = shard.len - STR(".tar").len;
    while (at > 0 && shard.data[at - 1] >= '0' && shard.data[at - 1] <= '9') at--;
    return at;
}

/* Shards among the names of a folder, moved to the front; 0 where it has subfolders, which are classes. */
static i64 shards_among(struct os *os, struct str path, struct str *names, i64 count,
                        struct arena scratch)
{
    i64 shards = 0;
    for (i64 i = 0; i < count; i++) {
        struct arena   mine  = scratch;
        struct str     inner = str_fmt(&mine, "%.*s/%.*s", STR_ARG(path), STR_ARG(names[i]));
        struct os_stat stat;
        bool           hidden = names[i].data[0] == '.';
        if (str_ends(names[i], STR(".tar")) && !hidden) names[shards++] = names[i];
        else if (!hidden && !str_ends(names[i], STR(".idx")) && !os->stat(os, inner, &stat, NULL) &&
                 stat.is_dir)
            return 0;
    }
    return shards;
}

/* A folder of shards as a pattern, so that one that is missing is noticed; another path as it is. */
static enum status shards_of_folder(struct os *os, struct str *path, struct arena *perm,
                                    struct err *err)
{
    struct os_stat stat;
    struct str    *names, folder = *path;
    i64            count;
    if (address_is_remote(folder) || is_shards(folder) || os->stat(os, folder, &stat, NULL) ||
        !stat.is_dir || os->list(os, folder, perm, &names, &count, NULL))
        return STATUS_OK;
    while (folder.len > 1 && str_ends(folder, STR("/"))) folder.len--;
    count = shards_among(os, folder, names, count, *perm);
    if (!count) return STATUS_OK;
    i64        at   = number_at(names[0]);
    struct str name = str_sub(names[0], 0, at), least = names[0], most = names[0];
    for (i64 i = 1; i < count; i++) {
        if (names[i].len != names[0].len || number_at(names[i]) != at ||
            !str_starts(names[i], name))
            return err_set(err, STATUS_USAGE,
                           "%.*s holds shards of different names, %.*s and %.*s; name those that "
                           "are meant, like "
                           "%.*s/%.*s{000000..000123}.tar",
                           STR_ARG(folder), STR_ARG(names[0]), STR_ARG(names[i]), STR_ARG(folder),
                           STR_ARG(name));
        if (memcmp(names[i].data, least.data, (size_t)least.len) < 0) least = names[i];
        if (memcmp(names[i].data, most.data, (size_t)most.len) > 0) most = names[i];
    }
    if (count == 1) *path = str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[0]));
    else
        *path = str_fmt(perm, "%.*s/%.*s{%.*s..%.*s}.tar", STR_ARG(folder), STR_ARG(name),
                        STR_ARG(str_sub(least, at, least.len - 4)),
                        STR_ARG(str_sub(most, at, most.len - 4)));
    return STATUS_OK;
}

bool place_holds_shards(struct os *os, struct str path, struct arena scratch)
{
    return path.len && !shards_of_folder(os, &path, &scratch, NULL) && is_shards(path);
}

/* The pattern of the shards that `frugal pack --to PREFIX` wrote; empty: there are none. */
static struct str shards_of_prefix(struct os *os, struct str prefix, struct arena *perm)
{
    i64 slash = prefix.len;
    while (slash > 0 && prefix.data[slash - 1] != '/') slash--;
    struct str path = slash > 1 ? str_sub(prefix, 0, slash - 1) : slash ? STR("/") : STR(".");
    if (shards_of_folder(os, &path, perm, NULL) || !is_shards(path)) return STR("");
    if (!slash) path = str_sub(path, 2, path.len); /* "./" */
    return str_starts(path, prefix) ? path : STR("");
}

enum status place_absent(struct os *os, struct str path, struct arena scratch, struct err *err)
{
    struct str shards = shards_of_prefix(os, path, &scratch);
    return err_set(err, STATUS_WORLD, "cannot find %.*s: no such file or folder%s%.*s",
                   STR_ARG(path), shards.len ? "; the shards with this prefix are data.path=" : "",
                   STR_ARG(shards));
}

enum status place_open(struct os *os, const struct data_config *config, struct str path,
                       struct arena *perm, struct place **out, struct err *err)
{
    struct place *p = NEW(perm, struct place, 1);
    *out            = NULL;
    if (path.len > PLACE_PATH_MAX)
        return err_set(err, STATUS_USAGE, "a path of %lld bytes is too long", (long long)path.len);
    if (address_is_remote(path) && !is_shards(path))
        return err_set(
            err, STATUS_USAGE,
            "%.*s is not a shard; remote samples must be in NAME.tar or NAME-{000..123}.tar",
            (int)MIN(path.len, 200), path.data);
    p->kind = &place_folder;
    p->os   = os;
    p->own  = arena_open(own_bytes);
    if (!p->own.begin) return err_set(err, STATUS_WORLD, "no memory for a list of samples");
    enum status st = shards_of_folder(os, &path, &p->own, err);
    if (is_shards(path)) p->kind = &place_shards;
    if (!st) st = p->kind->open(p, config, path, err);
    if (!st && !p->count)
        st = err_set(err, STATUS_USAGE, "%.*s holds no sample: no .jpg, .jpeg or .png",
                     (int)MIN(path.len, 200), path.data);
    if (st) place_close(p);
    else *out = p;
    return st;
}

void place_close(struct place *p)
{
    if (!p) return;
    p->kind->close(p);
    if (p->order) order_release(p->order);
    arena_close(&p->own);
}

i64 place_count(const struct place *p) { return p->count; }
i64 place_classes(const struct place *p) { return p->classes; }

i64 place_class(const struct place *p, i64 n)
{
    ASSERT(n >= 0 && n < p->count);
    return p->kind->class(p, n);
}

const struct str *place_class_names(const struct place *p, struct arena *perm)
{
    return p->kind->class_names ? p->kind->class_names(p, perm) : NULL;
}

struct str place_name(const struct place *p, i64 n, struct arena *perm)
{
    ASSERT(n >= 0 && n < p->count);
    return p->kind->name(p, n, perm);
}

enum status place_read(const struct place *p, i64 n, struct buffer *to, const atomic_bool *stop,
                       struct err *err)
{
    ASSERT(n >= 0 && n < p->count);
    return p->kind->read(p, n, to, stop, err);
}

i64 place_order(const struct place *p, i64 count, u64 seed, i64 epoch, i64 index)
{
    if (p->kind->ahead) p->kind->ahead(p, count, seed, epoch, index);
    return order_at(p->order, count, seed, epoch, index);
}

i64 place_block(const struct place *p) { return p->block; }

bool place_is_one_class(const struct place *p)
{
    for (i64 n = 1; n < p->count; n++)
        if (place_class(p, n) != place_class(p, 0)) return false;
    return true;
}

bool place_is_sorted(const struct place *p) { return p->kind == &place_folder; }

bool place_says(struct place *p, char line[LOADER_LINE_MAX])
{
    return p && p->kind->says && p->kind->says(p, line);
}

enum status read_range(struct os *os, struct str path, i64 at, i64 bytes, void *to, struct err *err)
{
    struct file f;
    i64         done = 0, got = 1;
    enum status st = os->open_read(os, path, &f, err);
    if (st) return st;
    while (done < bytes && got && !st) {
        st = os->read(os, f, (char *)to + done, bytes - done, at + done, &got, err);
        done += got;
    }
    os->close(os, &f, NULL);
    if (!st && done < bytes)
        st = err_set(err, STATUS_WORLD,
                     "%.*s ends at byte %lld; it became shorter since it was opened", STR_ARG(path),
                     (long long)(at + done));
    return st;
}

/* --- patterns -------------------------------------------------------------------------------------- */

struct words {                     /* what a pair of braces stands for, one after the other */
    struct str list;               /* a,b,c */
    i64        next, last, digits; /* or numbers */
    bool       numbers;
};

static bool words_init(struct words *w, struct str inner)
{
    *w = (struct words){ .list = inner };
    for (i64 i = 0; i + 1 < inner.len; i++) {
        if (inner.data[i] != '.' || inner.data[i + 1] != '.') continue;
        struct str first = str_sub(inner, 0, i), last = str_sub(inner, i + 2, inner.len);
        w->numbers = true;
        w->digits  = first.len;
        return str_i64(first, &w->next) && str_i64(last, &w->last) && w->next >= 0 &&
               w->next <= w->last && w->last - w->next < PLACE_SHARDS_MAX && first.len <= 18;
    }
    return str_find(inner, ',') >= 0;
}

static bool words_next(struct words *w, struct arena *perm, struct str *out)
{
    if (!w->numbers) return str_cut(&w->list, ',', out);
    if (w->next > w->last) return false;
    *out = str_fmt(perm, "%0*lld", (int)w->digits, (long long)w->next++);
    return true;
}

static enum status expand(struct str done, struct str rest, struct arena *perm, struct arena *list,
                          i64 *count, struct err *err)
{
    i64          open = str_find(rest, '{'), close = str_find(rest, '}');
    struct words w;
    struct str   word;
    if (open < 0) {
        if (*count == PLACE_SHARDS_MAX)
            return err_set(err, STATUS_USAGE, "the pattern stands for more than %d shards",
                           PLACE_SHARDS_MAX);
        *NEW(list, struct str, 1) = str_cat(perm, done, rest);
        ++*count;
        return STATUS_OK;
    }
    if (close < open || !words_init(&w, str_sub(rest, open + 1, close)))
        return err_set(err, STATUS_USAGE,
                       "%.*s is not a pattern; expected something like train-{000000..000123}.tar",
                       (int)MIN(rest.len, 200), rest.data);
    struct str  front = str_cat(perm, done, str_sub(rest, 0, open));
    enum status st    = STATUS_OK;
    while (!st && words_next(&w, perm, &word))
        st = expand(str_cat(perm, front, word), str_sub(rest, close + 1, rest.len), perm, list,
                    count, err);
    return st;
}

enum status pattern_expand(struct str pattern, struct arena *perm, struct str **out, i64 *count,
                           struct err *err)
{
    struct arena list = arena_part(perm, (PLACE_SHARDS_MAX + 64) * (i64)sizeof **out);
    *out              = NEW(&list, struct str, 0);
    *count            = 0;
    return expand(STR(""), pattern, perm, &list, count, err);
}
