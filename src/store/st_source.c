/* st_source.c - our tensors from others': stacked from parts or transposed on the way, a stretch at a
 * time. */
#include "store/st_folder.h"
#include <string.h>

enum { STRETCH = 1 << 18 }; /* numbers at a time: 1 MiB, which stays in a core's cache */

static struct shape part_shape(const struct st_source *s, i32 part)
{
    struct shape want = s->shape;
    want.dim[0]       = s->rows[part];
    return s->transposed ? shape_2(want.dim[1], want.dim[0]) : want;
}

void st_source_strip(const struct st_folder *f, struct st_source *s, struct str prefix)
{
    for (i32 i = 0; i < s->count; i++) {
        struct str bare = str_sub(s->name[i], prefix.len, s->name[i].len);
        if (!str_starts(s->name[i], prefix) || st_folder_find(f, s->name[i])) continue;
        if (st_folder_find(f, bare)) s->name[i] = bare;
    }
}

static enum status check_one(const struct st_folder *f, struct str folder,
                             const struct st_source *s, struct err *err)
{
    char         text[512];
    struct arena scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    ASSERT(s->count >= 1 && s->count <= ST_PARTS_MAX);
    ASSERT(!s->transposed || (s->count == 1 && s->shape.rank == 2));
    for (i32 i = 0; i < s->count; i++) {
        const struct st_tensor *t    = st_folder_find(f, s->name[i]);
        struct shape            want = part_shape(s, i);
        if (!t)
            return err_set(err, STATUS_USAGE, "%.*s lacks the tensor %.*s", STR_ARG(folder),
                           STR_ARG(s->name[i]));
        if (!shape_eq(t->shape, want)) {
            struct str has = type_text(&scratch, type_of(DT_F32, t->shape)),
                       due = type_text(&scratch, type_of(DT_F32, want));
            return err_set(err, STATUS_USAGE,
                           "%.*s: the shape of tensor %.*s is %.*s, and by config.json it is %.*s",
                           STR_ARG(folder), STR_ARG(t->name), STR_ARG(str_sub(has, 3, has.len)),
                           STR_ARG(str_sub(due, 3, due.len)));
        }
        if (!st_is_readable(t->dtype))
            return err_set(err, STATUS_USAGE,
                           "%.*s: tensor %.*s has type %.*s; F32, F16, BF16 or F64 can be read",
                           STR_ARG(folder), STR_ARG(t->name), STR_ARG(t->dtype));
    }
    return STATUS_OK;
}

enum status st_sources_check(const struct st_folder *f, struct str folder,
                             const struct st_source *sources, i64 count, st_ignores *ignores,
                             const void *context, struct arena scratch, struct err *err)
{
    bool       *used = NEW(&scratch, bool, f->count + 1);
    enum status st   = STATUS_OK;
    for (i64 i = 0; !st && i < count; i++) {
        st = check_one(f, folder, &sources[i], err);
        for (i32 k = 0; !st && k < sources[i].count; k++)
            used[st_folder_find(f, sources[i].name[k]) - f->tensors] = true;
    }
    for (i64 i = 0; !st && i < f->count; i++)
        if (!used[i] && !ignores(context, f->tensors[i].name))
            st = err_set(err, STATUS_USAGE,
                         "%.*s has the tensor %.*s, which the model of its config.json lacks",
                         STR_ARG(folder), STR_ARG(f->tensors[i].name));
    return st;
}

/* Elements [from, from + count) of it. */
static void read_stretch(const struct st_tensor *t, i64 from, i64 count, f32 *to)
{
    i64              each  = t->bytes.len / shape_count(t->shape);
    struct st_tensor piece = *t;
    piece.shape            = shape_1(count);
    piece.bytes            = str_sub(t->bytes, from * each, (from + count) * each);
    bool known             = st_to_f32(&piece, to);
    ASSERT(known);
}

static void stream_part(const struct st_tensor *t, i64 at, st_sink *sink, void *context, f32 *room)
{
    i64 all = shape_count(t->shape);
    for (i64 from = 0, count; from < all; from += count) {
        count = MIN(STRETCH, all - from);
        read_stretch(t, from, count, room);
        sink(context, at + from, room, count);
    }
}

/* Rows [from, from + count) of ours: columns of theirs. */
static void read_rows(const struct st_tensor *t, i64 from, i64 count, f32 *to)
{
    enum { SOME = 256 };
    f32 line[SOME];
    i64 columns = t->shape.dim[0], rows = t->shape.dim[1];
    for (i64 some; count; from += some, count -= some, to += some * columns) {
        some = MIN(SOME, count);
        for (i64 c = 0; c < columns; c++) {
            read_stretch(t, c * rows + from, some, line);
            for (i64 r = 0; r < some; r++) to[r * columns + c] = line[r];
        }
    }
}

/* Theirs is [columns, rows]. As many of our rows at a time as fit. */
static void stream_transposed(const struct st_tensor *t, st_sink *sink, void *context,
                              struct arena scratch)
{
    i64  columns = t->shape.dim[0], rows = t->shape.dim[1];
    i64  some = MAX(1, MIN(rows, STRETCH / columns));
    f32 *room = NEW(&scratch, f32, some * columns);
    for (i64 from = 0, count; from < rows; from += count) {
        count = MIN(some, rows - from);
        read_rows(t, from, count, room);
        sink(context, from * columns, room, count * columns);
    }
}

void st_source_stream(const struct st_folder *f, const struct st_source *s, st_sink *sink,
                      void *context, struct arena scratch)
{
    i64 at = 0;
    if (!shape_count(s->shape)) return;
    if (s->transposed) {
        stream_transposed(st_folder_find(f, s->name[0]), sink, context, scratch);
        return;
    }
    f32 *room = NEW(&scratch, f32, MIN(STRETCH, shape_count(s->shape)));
    for (i32 i = 0; i < s->count; i++) {
        const struct st_tensor *t = st_folder_find(f, s->name[i]);
        if (shape_count(t->shape)) stream_part(t, at, sink, context, room);
        at += shape_count(t->shape);
    }
}

bool st_source_is(const struct st_folder *f, const struct st_source *s, struct str dtype)
{
    for (i32 i = 0; i < s->count; i++)
        if (s->transposed || !str_eq(st_folder_find(f, s->name[i])->dtype, dtype)) return false;
    return true;
}

void st_source_bytes(const struct st_folder *f, const struct st_source *s, i64 from, i64 count,
                     void *to)
{
    u8 *at = to;
    ASSERT(!s->transposed);
    for (i32 i = 0; i < s->count && count; i++) {
        struct str bytes = st_folder_find(f, s->name[i])->bytes;
        i64        some  = MAX(0, MIN(count, bytes.len - from));
        if (some) memcpy(at, bytes.data + from, (size_t)some);
        at += some;
        count -= some;
        from = MAX(0, from - bytes.len);
    }
}

void st_source_read(const struct st_folder *f, const struct st_source *s, i64 from, i64 count,
                    f32 *to)
{
    if (s->transposed) {
        i64 columns = s->shape.dim[1];
        ASSERT(from % columns == 0 && count % columns == 0);
        read_rows(st_folder_find(f, s->name[0]), from / columns, count / columns, to);
        return;
    }
    for (i32 i = 0; i < s->count && count; i++) {
        const struct st_tensor *t    = st_folder_find(f, s->name[i]);
        i64                     all  = shape_count(t->shape);
        i64                     some = MAX(0, MIN(count, all - from));
        if (some) read_stretch(t, from, some, to);
        to += some;
        count -= some;
        from = MAX(0, from - all);
    }
}
