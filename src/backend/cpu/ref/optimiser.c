/* optimiser.c - the norm of the gradients, clipping by it, and the steps of torch.optim. */
#include "backend/cpu/ref/ref_int.h"
#include "base/rng.h"
#include "ir/muon.h"

void ref_SUMSQ(const struct call *c)
{
    f64 sum = 0;
    for (i64 i = 0; i < c->in[0].count; i++) sum += ref_load(&c->in[0], i) * ref_load(&c->in[0], i);
    ref_store(&c->out[0], 0, sum);
}

/* A norm that is no number gives a factor that is none either, as in torch. */
void ref_CLIP(const struct call *c)
{
    f64 norm   = sqrt(ref_load(&c->in[0], 0));
    f64 factor = c->at->limit > 0 ? c->at->limit / (norm + 1e-6) : 1;
    ref_store(&c->out[0], 0, factor > 1 ? 1 : factor);
    ref_store(&c->out[1], 0, norm);
}

void ref_UNSCALE(const struct call *c)
{
    const struct tensor *counts = &c->in[1];
    f64                  scale = ref_load(&c->in[0], 0), sum = ref_load(&c->in[2], 0), next = scale;
    f64  streak = ref_load(counts, 0), bad = ref_load(counts, 1), good = ref_load(counts, 2);
    bool finite = isfinite(sum);
    if (finite) {
        good++;
        if (++streak == (f64)c->at->count) {
            streak = 0;
            next   = scale * c->at->growth;
        }
    } else {
        bad++;
        streak = 0;
        next   = scale * c->at->backoff;
    }
    ref_store(&c->out[0], 0, finite ? good : 0);
    ref_store(&c->out[1], 0, 1 / scale);
    ref_store(&c->out[2], 0, sum / scale / scale);
    ref_store(counts, 0, streak);
    ref_store(counts, 1, bad);
    ref_store(counts, 2, good);
    if (isfinite((f32)next)) ref_store(&c->in[0], 0, next);
}

void ref_ACCUMULATE(const struct call *c)
{
    for (i64 i = 0; i < c->in[0].count; i++)
        ref_store(&c->in[0], i, ref_load(&c->in[0], i) + ref_load(&c->in[1], i));
}

struct hyper {
    f64 lr, beta1, beta2, step, factor;
};

static struct hyper hyper_of(const struct tensor *hyper, const struct tensor *factor)
{
    return (struct hyper){ ref_load(hyper, 0), ref_load(hyper, 1), ref_load(hyper, 2),
                           ref_load(hyper, 3), ref_load(factor, 0) };
}

void ref_SGD(const struct call *c)
{
    const struct tensor *p = &c->in[0], *mom = &c->in[2];
    struct hyper         h = hyper_of(&c->in[3], &c->in[4]);
    for (i64 i = 0; i < p->count && h.step > 0; i++) {
        f64 g = h.factor * ref_load(&c->in[1], i) + c->at->decay * ref_load(p, i);
        f64 m = h.step == 1 ? g : h.beta1 * ref_load(mom, i) + g;
        ref_store(mom, i, m);
        ref_store(p, i, ref_load(p, i) - h.lr * (c->at->nesterov ? g + h.beta1 * m : m));
    }
}

/* Element i, once weight decay has been dealt with: Kingma and Ba, arXiv 1412.6980, with eps added
 * to the corrected root. */
static void adam_step(const struct call *c, const struct hyper *h, i64 i, f64 p, f64 g)
{
    f64 m     = h->beta1 * ref_load(&c->in[2], i) + (1 - h->beta1) * g;
    f64 v     = h->beta2 * ref_load(&c->in[3], i) + (1 - h->beta2) * g * g;
    f64 m_hat = m / (1 - pow(h->beta1, h->step)), v_hat = v / (1 - pow(h->beta2, h->step));
    ref_store(&c->in[2], i, m);
    ref_store(&c->in[3], i, v);
    ref_store(&c->in[0], i, p - h->lr * m_hat / (sqrt(v_hat) + c->at->eps));
}

