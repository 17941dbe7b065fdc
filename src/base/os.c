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

/* A path as the system wants it: a name in an open folder, and whether a link of that name is
 * followed. Without a root (os_beneath) that is the path as it was given, from where the process is. */
struct place {
    char  z[PATH_MAX]; /* with its zero byte */
    int   dir;         /* AT_FDCWD, or ours to close */
    char *name;        /* in z */
    bool  follow;
};

static enum status caused_by(struct err *err, int reason)
{
    if (err && reason == ENOENT) err->cause = CAUSE_ABSENT;
    if (err && (reason == ENOSPC || reason == EDQUOT)) err->cause = CAUSE_FULL;
    return STATUS_WORLD;
}

static bool is_kind(struct str path, mode_t kind)
{
    struct stat s;
    char        z[PATH_MAX] = { 0 };
    if (path.len >= PATH_MAX) return false;
    memcpy(z, path.data, (size_t)path.len);
    return !stat(z, &s) && (s.st_mode & S_IFMT) == kind;
}

static enum status failed(struct err *err, const char *what, struct str path)
{
    int         reason = errno;
    bool        file = reason == ENOTDIR && is_kind(path, S_IFREG); /* else a part of its path is */
    const char *why  = file ? "it is a file, not a folder" : strerror(reason);
    err_set(err, STATUS_WORLD, "cannot %s %.*s: %s", what, STR_ARG(path), why);
    return caused_by(err, reason);
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

static _Thread_local bool private_files;

bool os_private(bool on)
{
    bool was      = private_files;
    private_files = on;
    return was;
}

/* The root of an os_beneath, opened once. */
static int root_open(struct os_root *root)
{
    int fd = atomic_load(&root->fd), none = -1;
    if (fd >= 0) return fd;
    char path[PATH_MAX];
    memcpy(path, root->path.data, (size_t)root->path.len); /* os_beneath: it fits */
    path[root->path.len] = '\0';
    fd                   = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || atomic_compare_exchange_strong(&root->fd, &none, fd)) return fd;
    close(fd); /* another thread was faster */
    return none;
}

static enum status refuse_link(struct err *err, struct str path)
{
    return err_set(err, STATUS_WORLD, "%.*s leads through a symbolic link, which is not followed",
                   STR_ARG(path));
}

