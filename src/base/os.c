/* os.c - the machine itself behind the seam: files, clock, environment, signals. */
#include "base/os.h"
#include "base/os_int.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const i64 list_names_max = 1 << 20;

struct path { /* with the zero byte that the system wants */
    char z[PATH_MAX];
};

static enum status path_set(struct path *p, struct str path, struct err *err)
{
    if (path.len >= (i64)sizeof p->z)
        return err_set(err, STATUS_USAGE, "the path %.*s... is longer than %d bytes", 80, path.data,
                       PATH_MAX - 1);
    if (path.len == 0 || str_find(path, '\0') >= 0)
        return err_set(err, STATUS_USAGE, "a path is empty or has a zero byte in it");
    memcpy(p->z, path.data, (size_t)path.len);
    p->z[path.len] = '\0';
    return STATUS_OK;
}

static enum status failed(struct err *err, const char *what, struct str path)
{
    int reason = errno;
    return err_set(err, STATUS_WORLD, "cannot %s %.*s: %s", what, STR_ARG(path), strerror(reason));
}

/* The same for an open file, whose path the kernel still knows ("socket:[7]" for a stream). */
static enum status failed_open(struct err *err, const char *what, struct file f)
{
    int  reason = errno;
    char link[64], path[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", f.fd);
    ssize_t len = readlink(link, path, sizeof path);
    errno       = reason;
    return failed(err, what, len < 0 ? STR("a file") : (struct str){ path, len });
}

static enum status open_with(struct str path, int flags, const char *what, struct file *f,
                             struct err *err)
{
    struct path p;
    f->fd          = -1;
    enum status st = path_set(&p, path, err);
    if (st) return st;
    do f->fd = open(p.z, flags | O_CLOEXEC, 0666);
    while (f->fd < 0 && errno == EINTR);
    return f->fd < 0 ? failed(err, what, path) : STATUS_OK;
}

static enum status real_open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    return open_with(path, O_RDONLY, "open", f, err);
}

static enum status real_create(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    return open_with(path, O_WRONLY | O_CREAT | O_TRUNC, "create", f, err);
}

static enum status real_read(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                             struct err *err)
{
    (void)os;
    ASSERT(bytes >= 0);
    ssize_t n;
    do n = at < 0 ? read(f.fd, to, (size_t)bytes) : pread(f.fd, to, (size_t)bytes, at);
    while (n < 0 && errno == EINTR);
    *got = MAX((i64)n, 0);
    return n < 0 ? failed_open(err, "read from", f) : STATUS_OK;
}

/* True: the file was written past the page cache, and is no longer. */
static bool direct_end(struct file f)
{
    int flags = fcntl(f.fd, F_GETFL);
    return flags >= 0 && flags & O_DIRECT && !fcntl(f.fd, F_SETFL, flags & ~O_DIRECT);
}

static void real_direct(struct os *os, struct file f, bool on)
{
    (void)os;
    int flags = fcntl(f.fd, F_GETFL);
    if (!on) direct_end(f);
    else if (flags >= 0) (void)fcntl(f.fd, F_SETFL, flags | O_DIRECT); /* not every system can */
}

static enum status real_write(struct os *os, struct file f, struct str bytes, struct err *err)
{
    (void)os;
    while (bytes.len > 0) {
        /* A peer that hung up is an error here, not a signal that ends the process. */
        ssize_t n = send(f.fd, bytes.data, (size_t)bytes.len, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK) n = write(f.fd, bytes.data, (size_t)bytes.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EINVAL && direct_end(f)) continue; /* not whole blocks: as usual */
        if (n < 0) return failed_open(err, "write to", f);
        bytes = str_sub(bytes, n, bytes.len);
    }
    return STATUS_OK;
}

static enum status real_sync(struct os *os, struct file f, struct err *err)
{
    (void)os;
    return fsync(f.fd) ? failed_open(err, "sync", f) : STATUS_OK;
}

static enum status real_close(struct os *os, struct file *f, struct err *err)
{
    (void)os;
    int fd = f->fd;
    f->fd  = -1; /* Linux has closed it even when it says EINTR or EIO */
    if (close(fd) && errno != EINTR) return failed(err, "close", STR("a file"));
    return STATUS_OK;
}

static enum status real_rename(struct os *os, struct str from, struct str to, struct err *err)
{
    (void)os;
    struct path a, b;
    enum status st = path_set(&a, from, err);
    if (!st) st = path_set(&b, to, err);
    if (!st && rename(a.z, b.z))
        st = err_set(err, STATUS_WORLD, "cannot rename %s to %s: %s", a.z, b.z, strerror(errno));
    return st;
}

static enum status real_remove(struct os *os, struct str path, struct err *err)
{
    (void)os;
    struct path p;
    enum status st = path_set(&p, path, err);
    if (!st && remove(p.z)) st = failed(err, "remove", path);
    return st;
}

