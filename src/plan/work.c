/* work.c - from programs to rows. */
#include "plan/work.h"

static struct work_row row_of(const struct program *p, i32 instr, struct arena scratch)
{
    const struct node *n = &p->graph->nodes[p->instrs[instr].node];
    struct sig         s = graph_sig(p->graph, n, &scratch);
    struct work_row    r = { .op = n->op, .count = 1, .fixed = op_cost(&s) };
    r.dtype              = s.in_count ? s.in[0].dtype : DT_F32;
    r.backward = p->graph->forward_count && p->instrs[instr].node >= p->graph->forward_count;
    return r;
}

static bool alike(const struct work_row *a, const struct work_row *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->backward == b->backward;
}

static struct work_row *find_row(const struct work *w, const struct work_row *like)
{
    for (i64 i = 0; i < w->count; i++)
        if (alike(&w->rows[i], like)) return &w->rows[i];
    return NULL;
}

static struct cost plus(struct cost a, struct cost b, f64 times)
{
    return (struct cost){ a.flops + times * b.flops, a.bytes + times * b.bytes };
}

static void add_row(struct work *w, struct work_row r)
{
    struct work_row *old = find_row(w, &r);
    if (!old) {
        w->rows[w->count++] = r;
        return;
    }
    old->count += r.count;
    old->fixed = plus(old->fixed, r.fixed, 1);
}

struct work work_of_program(struct arena *perm, const struct program *p, struct arena scratch)
{
    struct work w = { .rows = NEW(perm, struct work_row, MAX(p->instr_count, 1)) };
    for (i32 i = 0; i < p->instr_count; i++) add_row(&w, row_of(p, i, scratch));
    return w;
}

/* Costs at a and b samples as a line. */
static void draw(f64 a, f64 at_a, f64 b, f64 at_b, f64 *fixed, f64 *sample)
{
    *sample = (at_b - at_a) / (b - a);
    *fixed  = at_a - *sample * a;
}

/* Row by row, not instruction by instruction: a loss is taken in as many parts as the batch asks for. */
static struct work lines_of(struct arena *perm, const struct program *low, f64 a,
                            const struct program *high, f64 b, struct arena scratch)
{
    struct work  w    = { 0 }, few;
    struct arena rows = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    if (!low) return w;
    w   = work_of_program(perm, high, scratch);
    few = work_of_program(&rows, low, scratch);
    for (i64 i = 0; i < w.count; i++) {
        struct work_row *r = &w.rows[i], *at_a = find_row(&few, r);
        struct cost      least = at_a ? at_a->fixed : (struct cost){ 0 };
        draw(a, least.flops, b, r->fixed.flops, &r->fixed.flops, &r->sample.flops);
        draw(a, least.bytes, b, r->fixed.bytes, &r->fixed.bytes, &r->sample.bytes);
    }
    return w;
}

/* Numbers of a parameter, also where it is kept in fewer bits (ir/ops.def, unpack). */
static f64 numbers_of(const struct program_set *set, const struct persistent *p)
{
    char         text[512];
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    bool         part    = p->frozen && (str_ends(p->name, STR(".weight.scales")) ||
                              str_ends(p->name, STR(".weight.sizes")));
    bool         nf4     = p->type.dtype == DT_U8 && p->name.len < (i64)sizeof text / 2 &&
               program_set_find(set, str_cat(&scratch, p->name, STR(".sizes")));
    return part ? 0 : (f64)shape_count(p->type.shape) * (nf4 ? 2 : 1);
}

/* Weights that adapters stand beside are in no checkpoint. */
static void weigh(struct step_work *w, const struct program_set *set, bool adapters)
{
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p     = &set->persistents[i];
        f64                      bytes = (f64)type_bytes(p->type);
        bool saved = p->kind == VALUE_PARAM || p->kind == VALUE_STATE || p->kind == VALUE_BUFFER;
        if (p->kind == VALUE_PARAM) w->parameters += numbers_of(set, p);
        if (p->kind == VALUE_GRAD) w->gradient_bytes += bytes;
        if (p->kind == VALUE_GRAD) w->tensors++;
        if (p->kind == VALUE_STATE) w->optimiser_bytes += bytes;
        if (saved && !(adapters && p->frozen)) w->saved_bytes += bytes;
        if (saved || p->kind == VALUE_GRAD) w->state_bytes += bytes;
    }
}

/* What packs sequences is priced for as many rows as a batch has on average; its memory is the largest's. */
static enum status of_average_length(struct arena *perm, struct program_set *set,
                                     struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        const struct program *p = set->programs[id];
        if (!p || !p->rows || set->row_share <= 0) continue;
        i64 rows = (i64)((f64)p->rows * set->row_share + 0.5);
        st = compile_rows(perm, set, (enum program_id)id, rows, &set->programs[id], scratch, err);
    }
    return st;
}

