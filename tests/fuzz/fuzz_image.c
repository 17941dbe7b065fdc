/* fuzz_image.c - any bytes as a JPEG or PNG: refused with a sentence, or a part of it can be had. */
#include "base/hash.h"
#include "data/image.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { PIXELS_MAX = 1 << 18 }; /* so that an input is done in milliseconds */

/* The sums of a PNG's chunks made right, or libpng would look no further than at those. */
static void sums_right(u8 *file, i64 bytes)
{
    for (i64 at = 8; at + 12 <= bytes;) {
        i64 length = (i64)file[at] << 24 | file[at + 1] << 16 | file[at + 2] << 8 | file[at + 3];
        if (length > bytes - at - 12) return;
        u32 sum = crc32_add(0, (struct str){ (char *)file + at + 4, length + 4 });
        sum     = __builtin_bswap32(sum);
        memcpy(file + at + 8 + length, &sum, sizeof sum);
        at += 12 + length;
    }
}

/* Its memory has the exact size, so that the address sanitizer sees who goes beyond it. */
static void part_of(struct str file, const struct image_info *info, const struct image_want *want)
{
    struct image image;
    struct err   err  = { 0 };
    u8          *room = malloc((size_t)image_room(info, file.len, want));
    ASSERT(room);
    if (image_decode(STR("fuzz"), file, info, want, room, &image, &err)) ASSERT(err.text[0]);
    else ASSERT(image.width >= 1 && image.height >= 1);
    free(room);
}

static void any_file(struct str file)
{
    struct image_info info;
    struct err        err = { 0 };
    if (image_look(STR("fuzz"), file, &info, &err)) {
        ASSERT(err.text[0]);
        return;
    }
    if (info.width * info.height > PIXELS_MAX) return;
    u8                last = (u8)file.data[file.len - 1]; /* chooses a part */
    i64               x = last % 8 * info.width / 9, y = last / 8 % 8 * info.height / 9;
    struct image_want want = { .part     = { x, y, info.width - x, info.height - y },
                               .width    = last % 5 * 8,
                               .height   = last % 5 * 8,
                               .channels = last % 2 ? 3 : 1 };
    part_of(file, &info, &want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    u8 *copy = malloc(bytes + 1);
    ASSERT(copy);
    memcpy(copy, data, bytes);
    if (bytes > 8 && data[0] == 0x89) sums_right(copy, (i64)bytes);
    any_file((struct str){ (char *)copy, (i64)bytes });
    free(copy);
    return 0;
}
