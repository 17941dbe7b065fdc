/* shard.h - the index of a tar shard: which samples it holds, and where (docs/formats/shards.md).
 *
 * WebDataset's rule: a member's key is its path up to the first dot of the last part, and members one
 * behind the other with the same key are a sample: cat/7.jpg, cat/7.cls. The index is what lies in
 * SHARD.idx: it is mapped and used as it is, so a set of any size needs no memory for it. */
#ifndef DATA_SHARD_H
#define DATA_SHARD_H
#include "base/err.h"
#include "base/text.h"

enum { SHARD_TAG_BYTES = 64 };

struct shard_sample {
    i64 first; /* of its members; the next sample's first is behind its last */
    i32 class; /* what its .cls says; -1: it has none */
    u32 zero;
};

struct shard_member {
    i64 at, bytes; /* in the shard */
    u32 name_at, name_bytes;
};

struct shard_index {                 /* views into the file's bytes */
    struct str                 path; /* for messages */
    i64                        shard_bytes;
    struct str                 tag; /* which version of the shard it was made from */
    i64                        count, member_count;
    const struct shard_sample *sample; /* [count + 1] */
    const struct shard_member *member;
    const char                *names;
};

struct str shard_key(struct str  name,
                     struct str *extension); /* data NULL: it belongs to no sample */

/* The index of a whole shard as the bytes of its file. `tag` is at most SHARD_TAG_BYTES long. */
enum status shard_index_make(struct str path, struct str shard, struct str tag, struct arena *perm,
                             struct str *out, struct err *err);
/* Every number in it is checked: nothing it speaks of lies outside. */
enum status shard_index_parse(struct str path, struct str bytes, struct shard_index *out,
                              struct err *err);
struct str  shard_member_name(const struct shard_index *x, i64 member);
/* The file a sample is about, the first with an extension that we can decode; -1: it has none. */
i64  shard_payload(const struct shard_index *x, i64 sample);
bool shard_is_payload(struct str extension); /* jpg, jpeg, png in any case */

#endif
