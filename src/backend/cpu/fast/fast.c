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
