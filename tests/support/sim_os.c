/* sim_os.c - see sim_os.h. A disk is a table of names, each pointing to a body of bytes twice: as
 * the process sees it, and as it was when last synced. */
#include "support/sim_os.h"
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 512, BODIES_MAX = 4096, FILES_MAX = 64, NOBODY = -1 };

struct sim_body {
    struct str bytes, synced;
    i64        mtime_ns;
};

struct sim_name {
    struct str path;
    i64        body, synced; /* NOBODY: no such file */
    bool       is_dir;       /* folders are durable at once: no write path of ours depends on it */
};

struct sim_disk {
    struct arena   *perm;
    struct sim_name names[NAMES_MAX];
    struct sim_body bodies[BODIES_MAX];
    i64             name_count, body_count;
    struct {
        i64 body, at; /* body NOBODY: closed */
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
    return path.len == 0 || str_eq(path, STR("/")) || str_eq(path, STR(".")) || (n && n->is_dir);
}

static struct sim_name *find_or_add(struct sim_disk *d, struct str path)
{
    struct sim_name *n = find(d, path);
    if (n) return n;
    ASSERT(d->name_count < NAMES_MAX);
    n  = &d->names[d->name_count++];
    *n = (struct sim_name){ str_copy(d->perm, clean(path)), NOBODY, NOBODY, false };
    return n;
}

static i64 body_new(struct sim_disk *d)
{
    ASSERT(d->body_count < BODIES_MAX);
    return d->body_count++;
}

static enum status absent(struct err *err, struct str path)
{
    return err_set(err, STATUS_WORLD, "cannot find %.*s: No such file or directory", STR_ARG(path));
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
    if (!n || n->body == NOBODY) return absent(err, path);
    return open_body(sim->disk, n->body, f);
}

static enum status sim_create(struct os *os, struct str path, struct file *f, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    f->fd              = -1;
    if (st) return st;
    if (!is_dir(sim->disk, dir_of(path))) return absent(err, path);
    if (is_dir(sim->disk, path))
        return err_set(err, STATUS_WORLD, "cannot create %.*s: Is a directory", STR_ARG(path));
    struct sim_name *n = find_or_add(sim->disk, path);
    if (n->body == NOBODY) n->body = body_new(sim->disk);
    sim->disk->bodies[n->body].bytes    = STR("");
    sim->disk->bodies[n->body].mtime_ns = sim->now_ns;
    return open_body(sim->disk, n->body, f);
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
    struct sim_os *sim    = sim_of(os);
    bool           killed = sim->kill_at && sim->calls >= sim->kill_at;
    enum status    st     = step(sim, err);
    if (killed) return st;
    if (st) bytes = str_sub(bytes, 0, bytes.len / 2); /* an accident comes in the middle */
    struct sim_body *b = &sim->disk->bodies[sim->disk->files[f.fd].body];
    b->bytes           = str_cat(sim->disk->perm, b->bytes, bytes);
    b->mtime_ns        = sim->now_ns;
    return st;
}

static enum status sim_sync(struct os *os, struct file f, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    struct sim_body *b = &sim->disk->bodies[sim->disk->files[f.fd].body];
    b->synced          = b->bytes;
    return STATUS_OK;
}

static enum status sim_close(struct os *os, struct file *f, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    ASSERT(sim->disk->files[f->fd].body != NOBODY); /* closed twice */
    sim->disk->files[f->fd].body = NOBODY;
    f->fd                        = -1;
    return st;
}

static enum status sim_rename(struct os *os, struct str from, struct str to, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, from);
    if (!n || n->body == NOBODY) return absent(err, from);
    if (!is_dir(sim->disk, dir_of(to))) return absent(err, to);
    find_or_add(sim->disk, to)->body = n->body;
    if (!str_eq(clean(from), clean(to))) n->body = NOBODY;
    return STATUS_OK;
}

static bool has_children(struct sim_disk *d, struct str dir)
{
    for (i64 i = 0; i < d->name_count; i++)
        if ((d->names[i].is_dir || d->names[i].body != NOBODY) &&
            str_eq(dir_of(d->names[i].path), clean(dir)))
            return true;
    return false;
}

