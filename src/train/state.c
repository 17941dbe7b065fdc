/* state.c - the numbers of a run that are no tensors of its programs, as tensors of a file, and back:
 * state.def has them. */
#include "train/state.h"
#include <string.h>

enum owner { RUN, GUARD };
enum kind { I64, F64, I32, U8, EVAL };

/* An evaluation as numbers: what is fixed, then for each metric which, and its value. */
enum { EVAL_FIXED = 11, EVAL_NUMBERS = EVAL_FIXED + 2 * TRAIN_METRICS_MAX };
static const char *const metric_names[] = { "accuracy", "perplexity", "auc", "best_auc" };

static const struct {
    struct str dtype;
    i64        bytes;
} kinds[] = { [I64]  = { STR_INIT("I64"), 8 },
              [F64]  = { STR_INIT("F64"), 8 },
              [I32]  = { STR_INIT("I32"), 4 },
              [U8]   = { STR_INIT("U8"), 1 },
              [EVAL] = { STR_INIT("F64"), 8 } };

static const struct row {
    struct str name;
    enum owner owner;
    enum kind  kind;
    i64        offset, bytes; /* in its owner */
} rows[] = {
#define OWNER_RUN struct run_state
#define OWNER_GUARD struct guard
#define ROW(owner, kind, field)                                                                    \
    { STR_INIT(#field), owner, kind, (i64)offsetof(OWNER_##owner, field),                          \
      (i64)sizeof(((OWNER_##owner *)0)->field) },
#define NOT(owner, field)
#include "train/state.def"
#undef ROW
#undef NOT
};

static i64 stored_bytes(const struct row *row)
{
    return row->kind == EVAL ? EVAL_NUMBERS * (i64)sizeof(f64) : row->bytes;
}

static i64 room(const struct row *row) { return (stored_bytes(row) + 7) / 8 * 8; }

i64 state_count(void) { return COUNT_OF(rows); }

i64 state_bytes(void)
{
    i64 bytes = 0;
    for (i64 i = 0; i < COUNT_OF(rows); i++) bytes += room(&rows[i]);
    return bytes;
}

void state_describe(struct st_tensor *tensors, u8 *bytes)
{
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row   = &rows[i];
        i64               count = stored_bytes(row) / kinds[row->kind].bytes;
        tensors[i]              = (struct st_tensor){ row->name,
                                                      kinds[row->kind].dtype,
                                                      shape_1(count),
                                                      { (const char *)bytes, stored_bytes(row) } };
        bytes += room(row);
    }
}

static void eval_numbers(const struct train_eval *e, f64 *to)
{
    f64 fixed[EVAL_FIXED] = { (f64)e->step,        (f64)e->epoch,
                              e->elapsed_s,        e->eval_s,
                              (f64)e->samples,     e->loss,
                              e->forecast.value,   e->forecast.reach,
                              e->dollars,          (f64)e->target_reached,
                              (f64)e->metric_count };
    memcpy(to, fixed, sizeof fixed);
    for (i64 i = 0; i < TRAIN_METRICS_MAX; i++) {
        f64 which = -1;
        for (i64 k = 0; i < e->metric_count && k < COUNT_OF(metric_names); k++)
            if (str_eq(e->metrics[i].name, str_of(metric_names[k]))) which = (f64)k;
        ASSERT(i >= e->metric_count || which >= 0); /* a metric that metric_names lacks */
        to[EVAL_FIXED + 2 * i]     = which;
        to[EVAL_FIXED + 2 * i + 1] = which < 0 ? 0 : e->metrics[i].value;
    }
}

static void eval_of(const f64 *from, struct train_eval *e)
{
    *e = (struct train_eval){ .step           = (i64)from[0],
                              .epoch          = (i64)from[1],
                              .elapsed_s      = from[2],
                              .eval_s         = from[3],
                              .samples        = (i64)from[4],
                              .loss           = from[5],
                              .forecast       = { from[6], from[7] },
                              .dollars        = from[8],
                              .target_reached = from[9] != 0 };
    for (i64 i = 0; i < TRAIN_METRICS_MAX; i++) {
        f64 which = from[EVAL_FIXED + 2 * i];
        if (!(which >= 0 && which < (f64)COUNT_OF(metric_names))) break;
        e->metrics[e->metric_count++] =
            (struct train_metric){ str_of(metric_names[(i64)which]), from[EVAL_FIXED + 2 * i + 1] };
    }
}

void state_collect(const struct run_state *r, const struct guard *g, u8 *bytes)
{
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        const u8 *owner = rows[i].owner == RUN ? (const u8 *)r : (const u8 *)g;
        const u8 *field = owner + rows[i].offset;
        f64       numbers[EVAL_NUMBERS];
        if (rows[i].kind == EVAL) {
            eval_numbers((const struct train_eval *)(const void *)field, numbers);
            field = (const u8 *)numbers;
        }
        memcpy(bytes, field, (size_t)stored_bytes(&rows[i]));
        bytes += room(&rows[i]);
    }
}

enum status state_put_back(struct run_state *r, struct guard *g, const struct st_file *file,
                           struct err *err)
{
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        const struct row       *row = &rows[i];
        const struct st_tensor *t   = st_find(file, row->name);
        u8                     *to  = (row->owner == RUN ? (u8 *)r : (u8 *)g) + row->offset;
        f64                     numbers[EVAL_NUMBERS];
        if (!t) continue;
        if (t->bytes.len != stored_bytes(row) || !str_eq(t->dtype, kinds[row->kind].dtype))
            return err_set(err, STATUS_USAGE,
                           "the checkpoint's %.*s has another size than this frugal's: it was "
                           "written by another version",
                           STR_ARG(row->name));
        if (row->kind != EVAL) {
            memcpy(to, t->bytes.data, (size_t)t->bytes.len);
            continue;
        }
        memcpy(numbers, t->bytes.data, sizeof numbers);
        eval_of(numbers, (struct train_eval *)(void *)to);
    }
    return STATUS_OK;
}