/* From the root to the folder of the last name, none of them a link. */
static enum status walk(struct place *p, struct os_root *root, struct str path, struct err *err)
{
    char *rest = p->z + root->path.len, *slash;
    int   fd   = root_open(root);
    p->dir     = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (p->dir < 0) return failed(err, "open", root->path);
    for (rest += strspn(rest, "/"); (slash = strchr(rest, '/'));
         rest = slash + strspn(slash, "/")) {
        if (!slash[strspn(slash, "/")]) break;
        char *end        = slash++;
        *end             = '\0';
        int         next = strcmp(rest, "..")
                               ? openat(p->dir, rest, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                               : -1;
        int         why  = errno;
        struct stat s;
        bool        link =
            next < 0 && !fstatat(p->dir, rest, &s, AT_SYMLINK_NOFOLLOW) && S_ISLNK(s.st_mode);
        close(p->dir);
        p->dir = next;
        if (link) return refuse_link(err, path);
        if (next >= 0) continue;
        errno = why;
        return failed(err, "open", path);
    }
    p->name = *rest ? rest : (char *)".";
    return STATUS_OK;
}

static void place_end(struct place *p)
{
    int reason = errno;
    if (p->dir >= 0) close(p->dir);
    p->dir = -1;
    errno  = reason;
}

static enum status place_set(struct place *p, struct os *os, struct str path, struct err *err)
{
    p->dir    = -1;
    p->follow = true;
    if (path.len >= (i64)sizeof p->z)
        return err_set(err, STATUS_USAGE, "the path %.*s... is longer than %d bytes", 80, path.data,
                       PATH_MAX - 1);
    if (path.len == 0 || str_find(path, '\0') >= 0)
        return err_set(err, STATUS_USAGE, "a path is empty or has a zero byte in it");
    memcpy(p->z, path.data, (size_t)path.len);
    p->z[path.len]       = '\0';
    p->name              = p->z;
    p->dir               = AT_FDCWD;
    struct os_root *root = os ? os->root : NULL;
    if (!root || !str_starts(path, root->path)) return STATUS_OK;
    if (path.len > root->path.len && path.data[root->path.len] != '/') return STATUS_OK;
    p->follow      = false;
    enum status st = walk(p, root, path, err);
    if (st) place_end(p);
    return st;
}

/* What the user's shell opened for us (standard input, <(COMMAND)) has its writer; any other FIFO may
 * have none, ever. /dev/null keeps nobody waiting. */
static bool is_descriptor(struct str path)
{
    return str_eq(path, STR("/dev/null")) || str_eq(path, STR("/dev/stdin")) ||
           str_starts(path, STR("/dev/fd/")) || str_starts(path, STR("/proc/self/fd/"));
}

static const char *kind_name(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a FIFO";
    return S_ISSOCK(mode) ? "a socket" : "a device";
}

/* A plain file, or an error: who opens a FIFO or a terminal waits for somebody who may never come. */
static enum status open_with(struct os *os, struct str path, int flags, const char *what,
                             struct file *f, struct err *err)
{
    struct place p;
    struct stat  s;
    f->fd          = -1;
    enum status st = place_set(&p, os, path, err);
    if (st) return st;
    bool given = is_descriptor(path);
    int  fd;
    flags |= O_CLOEXEC | O_NOCTTY | (given ? 0 : O_NONBLOCK) | (p.follow ? 0 : O_NOFOLLOW);
    do fd = openat(p.dir, p.name, flags, private_files ? 0600 : 0666);
    while (fd < 0 && errno == EINTR);
    int  reason = errno;
    bool known =
        fd >= 0 ? !fstat(fd, &s) : !fstatat(p.dir, p.name, &s, p.follow ? 0 : AT_SYMLINK_NOFOLLOW);
    place_end(&p);
    errno = reason;
    if (known && S_ISLNK(s.st_mode)) return refuse_link(err, path);
    bool fits = !known || given || S_ISREG(s.st_mode) || flags & O_DIRECTORY;
    if (fits) f->fd = fd;
    if (fits) return fd < 0 ? failed(err, what, path) : STATUS_OK;
    if (fd >= 0) close(fd);
    return err_set(err, STATUS_WORLD, "cannot %s %.*s: it is %s, not a %s", what, STR_ARG(path),
                   kind_name(s.st_mode), S_ISDIR(s.st_mode) ? "file" : "regular file");
}

static enum status real_open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    return open_with(os, path, O_RDONLY, "open", f, err);
}

static struct str dir_of(struct str path)
{
    while (path.len > 0 && path.data[path.len - 1] != '/') path.len--;
    return path.len ? path : STR(".");
}

/* A file cannot be absent before it is created: its folder is. NAME.PID.part is how NAME begins. */
static enum status no_folder(struct err *err, struct str path)
{
    struct str name = path, dir = dir_of(path);
    if (str_ends(name, STR(".part"))) {
        for (name.len -= 5;
             name.len && name.data[name.len - 1] >= '0' && name.data[name.len - 1] <= '9';)
            name.len--;
        if (name.len && name.data[name.len - 1] == '.') name.len--;
    }
    if (dir.len > 1) dir.len--; /* without the last slash */
    if (is_kind(dir, S_IFDIR))  /* as /proc, which takes no files */
        err_set(err, STATUS_WORLD, "cannot create %.*s: %.*s takes no new files", STR_ARG(name),
                STR_ARG(dir));
    else
        err_set(err, STATUS_WORLD, "cannot create %.*s: there is no folder %.*s", STR_ARG(name),
                STR_ARG(dir));
    return caused_by(err, ENOENT);
}

