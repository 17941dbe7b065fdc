/* seeded.c - the program itself, on a machine that ails as a test says (tests/oracle/test_problems.py).
 *
 * Linked with src/cli/main.c it is build/frugal_seeded. Before main begins it changes the functions of the seam
 * (base/os.h) that SEEDED names; all else is the real program on real files with its real threads:
 *
 *     SEEDED="clock=10 read_ms=300" frugal_seeded train run.yaml
 *
 * The clock may run faster, so that limits of seconds need none; delays are given in its time. Delays are slept at
 * the seam, by the thread that calls it; files of /proc tell of two cores and 16 GiB, as the numbers below say. */
#include "backend/cuda/cuda.h"
#include "base/thread.h"
#include "remote/files.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* name, when it is not given, what it is */
#define SEEDS(SEED)                                                                                \
    SEED(clock, 1, "times as fast as the real one")                                                \
    SEED(own, 0, "1: it counts the process's own processor time: no other program disturbs it")    \
    SEED(read_ms, 0, "each read of a picture")                                                     \
    SEED(reads, 1e18, "so many of them, by each process; further ones take as long as they do")    \
    SEED(remote_ms, 0, "each read over the network")                                               \
    SEED(copy_ms, 0, "each copy that a checkpoint is written from")                                \
    SEED(gpu, 0, "1: the processor answers as a GPU would")                                        \
    SEED(tell_ms, 0, "each write to the standard output")                                          \
    SEED(mhz, 3000, "of the second core; the first has 3000")                                      \
    SEED(swap_mib_s, 0, "to the swap space and back")                                              \
    SEED(stalled, 0, "part of the time in which all wait for memory")                              \
    SEED(free_gib, 12, "of the memory")                                                            \
    SEED(own_gib, 0, "the process's own")                                                          \
    SEED(threads, 2, "that compute; they are busy")                                                \
    SEED(wave_s, 0, "but for every second half of so long, in which they are at")                  \
    SEED(wave_low, 0, "of that")

static struct {
#define SEED(name, usual, what) f64 name;
    SEEDS(SEED)
#undef SEED
} seed = {
#define SEED(name, usual, what) .name = usual,
    SEEDS(SEED)
#undef SEED
};

enum { FDS = 1024, TEXT_BYTES = 1024 };

static const f64 busy = 0.95;
static struct os real;
static i64       begin_ns; /* of our clock, when the one that it follows was at base_ns */
static i64       base_ns;
static bool      is_picture[FDS]; /* the file that is open there */

/* --- time --------------------------------------------------------------------------------------- */

static i64 followed_ns(void)
{
    struct timespec t;
    if (seed.own <= 0) return real.now_ns(&real);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static i64 now_ns(struct os *os)
{
    (void)os;
    return begin_ns + (i64)(seed.clock * (f64)(followed_ns() - base_ns));
}

static f64 seconds(void) { return (f64)(now_ns(&real) - begin_ns) * 1e-9; }

static void sleep_ns(struct os *os, i64 ns) { real.sleep_ns(os, (i64)((f64)ns / seed.clock)); }

static void delay(f64 ms)
{
    i64             ns   = (i64)(ms * 1e6 / seed.clock);
    struct timespec left = { ns / 1000000000, ns % 1000000000 };
    while (ns && nanosleep(&left, &left)) continue;
}

/* Limits are times of our clock, and the kernel waits by its own. */
bool __real_thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, i64 until_ns);
bool __wrap_thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, i64 until_ns);
bool __wrap_thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, i64 until_ns)
{
    f64 left_ns = (f64)(until_ns - now_ns(&real)) / seed.clock;
    return __real_thread_wait_until(c, lock, real.now_ns(&real) + (i64)left_ns);
}

/* --- /proc -------------------------------------------------------------------------------------- */

/* Processor time until then, of one thread. */
static f64 worked_s(f64 t)
{
    f64 half = seed.wave_s / 2, low = seed.wave_low;
    if (!(half > 0)) return busy * t;
    f64 rest = fmod(t, 2 * half);
    return (t - rest) / 2 * (busy + low) + MIN(rest, half) * busy + MAX(rest - half, 0) * low;
}

static i64 print_proc(struct str path, char *to)
{
    f64       t    = seconds();
    long long tick = (long long)(100 * busy * t), idle = (long long)(100 * (1 - busy) * t);
    if (str_eq(path, STR("/proc/stat")))
        return snprintf(to, TEXT_BYTES,
                        "cpu0 %lld 0 0 %lld 0 0 0 0 0 0\ncpu1 %lld 0 0 %lld 0 0 0 0 0 0\n", tick,
                        idle, tick, idle);
    if (str_eq(path, STR("/proc/cpuinfo")))
        return snprintf(to, TEXT_BYTES, "cpu MHz : 3000.0\ncpu MHz : %.1f\n", seed.mhz);
    if (str_eq(path, STR("/proc/meminfo")))
        return snprintf(to, TEXT_BYTES, "MemTotal: %d kB\nMemAvailable: %.0f kB\n", 16 << 20,
                        seed.free_gib * 0x1p20);
    if (str_eq(path, STR("/proc/vmstat")))
        return snprintf(to, TEXT_BYTES, "pswpin %.0f\npswpout 0\n", seed.swap_mib_s * t * 256);
    if (str_eq(path, STR("/proc/pressure/memory")))
        return snprintf(to, TEXT_BYTES, "full avg10=0.00 avg60=0.00 avg300=0.00 total=%.0f\n",
                        seed.stalled * t * 1e6);
    if (str_eq(path, STR("/proc/self/status")))
        return snprintf(to, TEXT_BYTES, "RssAnon: %.0f kB\n", seed.own_gib * 0x1p20);
    if (str_eq(path, STR("/proc/self/stat")))
        return snprintf(to, TEXT_BYTES,
                        "7 (frugal) R 1 7 7 0 -1 4194304 1 2 3 4 %.0f 0 0 0 20 0 3 0",
                        100 * seed.threads * worked_s(t));
    return -1;
}

