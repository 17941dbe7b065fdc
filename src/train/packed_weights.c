/* packed_weights.c - frozen matrices in fewer bits (train.lora.weights): packed once, when they are loaded. */
#include "base/fp8.h"
#include "base/nf4.h"
#include "store/st_folder.h"
#include "train/train_int.h"
#include <string.h>

const struct persistent *packed_part(const struct session *s, const struct persistent *codes,
                                     const char *leaf)
{
    char         text[512]; /* the scratch arena may be in use */
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    if (codes->name.len > (i64)sizeof text / 2) return NULL;
    return program_set_find(s->set, str_cat(&scratch, codes->name, str_of(leaf)));
}

enum { STRETCH = 1 << 18 }; /* numbers that one thread reads at a time */

struct packer {
    struct session *s;
    struct pool    *pool;
    struct arena    scratch;
    f32            *values, *scales;
    u8             *codes, *sizes;
};

struct packer *packed_open(struct session *s, i64 numbers_max, struct arena *scratch)
{
    struct packer *p     = NEW(scratch, struct packer, 1);
    i64            given = s->settings->train.threads, most = numbers_max;
    *p       = (struct packer){ .s      = s,
                                .values = NEW(scratch, f32, most),
                                .codes  = NEW(scratch, u8, most) };
    p->sizes = NEW(scratch, u8, most / NF4_BLOCK + 1);
    p->scales =
        NEW(scratch, f32, most / NF4_BLOCK + 1); /* of rows, too, which are longer than a block */
    p->pool    = pool_open(scratch, given ? (i32)given : pool_machine_threads());
    p->scratch = *scratch;
    return p;
}

void packed_close(struct packer *p) { pool_close(p->pool); }

struct reading {
    const struct st_folder *f;
    const struct st_source *from;
    f32                    *to;
    i64                     count;
};

static void read_some(void *context, i64 index, i32 worker)
{
    const struct reading *r    = context;
    i64                   from = index * STRETCH;
    (void)worker;
    st_source_read(r->f, r->from, from, MIN(STRETCH, r->count - from), r->to + from);
}

static void keep_stretch(void *context, i64 from, const f32 *values, i64 count)
{
    memcpy((f32 *)context + from, values, (size_t)count * sizeof *values);
}

/* By all threads; a transposed matrix, which is small, by one. */
static void read_all(struct packer *p, const struct st_folder *f, const struct st_source *from)
{
    struct reading r = { f, from, p->values, shape_count(from->shape) };
    if (from->transposed) st_source_stream(f, from, keep_stretch, p->values, p->scratch);
    else pool_run(p->pool, (r.count + STRETCH - 1) / STRETCH, read_some, &r);
}

static void put(struct session *s, const struct persistent *t, i64 from, const void *bytes,
                i64 count)
{
    s->backend->table->put(s->backend, t->offset + from, bytes, count);
}

/* Rows of one matrix of theirs, from element `at` of ours on. */
static void put_nf4(struct packer *p, const struct persistent *t, i64 at, i64 count)
{
    i64 scales = NF4_SCALES * (i64)sizeof *p->scales;
    nf4_pack(p->values + at, count, p->codes, p->sizes, p->scales, p->pool, p->scratch);
    put(p->s, t, at / 2, p->codes, count / 2);
    put(p->s, packed_part(p->s, t, ".sizes"), at / NF4_BLOCK, p->sizes, count / NF4_BLOCK);
    put(p->s, packed_part(p->s, t, ".scales"), at / NF4_GROUP * scales, p->scales,
        count / NF4_GROUP * scales);
}

struct fp8_rows {
    const f32 *from;
    u8        *codes;
    f32       *scales;
    i64        width;
};

/* Several side by side, which the compiler makes vectors of; those that are no numbers do not count. */
static f32 largest(const f32 *x, i64 count)
{
    enum { LANES = 32 };
    f32 most[LANES] = { 0 };
    i64 whole       = count - count % LANES;
    for (i64 i = 0; i < whole; i += LANES)
        for (i64 k = 0; k < LANES; k++)
            most[k] = fabsf(x[i + k]) > most[k] ? fabsf(x[i + k]) : most[k];
    for (i64 i = whole; i < count; i++) most[0] = fmaxf(most[0], fabsf(x[i]));
    for (i64 k = 1; k < LANES; k++) most[0] = fmaxf(most[0], most[k]);
    return most[0];
}

static void pack_row(void *context, i64 row, i32 worker)
{
    struct fp8_rows *r    = context;
    const f32       *x    = r->from + row * r->width;
    f32              most = largest(x, r->width);
    (void)worker;
    f32 scale      = most > 0 ? most / fp8_max(FP8_E4M3) : 1;
    u8 *to         = r->codes + row * r->width;
    r->scales[row] = scale;
    for (i64 i = 0; i < r->width; i++) to[i] = fp8_e4m3_from_f32(x[i] / scale);
}

static void put_fp8(struct packer *p, const struct persistent *t)
{
    i64             rows = t->type.shape.dim[0], width = t->type.shape.dim[1];
    struct fp8_rows r = { p->values, p->codes, p->scales, width };
    pool_run(p->pool, rows, pack_row, &r);
    put(p->s, t, 0, r.codes, rows * width);
    put(p->s, packed_part(p->s, t, ".scales"), 0, r.scales, rows * (i64)sizeof *r.scales);
}

void packed_load(struct packer *p, const struct st_folder *f, const struct st_source *from,
                 const struct persistent *codes)
{
    i64 at = 0;
    read_all(p, f, from);
    if (!packed_part(p->s, codes, ".sizes")) {
        put_fp8(p, codes);
        return;
    }
    for (i32 i = 0; i < from->count; i++) {
        i64 count = from->rows[i] * from->shape.dim[1];
        put_nf4(p, codes, at, count);
        at += count;
    }
}
