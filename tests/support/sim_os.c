/* sim_os.c - see sim_os.h. A disk is a table of names, each pointing to a body of bytes; names and
 * bodies are kept twice, as the process sees them and as they were when last synced. */
#include "support/sim_os.h"
#include "base/rng.h"
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4096, BODIES_MAX = 8192, FILES_MAX = 64, PAST_MAX = 8 };
enum { NOBODY = -1, FOLDER = -2 }; /* what a name may point to besides a body */

struct sim_body {
    struct str path; /* under which it was made */
    struct str bytes, synced;
    bool       dropped; /* a sync failed: what is there now will never be synced */
    i64        mtime_ns;
};

struct sim_name {
    struct str path;
    i64        body, synced;
    i64        past[PAST_MAX]; /* what else it pointed to since it was synced */
    i64        past_count;
};

struct sim_disk {
    struct arena   *perm;
    struct sim_name names[NAMES_MAX];
    struct sim_body bodies[BODIES_MAX];
    i64             name_count, body_count;
    struct {
        i64  body, at; /* body NOBODY: closed */
        bool lock;
    } files[FILES_MAX];
};

static struct sim_os *sim_of(struct os *os) { return os->context; }

/* Counts a call; not OK when it is the one with the accident, or after the end. */
static enum status step(struct sim_os *sim, struct err *err)
{
    sim->calls++;
    if (sim->kill_at && sim->calls >= sim->kill_at)
        return err_set(err, STATUS_WORLD, "the process was killed at call %lld",
                       (long long)sim->kill_at);
    if (sim->calls == sim->fail_at)
        return err_set(err, STATUS_WORLD, "call %lld fails", (long long)sim->calls);
    return STATUS_OK;
}

/* The same for a call that changes the disk. */
static enum status step_changing(struct sim_os *sim, struct err *err)
{
    if (sim->before_change) sim->before_change(sim);
    return step(sim, err);
}

/* Bytes of all files that have a name. */
static i64 bytes_held(const struct sim_disk *d)
{
    i64 bytes = 0;
    for (i64 i = 0; i < d->name_count; i++)
        if (d->names[i].body >= 0) bytes += d->bodies[d->names[i].body].bytes.len;
    return bytes;
}

/* And takes room on it. */
static enum status step_growing(struct sim_os *sim, struct str path, i64 bytes, struct err *err)
{
    enum status st   = step_changing(sim, err);
    bool        full = sim->full_at && sim->calls >= sim->full_at;
    if (sim->bytes_max && bytes) full |= bytes_held(sim->disk) + bytes > sim->bytes_max;
    if (st || !full) return st;
    err_set(err, STATUS_WORLD, "cannot write to %.*s: No space left on device", STR_ARG(path));
    if (err) err->cause = CAUSE_FULL;
    return STATUS_WORLD;
}

static struct str clean(struct str path)
{
    while (str_starts(path, STR("./"))) path = str_sub(path, 2, path.len);
    while (path.len > 1 && str_ends(path, STR("/"))) path.len--;
    return path;
}

static struct str dir_of(struct str path)
{
    path = clean(path);
    while (path.len > 0 && path.data[path.len - 1] != '/') path.len--;
    return path.len > 1 ? str_sub(path, 0, path.len - 1) : path;
}

static struct sim_name *find(struct sim_disk *d, struct str path)
{
    path = clean(path);
    for (i64 i = 0; i < d->name_count; i++)
        if (str_eq(d->names[i].path, path)) return &d->names[i];
    return NULL;
}

static bool is_dir(struct sim_disk *d, struct str path)
{
    struct sim_name *n = find(d, path);
    path               = clean(path);
    return path.len == 0 || str_eq(path, STR("/")) || str_eq(path, STR(".")) ||
           (n && n->body == FOLDER);
}

static struct sim_name *find_or_add(struct sim_disk *d, struct str path)
{
    struct sim_name *n = find(d, path);
    if (n) return n;
    ASSERT(d->name_count < NAMES_MAX);
    n  = &d->names[d->name_count++];
    *n = (struct sim_name){ .path   = str_copy(d->perm, clean(path)),
                            .body   = NOBODY,
                            .synced = NOBODY };
    return n;
}

static void point(struct sim_name *n, i64 body)
{
    if (n->past_count == PAST_MAX) /* the oldest is forgotten: fewer ways to end, none wrong */
        memmove(n->past, n->past + 1, (size_t)--n->past_count * sizeof *n->past);
    n->past[n->past_count++] = n->body;
    n->body                  = body;
}