/* --- files -------------------------------------------------------------------------------------- */

static enum status open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    char        text[TEXT_BYTES];
    i64         len = print_proc(path, text);
    enum status st  = STATUS_OK;
    if (len >= 0) {
        f->fd = memfd_create("proc", MFD_CLOEXEC);
        ASSERT(f->fd >= 0 && pwrite(f->fd, text, (size_t)len, 0) == len);
    } else {
        st = real.open_read(os, path, f, err);
    }
    if (!st && f->fd < FDS) is_picture[f->fd] = str_ends(path, STR(".png"));
    return st;
}

static atomic_llong reads; /* of pictures, by this process */

static i64 forked_ns;

static void before_fork(void) { forked_ns = now_ns(&real); }

static void begin_process(void)
{
    atomic_store(&reads, 0);
    if (seed.own <= 0) return;
    begin_ns = forked_ns; /* a new process has used no time */
    base_ns  = followed_ns();
}

static enum status read_some(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                             struct err *err)
{
    if (f.fd < FDS && is_picture[f.fd] && (f64)atomic_fetch_add(&reads, 1) < seed.reads)
        delay(seed.read_ms);
    return real.read(os, f, to, bytes, at, got, err);
}

/* Not the seam's: memory is, and results are printed. */
void __real_snapshot_copy(void *snapshot);
void __wrap_snapshot_copy(void *snapshot);
void __wrap_snapshot_copy(void *snapshot)
{
    delay(seed.copy_ms);
    __real_snapshot_copy(snapshot);
}

/* As a driver has it: what was begun in one process cannot be gone on with in its copy. */
enum status __real_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err);
enum status __wrap_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err);
enum status __wrap_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err)
{
    static pid_t begun_in;
    if (seed.gpu <= 0) return __real_backend_cuda_open(perm, nth, out, err);
    if (begun_in && begun_in != getpid())
        return err_set(err, STATUS_WORLD, "the GPU does not answer: initialization error");
    begun_in = getpid();
    return backend_cpu_open(perm, 1, BACKEND_FAST, out, err);
}

static ssize_t tell(void *context, const char *text, size_t bytes)
{
    (void)context;
    delay(seed.tell_ms);
    return write(STDOUT_FILENO, text, bytes);
}

/* --- remote files ------------------------------------------------------------------------------- */

enum status __real_remote_file_read(struct remote_files *r, struct str url,
                                    const struct remote_file *version, i64 from, i64 count,
                                    void *to, const atomic_bool *stop, struct err *err);
enum status __wrap_remote_file_read(struct remote_files *r, struct str url,
                                    const struct remote_file *version, i64 from, i64 count,
                                    void *to, const atomic_bool *stop, struct err *err);
enum status __wrap_remote_file_read(struct remote_files *r, struct str url,
                                    const struct remote_file *version, i64 from, i64 count,
                                    void *to, const atomic_bool *stop, struct err *err)
{
    delay(seed.remote_ms);
    return __real_remote_file_read(r, url, version, from, count, to, stop, err);
}

/* --- before main -------------------------------------------------------------------------------- */

static void plant(struct str word)
{
    struct str name;
    f64        value = NAN;
    if (!str_cut(&word, '=', &name) || !str_f64(word, &value)) name.len = 0;
#define SEED(known, usual, what)                                                                   \
    if (str_eq(name, STR(#known))) {                                                               \
        seed.known = value;                                                                        \
        return;                                                                                    \
    }
    SEEDS(SEED)
#undef SEED
    fprintf(stderr, "SEEDED has no such seed: %.*s\n", STR_ARG(word));
    exit(STATUS_USAGE);
}

__attribute__((constructor)) static void plant_all(void)
{
    struct os *os  = os_real();
    struct str all = os->env(os, "SEEDED"), word;
    real           = *os;
    begin_ns       = real.now_ns(os);
    while (str_cut(&all, ' ', &word))
        if (word.len) plant(word);
    base_ns = followed_ns();
    pthread_atfork(before_fork, NULL, begin_process);
    os->now_ns    = now_ns;
    os->sleep_ns  = sleep_ns;
    os->open_read = open_read;
    os->read      = read_some;
    stdout        = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = tell });
}
