/* snapshot.c - the whole state of a run in memory of its own, and back into the run.
 *
 *     weights     parameters and buffers, under the names of docs/formats/weights.md
 *     optimiser   its state: for each parameter "adam.m/NAME", …; and what has one number, by its name
 *     kept        the copy that guard.c goes back to, where there is one
 *     run         the numbers of state.c
 *
 * The arena holds the optimiser's state as one range over all parameters, with a padding that differs
 * by machine; the file has it parameter by parameter and fits every one. The run stands still while
 * ranges of the arena are copied, and goes on while files are made from the copy. */
#include "train/state.h"
#include <string.h>

enum { ALIGN_BYTES = 64, GAP_BYTES_MAX = 4096 };
enum { FITTED_PARTS = 2 }; /* weights and optimiser: what the checkpoint must have just so */
enum { STATES_MAX = 4 }; /* tensors that one parameter can be the reason of: itself and its state */

static bool is_state(const struct persistent *t)
{
    return t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER || t->kind == VALUE_STATE;
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

/* Where a byte of the arena lies in the copy. */
static u8 *copied(const struct snapshot *n, i64 offset)
{
    for (i64 i = 0; i < n->range_count; i++) {
        const struct range_copy *r = &n->ranges[i];
        if (offset >= r->offset && offset < r->offset + r->bytes)
            return r->to + (offset - r->offset);
    }
    ASSERT(!"inside a range");
    return NULL;
}

/* Persistents of a kind lie side by side: all are found in a few ranges. */
static void plan_ranges(struct snapshot *n)
{
    const struct program_set *set = n->s->set;
    for (i64 at = 0;;) { /* the next persistent by its place */
        const struct persistent *next = NULL;
        for (i32 i = 0; i < set->persistent_count; i++) {
            const struct persistent *t = &set->persistents[i];
            if (is_state(t) && t->offset >= at && (!next || t->offset < next->offset)) next = t;
        }
        if (!next) return;
        i64                end  = next->offset + type_bytes(next->type);
        struct range_copy *last = n->range_count ? &n->ranges[n->range_count - 1] : NULL;
        if (last && next->offset - (last->offset + last->bytes) <= GAP_BYTES_MAX) {
            last->bytes = end - last->offset;
        } else {
            ASSERT(n->range_count < COUNT_OF(n->ranges));
            n->ranges[n->range_count++] =
                (struct range_copy){ next->offset, end - next->offset, NULL };
        }
        at = next->offset + 1;
    }
}

/* --- tensors of files --- */

/* Is it one range over the parameters that it belongs to? Muon's over the hidden matrices, the others
 * over the rest that is trained. Gives where the first of those begins. */
static bool covers(const struct persistent *state, const struct persistent *param)
{
    bool muon = str_starts(state->name, STR("muon."));
    return param->kind == VALUE_PARAM && !param->frozen && param->hidden == muon;
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

static void add(struct snapshot *n, struct ckpt_part *part, struct str name, struct type type,
                const u8 *bytes, i64 offset)
{
    struct st_tensor *tensors                = (struct st_tensor *)(uintptr_t)part->tensors;
    n->offsets[part - n->parts][part->count] = offset;
    tensors[part->count++]                   = (struct st_tensor){
                          name, dtype_text(type.dtype), type.shape, { (const char *)bytes, type_bytes(type) }
    };
}

/* The tensors that are made of persistent t, whose copy begins at `bytes`. */
static void add_pieces(struct snapshot *n, struct ckpt_part *part, const struct persistent *t,
                       const u8 *bytes)
{
    const struct program_set *set = n->s->set;
    i64                       begin;
    if (!is_range(n, t, &begin)) {
        add(n, part, t->name, t->type, bytes, t->offset);
        return;
    }
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p    = &set->persistents[i];
        i64                      skip = p->offset - begin;
        if (!covers(t, p)) continue;
        struct str name = str_fmt(n->s->perm, "%.*s/%.*s", STR_ARG(t->name), STR_ARG(p->name));
        add(n, part, name, p->type, bytes + skip, t->offset + skip);
    }
}

static struct ckpt_part *new_part(struct snapshot *n, struct str name, i64 tensors_max)
{
    struct ckpt_part *part      = &n->parts[n->part_count];
    n->offsets[n->part_count++] = NEW(n->s->perm, i64, tensors_max);
    *part = (struct ckpt_part){ name, NEW(n->s->perm, struct st_tensor, tensors_max), 0 };
    return part;
}

static void lay_out(struct snapshot *n)
{
    const struct program_set *set     = n->s->set;
    i64                       most    = STATES_MAX * set->persistent_count;
    struct ckpt_part         *weights = new_part(n, STR("weights"), most);
    struct ckpt_part         *state   = new_part(n, STR("optimiser"), most);
    struct ckpt_part         *run     = new_part(n, STR("run"), state_count());
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!is_state(t)) continue;
        add_pieces(n, t->kind == VALUE_STATE ? state : weights, t, copied(n, t->offset));
    }
    state_describe((struct st_tensor *)(uintptr_t)run->tensors, n->numbers);
    run->count = state_count();
}

