/* augment.c - views drawn and made. */
#include "data/augment.h"
#include <math.h>
#include <string.h>

/* The means and deviations of ImageNet's channels, as everybody's models expect them. */
static const f64 imagenet_mean[3]      = { 0.485, 0.456, 0.406 };
static const f64 imagenet_deviation[3] = { 0.229, 0.224, 0.225 };

static void normal_set(struct augment *a, const f64 *mean, const f64 *deviation, bool late)
{
    a->is_normal = !late;
    a->is_late   = late;
    for (i32 c = 0; c < 3; c++) {
        a->normal.factor[c] = (f32)(1 / (255 * deviation[c]));
        a->normal.shift[c]  = (f32)(-mean[c] / deviation[c]);
        a->hole[c]          = (u8)(255 * mean[c] + 0.5);
    }
}

/* The words of data.augment. A word without a number has `usual`; NaN: it needs one. */
enum word { WORD_CROP, WORD_CENTER, WORD_PAD, WORD_FLIP, WORD_CUTOUT, WORD_MIXUP, WORD_COUNT };
static const struct {
    const char *name, *range;
    f64         usual, low, high;
    bool        whole; /* a whole number */
} words[WORD_COUNT] = {
    [WORD_CROP]   = { "crop", "a fraction of the area above 0, at most 1", 0.08, 1e-9, 1, false },
    [WORD_CENTER] = { "center", "no number", 0, 0, 0, false },
    [WORD_PAD]    = { "pad", "pixels", NAN, 0, IMAGE_SIDE_MAX - 1, true },
    [WORD_FLIP]   = { "flip", "a probability", 0.5, 0, 1, false },
    [WORD_CUTOUT] = { "cutout", "pixels", NAN, 0, IMAGE_SIDE_MAX, true },
    [WORD_MIXUP]  = { "mixup", "a number from 0 to 1", NAN, 0, 1, false },
};

static enum status word_read(struct str text, enum word *word, f64 *number, struct err *err)
{
    struct str name = text, value = STR("");
    i64        at = str_find(text, '=');
    if (at >= 0) {
        name  = str_trim(str_sub(text, 0, at));
        value = str_trim(str_sub(text, at + 1, text.len));
    }
    for (i32 i = 0; i < WORD_COUNT; i++) {
        if (!str_eq(name, str_of(words[i].name))) continue;
        *word   = (enum word)i;
        *number = words[i].usual;
        bool ok = at < 0 ? !isnan(*number) : i != WORD_CENTER && str_f64(value, number);
        if (ok && *number >= words[i].low && *number <= words[i].high &&
            (!words[i].whole || *number == rint(*number)))
            return STATUS_OK;
        return err_set(err, STATUS_USAGE, "data.augment: %.*s; expected %s with %s, like %s",
                       STR_ARG(text), words[i].name, words[i].range,
                       i == WORD_CENTER  ? "center"
                       : i == WORD_FLIP  ? "flip=0.5"
                       : i == WORD_MIXUP ? "mixup=0.2"
                       : i == WORD_CROP  ? "crop=0.25"
                       : i == WORD_PAD   ? "pad=4"
                                         : "cutout=8");
    }
    if (str_eq(text, STR("auto")) || str_eq(text, STR("none")))
        return err_set(err, STATUS_USAGE,
                       "data.augment: %.*s stands alone; leave it or the others out",
                       STR_ARG(text));
    return err_set(
        err, STATUS_USAGE,
        "data.augment: %.*s is not one of crop, center, pad=N, flip, cutout=N, mixup=A and none",
        (int)MIN(text.len, 40), text.data);
}

static void word_set(struct augment *a, enum word word, f64 number)
{
    switch (word) {
    case WORD_CROP:
        a->crop     = CROP_RANDOM;
        a->area_min = number;
        break;
    case WORD_CENTER: a->crop = CROP_CENTRE; break;
    case WORD_PAD:
        a->crop = CROP_PAD;
        a->pad  = (i64)number;
        break;
    case WORD_FLIP: a->flip = number; break;
    case WORD_CUTOUT: a->cutout = (i64)number; break;
    case WORD_MIXUP: a->mixup = number; break;
    case WORD_COUNT: break;
    }
}

