/* idx_folder.c - the images of an IDX file as a folder of PNGs, a subfolder a class:
 *
 *     idx_folder IMAGES LABELS FOLDER [COUNT] */
#include "data/data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FRUGAL_HAVE_PNG
#include <png.h>

static bool write_png(struct str path, const u8 *pixels, struct type type, struct arena scratch)
{
    png_image p = { .version = PNG_IMAGE_VERSION,
                    .width   = (u32)type.shape.dim[1],
                    .height  = (u32)type.shape.dim[0],
                    .format  = type.shape.dim[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY };
    return png_image_write_to_file(&p, str_z(&scratch, path), 0, pixels, 0, NULL);
}

int main(int argc, char **argv)
{
    struct arena    perm = arena_open((i64)1 << 32);
    struct dataset *d;
    struct err      err;
    struct os      *os = os_real();
    if (argc < 4) return 2;
    struct data_config config = { .kind    = STR("idx"),
                                  .path    = str_of(argv[1]),
                                  .labels  = str_of(argv[2]),
                                  .samples = argc > 4 ? atoll(argv[4]) : 0 };
    if (dataset_open(os, &config, &perm, &d, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return (int)err.status;
    }
    struct type type   = dataset_feeds(d)->feed[0].type;
    u8         *pixels = NEW(&perm, u8, type_bytes(type));
    for (i64 i = 0; i < dataset_count(d, SPLIT_TRAIN); i++) {
        struct arena scratch = perm;
        i32          label;
        dataset_fetch(d, SPLIT_TRAIN, &i, 1, (void *[]){ pixels, &label });
        struct str dir = str_fmt(&scratch, "%s/%d", argv[3], label);
        if (os->make_dir(os, dir, &err) ||
            !write_png(str_fmt(&scratch, "%.*s/%05lld.png", STR_ARG(dir), (long long)i), pixels,
                       type, scratch)) {
            fprintf(stderr, "%.*s cannot be written\n", STR_ARG(dir));
            return 3;
        }
    }
    dataset_close(d);
    return 0;
}
#else
int main(void)
{
    fprintf(stderr, "this build has no libpng\n");
    return 3;
}
#endif
