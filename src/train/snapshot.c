/* snapshot.c - the whole state of a run in memory of its own, and back into the run.
 *
 *     weights     parameters and buffers, under the names of docs/formats/weights.md
 *     optimiser   its state: for each parameter "adam.m/NAME", …; and what has one number, by its name
 *     kept        the copy that guard.c goes back to, where there is one
 *     run         the numbers of state.c
 *
 * The arena holds the optimiser's state as one range over all parameters, with a padding that differs
 * by machine; the file has it parameter by parameter and fits every one. Each tensor is copied to its
 * place in the file, and the disk takes that as it is: nothing is copied twice.
 *
 *     the run      ┤take├─ gradients ──┤ update ├─ gradients …     the update waits for the copy
 *     the writer        └─ copy ─┴─ hash, write, sync, name …
 *
 * What gradients change already (running statistics, fp8's scales) is small and taken first. */
#include "train/dealt.h"
#include "train/state.h"
#include <string.h>

#define IN_PARTS (-1)    /* in place of an offset: ranks have parts of it */
enum { STATES_MAX = 4 }; /* tensors that one parameter can be the reason of: itself and its state */

static i64 in_pages(i64 bytes)
{
    return (bytes + OS_DIRECT_ALIGN - 1) / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN;
}

static bool is_state(const struct session *s, const struct persistent *t)
{
    return weights_are_kept(s, t) || t->kind == VALUE_STATE;
}

static struct str dtype_text(enum dtype t)
{
    switch (t) {
    case DT_F32: return STR("F32");
    case DT_F64: return STR("F64");
    case DT_BF16: return STR("BF16");
    case DT_F16: return STR("F16");
    default: ASSERT(!"state of this type"); return STR("");
    }
}

static struct st_tensor *tensors_of(const struct ckpt_part *part)
{
    return (struct st_tensor *)(uintptr_t)part->tensors; /* ours, before they are lent away */
}

/* --- tensors of files --- */

/* Is it one range over the parameters that it belongs to? Muon's over the hidden matrices, the others over the rest
 * that is trained; tables whose rows are updated one by one have state of their own. Gives where the first begins. */
static bool covers(const struct persistent *state, const struct persistent *param)
{
    bool muon = str_starts(state->name, STR("muon."));
    return param->kind == VALUE_PARAM && !param->frozen && !param->sparse_rows &&
           param->hidden == muon;
}

static bool is_range(const struct snapshot *n, const struct persistent *state, i64 *begin)
{
    const struct program_set *set = n->s->set;
    i64                       end = 0, align = n->s->target.align_bytes;
    *begin = INT64_MAX;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!covers(state, t)) continue;
        *begin = MIN(*begin, t->offset);
        end    = MAX(end, t->offset + type_bytes(t->type));
    }
    end = (end + align - 1) / align * align;
    return state->kind == VALUE_STATE && type_bytes(state->type) == end - *begin;
}

static void add(struct snapshot_part *part, struct str name, struct type type, const u8 *bytes,
                i64 offset)
{
    struct str where                = { (const char *)bytes, type_bytes(type) };
    part->offsets[part->file.count] = offset;
    tensors_of(&part->file)[part->file.count++] =
        (struct st_tensor){ name, dtype_text(type.dtype), type.shape, where };
}

struct str snapshot_name(struct arena *perm, const struct persistent *state,
                         const struct persistent *param)
{
    if (!state) return param->name;
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(state->name), STR_ARG(param->name));
}

/* The tensors that are made of persistent t, whose copy begins at `bytes` (NULL: it has no place yet). */
static void add_pieces(const struct snapshot *n, struct snapshot_part *part,
                       const struct persistent *t, const u8 *bytes)
{
    const struct program_set *set   = n->s->set;
    i64                       begin = 0;
    bool                      dealt = dealt_is(n->s, t);
    if (t->kind != VALUE_STATE || (!dealt && !is_range(n, t, &begin))) {
        add(part, t->name, persistent_type(t), bytes, dealt ? IN_PARTS : t->offset);
        return;
    }
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p    = &set->persistents[i];
        i64                      skip = p->offset - begin;
        if (!covers(t, p)) continue;
        add(part, snapshot_name(n->s->perm, t, p), persistent_type(p), bytes ? bytes + skip : NULL,
            dealt ? IN_PARTS : t->offset + skip);
    }
}

static struct snapshot_part part_new(const struct snapshot *n, struct str name, i64 tensors_max)
{
    return (struct snapshot_part){
        .file    = { .name = name, .tensors = NEW(n->s->perm, struct st_tensor, tensors_max) },
        .offsets = NEW(n->s->perm, i64, tensors_max),
        .parts   = 1
    };
}

