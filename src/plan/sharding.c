/* sharding.c - parts of a state, and the collectives that bring them together. */
#include "plan/sharding.h"

const struct sharding shardings[SHARDINGS] = {
    { .kind = SHARD_NONE }, { .kind = SHARD_STATE }, { SHARD_STATE, true },
    { .kind = SHARD_ALL },  { SHARD_ALL, true },
};

struct ranks_at ranks_on(const struct device *d, i64 ranks)
{
    return (struct ranks_at){ ranks, (ranks + d->units - 1) / d->units };
}

bool sharding_can(const struct sharding *s, struct ranks_at at)
{
    if (s->kind == SHARD_NONE) return true;
    if (at.ranks < 2) return false;
    return !s->copies || (at.machines > 1 && at.ranks % at.machines == 0 && at.ranks > at.machines);
}

i64 sharding_places(const struct sharding *s, struct ranks_at at)
{
    if (s->kind == SHARD_NONE) return 1;
    return s->copies ? at.ranks / at.machines : at.ranks;
}

/* Of the parameters that are trained: their gradients are kept in as many bytes as they are. */
static f64 trained_bytes(const struct plan_workload *job, const struct plan_variant *v)
{
    return job->deeper ? 4 * v->work.parameters : v->work.gradient_bytes;
}

/* As they are gathered: what is only read in two bytes is cast before. */
static f64 gathered_bytes(const struct plan_workload *job, const struct plan_variant *v)
{
    return trained_bytes(job, v) * (v->low ? 0.5 : 1);
}

/* What is dealt out with `all`: another program deals out what is frozen, too. */
static f64 dealt_bytes(const struct plan_workload *job, const struct step_work *w)
{
    return job->deeper ? w->state_bytes : 2 * w->gradient_bytes + w->optimiser_bytes;
}

/* With `all` a rank holds its part of the state, and two gathered blocks with the gradients of one (where nobody says
 * how many blocks there are, a part of 16); what else does not grow with the batch, weights in two bytes above all,
 * lives for a block at a time. */
f64 sharding_bytes(const struct sharding *s, struct ranks_at at, const struct plan_workload *job,
                   const struct plan_variant *v, f64 micro)
{
    const struct step_work *w = &v->work;
    f64                     n = (f64)sharding_places(s, at), line = step_work_bytes(w, micro);
    if (s->kind == SHARD_NONE) return line;
    if (s->kind == SHARD_STATE) return line - w->optimiser_bytes * (1 - 1 / n);
    f64 blocks   = job->deeper ? MAX((f64)job->depth[2] / 3, 1) : 16;
    f64 gathered = gathered_bytes(job, v) / blocks;
    f64 dealt    = dealt_bytes(job, w);
    return micro * w->memory_sample + (w->state_bytes - dealt) + dealt / n + gathered +
           MIN(MAX(w->memory_fixed - w->state_bytes, 0), gathered);
}

f64 sharding_saved_bytes(const struct sharding *s, struct ranks_at at, const struct step_work *w)
{
    f64 n = (f64)sharding_places(s, at);
    if (s->kind == SHARD_ALL) return w->saved_bytes / n;
    return w->saved_bytes - (s->kind == SHARD_STATE ? w->optimiser_bytes * (1 - 1 / n) : 0);
}

/* Gathers or scatters of so many bytes over those who share a state, in so many calls. */
static f64 shared_s(const struct sharding *s, struct ranks_at at, const struct device *d, f64 bytes,
                    f64 calls)
{
    i64 over = sharding_places(s, at);
    return network_gather_s(&d->network, bytes, over) +
           (calls - 1) * network_gather_latency_s(&d->network, over);
}

/* Gradients are scattered at the head of the update and weights gathered at its end: nothing hides either. */
static f64 state_s(const struct sharding *s, struct ranks_at at, const struct device *d,
                   const struct step_work *w, f64 copies_s)
{
    return 2 * shared_s(s, at, d, w->gradient_bytes, 1) + copies_s;
}

/* Weights are gathered for each micro-batch's way forward and backward, gradients scattered as they are kept, in f32;
 * on GPUs computing hides them but for the first. Copies are summed behind the only micro-batch of a step, else at the
 * head of the update. */
static void apply_all(const struct sharding *s, struct ranks_at at, const struct plan_workload *job,
                      const struct plan_variant *v, const struct device *d,
                      const struct step_shape *shape, f64 copies_s, struct estimate *e)
{
    f64 calls  = job->deeper ? (f64)job->depth[2] : MAX(v->work.tensors, 1);
    f64 each_s = 2 * shared_s(s, at, d, gathered_bytes(job, v), calls) +
                 shared_s(s, at, d, trained_bytes(job, v), calls);
    f64  passes = e->forward_s + e->backward_s, all_s = each_s * (f64)shape->accumulate;
    bool behind  = shape->accumulate == 1;
    f64  hides_s = all_s + (behind ? copies_s : 0), first_s = each_s / 16;
    e->comm_s    = all_s + copies_s;
    e->exposed_s = estimate_exposed_s(d, hides_s, passes, first_s) + (behind ? 0 : copies_s);
}

/* Of so many ranks each computes a part of the update. */
static void divide_update(struct estimate *e, f64 ranks)
{
    f64 less = 1 - 1 / ranks;
    e->update_s /= ranks;
    e->begin_s -= less * e->update.begin_s;
    e->flops_s -= less * e->update.flops_s;
    e->bytes_s -= less * e->update.bytes_s;
}

void sharding_apply(const struct sharding *s, struct ranks_at at, const struct plan_workload *job,
                    const struct plan_variant *v, const struct device *d,
                    const struct step_shape *shape, struct estimate *e)
{
    if (s->kind == SHARD_NONE) return;
    i64 machines = s->copies ? at.machines : 1;
    f64 copies_s = network_copies_s(&d->network, v->work.gradient_bytes, machines);
    divide_update(e, (f64)sharding_places(s, at));
    if (s->kind == SHARD_ALL) {
        apply_all(s, at, job, v, d, shape, copies_s, e);
    } else {
        e->comm_s    = state_s(s, at, d, &v->work, copies_s);
        e->exposed_s = e->comm_s;
    }
    estimate_sum(d, shape, e);
}
