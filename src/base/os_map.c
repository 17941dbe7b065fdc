/* os_map.c - files that are mapped, and what happens when their bytes go away.
 *
 * A mapped file that somebody truncates, or whose disk fails, answers the next read of a lost page with
 * SIGBUS. The handler looks up which file that was, puts a page of zeros in its place so that the reader
 * comes to its end, and marks the file; the reader asks os_maps_check before it uses what it read, and
 * gets an error like any other. What a file loses inside its last page is read as zeros without a signal:
 * os_maps_verify looks at the files' lengths. A SIGBUS from anywhere else takes its usual course.
 *
 * Only system calls and atomics are used in the handler, so it may come at any moment, in any thread: mmap is
 * not on POSIX's list of what a handler may call, but is nothing but a system call on Linux. */
#include "base/os_int.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAPS_MAX  = 1 << 14,
    PATH_KEPT = 976
}; /* a file beyond that many is mapped without this care */

struct mapped {
    atomic_uintptr_t begin; /* 0: a free slot */
    atomic_uintptr_t end;   /* of the last page */
    atomic_bool      lost;
    dev_t            device; /* with inode: which file the path named */
    ino_t            inode;
    i64              bytes;
    bool             reported;
    char             path[PATH_KEPT]; /* the end of a longer one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped   maps[MAPS_MAX];
static _Atomic i64     used_max;   /* slots that were ever in use */
static atomic_int      lost_count; /* lost files that are mapped still, or not reported yet */
static char            lost_path[PATH_KEPT]; /* the last that was unmapped before it was reported */
static uintptr_t       page_bytes;
static struct sigaction before;

static struct mapped *find(uintptr_t at)
{
    i64 count = atomic_load(&used_max);
    for (i64 i = 0; i < count; i++) {
        uintptr_t begin = atomic_load(&maps[i].begin);
        if (begin && begin <= at && at < atomic_load(&maps[i].end)) return &maps[i];
    }
    return NULL;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    int            reason = errno;
    uintptr_t      at     = (uintptr_t)info->si_addr & ~(page_bytes - 1);
    struct mapped *m      = info->si_code > 0 ? find(at) : NULL; /* not one that was sent */
    (void)context;
    if (m && mmap((void *)at, atomic_load(&m->end) - at, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
        if (!atomic_exchange(&m->lost, true)) atomic_fetch_add(&lost_count, 1);
        errno = reason;
        return; /* the read is done again, and finds zeros */
    }
    sigaction(number, &before, NULL); /* a fault comes again by itself */
    if (info->si_code <= 0) raise(number);
}

static void catch_bus(void)
{
    struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    ASSERT(sigaction(SIGBUS, &action, &before) == 0);
}

static void path_keep(char to[PATH_KEPT], struct str path)
{
    i64 cut = MAX(path.len - (PATH_KEPT - 1), 0);
    memcpy(to, path.data + cut, (size_t)(path.len - cut));
    to[path.len - cut] = '\0';
}

void os_map_add(struct str path, struct str bytes, const struct stat *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, catch_bus);
    pthread_mutex_lock(&lock);
    i64 i = 0;
    while (i < MAPS_MAX && atomic_load(&maps[i].begin)) i++;
    if (i < MAPS_MAX) {
        struct mapped *m     = &maps[i];
        uintptr_t      begin = (uintptr_t)bytes.data;
        path_keep(m->path, path);
        m->reported = false;
        m->device   = s->st_dev;
        m->inode    = s->st_ino;
        m->bytes    = bytes.len;
        atomic_store(&m->lost, false);
        atomic_store(&m->end, (begin + (uintptr_t)bytes.len + page_bytes - 1) & ~(page_bytes - 1));
        atomic_store(&m->begin, begin);
        if (i >= atomic_load(&used_max)) atomic_store(&used_max, i + 1);
    }
    pthread_mutex_unlock(&lock);
}

void os_map_remove(struct str bytes)
{
    pthread_mutex_lock(&lock);
    struct mapped *m = find((uintptr_t)bytes.data);
    if (m && atomic_load(&m->lost)) {
        if (m->reported) atomic_fetch_sub(&lost_count, 1);
        else memcpy(lost_path, m->path, sizeof lost_path);
    }
    if (m) atomic_store(&m->begin, 0);
    pthread_mutex_unlock(&lock);
}

/* Under the lock: a lost file that is mapped, or else the last one that was. It counts as reported. */
static const char *lost_one(void)
{
    i64 count = atomic_load(&used_max);
    for (i64 i = 0; i < count; i++) {
        if (!atomic_load(&maps[i].begin) || !atomic_load(&maps[i].lost)) continue;
        maps[i].reported = true;
        return maps[i].path;
    }
    atomic_store(&lost_count, 0);
    return lost_path;
}

enum status os_maps_check(struct err *err)
{
    if (!atomic_load_explicit(&lost_count, memory_order_acquire)) return STATUS_OK;
    if (!err) return STATUS_WORLD;
    pthread_mutex_lock(&lock);
    enum status st = err_set(err, STATUS_WORLD,
                             "%s became shorter, or could no longer be read, while it was in use: "
                             "restore the whole file and start again",
                             lost_one());
    pthread_mutex_unlock(&lock);
    return st;
}

/* Another file under the same name says nothing of ours, which is whole as long as it is mapped. */
static bool is_shorter(const struct mapped *m)
{
    struct stat s;
    return !stat(m->path, &s) && s.st_dev == m->device && s.st_ino == m->inode &&
           s.st_size < m->bytes;
}

enum status os_maps_verify(struct err *err)
{
    pthread_mutex_lock(&lock);
    for (i64 i = 0; i < atomic_load(&used_max); i++) {
        struct mapped *m = &maps[i];
        if (!atomic_load(&m->begin) || atomic_load(&m->lost) || !is_shorter(m)) continue;
        if (!atomic_exchange(&m->lost, true)) atomic_fetch_add(&lost_count, 1);
    }
    pthread_mutex_unlock(&lock);
    return os_maps_check(err);
}
