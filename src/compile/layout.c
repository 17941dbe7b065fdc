/* layout.c - the arena's plan: every byte of a run is placed before the first is allocated.
 *
 *   | params: hidden, decay, rest, frozen, tables | grads, rows of tables | state | buffers |
 *   scalars | inputs | outputs | temps … |
 *
 * Gradients and each optimiser state repeat the layout of the parameters they belong to, so that a
 * sweep or a shard is one range. Inputs and outputs take the largest size any program gives
 * them. Padding between tensors is zero and stays zero under every optimiser. */
#include "compile/compile_int.h"
#include "ir/collective.h"

struct plan {
    struct program_set *set;
    const struct graph *update, *square; /* graphs that name ranges; NULL: there is none */
    i32                 persistents_max;
    i64                 align;
    i64  parts;         /* that groups but the hidden one are dealt out in; 1: they are whole */
    bool beside;        /* collectives are on a queue of their own */
    i32  owners, place; /* that hidden matrices are dealt out to, each whole; 1: they are not */
    i64  group_begin[GROUP_COUNT + 1]; /* of parameters */
    i64  grads;                        /* begin of the gradients */
    i64  end;
};

static i64 aligned(i64 bytes, i64 align) { return (bytes + align - 1) / align * align; }

static struct persistent *plan_find(struct plan *p, struct str name)
{
    return (struct persistent *)(uintptr_t)program_set_find(p->set, name);
}

bool plan_deals(const struct plan *p, struct str param)
{
    const struct persistent *t = program_set_find(p->set, param);
    return t && t->dealt;
}

/* The update sweeps over ranges of parameters, gradients and state, as does their norm; a model's
 * tensor may have any name, also one that looks like a range's. State without a '/' in its name is
 * no range of one, nor is what belongs to a table. */
static bool is_range(const struct plan *p, const struct graph *g, const struct value *v)
{
    bool own = v->kind == VALUE_STATE && str_find(v->name, '/') < 0;
    bool of  = v->kind <= VALUE_STATE || v->kind == VALUE_CACHE;
    return (g == p->update || g == p->square) && of && !own && !v->sparse_rows;
}

/* Every name once; inputs and outputs keep their largest type. Ranges have no place of their own,
 * but optimiser state is made from the range over both groups. */
static enum status collect(struct plan *p, const struct graph *g, struct err *err)
{
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind == VALUE_TEMP || is_range(p, g, v) || copy_source(v).len) continue;
        struct persistent *known = plan_find(p, v->name);
        if (!known) {
            ASSERT(p->set->persistent_count < p->persistents_max);
            p->set->persistents[p->set->persistent_count++] =
                (struct persistent){ v->name,  v->kind,   v->type,   v->init,        -1,
                                     v->decay, v->frozen, v->hidden, v->sparse_rows, v->dealt,
                                     v->whole };
            continue;
        }
        bool resizes = v->kind == VALUE_INPUT || v->kind == VALUE_OUTPUT;
        if (known->kind != v->kind || (!resizes && !type_eq(known->type, v->type)))
            return err_set(err, STATUS_USAGE, "programs disagree about tensor %.*s",
                           STR_ARG(v->name));
        if (type_bytes(v->type) > type_bytes(known->type)) known->type = v->type;
    }
    return STATUS_OK;
}

static void place_params(struct plan *p)
{
    for (enum group which = 0; which < GROUP_COUNT; which++) {
        p->group_begin[which] = p->end;
        for (i32 i = 0; i < p->set->persistent_count; i++) {
            struct persistent *t = &p->set->persistents[i];
            struct value       v = { .decay       = t->decay,
                                     .frozen      = t->frozen,
                                     .hidden      = t->hidden,
                                     .sparse_rows = t->sparse_rows };
            if (t->kind != VALUE_PARAM || group_of(&v) != which) continue;
            t->offset = p->end;
            p->end += aligned(type_bytes(t->type), p->align);
        }
        if (which == GROUP_DECAY || which == GROUP_REST)
            p->end = p->group_begin[which] +
                     aligned(p->end - p->group_begin[which], p->align * p->parts);
    }
    p->group_begin[GROUP_COUNT] = p->end;
}

