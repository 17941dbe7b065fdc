/* image.c - which decoder a file needs, and whether it may have it. */
#include "data/image.h"
#include "data/image_int.h"

struct decoder {
    const char *what, *library;
    struct str  magic; /* the first bytes of such files */
    const char *(*version)(void);
    enum status (*look)(struct str, struct str, struct image_info *, struct err *);
    i64 (*room)(const struct image_info *, i64, const struct image_want *);
    enum status (*decode)(struct str, struct str, const struct image_info *,
                          const struct image_want *, u8 *, struct image *, struct err *);
};

static const struct decoder decoders[] = {
    [IMAGE_JPEG] = { "a JPEG", "libjpeg-turbo", STR_INIT("\xff\xd8\xff"),
#ifdef FRUGAL_HAVE_JPEG
                     jpeg_version, jpeg_look, jpeg_room, jpeg_decode
#endif
    },
    [IMAGE_PNG] = { "a PNG", "libpng", STR_INIT("\x89PNG\r\n\x1a\n"),
#ifdef FRUGAL_HAVE_PNG
                    png_version, png_look, png_room, png_decode
#endif
    },
};

const char *image_library(enum image_kind kind)
{
    return decoders[kind].version ? decoders[kind].version() : NULL;
}

static enum status too_large(struct str name, const struct image_info *info, struct err *err)
{
    return err_set(err, STATUS_USAGE, "%.*s has %lldx%lld pixels; at most %lld are supported",
                   STR_ARG(name), (long long)info->width, (long long)info->height,
                   (long long)IMAGE_PIXELS_MAX);
}

enum status image_look(struct str name, struct str file, struct image_info *out, struct err *err)
{
    for (i64 i = 0; i < COUNT_OF(decoders); i++) {
        const struct decoder *d = &decoders[i];
        if (!str_starts(file, d->magic)) continue;
        if (!d->look)
            return err_set(err, STATUS_WORLD,
                           "%.*s is %s, and this frugal was built without %s; `frugal doctor` says "
                           "how to get it",
                           STR_ARG(name), d->what, d->library);
        enum status st = d->look(name, file, out, err);
        if (!st && (out->width > IMAGE_SIDE_MAX || out->height > IMAGE_SIDE_MAX ||
                    out->width * out->height > IMAGE_PIXELS_MAX))
            st = too_large(name, out, err);
        return st;
    }
    return err_set(err, STATUS_USAGE, "%.*s is neither a JPEG nor a PNG", STR_ARG(name));
}

i64 image_room(const struct image_info *info, i64 file_bytes, const struct image_want *want)
{
    return decoders[info->kind].room(info, file_bytes, want) + IMAGE_PAD;
}

enum status image_decode(struct str name, struct str file, const struct image_info *info,
                         const struct image_want *want, u8 *room, struct image *out,
                         struct err *err)
{
    const struct rect *p = &want->part;
    ASSERT(p->x >= 0 && p->width > 0 && p->x + p->width <= info->width);
    ASSERT(p->y >= 0 && p->height > 0 && p->y + p->height <= info->height);
    ASSERT(want->channels == 1 || want->channels == 3);
    return decoders[info->kind].decode(name, file, info, want, room, out, err);
}

void grey_of(const u8 *rgb, u8 *to, i64 count)
{
    for (i64 i = 0; i < count; i++, rgb += 3)
        to[i] = (u8)((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16);
}
