/* mincut.h - the cheapest way to part a source from a sink: which vertices stay with the source so
 * that the edges leading out of their set cost least (Dinic's algorithm). */
#ifndef COMPILE_MINCUT_H
#define COMPILE_MINCUT_H
#include "base/arena.h"

enum { MINCUT_SOURCE, MINCUT_SINK, MINCUT_FIRST }; /* vertices of the caller's own begin at FIRST */

#define MINCUT_NEVER ((i64)1 << 60) /* an edge that must not be cut */

struct mincut;

struct mincut *mincut_new(struct arena *perm, i32 vertex_count, i32 edges_max);
void           mincut_edge(struct mincut *m, i32 from, i32 to, i64 capacity); /* directed, >= 0 */
/* with_source[vertex]: the smallest such set. Once; some path must have no MINCUT_NEVER-only way. */
void mincut_solve(struct mincut *m, bool *with_source);

#endif