/* Gradients stand in the order of their parameters, those of tables' rows behind them. */
static void place_grads(struct plan *p)
{
    p->grads = p->end;
    for (i32 i = 0; i < p->set->persistent_count; i++) {
        struct persistent *t = &p->set->persistents[i];
        if (t->kind != VALUE_GRAD || t->sparse_rows) continue;
        struct persistent *param = plan_find(p, str_sub(t->name, 0, t->name.len - 5));
        ASSERT(param && param->offset >= 0);
        t->offset = p->grads + param->offset;
        p->end    = MAX(p->end, t->offset + aligned(type_bytes(t->type), p->align));
    }
    if (p->parts > 1 && p->update) p->end = MAX(p->end, p->grads + p->group_begin[GROUP_FROZEN]);
    for (i32 i = 0; i < p->set->persistent_count; i++) {
        struct persistent *t = &p->set->persistents[i];
        if (t->kind != VALUE_GRAD || !t->sparse_rows) continue;
        t->offset = p->end;
        p->end += aligned(type_bytes(t->type), p->align);
    }
}

static void place_others(struct plan *p)
{
    for (enum value_kind kind = VALUE_STATE; kind < VALUE_TEMP; kind++) {
        for (i32 i = 0; i < p->set->persistent_count; i++) {
            struct persistent *t = &p->set->persistents[i];
            if (t->kind != kind) continue;
            t->offset = p->end;
            p->end += aligned(type_bytes(t->type), p->align);
        }
    }
}

/* The groups that a state of this range covers: Muon's the hidden matrices, others the rest. */
static enum group state_begin(struct range r)
{
    return r.group == GROUP_HIDDEN ? GROUP_HIDDEN : GROUP_DECAY;
}

static enum group state_end(struct range r)
{
    return r.group == GROUP_HIDDEN ? GROUP_DECAY : GROUP_FROZEN;
}

/* The stretch of hidden matrices that a rank updates, from where on in the arena; empty: none is its. */
static i64 owned_bytes(const struct plan *p, i32 rank, i64 *begin)
{
    i64 first = p->group_begin[GROUP_HIDDEN], all = p->group_begin[GROUP_DECAY] - first, end = 0;
    *begin = INT64_MAX;
    for (i32 i = 0; i < p->set->persistent_count; i++) {
        const struct persistent *t     = &p->set->persistents[i];
        i64                      bytes = type_bytes(t->type);
        if (t->kind != VALUE_PARAM || t->offset < first || t->offset >= first + all) continue;
        if (ranks_owner(t->offset - first, bytes, all, p->owners) != rank) continue;
        *begin = MIN(*begin, t->offset);
        end    = MAX(end, t->offset + aligned(bytes, p->align));
    }
    return end ? end - *begin : 0;
}

/* Where the range begins: as far into its whole as into the parameters. */
static i64 range_offset(struct plan *p, struct str name)
{
    struct range r    = range_of(name);
    i64          skip = r.group == GROUP_FROZEN ? 0 : p->group_begin[r.group];
    if (r.part && r.of.len && !str_eq(r.of, STR("params")))
        return plan_find(p, r.of)->offset + (skip - p->group_begin[GROUP_DECAY]) / p->parts;
    if (r.part) return skip + (p->group_begin[r.group + 1] - skip) / p->parts * (r.part - 1);
    if (r.group == GROUP_HIDDEN && r.param.len) {
        const struct persistent *t = plan_find(p, r.param);
        skip                       = t->offset + type_bytes(t->type) / t->type.shape.dim[0] * r.row;
    }
    if (str_eq(r.of, STR("params"))) return skip;
    if (str_eq(r.of, STR("grads"))) return p->grads + skip;
    if (r.group == GROUP_HIDDEN && p->owners > 1) {
        i64 begin, bytes = owned_bytes(p, p->place, &begin);
        ASSERT(skip >= begin && skip < begin + bytes);
        return plan_find(p, r.of)->offset + skip - begin;
    }
    return plan_find(p, r.of)->offset + skip - p->group_begin[state_begin(r)];
}

/* A weight's copy lies among the others as the weight does among those with decay. */
static i64 copy_offset(struct plan *p, struct str weight)
{
    i64 numbers = (plan_find(p, weight)->offset - p->group_begin[GROUP_DECAY]) / 4;
    return plan_find(p, STR("adam.copies"))->offset + 2 * numbers;
}

