/* undo.h - a step that is left unfinished leaves no trace, and when to leave one; inside this room only.
 *
 *     whole step | copy | micro-batch | micro-batch | update       a notice comes, and the rest of the step and a
 *                                   leave off: put back            save do not fit into the time that it gives
 *
 * Parameters and optimiser state are changed by the update alone. What gradients change before it (running statistics,
 * fp8's scales) is small, and copied when a step begins; not for a short one on a GPU, which would wait for it. */
#ifndef TRAIN_UNDO_H
#define TRAIN_UNDO_H
#include "train/checkpoint_schedule.h"

struct undo {
    struct session         *s;
    struct saving          *saving;
    const struct quantiles *times; /* of steps so far */
    struct backend_copy    *list;
    i64                     count;
    i64                     begin_ns; /* of the step */
    bool                    is_long;  /* its programs ask whether they shall be left */
    bool                    watched;  /* it may be left: what it began with is copied */
    bool                    left_off; /* it is not finished, and will not be */
    bool                    starved;  /* for it waited for data */
    struct run_state        at;       /* when it began */
};

/* Once it is compiled; takes its memory. */
void undo_open(struct undo *u, struct session *s, struct saving *v, const struct quantiles *times);
/* `ahead`: its gradients are being computed already. */
void undo_begin(struct undo *u, const struct run_state *at, i64 begin_ns, bool ahead);
/* For backend.leaves_off, and between micro-batches: shall the step be left as it is, so that what was there before
 * it can be saved while there is time? One that nobody hurries is finished. */
bool undo_leaves(void *undo);
/* While a micro-batch's data does not come: also where nobody hurries, for it may never. */
bool undo_leaves_wait(struct undo *u);
bool undo_leaves_evaluation(
    void *undo); /* half of one says nothing: the next start makes it anew */
void undo_put_back(struct undo *u, struct run_state *at);
/* A device that works behind our back cannot leave a micro-batch: one that outlasts the grace. Empty: it does not. */
struct str undo_warning(const struct undo *u, struct arena *perm);

#endif
