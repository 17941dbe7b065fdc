/* test_kernels.c - every fast kernel of every family against the reference, on fresh cases.
 *
 * For each case that a kernel takes: near the reference, within a bound derived below; the same
 * bits with 1, 2 and 3 threads; the same bits where ops.def lets the result take over an input's
 * memory; nothing written but its results and the workspace it declared; inputs as they were.
 * A new kernel needs nothing here, a new op one row in support/op_case.c.
 *
 * CHECK_SECONDS bounds the time (5 by default); FRUGAL_VECTORS caps what is tested. */
#include "backend/cpu/kernel.h"
#include "harness.h"
#include "support/near.h"
#include "support/op_case.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5, UNWRITTEN = 0xFF, NOT_SHARED = -1 };
enum { POOLS = 3, TRIES_MAX = 500 };

/* --- memory between guards --- */

/* Tensors of a program are aligned to 64 bytes and no more: ours lie at odd multiples of it. */
static void *guarded(struct arena *perm, i64 bytes)
{
    u8 *p = arena_take(perm, bytes + 2 * GUARD_BYTES, 1, 128);
    memset(p, GUARD, GUARD_BYTES);
    memset(p + GUARD_BYTES, UNWRITTEN, (size_t)bytes);
    memset(p + GUARD_BYTES + bytes, GUARD, GUARD_BYTES);
    return p + GUARD_BYTES;
}

static bool guards_hold(const void *data, i64 bytes)
{
    const u8 *p = data;
    for (i64 i = 0; i < GUARD_BYTES; i++) {
        if (p[-1 - i] != GUARD || p[bytes + i] != GUARD) return false;
    }
    return true;
}

/* --- running a case --- */

struct subject { /* what is being tested, for messages */
    const struct kernel  *kernel;
    const struct op_case *c;
    struct arena         *perm;
};

#define FAIL_UNLESS(s, condition, format, ...)                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            struct str text_ = op_case_text((s)->c, (s)->perm);                                    \
            harness_fail(__FILE__, __LINE__, "kernel %s, %.*s: " format, (s)->kernel->name,        \
                         STR_ARG(text_), __VA_ARGS__);                                             \
        }                                                                                          \
    } while (0)

/* Results first, then inputs that the op writes. */
struct outcome {
    i32         count;
    struct type type[OP_OUT_MAX + 5];
    void       *data[OP_OUT_MAX + 5];
};

static bool writes(const struct op_case *c, i32 input)
{
    return input < 5 && (op_info(c->op)->writes >> input & 1);
}

static void check_after(const struct subject *s, const struct call *call, i32 shared)
{
    for (i32 i = 0; i < call->in_count; i++) {
        i64 bytes = type_bytes(call->in[i].type);
        FAIL_UNLESS(s, guards_hold(call->in[i].data, bytes), "wrote around input %d", i);
        if (i == shared || writes(s->c, i)) continue;
        FAIL_UNLESS(s, !memcmp(call->in[i].data, s->c->data[i], (size_t)bytes), "changed input %d",
                    i);
    }
    for (i32 i = 0; i < op_info(call->op)->out_count; i++)
        FAIL_UNLESS(s, guards_hold(call->out[i].data, type_bytes(call->out[i].type)),
                    "wrote around result %d", i);
    if (call->work_bytes)
        FAIL_UNLESS(s, guards_hold(call->work, call->work_bytes),
                    "wrote outside its %lld bytes of workspace", (long long)call->work_bytes);
}

/* Runs the kernel on copies of the case's inputs. shared: input whose memory result 0 takes. */
static struct outcome run(const struct subject *s, struct pool *pool, i32 shared)
{
    const struct op_case *c   = s->c;
    struct tensor        *in  = NEW(s->perm, struct tensor, MAX(1, c->in_count));
    struct tensor        *out = NEW(s->perm, struct tensor, OP_OUT_MAX);
    struct outcome        o   = { 0 };
    for (i32 i = 0; i < c->in_count; i++) {
        in[i] = (struct tensor){ guarded(s->perm, type_bytes(c->in[i])), c->in[i],
                                 shape_count(c->in[i].shape) };
        memcpy(in[i].data, c->data[i], (size_t)type_bytes(c->in[i]));
    }
    for (i32 i = 0; i < op_info(c->op)->out_count; i++) {
        bool  take        = i == 0 && shared != NOT_SHARED;
        void *data        = take ? in[shared].data : guarded(s->perm, type_bytes(c->out[i]));
        out[i]            = (struct tensor){ data, c->out[i], shape_count(c->out[i].shape) };
        o.type[o.count]   = c->out[i];
        o.data[o.count++] = data;
    }
    for (i32 i = 0; i < c->in_count; i++) {
        if (!writes(c, i)) continue;
        o.type[o.count]   = c->in[i];
        o.data[o.count++] = in[i].data;
    }
    struct call call = { c->op, &c->at, in, c->in_count, out, NULL, 0, pool, NULL };
    if (s->kernel->work) call.work_bytes = s->kernel->work(&call);
    if (call.work_bytes) call.work = guarded(s->perm, call.work_bytes);
    s->kernel->run(&call);
    check_after(s, &call, shared);
    return o;
}