static enum status real_create(struct os *os, struct str path, struct file *f, struct err *err)
{
    struct err  why = { 0 };
    enum status st  = open_with(os, path, O_WRONLY | O_CREAT | O_TRUNC, "create", f, &why);
    if (st && why.cause == CAUSE_ABSENT) return no_folder(err, path);
    if (st && err) *err = why;
    if (!st && str_ends(path, STR(".part")))
        flock(f->fd, LOCK_SH | LOCK_NB); /* os_part_sweep asks */
    return st;
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
    struct place a, b = { .dir = -1 };
    enum status  st = place_set(&a, os, from, err);
    if (!st) st = place_set(&b, os, to, err);
    if (!st && renameat(a.dir, a.name, b.dir, b.name)) {
        int reason = errno;
        err_set(err, STATUS_WORLD, "cannot rename %.*s to %.*s: %s", STR_ARG(from), STR_ARG(to),
                strerror(reason));
        st = caused_by(err, reason);
    }
    place_end(&a);
    place_end(&b);
    return st;
}

static enum status real_remove(struct os *os, struct str path, struct err *err)
{
    struct place p;
    enum status  st = place_set(&p, os, path, err);
    if (st) return st;
    int failure = unlinkat(p.dir, p.name, 0); /* a folder is EISDIR, or EPERM by POSIX */
    if (failure && (errno == EISDIR || errno == EPERM))
        failure = unlinkat(p.dir, p.name, AT_REMOVEDIR);
    place_end(&p);
    return failure ? failed(err, "remove", path) : STATUS_OK;
}

static enum status make_folders(char *path, struct str given, struct err *err)
{
    for (char *at = path + 1;; at++) {
        char c = *at;
        if (c != '/' && c != '\0') continue;
        *at = '\0';
        if (mkdir(path, private_files ? 0700 : 0777) && errno != EEXIST)
            return failed(err, "create the folder", given);
        *at = c;
        if (!c) return STATUS_OK;
    }
}

static enum status real_make_dir(struct os *os, struct str path, struct err *err)
{
    struct place p;
    struct stat  s;
    enum status  st = place_set(&p, os, path, err);
    if (st) return st;
    if (p.follow) st = make_folders(p.z, path, err);
    else if (mkdirat(p.dir, p.name, private_files ? 0700 : 0777) && errno != EEXIST)
        st = failed(err, "create the folder", path);
    bool known = !st && !fstatat(p.dir, p.name, &s, p.follow ? 0 : AT_SYMLINK_NOFOLLOW);
    place_end(&p);
    if (known && S_ISLNK(s.st_mode)) return refuse_link(err, path);
    if (known && !S_ISDIR(s.st_mode))
        st = err_set(err, STATUS_WORLD, "%.*s is a file, not a folder", STR_ARG(path));
    return st;
}

static enum status real_sync_dir_of(struct os *os, struct str path, struct err *err)
{
    struct file f;
    enum status st =
        open_with(os, dir_of(path), O_RDONLY | O_DIRECTORY, "open the folder", &f, err);
    if (st) return st;
    if (fsync(f.fd)) st = failed(err, "sync the folder of", path);
    real_close(os, &f, NULL);
    return st;
}