static i64 body_new(struct sim_disk *d, struct str path)
{
    ASSERT(d->body_count < BODIES_MAX);
    d->bodies[d->body_count] = (struct sim_body){ .path = str_copy(d->perm, path) };
    return d->body_count++;
}

static enum status absent(struct err *err, struct str path)
{
    err_set(err, STATUS_WORLD, "cannot find %.*s: No such file or directory", STR_ARG(path));
    if (err) err->cause = CAUSE_ABSENT;
    return STATUS_WORLD;
}

static enum status open_body(struct sim_disk *d, i64 body, struct file *f)
{
    for (f->fd = 0; f->fd < FILES_MAX; f->fd++) {
        if (d->files[f->fd].body != NOBODY) continue;
        d->files[f->fd].body = body;
        d->files[f->fd].at   = 0;
        return STATUS_OK;
    }
    ASSERT(!"a simulated process has that many files open");
    return STATUS_WORLD;
}

static enum status sim_open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    f->fd              = -1;
    if (st) return st;
    struct sim_name *n = find(sim->disk, path);
    if (!n || n->body < 0) return absent(err, path);
    return open_body(sim->disk, n->body, f);
}

/* The name of a file, made where there is none. */
static enum status file_name(struct sim_os *sim, struct str path, struct sim_name **out,
                             struct err *err)
{
    struct sim_disk *d = sim->disk;
    if (!is_dir(d, dir_of(path))) return absent(err, path);
    if (is_dir(d, path))
        return err_set(err, STATUS_WORLD, "cannot create %.*s: Is a directory", STR_ARG(path));
    *out = find_or_add(d, path);
    if ((*out)->body == NOBODY) point(*out, body_new(d, path));
    return STATUS_OK;
}

static enum status sim_create(struct os *os, struct str path, struct file *f, struct err *err)
{
    struct sim_os   *sim = sim_of(os);
    struct sim_name *n;
    enum status      st = step_growing(sim, path, 0, err);
    f->fd               = -1;
    if (!st) st = file_name(sim, path, &n, err);
    if (st) return st;
    struct sim_body *b = &sim->disk->bodies[n->body];
    b->bytes           = STR("");
    b->dropped         = false;
    b->mtime_ns        = sim->now_ns;
    return open_body(sim->disk, n->body, f);
}

static enum status sim_lock(struct os *os, struct str path, struct file *f, struct err *err)
{
    struct sim_os   *sim = sim_of(os);
    struct sim_name *n;
    enum status      st = step(sim, err);
    f->fd               = -1;
    if (!st) st = file_name(sim, path, &n, err);
    for (int i = 0; i < FILES_MAX && !st; i++)
        if (sim->disk->files[i].lock && sim->disk->files[i].body == n->body)
            st = err_set(err, STATUS_NO, "%.*s is held by another process", STR_ARG(path));
    if (!st) st = open_body(sim->disk, n->body, f);
    if (!st) sim->disk->files[f->fd].lock = true;
    return st;
}

static enum status sim_read(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                            struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    *got               = 0;
    if (st) return st;
    ASSERT(sim->disk->files[f.fd].body != NOBODY);
    i64       *next = &sim->disk->files[f.fd].at;
    struct str part = sim->disk->bodies[sim->disk->files[f.fd].body].bytes;
    i64        from = at < 0 ? *next : at;
    part            = str_sub(part, from, from + bytes);
    if (part.len) memcpy(to, part.data, (size_t)part.len);
    if (at < 0) *next += part.len;
    *got = part.len;
    return STATUS_OK;
}

static enum status sim_write(struct os *os, struct file f, struct str bytes, struct err *err)
{
    struct sim_os   *sim    = sim_of(os);
    bool             killed = sim->kill_at && sim->calls >= sim->kill_at;
    struct sim_body *b      = &sim->disk->bodies[sim->disk->files[f.fd].body];
    enum status      st     = step_growing(sim, b->path, bytes.len, err);
    if (killed) return st;
    if (st) bytes = str_sub(bytes, 0, bytes.len / 2); /* an accident comes in the middle */
    b->bytes    = str_cat(sim->disk->perm, b->bytes, bytes);
    b->mtime_ns = sim->now_ns;
    return st;
}

static bool skipped(struct sim_os *sim, struct str path)
{
    return sim->skip_sync && sim->skip_sync(sim, path);
}