enum status step_work_of(struct arena *perm, const struct target *target,
                         const struct compile_config *config, graph_builder *build, void *context,
                         i64 low, i64 high, struct step_work *out, struct arena scratch,
                         struct err *err)
{
    struct compile_config c = *config;
    struct target         t = *target;
    struct program_set   *a, *b;
    struct arena          sets = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    t.memory_bytes             = 0;
    t.seconds                  = NULL;
    c.batch_last = c.eval_batch = c.eval_batch_last = 0;
    c.batch                                         = low;
    *out                                            = (struct step_work){ 0 };
    enum status st = compile(&sets, &t, &c, build, context, &a, scratch, err);
    c.batch        = high;
    if (!st) st = compile(&sets, &t, &c, build, context, &b, scratch, err);
    if (st) return st;
    st = of_average_length(&sets, a, scratch, err);
    if (!st) st = of_average_length(&sets, b, scratch, err);
    if (st) return st;
    struct program **p = a->programs, **q = b->programs;
    f64              x = (f64)low, y = (f64)high;
    out->train  = lines_of(perm, p[PROGRAM_TRAIN], x, q[PROGRAM_TRAIN], y, scratch);
    out->add    = lines_of(perm, p[PROGRAM_ADD], x, q[PROGRAM_ADD], y, scratch);
    out->update = lines_of(perm, p[PROGRAM_UPDATE], x, q[PROGRAM_UPDATE], y, scratch);
    draw(x, (f64)a->arena_bytes, y, (f64)b->arena_bytes, &out->memory_fixed, &out->memory_sample);
    weigh(out, a, c.frozen_low);
    return STATUS_OK;
}

/* at_a + times x (at_b - at_a), row by row; both have the same rows. */
static struct work deeper(struct arena *perm, const struct work *at_a, const struct work *at_b,
                          f64 times)
{
    struct work w = { .rows = NEW(perm, struct work_row, MAX(at_a->count, 1)) };
    ASSERT(at_a->count == at_b->count);
    w.count = at_a->count;
    for (i64 i = 0; i < w.count; i++) {
        const struct work_row *a = &at_a->rows[i], *b = &at_b->rows[i];
        ASSERT(alike(a, b));
        w.rows[i] = *a;
        w.rows[i].count += times * (b->count - a->count);
        w.rows[i].fixed  = plus(plus(a->fixed, b->fixed, times), a->fixed, -times);
        w.rows[i].sample = plus(plus(a->sample, b->sample, times), a->sample, -times);
    }
    return w;
}

struct step_work step_work_deeper(struct arena *perm, const struct step_work *at_a, i64 a,
                                  const struct step_work *at_b, i64 b, i64 depth)
{
    f64              times = (f64)(depth - a) / (f64)(b - a);
    struct step_work w     = { .train  = deeper(perm, &at_a->train, &at_b->train, times),
                               .add    = deeper(perm, &at_a->add, &at_b->add, times),
                               .update = deeper(perm, &at_a->update, &at_b->update, times) };
#define DEEPER(field) w.field = at_a->field + times * (at_b->field - at_a->field)
    DEEPER(parameters);
    DEEPER(gradient_bytes);
    DEEPER(saved_bytes);
    DEEPER(state_bytes);
    DEEPER(optimiser_bytes);
    DEEPER(tensors);
    DEEPER(memory_fixed);
    DEEPER(memory_sample);
#undef DEEPER
    return w;
}

static bool is_attention(const struct work_row *r)
{
    return r->op == OP_ATTENTION || r->op == OP_ATTENTION_GRAD;
}

/* What does not grow with the batch is the parameters' own: read, converted, their gradients written. */
static void scale_rows(struct work *w, f64 fixed, f64 attention_part)
{
    static const struct cost none = { 0 };
    for (i64 i = 0; i < w->count; i++) {
        struct work_row *r = &w->rows[i];
        if (is_attention(r)) {
            r->sample = plus(none, r->sample, attention_part);
            r->fixed  = plus(none, r->fixed, attention_part);
        } else {
            r->fixed = plus(none, r->fixed, fixed);
        }
    }
}

void step_work_stand_for(struct step_work *w, f64 parameters, f64 attention_part, bool low)
{
    f64 times = parameters / w->parameters, more = parameters - w->parameters;
    scale_rows(&w->train, times, attention_part);
    scale_rows(&w->add, times, attention_part);
    scale_rows(&w->update, times, 1);
    w->memory_fixed += more * (w->state_bytes / w->parameters + (low ? 2 : 0));
    w->gradient_bytes *= times;
    w->saved_bytes *= times;
    w->state_bytes *= times;
    w->optimiser_bytes *= times;
    w->parameters = parameters;
}

struct cost work_cost(const struct work *w, f64 samples)
{
    struct cost sum = { 0 };
    for (i64 i = 0; i < w->count; i++)
        sum = plus(plus(sum, w->rows[i].fixed, 1), w->rows[i].sample, samples);
    return sum;
}

f64 step_work_bytes(const struct step_work *w, f64 samples)
{
    return w->memory_fixed + samples * w->memory_sample;
}