void ref_ADAM(const struct call *c)
{
    struct hyper h = hyper_of(&c->in[4], &c->in[5]);
    for (i64 i = 0; i < c->in[0].count && h.step > 0; i++) {
        f64 p = ref_load(&c->in[0], i);
        adam_step(c, &h, i, p, h.factor * ref_load(&c->in[1], i) + c->at->decay * p);
    }
}

void ref_ADAMW(const struct call *c)
{
    struct hyper h = hyper_of(&c->in[4], &c->in[5]);
    for (i64 i = 0; i < c->in[0].count && h.step > 0; i++) {
        f64 p = ref_load(&c->in[0], i) * (1 - h.lr * c->at->decay);
        adam_step(c, &h, i, p, h.factor * ref_load(&c->in[1], i));
    }
    for (i64 i = 0; i < c->in[0].count && c->in_count > 6; i++)
        ref_store(&c->in[6], i, ref_load(&c->in[0], i));
}

/* The rows of a table that have a gradient, one after the other: its number in the list and in the table. */
static bool next_row(const struct tensor *index, i64 rows, i64 *i, i64 *row)
{
    if (++*i >= index->count) return false;
    *row = ref_index(index, *i);
    ASSERT(*row < rows);
    return *row >= 0;
}

/* Where rng follows the factor, a table of 16 bits is rounded at random: as cast does, by the number's place. */
static void store_number(const struct call *c, i32 rng_at, i64 i, f64 x)
{
    if (c->in_count > rng_at) {
        const i32     *rng = c->in[rng_at].data;
        struct rng_key key = { .seed = (u64)(u32)rng[1] << 32 | (u32)rng[0],
                               .name = (u64)c->at->key,
                               .step = (u32)rng[2] };
        x                  = ref_round_at_random(x, c->in[0].type.dtype, rng_u32(key, (u64)i));
    }
    ref_store(&c->in[0], i, x);
}

void ref_ROWS_SGD(const struct call *c)
{
    const struct tensor *p     = &c->in[0];
    struct hyper         h     = hyper_of(&c->in[3], &c->in[4]);
    i64                  width = ref_dim(p, 1), row;
    for (i64 i = -1; h.step > 0 && next_row(&c->in[2], ref_dim(p, 0), &i, &row);) {
        for (i64 k = 0; k < width; k++) {
            f64 g = h.factor * ref_load(&c->in[1], i * width + k);
            store_number(c, 5, row * width + k, ref_load(p, row * width + k) - h.lr * g);
        }
    }
}

/* Duchi et al. 2011 with one sum a row, as Facebook's DLRM has it (Naumov et al. 2019). */
void ref_ROWS_ADAGRAD(const struct call *c)
{
    const struct tensor *p = &c->in[0], *sums = &c->in[3];
    struct hyper         h     = hyper_of(&c->in[4], &c->in[5]);
    i64                  width = ref_dim(p, 1), row;
    for (i64 i = -1; h.step > 0 && next_row(&c->in[2], ref_dim(p, 0), &i, &row);) {
        f64 square = 0;
        for (i64 k = 0; k < width; k++)
            square += pow(h.factor * ref_load(&c->in[1], i * width + k), 2);
        f64 sum = ref_load(sums, row) + square / (f64)width;
        ref_store(sums, row, sum);
        for (i64 k = 0; k < width; k++) {
            f64 g = h.factor * ref_load(&c->in[1], i * width + k);
            store_number(c, 6, row * width + k,
                         ref_load(p, row * width + k) - h.lr * g / (sqrt(sum) + c->at->eps));
        }
    }
}

/* torch.optim.SparseAdam: both corrections are in the rate, so eps is added to the root as it is. */
void ref_ROWS_ADAM(const struct call *c)
{
    const struct tensor *p = &c->in[0], *m = &c->in[3], *v = &c->in[4];
    struct hyper         h     = hyper_of(&c->in[5], &c->in[6]);
    f64                  rate  = h.lr * sqrt(1 - pow(h.beta2, h.step)) / (1 - pow(h.beta1, h.step));
    i64                  width = ref_dim(p, 1), row;
    for (i64 i = -1; h.step > 0 && next_row(&c->in[2], ref_dim(p, 0), &i, &row);) {
        for (i64 k = 0; k < width; k++) {
            i64 at = row * width + k;
            f64 g  = h.factor * ref_load(&c->in[1], i * width + k);
            f64 m1 = h.beta1 * ref_load(m, at) + (1 - h.beta1) * g;
            f64 v1 = h.beta2 * ref_load(v, at) + (1 - h.beta2) * g * g;
            ref_store(m, at, m1);
            ref_store(v, at, v1);
            store_number(c, 7, at, ref_load(p, at) - rate * m1 / (sqrt(v1) + c->at->eps));
        }
    }
}