static enum status sim_sync(struct os *os, struct file f, struct err *err)
{
    struct sim_os   *sim = sim_of(os);
    enum status      st  = step_changing(sim, err);
    struct sim_body *b   = &sim->disk->bodies[sim->disk->files[f.fd].body];
    if (st && sim->calls == sim->fail_at) b->dropped = true;
    if (!st && !b->dropped && !skipped(sim, b->path)) b->synced = b->bytes;
    return st;
}

static enum status sim_close(struct os *os, struct file *f, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    ASSERT(sim->disk->files[f->fd].body != NOBODY); /* closed twice */
    sim->disk->files[f->fd].body = NOBODY;
    sim->disk->files[f->fd].lock = false;
    f->fd                        = -1;
    return st;
}

static enum status sim_rename(struct os *os, struct str from, struct str to, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step_changing(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, from);
    if (!n || n->body < 0) return absent(err, from);
    if (!is_dir(sim->disk, dir_of(to))) return absent(err, to);
    if (str_eq(clean(from), clean(to))) return STATUS_OK;
    point(find_or_add(sim->disk, to), n->body);
    point(n, NOBODY);
    return STATUS_OK;
}

static bool has_children(struct sim_disk *d, struct str dir)
{
    for (i64 i = 0; i < d->name_count; i++)
        if (d->names[i].body != NOBODY && str_eq(dir_of(d->names[i].path), clean(dir))) return true;
    return false;
}

static enum status sim_remove(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step_changing(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, path);
    if (!n || n->body == NOBODY) return absent(err, path);
    if (n->body == FOLDER && has_children(sim->disk, path))
        return err_set(err, STATUS_WORLD, "cannot remove %.*s: Directory not empty", STR_ARG(path));
    point(n, NOBODY);
    return STATUS_OK;
}

static enum status sim_make_dir(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step_growing(sim, path, 0, err);
    if (st) return st;
    for (path = clean(path); !is_dir(sim->disk, path); path = dir_of(path)) {
        struct sim_name *n = find_or_add(sim->disk, path);
        if (n->body != NOBODY)
            return err_set(err, STATUS_WORLD, "%.*s is a file, not a folder", STR_ARG(path));
        point(n, FOLDER);
    }
    return STATUS_OK;
}

static void settle(struct sim_name *n, i64 body)
{
    n->body = n->synced = body;
    n->past_count       = 0;
}

static enum status sim_sync_dir_of(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step_changing(sim, err);
    struct str     dir = dir_of(path);
    if (st || skipped(sim, str_cat(sim->disk->perm, dir, STR("/")))) return st;
    for (i64 i = 0; i < sim->disk->name_count; i++) {
        struct sim_name *n = &sim->disk->names[i];
        if (str_eq(dir_of(n->path), dir)) settle(n, n->body);
    }
    return STATUS_OK;
}

/* What the kernel tells of the machine is on no disk, and asking for it no call that counts: a thread does, at times of
 * its own. */
static enum status sim_stat(struct os *os, struct str path, struct os_stat *out, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    if (str_starts(path, STR("/proc/"))) return absent(err, path);
    enum status st = step(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, path);
    *out               = (struct os_stat){ .is_dir = is_dir(sim->disk, path) };
    if (out->is_dir) return STATUS_OK;
    if (!n || n->body < 0) return absent(err, path);
    out->is_plain = true;
    out->bytes    = sim->disk->bodies[n->body].bytes.len;
    out->mtime_ns = sim->disk->bodies[n->body].mtime_ns;
    return STATUS_OK;
}

static void sim_set_mtime(struct os *os, struct str path, i64 mtime_ns)
{
    struct sim_disk *d = sim_of(os)->disk;
    struct sim_name *n = find(d, path);
    if (n && n->body >= 0) d->bodies[n->body].mtime_ns = mtime_ns;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct str *)a)->data, ((const struct str *)b)->data);
}

static enum status sim_list(struct os *os, struct str dir, struct arena *perm, struct str **names,
                            i64 *count, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    if (!is_dir(sim->disk, dir)) return absent(err, dir);
    struct str parent = str_eq(clean(dir), STR(".")) ? STR("") : clean(dir);
    *names            = NEW(perm, struct str, sim->disk->name_count);
    *count            = 0;
    for (i64 i = 0; i < sim->disk->name_count; i++) {
        struct sim_name *n = &sim->disk->names[i];
        if (n->body == NOBODY || !str_eq(dir_of(n->path), parent)) continue;
        i64 skip             = parent.len ? parent.len + !str_ends(parent, STR("/")) : 0;
        (*names)[(*count)++] = str_copy(perm, str_sub(n->path, skip, n->path.len));
    }
    qsort(*names, (size_t)*count, sizeof **names, by_text);
    return STATUS_OK;
}

