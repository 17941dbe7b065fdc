/* stage.h - a sample on its way from its file to its place in a batch.
 *
 *     read ──► decode ──► augment ──► (all of the batch are there) collate
 *
 * Formats whose samples are mapped memory need none of this: they give `fetch`. A format with stages
 * gives `read` and `augment`, and `decode` and `collate` where there is something to do. Many threads
 * call them at once, for different samples; whoever fails names the sample (file, member of a shard)
 * in its sentence, and the loader skips it or stops the run as data.on_error says.
 *
 * Randomness is addressed by (seed, epoch, index) and nothing else, so that any number of threads and
 * any restart make the same batch. */
#ifndef DATA_STAGE_H
#define DATA_STAGE_H
#include "data/data.h"
#include <stdatomic.h>

/* Memory that grows and never shrinks: a worker's next sample finds it as large as the largest was. */
struct buffer {
    u8 *data;
    i64 bytes; /* in use */
    i64 room;
};

/* Makes it `bytes` long; what it held is kept as far as it fits. A failure leaves it as it was. */
enum status buffer_resize(struct buffer *b, i64 bytes, struct err *err);
void        buffer_release(struct buffer *b);

struct sample {
    enum split     split;
    u64            seed; /* with epoch and index: the address of all randomness of this sample */
    i64            epoch, index; /* index: place in the epoch's order */
    i64            number;       /* of the sample in its split of the data set */
    bool           whole;   /* decode everything: it is kept for later epochs, whose crops differ
                                 (loader.keep=on). Else a crop that augment will take is enough */
    struct buffer  raw;     /* after read: the file's bytes */
    struct buffer  decoded; /* after decode: what augment starts from, and must not change: other
                                 epochs may read it too */
    i64            width, height; /* of decoded; kept with it */
    i64            label;         /* from read or decode; kept with decoded */
    struct buffer *spare;         /* the thread's own, for what a stage needs while it runs */
    void          *to[FEEDS_MAX]; /* the sample's place in the batch: augment writes there */
    const atomic_bool
        *stop; /* set: the loader closes; a wait of seconds should end, with a failure */
};

/* A batch whose samples are all in place. */
struct collation {
    enum split   split;
    u64          seed;
    i64          epoch, index, count; /* index: of the first sample */
    void *const *to;                  /* the batch, by feed */
};

#endif
