/* fuzz_proc.c - any bytes as every file of /proc that is read: what is made of them is a number within its
 * range, or not known. */
#include "base/os.h"
#include "run/probe.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct str given;
static i64        place;

static enum status open_read(struct os *os, struct str path, struct file *f, struct err *err)
{
    (void)os, (void)path, (void)err;
    f->fd = 0;
    place = 0;
    return STATUS_OK;
}

static enum status read_some(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                             struct err *err)
{
    (void)os, (void)f, (void)at, (void)err;
    *got = MIN(bytes, given.len - place);
    memcpy(to, given.data + place, (size_t)*got);
    place += *got;
    return STATUS_OK;
}

static enum status close_file(struct os *os, struct file *f, struct err *err)
{
    (void)os, (void)err;
    f->fd = -1;
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena  memory = arena_open((i64)64 << 20);
    struct os     os     = *os_real();
    struct probe *p      = NEW(&memory, struct probe, 2);
    os.open_read         = open_read;
    os.read              = read_some;
    os.close             = close_file;
    given                = (struct str){ (const char *)data, (i64)bytes };
    probe_read(&p[1], &os, memory);
    p[0]          = (struct probe){ .core_count = p[1].core_count };
    struct load l = probe_load(&p[0], &p[1], memory);
    ASSERT(l.core_count >= 0 && l.core_count <= PROBE_CORES_MAX);
    ASSERT(isnan(l.disk) || isfinite(l.disk));
    ASSERT(isnan(l.core_slowest) || isfinite(l.core_slowest));
    arena_close(&memory);
    return 0;
}
