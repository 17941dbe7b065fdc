/* embedding.c - rows looked up in a table, and their gradients added up there. */
#include "backend/cpu/ref/ref_int.h"

void ref_EMBEDDING(const struct call *c)
{
    i64 rows = ref_dim(&c->in[0], 0), width = ref_dim(&c->in[0], 1);
    for (i64 i = 0; i < c->in[1].count; i++) {
        i64 row = ref_index(&c->in[1], i);
        ASSERT(row >= 0 && row < rows);
        for (i64 k = 0; k < width; k++)
            ref_store(&c->out[0], i * width + k, ref_load(&c->in[0], row * width + k));
    }
}

enum { PART = 256 }; /* columns summed at a time: so many f64 lie on the stack */

void ref_EMBEDDING_GRAD(const struct call *c)
{
    i64 rows = ref_dim(&c->out[0], 0), width = ref_dim(&c->out[0], 1);
    for (i64 row = 0; row < rows; row++) {
        for (i64 first = 0; first < width; first += PART) {
            i64 part      = MIN(PART, width - first);
            f64 sum[PART] = { 0 };
            for (i64 i = 0; i < c->in[1].count; i++) {
                if (ref_index(&c->in[1], i) != row) continue;
                for (i64 k = 0; k < part; k++) sum[k] += ref_load(&c->in[0], i * width + first + k);
            }
            for (i64 k = 0; k < part; k++) {
                i64 at   = row * width + first + k;
                f64 also = c->in_count > 2 ? ref_load(&c->in[2], at) : 0;
                ref_store(&c->out[0], at, also + sum[k]);
            }
        }
    }
}

/* The least id above `last`, or -1. */
static i64 next_id(const struct tensor *ids, i64 last)
{
    i64 next = -1;
    for (i64 i = 0; i < ids->count; i++) {
        i64 id = ref_index(ids, i);
        if (id > last && (next < 0 || id < next)) next = id;
    }
    return next;
}

void ref_EMBEDDING_ROWS(const struct call *c)
{
    const struct tensor *dy = &c->in[0], *ids = &c->in[1], *rows = &c->out[0];
    i64                  count = ref_dim(rows, 0), width = ref_dim(rows, 1), id = next_id(ids, -1);
    for (i64 row = 0; row < count; row++, id = id < 0 ? id : next_id(ids, id)) {
        ref_store(&c->out[1], row, (f64)id);
        for (i64 k = 0; k < width; k++) {
            f64 sum = 0;
            for (i64 i = 0; i < ids->count && id >= 0; i++)
                if (ref_index(ids, i) == id) sum += ref_load(dy, i * width + k);
            ref_store(rows, row * width + k, sum);
        }
    }
    ASSERT(id < 0); /* there was room for all */
}

/* The place of an id in an index of `used` that rises; -1: it is not there. */
static i64 find_row(const struct tensor *index, i64 used, i64 id)
{
    for (i64 i = 0; i < used; i++)
        if (ref_index(index, i) == id) return i;
    return -1;
}

static void copy_row(const struct tensor *rows, i64 to, i64 from, i64 width)
{
    for (i64 k = 0; k < width; k++)
        ref_store(rows, to * width + k, ref_load(rows, from * width + k));
}

/* A row is put in its place one after the other: those above it move up. */
void ref_ROWS_JOIN(const struct call *c)
{
    const struct tensor *rows = &c->in[0], *index = &c->in[1], *more = &c->in[2],
                        *names = &c->in[3];
    i64 width = ref_dim(rows, 1), used = 0;
    while (used < index->count && ref_index(index, used) >= 0) used++;
    for (i64 i = 0; i < names->count && ref_index(names, i) >= 0; i++) {
        i64 id = ref_index(names, i), at = find_row(index, used, id);
        if (at < 0) {
            ASSERT(used < index->count);
            for (at = used++; at > 0 && ref_index(index, at - 1) > id; at--) {
                ref_store(index, at, (f64)ref_index(index, at - 1));
                copy_row(rows, at, at - 1, width);
            }
            ref_store(index, at, (f64)id);
            for (i64 k = 0; k < width; k++) ref_store(rows, at * width + k, 0);
        }
        for (i64 k = 0; k < width; k++)
            ref_store(rows, at * width + k,
                      ref_load(rows, at * width + k) + ref_load(more, i * width + k));
    }
}
