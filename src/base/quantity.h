/* quantity.h - numbers as people read them, for sentences of any room. */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H
#include "base/text.h"

struct str text_count(struct arena *perm, f64 value);     /* 31,200 */
struct str text_clock(struct arena *perm, f64 seconds);   /* 0:12, 1:02:03 */
struct str text_dollars(struct arena *perm, f64 dollars); /* $0.0003 */

#endif
