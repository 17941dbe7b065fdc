/* image_int.h - the two decoders, and what they share. */
#ifndef DATA_IMAGE_INT_H
#define DATA_IMAGE_INT_H
#include "data/image.h"

const char *jpeg_version(void);
enum status jpeg_look(struct str name, struct str file, struct image_info *out, struct err *err);
i64         jpeg_room(const struct image_info *info, i64 file_bytes, const struct image_want *want);
enum status jpeg_decode(struct str name, struct str file, const struct image_info *info,
                        const struct image_want *want, u8 *room, struct image *out,
                        struct err *err);

const char *png_version(void);
enum status png_look(struct str name, struct str file, struct image_info *out, struct err *err);
i64         png_room(const struct image_info *info, i64 file_bytes, const struct image_want *want);
enum status png_decode(struct str name, struct str file, const struct image_info *info,
                       const struct image_want *want, u8 *room, struct image *out, struct err *err);

/* Makes a row of `count` RGB pixels grey, by Pillow's weights; `to` may be `rgb`. */
void grey_of(const u8 *rgb, u8 *to, i64 count);

#endif
