/* os_file.c - whole files through the seam, and what the kernel says about us. */
#include "base/cgroup.h"
#include "base/os.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* All of an open file into perm. The size is only a hint: kernel files say 0, others may grow. */
static enum status read_open(struct os *os, struct file f, struct str path, i64 bytes_hint,
                             struct arena *perm, struct str *bytes, struct err *err)
{
    i64   room = perm->end - perm->begin, cap = MIN(bytes_hint + 4096, room), len = 0;
    char *data = NEW(perm, char, cap);
    for (;;) {
        i64         got;
        enum status st = os->read(os, f, data + len, cap - len, -1, &got, err);
        if (st) return st;
        len += got;
        if (got == 0 && len < cap) break;
        if (len < cap) continue;
        i64 more = MIN(cap, perm->end - perm->begin);
        if (more == 0)
            return err_set(err, STATUS_WORLD, "%.*s does not fit in %lld bytes", STR_ARG(path),
                           (long long)room);
        NEW(perm, char, more); /* data is the arena's last item: it grows in place */
        cap += more;
    }
    data[len] = '\0';
    perm->begin -= cap - len - 1; /* the rest goes back */
    *bytes = (struct str){ data, len };
    return STATUS_OK;
}

bool os_is_file(struct os *os, struct str path)
{
    struct os_stat s;
    return !os->stat(os, path, &s, NULL) && !s.is_dir;
}

enum status os_read_all(struct os *os, struct str path, struct arena *perm, struct str *bytes,
                        struct err *err)
{
    struct os_stat stat;
    struct file    f  = { -1 };
    enum status    st = os->stat(os, path, &stat, err);
    if (!st && stat.is_dir)
        st = err_set(err, STATUS_WORLD, "cannot read %.*s: it is a folder, not a file",
                     STR_ARG(path));
    if (!st) st = os->open_read(os, path, &f, err);
    if (!st) st = read_open(os, f, path, stat.bytes, perm, bytes, err);
    if (f.fd >= 0) os->close(os, &f, NULL);
    return st;
}

struct str os_part_name(struct arena *perm, struct str path)
{
    return str_fmt(perm, "%.*s.%d.part", STR_ARG(path), (int)getpid());
}

bool os_part_is_left(struct str name, struct str base)
{
    struct str tail = STR(".part");
    i64        pid;
    if (name.len <= base.len + 1 + tail.len || !str_starts(name, base) || !str_ends(name, tail))
        return false;
    if (name.data[base.len] != '.' ||
        !str_i64(str_sub(name, base.len + 1, name.len - tail.len), &pid))
        return false;
    return pid > 0 && pid <= INT_MAX && pid != getpid() && kill((pid_t)pid, 0) && errno == ESRCH;
}

void os_part_sweep(struct os *os, struct str path, struct arena scratch)
{
    struct str *names, dir = path;
    i64         count = 0;
    while (dir.len > 0 && dir.data[dir.len - 1] != '/') dir.len--;
    struct str base = str_sub(path, dir.len, path.len);
    if (os->list(os, dir.len ? dir : STR("."), &scratch, &names, &count, NULL)) return;
    for (i64 i = 0; i < count; i++) {
        struct file f;
        struct str  part = str_cat(&scratch, dir, names[i]);
        if (!os_part_is_left(names[i], base) || os->lock(os, part, &f, NULL))
            continue; /* it is being written */
        os->remove(os, part, NULL);
        os->close(os, &f, NULL);
    }
}

/* The name only moves once the bytes are on the disk, and we return only once the name is. */
enum status os_publish_from(struct os *os, struct str path, const struct os_pieces *pieces,
                            struct arena scratch, struct err *err)
{
    struct str  part = os_part_name(&scratch, path);
    struct file f    = { -1 };
    os_part_sweep(os, path, scratch);
    enum status st = os->create(os, part, &f, err);

    for (i64 i = 0; i < pieces->count && !st; i++) {
        struct str bytes = pieces->piece(pieces->context, i);
        st               = bytes.len < 0 ? STATUS_USAGE : os->write(os, f, bytes, err);
    }
    if (!st) st = os->sync(os, f, err);
    if (!st) st = os->close(os, &f, err);
    if (!st) st = os->rename(os, part, path, err);
    if (!st) return os->sync_dir_of(os, path, err);

    if (f.fd >= 0) os->close(os, &f, NULL);
    os->remove(os, part, NULL);
    return st;
}

static struct str part_at(const void *context, i64 i) { return ((const struct str *)context)[i]; }

enum status os_publish_parts(struct os *os, struct str path, const struct str *parts, i64 count,
                             struct arena scratch, struct err *err)
{
    struct os_pieces pieces = { part_at, parts, count };
    return os_publish_from(os, path, &pieces, scratch, err);
}

enum status os_publish(struct os *os, struct str path, struct str bytes, struct arena scratch,
                       struct err *err)
{
    return os_publish_parts(os, path, &bytes, 1, scratch, err);
}

struct str os_absolute(struct arena *perm, struct str path)
{
    char given[PATH_MAX], found[PATH_MAX];
    if (path.len >= (i64)sizeof given) return path;
    memcpy(given, path.data, (size_t)path.len);
    given[path.len] = '\0';
    return realpath(given, found) ? str_copy(perm, str_of(found)) : path;
}

struct str os_proc_text(struct str path, char *text, i64 bytes_max)
{
    struct os  *os    = os_real();
    struct str  bytes = { text, 0 };
    struct file f;
    if (os->open_read(os, path, &f, NULL)) return bytes;
    if (os->read(os, f, text, bytes_max, -1, &bytes.len, NULL)) bytes.len = 0;
    os->close(os, &f, NULL);
    return bytes;
}

struct str os_proc_value(struct str text, struct str key)
{
    struct str line;
    while (str_cut(&text, '\n', &line)) {
        i64 colon = str_find(line, ':');
        if (colon >= 0 && str_eq(str_trim(str_sub(line, 0, colon)), key))
            return str_trim(str_sub(line, colon + 1, line.len));
    }
    return STR("");
}

/* A line like "VmHWM:   1234 kB"; 0 if there is none. */
static i64 kib_of(struct str path, struct str key)
{
    char       text[8192];
    struct str value = os_proc_value(os_proc_text(path, text, sizeof text), key);
    i64        kib   = 0;
    if (str_ends(value, STR(" kB"))) str_i64(str_sub(value, 0, value.len - 3), &kib);
    return kib;
}

/* What ulimit -v leaves. */
static i64 address_space_bytes(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY) return INT64_MAX;
    return MAX((i64)r.rlim_cur - kib_of(STR("/proc/self/status"), STR("VmSize")) * 1024, 0);
}

i64 os_memory_free_bytes(void)
{
    char       text[CGROUP_TEXT_MAX];
    struct str groups = os_proc_text(CGROUP_OF_PROCESS, text, sizeof text);
    i64        bytes  = kib_of(STR("/proc/meminfo"), STR("MemAvailable")) * 1024;
    bytes             = MIN(bytes, cgroup_memory_bytes(os_real(), groups, CGROUP_ROOT));
    return MIN(bytes, address_space_bytes());
}

i64 os_peak_rss_bytes(void) { return kib_of(STR("/proc/self/status"), STR("VmHWM")) * 1024; }
