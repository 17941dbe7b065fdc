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

bool op_writes(const struct op_info *row, i32 k) { return k < 16 && (row->writes >> k & 1); }

bool op_is_view(i32 op) { return op_info(op)->cost == cost_free; }

bool op_is_map(i32 op)
{
    const struct op_info *row = op_info(op);
    return (row->attrs & A_then) &&
           (row->shape == shape_map || row->shape == shape_same || row->shape == shape_binary);
}

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

/* --- chains --- */

i32 op_then_inputs(const struct attrs *at)
{
    i32 count = 0;
    for (i32 i = 0; i < at->then.count; i++) count += op_info(at->then.op[i])->in_min - 1;
    return count;
}

i32 op_result_count(i32 op, const struct attrs *at)
{
    return op_info(op)->out_count + at->then.keep;
}

u64 op_attrs(i32 op, const struct attrs *at)
{
    u64 bits = op_info(op)->attrs;
    for (i32 i = 0; i < at->then.count; i++) bits |= op_info(at->then.op[i])->attrs;
    return bits;
}

void attrs_copy(struct attrs *to, const struct attrs *from, u64 bits)
{
#define ATTR(field, kind)                                                                          \
    if (bits & A_##field) to->field = from->field;
#include "ir/attrs.def"
#undef ATTR
}

/* Every op of the chain is a map, finds operands of the result's type and size, and shares no
 * attribute with another. */
enum status op_types(struct sig *s, struct err *err)
{
    const struct op_info *row     = op_info(s->op);
    const struct chain   *then    = &s->at->then;
    const struct type    *operand = s->in + s->in_count;
    u64                   used    = row->attrs & ~(u64)A_then;
    enum status           st      = row->shape(s, err);
    for (i32 i = 0; !st && i < then->count; i++) {
        const struct op_info *step = op_info(then->op[i]);
        u64                   own  = step->attrs & ~(u64)A_then;
        if (!op_is_map(then->op[i]) || (used & own))
            return err_set(err, STATUS_USAGE, "%s cannot follow in one pass", step->name);
        used |= own;
        if (step->in_min == 1) continue;
        if (operand->dtype != s->out[0].dtype ||
            shape_count(operand->shape) != shape_count(s->out[0].shape))
            return err_set(err, STATUS_USAGE, "operand of %s must be as large as the result",
                           step->name);
        operand++;
    }
    if (then->keep) s->out[row->out_count] = s->out[0];
    return st;
}

struct cost op_cost(const struct sig *s)
{
    const struct op_info *row = op_info(s->op);
    struct cost           sum = row->cost(s);
    for (i32 i = 0; i < s->at->then.count; i++) {
        i32         op = s->at->then.op[i], inputs = op_info(op)->in_min;
        struct type in[] = { s->out[0], s->out[0] }, out[] = { s->out[0] };
        sum.flops += op_info(op)->cost(&(struct sig){ in, inputs, out, s->at, op }).flops;
        sum.bytes += (f64)type_bytes(s->out[0]) * (inputs - 1);
    }
    if (s->at->then.keep) sum.bytes += (f64)type_bytes(s->out[0]);
    return sum;
}

struct str op_text(struct arena *perm, i32 op, const struct attrs *at)
{
    struct str text = str_of(op_info(op)->name);
    for (i32 i = 0; i < at->then.count; i++)
        text = str_fmt(perm, "%.*s+%s", STR_ARG(text), op_info(at->then.op[i])->name);
    return text;
}