static enum status sim_map(struct os *os, struct str path, struct str *bytes, struct err *err)
{
    enum status st = step(sim_of(os), err);
    if (st) return st;
    *bytes = sim_os_look(sim_of(os), path);
    if (!bytes->data) return absent(err, path);
    if ((uintptr_t)bytes->data % 8) { /* a map begins a page, so whoever maps may rely on that */
        char *page = arena_take(sim_of(os)->disk->perm, bytes->len + 1, 1, 8);
        memcpy(page, bytes->data, (size_t)bytes->len);
        bytes->data = page;
    }
    return STATUS_OK;
}

static void sim_unmap(struct os *os, struct str bytes) { (void)os, (void)bytes; }

static i64  sim_now_ns(struct os *os) { return sim_of(os)->now_ns; }
static i64  sim_wall_ns(struct os *os) { return (i64)1700000000000000000 + sim_of(os)->now_ns; }
static void sim_sleep_ns(struct os *os, i64 ns) { sim_of(os)->now_ns += MAX(ns, 0); }

static struct str sim_env_at(struct os *os, i64 index)
{
    struct sim_os *sim = sim_of(os);
    if (index >= sim->env_count) return (struct str){ 0 };
    return str_fmt(sim->disk->perm, "%.*s=%.*s", STR_ARG(sim->env[index][0]),
                   STR_ARG(sim->env[index][1]));
}

static struct str sim_env(struct os *os, const char *name)
{
    struct sim_os *sim = sim_of(os);
    for (i64 i = 0; i < sim->env_count; i++)
        if (str_eq(sim->env[i][0], str_of(name))) return sim->env[i][1];
    return (struct str){ 0 };
}

static enum status sim_connect(struct os *os, struct str host, i32 port, i64 limit_ns,
                               struct file *f, struct err *err)
{
    enum status st = step(sim_of(os), err);
    f->fd          = -1;
    (void)limit_ns;
    if (st) return st;
    return err_set(err, STATUS_WORLD, "cannot connect to %.*s:%d: no network here", STR_ARG(host),
                   port);
}

static enum status sim_listen(struct os *os, struct str host, i32 port, struct file *f,
                              struct err *err)
{
    return sim_connect(os, host, port, 0, f, err);
}

static i32 sim_port_of(struct os *os, struct file f) { return (void)os, (void)f, -1; }

static enum status sim_accept(struct os *os, struct file listener, i64 limit_ns, struct file *f,
                              struct err *err)
{
    (void)listener;
    return sim_connect(os, STR("nobody"), 0, limit_ns, f, err);
}

static enum os_signal sim_signal_take(struct os *os)
{
    enum os_signal s   = sim_of(os)->signal;
    sim_of(os)->signal = OS_SIGNAL_NONE;
    return s;
}

/* This disk has no cache to go past. */
static void sim_direct(struct os *os, struct file f, bool on) { (void)os, (void)f, (void)on; }

static bool sim_holds(struct os *os, struct file lock, struct str path)
{
    struct sim_disk *d = sim_of(os)->disk;
    struct sim_name *n = find(d, path);
    return n && n->body == d->files[lock.fd].body;
}

struct sim_os *sim_os_new(struct arena *perm)
{
    struct sim_os *sim = NEW(perm, struct sim_os, 1);
    sim->disk          = NEW(perm, struct sim_disk, 1);
    sim->disk->perm    = perm;
    for (int i = 0; i < FILES_MAX; i++) sim->disk->files[i].body = NOBODY;
    sim->os = (struct os){
        sim,         sim_open_read, sim_create,      sim_read,     sim_write,       sim_sync,
        sim_close,   sim_rename,    sim_remove,      sim_make_dir, sim_sync_dir_of, sim_lock,
        sim_stat,    sim_set_mtime, sim_list,        sim_map,      sim_unmap,       sim_now_ns,
        sim_wall_ns, sim_sleep_ns,  sim_env,         sim_env_at,   sim_connect,     sim_listen,
        sim_port_of, sim_accept,    sim_signal_take, sim_direct,   sim_holds,       NULL,
        NULL,
    };
    return sim;
}

