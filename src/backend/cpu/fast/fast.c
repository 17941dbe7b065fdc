/* fast.c - which calls the families take. */
#include "backend/cpu/fast/fast.h"

static bool is_f32(const struct call *c, i32 but)
{
    for (i32 i = 0; i < c->in_count; i++)
        if (i != but && c->in[i].type.dtype != DT_F32) return false;
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        if (c->out[i].type.dtype != DT_F32) return false;
    return true;
}

bool fast_all_f32(const struct call *c) { return is_f32(c, -1); }

bool fast_ids_at(const struct call *c, i32 index)
{
    return is_f32(c, index) && (index >= c->in_count || c->in[index].type.dtype == DT_I32);
}

/* A letter an operand: s storage, f f32, i i32, w f32 or storage. Operands at the end may lack. */
struct stored {
    const char *in, *out;
};

static const struct stored rows[OP_COUNT] = {
    [OP_SUM]              = { "s", "w" },
    [OP_EMBEDDING_GRAD]   = { "si", "f" },
    [OP_LAYERNORM]        = { "sff", "sff" },
    [OP_LAYERNORM_GRAD]   = { "ssfff", "sff" },
    [OP_RMSNORM]          = { "sf", "sf" },
    [OP_RMSNORM_GRAD]     = { "ssff", "sf" },
    [OP_ADD_LAYERNORM]    = { "ssff", "sffs" },
    [OP_ADD_RMSNORM]      = { "ssf", "sfs" },
    [OP_BATCHNORM]        = { "sffff", "sff" },
    [OP_BATCHNORM_EVAL]   = { "sffff", "s" },
    [OP_BATCHNORM_GRAD]   = { "ssfff", "sff" },
    [OP_MAXPOOL]          = { "s", "si" },
    [OP_MAXPOOL_GRAD]     = { "si", "s" },
    [OP_QKNORM]           = { "s", "sf" },
    [OP_QKNORM_GRAD]      = { "ssf", "s" },
    [OP_ROPE]             = { "si", "s" },
    [OP_ATTENTION_CACHED] = { "sfii", "s" },
    [OP_DROPOUT]          = { "siii", "s" },
    [OP_XENT]             = { "si", "ff" },
    [OP_XENT_GRAD]        = { "fsif", "s" },
    [OP_BCE]              = { "sf", "f" },
    [OP_BCE_GRAD]         = { "fsf", "s" },
    [OP_HITS]             = { "si", "f" },
};

static bool is_storage(enum dtype t) { return t == DT_F32 || t == DT_BF16 || t == DT_F16; }

/* *storage: of the operands before this one, DT_COUNT if none had it. */
static bool fits(char letter, enum dtype t, enum dtype *storage)
{
    if (letter == 'i') return t == DT_I32;
    if (letter == 'f' || (letter == 'w' && t == DT_F32)) return t == DT_F32;
    if (*storage == DT_COUNT) *storage = t;
    return t == *storage && is_storage(t);
}

enum dtype fast_storage(const struct call *c)
{
    const struct stored *row     = &rows[c->op];
    enum dtype           storage = DT_COUNT;
    for (i32 i = 0; i < c->in_count; i++)
        if (!fits(row->in ? row->in[i] : 's', c->in[i].type.dtype, &storage)) return DT_COUNT;
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        if (!fits(row->in ? row->out[i] : 's', c->out[i].type.dtype, &storage)) return DT_COUNT;
    return storage;
}
