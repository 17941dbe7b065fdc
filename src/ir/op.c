/* op.c - the op table itself: rows from ops.def, then those registered at run time. */
#include "ir/op.h"
#include "ir/ir_int.h"

static const struct op_info built_in[OP_COUNT] = {
#define OP(id, text, lo, hi, outs, bits, shape, cls, grad, needs, cost, share, eff, writes, batch, \
           work)                                                                                   \
    [OP_##id] = { text,        (lo),          (hi),    (outs), (bits),  (shape),                   \
                  CLASS_##cls, (grad),        (needs), (cost), (share), EFFECT_##eff,              \
                  (writes),    BATCH_##batch, (work),  NULL },
#include "ir/ops.def"
#undef OP
};

static struct op_info registered[OP_USER_MAX];
static i32            registered_count;

const struct op_info *op_info(i32 op)
{
    ASSERT(op >= 0 && op < op_count());
    return op < OP_COUNT ? &built_in[op] : &registered[op - OP_COUNT];
}

i32 op_count(void) { return OP_COUNT + registered_count; }

bool op_is_view(i32 op) { return op_info(op)->cost == cost_free; }

bool op_find(struct str name, i32 *op)
{
    for (i32 i = 0; i < op_count(); i++) {
        if (str_eq(name, str_of(op_info(i)->name))) {
            *op = i;
            return true;
        }
    }
    return false;
}

enum status op_register(const struct op_info *row, i32 *op, struct err *err)
{
    i32 existing;
    if (!row->name || !row->name[0]) return err_set(err, STATUS_USAGE, "an op needs a name");
    if (op_find(str_of(row->name), &existing))
        return err_set(err, STATUS_USAGE, "an op named %s exists already", row->name);
    if (registered_count == OP_USER_MAX)
        return err_set(err, STATUS_USAGE, "op %s is one too many: at most %d can be registered",
                       row->name, OP_USER_MAX);
    if (!row->shape || !row->run || row->out_count < 0 || row->out_count > OP_OUT_MAX ||
        row->in_min < 0 || row->in_max < row->in_min || row->in_max > OP_IN_MAX)
        return err_set(err, STATUS_USAGE,
                       "op %s needs a shape rule, a kernel, and at most %d inputs and %d results",
                       row->name, OP_IN_MAX, OP_OUT_MAX);
    registered[registered_count] = *row;
    if (!row->cost) registered[registered_count].cost = cost_map;
    if (!row->work) registered[registered_count].work = work_none;
    *op = OP_COUNT + registered_count++;
    return STATUS_OK;
}

struct str attr_name(i32 index)
{
    static const char *const names[ATTR_COUNT] = {
#define ATTR(field, kind) #field,
#include "ir/attrs.def"
#undef ATTR
    };
    ASSERT(index >= 0 && index < ATTR_COUNT);
    return str_of(names[index]);
}