static enum status sim_remove(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, path);
    if (!n || (n->body == NOBODY && !n->is_dir)) return absent(err, path);
    if (n->is_dir && has_children(sim->disk, path))
        return err_set(err, STATUS_WORLD, "cannot remove %.*s: Directory not empty", STR_ARG(path));
    n->body   = NOBODY;
    n->is_dir = false;
    return STATUS_OK;
}

static enum status sim_make_dir(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    for (path = clean(path); !is_dir(sim->disk, path); path = dir_of(path)) {
        struct sim_name *n = find_or_add(sim->disk, path);
        if (n->body != NOBODY)
            return err_set(err, STATUS_WORLD, "%.*s is a file, not a folder", STR_ARG(path));
        n->is_dir = true;
    }
    return STATUS_OK;
}

static enum status sim_sync_dir_of(struct os *os, struct str path, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    for (i64 i = 0; i < sim->disk->name_count; i++) {
        struct sim_name *n = &sim->disk->names[i];
        if (str_eq(dir_of(n->path), dir_of(path))) n->synced = n->body;
    }
    return STATUS_OK;
}

static enum status sim_stat(struct os *os, struct str path, struct os_stat *out, struct err *err)
{
    struct sim_os *sim = sim_of(os);
    enum status    st  = step(sim, err);
    if (st) return st;
    struct sim_name *n = find(sim->disk, path);
    *out               = (struct os_stat){ .is_dir = is_dir(sim->disk, path) };
    if (out->is_dir) return STATUS_OK;
    if (!n || n->body == NOBODY) return absent(err, path);
    out->bytes    = sim->disk->bodies[n->body].bytes.len;
    out->mtime_ns = sim->disk->bodies[n->body].mtime_ns;
    return STATUS_OK;
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
        if ((n->body == NOBODY && !n->is_dir) || !str_eq(dir_of(n->path), parent)) continue;
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
    return bytes->data ? STATUS_OK : absent(err, path);
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

struct sim_os *sim_os_new(struct arena *perm)
{
    struct sim_os *sim = NEW(perm, struct sim_os, 1);
    sim->disk          = NEW(perm, struct sim_disk, 1);
    sim->disk->perm    = perm;
    for (int i = 0; i < FILES_MAX; i++) sim->disk->files[i].body = NOBODY;
    sim->os = (struct os){
        sim,       sim_open_read, sim_create, sim_read,     sim_write,       sim_sync,
        sim_close, sim_rename,    sim_remove, sim_make_dir, sim_sync_dir_of, sim_stat,
        sim_list,  sim_map,       sim_unmap,  sim_now_ns,   sim_wall_ns,     sim_sleep_ns,
        sim_env,   sim_env_at,    sim_connect, sim_listen,  sim_port_of,     sim_accept,
        sim_signal_take,
    };
    return sim;
}

void sim_os_crash(struct sim_os *sim, enum sim_survive survive)
{
    struct sim_disk *d          = sim->disk;
    bool             keep_names = survive == SIM_ALL || survive == SIM_NAMES_ONLY;
    bool             keep_bytes = survive == SIM_ALL || survive == SIM_BYTES_ONLY;
    for (i64 i = 0; i < d->name_count; i++) {
        struct sim_name *n = &d->names[i];
        if (keep_names) n->synced = n->body;
        else n->body = n->synced;
    }
    for (i64 i = 0; i < d->body_count; i++) {
        struct sim_body *b = &d->bodies[i];
        if (keep_bytes) b->synced = b->bytes;
        else b->bytes = b->synced;
    }
    for (int i = 0; i < FILES_MAX; i++) d->files[i].body = NOBODY;
    sim->kill_at = 0;
    sim->fail_at = 0;
}

struct str sim_os_look(struct sim_os *sim, struct str path)
{
    struct sim_name *n = find(sim->disk, path);
    if (!n || n->body == NOBODY) return (struct str){ 0 };
    struct str bytes = sim->disk->bodies[n->body].bytes;
    return bytes.data ? bytes : STR("");
}

void sim_os_put(struct sim_os *sim, struct str path, struct str bytes)
{
    struct sim_name *n = find_or_add(sim->disk, path);
    n->body = n->synced        = body_new(sim->disk);
    bytes                      = str_copy(sim->disk->perm, bytes);
    sim->disk->bodies[n->body] = (struct sim_body){ bytes, bytes, sim->now_ns };
}
