/* state.c - the numbers of a run that are no tensors of its programs, as tensors of a file, and back:
 * state.def has them. */
#include "train/state.h"
#include <math.h>
#include <string.h>

enum owner { RUN, GUARD };
enum kind { I64, F64, I32, U8, KNOWN, TEXT, EVAL };

/* No run has so many of anything, and sums and small products of these are still numbers. As doubles
 * they are exact. */
#define COUNT_MAX ((i64)1 << 50)
#define NS_MAX ((i64)1 << 60) /* 36 years */
#define S_MAX 1.2e9
#define USD_MAX 1e12

/* An evaluation as numbers: what is fixed, then for each metric which, and its value. */
enum { EVAL_FIXED = 11, EVAL_NUMBERS = EVAL_FIXED + 2 * EVENT_METRICS_MAX };
static const char *const metric_names[] = { "accuracy", "perplexity", "auc", "best_auc" };

static const struct {
    struct str dtype;
    i64        bytes;
} kinds[] = { [I64] = { STR_INIT("I64"), 8 },   [F64] = { STR_INIT("F64"), 8 },
              [I32] = { STR_INIT("I32"), 4 },   [U8] = { STR_INIT("U8"), 1 },
              [KNOWN] = { STR_INIT("F64"), 8 }, [TEXT] = { STR_INIT("U8"), 1 },
              [EVAL] = { STR_INIT("F64"), 8 } };

static const struct row {
    struct str name;
    enum owner owner;
    enum kind  kind;
    i64        offset, bytes; /* in its owner */
    f64        least, most;
} rows[] = {
#define OWNER_RUN struct run_state
#define OWNER_GUARD struct guard
#define ROW(owner, kind, field, least, most)                                                       \
    { STR_INIT(#field),                                                                            \
      owner,                                                                                       \
      kind,                                                                                        \
      (i64)offsetof(OWNER_##owner, field),                                                         \
      (i64)sizeof(((OWNER_##owner *)0)->field),                                                    \
      (f64)(least),                                                                                \
      (f64)(most) },
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
    for (i64 i = 0; i < EVENT_METRICS_MAX; i++) {
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
    for (i64 i = 0; i < EVENT_METRICS_MAX; i++) {
        f64 which = from[EVAL_FIXED + 2 * i];
        if (!(which >= 0 && which < (f64)COUNT_OF(metric_names))) break;
        e->metrics[e->metric_count++] =
            (struct event_metric){ str_of(metric_names[(i64)which]), from[EVAL_FIXED + 2 * i + 1] };
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

/* Element i of what the file has, as a number; 8-byte integers beyond 2^53 are rounded, and far out of
 * every range then too. */
static f64 number_at(enum kind kind, const char *bytes, i64 i)
{
    i64 whole;
    i32 half;
    f64 real;
    switch (kind) {
    case I64: return memcpy(&whole, bytes + 8 * i, 8), (f64)whole;
    case I32: return memcpy(&half, bytes + 4 * i, 4), (f64)half;
    case TEXT:
    case U8: return (f64)(u8)bytes[i];
    case F64:
    case KNOWN:
    case EVAL: break;
    }
    return memcpy(&real, bytes + 8 * i, 8), real;
}

/* Of an evaluation: what is a count or an index, and what is time. */
static bool eval_in_range(const char *bytes)
{
    static const struct {
        i64 at;
        f64 least, most;
    } ranges[] = {
        { 0, 0, (f64)COUNT_MAX }, { 1, 0, (f64)COUNT_MAX }, { 2, 0, S_MAX },
        { 3, 0, S_MAX },          { 4, 0, (f64)COUNT_MAX }, { 10, 0, EVENT_METRICS_MAX }
    };
    for (i64 i = 0; i < COUNT_OF(ranges); i++) {
        f64 x = number_at(EVAL, bytes, ranges[i].at);
        if (!(x >= ranges[i].least && x <= ranges[i].most)) return false;
    }
    return true;
}

static bool in_range(const struct row *row, struct str bytes)
{
    i64 count = bytes.len / kinds[row->kind].bytes;
    if (row->kind == EVAL) return eval_in_range(bytes.data);
    if (row->kind == TEXT) return memchr(bytes.data, '\0', (size_t)bytes.len) != NULL;
    for (i64 i = 0; i < count; i++) {
        f64 x = number_at(row->kind, bytes.data, i);
        if (isnan(x) ? row->kind == KNOWN : x < row->least || x > row->most) return false;
    }
    return true;
}

static enum status no_run_has(struct str name, struct err *err)
{
    return err_set(err, STATUS_WORLD,
                   "the checkpoint's %.*s is out of range: it is damaged, or was not "
                   "written by frugal",
                   STR_ARG(name));
}

enum status state_check_place(const struct run_state *r, i64 step_samples, i64 epoch_samples,
                              struct err *err)
{
    i64 at = r->next_index;
    if (at <= epoch_samples && (at % step_samples == 0 || at == epoch_samples)) return STATUS_OK;
    return no_run_has(STR("next_index"), err);
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
                           "the checkpoint's %.*s has another size than in this version of "
                           "frugal: another version wrote it",
                           STR_ARG(row->name));
        if (!in_range(row, t->bytes)) return no_run_has(row->name, err);
        if (row->kind != EVAL) {
            memcpy(to, t->bytes.data, (size_t)t->bytes.len);
            continue;
        }
        memcpy(numbers, t->bytes.data, sizeof numbers);
        eval_of(numbers, (struct train_eval *)(void *)to);
    }
    return STATUS_OK;
}
