/* mincut.c - Dinic: find how far each vertex lies from the source, push along shortest ways until
 * they are full, and again. What the source still reaches when no way is left is its side. */
#include "compile/mincut.h"

struct edge {
    i32 to, next; /* next edge from the same vertex, or -1 */
    i64 room;     /* what may still be pushed */
};

struct mincut {
    struct edge *edges; /* an edge and its opposite are neighbours: 2k and 2k + 1 */
    i32          edge_count, edges_max, vertex_count;
    i32         *first;    /* edge of each vertex, or -1 */
    i32         *current;  /* edge to go on with */
    i32         *distance; /* from the source; -1: not reached */
    i32         *queue;    /* of vertices; then the edges of the way being followed */
};

struct mincut *mincut_new(struct arena *perm, i32 vertex_count, i32 edges_max)
{
    struct mincut *m = NEW(perm, struct mincut, 1);
    m->vertex_count  = vertex_count;
    m->edges_max     = 2 * edges_max;
    m->edges         = NEW(perm, struct edge, m->edges_max);
    m->first         = NEW(perm, i32, vertex_count);
    m->current       = NEW(perm, i32, vertex_count);
    m->distance      = NEW(perm, i32, vertex_count);
    m->queue         = NEW(perm, i32, vertex_count);
    for (i32 i = 0; i < vertex_count; i++) m->first[i] = -1;
    return m;
}

static void add_half(struct mincut *m, i32 from, i32 to, i64 room)
{
    ASSERT(m->edge_count < m->edges_max);
    m->edges[m->edge_count] = (struct edge){ to, m->first[from], room };
    m->first[from]          = m->edge_count++;
}

void mincut_edge(struct mincut *m, i32 from, i32 to, i64 capacity)
{
    ASSERT(capacity >= 0);
    add_half(m, from, to, capacity);
    add_half(m, to, from, 0);
}

/* Distances by breadth; false once the sink is out of reach. */
static bool measure(struct mincut *m)
{
    i32 head = 0, tail = 0;
    for (i32 i = 0; i < m->vertex_count; i++) m->distance[i] = -1;
    m->distance[MINCUT_SOURCE] = 0;
    m->queue[tail++]           = MINCUT_SOURCE;
    while (head < tail) {
        i32 v = m->queue[head++];
        for (i32 e = m->first[v]; e >= 0; e = m->edges[e].next) {
            i32 to = m->edges[e].to;
            if (!m->edges[e].room || m->distance[to] >= 0) continue;
            m->distance[to]  = m->distance[v] + 1;
            m->queue[tail++] = to;
        }
    }
    return m->distance[MINCUT_SINK] >= 0;
}

static bool leads_on(const struct mincut *m, i32 from, i32 e)
{
    return m->edges[e].room && m->distance[m->edges[e].to] == m->distance[from] + 1;
}

/* Pushes what fits along the way of `length` edges. */
static void push(struct mincut *m, const i32 *way, i32 length)
{
    i64 least = INT64_MAX;
    for (i32 i = 0; i < length; i++) least = MIN(least, m->edges[way[i]].room);
    for (i32 i = 0; i < length; i++) {
        m->edges[way[i]].room -= least;
        m->edges[way[i] ^ 1].room += least;
    }
}

/* All shortest ways, one after the other, by depth; a dead end is never entered twice. */
static void fill(struct mincut *m)
{
    i32 *way = m->queue, length = 0;
    for (i32 i = 0; i < m->vertex_count; i++) m->current[i] = m->first[i];
    for (i32 at = MINCUT_SOURCE;;) {
        if (at == MINCUT_SINK) {
            push(m, way, length);
            at     = MINCUT_SOURCE;
            length = 0;
        }
        i32 e = m->current[at];
        while (e >= 0 && !leads_on(m, at, e)) e = m->edges[e].next;
        m->current[at] = e;
        if (e >= 0) {
            way[length++] = e;
            at            = m->edges[e].to;
        } else if (length) {
            at             = m->edges[way[--length] ^ 1].to;
            m->current[at] = m->edges[m->current[at]].next;
        } else {
            return;
        }
    }
}

void mincut_solve(struct mincut *m, bool *with_source)
{
    while (measure(m)) fill(m);
    for (i32 i = 0; i < m->vertex_count; i++) with_source[i] = m->distance[i] >= 0;
}
