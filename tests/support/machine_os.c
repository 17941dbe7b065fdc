/* machine_os.c - the seam of a machine that a test makes up. */
#include "support/machine_os.h"
#include <stdio.h>
#include <string.h>

enum { PROC_FD = 1 << 20, TEXT_BYTES = 8192, TICK_NS = 10000000 };

static const char *const files[] = { "/proc/stat",   "/proc/cpuinfo",         "/proc/meminfo",
                                     "/proc/vmstat", "/proc/pressure/memory", "/proc/self/stat" };

static struct machine_os *of(struct os *os) { return os->context; }

static i64 print_cores(const struct machine_os *m, char *to)
{
    i64 at = snprintf(to, TEXT_BYTES, "cpu  1 2 3 4 5 6 7 8 9 10\n");
    for (i64 i = 0; i < MACHINE_CORES; i++) {
        const struct probe_core *c = &m->cores[i];
        at += snprintf(to + at, (size_t)(TEXT_BYTES - at),
                       "cpu%d %lld 0 0 %lld %lld 0 0 %lld 0 0\n", (int)i, (long long)c->busy,
                       (long long)c->idle, (long long)c->waits, (long long)c->stolen);
    }
    return at + snprintf(to + at, (size_t)(TEXT_BYTES - at), "intr 12345\nctxt 6\n");
}

static i64 print_clocks(const struct machine_os *m, char *to)
{
    i64 at = 0;
    for (i64 i = 0; i < MACHINE_CORES; i++)
        at += snprintf(to + at, (size_t)(TEXT_BYTES - at), "processor\t: %d\ncpu MHz\t\t: %.3f\n\n",
                       (int)i, m->cores[i].mhz);
    return at;
}

static i64 print_file(const struct machine_os *m, i64 file, char *to)
{
    switch (file) {
    case 0: return print_cores(m, to);
    case 1: return print_clocks(m, to);
    case 2:
        return snprintf(to, TEXT_BYTES,
                        "MemTotal: %11lld kB\nMemFree: 17 kB\nMemAvailable: %7lld kB\n",
                        (long long)m->memory_kib, (long long)m->free_kib);
    case 3:
        return snprintf(to, TEXT_BYTES, "nr_free_pages 7\npswpin %lld\npswpout 0\npgmajfault 3\n",
                        (long long)m->swap_pages);
    case 4:
        return snprintf(to, TEXT_BYTES,
                        "some avg10=0.00 total=9\nfull avg10=0.00 avg60=0.00 total=%lld\n",
                        (long long)m->stalled_us);
    default:
        return snprintf(to, TEXT_BYTES,
                        "7 (a name) S) R 1 7 7 0 -1 4194304 1 2 3 4 %lld 0 0 0 20 0 3 0",
                        (long long)(m->own_ns / TICK_NS));
    }
}

static enum status open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os;
    for (i64 i = 0; i < COUNT_OF(files); i++)
        if (str_eq(path, str_of(files[i]))) {
            f->fd = PROC_FD + (int)i;
            return STATUS_OK;
        }
    return os_real()->open_read(os_real(), path, f, err);
}

static enum status read_some(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                             struct err *err)
{
    static i64 place; /* one file of /proc is read at a time, to its end */
    char       text[TEXT_BYTES];
    if (f.fd < PROC_FD) {
        of(os)->now_ns += of(os)->read_ns;
        return os_real()->read(os_real(), f, to, bytes, at, got, err);
    }
    i64 len  = print_file(of(os), f.fd - PROC_FD, text);
    i64 from = at < 0 ? place : at;
    *got     = MAX(MIN(bytes, len - from), 0);
    memcpy(to, text + MIN(from, len), (size_t)*got);
    place = *got ? from + *got : 0;
    return STATUS_OK;
}

static enum status write_all(struct os *os, struct file f, struct str bytes, struct err *err)
{
    of(os)->now_ns += of(os)->write_ns;
    return os_real()->write(os_real(), f, bytes, err);
}

static enum status close_file(struct os *os, struct file *f, struct err *err)
{
    (void)os;
    if (f->fd < PROC_FD) return os_real()->close(os_real(), f, err);
    f->fd = -1;
    return STATUS_OK;
}

static i64 now_ns(struct os *os) { return of(os)->now_ns; }

static void sleep_ns(struct os *os, i64 ns) { machine_os_run(of(os), ns, 0); }

struct machine_os *machine_os_new(struct arena *perm)
{
    struct machine_os *m = NEW(perm, struct machine_os, 1);
    *m                   = (struct machine_os){
                          .os = *os_real(), .now_ns = 1, .memory_kib = 16 << 20, .free_kib = 12 << 20
    };
    for (i64 i = 0; i < MACHINE_CORES; i++) m->cores[i].mhz = 3000;
    m->os.context   = m;
    m->os.open_read = open_read;
    m->os.read      = read_some;
    m->os.write     = write_all;
    m->os.close     = close_file;
    m->os.now_ns    = now_ns;
    m->os.sleep_ns  = sleep_ns;
    return m;
}

void machine_os_run(struct machine_os *m, i64 ns, f64 busy)
{
    m->now_ns += ns;
    m->own_ns += (i64)((f64)ns * busy * MACHINE_CORES);
    for (i64 i = 0; i < MACHINE_CORES; i++) {
        m->cores[i].busy +=
            (i64)((f64)ns * busy / 1000); /* ticks of any length: only ratios count */
        m->cores[i].idle += (i64)((f64)ns * (1 - busy) / 1000);
    }
}
