/* feed.h - what one sample brings: the contract between data (which fills it) and models (which
 * read it). A model's inputs carry the feeds' names; a batch adds axis 0. */
#ifndef IR_FEED_H
#define IR_FEED_H
#include "ir/type.h"

#define FEEDS_MAX 8
#define FEED_CHANNELS_MAX 3

struct feed {
    struct str  name; /* "x": the sample, "y": its target, "lens": valid length, "dense": numbers,
                          "y_other", "y_share": a sample mixed of two, "position": of each token in its document */
    struct type type; /* of one sample, without the batch axis (rank 0: a scalar) */
    i64         range; /* i32 feeds: values lie in [0, range): classes, vocabulary; else 0. A y of -1 is no target */
};

/* What a model makes of bytes: times `factor`, plus `shift`, by channel. */
struct pixels {
    bool is_normal; /* else bytes / 255 */
    f32  factor[FEED_CHANNELS_MAX], shift[FEED_CHANNELS_MAX];
};

struct feeds {
    struct feed   feed[FEEDS_MAX];
    i32           count;
    struct pixels pixels; /* of an x of u8 */
};

const struct feed *feeds_find(const struct feeds *f, struct str name); /* NULL when absent */

#endif
