/* resume.h - finding the checkpoint that a run goes on from, and whether it is this run's; inside
 * this room only.
 *
 * What was chosen when the run began (micro-batch, precision, optimiser) is kept, whatever the
 * machine at hand would choose. Settings that make it another run are an error with a remedy;
 * others may change and are told; and what keeps the bits from being the same is told too. */
#ifndef TRAIN_RESUME_H
#define TRAIN_RESUME_H
#include "train/elsewhere.h"
#include "train/state.h"

struct resume {
    struct os                   *os;
    const struct train_listener *listener;
    struct settings              settings; /* the run's, with what the checkpoint decided */
    struct ckpt_store           *store;    /* NULL: no checkpoints */
    struct ckpt_list             list;
    struct ckpt_loaded           loaded;
    bool                         found;
    struct elsewhere             elsewhere;
    i64                          attempt; /* this start's */
    struct str                   run;     /* name of the run, for all its starts */
    struct json                 *before;  /* what resume_text was then; NULL: not found */
    bool                         ended;   /* the run is done: nobody goes on from its checkpoints */
    bool                         ends_changed; /* settings that end a run are others now */
};
/* The folder's lock, and the newest checkpoint that is whole. Of a run without checkpoints only the
 * settings are filled. */
enum status resume_open(struct resume *r, struct os *os, const struct settings *settings,
                        const struct train_listener *listener, struct arena *perm, struct err *err);
void        resume_close(struct resume *r); /* a zeroed one too */
/* Is it this run's? Tells what is not as it was. */
enum status resume_check(struct resume *r, struct session *s, const struct snapshot *n,
                         struct err *err);
void        resume_tell(const struct train_listener *to, const struct train_checkpoint *e);
void        resume_forget(struct resume *r); /* the loaded one is put back: unmap it */
/* What the manifest says of the run, as JSON. */
struct str resume_text(struct session *s, struct arena *perm);

#endif