/* Any bits, for the pair (what, which). */
static u32 draw(const struct sim_os *sim, u64 what, u64 which)
{
    return rng_u32((struct rng_key){ .seed = sim->seed, .name = what, .step = (u64)sim->calls },
                   which);
}

/* Blocks of the new bytes and of the old, mixed, up to some length between theirs. */
static struct str any_bytes(const struct sim_os *sim, const struct sim_body *b, u64 which)
{
    enum { BLOCK = 8 };
    i64   least = MIN(b->bytes.len, b->synced.len), most = MAX(b->bytes.len, b->synced.len);
    i64   ends[3] = { least, most, least + draw(sim, 1, which) % (most - least + 1) };
    i64   len     = ends[draw(sim, 2, which) % 3];
    char *to      = NEW(sim->disk->perm, char, len + 1);
    for (i64 i = 0; i < len; i++) {
        bool       fresh = draw(sim, 3 + which, (u64)(i / BLOCK)) & 1;
        struct str from  = fresh ? b->bytes : b->synced;
        to[i]            = (char)(i < from.len ? from.data[i] : 0);
    }
    return (struct str){ to, len };
}

static i64 any_target(const struct sim_os *sim, const struct sim_name *n, u64 which)
{
    i64 pick = draw(sim, 0, which) % (n->past_count + 2);
    return pick == n->past_count ? n->synced : pick > n->past_count ? n->body : n->past[pick];
}

/* What lay in a folder whose name is gone is gone with it. */
static void drop_orphans(struct sim_disk *d)
{
    for (bool again = true; again;) {
        again = false;
        for (i64 i = 0; i < d->name_count; i++) {
            struct sim_name *n = &d->names[i];
            if (n->body == NOBODY || is_dir(d, dir_of(n->path))) continue;
            settle(n, NOBODY);
            again = true;
        }
    }
}

static void power_cut(struct sim_os *sim, enum sim_survive survive)
{
    struct sim_disk *d = sim->disk;
    for (i64 i = 0; i < d->body_count; i++) {
        struct sim_body *b = &d->bodies[i];
        if (survive == SIM_ANY) b->bytes = any_bytes(sim, b, (u64)i);
        else if (survive != SIM_BYTES_ONLY) b->bytes = b->synced;
        b->synced  = b->bytes;
        b->dropped = false;
    }
    for (i64 i = 0; i < d->name_count; i++) {
        struct sim_name *n      = &d->names[i];
        i64              target = survive == SIM_NAMES_ONLY ? n->body : n->synced;
        settle(n, survive == SIM_ANY ? any_target(sim, n, (u64)i) : target);
    }
    drop_orphans(d);
}

void sim_os_crash(struct sim_os *sim, enum sim_survive survive)
{
    if (survive != SIM_ALL) power_cut(sim, survive);
    for (int i = 0; i < FILES_MAX; i++) {
        sim->disk->files[i].body = NOBODY;
        sim->disk->files[i].lock = false;
    }
    sim->kill_at = sim->fail_at = sim->full_at = 0;
}

struct sim_os *sim_os_copy(const struct sim_os *sim, struct arena *perm)
{
    struct sim_os         *copy = sim_os_new(perm);
    const struct sim_disk *d    = sim->disk;
    copy->calls                 = sim->calls;
    copy->seed                  = sim->seed;
    copy->now_ns                = sim->now_ns;
    copy->disk->name_count      = d->name_count;
    copy->disk->body_count      = d->body_count;
    memcpy(copy->disk->names, d->names, (size_t)d->name_count * sizeof *d->names);
    memcpy(copy->disk->bodies, d->bodies, (size_t)d->body_count * sizeof *d->bodies);
    return copy;
}

struct str sim_os_look(struct sim_os *sim, struct str path)
{
    struct sim_name *n = find(sim->disk, path);
    if (!n || n->body < 0) return (struct str){ 0 };
    struct str bytes = sim->disk->bodies[n->body].bytes;
    return bytes.data ? bytes : STR("");
}

void sim_os_put(struct sim_os *sim, struct str path, struct str bytes)
{
    struct sim_disk *d    = sim->disk;
    i64              body = body_new(d, path);
    bytes                 = str_copy(d->perm, bytes);
    d->bodies[body].bytes = d->bodies[body].synced = bytes;
    d->bodies[body].mtime_ns                       = sim->now_ns;
    settle(find_or_add(d, path), body);
    for (path = dir_of(path); !is_dir(d, path); path = dir_of(path))
        settle(find_or_add(d, path), FOLDER);
}
