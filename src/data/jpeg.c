/* jpeg.c - JPEG through libjpeg-turbo: the rows and columns of one part, scaled where that will do.
 *
 * Its defaults are kept, the accurate inverse transform (islow) and smooth chroma ("fancy upsampling"),
 * so that pixels are bit-exact with those of Pillow: the faster ones are not faster on processors with AVX2
 * (docs/decisions/images.md). Of the scales, only 1/2, 1/4 and 1/8 have vector code and pay. */
#include "data/image_int.h"
#ifdef FRUGAL_HAVE_JPEG
#include "data/jpeg_scan.h"
#include <setjmp.h>
#include <string.h>

#include <jerror.h>

enum {
    SCANS_MAX = 500, /* of a progressive file; each costs a pass over all coefficients */
    MARGIN    = 2,   /* pixels beside the part that its smooth chroma looks at */
    ALIGN_MAX = 32,  /* pixels of an MCU's width, to which the left edge moves */
};

/* All that lives while libjpeg works. An error jumps to `out`. */
struct job {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr         manager;
    struct jpeg_progress_mgr      progress;
    struct jpeg_scan              scan;
    struct str                    name;
    struct err                   *err;
    jmp_buf                       out;
};

static struct job *job_of(j_common_ptr cinfo)
{
    return (struct job *)((char *)cinfo - offsetof(struct job, cinfo));
}

static _Noreturn void give_up(j_common_ptr cinfo)
{
    struct job *job = job_of(cinfo);
    char        why[JMSG_LENGTH_MAX];
    job->manager.format_message(cinfo, why);
    err_set(job->err, STATUS_USAGE, "%.*s is not a valid JPEG: %s", STR_ARG(job->name), why);
    longjmp(job->out, 1);
}

/* Most warnings are of bytes that nobody misses; a file that ends too early is not one of those. */
static void warn(j_common_ptr cinfo, int level)
{
    int code = cinfo->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) give_up(cinfo);
}

static void watch(j_common_ptr cinfo)
{
    struct job *job = job_of(cinfo);
    if (job->cinfo.input_scan_number <= SCANS_MAX) return;
    err_set(job->err, STATUS_USAGE, "%.*s has more than %d scans", STR_ARG(job->name), SCANS_MAX);
    longjmp(job->out, 1);
}

/* Up to the header; the caller has set `out`. */
static void job_begin(struct job *job, struct str file)
{
    job->progress.progress_monitor = watch;
    jpeg_create_decompress(&job->cinfo);
    job->cinfo.progress = &job->progress;
    jpeg_mem_src(&job->cinfo, (const u8 *)file.data, (unsigned long)file.len);
    jpeg_read_header(&job->cinfo, TRUE);
}

static void job_init(struct job *job, struct str name, struct err *err)
{
    *job                      = (struct job){ .name = name, .err = err };
    job->cinfo.err            = jpeg_std_error(&job->manager);
    job->manager.error_exit   = give_up;
    job->manager.emit_message = warn;
}

#define TEXT(macro) TEXT_(macro)
#define TEXT_(text) #text
const char *jpeg_version(void) { return TEXT(LIBJPEG_TURBO_VERSION); }

enum status jpeg_look(struct str name, struct str file, struct image_info *out, struct err *err)
{
    struct job job;
    job_init(&job, name, err);
    if (setjmp(job.out)) {
        jpeg_destroy_decompress(&job.cinfo);
        return STATUS_USAGE;
    }
    job_begin(&job, file);
    *out = (struct image_info){ .kind   = IMAGE_JPEG,
                                .width  = job.cinfo.image_width,
                                .height = job.cinfo.image_height };
    jpeg_destroy_decompress(&job.cinfo);
    return STATUS_OK;
}

/* The smallest of 1/8, 1/4, 1/2 and 1, in eighths, that leaves the part as large as is wanted. */
static i64 eighths(const struct image_want *want)
{
    i64 eighth = 8;
    if (!want->width) return eighth;
    while (eighth > 1 && want->part.width * eighth / 16 >= want->width &&
           want->part.height * eighth / 16 >= want->height)
        eighth /= 2;
    return eighth;
}

/* The pixels of a scaled picture that an interval of the unscaled one touches. */
static void interval(i64 from, i64 length, i64 eighth, i64 *begin, i64 *end)
{
    *begin = from * eighth / 8;
    *end   = ((from + length) * eighth + 7) / 8;
}

