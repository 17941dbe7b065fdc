/* profile.c - sums by instruction, and a ring of intervals. */
#include "run/profile.h"
#include <math.h>
#include <string.h>

/* Of the ring, and so of the trace: some 500 bytes an event there, so that no file is larger than 50 MB. */
enum { SPANS_MAX = 100000, PARTS_A_STEP = 16, PARTS_A_BATCH = 8 };

struct profile {
    struct profile_config     config;
    const struct program_set *set;
    i64                       first_step;
    i64                       step, begin_ns; /* of the step going on; step -1: none is kept */
    struct step_split before, sum; /* at the first active step's begin; of those that ended */
    i64               steps;       /* that ended */
    f64              *once;        /* of a call */
    f64              *seconds[PROGRAM_COUNT]; /* of all calls, by instruction */
    i64               calls[PROGRAM_COUNT];
    struct trace     *trace;
    struct clock     *clock;
    bool              timing; /* a call whose parts are known only after it */
};

static i64 instrs_of(const struct program_set *set, enum program_id id)
{
    return set->programs[id] ? set->programs[id]->instr_count : 0;
}

struct profile *profile_new(struct arena *perm, const struct profile_config *c,
                            const struct program_set *set, i64 first_step, i64 accumulate)
{
    struct profile *p    = NEW(perm, struct profile, 1);
    i64             most = 1;
    *p = (struct profile){ .config = *c, .set = set, .first_step = first_step, .step = -1 };
    for (i32 id = 0; id < PROGRAM_COUNT; id++) {
        most           = MAX(most, instrs_of(set, (enum program_id)id));
        p->seconds[id] = NEW(perm, f64, MAX(instrs_of(set, (enum program_id)id), 1));
    }
    i64 a_step = instrs_of(set, PROGRAM_TRAIN) + (accumulate - 1) * instrs_of(set, PROGRAM_ADD) +
                 instrs_of(set, PROGRAM_UPDATE) + 2 * instrs_of(set, PROGRAM_SQUARE) +
                 PARTS_A_STEP + accumulate * PARTS_A_BATCH;
    p->once  = NEW(perm, f64, most);
    p->trace = trace_new(perm, MIN(MIN(c->active, SPANS_MAX) * a_step, SPANS_MAX));
    return p;
}

static bool is_active(const struct profile *p, i64 step)
{
    i64 n = step - p->first_step - p->config.wait;
    return n >= 0 && n < p->config.active;
}

bool profile_on(const struct profile *p, i64 step)
{
    return p && step - p->first_step >= p->config.wait && !profile_over(p, step);
}

bool profile_over(const struct profile *p, i64 step)
{
    return p && step - p->first_step >= p->config.wait + p->config.active;
}

/* What an event is lies in its value: kind, then program and instruction, part or step. */
static i64 packed(enum profile_event kind, i64 high, i64 low)
{
    return (i64)kind << 56 | high << 32 | low;
}

static void keep(struct profile *p, i64 value, i64 begin_ns, i64 end_ns)
{
    trace_add(p->trace,
              (struct trace_event){ .begin_ns = begin_ns, .end_ns = end_ns, .value = value });
}

static void keep_part(struct profile *p, enum part part, i64 begin_ns, i64 end_ns)
{
    if (p->step >= 0 && end_ns > begin_ns) keep(p, packed(PROFILE_PART, 0, part), begin_ns, end_ns);
}

static void part_ended(void *context, enum part part, i64 begin_ns, i64 end_ns)
{
    struct profile *p = context;
    if (!p->timing) keep_part(p, part, begin_ns, end_ns);
}

void profile_watch(struct profile *p, struct clock *clock)
{
    p->clock = clock;
    clock_watch(clock, part_ended, p);
}

void profile_step(struct profile *p, i64 step, i64 now_ns)
{
    if (!p) return;
    struct step_split split = clock_split(p->clock);
    if (p->step >= 0) {
        keep(p, packed(PROFILE_STEP, 0, p->step + 1), p->begin_ns, now_ns);
        p->sum = split_since(&split, &p->before);
        p->steps++;
    }
    bool active = is_active(p, step);
    if (active && !p->steps) p->before = split;
    p->step     = active ? step : -1;
    p->begin_ns = now_ns;
}

f64 *profile_seconds(struct profile *p)
{
    p->timing = true;
    return p->once;
}

/* Lays the instructions one behind the other from begin_ns on, none beyond end_ns: a device's clock is not
 * ours. Returns where the forward ones end; *at is where all do. */
static i64 lay(struct profile *p, enum program_id id, i64 begin_ns, i64 end_ns, i64 *at)
{
    const struct program *program = p->set->programs[id];
    i64                   turn    = begin_ns;
    *at                           = begin_ns;
    for (i32 i = 0; i < program->instr_count; i++) {
        i64 end = MIN(*at + (i64)llround(p->once[i] * 1e9), end_ns);
        if (p->step >= 0) {
            p->seconds[id][i] += p->once[i];
            keep(p, packed(PROFILE_INSTR, id, i), *at, end);
        }
        *at = end;
        if (program->instrs[i].node < program->graph->forward_count) turn = end;
    }
    return turn;
}

void profile_ran(struct profile *p, enum program_id id, i64 begin_ns, i64 end_ns, enum part from)
{
    i64       end, turn = lay(p, id, begin_ns, end_ns, &end);
    enum part rest = id == PROGRAM_UPDATE ? PART_update : PART_backward;
    p->calls[id] += p->step >= 0;
    p->timing = false;
    clock_move(p->clock, from, PART_forward, turn - begin_ns);
    clock_move(p->clock, from, rest, end - turn);
    clock_move(p->clock, from, PART_launch, end_ns - end);
    keep_part(p, PART_forward, begin_ns, turn);
    keep_part(p, rest, turn, end);
    keep_part(p, PART_launch, end, end_ns);
}

i64 profile_steps(const struct profile *p) { return p->steps; }

struct step_split profile_split(const struct profile *p) { return p->sum; }

struct op_table profile_table(const struct profile *p, const struct target *t, struct arena *perm)
{
    i64 rows = 0;
    for (i32 id = 0; id < PROGRAM_COUNT; id++) rows += instrs_of(p->set, (enum program_id)id);
    struct op_table table = op_table_new(perm, rows);
    for (i32 id = 0; id < PROGRAM_COUNT; id++)
        if (p->calls[id])
            op_table_add(&table, p->set->programs[id], t, p->seconds[id], p->calls[id],
                         OPS_BY_SHAPE, perm);
    op_table_sort(&table, op_sort_of(p->config.sort));
    return table;
}

i64 profile_span_count(const struct profile *p) { return trace_count(p->trace); }

i64 profile_spans_dropped(const struct profile *p) { return trace_dropped(p->trace); }

struct profile_span profile_span(const struct profile *p, i64 index)
{
    struct trace_event e   = trace_get(p->trace, index);
    i64                low = e.value & 0xffffffff;
    return (struct profile_span){ .kind     = (enum profile_event)(e.value >> 56),
                                  .begin_ns = e.begin_ns,
                                  .end_ns   = e.end_ns,
                                  .step     = low,
                                  .part     = (enum part)low,
                                  .program  = (enum program_id)(e.value >> 32 & 0xffffff),
                                  .instr    = (i32)low };
}

const struct program_set *profile_set(const struct profile *p) { return p->set; }
