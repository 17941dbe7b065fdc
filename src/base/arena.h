/* arena.h - memory by lifetime: results go in `perm` (a pointer), temporaries in `scratch` (a
 * copy of the struct, so that leaving the function frees them).
 *
 * An arena is a range of reserved address space; pages are touched only when used, and under a
 * limit of address space (ulimit -v) mapped only when used. What comes out is zeroed. Running out
 * is our fault (every quantity has a maximum), so it asserts. This is the only file of the house
 * that asks the system for memory. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include "base/types.h"

struct arena_head;

struct arena {
    u8                *begin; /* next free byte */
    u8                *end;
    struct arena_head *head; /* shared by all copies; NULL: memory the caller lent */
};

struct arena arena_open(i64 reserve_bytes); /* address space; begin is NULL if refused */
void         arena_close(struct arena *a);  /* what arena_open gave, or a copy; not a part */
void        *arena_take(struct arena *a, i64 count, i64 item_bytes, i64 align); /* zeroed */
struct arena arena_part(struct arena *a, i64 bytes); /* a smaller arena carved from `a`: another
                                                        thread may use it while we use `a` */
void arena_on_refusal(void (*tell)(i64 bytes));      /* who says, before the process ends, that the
                                                           system refuses that much more */
i64  arena_system_calls(void); /* how often memory was asked of the system: for tests */

/* Whole zeroed pages for a backend's arena (the one planned by compile); NULL if refused. */
void *pages_open(i64 bytes);
void  pages_close(void *p, i64 bytes);

#define NEW(a, type, count)                                                                        \
    ((type *)arena_take((a), (count), (i64)sizeof(type), (i64) _Alignof(type)))

#endif