static enum status real_make_dir(struct os *os, struct str path, struct err *err)
{
    (void)os;
    struct path p;
    enum status st = path_set(&p, path, err);
    for (i64 i = 1; !st && i <= path.len; i++) {
        char c = p.z[i];
        if (c != '/' && c != '\0') continue;
        p.z[i] = '\0';
        if (mkdir(p.z, 0777) && errno != EEXIST) st = failed(err, "make the folder", path);
        p.z[i] = c;
    }
    struct stat s;
    if (!st && stat(p.z, &s) == 0 && !S_ISDIR(s.st_mode))
        st = err_set(err, STATUS_WORLD, "%s is a file, not a folder", p.z);
    return st;
}

static struct str dir_of(struct str path)
{
    while (path.len > 0 && path.data[path.len - 1] != '/') path.len--;
    return path.len ? path : STR(".");
}

static enum status real_sync_dir_of(struct os *os, struct str path, struct err *err)
{
    struct file f;
    enum status st = open_with(dir_of(path), O_RDONLY | O_DIRECTORY, "open the folder", &f, err);
    if (st) return st;
    if (fsync(f.fd)) st = failed(err, "sync the folder of", path);
    real_close(os, &f, NULL);
    return st;
}

/* The file says who holds it, for the sentence that the next one gets. */
static enum status real_lock(struct os *os, struct str path, struct file *f, struct err *err)
{
    char        holder[320] = "", host[256] = "";
    enum status st          = open_with(path, O_RDWR | O_CREAT, "open", f, err);
    if (st) return st;
    if (flock(f->fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK) {
            st = failed(err, "lock", path);
        } else {
            ssize_t len = pread(f->fd, holder, sizeof holder - 1, 0);
            st = err_set(err, STATUS_NO, "%.*s is held by another process%s%s", STR_ARG(path),
                         len > 0 ? ": " : "", holder);
        }
        real_close(os, f, NULL);
        return st;
    }
    gethostname(host, sizeof host - 1);
    int len = snprintf(holder, sizeof holder, "process %d on %s", (int)getpid(), host);
    if (ftruncate(f->fd, 0) || pwrite(f->fd, holder, (size_t)len, 0) != len)
        return STATUS_OK; /* on a full disk it is still ours */
    return STATUS_OK;
}

i64 os_disk_free_bytes(struct str path)
{
    struct path    p;
    struct statvfs s;
    if (path_set(&p, dir_of(path), NULL) || statvfs(p.z, &s)) return -1;
    return (i64)s.f_bavail * (i64)s.f_frsize;
}

bool os_disk_is_remote(struct str path)
{
    static const long kinds[] = { /* of statfs(2): nfs, smb, smb2, cifs, afs twice, coda, ncp, 9p, ceph,
                                     fuse (sshfs, gcsfuse, …), lustre, gpfs, beegfs */
                                  0x6969,     0x517b,     0xfe534d42, 0xff534d42, 0x5346414f,
                                  0x6b414653, 0x73757245, 0x564c,     0x01021997, 0x00c36400,
                                  0x65735546, 0x0bd00bd0, 0x47504653, 0x19830326
    };
    struct path   p;
    struct statfs s;
    if (path_set(&p, dir_of(path), NULL) || statfs(p.z, &s)) return false;
    for (i64 i = 0; i < COUNT_OF(kinds); i++)
        if ((u32)s.f_type == (u32)kinds[i]) return true;
    return false;
}

static enum status real_stat(struct os *os, struct str path, struct os_stat *out, struct err *err)
{
    (void)os;
    struct path p;
    struct stat s;
    enum status st = path_set(&p, path, err);
    if (st) return st;
    if (stat(p.z, &s)) return failed(err, "find", path);
    *out = (struct os_stat){ .bytes    = s.st_size,
                             .mtime_ns = (i64)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec,
                             .is_dir   = S_ISDIR(s.st_mode) };
    return STATUS_OK;
}

static void real_set_mtime(struct os *os, struct str path, i64 mtime_ns)
{
    (void)os;
    struct path     p;
    struct timespec t[2] = { { 0, UTIME_OMIT }, { mtime_ns / 1000000000, mtime_ns % 1000000000 } };
    if (!path_set(&p, path, NULL)) utimensat(AT_FDCWD, p.z, t, 0);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct str *)a)->data, ((const struct str *)b)->data);
}