static void check_same_bits(const struct subject *s, const struct outcome *a,
                            const struct outcome *b, const char *when)
{
    for (i32 i = 0; i < a->count; i++) {
        const u8 *x = a->data[i], *y = b->data[i];
        for (i64 k = 0; k < type_bytes(a->type[i]); k++) {
            if (x[k] == y[k]) continue;
            i64 at = k / dtype_bytes(a->type[i].dtype);
            FAIL_UNLESS(s, false, "%s, result %d, element %lld: %.9g, else %.9g", when, i,
                        (long long)at, element_get(y, a->type[i].dtype, at),
                        element_get(x, a->type[i].dtype, at));
        }
    }
}

/* --- nearness --- */

/* Half the distance of neighbours, relative; the smallest there is. */
static f64 unit_roundoff(enum dtype t)
{
    return t == DT_F64 ? 0x1p-53 : t == DT_BF16 ? 0x1p-8 : t == DT_F16 ? 0x1p-11 : 0x1p-24;
}

static f64 smallest(enum dtype t) { return t == DT_F16 ? 0x1p-24 : t == DT_F64 ? 0 : 0x1p-133; }

static f64 largest(const void *data, struct type t)
{
    f64 top = 0;
    for (i64 i = 0; i < shape_count(t.shape); i++)
        top = fmax(top, fabs(element_get(data, t.dtype, i)));
    return top;
}

/* |result| and the operands that lie beside it: what rounding errors of a map are relative to. */
static f64 map_size(const struct op_case *c, i64 count, i64 i, f64 want)
{
    f64 size = fabs(want);
    for (i32 k = 0; k < c->in_count; k++) {
        i64 n = shape_count(c->in[k].shape);
        if (!dtype_is_float(c->in[k].dtype) || (n != count && (k != 1 || c->in_count != 2)))
            continue;
        size += fabs(element_get(c->data[k], c->in[k].dtype, i % n));
    }
    return size;
}

/* The same op over absolute values: each result is the sum of its terms' sizes. */
static struct outcome absolute(const struct subject *s)
{
    struct op_case *c = NEW(s->perm, struct op_case, 1);
    *c                = *s->c;
    for (i32 i = 0; i < c->in_count; i++) {
        if (!dtype_is_float(c->in[i].dtype)) continue;
        c->data[i] = arena_take(s->perm, MAX(1, type_bytes(c->in[i])), 1, 64);
        for (i64 k = 0; k < shape_count(c->in[i].shape); k++)
            element_set(c->data[i], c->in[i].dtype, k,
                        fabs(element_get(s->c->data[i], c->in[i].dtype, k)));
    }
    struct kernel ref = { c->op, "ref", ISA_ANY, NULL, ref_run, ref_work };
    return run(&(struct subject){ &ref, c, s->perm }, NULL, NOT_SHARED);
}

/* Errors of n f32 additions grow as sqrt(n) with random signs: 4 sqrt(n) u, u = EPS/2, is hardly
 * ever exceeded (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, theorem 2.4 with lambda = 4).
 * 16 EPS are for everything else: a vector exp or tanh, a reciprocal, a few products. Attention on
 * a low type may round probabilities and gradients of scores to it before it multiplies them: one
 * rounding of each term, whose errors have random signs too; of its gradient's terms the sizes are known
 * (near_attention_terms). Then both sides are rounded to the result's dtype once. */
static f64 allowed(const struct op_case *c, i64 count, i64 i, enum dtype t, f64 want, f64 size)
{
    bool attention = c->op == OP_ATTENTION || c->op == OP_ATTENTION_GRAD ||
                     c->op == OP_ATTENTION_PACKED || c->op == OP_ATTENTION_PACKED_GRAD ||
                     c->op == OP_ATTENTION_CACHED;
    f64 eps = t == DT_F64 ? 0x1p-52 : 0x1p-23, sums = 2 * sqrt(c->terms), rounding = 0;
    if (c->nearness == NEAR_EXACT || !dtype_is_float(t)) return 0;
    if (c->nearness == NEAR_MAP) rounding = 16 * map_size(c, count, i, want);
    else rounding = (16 + sums) * size;
    if (attention && unit_roundoff(t) > eps) rounding += 2 * size * unit_roundoff(t) / eps;
    return rounding * eps + 2 * unit_roundoff(t) * fabs(want) + smallest(t);
}

