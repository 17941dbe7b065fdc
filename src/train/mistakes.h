/* mistakes.h - of a classifier, now and then with an evaluation: which class it takes for which, and the pictures that
 * it was most certain of and wrong. loop.c says when, evaluate.c brings the batches, the page shows it. */
#ifndef TRAIN_MISTAKES_H
#define TRAIN_MISTAKES_H
#include "data/data.h"
#include "run/events.h"
#include "train/seldom.h"

enum { MISTAKES_MAX = 8, MISTAKE_SIDE = 32, MISTAKE_BYTES = MISTAKE_SIDE * MISTAKE_SIDE * 3 };

struct mistake {
    i64 label, guess;
    f64 probability; /* of the guess */
    u8  pixels[MISTAKE_BYTES];
};

struct mistakes {
    i64            classes;
    f64           *table;                   /* true class × predicted class */
    i64            from_w, from_h, stride;  /* of the data's pictures */
    i64            width, height, channels; /* of ours; channels 0: no pictures */
    struct seldom  when;
    bool           due; /* the evaluation that runs now is one of those */
    i64            count;
    struct mistake items[MISTAKES_MAX];
};

struct session;

/* NULL: no classifier with a few classes, nobody looks, or each of several ranks sees a part only. */
struct mistakes *mistakes_new(struct session *s);
/* Before an evaluation; `last`: there may be no other. */
bool mistakes_due(struct mistakes *m, f64 elapsed_s, bool last);
/* After a batch of it. */
void mistakes_add(struct mistakes *m, struct session *s, const struct batch *b,
                  struct arena scratch);
/* After all of it. */
void mistakes_tell(struct mistakes *m, const struct subscriber *to, i64 step, struct arena scratch);

#endif
