/* resize.h - a part of an image at another size, smoothed as Pillow does it (bilinear, antialiased).
 *
 * A pixel of the result is a weighted mean of the pixels under a triangle around its place, which
 * is two pixels wide, or two of its own where the image becomes smaller; rows and columns one after
 * the other. Pixels beside the part do not count, as if it had been cut out before. Weights are
 * whole numbers that sum to a power of two, so every processor gives the same bytes, and between
 * the passes seven more bits are kept: the result is within 1 of Pillow's
 * (tests/oracle/test_images.py), which rounds between them. */
#ifndef DATA_RESIZE_H
#define DATA_RESIZE_H
#include "backend/cpu/kernel.h"
#include "data/image.h"

struct resize {
    f64  x, y, width, height; /* the part of the image, in its pixels; whole numbers or not */
    bool mirrored;            /* left becomes right */
    i64  to_width, to_height;
};

/* What becomes of a byte v of channel c: v * factor[c] + shift[c], in f32. */
struct normal {
    f32 factor[3], shift[3];
};

/* Bytes that image_resize needs at `room`. */
i64 resize_room(const struct image *from, const struct resize *r);

/* `to` is u8[to_height, to_width, channels], or with `normal` f32. `isa` bounds the instructions used. */
void image_resize(const struct image *from, const struct resize *r, const struct normal *normal,
                  enum isa isa, u8 *room, void *to);

#endif
