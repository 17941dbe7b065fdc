/* use.h - an op's reference kernel on tensors from lists of numbers: RUN(OP_ADD, NONE, a, b), then expect(). */
#ifndef SUPPORT_USE_H
#define SUPPORT_USE_H
#include "backend/cpu/kernel.h"
#include "harness.h"
#include "support/op_case.h"

enum { NUMBERS_MAX = 64 };

/* Relative, for numbers that a dtype rounds once or twice. */
static inline f64 tolerance(enum dtype t)
{
    return t == DT_F64 ? 1e-14 : t == DT_F32 ? 1e-6 : t == DT_F16 ? 2e-3 : 2e-2;
}

static inline struct tensor tensor_new(struct arena *perm, enum dtype t, struct shape s,
                                       const f64 *v)
{
    struct tensor x = { arena_take(perm, MAX(1, type_bytes(type_of(t, s))), 1, 64), type_of(t, s),
                        shape_count(s) };
    for (i64 i = 0; i < x.count && v; i++) element_set(x.data, t, i, v[i]);
    return x;
}

#define N(...) ((const f64[NUMBERS_MAX]){ __VA_ARGS__ })

enum { USE_INPUTS = 8 };

struct use { /* of an op, and what came out */
    i32           op;
    struct attrs  at;
    struct tensor in[USE_INPUTS];
    i32           in_count;
    struct tensor out[OP_OUT_MAX];
};

/* Runs it; operands may be changed and the op run again. */
static inline void use_run(struct use *u, struct arena *perm)
{
    struct type in[USE_INPUTS], out[OP_OUT_MAX];
    struct err  err;
    struct sig  s = { in, u->in_count, out, &u->at, u->op };
    for (i32 i = 0; i < u->in_count; i++) in[i] = u->in[i].type;
    CHECK_EQ(op_info(u->op)->shape(&s, &err), STATUS_OK);
    for (i32 i = 0; i < op_info(u->op)->out_count; i++)
        u->out[i] = tensor_new(perm, out[i].dtype, out[i].shape, NULL);
    struct call call = { u->op, &u->at, u->in, u->in_count, u->out, NULL, 0, NULL, NULL };
    call.work_bytes  = ref_work(&call);
    call.work        = arena_take(perm, MAX(1, call.work_bytes), 1, 64);
    ref_run(&call);
}

static inline struct use use_of(struct arena *perm, i32 op, struct attrs at,
                                const struct tensor *in, i64 in_count)
{
    struct use u = { .op = op, .at = at, .in_count = (i32)in_count };
    for (i32 i = 0; i < u.in_count; i++) u.in[i] = in[i];
    use_run(&u, perm);
    return u;
}

#define NONE ((struct attrs){ 0 })
#define AT(...) ((struct attrs){ __VA_ARGS__ })
#define TENSORS(...) ((const struct tensor[]){ __VA_ARGS__ })
#define RUN(op, at, ...) use_of(perm, op, at, TENSORS(__VA_ARGS__), COUNT_OF(TENSORS(__VA_ARGS__)))

static inline void expect(const struct tensor *t, const f64 *want)
{
    for (i64 i = 0; i < t->count; i++) {
        f64 got = element_get(t->data, t->type.dtype, i);
        CHECK_NEAR(got, want[i], tolerance(t->type.dtype) * (fabs(want[i]) + 0.01));
    }
}

#define FOR_EACH_FLOAT(d) for (enum dtype d = DT_F32; d <= DT_F64; d++) /* they stand first */

#endif