static enum status words_read(const struct data_config *config, struct augment *a, struct err *err)
{
    bool seen[WORD_COUNT] = { false };
    if (config->augment_count == 1 && str_eq(config->augment[0], STR("auto"))) {
        word_set(a, WORD_CROP, words[WORD_CROP].usual);
        word_set(a, WORD_FLIP, words[WORD_FLIP].usual);
        return STATUS_OK;
    }
    for (i64 i = 0; i < config->augment_count; i++) {
        enum word word   = WORD_COUNT;
        f64       number = 0;
        if (config->augment_count == 1 && str_eq(config->augment[i], STR("none"))) return STATUS_OK;
        enum status st = word_read(config->augment[i], &word, &number, err);
        if (st) return st;
        ASSERT(word < WORD_COUNT); /* gcc 14 cannot see it */
        if (seen[word])
            return err_set(err, STATUS_USAGE, "data.augment: %s is given twice", words[word].name);
        seen[word] = true;
        word_set(a, word, number);
    }
    if (seen[WORD_CROP] + seen[WORD_CENTER] + seen[WORD_PAD] > 1)
        return err_set(err, STATUS_USAGE,
                       "data.augment: only one of crop, center and pad is allowed");
    return STATUS_OK;
}

enum status augment_from(const struct data_config *config, struct augment *out, struct err *err)
{
    static const f64 half[3] = { 0.5, 0.5, 0.5 };
    *out                     = (struct augment){ .crop     = CROP_WHOLE,
                                                 .size     = config->image_size,
                                                 .channels = config->image_colour ? 3 : 1,
                                                 .area_max = 1, /* these three as torchvision */
                                                 .ratio    = 4.0 / 3, /* crops by default */
                                                 .centre   = 224.0 / 256 };
    enum status st           = words_read(config, out, err);
    if (st) return st;
    if (str_eq(config->image_normalise, STR("imagenet")))
        normal_set(out, imagenet_mean, imagenet_deviation, config->image_bytes);
    if (str_eq(config->image_normalise, STR("half")))
        normal_set(out, half, half, config->image_bytes);
    if (out->size < 1 || out->size > IMAGE_SIDE_MAX || out->pad >= out->size)
        return err_set(err, STATUS_USAGE, "images of %lld pixels cannot be shifted by %lld",
                       (long long)out->size, (long long)out->pad);
    if (out->cutout >= 2 * out->size) /* wherever its middle lies */
        return err_set(err, STATUS_USAGE, "data.augment: cutout=%lld blanks images of %lld pixels",
                       (long long)out->cutout, (long long)out->size);
    return STATUS_OK;
}

/* ---- views ---- */

/* The draws of a sample, each at a place of its own. */
enum draw { DRAW_FLIP, DRAW_MOVE_X, DRAW_MOVE_Y, DRAW_HOLE_X, DRAW_HOLE_Y, DRAW_CROP, TRIES = 10 };

static i64 draw_below(struct rng_key key, u64 element, i64 below)
{
    return (i64)(rng_uniform(key, element) * (f64)below);
}

static struct rect middle(i64 width, i64 height, i64 part_width, i64 part_height)
{
    return (struct rect){ (width - part_width) / 2, (height - part_height) / 2, part_width,
                          part_height };
}

/* torchvision's RandomResizedCrop.get_params: ten tries at an area and a shape that fit, then as much of
 * the middle as the shapes allow. */
