/* image.h - pictures in memory: JPEG and PNG files → pixels → resized.
 *
 * Pure functions over memory that the caller gives; any thread may call them at any time. A file is
 * first looked at (its kind and size), then a part of it is decoded: rows below that part are not
 * read at all, columns beside it are not transformed, and a JPEG comes out at half, a quarter or an
 * eighth of its size where that is still at least the size wanted.
 *
 * Pixels are those of Pillow's convert("RGB") or convert("L") (of a JPEG in colour: its own luma):
 * grey and palettes become RGB, alpha is dropped, CMYK is taken as Adobe stores it (inverted), of
 * 16 bits the upper eight stay. EXIF's orientation is not followed, as torchvision's folders do
 * not: pixels stay where the file has them. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H
#include "base/err.h"
#include "base/text.h"

/* A file of 1 MB may claim any size (a decompression bomb); what we refuse is above these. */
#define IMAGE_SIDE_MAX 65500 /* libjpeg's own limit */
#define IMAGE_PIXELS_MAX ((i64)1 << 27)

#define IMAGE_PAD 64

enum image_kind { IMAGE_JPEG, IMAGE_PNG };

struct image_info {
    enum image_kind kind;
    i64             width, height;
    bool            at_once; /* rows do not come one after the other: an interlaced PNG */
};

struct rect {
    i64 x, y, width, height;
};

struct image_want {
    struct rect part;          /* of the file's picture */
    i64         width, height; /* a JPEG may come scaled down, not below this; 0: never scaled */
    i64         channels;      /* 1 or 3 */
};

/* Decoded: `channels` bytes a pixel. (x, y) is where the part wanted begins, and scale how large it
 * is in its own pixels: part.width * scale, which need not be whole. */
struct image {
    u8 *pixels;
    i64 width, height, channels;
    i64 stride; /* bytes from a row to the next */
    f64 x, y, scale;
};

/* The version of the library that decodes it; NULL: this build has none. */
const char *image_library(enum image_kind kind);

/* `name` is for sentences. */
enum status image_look(struct str name, struct str file, struct image_info *out, struct err *err);
/* Bytes that image_decode needs at `room`, in which the image will lie, with IMAGE_PAD bytes behind its
 * last row that may be read too. */
i64 image_room(const struct image_info *info, i64 file_bytes, const struct image_want *want);
enum status image_decode(struct str name, struct str file, const struct image_info *info,
                         const struct image_want *want, u8 *room, struct image *out,
                         struct err *err);

#endif
