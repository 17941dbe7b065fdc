/* specimen.h - what a text model writes while it is trained: a few lines for whoever looks at its run. */
#ifndef INFER_SPECIMEN_H
#define INFER_SPECIMEN_H
#include "train/use.h"

/* A train_writer. The same weights write the same text, unless the time is over before its end or the run is asked to
 * stop. Whatever fails (a model that does not predict tokens, no tokenizer that is known) only means that there is
 * none. */
struct train_text specimen_write(struct session *now, f64 seconds, struct arena *perm);

#endif