static i64 persistent_offset(struct plan *p, const struct graph *g, const struct value *v)
{
    struct str weight = copy_source(v);
    if (is_range(p, g, v)) return range_offset(p, v->name);
    return weight.len ? copy_offset(p, weight) : plan_find(p, v->name)->offset;
}

static bool is_collective(const struct node *n) { return op_info(n->op)->attrs & A_ranks; }

static struct program *program_new(struct arena *perm, struct plan *p, struct graph *g)
{
    struct program *prog = NEW(perm, struct program, 1);
    prog->graph          = g;
    prog->offset         = NEW(perm, i64, g->value_count + 1);
    prog->instrs         = NEW(perm, struct instr, g->node_count + 1);
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        prog->offset[i]       = -1;
        if (v->kind == VALUE_TEMP) continue;
        prog->offset[i] = persistent_offset(p, g, v);
    }
    for (i32 i = 0; i < g->node_count; i++) {
        if (!op_is_view(g->nodes[i].op))
            prog->instrs[prog->instr_count++] =
                (struct instr){ .node = i, .queue = p->beside && is_collective(&g->nodes[i]) };
    }
    return prog;
}

static enum status is_taken(struct str name, struct err *err)
{
    return err_set(err, STATUS_USAGE,
                   "tensor %.*s has the name of the optimiser's state; give it another",
                   STR_ARG(name));
}

/* Optimiser state: one tensor a kind over all parameters that have it. */
static enum status add_states(struct plan *p, struct err *err)
{
    for (i32 i = 0; p->update && i < p->update->value_count; i++) {
        const struct value *v = &p->update->values[i];
        if (v->kind != VALUE_STATE || !is_range(p, p->update, v)) continue;
        struct range             r     = range_of(v->name);
        struct str               name  = r.of;
        const struct persistent *known = plan_find(p, name);
        if (known && known->kind != VALUE_STATE) return is_taken(name, err);
        if (known) continue;
        i64 item  = dtype_bytes(v->type.dtype);
        i64 count = (p->group_begin[state_end(r)] - p->group_begin[state_begin(r)]) / item;
        if (r.part) count /= p->parts;
        ASSERT(p->set->persistent_count < p->persistents_max);
        p->set->persistents[p->set->persistent_count++] = (struct persistent){
            .name = name,
            .kind = VALUE_STATE,
            .type = type_of(v->type.dtype, shape_1(count)),
        };
    }
    return STATUS_OK;
}

/* Copies of weights: copies.c. */
static enum status add_copies(struct plan *p, struct err *err)
{
    struct str name = STR("adam.copies");
    for (i32 i = 0; p->update && i < p->update->value_count; i++) {
        const struct value *v = &p->update->values[i];
        if (!copy_source(v).len) continue;
        if (plan_find(p, name)) return is_taken(name, err);
        ASSERT(p->set->persistent_count < p->persistents_max);
        p->set->persistents[p->set->persistent_count++] =
            (struct persistent){ .name = name, .kind = VALUE_CACHE, .type = v->type };
    }
    return STATUS_OK;
}

/* Muon's momentum where each rank has that of its own matrices: as much room in all of them, also in one that has none,
 * so that they lay out the same arena. */
static void add_owned_state(struct plan *p)
{
    i64 most = 0, begin;
    i32 at   = 0;
    while (at < p->set->persistent_count && !p->set->persistents[at].hidden) at++;
    if (p->owners < 2 || !p->update || at == p->set->persistent_count) return;
    for (i32 i = 0; i < p->owners; i++) most = MAX(most, owned_bytes(p, i, &begin));
    enum dtype dtype = p->set->persistents[at].type.dtype;
    ASSERT(p->set->persistent_count < p->persistents_max);
    p->set->persistents[p->set->persistent_count++] =
        (struct persistent){ .name = STR("muon.momentum"),
                             .kind = VALUE_STATE,
                             .type = type_of(dtype, shape_1(most / dtype_bytes(dtype))) };
}

