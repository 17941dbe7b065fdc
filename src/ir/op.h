/* op.h - the op table: what each op of the language takes, gives, costs and how it is
 * differentiated. The rows are in ops.def; ops registered at run time append theirs. */
#ifndef IR_OP_H
#define IR_OP_H
#include "base/err.h"
#include "ir/type.h"

enum op {
#define OP(name, ...) OP_##name,
#include "ir/ops.def"
#undef OP
    OP_COUNT
};
#define OP_USER_MAX 32 /* ops registered at run time: OP_COUNT .. OP_COUNT + OP_USER_MAX - 1 */

enum attr_index {
#define ATTR(field, kind) ATTR_##field,
#include "ir/attrs.def"
#undef ATTR
    ATTR_COUNT
};
_Static_assert(ATTR_COUNT <= 63, "an attribute is a bit of an i64");
__extension__ enum attr_bit { /* wider than an int, which C11 does not have yet */
#define ATTR(field, kind) A_##field = (i64)1 << ATTR_##field,
#include "ir/attrs.def"
#undef ATTR
                              A_attention = A_heads | A_kv_heads | A_causal | A_window | A_scale |
                                            A_key | A_p,
};

typedef i64          attr_I;
typedef f64          attr_F;
typedef struct shape attr_S;
typedef enum dtype   attr_T;

/* Maps that a node's kernel applies to its first result, one after the other, before it is stored.
 * A map of two operands takes what there is so far as its first; its second is one of the node's last
 * inputs, in order, and as large as the result. Maps find their attributes in the node's. */
#define THEN_MAX 4
struct chain {
    i32  count;
    bool keep; /* what goes into the first map is stored too, as one more result, the last */
    i32  op[THEN_MAX];
};
typedef struct chain attr_C;

struct attrs {
#define ATTR(field, kind) attr_##kind field;
#include "ir/attrs.def"
#undef ATTR
};

enum op_class { CLASS_LOW, CLASS_FP32, CLASS_AS_IN };
enum op_effect { EFFECT_NONE, EFFECT_RANDOM, EFFECT_STATE };
enum op_batch { BATCH_ROWS, BATCH_SUM, BATCH_NONE };

#define OP_IN_MAX 64
#define OP_OUT_MAX 4
#define HEAD_DIM_MAX 1024 /* numbers in a head of attention: kernels keep one on the stack */
/* Bits of the columns `needs`, `share` and `writes`: inputs from 0, results from 16. */
enum operand_bit {
    IN0  = 1 << 0,
    IN1  = 1 << 1,
    IN2  = 1 << 2,
    IN3  = 1 << 3,
    IN4  = 1 << 4,
    IN6  = 1 << 6,
    OUT0 = 1 << 16,
    OUT1 = 1 << 17,
    OUT2 = 1 << 18,
};

/* One use of an op, seen by its rules: types in, types out (filled by the shape rule). */
struct sig {
    const struct type  *in; /* those of the maps in at->then follow */
    i32                 in_count;
    struct type        *out; /* room for OP_OUT_MAX */
    const struct attrs *at;
    i32                 op;
};

struct cost {
    f64 flops;
    f64 bytes; /* read + written once each */
};

struct graph;
struct node;
struct call; /* backend/cpu/kernel.h */

typedef enum status shape_rule(struct sig *s, struct err *err);
typedef struct cost cost_rule(const struct sig *s);
typedef i64         work_rule(const struct sig *s);
/* Emits the gradients of n's inputs. dout[i]: gradient of result i, or -1; want[i]: is input i's
 * gradient asked for; din[i]: to be set to the value that holds it, or left -1. */
typedef void grad_rule(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                       i32 *din);

struct op_info {
    const char    *name;
    i32            in_min, in_max, out_count;
    u64            attrs; /* A_... bits */
    shape_rule    *shape;
    enum op_class  dtype_class;
    grad_rule     *grad; /* NULL: not differentiable */
    u32            needs;
    cost_rule     *cost;
    u32            share;
    enum op_effect effect;
    u32            writes;
    enum op_batch  batch;
    work_rule     *work;
    void (*run)(const struct call *); /* ops registered at run time: their naive kernel */
};

const struct op_info *op_info(i32 op);                             /* ASSERTs that op exists */
bool                  op_writes(const struct op_info *row, i32 k); /* input k, in place */
bool                  op_is_view(i32 op); /* its result is its input's memory: no work */
bool                  op_is_map(i32 op);  /* element by element: may stand in a chain */
bool                  op_find(struct str name, i32 *op);
i32                   op_count(void); /* built in + registered */
/* Adds a row; names must be new. The row is copied; name must outlive the process. */
enum status op_register(const struct op_info *row, i32 *op, struct err *err);

/* What a chain adds to the op that carries it. */
i32         op_then_inputs(const struct attrs *at);
i32         op_result_count(i32 op, const struct attrs *at);
u64         op_attrs(i32 op, const struct attrs *at); /* bits of all that have a meaning */
void        attrs_copy(struct attrs *to, const struct attrs *from, u64 bits);
enum status op_types(struct sig *s, struct err *err); /* the shape rule and the chain's */
struct cost op_cost(const struct sig *s);
struct str  op_text(struct arena *perm, i32 op, const struct attrs *at); /* matmul+add+relu */

struct str attr_name(i32 index);
/* Attributes as in program text without the braces: "stride=2 dims=[3,4]"; only those of `allowed`
 * (A_... bits). */
enum status attrs_parse(struct arena *perm, struct str text, u64 allowed, struct attrs *at,
                        struct err *err);

#endif