/* X as `gram` lines of equal length, whichever way they lie. */
struct lines {
    i64 count, length;
    i64 line, step; /* distance from line to line, and along one */
};

/* As it comes back from memory of a low type; wider ones are kept as they are. */
static f64 kept(f64 v, enum dtype t)
{
    if (t == DT_BF16) return (f64)bf16_to_f32(bf16_from_f64(v));
    return t == DT_F16 ? (f64)f16_to_f32(f16_from_f64(v)) : v;
}

/* to = (a I + b A + c A^2) x, A = x x^T; gram and square hold A and A^2. */
static void newton_schulz(const struct lines *l, f64 *to, const f64 *x, f64 *gram, f64 *square,
                          enum dtype t)
{
    i64 n = l->count;
    for (i64 i = 0; i < n * n; i++) {
        const f64 *a = x + i / n * l->line, *b = x + i % n * l->line;
        f64        sum = 0;
        for (i64 k = 0; k < l->length; k++) sum += a[k * l->step] * b[k * l->step];
        gram[i] = kept(sum, t);
    }
    for (i64 i = 0; i < n * n; i++) {
        f64 sum = 0;
        for (i64 k = 0; k < n; k++) sum += gram[i / n * n + k] * gram[k * n + i % n];
        square[i] = kept(sum, t);
    }
    for (i64 i = 0; i < n * n; i++) {
        f64 diagonal = i / n == i % n ? MUON_A : 0;
        gram[i]      = kept(MUON_B * gram[i] + MUON_C * square[i] + diagonal, t);
    }
    for (i64 i = 0; i < n * l->length; i++) {
        i64 line = i / l->length, k = i % l->length;
        f64 sum = 0;
        for (i64 j = 0; j < n; j++) sum += gram[line * n + j] * x[j * l->line + k * l->step];
        to[line * l->line + k * l->step] = kept(sum, t);
    }
}

void ref_MUON(const struct call *c)
{
    const struct tensor *p = &c->in[0], *mom = &c->in[2];
    struct hyper         h = hyper_of(&c->in[3], &c->in[4]);
    struct muon_sizes    z = muon_sizes(p->type.shape);
    struct lines         l = { z.gram, z.columns, z.columns, 1 };
    f64                 *x = c->work, *next = x + p->count, *gram = next + p->count, norm = 0;
    if (!p->count || h.step == 0) return;
    if (z.tall) l = (struct lines){ z.gram, z.rows, 1, z.columns };
    for (i64 i = 0; i < p->count; i++) {
        f64 g = h.factor * ref_load(&c->in[1], i);
        f64 m = h.beta1 * ref_load(mom, i) + (1 - h.beta1) * g;
        ref_store(mom, i, m);
        x[i] = c->at->nesterov ? (1 - h.beta1) * g + h.beta1 * m : m;
        norm += x[i] * x[i];
    }
    norm = fmax(sqrt(norm), MUON_NORM_MIN);
    for (i64 i = 0; i < p->count; i++) x[i] = kept(x[i] / norm, c->at->dtype);
    for (i64 step = 0; step < MUON_STEPS; step++) {
        f64 *from = x;
        newton_schulz(&l, next, x, gram, gram + z.gram * z.gram, c->at->dtype);
        x    = next;
        next = from;
    }
    for (i64 i = 0; i < p->count; i++) {
        f64 kept = ref_load(p, i) * (1 - h.lr * c->at->decay);
        ref_store(p, i, kept - h.lr * c->at->scale * x[i]);
    }
}
