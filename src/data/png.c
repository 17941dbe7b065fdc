/* png.c - PNG through libpng: rows come one after the other, so those below the part wanted are not
 * read; of an interlaced file all are. */
#include "data/image_int.h"
#ifdef FRUGAL_HAVE_PNG
#include <png.h>
#include <string.h>

enum { CHUNK_BYTES_MAX = 1 << 24, CHUNKS_KEPT_MAX = 64 }; /* of text, colour profiles, … */

/* All that lives while libpng works. */
struct job {
    png_structp png;
    png_infop   info;
    struct str  name, rest; /* rest: of the file */
    struct err *err;
};

static _Noreturn void give_up(png_structp png, png_const_charp why)
{
    struct job *job = png_get_error_ptr(png);
    err_set(job->err, STATUS_USAGE, "%.*s is not a valid PNG: %s", STR_ARG(job->name), why);
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void next_bytes(png_structp png, png_bytep to, size_t bytes)
{
    struct job *job = png_get_io_ptr(png);
    if ((i64)bytes > job->rest.len) png_error(png, "it ends too early");
    memcpy(to, job->rest.data, bytes);
    job->rest = str_sub(job->rest, (i64)bytes, job->rest.len);
}

static enum status job_open(struct job *job, struct str name, struct str file, struct err *err)
{
    *job     = (struct job){ .name = name, .rest = file, .err = err };
    job->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, job, give_up, warn);
    if (job->png) job->info = png_create_info_struct(job->png);
    if (job->info) return STATUS_OK;
    png_destroy_read_struct(&job->png, NULL, NULL);
    return err_set(err, STATUS_WORLD, "%.*s: libpng cannot be initialised", STR_ARG(name));
}

static void job_close(struct job *job) { png_destroy_read_struct(&job->png, &job->info, NULL); }

/* Up to the pixels; the caller has set where errors jump to. */
static void read_head(struct job *job)
{
    png_set_user_limits(job->png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    png_set_chunk_malloc_max(job->png, CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(job->png, CHUNKS_KEPT_MAX);
    png_set_read_fn(job->png, job, next_bytes);
    png_read_info(job->png, job->info);
}

const char *png_version(void) { return png_get_libpng_ver(NULL); }

enum status png_look(struct str name, struct str file, struct image_info *out, struct err *err)
{
    struct job  job;
    enum status st = job_open(&job, name, file, err);
    if (st) return st;
    if (setjmp(png_jmpbuf(job.png))) {
        job_close(&job);
        return STATUS_USAGE;
    }
    read_head(&job);
    *out = (struct image_info){
        .kind    = IMAGE_PNG,
        .width   = png_get_image_width(job.png, job.info),
        .height  = png_get_image_height(job.png, job.info),
        .at_once = png_get_interlace_type(job.png, job.info) != PNG_INTERLACE_NONE,
    };
    job_close(&job);
    return STATUS_OK;
}

i64 png_room(const struct image_info *info, i64 file_bytes, const struct image_want *want)
{
    (void)file_bytes;
    i64 row = 3 * info->width;
    return row + (info->at_once ? row * info->height
                                : want->part.width * want->part.height * want->channels);
}

/* Whatever the file has becomes 8 bits, grey or RGB, without alpha. */
static void to_rgb(struct job *job, i64 channels)
{
    png_structp png    = job->png;
    int         colour = png_get_color_type(png, job->info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    if (!(colour & PNG_COLOR_MASK_COLOR) && channels == 3) png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, job->info);
}

static void copy_row(const u8 *row, i64 row_channels, const struct rect *part, u8 *to, i64 channels)
{
    row += part->x * row_channels;
    if (row_channels == channels) memmove(to, row, (size_t)(part->width * channels));
    else grey_of(row, to, part->width);
}

/* From the first pixel to the last row wanted; the caller has set where errors jump to. */
static void part_read(struct job *job, const struct image_info *info, const struct image_want *want,
                      u8 *room, struct image *out)
{
    const struct rect *part   = &want->part;
    i64                stride = part->width * want->channels;
    i64                here   = png_get_channels(job->png, job->info); /* of the rows: 1 or 3 */
    i64                bytes  = info->width * here;
    ASSERT((i64)png_get_rowbytes(job->png, job->info) == bytes);
    for (i64 pass = info->at_once ? PNG_INTERLACE_ADAM7_PASSES : 0; pass > 0; pass--)
        for (i64 y = 0; y < info->height; y++) png_read_row(job->png, room + y * bytes, NULL);
    u8 *row = room + stride * part->height;
    for (i64 y = 0; y < part->y + part->height; y++) {
        if (info->at_once) row = room + y * bytes; /* no row moves behind its own place */
        else png_read_row(job->png, row, NULL);
        if (y >= part->y) copy_row(row, here, part, room + (y - part->y) * stride, want->channels);
    }
    *out = (struct image){ .pixels   = room,
                           .width    = part->width,
                           .height   = part->height,
                           .channels = want->channels,
                           .stride   = stride,
                           .scale    = 1 };
}

enum status png_decode(struct str name, struct str file, const struct image_info *info,
                       const struct image_want *want, u8 *room, struct image *out, struct err *err)
{
    struct job  job;
    enum status st = job_open(&job, name, file, err);
    if (st) return st;
    if (setjmp(png_jmpbuf(job.png))) {
        job_close(&job);
        return STATUS_USAGE;
    }
    read_head(&job);
    to_rgb(&job, want->channels);
    part_read(&job, info, want, room, out);
    job_close(&job);
    return STATUS_OK;
}
#endif
