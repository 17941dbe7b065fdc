/* weights_copy.c - the weights of a run that goes on, for whoever uses them meanwhile: held-out samples, text that it
 * writes. */
#include "base/half.h"
#include "train/train_int.h"
#include <string.h>

enum { CHUNK = 1 << 20 }; /* numbers at a time */

static bool is_weight(const struct persistent *t)
{
    return t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER;
}

/* A tensor of a run that goes on, as that has it now. */
static enum status copy_one(struct session *s, const struct persistent *t, struct arena scratch,
                            struct err *err)
{
    const struct persistent *from  = program_set_find(s->of->set, t->name);
    struct backend          *b     = s->of->backend;
    i64                      count = shape_count(t->type.shape), most = MIN(CHUNK, count);
    if (!from || !shape_eq(from->type.shape, t->type.shape) ||
        (from->type.dtype != t->type.dtype && from->type.dtype != DT_F32 &&
         from->type.dtype != DT_BF16))
        return err_set(err, STATUS_USAGE, "the run has no tensor %.*s like this", STR_ARG(t->name));
    i64  width = type_bytes(from->type) / MAX(count, 1);
    u64 *bytes = NEW(&scratch, u64, most * width / (i64)sizeof *bytes + 1);
    f32 *wide  = NEW(&scratch, f32, most);
    for (i64 at = 0; at < count; at += CHUNK) {
        i64 n = MIN(CHUNK, count - at);
        b->table->wait(b, b->table->get(b, from->offset + at * width, bytes, n * width));
        if (from->type.dtype == t->type.dtype) {
            s->backend->table->put(s->backend, t->offset + at * width, bytes, n * width);
            continue;
        }
        const void *values = bytes;
        if (from->type.dtype == DT_F32) memcpy(wide, values, (size_t)n * sizeof *wide);
        for (i64 i = 0; from->type.dtype == DT_BF16 && i < n; i++)
            wide[i] = bf16_to_f32(((const u16 *)values)[i]);
        weights_put(s, t, at, wide, n, scratch);
    }
    return STATUS_OK;
}

enum status weights_copy(struct session *s, struct err *err)
{
    enum status st = STATUS_OK;
    s->backend->table->put(s->backend, 0, NULL, s->set->persistent_bytes);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++)
        if (is_weight(&s->set->persistents[i]))
            st = copy_one(s, &s->set->persistents[i], s->scratch, err);
    return st;
}
