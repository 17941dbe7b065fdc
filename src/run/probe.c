/* probe.c - /proc/stat, cpuinfo, meminfo, vmstat, pressure/memory and self/stat. Their formats: proc(5),
 * and Documentation/accounting/psi.rst of the kernel. */
#include "run/probe.h"
#include "run/clock.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct str proc(struct os *os, const char *path, struct arena *scratch)
{
    struct str text;
    return os_read_all(os, str_of(path), scratch, &text, NULL) ? STR("") : text;
}

static const i64 largest = (i64)1 << 50; /* of what is summed up here */

/* The numbers behind a line's first word; how many there are. */
static i64 numbers_of(struct str line, i64 *out, i64 count_max)
{
    i64        count = 0, number;
    struct str word;
    while (count < count_max && str_cut(&line, ' ', &word)) {
        word = str_trim(word);
        if (!word.len) continue;
        if (!str_i64(word, &number) || number < -largest || number > largest) break;
        out[count++] = number;
    }
    return count;
}

/* "cpu3 user nice system idle iowait irq softirq steal ..." */
static void read_cores(struct probe *p, struct str text)
{
    struct str line, name;
    while (str_cut(&text, '\n', &line)) {
        i64 v[8] = { 0 }, index;
        if (!str_starts(line, STR("cpu")) || !str_cut(&line, ' ', &name)) continue;
        if (!str_i64(str_sub(name, 3, name.len), &index)) continue; /* "cpu": the sum */
        if (index < 0 || index >= PROBE_CORES_MAX || numbers_of(line, v, COUNT_OF(v)) < 5) continue;
        p->cores[index].busy   = v[0] + v[1] + v[2] + v[5] + v[6];
        p->cores[index].idle   = v[3];
        p->cores[index].waits  = v[4];
        p->cores[index].stolen = v[7];
        p->core_count          = MAX(p->core_count, index + 1);
    }
}

/* "cpu MHz : 2400.000", one a core, in their order. */
static void read_clocks(struct probe *p, struct str text)
{
    struct str line;
    for (i64 core = 0; core < p->core_count && str_cut(&text, '\n', &line);) {
        i64 colon = str_find(line, ':');
        f64 mhz;
        if (!str_starts(line, STR("cpu MHz")) || colon < 0) continue;
        if (str_f64(str_trim(str_sub(line, colon + 1, line.len)), &mhz)) p->cores[core].mhz = mhz;
        core++;
    }
}

/* The number behind "NAME: " or "NAME " in text; NaN: there is none. */
static f64 value_of(struct str text, const char *name)
{
    struct str line;
    while (str_cut(&text, '\n', &line)) {
        i64 v;
        if (!str_starts(line, str_of(name))) continue;
        line = str_sub(line, str_of(name).len, line.len);
        if (!line.len || (line.data[0] != ':' && line.data[0] != ' ')) continue;
        if (numbers_of(str_sub(line, 1, line.len), &v, 1)) return (f64)v;
    }
    return NAN;
}

/* "full avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds. */
static f64 stalled_s(struct str text)
{
    struct str line, word;
    i64        us;
    while (str_cut(&text, '\n', &line)) {
        if (!str_starts(line, STR("full"))) continue;
        while (str_cut(&line, ' ', &word))
            if (str_starts(word, STR("total=")) && str_i64(str_sub(word, 6, word.len), &us))
                return (f64)us * 1e-6;
    }
    return NAN;
}

/* Behind the name, which may hold anything, fields 3 (state) to 15 (system time), in ticks; -1: they are none. */
static i64 own_ns_of(struct str text)
{
    i64 v[13] = { 0 }, end = text.len;
    while (end > 0 && text.data[end - 1] != ')') end--;
    struct str state, rest = str_trim(str_sub(text, end, text.len));
    if (!str_cut(&rest, ' ', &state) || numbers_of(rest, v, COUNT_OF(v)) < 12) return -1;
    i64 ticks = v[10] + v[11], tick_ns = 1000000000 / MAX(sysconf(_SC_CLK_TCK), 1);
    return ticks < 0 || ticks > INT64_MAX / tick_ns ? -1 : ticks * tick_ns;
}

