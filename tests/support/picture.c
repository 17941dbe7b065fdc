/* picture.c - JPEG files for tests. */
#include "support/picture.h"
#include "base/rng.h"
#ifdef FRUGAL_HAVE_JPEG
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h> /* which needs stdio.h before it */

struct str picture_jpeg(struct arena *perm, i64 width, i64 height, u64 seed)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr       fatal;
    u8                         *out = NULL, *row = NEW(perm, u8, 3 * width);
    unsigned long               bytes = 0;
    c.err                             = jpeg_std_error(&fatal);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &bytes);
    c.image_width      = (JDIMENSION)width;
    c.image_height     = (JDIMENSION)height;
    c.input_components = 3;
    c.in_color_space   = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    for (i64 y = 0; y < height; y++) {
        for (i64 i = 0; i < 3 * width; i++) {
            u32 noise = rng_u32((struct rng_key){ .seed = seed }, (u64)(y * 3 * width + i)) % 64;
            row[i]    = (u8)((u64)(y * 190 / height) * (seed % 2) + noise);
        }
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    struct str copy = str_copy(perm, (struct str){ (char *)out, (i64)bytes });
    free(out);
    return copy;
}
#else
struct str picture_jpeg(struct arena *perm, i64 width, i64 height, u64 seed)
{
    (void)perm, (void)width, (void)height, (void)seed;
    return STR("");
}
#endif
