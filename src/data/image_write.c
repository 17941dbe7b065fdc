/* image_write.c - decoding, resizing and libjpeg's encoder in a row. */
#include "data/image_write.h"
#include "data/resize.h"

enum status image_shrink(struct str name, struct str file, i64 size, i64 quality, struct buffer *to,
                         struct buffer *spare, bool *changed, struct err *err)
{
    struct image_info info;
    struct image      image;
    enum status       st = image_look(name, file, &info, err);
    *changed             = false;
    i64 shorter          = st ? 0 : MIN(info.width, info.height);
    if (st || shorter <= size) return st;
    i64               width  = (info.width * size + shorter / 2) / shorter;
    i64               height = (info.height * size + shorter / 2) / shorter;
    struct image_want want   = { { 0, 0, info.width, info.height }, width, height, 3 };
    i64               room   = image_room(&info, file.len, &want);
    st                       = buffer_resize(spare, room, err);
    if (!st) st = image_decode(name, file, &info, &want, spare->data, &image, err);
    if (st) return st;
    struct resize r = {
        image.x, image.y, (f64)info.width * image.scale, (f64)info.height * image.scale, false,
        width,   height
    };
    struct buffer work = { 0 }; /* the decoded picture lies in spare */
    i64           rest = resize_room(&image, &r);
    st                 = buffer_resize(&work, rest + width * height * 3, err);
    if (!st) {
        image_resize(&image, &r, NULL, kernel_isa(), work.data, work.data + rest);
        st       = image_write_jpeg(work.data + rest, width, height, quality, to, err);
        *changed = !st;
    }
    buffer_release(&work);
    if (st) err_set(err, st, "%.*s: %s", STR_ARG(name), err ? err->text : "");
    return st;
}

#ifndef FRUGAL_HAVE_JPEG

enum status image_write_jpeg(const u8 *rgb, i64 width, i64 height, i64 quality, struct buffer *to,
                             struct err *err)
{
    (void)rgb, (void)width, (void)height, (void)quality, (void)to;
    return err_set(err, STATUS_WORLD,
                   "this frugal was built without libjpeg, so it cannot write images; install "
                   "libjpeg62-turbo-dev and build it again");
}

#else
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

enum { STEP_BYTES = 1 << 16 }; /* by which the buffer grows at least */

struct writing { /* an error jumps to `out` */
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr       manager;
    struct jpeg_destination_mgr target;
    struct buffer              *to;
    struct err                 *err;
    jmp_buf                     out;
};

static struct writing *writing_of(j_common_ptr cinfo)
{
    return (struct writing *)((char *)cinfo - offsetof(struct writing, cinfo));
}

static _Noreturn void give_up(j_common_ptr cinfo)
{
    struct writing *w = writing_of(cinfo);
    char            why[JMSG_LENGTH_MAX];
    w->manager.format_message(cinfo, why);
    err_set(w->err, STATUS_WORLD, "cannot be written as JPEG: %s", why);
    longjmp(w->out, 1);
}

static void keep_quiet(j_common_ptr cinfo, int level) { (void)cinfo, (void)level; }

/* More room behind the first `used` bytes. */
static void grow(struct writing *w, i64 used)
{
    if (buffer_resize(w->to, used + MAX(used, STEP_BYTES), w->err)) longjmp(w->out, 1);
    w->target.next_output_byte = w->to->data + used;
    w->target.free_in_buffer   = (size_t)(w->to->bytes - used);
}

static void begin(j_compress_ptr cinfo) { grow(writing_of((j_common_ptr)cinfo), 0); }

static boolean full(j_compress_ptr cinfo)
{
    struct writing *w = writing_of((j_common_ptr)cinfo);
    grow(w, w->to->bytes);
    return TRUE;
}

static void end(j_compress_ptr cinfo)
{
    struct writing *w = writing_of((j_common_ptr)cinfo);
    w->to->bytes -= (i64)w->target.free_in_buffer;
}

enum status image_write_jpeg(const u8 *rgb, i64 width, i64 height, i64 quality, struct buffer *to,
                             struct err *err)
{
    struct writing w       = { .to = to, .err = err };
    w.cinfo.err            = jpeg_std_error(&w.manager);
    w.manager.error_exit   = give_up;
    w.manager.emit_message = keep_quiet;
    w.target               = (struct jpeg_destination_mgr){ .init_destination    = begin,
                                                            .empty_output_buffer = full,
                                                            .term_destination    = end };
    if (setjmp(w.out)) {
        jpeg_destroy_compress(&w.cinfo);
        return STATUS_WORLD;
    }
    jpeg_create_compress(&w.cinfo);
    w.cinfo.dest             = &w.target;
    w.cinfo.image_width      = (JDIMENSION)width;
    w.cinfo.image_height     = (JDIMENSION)height;
    w.cinfo.input_components = 3;
    w.cinfo.in_color_space   = JCS_RGB;
    jpeg_set_defaults(&w.cinfo);
    jpeg_set_quality(&w.cinfo, (int)quality, TRUE);
    jpeg_start_compress(&w.cinfo, TRUE);
    while (w.cinfo.next_scanline < w.cinfo.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (i64)w.cinfo.next_scanline * width * 3);
        jpeg_write_scanlines(&w.cinfo, &row, 1);
    }
    jpeg_finish_compress(&w.cinfo);
    jpeg_destroy_compress(&w.cinfo);
    return STATUS_OK;
}
#endif