i64 jpeg_room(const struct image_info *info, i64 file_bytes, const struct image_want *want)
{
    i64 x0, x1, y0, y1, eighth = eighths(want);
    interval(want->part.x, want->part.width, eighth, &x0, &x1);
    interval(want->part.y, want->part.height, eighth, &y0, &y1);
    i64 columns = x1 - x0 + 2 * MARGIN + ALIGN_MAX, row = 4 * info->width; /* of CMYK */
    return columns * (y1 - y0) * want->channels + row + jpeg_scan_room(file_bytes);
}

/* Adobe stores CMYK inverted, and so does everybody after it: R = C K / 255. */
static void rgb_of_cmyk(const u8 *cmyk, u8 *rgb, i64 count)
{
    for (i64 i = 0; i < count; i++)
        for (i64 c = 0; c < 3; c++) {
            i32 product    = cmyk[4 * i + c] * cmyk[4 * i + 3] + 128;
            rgb[3 * i + c] = (u8)((product + (product >> 8)) >> 8);
        }
}

/* One row into `to`, by way of `spare` where libjpeg does not make the pixels that we want. */
static void read_row(struct job *job, i64 skip, u8 *spare, u8 *to, const struct image *out)
{
    i64      channels = job->cinfo.output_components;
    JSAMPROW row      = spare ? spare : to;
    jpeg_read_scanlines(&job->cinfo, &row, 1);
    if (!spare) return;
    spare += skip * channels;
    if (channels == 4) rgb_of_cmyk(spare, spare, out->width);
    if (channels == 4 && out->channels == 1) grey_of(spare, to, out->width);
    else memcpy(to, spare, (size_t)(out->width * out->channels));
}

static void scale_set(struct jpeg_decompress_struct *cinfo, i64 eighth, i64 channels)
{
    cinfo->scale_num       = (unsigned)eighth;
    cinfo->scale_denom     = 8;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK
                             : channels == 1            ? JCS_GRAYSCALE
                                                        : JCS_RGB;
}

/* From the start of the scan to the last row wanted; the caller has set `out`. */
static void part_read(struct job *job, const struct image_want *want, u8 *room, struct image *out)
{
    struct jpeg_decompress_struct *cinfo  = &job->cinfo;
    i64                            eighth = eighths(want), x0, x1, y0, y1;
    scale_set(cinfo, eighth, want->channels);
    jpeg_start_decompress(cinfo);
    interval(want->part.x, want->part.width, eighth, &x0, &x1);
    interval(want->part.y, want->part.height, eighth, &y0, &y1);
    JDIMENSION left  = (JDIMENSION)MAX(x0 - MARGIN, 0);
    JDIMENSION width = (JDIMENSION)MIN(x1 + MARGIN, (i64)cinfo->output_width) - left;
    bool       odd = cinfo->max_h_samp_factor > 2; /* which libjpeg 2.1 crops wrongly when scaled */
    if (odd) left = 0;
    else if (width < cinfo->output_width) jpeg_crop_scanline(cinfo, &left, &width);

    bool direct = !odd && cinfo->output_components == want->channels;
    i64  stride = (direct ? (i64)width : x1 - x0) * want->channels;
    u8  *spare  = room + stride * (y1 - y0);
    i64  mcu    = eighth * (cinfo->comps_in_scan == 1 ? 1 : cinfo->max_h_samp_factor); /* pixels */
    jpeg_scan_begin(cinfo, &job->scan, left / mcu, odd ? INT64_MAX : (left + width - 1) / mcu,
                    spare + 4 * (i64)cinfo->image_width);
    if (y0) jpeg_skip_scanlines(cinfo, (JDIMENSION)y0);
    *out = (struct image){ .pixels   = direct ? room + (x0 - left) * want->channels : room,
                           .width    = x1 - x0,
                           .height   = y1 - y0,
                           .channels = want->channels,
                           .stride   = stride,
                           .x        = (f64)(want->part.x * eighth) / 8 - (f64)x0,
                           .y        = (f64)(want->part.y * eighth) / 8 - (f64)y0,
                           .scale    = (f64)eighth / 8 };
    for (i64 y = 0; y < out->height; y++)
        read_row(job, x0 - left, direct ? NULL : spare, room + y * stride, out);
}

enum status jpeg_decode(struct str name, struct str file, const struct image_info *info,
                        const struct image_want *want, u8 *room, struct image *out, struct err *err)
{
    struct job job;
    (void)info;
    job_init(&job, name, err);
    if (setjmp(job.out)) {
        jpeg_destroy_decompress(&job.cinfo);
        return STATUS_USAGE;
    }
    job_begin(&job, file);
    part_read(&job, want, room, out);
    jpeg_destroy_decompress(&job.cinfo);
    return STATUS_OK;
}
#endif
