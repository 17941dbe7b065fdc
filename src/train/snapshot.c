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

enum { FITTED_PARTS = 2 }; /* weights and optimiser: what the checkpoint must have just so */
#define IN_PARTS                                                                                   \
    INT64_MIN /* in place of an offset: ranks have parts of it, rank 0 gets them where the file has it */
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

static void add(struct snapshot *n, struct ckpt_part *part, struct str name, struct type type,
                const u8 *bytes, i64 offset)
{
    struct str where                         = { (const char *)bytes, type_bytes(type) };
    n->offsets[part - n->parts][part->count] = offset;
    tensors_of(part)[part->count++] =
        (struct st_tensor){ name, dtype_text(type.dtype), type.shape, where };
}

/* The tensors that are made of persistent t, whose copy begins at `bytes` (NULL: it has no place yet). */
static void add_pieces(struct snapshot *n, struct ckpt_part *part, const struct persistent *t,
                       const u8 *bytes)
{
    const struct program_set *set   = n->s->set;
    i64                       begin = 0, whole = 0;
    struct dealt              d;
    bool                      dealt = dealt_is(n->s, t, &d);
    bool                      apart = dealt_by_tensor(n->s, t); /* tensor by tensor */
    if (t->dealt) {
        add(n, part, t->name, persistent_type(t), bytes, IN_PARTS);
        return;
    }
    if (dealt) {
        begin = d.begin;
        whole = n->dealt_bytes;
        n->dealt_bytes += dealt_bytes(&d);
    } else if (!dealt_by_owner(n->s, t) && !is_range(n, t, &begin)) {
        add(n, part, t->name, t->type, bytes, t->offset);
        return;
    }
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p    = &set->persistents[i];
        i64                      skip = p->offset - begin;
        if (!covers(t, p)) continue;
        struct str name = str_fmt(n->s->perm, "%.*s/%.*s", STR_ARG(t->name), STR_ARG(p->name));
        add(n, part, name, persistent_type(p), bytes ? bytes + skip : NULL,
            apart   ? IN_PARTS
            : dealt ? -1 - whole - skip
                    : t->offset + skip);
    }
}

static struct ckpt_part *new_part(struct snapshot *n, struct str name, i64 tensors_max)
{
    struct ckpt_part *part      = &n->parts[n->part_count];
    n->offsets[n->part_count++] = NEW(n->s->perm, i64, tensors_max);
    *part                       = (struct ckpt_part){ .name    = name,
                                                      .tensors = NEW(n->s->perm, struct st_tensor, tensors_max) };
    return part;
}

/* What there is to save, and in which file. */
static void name_all(struct snapshot *n)
{
    const struct program_set *set     = n->s->set;
    i64                       most    = STATES_MAX * set->persistent_count;
    struct ckpt_part         *weights = new_part(n, STR("weights"), most);
    struct ckpt_part         *state   = new_part(n, STR("optimiser"), most);
    new_part(n, STR("run"), state_count());
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!is_state(n->s, t)) continue;
        add_pieces(n, t->kind == VALUE_STATE ? state : weights, t, NULL);
    }
}

/* Gives everything its place in memory: files as the disk takes them, each from a page's beginning. */
static void lay_out(struct snapshot *n, u8 *at)
{
    for (i64 p = 0; p < FITTED_PARTS; p++) {
        struct ckpt_part *part = &n->parts[p];
        part->whole            = (struct str){ (const char *)at,
                                               st_lay_out(tensors_of(part), part->count, at, n->s->scratch) };
        at += in_pages(part->whole.len);
    }
    struct ckpt_part *run = &n->parts[FITTED_PARTS];
    n->numbers            = at;
    run->count            = state_count();
    state_describe(tensors_of(run), at);
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
    i64 most  = n->parts[0].count + n->parts[1].count;
    n->copies = NEW(n->s->perm, struct backend_copy, most);
    for (i32 early = 1; early >= 0; early--) {
        for (i64 p = 0; p < FITTED_PARTS; p++)
            for (i64 i = 0; i < n->parts[p].count; i++) {
                i64        offset = n->offsets[p][i];
                struct str to     = n->parts[p].tensors[i].bytes;
                if (offset < 0) continue; /* collected from the ranks */
                if (gradients_change(n->s, offset, offset + to.len) != early) continue;
                n->copies[n->copy_count++] =
                    (struct backend_copy){ offset, (u8 *)(uintptr_t)to.data, to.len };
            }
        if (early) n->early_count = n->copy_count;
    }
}

void snapshot_add_kept(struct snapshot *n)
{
    const struct program_set *set = n->s->set;
    const u8                 *at  = n->guard->copy;
    if (!at || n->dealt || session_deals(n->s)) return; /* guard.c refuses it where it matters */
    struct ckpt_part *kept = new_part(n, STR("kept"), STATES_MAX * set->persistent_count);
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (!guard_copies(n->guard, t)) continue;
        add_pieces(n, kept, t, at);
        at += type_bytes(t->type);
    }
}

/* --- life --- */