struct miss { /* the first element that is too far off */
    i32 result;
    i64 element;
    f64 got, want, allowed;
};

/* A row whose elements are nearly equal has a small variance, and dividing by it enlarges the
 * rounding of its inputs: by rstd in the result, once more in rstd itself and in gradients. */
static f64 norm_condition(const struct op_case *c, const struct outcome *want, i32 result)
{
    f64  rstd    = 1;
    bool forward = false;
    switch (c->op) {
    case OP_LAYERNORM:
    case OP_ADD_LAYERNORM:
    case OP_BATCHNORM:
        rstd    = largest(want->data[2], want->type[2]);
        forward = true;
        break;
    case OP_RMSNORM:
    case OP_ADD_RMSNORM:
    case OP_QKNORM:
        rstd    = largest(want->data[1], want->type[1]);
        forward = true;
        break;
    case OP_LAYERNORM_GRAD:
    case OP_BATCHNORM_GRAD: rstd = largest(c->data[4], c->in[4]); break;
    case OP_RMSNORM_GRAD:
    case OP_QKNORM_GRAD: rstd = largest(c->data[2], c->in[2]); break;
    default: break;
    }
    return MAX(1, forward && result == 0 ? rstd : rstd * rstd);
}

/* Winograd's transforms add up a tile before they multiply and take its results apart after: an error
 * is relative to the largest of them, not to the element it is found in (Barabasz and others, ACM
 * Trans. Math. Softw. 46, 2020). */
static bool mixes_tiles(const struct kernel *k) { return !strncmp(k->name, "winograd", 8); }

static const struct tensor *tensors(const struct subject *s)
{
    struct tensor *in = NEW(s->perm, struct tensor, s->c->in_count);
    for (i32 i = 0; i < s->c->in_count; i++)
        in[i] = (struct tensor){ s->c->data[i], s->c->in[i], shape_count(s->c->in[i].shape) };
    return in;
}

/* Where its numbers are kept low, a sum on the brink of two of them falls either way, and what that does to one element
 * no bound that bites can say: the parameter is compared by norm. The momentum is as ever. */
static bool find_miss_muon(const struct subject *s, const struct outcome *got,
                           const struct outcome *want, struct miss *miss)
{
    const struct op_case *c   = s->c;
    f64                   may = near_allowed_muon(&c->at, tensors(s), c->at.dtype, *s->perm);
    f64                   off = near_distance(got->data[0], want->data[0], want->type[0], 0);
    if (off > may) {
        *miss = (struct miss){ 0, 0, off, 0, may };
        return true;
    }
    for (i64 i = 0; i < shape_count(want->type[1].shape); i++) {
        f64 g = element_get(got->data[1], DT_F32, i), w = element_get(want->data[1], DT_F32, i);
        f64 limit = 16 * 0x1p-23 * map_size(c, shape_count(want->type[1].shape), i, w);
        if (fabs(g - w) <= limit) continue;
        *miss = (struct miss){ 1, i, g, w, limit };
        return true;
    }
    return false;
}

static bool find_miss(const struct subject *s, const struct outcome *got,
                      const struct outcome *want, struct miss *miss)
{
    const struct op_case *c = s->c;
    struct outcome        sizes;
    bool                  mixes = c->nearness == NEAR_SUM && mixes_tiles(s->kernel);
    if (c->nearness == NEAR_SUM) sizes = absolute(s);
    bool low   = unit_roundoff(want->type[0].dtype) > 0x1p-24;
    bool grad  = c->op == OP_ATTENTION_GRAD || c->op == OP_ATTENTION_PACKED_GRAD;
    f64 *terms = NULL;
    if (c->op == OP_MUON && unit_roundoff(c->at.dtype) > 0x1p-24)
        return find_miss_muon(s, got, want, miss);
    if (low && grad) terms = near_attention_terms(c->op, &c->at, tensors(s), c->in_count, s->perm);
    for (i32 r = 0; r < want->count; r++) {
        enum dtype t     = want->type[r].dtype;
        i64        count = shape_count(want->type[r].shape);
        f64        top   = largest(want->data[r], want->type[r]);
        if (c->in_count) top += largest(c->data[0], c->in[0]);
        top *= norm_condition(c, want, r);
        if (mixes) top = largest(sizes.data[r], want->type[r]);
        for (i64 i = 0; i < count; i++) {
            f64 g = element_get(got->data[r], t, i), w = element_get(want->data[r], t, i);
            f64 size  = c->nearness == NEAR_SUM && !mixes ? element_get(sizes.data[r], t, i) : top;
            f64 limit = allowed(c, count, i, t, w, size);
            if (terms) limit += terms[i] * unit_roundoff(t);
            if (g == w || fabs(g - w) <= limit) continue;
            *miss = (struct miss){ r, i, g, w, limit };
            return true;
        }
    }
    return false;
}

