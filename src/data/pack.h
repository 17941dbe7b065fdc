/* pack.h - samples from anywhere (place.h) into tar shards with indexes: docs/formats/shards.md.
 *
 * The same samples and settings give the same bytes. A shard takes its name when it and its index are
 * whole, so a pack that was killed goes on behind the last whole shard when it is started again. Samples
 * are shuffled on the way, the same way each time, so that every shard holds all kinds. */
#ifndef DATA_PACK_H
#define DATA_PACK_H
#include "data/place.h"

struct pack_config {
    struct str to;          /* PREFIX of PREFIX-000000.tar */
    i64        shard_bytes; /* a shard is ended when it is so long */
    i64        size;        /* > 0: images with a longer short side are scaled down to this one */
    i64        quality;     /* of JPEGs then written; 1 to 100 */
};

struct pack_result {
    i64 samples, shards;
    i64 shards_before;       /* of them from an earlier start */
    i64 bytes_in, bytes_out; /* files read, shards written; of this start */
};

/* Called now and then; false: stop, with INTERRUPTED. */
typedef bool pack_progress(void *context, i64 samples, i64 count);

/* USAGE: shards of another pack are in the way, or a file is no image. */
enum status pack(struct os *os, const struct place *from, const struct pack_config *config,
                 pack_progress *progress, void *context, struct pack_result *out, struct err *err);

/* What reading takes: random samples for up to `seconds`. */
struct pack_speed {
    f64 samples_s, bytes_s;
};
enum status pack_measure(struct os *os, const struct place *p, f64 seconds, struct pack_speed *out,
                         struct err *err);

/* What a pack trades: bytes before and after, and the speed of reading both. */
struct pack_trade {
    struct str         note; /* what was left out of what is packed; empty: nothing */
    struct pack_result result;
    struct pack_speed  before, after;
    struct str         pattern; /* of the shards: PREFIX-{000000..000009}.tar */
};
/* Packs all at `from` (a folder, shards, an address), then reads some of it and of the shards for a second each. */
enum status pack_trade(struct os *os, struct str from, const struct pack_config *config,
                       pack_progress *progress, void *context, struct arena *perm,
                       struct pack_trade *out, struct err *err);

#endif