enum status lay_out_persistents(struct arena *perm, const struct target *target,
                                const struct compile_config *config, struct graph *const *graphs,
                                struct program_set *set, struct plan **out, struct err *err)
{
    struct plan *p = *out = NEW(perm, struct plan, 1);
    p->set                = set;
    p->align              = target->align_bytes;
    p->parts              = shard_parts(config);
    p->beside             = target->queues > 1;
    p->owners             = shard_owners(config);
    p->place              = shard_place(config);
    p->update             = graphs[PROGRAM_UPDATE];
    p->square             = graphs[PROGRAM_SQUARE];
    p->persistents_max    = 8;
    for (i32 i = 0; i < PROGRAM_COUNT; i++)
        p->persistents_max += graphs[i] ? graphs[i]->value_count : 0;
    set->persistents = NEW(perm, struct persistent, p->persistents_max);
    for (i32 i = 0; i < PROGRAM_COUNT; i++) {
        enum status st = graphs[i] ? collect(p, graphs[i], err) : STATUS_OK;
        if (st) return st;
    }
    place_params(p);
    place_grads(p);
    add_owned_state(p);
    enum status st = add_copies(p, err);
    if (!st) st = add_states(p, err);
    if (st) return st;
    place_others(p);
    set->persistent_bytes = set->arena_bytes = p->end;
    return STATUS_OK;
}

static bool is_f32_table(const struct program_set *set)
{
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p = &set->persistents[i];
        if (p->sparse_rows && p->kind == VALUE_PARAM && p->type.dtype == DT_F32) return true;
    }
    return false;
}

static enum status tables_too_large(const struct program_set *set, const struct target *target,
                                    struct err *err)
{
    i64 rows  = program_set_table_bytes(set, VALUE_PARAM),
        state = program_set_table_bytes(set, VALUE_STATE);
    return err_set(
        err, STATUS_USAGE,
        "the run needs %.3g GiB, %.3g of them for the embedding table and %.3g for its optimiser's "
        "state, and %.*s has %.3g GiB: try %s%sa smaller data.buckets or model.table_width",
        (f64)set->arena_bytes / 0x1p30, (f64)rows / 0x1p30, (f64)state / 0x1p30,
        STR_ARG(target->name), (f64)target->memory_bytes / 0x1p30,
        is_f32_table(set) ? "model.table_dtype=bf16, " : "",
        state >= rows ? "train.tables=adagrad, " : "");
}

/* Says what to make smaller: whatever the largest program is made for. */
static enum status too_large(const struct program_set *set, const struct target *target,
                             struct err *err)
{
    bool evaluates =
        set->programs[PROGRAM_EVAL] && set->programs[PROGRAM_EVAL]->bytes == set->arena_bytes;
    i64 tables =
        program_set_table_bytes(set, VALUE_PARAM) + program_set_table_bytes(set, VALUE_STATE);
    if (tables > MIN(set->arena_bytes / 2, target->memory_bytes))
        return tables_too_large(set, target, err);
    return err_set(err, STATUS_USAGE, "the run needs %.3g GiB, %.*s has %.3g GiB for it: try %s",
                   (f64)set->arena_bytes / 0x1p30, STR_ARG(target->name),
                   (f64)target->memory_bytes / 0x1p30,
                   evaluates ? "a smaller train.eval_batch"
                             : "train.micro_batch=auto, train.recompute=auto or a smaller model");
}

enum status lay_out_program(struct arena *perm, const struct target *target, struct graph *g,
                            struct plan *p, struct program **out, struct arena scratch,
                            struct err *err)
{
    *out         = program_new(perm, p, g);
    (*out)->rows = g->rows;
    place_temps(*out, target, p->end, scratch);
    return program_verify(*out, scratch, err);
}

enum status lay_out_programs(struct arena *perm, const struct target *target,
                             struct graph *const *graphs, struct plan *p, struct arena scratch,
                             struct err *err)
{
    struct program_set *set = p->set;
    for (i32 i = 0; i < PROGRAM_COUNT; i++) {
        if (!graphs[i]) continue;
        enum status st =
            lay_out_program(perm, target, graphs[i], p, &set->programs[i], scratch, err);
        if (st) return st;
        set->arena_bytes = MAX(set->arena_bytes, set->programs[i]->bytes);
    }
    if (target->memory_bytes && set->arena_bytes > target->memory_bytes)
        return too_large(set, target, err);
    return STATUS_OK;
}

i64 program_peak(struct graph *g, const struct target *target, struct plan *p, struct arena scratch)
{
    struct program *prog = program_new(&scratch, p, g);
    place_temps(prog, target, p->end, scratch);
    return prog->bytes;
}
