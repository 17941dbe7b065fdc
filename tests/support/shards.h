/* shards.h - small tar shards for tests, whose samples tell their own number. */
#ifndef SUPPORT_SHARDS_H
#define SUPPORT_SHARDS_H
#include "base/text.h"

/* One member more at the end of an archive under way; then, once, the two empty blocks. */
void tar_add(struct textbuf *tar, struct str name, struct str bytes);
void tar_end(struct textbuf *tar);

/* A shard of `count` samples number first, first + 1, …: N.jpg of `bytes` bytes made from the number,
 * and N.cls with number % 10. Its bytes. */
struct str shard_bytes(struct arena *perm, i64 first, i64 count, i64 bytes);
/* Is this the .jpg of that number? */
bool shard_is(struct str jpg, i64 number, i64 bytes);

#endif
