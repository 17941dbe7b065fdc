/* snapshot_back.c - from a checkpoint back into the run: rank 0 reads it, and each rank gets its ranges of what is
 * dealt out, whoever wrote which range. */
#include "train/dealt.h"
#include "train/state.h"
#include <string.h>

static enum status tensor_fits(const struct st_tensor *ours, const struct st_whole *theirs,
                               struct arena scratch, struct err *err)
{
    if (!theirs) return err_set(err, STATUS_USAGE, "it has no tensor %.*s", STR_ARG(ours->name));
    struct st_tensor t = st_whole_tensor(theirs);
    if (shape_eq(ours->shape, t.shape) && str_eq(ours->dtype, t.dtype)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "its tensor %.*s is %.*s, but the model's is %.*s",
                   STR_ARG(ours->name), STR_ARG(st_type_text(&scratch, &t)),
                   STR_ARG(st_type_text(&scratch, ours)));
}

static enum status part_fits(const struct ckpt_part *part, const struct st_parts *from,
                             struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < part->count && !st; i++)
        st = tensor_fits(&part->tensors[i], st_parts_find(from, part->tensors[i].name), scratch,
                         err);
    if (st || from->count == part->count) return st;
    return err_set(err, STATUS_USAGE, "it has %lld tensors of %.*s, the run %lld",
                   (long long)from->count, STR_ARG(part->name), (long long)part->count);
}

/* The numbers may have grown, the copy is there or not: weights and optimiser must agree. */
enum status snapshot_fits(struct snapshot *n, const struct ckpt_loaded *from, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; !st && i < SNAPSHOT_TENSOR_PARTS; i++) {
        const struct ckpt_part *part = &n->all[i].file;
        st                           = ckpt_joined(from, part->name, n->s->perm, &n->from[i], err);
        if (!st) st = part_fits(part, &n->from[i], n->s->scratch, err);
    }
    return st;
}

void snapshot_put_back(struct snapshot *n)
{
    struct backend *b    = n->s->backend;
    ticket          last = 0;
    for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++)
        for (i64 i = 0; i < n->all[p].file.count; i++) {
            const struct st_whole *t  = st_parts_find(&n->from[p], n->all[p].file.tensors[i].name);
            i64                    to = n->all[p].offsets[i];
            for (i64 k = 0; to >= 0 && k < t->range_count; k++)
                last = b->table->put(b, to + t->ranges[k].from, t->ranges[k].bytes.data,
                                     t->ranges[k].bytes.len);
        }
    b->table->wait(b, last);
}

static void read_range(void *snapshot, const struct dealt_range *r, i64 from, u8 *piece, i64 bytes)
{
    struct snapshot *n       = snapshot;
    struct arena     scratch = n->s->scratch;
    struct str       name    = snapshot_name(&scratch, r->state, r->param);
    st_whole_read(st_parts_find(&n->from[r->state != NULL], name), from, bytes, piece);
}

enum status snapshot_hand_out(struct snapshot *n, struct session *s, struct err *err)
{
    if (!session_shards(s)) return STATUS_OK;
    return dealt_carry(s, DEALT_FROM_RANK_0, s->ranks->rank ? NULL : read_range, n, err);
}

/* Of the copy: all weights, and whatever there is of the optimiser's state. With another train.rollbacks than before it
 * holds more of that, or less; what it lacks stays as it is now. */
static bool kept_fits(const struct snapshot *n, const struct ckpt_part *kept,
                      const struct st_parts *from)
{
    bool fits = true;
    for (i64 i = 0; i < kept->count && fits; i++) {
        const struct st_whole *theirs = st_parts_find(from, kept->tensors[i].name);
        bool                   weight = st_parts_find(&n->from[0], kept->tensors[i].name) != NULL;
        if (theirs || weight) fits = !tensor_fits(&kept->tensors[i], theirs, n->s->scratch, NULL);
    }
    return fits;
}

bool snapshot_put_back_kept(struct snapshot *n, const struct ckpt_loaded *from)
{
    struct arena    scratch = n->s->scratch;
    struct st_parts joined;
    if (n->part_count < SNAPSHOT_PARTS) return false;
    const struct ckpt_part *kept = &n->parts[SNAPSHOT_PARTS - 1];
    if (ckpt_joined(from, kept->name, &scratch, &joined, NULL) || !joined.count ||
        !kept_fits(n, kept, &joined))
        return false;
    for (i64 i = 0; i < kept->count; i++) {
        const struct st_whole *t  = st_parts_find(&joined, kept->tensors[i].name);
        struct str             to = kept->tensors[i].bytes;
        if (t) st_whole_read(t, 0, to.len, (u8 *)(uintptr_t)to.data);
    }
    return true;
}
