/* device.c - the machine that a run computes on: opened, tuned and described. */
#include "backend/cuda/cuda.h"
#include "backend/ranks/link.h"
#include "base/pool.h"
#include "train/train_int.h"
#include <string.h>

/* The cores of a machine, and its quota, are shared by the ranks on it. */
static i32 own_threads(const struct session *s)
{
    return s->ranks ? ranks_threads(s->ranks, pool_machine_quota()) : pool_machine_threads();
}

/* train.device auto: the GPU if there is one that answers, else the processor. */
static enum status open_device(struct session *s, struct err *err)
{
    struct str device  = s->settings->train.device;
    i64        asked   = s->settings->train.threads;
    i32        threads = asked ? (i32)asked : own_threads(s);
    i32        nth     = s->ranks ? s->ranks->local : 0;
    bool       f64s    = s->settings->model.dtype == DT_F64; /* the GPU has no kernels for these */
    struct err why;
    if (str_eq(device, STR("cuda"))) {
        enum status st = backend_cuda_open(s->perm, nth, &s->backend, &why);
        return st ? err_set(err, st, "%s. train.device=cpu runs without a GPU", why.text) : st;
    }
    if (str_eq(device, STR("auto")) && !f64s && backend_cuda_likely(s->os)) {
        if (!backend_cuda_open(s->perm, nth, &s->backend, &why)) return STATUS_OK;
        s->note =
            str_fmt(s->perm,
                    "this machine has a GPU and the run does not use it: %s. train.device=cpu "
                    "if that is what you want",
                    why.text);
    }
    return backend_cpu_open(s->perm, threads, BACKEND_FAST, &s->backend, err);
}

/* train.device=auto found no GPU: what was asked of one is reported, not ignored in silence. */
static void note_unused(struct session *s)
{
    const struct train_config *c      = &s->settings->train;
    bool                       order  = !c->deterministic;
    bool                       effort = c->compile.len && !str_eq(c->compile, STR("default"));
    if (!order && !effort) return;
    s->note =
        str_fmt(s->perm, "%.*s%s%s%s%.*s: no effect on the CPU, which this run is on",
                STR_ARG(s->note), s->note.len ? "; " : "", order ? "train.deterministic=false" : "",
                order && effort ? ", " : "",
                STR_ARG(effort ? str_cat(s->perm, STR("train.compile="), c->compile) : STR("")));
}

/* What was kept of earlier runs is a help, and no more. */
static void tune(struct session *s, struct str choices)
{
    bool                  most = str_eq(s->settings->train.compile, STR("max-autotune"));
    struct backend_tuning how  = { .effort    = most ? EFFORT_MAX : EFFORT_DEFAULT,
                                   .any_order = !s->settings->train.deterministic,
                                   .choices   = choices };
    struct err            err  = { 0 };
    if (!s->backend->table->tune) note_unused(s);
    if (!s->backend->table->tune || !s->backend->table->tune(s->backend, &how, &err)) return;
    s->note = str_copy(s->perm, str_of(err.text));
}

static enum status fp8_of(struct session *s, struct err *err)
{
    struct str asked = s->settings->train.fp8;
    if (!asked.len || str_eq(asked, STR("off"))) return STATUS_OK;
    s->config.fp8 = str_eq(asked, STR("on")) ? FP8_ON : FP8_AUTO;
    if (s->precision.dtype == DT_BF16) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "train.fp8=%.*s needs train.precision=bf16, not %.*s",
                   STR_ARG(asked), STR_ARG(precision_name(s->precision.dtype)));
}

enum status session_backend(struct session *s, struct err *err)
{
    enum status st = open_device(s, err);
    if (st) return st;
    tune(s, s->settings->choices);
    s->backend->ranks = s->ranks;
    s->backend->table->describe(s->backend, &s->target);
    struct str queues = s->os->env(s->os, "FRUGAL_QUEUES"); /* for bench/run ranks */
    if (s->settings->queues) s->target.queues = s->settings->queues;
    else if (str_eq(queues, STR("2"))) s->target.queues = 2;
    f64 gib = s->settings->train.memory_gib;
    if (gib > 0) s->target.memory_bytes = (i64)(gib * 0x1p30);
    precision_resolve(s);
    return fp8_of(s, err);
}

enum status session_link(struct session *s, struct err *err)
{
    struct backend *b = s->backend;
    struct target   now;
    if (!s->ranks || s->ranks->shown) return STATUS_OK;
    enum status st = ranks_link(s->ranks, b, &s->target, s->os, err);
    if (st || !b->table->link) return st;
    b->table->describe(b, &now); /* the link has taken memory */
    s->target.memory_bytes = MIN(s->target.memory_bytes, now.memory_bytes);
    return STATUS_OK;
}

/* Ranks that time kernels each by itself choose differently, and an update with products (of Muon) then has other bits
 * in each of them: rank 0 chooses, and the others prepare the same. */
enum status session_share_choices(struct session *s, struct err *err)
{
    struct backend *b       = s->backend;
    struct arena    scratch = s->scratch;
    struct str      text    = { 0 };
    if (!s->ranks || !b->table->choices) return STATUS_OK;
    if (!s->ranks->rank) text = b->table->choices(b, &scratch);
    enum status st    = together_say(s, &text.len, sizeof text.len, err);
    char       *bytes = st ? NULL : NEW(&scratch, char, MAX(text.len, 1));
    if (!st && !s->ranks->rank) memcpy(bytes, text.data, (size_t)text.len);
    if (!st) st = together_say(s, bytes, text.len, err);
    if (!st && s->ranks->rank) tune(s, (struct str){ bytes, text.len });
    return st;
}