enum status snapshot_open(struct snapshot *n, struct session *s, struct guard *g, struct err *err)
{
    *n = (struct snapshot){ .s = s, .guard = g, .bytes = state_bytes() };
    name_all(n);
    for (i64 p = 0; p < FITTED_PARTS; p++)
        n->bytes +=
            in_pages(st_lay_out(tensors_of(&n->parts[p]), n->parts[p].count, NULL, s->scratch));
    enum status st = session_fits_host(s, g->copy_bytes + n->bytes + n->dealt_bytes,
                                       "the copy that checkpoints are written from",
                                       "leave out checkpoint.dir", err);
    if (st) return st;
    n->memory = pages_open(n->bytes);
    if (!n->memory)
        return err_set(err, STATUS_WORLD, "the system refused %lld bytes for checkpoints",
                       (long long)n->bytes);
    lay_out(n, n->memory);
    plan_copies(n);
    if (n->dealt_bytes) n->dealt = pages_open(n->dealt_bytes);
    if (n->dealt_bytes && !n->dealt)
        return err_set(err, STATUS_WORLD, "the system refused %lld bytes for checkpoints",
                       (long long)n->dealt_bytes);
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
    if (n->dealt) pages_close(n->dealt, n->dealt_bytes);
    n->memory = n->dealt = NULL;
}

/* Where the file has a tensor of which ranks have parts. */
static u8 *place_of(void *snapshot, const struct persistent *state, const struct persistent *param)
{
    struct snapshot  *n       = snapshot;
    struct arena      scratch = n->s->scratch;
    struct str        name    = param->name;
    struct ckpt_part *part    = &n->parts[state ? 1 : 0];
    if (state) name = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(state->name), STR_ARG(param->name));
    for (i64 i = 0; i < part->count; i++)
        if (str_eq(part->tensors[i].name, name))
            return (u8 *)(uintptr_t)part->tensors[i].bytes.data;
    ASSERT(!"a tensor that the checkpoint has");
    return NULL;
}

/* State that is dealt out comes from all ranks while the steps stand still; then each tensor to its place. */
static enum status collect(struct snapshot *n)
{
    struct session *s = n->s;
    struct dealt    d;
    i64             at = 0;
    enum status     st = dealt_say(s, DEALT_COLLECT, NULL);
    if (!st) st = dealt_tensors(s, DEALT_TO_RANK_0, place_of, n, NULL);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++) {
        if (!dealt_is(s, &s->set->persistents[i], &d)) continue;
        st = dealt_collect(s, &d, n->dealt + at, NULL);
        at += dealt_bytes(&d);
    }
    for (i64 p = 0; !st && p < FITTED_PARTS; p++)
        for (i64 i = 0; i < n->parts[p].count; i++) {
            struct str to = n->parts[p].tensors[i].bytes;
            if (n->offsets[p][i] < 0 && n->offsets[p][i] != IN_PARTS)
                memcpy((u8 *)(uintptr_t)to.data, n->dealt - 1 - n->offsets[p][i], (size_t)to.len);
        }
    return st;
}

enum status snapshot_hand_out(const struct snapshot *n, struct session *s, struct err *err)
{
    struct dealt d;
    i64          at = 0;
    enum status  st = STATUS_OK;
    if (s->ranks)
        st = dealt_tensors(s, DEALT_FROM_RANK_0, s->ranks->rank ? NULL : place_of,
                           (void *)(uintptr_t)n, err);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++) {
        if (!dealt_is(s, &s->set->persistents[i], &d)) continue;
        st = dealt_hand_out(s, &d, n->dealt ? n->dealt + at : NULL, err);
        at += dealt_bytes(&d);
    }
    return st;
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
    return session_shards(n->s) ? collect(n) : STATUS_OK;
}

void snapshot_copy(void *snapshot)
{
    struct snapshot *n = snapshot;
    struct backend  *b = n->s->backend;
    b->table->copy(b, n->copies + n->early_count, n->copy_count - n->early_count);
}

static enum status part_fits(const struct ckpt_part *part, const struct st_file *file,
                             struct arena scratch, struct err *err)
{
    for (i64 i = 0; i < part->count; i++) {
        const struct st_tensor *ours = &part->tensors[i], *theirs = st_find(file, ours->name);
        if (!theirs)
            return err_set(err, STATUS_USAGE, "it has no tensor %.*s", STR_ARG(ours->name));
        if (!shape_eq(ours->shape, theirs->shape) || !str_eq(ours->dtype, theirs->dtype))
            return err_set(err, STATUS_USAGE, "its tensor %.*s is %.*s, but the model's is %.*s",
                           STR_ARG(ours->name), STR_ARG(st_type_text(&scratch, theirs)),
                           STR_ARG(st_type_text(&scratch, ours)));
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
            i64        to    = n->offsets[p][i];
            u8        *here  = (u8 *)(uintptr_t)n->parts[p].tensors[i].bytes.data;
            if (to == IN_PARTS) memcpy(here, bytes.data, (size_t)bytes.len);
            else if (to < 0) memcpy(n->dealt - 1 - to, bytes.data, (size_t)bytes.len);
            else last = b->table->put(b, to, bytes.data, bytes.len);
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
