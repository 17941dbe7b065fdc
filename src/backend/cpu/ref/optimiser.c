/* optimiser.c - the norm of the gradients, clipping by it, and the steps of torch.optim. */
#include "backend/cpu/ref/ref_int.h"

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
    for (i64 i = 0; i < p->count; i++) {
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
    for (i64 i = 0; i < c->in[0].count; i++) {
        f64 p = ref_load(&c->in[0], i);
        adam_step(c, &h, i, p, h.factor * ref_load(&c->in[1], i) + c->at->decay * p);
    }
}

void ref_ADAMW(const struct call *c)
{
    struct hyper h = hyper_of(&c->in[4], &c->in[5]);
    for (i64 i = 0; i < c->in[0].count; i++) {
        f64 p = ref_load(&c->in[0], i) * (1 - h.lr * c->at->decay);
        adam_step(c, &h, i, p, h.factor * ref_load(&c->in[1], i));
    }
}