static void check_near(const struct subject *s, const struct outcome *got,
                       const struct outcome *want)
{
    struct miss m;
    if (find_miss(s, got, want, &m))
        FAIL_UNLESS(s, false, "result %d, element %lld: %.9g, reference %.9g, allowed +- %.3g",
                    m.result, (long long)m.element, m.got, m.want, m.allowed);
}

static void check_roundings(const struct subject *s, const struct outcome *got,
                            const struct outcome *want)
{
    if (!near_is_rounded(s->c->op, s->c->in, s->c->in_count)) return;
    f64 share = near_differing(got->data[0], want->data[0], want->type[0]);
    FAIL_UNLESS(s, share <= near_differing_allowed(want->type[0]),
                "%.2g of the table's numbers are rounded otherwise than the reference's", share);
}

/* --- one kernel --- */

static bool may_share(const struct op_case *c, i32 input)
{
    return input < 5 && (op_info(c->op)->share >> input & 1) && type_eq(c->in[input], c->out[0]);
}

static void check_sharing(const struct subject *s, struct pool *pool, const struct outcome *first)
{
    for (i32 i = 0; i < s->c->in_count; i++) {
        if (!may_share(s->c, i)) continue;
        struct outcome shared = run(s, pool, i);
        check_same_bits(s, first, &shared, "in place");
    }
}

static void check_case(const struct subject *s, struct pool **pools)
{
    struct kernel  ref   = { s->c->op, "ref", ISA_ANY, NULL, ref_run, ref_work };
    struct outcome want  = run(&(struct subject){ &ref, s->c, s->perm }, NULL, NOT_SHARED);
    struct outcome first = run(s, pools[0], NOT_SHARED);
    check_near(s, &first, &want);
    check_roundings(s, &first, &want);
    for (i32 p = 1; p < POOLS; p++) {
        struct outcome other = run(s, pools[p], NOT_SHARED);
        check_same_bits(s, &first, &other, p == 1 ? "with 2 threads" : "with 3 threads");
    }
    check_sharing(s, pools[POOLS - 1], &first);
}

static bool takes(const struct kernel *k, const struct op_case *c, struct pool *pool)
{
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
    for (i32 i = 0; i < c->in_count; i++)
        in[i] = (struct tensor){ NULL, c->in[i], shape_count(c->in[i].shape) };
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        out[i] = (struct tensor){ NULL, c->out[i], shape_count(c->out[i].shape) };
    struct call call = { c->op, &c->at, in, c->in_count, out, NULL, 0, pool, NULL };
    return !k->takes || k->takes(&call);
}

/* A case of this dtype that the kernel takes; false if none was found. */
static bool draw_taken(const struct kernel *k, enum dtype d, struct draw *draw, struct pool *pool,
                       struct op_case *c, struct arena *perm)
{
    for (i32 t = 0; t < TRIES_MAX; t++) {
        struct draw again = *draw;
        draw->types_only  = true;
        op_case_draw(c, k->op, d, draw, perm);
        draw->types_only = false;
        if (!takes(k, c, pool)) continue;
        op_case_draw(c, k->op, d, &again, perm);
        return true;
    }
    return false;
}

/* One case of each dtype the kernel takes; how many it took. */
static i32 try_kernel(const struct kernel *k, struct draw *draw, struct pool **pools,
                      struct arena scratch)
{
    i32 taken = 0;
    for (enum dtype d = DT_F32; d <= DT_F64; d++) {
        struct arena    perm = scratch;
        struct op_case *c    = NEW(&perm, struct op_case, 1);
        if (!draw_taken(k, d, draw, pools[0], c, &perm)) continue;
        check_case(&(struct subject){ k, c, &perm }, pools);
        taken++;
    }
    return taken;
}

static f64 seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static f64 seconds_allowed(void)
{
    const char *text = getenv("CHECK_SECONDS");
    return text ? strtod(text, NULL) : 5;
}

