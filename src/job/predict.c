/* predict.c - a step as the planner predicts it, when a run begins: what it took is held against
 * that by later plans (plan/lessons.h). Of a GPU in the catalogue, and of a processor whose kernels were
 * measured (`frugal plan --calibrate`); of others nothing can be said without trying out. */
#include "job/predict.h"
#include "base/hash.h"
#include "plan/estimate.h"
#include "plan/lessons.h"
#include "run/report.h"
#include <math.h>

enum { RESERVE_GIB = 1 }; /* address space only */

struct str predict_rates_path(struct os *os, struct arena *perm)
{
    struct str path = ledger_path(os, STR(""), perm);
    while (path.len && path.data[path.len - 1] != '/') path.len--;
    return path.len ? str_cat(perm, path, STR("rates.csv")) : path;
}

enum status predict_read_rates(struct os *os, struct arena *perm, struct target *t,
                               struct rates *out, struct err *err)
{
    struct str  text, path = predict_rates_path(os, perm);
    enum status st = os_read_all(os, path, perm, &text, err);
    *out           = *rates_of_cpus();
    if (!st) st = rates_parse(out, path, text, err);
    if (st) return st;
    t->flops_s[DT_F32]   = out->peak[RATE_F32].flops;
    t->flops_s[DT_BF16]  = out->peak[RATE_LOW].flops;
    t->bandwidth_bytes_s = out->peak[RATE_F32].bytes;
    return STATUS_OK;
}

static enum status device_of(struct os *os, const struct target *t, struct arena *perm,
                             struct device *out)
{
    const struct catalogue *all      = catalogue_new(perm);
    const struct gpu       *gpu      = catalogue_gpu_of_driver(all, t->name);
    struct rates           *r        = NEW(perm, struct rates, 1);
    struct target           measured = *t;
    struct err              why;
    if (t->gpus) return gpu ? device_of_gpu(all, gpu->name, perm, out, &why) : STATUS_NO;
    enum status st = predict_read_rates(os, perm, &measured, r, &why);
    *out           = device_here(&measured, r, NAN);
    return st;
}

bool predict_step(struct os *os, const struct event_start *e, struct arena *perm,
                  struct prediction_row *out)
{
    struct arena      room = arena_open((i64)RESERVE_GIB << 30);
    struct device     d;
    struct step_work  w     = { 0 };
    struct step_shape shape = {
        .micro = e->batch, .accumulate = e->accumulate, .gpus = 1, .gradient_part = 1
    };
    struct os_stat there;
    /* Most processors were never measured: no time is lost on them. */
    bool known = room.begin && e->set &&
                 (e->target->gpus || !os->stat(os, predict_rates_path(os, &room), &there, NULL));
    known = known && !device_of(os, e->target, &room, &d);
    if (known) {
        struct arena          scratch = arena_part(&room, (room.end - room.begin) / 2);
        const struct program *add     = program_typical(e->set, PROGRAM_ADD);
        w.train = work_of_program(&room, program_typical(e->set, PROGRAM_TRAIN), scratch);
        if (add) w.add = work_of_program(&room, add, scratch);
        w.update       = work_of_program(&room, e->set->programs[PROGRAM_UPDATE], scratch);
        struct str key = lesson_rates_key(rates_print(d.rates, &room), &room);
        *out           = (struct prediction_row){ .by        = STR("train"),
                                                  .seconds   = NAN,
                                                  .usd       = NAN,
                                                  .step_s    = estimate_step(&d, &w, DT_F32, &shape).rates_s,
                                                  .device    = str_copy(perm, d.model),
                                                  .precision = str_copy(perm, e->precision),
                                                  .rates     = str_copy(perm, key) };
    }
    if (room.begin) arena_close(&room);
    return known;
}

void predict_keep(const struct job *j, const struct prediction_row *predicted)
{
    struct arena          memory = arena_open((i64)RESERVE_GIB << 30);
    struct str            path   = ledger_path(j->os, j->settings->run.ledger, j->perm);
    struct prediction_row row    = *predicted;
    struct ledger        *l;
    if (!memory.begin) return;
    row.made_wall_ns = j->os->wall_ns(j->os);
    row.settings     = report_settings_key(j->changed, &memory);
    struct str key   = str_fmt(&memory, "%.*s %.*s", STR_ARG(row.settings), STR_ARG(row.machine));
    row.id           = str_sub(sha256_hex(&memory, key), 0, 12);
    if (path.len && !ledger_open(j->os, path, &memory, &l, NULL)) {
        ledger_put(l, LEDGER_TABLE_prediction, &row, NULL);
        ledger_close(l);
    }
    arena_close(&memory);
}
