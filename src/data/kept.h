/* kept.h - decoded samples in memory, for later epochs: filled once by many threads, never emptied.
 *
 * Augmentation comes after it and is as fresh as without it. */
#ifndef DATA_KEPT_H
#define DATA_KEPT_H
#include "data/stage.h"

struct kept;

/* For samples 0 to count-1 of a split, in at most `bytes`; NULL: the system refuses the addresses. */
struct kept *kept_open(i64 count, i64 bytes);
void         kept_close(struct kept *k);
/* Points `decoded` of s at what was kept of s->number, and sets what is kept with it. */
bool kept_get(const struct kept *k, struct sample *s);
void kept_put(struct kept *k, const struct sample *s); /* where it fits */
i64  kept_count(const struct kept *k);
i64  kept_bytes(const struct kept *k);

#endif
