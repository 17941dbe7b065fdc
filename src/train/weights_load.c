/* weights_load.c - tensors from mapped files, a folder of Hugging Face's or a file of ours, to where they live: by all
 * threads, a part at a time, and turned round, rounded or packed on the way. */
#include "base/half.h"
#include "store/st_folder.h"
#include "train/train_int.h"

enum { STRETCH_BYTES = 64 << 20 }; /* for one stretch in the type of the tensor */

struct weights_sources weights_sources_new(const struct session *s, struct arena *perm)
{
    i64 most = s->set->persistent_count;
    return (struct weights_sources){ NEW(perm, struct st_source, most + 1),
                                     NEW(perm, const struct persistent *, most + 1), 0 };
}

struct piece { /* of one of our tensors: numbers [from, from + count) */
    i64 source, from, count;
};

struct loading {
    const struct st_folder       *f;
    const struct weights_sources *all;
    const struct piece           *pieces;
    f32 *room; /* of each worker, for numbers on their way to another type */
    i64  each;
};

static struct str file_type(enum dtype t)
{
    return t == DT_BF16 ? STR("BF16") : t == DT_F32 ? STR("F32") : STR("F64");
}

static bool is_same(const struct st_folder *f, const struct weights_sources *all, i64 i)
{
    return st_source_is(f, &all->list[i], file_type(all->ours[i]->type.dtype));
}

static void fill_piece(void *context, i64 part, void *to, i32 worker)
{
    const struct loading   *l     = context;
    const struct piece     *p     = &l->pieces[part];
    const struct st_source *from  = &l->all->list[p->source];
    enum dtype              dtype = l->all->ours[p->source]->type.dtype;
    i64                     bytes = dtype_bytes(dtype);
    if (is_same(l->f, l->all, p->source)) {
        st_source_bytes(l->f, from, p->from * bytes, p->count * bytes, to);
        return;
    }
    f32 *values = dtype == DT_F32 ? to : l->room + worker * l->each;
    st_source_read(l->f, from, p->from, p->count, values);
    for (i64 i = 0; dtype == DT_BF16 && i < p->count; i++)
        ((u16 *)to)[i] = bf16_from_f32(values[i]);
    for (i64 i = 0; dtype == DT_F64 && i < p->count; i++) ((f64 *)to)[i] = (f64)values[i];
}

/* Whole rows, where they are turned round on the way. */
static i64 piece_count(const struct st_source *from, enum dtype t)
{
    i64 most = BACKEND_PART_BYTES / dtype_bytes(t), row = from->shape.dim[1];
    return from->transposed ? most / row * row : most;
}

static bool in_pieces(const struct weights_sources *all, i64 i)
{
    const struct persistent *t = all->ours[i];
    return t->type.dtype != DT_U8 && !(t->dealt && all->list[i].transposed) &&
           piece_count(&all->list[i], t->type.dtype) > 0;
}

/* Those that lie as one piece of memory, in any of three types. */
static void load_pieces(struct session *s, const struct st_folder *f,
                        const struct weights_sources *all, struct pool *pool, struct arena scratch)
{
    i64  most = 0, count = 0;
    bool converts = false;
    for (i64 i = 0; i < all->count; i++) {
        if (!in_pieces(all, i)) continue;
        most +=
            shape_count(all->list[i].shape) / piece_count(&all->list[i], all->ours[i]->type.dtype) +
            1;
        converts |= !is_same(f, all, i);
    }
    struct piece        *pieces = NEW(&scratch, struct piece, most + 1);
    struct backend_part *parts  = NEW(&scratch, struct backend_part, most + 1);
    for (i64 i = 0; i < all->count; i++) {
        const struct persistent *t     = all->ours[i];
        i64                      first = weights_first(s, t);
        i64 end = MIN(shape_count(all->list[i].shape), first + shape_count(t->type.shape));
        for (i64 from = first; in_pieces(all, i) && from < end; from += pieces[count++].count) {
            i64 some      = MIN(piece_count(&all->list[i], t->type.dtype), end - from);
            i64 bytes     = dtype_bytes(t->type.dtype);
            pieces[count] = (struct piece){ i, from, some };
            parts[count] =
                (struct backend_part){ t->offset + (from - first) * bytes, some * bytes };
        }
    }
    struct loading l = { .f = f, .all = all, .pieces = pieces };
    l.each           = converts ? BACKEND_PART_BYTES / (i64)sizeof(u16) : 0;
    l.room           = NEW(&scratch, f32, l.each * pool_threads(pool) + 1);
    s->backend->table->load(s->backend, parts, count, pool, fill_piece, &l);
}

/* Numbers of the largest matrix that is kept in fewer bits; 0: none is. */
static i64 largest_packed(const struct weights_sources *all)
{
    i64 most = 0;
    for (i64 i = 0; i < all->count; i++)
        if (all->ours[i]->type.dtype == DT_U8) most = MAX(most, shape_count(all->list[i].shape));
    return most;
}

void weights_load(struct session *s, const struct st_folder *f, const struct weights_sources *all,
                  struct arena scratch)
{
    i64               given = s->settings->train.threads, packed = largest_packed(all);
    struct stopwatch  watch  = stopwatch_start(s->os);
    struct pool      *pool   = pool_open(&scratch, given ? (i32)given : pool_machine_threads());
    struct packer    *packer = packed ? packed_open(s, packed, &scratch) : NULL;
    struct weights_to to     = { .s = s, .scratch = arena_part(&scratch, STRETCH_BYTES) };
    load_pieces(s, f, all, pool, scratch);
    pool_close(pool);
    for (i64 i = 0; i < all->count; i++) {
        s->loaded.bytes += type_bytes(all->ours[i]->type);
        if (in_pieces(all, i)) continue;
        to.t = all->ours[i];
        if (to.t->type.dtype == DT_U8) packed_load(packer, f, &all->list[i], to.t);
        else st_source_stream(f, &all->list[i], weights_put_stretch, &to, scratch);
    }
    if (packer) packed_close(packer);
    s->loaded.seconds += stopwatch_s(&watch);
}