void snapshot_add_kept(struct snapshot *n)
{
    const struct program_set *set = n->s->set;
    const u8                 *at  = n->guard->copy;
    if (!at) return;
    struct ckpt_part *kept = new_part(n, STR("kept"), STATES_MAX * set->persistent_count);
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!guard_copies(t)) continue;
        add_pieces(n, kept, t, at);
        at += type_bytes(t->type);
    }
}

/* --- life --- */

static i64 room(i64 bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

enum status snapshot_open(struct snapshot *n, struct session *s, struct guard *g, struct err *err)
{
    *n = (struct snapshot){ .s = s, .guard = g, .bytes = state_bytes() };
    plan_ranges(n);
    for (i64 i = 0; i < n->range_count; i++) n->bytes += room(n->ranges[i].bytes);
    i64 all = s->set->arena_bytes + g->copy_bytes + n->bytes;
    if (s->target.memory_bytes && all > s->target.memory_bytes)
        return err_set(err, STATUS_USAGE,
                       "the run and the copy that checkpoints are made from need %.2f GiB, and "
                       "there are %.2f: take a smaller batch, or leave out checkpoint.dir",
                       (f64)all * 0x1p-30, (f64)s->target.memory_bytes * 0x1p-30);
    u8 *at = n->memory = pages_open(n->bytes);
    if (!at)
        return err_set(err, STATUS_WORLD, "the system refused %lld bytes for checkpoints",
                       (long long)n->bytes);
    for (i64 i = 0; i < n->range_count; i++) {
        n->ranges[i].to = at;
        at += room(n->ranges[i].bytes);
    }
    n->numbers = at;
    lay_out(n);
    return STATUS_OK;
}

void snapshot_close(struct snapshot *n)
{
    if (n->memory) pages_close(n->memory, n->bytes);
    n->memory = NULL;
}

void snapshot_take(struct snapshot *n, const struct run_state *r)
{
    struct backend *b    = n->s->backend;
    ticket          last = 0;
    for (i64 i = 0; i < n->range_count; i++)
        last = b->table->get(b, n->ranges[i].offset, n->ranges[i].to, n->ranges[i].bytes);
    state_collect(r, n->guard, n->numbers);
    b->table->wait(b, last);
}

static struct str shape_words(struct arena *perm, struct shape s)
{
    return type_text(perm, type_of(DT_F32, s));
}

static enum status part_fits(const struct ckpt_part *part, const struct st_file *file,
                             struct arena scratch, struct err *err)
{
    for (i64 i = 0; i < part->count; i++) {
        const struct st_tensor *ours = &part->tensors[i], *theirs = st_find(file, ours->name);
        if (!theirs)
            return err_set(err, STATUS_USAGE, "it has no tensor %.*s", STR_ARG(ours->name));
        if (!shape_eq(ours->shape, theirs->shape) || !str_eq(ours->dtype, theirs->dtype))
            return err_set(err, STATUS_USAGE, "its tensor %.*s is %.*s, the model's %.*s",
                           STR_ARG(ours->name), STR_ARG(shape_words(&scratch, theirs->shape)),
                           STR_ARG(shape_words(&scratch, ours->shape)));
    }
    if (file->count == part->count) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "it has %lld tensors of %.*s, the run %lld",
                   (long long)file->count, STR_ARG(part->name), (long long)part->count);
}

/* The numbers may have grown, the copy is there or not: weights and optimiser must agree. */
enum status snapshot_fits(const struct snapshot *n, const struct ckpt_loaded *from, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; !st && i < FITTED_PARTS; i++) {
        const struct st_file *file = ckpt_shard(from, n->parts[i].name);
        if (!file) return err_set(err, STATUS_USAGE, "it has no %.*s", STR_ARG(n->parts[i].name));
        st = part_fits(&n->parts[i], file, n->s->scratch, err);
    }
    return st;
}

void snapshot_put_back(struct snapshot *n, const struct ckpt_loaded *from)
{
    struct backend *b    = n->s->backend;
    ticket          last = 0;
    for (i64 p = 0; p < FITTED_PARTS; p++) {
        const struct st_file *file = ckpt_shard(from, n->parts[p].name);
        for (i64 i = 0; i < n->parts[p].count; i++) {
            struct str bytes = st_find(file, n->parts[p].tensors[i].name)->bytes;
            last             = b->table->put(b, n->offsets[p][i], bytes.data, bytes.len);
        }
    }
    b->table->wait(b, last);
}

bool snapshot_put_back_kept(struct snapshot *n, const struct ckpt_loaded *from)
{
    const struct st_file *file = ckpt_shard(from, STR("kept"));
    if (!file || n->part_count < SNAPSHOT_PARTS) return false;
    const struct ckpt_part *kept = &n->parts[SNAPSHOT_PARTS - 1];
    if (part_fits(kept, file, n->s->scratch, NULL)) return false;
    for (i64 i = 0; i < kept->count; i++) {
        struct str to = kept->tensors[i].bytes, bytes = st_find(file, kept->tensors[i].name)->bytes;
        memcpy((u8 *)(uintptr_t)to.data, bytes.data, (size_t)bytes.len);
    }
    return true;
}