TEST(every_kernel_is_near_the_reference_and_does_not_feel_the_threads)
{
    struct draw          draw = { .state = test_seed() };
    struct pool         *pools[POOLS];
    const struct kernel *k;
    f64                  end  = seconds_now() + seconds_allowed();
    bool                 more = kernel_at(0) != NULL;
    for (i32 i = 0; i < POOLS; i++) pools[i] = pool_open(perm, i + 1);

    for (i32 round = 0; more; round++) {
        draw.large = round % 4 == 3;
        draw.odd   = round % 4 == 1;
        for (i32 i = 0; more && (k = kernel_at(i)); i++) {
            if (k->isa > kernel_isa()) continue;
            i32 taken = try_kernel(k, &draw, pools, scratch);
            if (!taken && !draw.odd)
                harness_fail(__FILE__, __LINE__, "kernel %s of %s takes no case at all", k->name,
                             op_info(k->op)->name);
            more = round == 0 || seconds_now() < end; /* each kernel at least once */
        }
        more = more && seconds_now() < end;
    }
    for (i32 i = 0; i < POOLS; i++) pool_close(pools[i]);
}

static bool any_takes(i32 op, enum dtype d, struct draw *draw, struct pool *pool,
                      struct arena scratch)
{
    const struct kernel *k;
    for (i32 i = 0; (k = kernel_at(i)); i++) {
        struct arena    perm = scratch;
        struct op_case *c    = NEW(&perm, struct op_case, 1);
        if (k->op == op && k->isa <= kernel_isa() && draw_taken(k, d, draw, pool, c, &perm))
            return true;
    }
    return false;
}

/* Parameters, their gradients and the optimiser's state are f32 in every precision. */
static bool of_parameters(i32 op)
{
    return op == OP_SUMSQ || op == OP_ACCUMULATE || op == OP_SGD || op == OP_ADAM ||
           op == OP_ADAMW || op == OP_MUON || op >= OP_ROWS_SGD || op == OP_ROWS_JOIN;
}

TEST(what_is_fast_in_f32_is_fast_in_bf16_and_f16)
{
    struct draw  draw = { .state = test_seed() };
    struct pool *pool = pool_open(perm, 1);
    for (i32 op = 0; op < OP_COUNT; op++) {
        if (of_parameters(op) || !any_takes(op, DT_F32, &draw, pool, scratch)) continue;
        for (enum dtype d = DT_BF16; d <= DT_F16; d++)
            if (!any_takes(op, d, &draw, pool, scratch))
                harness_fail(__FILE__, __LINE__, "%s has no fast kernel for %.*s",
                             op_info(op)->name, STR_ARG(dtype_name(d)));
    }
    pool_close(pool);
}

/* The reference keeps the same rules, but for threads, which it does not use. */
TEST(the_reference_works_in_place_and_stays_inside_its_operands)
{
    struct draw draw = { .state = test_seed() };
    for (i32 op = 0; op < OP_COUNT; op++) {
        struct kernel ref = { op, "ref", ISA_ANY, NULL, ref_run, ref_work };
        for (i32 i = 0; i < 4 * DT_COUNT; i++) {
            enum dtype      d = (enum dtype)(i % DT_COUNT);
            struct arena    p = scratch;
            struct op_case *c = NEW(&p, struct op_case, 1);
            struct subject  s = { &ref, c, &p };
            if (!dtype_is_float(d)) continue;
            op_case_draw(c, op, d, &draw, &p);
            struct outcome first = run(&s, NULL, NOT_SHARED);
            check_sharing(&s, NULL, &first);
        }
    }
}

TEST(a_result_that_is_off_is_noticed)
{
    static const i32 ops[] = { OP_MATMUL, OP_GELU, OP_LAYERNORM, OP_TRANSPOSE };
    struct draw      draw  = { .state = test_seed() };
    for (i32 k = 0; k < COUNT_OF(ops); k++) {
        struct op_case *c   = NEW(perm, struct op_case, 1);
        struct kernel   ref = { ops[k], "ref", ISA_ANY, NULL, ref_run, ref_work };
        struct subject  s   = { &ref, c, perm };
        struct miss     miss;
        op_case_draw(c, ops[k], DT_F32, &draw, perm);
        struct outcome want = run(&s, NULL, NOT_SHARED), got = run(&s, NULL, NOT_SHARED);
        i64            at = draw_to(&draw, shape_count(c->out[0].shape));
        f32           *x  = got.data[0];
        CHECK(!find_miss(&s, &got, &want, &miss));
        x[at] += 1e-2f * (1 + fabsf(x[at])) * (f32)norm_condition(c, &want, 0);
        CHECK(find_miss(&s, &got, &want, &miss));
        CHECK_EQ(miss.element, at);
        x[at] = NAN;
        CHECK(find_miss(&s, &got, &want, &miss));
    }
}