i64 probe_own_ns(struct os *os, struct arena scratch)
{
    return own_ns_of(proc(os, "/proc/self/stat", &scratch));
}

void probe_read(struct probe *p, struct os *os, struct arena scratch)
{
    *p                   = (struct probe){ .at_ns = moment_now(os) };
    struct str memory    = proc(os, "/proc/meminfo", &scratch);
    struct str counts    = proc(os, "/proc/vmstat", &scratch);
    f64        swap      = value_of(counts, "pswpin") + value_of(counts, "pswpout");
    p->own_ns            = probe_own_ns(os, scratch);
    p->own_bytes         = value_of(proc(os, "/proc/self/status", &scratch), "RssAnon") * 1024;
    p->swap_pages        = isnan(swap) ? -1 : (i64)swap;
    p->memory_bytes      = value_of(memory, "MemTotal") * 1024;
    p->memory_free_bytes = value_of(memory, "MemAvailable") * 1024;
    p->memory_stalled_s  = stalled_s(proc(os, "/proc/pressure/memory", &scratch));
    read_cores(p, proc(os, "/proc/stat", &scratch));
    read_clocks(p, proc(os, "/proc/cpuinfo", &scratch));
}

/* --- between two -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

/* What a core could do for us: its clock, without what other guests of the host took. NaN: it had
 * little to do, and then its clock says nothing. */
static f64 speed_of(const struct probe_core *from, const struct probe_core *to)
{
    f64 stolen = (f64)(to->stolen - from->stolen), busy = (f64)(to->busy - from->busy);
    f64 all = stolen + busy + (f64)(to->idle - from->idle) + (f64)(to->waits - from->waits);
    if (!(stolen + busy > all / 2)) return NAN;
    return (to->mhz > 0 ? to->mhz : 1) * (1 - stolen / all);
}

static void find_slowest(struct load *l, const struct probe *from, const struct probe *to,
                         struct arena scratch)
{
    f64 *order = NEW(&scratch, f64, MAX(l->core_count, 1)), slowest = INFINITY;
    i64  count = 0;
    for (i64 i = 0; i < l->core_count; i++) {
        f64 speed = speed_of(&from->cores[i], &to->cores[i]);
        if (isnan(speed)) continue;
        order[count++] = speed;
        if (speed < slowest) l->core_index = i;
        slowest = MIN(slowest, speed);
    }
    qsort(order, (size_t)count, sizeof *order, by_value);
    f64 middle      = count ? order[count / 2] : 0;
    l->core_slowest = count > 1 && middle > 0 ? slowest / middle : NAN;
}

struct load probe_load(const struct probe *from, const struct probe *to, struct arena scratch)
{
    f64         s = (f64)(to->at_ns - from->at_ns) * 1e-9, busy = 0, waits = 0, all = 0;
    struct load l = { .seconds           = s,
                      .own_cores         = NAN,
                      .busy              = NAN,
                      .disk              = NAN,
                      .swap_bytes_s      = NAN,
                      .core_count        = MIN(from->core_count, to->core_count),
                      .memory_stalled    = (to->memory_stalled_s - from->memory_stalled_s) / s,
                      .memory_bytes      = to->memory_bytes,
                      .memory_free_bytes = to->memory_free_bytes,
                      .own_bytes         = to->own_bytes };
    for (i64 i = 0; i < l.core_count; i++) {
        const struct probe_core *a = &from->cores[i], *b = &to->cores[i];
        busy += (f64)(b->busy - a->busy);
        waits += (f64)(b->waits - a->waits);
        all += (f64)(b->busy - a->busy + b->idle - a->idle + b->waits - a->waits + b->stolen -
                     a->stolen);
    }
    if (all > 0) l.busy = busy / all;
    if (all > 0) l.disk = waits / all;
    if (from->own_ns >= 0 && to->own_ns >= 0)
        l.own_cores = (f64)(to->own_ns - from->own_ns) * 1e-9 / s;
    if (from->swap_pages >= 0 && to->swap_pages >= 0)
        l.swap_bytes_s = (f64)(to->swap_pages - from->swap_pages) * (f64)sysconf(_SC_PAGESIZE) / s;
    find_slowest(&l, from, to, scratch);
    return l;
}