/* What there is to save. */
static void name_all(struct snapshot *n)
{
    const struct program_set *set  = n->s->set;
    i64                       most = STATES_MAX * set->persistent_count;
    n->all[0]                      = part_new(n, STR("weights"), most);
    n->all[1]                      = part_new(n, STR("optimiser"), most);
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (is_state(n->s, t)) add_pieces(n, &n->all[t->kind == VALUE_STATE], t, NULL);
    }
}

static void add_ranges(const struct snapshot *n, struct snapshot_part *part, bool state)
{
    const struct session *s       = n->s;
    struct arena          scratch = s->scratch;
    struct dealt_range   *all     = NEW(&scratch, struct dealt_range, dealt_ranges_max(s));
    i64                   count   = dealt_ranges(s, dealt_part(s), all);
    for (i64 i = 0; i < count; i++) {
        const struct dealt_range *r    = &all[i];
        struct type               t    = persistent_type(r->param);
        i64                       item = dtype_bytes(t.dtype);
        if ((r->state != NULL) != state) continue;
        struct str name = snapshot_name(s->perm, r->state, r->param);
        add(part, st_range_name(s->perm, name, t.shape, r->from / item),
            type_of(t.dtype, shape_1(r->bytes / item)), NULL, r->offset);
    }
}

/* What this rank writes: all of it, or its own ranges and, of rank 0, what is whole on every rank. */
static void choose_files(struct snapshot *n)
{
    const struct session *s    = n->s;
    i32                   rank = s->ranks ? s->ranks->rank : 0;
    for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
        const struct snapshot_part *all   = &n->all[p];
        i64                         count = all->file.count, whole = 0;
        n->files[p] = *all;
        for (i64 i = 0; i < count; i++) whole += all->offsets[i] != IN_PARTS;
        if (!n->shared || whole == count) {
            n->files[p].absent = rank > 0;
            continue;
        }
        if (dealt_writer(s, dealt_part(s)) != rank) {
            n->files[p].absent = true;
            continue;
        }
        n->files[p] = part_new(n, STR(""), whole + dealt_ranges_max(s));
        for (i64 i = 0; i < count && !rank; i++) {
            const struct st_tensor *t = &all->file.tensors[i];
            if (all->offsets[i] == IN_PARTS) continue;
            n->files[p].offsets[n->files[p].file.count]             = all->offsets[i];
            tensors_of(&n->files[p].file)[n->files[p].file.count++] = *t;
        }
        add_ranges(n, &n->files[p], p == 1);
        i32 parts             = dealt_parts(s);
        n->files[p].parts     = rank ? 1 : parts;
        n->files[p].file.name = st_part_name(s->perm, all->file.name, dealt_part(s) + 1, parts);
    }
}

/* Gives everything its place in memory: files as the disk takes them, each from a page's beginning. */
static void lay_out(struct snapshot *n, u8 *at)
{
    for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
        struct snapshot_part *f = &n->files[p];
        if (f->absent) continue;
        f->file.whole =
            (struct str){ (const char *)at, st_lay_out(tensors_of(&f->file), f->file.count,
                                                       f->parts, at, n->s->scratch) };
        at += in_pages(f->file.whole.len);
        n->parts[n->part_count++] = f->file;
    }
    struct ckpt_part run = { .name    = STR("run"),
                             .tensors = NEW(n->s->perm, struct st_tensor, state_count()),
                             .count   = state_count() };
    n->numbers           = at;
    state_describe(tensors_of(&run), at);
    if (!n->s->ranks || !n->s->ranks->rank) n->parts[n->part_count++] = run;
}

static bool changes(const struct program *p, i64 begin, i64 end)
{
    for (i32 i = 0; p && i < p->graph->node_count; i++) {
        const struct node *node   = &p->graph->nodes[i];
        u32                writes = (u32)op_info(node->op)->writes;
        for (i32 k = 0; writes >> k; k++) {
            i64 at = p->offset[node->in[k]];
            if (writes >> k & 1 && at >= begin && at < end) return true;
        }
    }
    return false;
}

bool gradients_change(const struct session *s, i64 begin, i64 end)
{
    struct program *const *all = s->set->programs;
    return changes(all[PROGRAM_TRAIN], begin, end) ||
           changes(all[PROGRAM_TRAIN_LAST], begin, end) || changes(all[PROGRAM_ADD], begin, end) ||
           changes(all[PROGRAM_ADD_LAST], begin, end);
}

static void plan_copies(struct snapshot *n)
{
    i64 most  = n->files[0].file.count + n->files[1].file.count;
    n->copies = NEW(n->s->perm, struct backend_copy, most);
    for (i32 early = 1; early >= 0; early--) {
        for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
            const struct snapshot_part *f = &n->files[p];
            for (i64 i = 0; i < f->file.count && !f->absent; i++) {
                i64        offset = f->offsets[i];
                struct str to     = f->file.tensors[i].bytes;
                if (offset == IN_PARTS) continue; /* collected from the ranks */
                if (gradients_change(n->s, offset, offset + to.len) != early) continue;
                n->copies[n->copy_count++] =
                    (struct backend_copy){ offset, (u8 *)(uintptr_t)to.data, to.len };
            }
        }
        if (early) n->early_count = n->copy_count;
    }
}

