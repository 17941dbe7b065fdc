/* image_write.h - pictures made smaller and written as JPEG, for `frugal pack --size`. */
#ifndef DATA_IMAGE_WRITE_H
#define DATA_IMAGE_WRITE_H
#include "data/image.h"
#include "data/stage.h"

/* RGB pixels, rows without gaps, as a JPEG of that quality (1 to 100; chroma at half size, as usual). */
enum status image_write_jpeg(const u8 *rgb, i64 width, i64 height, i64 quality, struct buffer *to,
                             struct err *err);

/* A picture whose shorter side is longer than `size` as a JPEG whose shorter side is that; others stay
 * as they are, *changed false and `to` untouched. `spare` is for what is needed meanwhile. */
enum status image_shrink(struct str name, struct str file, i64 size, i64 quality, struct buffer *to,
                         struct buffer *spare, bool *changed, struct err *err);

#endif
