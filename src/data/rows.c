/* rows.c - what the formats share when samples come as lines. */
#include "data/rows_int.h"

enum { PERM_MIB = 64, SCRATCH_GIB = 8 }; /* address space */
static const i64 picture_bytes_max = (i64)1
                                     << 30; /* of a file; its pixels have a limit of their own */

enum status rows_open(const struct dataset *d, const struct data_config *config, struct str path,
                      struct arena *perm, struct rows **out, struct err *err)
{
    struct rows *r = *out = NEW(perm, struct rows, 1);
    *r                    = (struct rows){ .d = d, .config = config, .path = path };
    if (!d->format->row)
        return err_set(err, STATUS_USAGE,
                       "samples of data.kind=%.*s cannot be given as rows; give data.eval_path",
                       STR_ARG(d->format->kind));
    r->scratch = arena_open((i64)SCRATCH_GIB << 30);
    if (!r->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    r->perm = arena_part(perm, (i64)PERM_MIB << 20);
    return d->format->rows_open ? d->format->rows_open(r, &r->perm, err) : STATUS_OK;
}

enum status rows_add(struct rows *r, struct str line, void *const *to, i64 at, struct err *err)
{
    const struct feeds *feeds = &r->d->feeds;
    void               *place[FEEDS_MAX];
    ASSERT(line.len <= ROW_BYTES_MAX);
    r->line++;
    if (str_ends(line, STR("\r"))) line.len--;
    if (!str_trim(line).len) return STATUS_NO;
    for (i32 f = 0; f < feeds->count; f++)
        place[f] = (u8 *)to[f] + at * type_bytes(feeds->feed[f].type);
    return r->d->format->row(r, line, place, err);
}

void rows_close(struct rows *r)
{
    if (r && r->scratch.begin) arena_close(&r->scratch);
}

enum status rows_failed(const struct rows *r, enum status st, const struct err *why,
                        struct err *err)
{
    return err_set(err, st, "%.*s:%lld: %s", STR_ARG(r->path), (long long)r->line, why->text);
}

enum status rows_picture(const struct rows *r, struct str path, struct arena *memory,
                         struct str *file, struct image_info *info, struct err *err)
{
    struct os     *os = r->d->os;
    struct os_stat stat;
    struct err     why;
    enum status    st = os->stat(os, path, &stat, &why);
    if (!st && stat.bytes > picture_bytes_max)
        st = err_set(&why, STATUS_USAGE, "%.*s has %lld bytes, too many for a picture",
                     STR_ARG(path), (long long)stat.bytes);
    if (!st) st = os_read_all(os, path, memory, file, &why);
    if (!st) st = image_look(path, *file, info, &why);
    return st ? rows_failed(r, st, &why, err) : STATUS_OK;
}

enum status rows_pixels(const struct rows *r, struct str path, struct str file,
                        const struct image_info *info, const struct image_want *want,
                        struct arena *memory, struct image *out, struct err *err)
{
    struct err  why;
    u8         *room = NEW(memory, u8, image_room(info, file.len, want));
    enum status st   = image_decode(path, file, info, want, room, out, &why);
    return st ? rows_failed(r, st, &why, err) : STATUS_OK;
}
