/* photos.c - files that load like photographs: JPEGs whose spectrum falls as 1/f.
 *
 *     cmake --build build --target bench_photos && build/bench_photos FOLDER [COUNT]
 *
 * writes FOLDER/classN/NNNNN.jpg, ten classes, 500x375 at quality 90 with chroma at half size
 * (libjpeg's default), 80 to 130 kB each, the mean of ImageNet's. The amplitude of a photograph's
 * frequencies falls as 1/f (Field, 1987); so white noise is weighed by that and turned into
 * brightness, and into two fainter fields of colour. How much contrast a picture has is drawn, and
 * lowered or raised until its file has a size within these bounds. Files are the same everywhere
 * where the JPEG library is. */
#include "base/arena.h"
#include "base/rng.h"
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h> /* which needs stdio.h before it */

enum { WIDTH = 500, HEIGHT = 375, SIDE = 512, QUALITY = 90, CLASSES = 10, COUNT = 500 };
static const unsigned long file_bytes_min = 80000, file_bytes_max = 130000;

typedef double complex c64;

static c64 root[SIDE / 2];

/* Cooley and Tukey's, in place, over elements `step` apart. */
static void fourier(c64 *x, i64 step)
{
    for (i64 i = 1, j = 0; i < SIDE; i++) {
        i64 bit = SIDE >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        c64 swap = x[i * step];
        if (i < j) {
            x[i * step] = x[j * step];
            x[j * step] = swap;
        }
    }
    for (i64 half = 1; half < SIDE; half *= 2)
        for (i64 i = 0; i < SIDE; i += 2 * half)
            for (i64 k = 0; k < half; k++) {
                c64 *a = x + (i + k) * step, *b = a + half * step;
                c64  t = *b * root[k * (SIDE / 2 / half)];
                *b     = *a - t;
                *a += t;
            }
}

/* Two independent fields, the real and the imaginary part, each of mean 0 and variance 1. */
static void field(c64 *x, u64 photo, u64 number, f32 *noise)
{
    struct rng_key key = { .seed = 1987, .name = number, .sample = photo };
    rng_fill_normal(key, 0, 2 * SIDE * SIDE, 1, noise);
    f64 power = 0;
    for (i64 i = 0; i < SIDE * SIDE; i++) {
        i64 u = i / SIDE, v = i % SIDE;
        u     = MIN(u, SIDE - u);
        v     = MIN(v, SIDE - v);
        f64 f = sqrt((f64)(u * u + v * v));
        x[i]  = i ? (noise[2 * i] + I * noise[2 * i + 1]) / f : 0;
        power += i ? 1 / (f * f) : 0;
    }
    for (i64 i = 0; i < SIDE; i++) fourier(x + i * SIDE, 1);
    for (i64 i = 0; i < SIDE; i++) fourier(x + i, SIDE);
    for (i64 i = 0; i < SIDE * SIDE; i++) x[i] /= sqrt(power);
}

static u8 pixel(f64 x) { return (u8)MIN(MAX(x, 0), 255); }

static void paint(const c64 *light, const c64 *colour, f64 contrast, u8 *ycc)
{
    for (i64 y = 0; y < HEIGHT; y++)
        for (i64 x = 0; x < WIDTH; x++, ycc += 3) {
            c64 c  = colour[y * SIDE + x];
            ycc[0] = pixel(118 + contrast * creal(light[y * SIDE + x]));
            ycc[1] = pixel(128 + contrast / 4 * creal(c));
            ycc[2] = pixel(128 + contrast / 4 * cimag(c));
        }
}

static unsigned long pack(const u8 *ycc, u8 **out)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr       fatal;
    unsigned long               bytes = 0;
    c.err                             = jpeg_std_error(&fatal);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, out, &bytes);
    c.image_width      = WIDTH;
    c.image_height     = HEIGHT;
    c.input_components = 3;
    c.in_color_space   = JCS_YCbCr;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, QUALITY, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < HEIGHT) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(ycc + (i64)c.next_scanline * 3 * WIDTH);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return bytes;
}

/* Its file's bytes; `out` is to be freed. */
static unsigned long photo(i64 number, struct arena scratch, u8 **out)
{
    f32 *noise  = NEW(&scratch, f32, 2 * SIDE * SIDE);
    c64 *light  = NEW(&scratch, c64, SIDE * SIDE);
    c64 *colour = NEW(&scratch, c64, SIDE * SIDE);
    u8  *ycc    = NEW(&scratch, u8, WIDTH * HEIGHT * 3);
    field(light, (u64)number, 0, noise);
    field(colour, (u64)number, 1, noise);
    f64 contrast = 24 + 24 * rng_uniform((struct rng_key){ .name = 2, .sample = (u64)number }, 0);
    for (;;) {
        *out = NULL;
        paint(light, colour, contrast, ycc);
        unsigned long bytes = pack(ycc, out);
        if (bytes >= file_bytes_min && bytes <= file_bytes_max) return bytes;
        contrast *= bytes < file_bytes_min ? 1.1 : 0.9;
        free(*out);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "bench_photos FOLDER [COUNT]\n");
        return 2;
    }
    struct arena perm  = arena_open((i64)1 << 30);
    i64          count = argc > 2 ? atoll(argv[2]) : COUNT;
    f64          total = 0;
    char         path[4096];
    for (i64 k = 0; k < SIDE / 2; k++) root[k] = cexp(I * (2 * M_PI * (f64)k / SIDE));
    mkdir(argv[1], 0777);
    for (i64 i = 0; i < CLASSES; i++) {
        snprintf(path, sizeof path, "%s/class%lld", argv[1], (long long)i);
        mkdir(path, 0777);
    }
    for (i64 i = 0; i < count; i++) {
        u8           *bytes;
        unsigned long size = photo(i, perm, &bytes);
        snprintf(path, sizeof path, "%s/class%lld/%05lld.jpg", argv[1], (long long)(i % CLASSES),
                 (long long)i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(bytes, 1, size, f) != size || fclose(f)) {
            perror(path);
            return 3;
        }
        free(bytes);
        total += (f64)size;
    }
    printf("%lld files of %.0f kB in %s\n", (long long)count, total / (f64)count / 1000, argv[1]);
    return 0;
}