static struct dirent *next_entry(DIR *d)
{
    struct dirent *e;
    do e = readdir(d);
    while (e && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")));
    return e;
}

static enum status real_list(struct os *os, struct str dir, struct arena *perm, struct str **names,
                             i64 *count, struct err *err)
{
    (void)os;
    struct path p;
    enum status st = path_set(&p, dir, err);
    if (st) return st;
    DIR *d = opendir(p.z);
    if (!d) return failed(err, "list", dir);

    i64            max = 0;
    struct dirent *e;
    while (next_entry(d)) max++;
    rewinddir(d);
    if (max > list_names_max) {
        st = err_set(err, STATUS_WORLD, "the folder %s holds more than %lld names", p.z,
                     (long long)list_names_max);
    } else { /* names that appeared since we counted are left out */
        *names = NEW(perm, struct str, max);
        *count = 0;
        while (*count < max && (e = next_entry(d)))
            (*names)[(*count)++] = str_copy(perm, str_of(e->d_name));
        qsort(*names, (size_t)*count, sizeof **names, by_text);
    }
    closedir(d);
    return st;
}

static enum status real_map(struct os *os, struct str path, struct str *bytes, struct err *err)
{
    struct file f;
    struct stat s;
    enum status st = open_with(path, O_RDONLY, "open", &f, err);
    if (st) return st;
    *bytes = STR("");
    if (fstat(f.fd, &s)) {
        st = failed(err, "map", path);
    } else if (!S_ISREG(s.st_mode)) {
        st = err_set(err, STATUS_WORLD, "cannot map %.*s: not a plain file", STR_ARG(path));
    } else if (s.st_size > 0) {
        void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, f.fd, 0);
        if (p == MAP_FAILED) st = failed(err, "map", path);
        else *bytes = (struct str){ p, s.st_size };
    }
    real_close(os, &f, NULL);
    return st;
}

static void real_unmap(struct os *os, struct str bytes)
{
    (void)os;
    if (bytes.len) ASSERT(munmap((void *)(uintptr_t)bytes.data, (size_t)bytes.len) == 0);
}

i64 os_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static i64 loaded_ns;

/* Runs before main: what the loader did earlier (about a millisecond) is not seen. */
__attribute__((constructor)) static void note_start(void)
{
    loaded_ns = os_clock_ns(CLOCK_MONOTONIC);
}

i64 os_process_age_ns(void) { return os_clock_ns(CLOCK_MONOTONIC) - loaded_ns; }

static i64 real_now_ns(struct os *os) { return (void)os, os_clock_ns(CLOCK_MONOTONIC); }
static i64 real_wall_ns(struct os *os) { return (void)os, os_clock_ns(CLOCK_REALTIME); }

static void real_sleep_ns(struct os *os, i64 ns)
{
    (void)os;
    if (ns > 0) nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

static struct str real_env(struct os *os, const char *name)
{
    return (void)os, str_of(getenv(name));
}

static struct str real_env_at(struct os *os, i64 index)
{
    (void)os;
    for (i64 i = 0; environ[i]; i++)
        if (i == index) return str_of(environ[i]);
    return (struct str){ 0 };
}

/* Signals: the handler only sets a bit, which is safe at any moment. */

static atomic_uint signals_pending; /* bit 1 << enum os_signal */
static atomic_uint interrupts;      /* INT ever caught */

static void on_signal(int number)
{
    enum os_signal s = number == SIGINT    ? OS_SIGNAL_INT
                       : number == SIGTERM ? OS_SIGNAL_TERM
                                           : OS_SIGNAL_USR1;
    if (s == OS_SIGNAL_INT && atomic_fetch_add(&interrupts, 1)) _exit(STATUS_INTERRUPTED);
    atomic_fetch_or(&signals_pending, 1u << s);
}

void os_signals_catch(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGUSR1 };
    struct sigaction action    = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    for (i64 i = 0; i < COUNT_OF(numbers); i++) ASSERT(sigaction(numbers[i], &action, NULL) == 0);
    action.sa_handler = SIG_IGN;
    ASSERT(sigaction(SIGPIPE, &action, NULL) == 0);
}

static enum os_signal real_signal_take(struct os *os)
{
    (void)os;
    for (unsigned s = OS_SIGNAL_INT; s <= OS_SIGNAL_USR1; s++)
        if (atomic_fetch_and(&signals_pending, ~(1u << s)) & (1u << s)) return (enum os_signal)s;
    return OS_SIGNAL_NONE;
}

struct os *os_real(void)
{
    static struct os real = {
        .open_read   = real_open_read,
        .create      = real_create,
        .read        = real_read,
        .write       = real_write,
        .sync        = real_sync,
        .close       = real_close,
        .rename      = real_rename,
        .remove      = real_remove,
        .make_dir    = real_make_dir,
        .sync_dir_of = real_sync_dir_of,
        .lock        = real_lock,
        .stat        = real_stat,
        .set_mtime   = real_set_mtime,
        .list        = real_list,
        .map         = real_map,
        .unmap       = real_unmap,
        .now_ns      = real_now_ns,
        .wall_ns     = real_wall_ns,
        .sleep_ns    = real_sleep_ns,
        .env         = real_env,
        .env_at      = real_env_at,
        .connect     = os_net_connect,
        .listen      = os_net_listen,
        .port_of     = os_net_port_of,
        .accept      = os_net_accept,
        .signal_take = real_signal_take,
        .direct      = real_direct,
    };
    return &real;
}
