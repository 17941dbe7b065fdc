/* show_image.c - a part of a picture at another size, as raw bytes on stdout:
 *
 *     show_image FILE X Y WIDTH HEIGHT SIZE CHANNELS [scaled]
 *
 * SIZE 0: as it is in the file; scaled: a JPEG is decoded as training does it, no larger than it must be. */
#include "base/os.h"
#include "data/resize.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct arena      perm = arena_open((i64)1 << 32);
    struct err        err;
    struct str        file;
    struct image_info info;
    struct image      image;
    if (argc != 8 && argc != 9) return 2;
    struct image_want want = { .part     = { atoll(argv[2]), atoll(argv[3]), atoll(argv[4]),
                                             atoll(argv[5]) },
                               .channels = atoll(argv[7]) };
    i64               size = atoll(argv[6]), width = size ? size : want.part.width,
        height = size ? size : want.part.height;
    if (argc == 9) want.width = want.height = size;
    struct str  name = str_of(argv[1]);
    enum status st   = os_read_all(os_real(), name, &perm, &file, &err);
    if (!st) st = image_look(name, file, &info, &err);
    if (!st)
        st = image_decode(name, file, &info, &want,
                          NEW(&perm, u8, image_room(&info, file.len, &want)), &image, &err);
    if (st) {
        fprintf(stderr, "%s\n", err.text);
        return (int)st;
    }
    struct resize r     = { image.x,
                            image.y,
                            (f64)want.part.width * image.scale,
                            (f64)want.part.height * image.scale,
                            false,
                            width,
                            height };
    size_t        bytes = (size_t)(width * height * want.channels);
    u8           *to    = NEW(&perm, u8, (i64)bytes);
    image_resize(&image, &r, NULL, kernel_isa(), NEW(&perm, u8, resize_room(&image, &r)), to);
    return fwrite(to, 1, bytes, stdout) == bytes ? 0 : 3;
}