static struct rect random_part(const struct augment *a, i64 width, i64 height, struct rng_key key)
{
    f64 log_ratio = log(a->ratio);
    for (u64 try = 0; try < TRIES; try++) {
        u64 at    = DRAW_CROP + 4 * try;
        f64 share = a->area_min + (a->area_max - a->area_min) * rng_uniform(key, at);
        f64 area  = (f64)(width * height) * share;
        f64 shape = exp(log_ratio * (2 * rng_uniform(key, at + 1) - 1));
        i64 w = lrint(sqrt(area * shape)), h = lrint(sqrt(area / shape));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        return (struct rect){ draw_below(key, at + 2, width - w + 1),
                              draw_below(key, at + 3, height - h + 1), w, h };
    }
    f64 shape = (f64)width / (f64)height;
    if (shape < 1 / a->ratio) return middle(width, height, width, lrint((f64)width * a->ratio));
    if (shape > a->ratio) return middle(width, height, lrint((f64)height * a->ratio), height);
    return (struct rect){ 0, 0, width, height };
}

static struct rect centre_part(const struct augment *a, i64 width, i64 height)
{
    i64 side = MAX(lrint((f64)MIN(width, height) * a->centre), 1);
    return middle(width, height, side, side);
}

struct view view_still(const struct augment *a, i64 width, i64 height)
{
    bool        all  = a->crop == CROP_WHOLE || a->crop == CROP_PAD;
    struct rect part = { 0, 0, width, height };
    return (struct view){ .part = all ? part : centre_part(a, width, height) };
}

/* DeVries and Taylor 2017: a square around any pixel, of which a part may lie outside. */
static struct rect hole_draw(const struct augment *a, struct rng_key key)
{
    i64 x = draw_below(key, DRAW_HOLE_X, a->size) - a->cutout / 2, x0 = MAX(x, 0);
    i64 y = draw_below(key, DRAW_HOLE_Y, a->size) - a->cutout / 2, y0 = MAX(y, 0);
    return (struct rect){ x0, y0, MIN(x + a->cutout, a->size) - x0,
                          MIN(y + a->cutout, a->size) - y0 };
}

struct view view_draw(const struct augment *a, i64 width, i64 height, struct rng_key key)
{
    struct view v = view_still(a, width, height);
    if (a->crop == CROP_RANDOM) v.part = random_part(a, width, height, key);
    v.mirrored = rng_uniform(key, DRAW_FLIP) < a->flip;
    if (a->crop == CROP_PAD) {
        v.dx = draw_below(key, DRAW_MOVE_X, 2 * a->pad + 1) - a->pad;
        v.dy = draw_below(key, DRAW_MOVE_Y, 2 * a->pad + 1) - a->pad;
    }
    if (a->cutout) v.hole = hole_draw(a, key);
    return v;
}

/* ---- what they show ---- */

/* Where the part lies in the image, which may hold more of the picture. */
static struct resize resize_of(const struct augment *a, const struct view *v,
                               const struct image *image, struct rect part)
{
    return (struct resize){ .x         = image->x + (f64)(v->part.x - part.x) * image->scale,
                            .y         = image->y + (f64)(v->part.y - part.y) * image->scale,
                            .width     = (f64)v->part.width * image->scale,
                            .height    = (f64)v->part.height * image->scale,
                            .mirrored  = v->mirrored,
                            .to_width  = a->size,
                            .to_height = a->size };
}

i64 view_room(const struct augment *a, const struct view *v, const struct image *image)
{
    struct resize r = resize_of(a, v, image, v->part); /* its place does not matter */
    return resize_room(image, &r) + 2 * a->size * a->size * a->channels;
}

/* Row y of the picture moved by (dx, dy); black where there is none. */
static void moved_row(const struct augment *a, const struct view *v, const u8 *from, i64 y, u8 *to)
{
    i64 ch = a->channels, begin = MAX(v->dx, 0), end = MIN(a->size + v->dx, a->size);
    memset(to, 0, (size_t)(a->size * ch));
    if (y < v->dy || y >= a->size + v->dy) return;
    memcpy(to + begin * ch, from + ((y - v->dy) * a->size + begin - v->dx) * ch,
           (size_t)((end - begin) * ch));
}

