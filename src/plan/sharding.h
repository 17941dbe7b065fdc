/* sharding.h - what it takes to share weights, gradients and optimiser state out over the ranks of a run instead of
 * copying them to each: memory of a rank, seconds of a step. As train.shard and train.shard_over do it
 * (docs/several.md): over all ranks, or over those of each machine with a copy in every one. */
#ifndef PLAN_SHARDING_H
#define PLAN_SHARDING_H
#include "plan/estimate.h"
#include "plan/workload.h"

struct sharding {
    enum shard_kind kind;
    bool            copies; /* each machine of the run holds one: train.shard_over=machine */
};

/* Every way: none, then state and all, each over all ranks and over each machine. */
enum { SHARDINGS = 5 };
extern const struct sharding shardings[SHARDINGS];

/* Ranks of a run and the machines that they fill. */
struct ranks_at {
    i64 ranks, machines;
};
struct ranks_at ranks_on(const struct device *d, i64 ranks);
/* False: there is one rank, one machine, or machines with different numbers of ranks. */
bool sharding_can(const struct sharding *s, struct ranks_at at);
i64  sharding_places(const struct sharding *s, struct ranks_at at); /* ranks that share one state */

/* Memory of a rank with micro-batches of so many samples. */
f64 sharding_bytes(const struct sharding *s, struct ranks_at at, const struct plan_workload *job,
                   const struct plan_variant *v, f64 micro);
/* Of a checkpoint, what the rank that writes most writes: its part of what is shared out, and what is not. */
f64 sharding_saved_bytes(const struct sharding *s, struct ranks_at at, const struct step_work *w);

/* A step that was estimated for ranks that hold everything, with what this sharding exchanges and saves instead. */
void sharding_apply(const struct sharding *s, struct ranks_at at, const struct plan_workload *job,
                    const struct plan_variant *v, const struct device *d,
                    const struct step_shape *shape, struct estimate *e);

#endif