void snapshot_add_kept(struct snapshot *n)
{
    const struct program_set *set = n->s->set;
    const u8                 *at  = n->guard->copy;
    if (!at || session_shards(n->s)) return; /* guard.c refuses it where it matters */
    struct snapshot_part kept = part_new(n, STR("kept"), STATES_MAX * set->persistent_count);
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!guard_copies(n->guard, t)) continue;
        add_pieces(n, &kept, t, at);
        at += type_bytes(t->type);
    }
    n->parts[n->part_count++] = kept.file;
}

/* --- life --- */

/* Memory for the files of this rank, and the bytes of a whole checkpoint. */
static void count_bytes(struct snapshot *n)
{
    n->bytes = n->file_bytes = state_bytes();
    for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
        struct snapshot_part *f = &n->files[p], *all = &n->all[p];
        struct arena          scratch = n->s->scratch;
        n->file_bytes +=
            in_pages(st_lay_out(tensors_of(&all->file), all->file.count, 1, NULL, scratch));
        if (!f->absent)
            n->bytes +=
                in_pages(st_lay_out(tensors_of(&f->file), f->file.count, f->parts, NULL, scratch));
    }
}

enum status snapshot_open(struct snapshot *n, struct session *s, struct guard *g, bool shared,
                          struct err *err)
{
    *n = (struct snapshot){ .s = s, .guard = g, .shared = shared && session_shards(s) };
    name_all(n);
    choose_files(n);
    count_bytes(n);
    enum status st =
        session_fits_host(s, g->copy_bytes + n->bytes, "the copy that checkpoints are written from",
                          "leave out checkpoint.dir", err);
    if (st) return st;
    n->memory = pages_open(n->bytes);
    if (!n->memory)
        return err_set(err, STATUS_WORLD, "the system refused %lld bytes for checkpoints",
                       (long long)n->bytes);
    lay_out(n, n->memory);
    plan_copies(n);
    return STATUS_OK;
}

void snapshot_prepare(void *snapshot)
{
    struct snapshot *n = snapshot;
    struct backend  *b = n->s->backend;
    b->table->pin(b, n->memory, n->bytes, &n->slower);
}

void snapshot_close(struct snapshot *n)
{
    if (!n->memory) return;
    n->s->backend->table->unpin(n->s->backend);
    pages_close(n->memory, n->bytes);
    n->memory = NULL;
}

/* --- taking one --- */

/* To where the file of rank 0, which writes alone, has the tensor. */
static void put_range(void *snapshot, const struct dealt_range *r, i64 from, u8 *piece, i64 bytes)
{
    struct snapshot        *n       = snapshot;
    struct arena            scratch = n->s->scratch;
    const struct ckpt_part *part    = &n->files[r->state != NULL].file;
    struct str              name    = snapshot_name(&scratch, r->state, r->param);
    for (i64 i = 0; i < part->count; i++) {
        if (!str_eq(part->tensors[i].name, name)) continue;
        memcpy((u8 *)(uintptr_t)part->tensors[i].bytes.data + from, piece, (size_t)bytes);
        return;
    }
    ASSERT(!"a tensor that the checkpoint has");
}

/* What is dealt out comes from all ranks while the steps stand still. */
static enum status collect(struct snapshot *n)
{
    enum status st = dealt_say(n->s, DEALT_COLLECT, NULL);
    return st ? st : dealt_carry(n->s, DEALT_TO_RANK_0, put_range, n, NULL);
}

enum status snapshot_take(struct snapshot *n, const struct run_state *r)
{
    struct backend *b    = n->s->backend;
    ticket          last = 0;
    if (n->s->ranks && b->table->behind) { /* sums that a rank is missing from must not be saved */
        b->table->wait(b, 0);
        if (n->s->ranks->failed.status) return n->s->ranks->failed.status;
    }
    for (i64 i = 0; i < n->early_count; i++)
        last = b->table->get(b, n->copies[i].offset, n->copies[i].to, n->copies[i].bytes);
    state_collect(r, n->guard, n->numbers);
    if (n->early_count) b->table->wait(b, last);
    return session_shards(n->s) && !n->shared ? collect(n) : STATUS_OK;
}

void snapshot_copy(void *snapshot)
{
    struct snapshot *n = snapshot;
    struct backend  *b = n->s->backend;
    b->table->copy(b, n->copies + n->early_count, n->copy_count - n->early_count);
}
