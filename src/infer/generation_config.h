/* generation_config.h - what a model's folder says about writing texts with it. */
#ifndef INFER_GENERATION_CONFIG_H
#define INFER_GENERATION_CONFIG_H
#include "base/os.h"

enum { GENERATION_ENDS_MAX = 32 };

struct generation_config {
    u32 ends[GENERATION_ENDS_MAX]; /* tokens that end a text */
    i64 end_count;
    f64 temperature, top_p; /* where do_sample is true; NaN: it does not say */
    i64 top_k;              /* likewise; -1 */
};

/* Of a model's folder; of a folder of adapters that lacks the file it is that of their model, `base`, which is else the
 * same folder. A folder without it says what its config.json says of this, an empty name nothing. */
enum status generation_config_read(struct os *os, struct str folder, struct str base,
                                   struct arena scratch, struct generation_config *out,
                                   struct err *err);
/* The same on memory; `name` is for messages. */
enum status generation_config_parse(struct str name, struct str text, struct arena scratch,
                                    struct generation_config *out, struct err *err);

#endif