/* The file says who holds it, for the sentence that the next one gets. */
static enum status real_lock(struct os *os, struct str path, struct file *f, struct err *err)
{
    char        holder[320] = "", host[256] = "";
    enum status st = open_with(os, path, O_RDWR | O_CREAT | O_NOFOLLOW, "open", f, err);
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

static bool real_holds(struct os *os, struct file lock, struct str path)
{
    struct place p;
    struct stat  ours, there;
    if (fstat(lock.fd, &ours) || place_set(&p, os, path, NULL)) return false;
    bool found = !fstatat(p.dir, p.name, &there, AT_SYMLINK_NOFOLLOW);
    place_end(&p);
    return found && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

i64 os_disk_free_bytes(struct str path)
{
    struct place   p;
    struct statvfs s;
    if (place_set(&p, NULL, dir_of(path), NULL) || statvfs(p.z, &s)) return -1;
    return s.f_blocks ? (i64)s.f_bavail * (i64)s.f_frsize
                      : -1; /* a file system that does not count */
}

bool os_disk_is_remote(struct str path)
{
    static const long kinds[] = {
        /* of statfs(2): nfs, smb, smb2, cifs, afs twice, coda, ncp, 9p, ceph,
                                     fuse (sshfs, gcsfuse, …), lustre, gpfs, beegfs */
        0x6969, 0x517b,     0xfe534d42, 0xff534d42, 0x5346414f, 0x6b414653, 0x73757245,
        0x564c, 0x01021997, 0x00c36400, 0x65735546, 0x0bd00bd0, 0x47504653, 0x19830326
    };
    struct place  p;
    struct statfs s;
    if (place_set(&p, NULL, dir_of(path), NULL) || statfs(p.z, &s)) return false;
    for (i64 i = 0; i < COUNT_OF(kinds); i++)
        if ((u32)s.f_type == (u32)kinds[i]) return true;
    return false;
}

static enum status real_stat(struct os *os, struct str path, struct os_stat *out, struct err *err)
{
    struct place p;
    struct stat  s;
    enum status  st = place_set(&p, os, path, err);
    if (st) return st;
    int failure = fstatat(p.dir, p.name, &s, p.follow ? 0 : AT_SYMLINK_NOFOLLOW);
    place_end(&p);
    if (failure) return failed(err, "find", path);
    *out = (struct os_stat){ .bytes      = s.st_size,
                             .mtime_ns   = (i64)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec,
                             .is_dir     = S_ISDIR(s.st_mode),
                             .is_plain   = S_ISREG(s.st_mode),
                             .is_private = !(s.st_mode & (S_IRGRP | S_IROTH)),
                             .is_link    = S_ISLNK(s.st_mode) };
    return STATUS_OK;
}

static void real_set_mtime(struct os *os, struct str path, i64 mtime_ns)
{
    struct place    p;
    struct timespec t[2] = { { 0, UTIME_OMIT }, { mtime_ns / 1000000000, mtime_ns % 1000000000 } };
    if (place_set(&p, os, path, NULL)) return;
    utimensat(p.dir, p.name, t, p.follow ? 0 : AT_SYMLINK_NOFOLLOW);
    place_end(&p);
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
    struct file f;
    enum status st = open_with(os, dir, O_RDONLY | O_DIRECTORY, "list", &f, err);
    if (st) return st;
    DIR *d = fdopendir(f.fd);
    if (!d) {
        failed(err, "list", dir);
        close(f.fd);
        return STATUS_WORLD;
    }

    i64            max = 0;
    struct dirent *e;
    while (next_entry(d)) max++;
    rewinddir(d);
    if (max > list_names_max) {
        st = err_set(err, STATUS_WORLD, "the folder %.*s holds more than %lld names", STR_ARG(dir),
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
    enum status st = open_with(os, path, O_RDONLY, "open", &f, err);
    if (st) return st;
    *bytes = STR("");
    if (fstat(f.fd, &s)) {
        st = failed(err, "map", path);
    } else if (!S_ISREG(s.st_mode)) { /* what a shell opened may be a pipe */
        st = err_set(err, STATUS_WORLD, "cannot map %.*s: not a plain file", STR_ARG(path));
    } else if (s.st_size > 0) {
        void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, f.fd, 0);
        if (p == MAP_FAILED) st = failed(err, "map", path);
        else *bytes = (struct str){ p, s.st_size };
        if (!st) os_map_add(path, *bytes, &s);
    }
    real_close(os, &f, NULL);
    return st;
}

static void real_unmap(struct os *os, struct str bytes)
{
    (void)os;
    if (bytes.len) os_map_remove(bytes);
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

static atomic_uint  signals_pending; /* bit 1 << enum os_signal */
static atomic_uint  interrupts;      /* INT ever caught */
static atomic_llong asked_ns;        /* when the first TERM or HUP was; 0: none */

static void (*_Atomic before_end)(void); /* what is left to do at the second INT */

void os_on_second_interrupt(void (*last)(void)) { atomic_store(&before_end, last); }

static void end_at_once(void)
{
    void (*last)(void) = atomic_load(&before_end);
    if (last) last();
    _exit(STATUS_INTERRUPTED);
}

static void on_signal(int number)
{
    enum os_signal s     = number == SIGINT    ? OS_SIGNAL_INT
                           : number == SIGTERM ? OS_SIGNAL_TERM
                           : number == SIGHUP  ? OS_SIGNAL_HUP
                                               : OS_SIGNAL_USR1;
    long long      never = 0;
    if (s == OS_SIGNAL_TERM || s == OS_SIGNAL_HUP)
        atomic_compare_exchange_strong(&asked_ns, &never, os_clock_ns(CLOCK_MONOTONIC));
    if (s == OS_SIGNAL_INT && atomic_fetch_add(&interrupts, 1)) end_at_once();
    atomic_fetch_or(&signals_pending, 1u << s);
}

void os_signal_add(enum os_signal s) { atomic_fetch_or(&signals_pending, 1u << s); }

const char *os_signal_name(enum os_signal s)
{
    static const char *const names[OS_SIGNAL_COUNT] = {
        [OS_SIGNAL_NONE] = "nobody",  [OS_SIGNAL_INT] = "Ctrl-C",
        [OS_SIGNAL_TERM] = "SIGTERM", [OS_SIGNAL_HUP] = "SIGHUP",
        [OS_SIGNAL_USR1] = "SIGUSR1", [OS_SIGNAL_WATCH] = "frugal watch",
    };
    return names[s];
}

void os_signals_catch(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action    = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    for (i64 i = 0; i < COUNT_OF(numbers); i++) {
        struct sigaction was;
        ASSERT(sigaction(numbers[i], NULL, &was) == 0);
        if (numbers[i] == SIGHUP && was.sa_handler == SIG_IGN) continue; /* nohup */
        ASSERT(sigaction(numbers[i], &action, NULL) == 0);
    }
    action.sa_handler = SIG_IGN;
    ASSERT(sigaction(SIGPIPE, &action, NULL) == 0);
}

static i64 real_signal_ns(struct os *os) { return (void)os, atomic_load(&asked_ns); }

static enum os_signal real_signal_take(struct os *os)
{
    (void)os;
    for (unsigned s = OS_SIGNAL_INT; s < OS_SIGNAL_COUNT; s++)
        if (atomic_fetch_and(&signals_pending, ~(1u << s)) & (1u << s)) return (enum os_signal)s;
    return OS_SIGNAL_NONE;
}

struct os *os_beneath(struct os *os, struct str root, struct arena *perm)
{
    struct os *copy = NEW(perm, struct os, 1);
    *copy           = *os;
    if (root.len >= PATH_MAX) return copy; /* no call will get beyond that */
    copy->root       = NEW(perm, struct os_root, 1);
    copy->root->path = str_copy(perm, root);
    atomic_init(&copy->root->fd, -1);
    return copy;
}

void os_beneath_end(struct os *os)
{
    int fd = os->root ? atomic_exchange(&os->root->fd, -1) : -1;
    if (fd >= 0) close(fd);
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
        .signal_ns   = real_signal_ns,
        .direct      = real_direct,
        .holds       = real_holds,
    };
    return &real;
}
