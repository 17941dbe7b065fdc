/* checkpoint_cost.h - what checkpoints cost where they lie: dollars a month and to read them back from an object store,
 * and the speed at which a restore would read a folder. `frugal checkpoints` asks, and whoever opens an object store
 * by its address alone. */
#ifndef JOB_CHECKPOINT_COST_H
#define JOB_CHECKPOINT_COST_H
#include "plan/catalogue.h"
#include "remote/s3.h"
#include "run/clock.h"
#include "store/checkpoint.h"

bool object_store_is(struct str where); /* s3:// or gs:// */
/* To open it: of this machine's cloud, if it has one, credentials are asked for. */
struct s3_settings object_store_here(struct os *os, struct str where);
/* Its class in the catalogue, however it is written; empty: the provider's first. NULL: not known. */
const struct storage *object_store_class(const struct catalogue *c, struct str where,
                                         struct str class);

/* Of checkpoints that are valid. */
struct checkpoint_cost {
    f64 bytes, requests;
    f64 month_usd; /* of a class with a minimum at least that */
    f64 early_usd; /* of the minimum, what is still to be paid if they are deleted now */
    f64 requests_usd, retrieve_usd, egress_usd; /* once, read from outside the region */
    f64 fetch_usd;                              /* the three together */
};

/* Of all in the list, or of `only` one; s NULL: the class is not known, and no dollars are. */
struct checkpoint_cost checkpoint_cost_of(const struct ckpt_list *l, const struct ckpt *only,
                                          const struct storage *s, i64 now_wall_ns);

/* The checkpoints of a folder, which must be there. */
enum status checkpoint_folder_list(struct os *os, struct str folder, struct arena *perm,
                                   struct ckpt_list *out, struct err *err);
/* Bytes a second that a restore would have: read and hashed, from the largest shard. It has one at least. */
enum status checkpoint_rate(struct os *os, struct clock *clock, const struct ckpt *k,
                            struct arena scratch, f64 *rate, struct err *err);

#endif
