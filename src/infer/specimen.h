/* specimen.h - what a text model that was just trained writes: a few lines for whoever looks at its run. */
#ifndef INFER_SPECIMEN_H
#define INFER_SPECIMEN_H
#include "train/use.h"

struct specimen {
    struct str prompt,
        text; /* UTF-8; the text is without the prompt, and empty where there is none */
};

/* With the weights at `out`, within about so many seconds beside opening the model; texts in perm. Whatever fails (a
 * model that does not predict tokens, no tokenizer that is known) only means that there is none. */
struct specimen specimen_write(struct os *os, const struct settings *settings, struct str out,
                               f64 seconds, struct arena *perm);

#endif