static void make_moved(const struct augment *a, const struct view *v, const struct image *image,
                       const struct resize *r, enum isa isa, u8 *room, void *to)
{
    i64 row  = a->size * a->channels;
    u8 *from = room + resize_room(image, r), *moved = from + row * a->size;
    image_resize(image, r, NULL, isa, room, from);
    for (i64 y = 0; y < a->size; y++) {
        u8 *line = a->is_normal ? moved : (u8 *)to + y * row;
        moved_row(a, v, from, y, line);
        for (i64 i = 0; a->is_normal && i < row; i++)
            ((f32 *)to)[y * row + i] =
                (f32)line[i] * a->normal.factor[i % a->channels] + a->normal.shift[i % a->channels];
    }
}

static void cut_hole(const struct augment *a, const struct rect *hole, void *to)
{
    i64 bytes = a->channels * (a->is_normal ? (i64)sizeof(f32) : 1), row = hole->width * bytes;
    for (i64 y = hole->y; y < hole->y + hole->height; y++) {
        u8 *at = (u8 *)to + (y * a->size + hole->x) * bytes;
        for (i64 i = 0; i < row; i++) at[i] = a->is_late ? a->hole[i % a->channels] : 0;
    }
}

void view_make(const struct augment *a, const struct view *v, const struct image *image,
               struct rect part, enum isa isa, u8 *room, void *to)
{
    struct resize r = resize_of(a, v, image, part);
    if (v->dx || v->dy) make_moved(a, v, image, &r, isa, room, to);
    else image_resize(image, &r, a->is_normal ? &a->normal : NULL, isa, room, to);
    if (v->hole.width) cut_hole(a, &v->hole, to);
}

/* Row y of a picture of the result's size, mirrored and moved; black where there is none. */
static void copied_row(const struct augment *a, const struct view *v, const u8 *from, i64 y, u8 *to)
{
    i64 ch = a->channels, begin = MAX(v->dx, 0), end = MIN(a->size + v->dx, a->size);
    if (!v->mirrored) {
        moved_row(a, v, from, y, to);
        return;
    }
    memset(to, 0, (size_t)(a->size * ch));
    if (y < v->dy || y >= a->size + v->dy) return;
    const u8 *last = from + ((y - v->dy + 1) * a->size - 1) * ch; /* the row's last pixel */
    for (i64 x = begin; x < end; x++)
        for (i64 c = 0; c < ch; c++) to[x * ch + c] = last[(v->dx - x) * ch + c];
}

void view_copy(const struct augment *a, const struct view *v, const u8 *from, u8 *to)
{
    ASSERT(!a->is_normal);
    for (i64 y = 0; y < a->size; y++) copied_row(a, v, from, y, to + y * a->size * a->channels);
    if (v->hole.width) cut_hole(a, &v->hole, to);
}

/* ---- two of them mixed ---- */

/* Johnk's way (1964): of points below the diagonal, the share of the first. */
f64 mix_share(f64 alpha, struct rng_key key)
{
    ASSERT(alpha > 0 && alpha <= 1);
    for (u64 i = 0;; i += 2) {
        f64 a = pow(rng_uniform(key, i), 1 / alpha), b = pow(rng_uniform(key, i + 1), 1 / alpha);
        if (a + b > 0 && a + b <= 1) return a / (a + b);
    }
}

void mix_f32(f32 *a, f32 *b, i64 count, f32 share)
{
    for (i64 i = 0; i < count; i++) {
        f32 x = a[i], y = b[i];
        a[i] = share * x + (1 - share) * y;
        b[i] = share * y + (1 - share) * x;
    }
}

void mix_u8(u8 *a, u8 *b, i64 count, f32 share)
{
    for (i64 i = 0; i < count; i++) {
        f32 x = a[i], y = b[i];
        a[i] = (u8)(share * x + (1 - share) * y + 0.5f);
        b[i] = (u8)(share * y + (1 - share) * x + 0.5f);
    }
}
