/* augment.h - what becomes of a picture before a model sees it.
 *
 * A view says which part of the picture is taken and how; it is a pure function of the settings, the
 * picture's size and an address of randomness, so that the decoder can ask for it before there are
 * pixels, and whoever resizes gets the same one. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H
#include "base/rng.h"
#include "data/data.h"
#include "data/resize.h"

enum crop {
    CROP_RANDOM, /* a random part of the area with a random shape, as torchvision's RandomResizedCrop */
    CROP_CENTRE, /* the middle square, `centre` of the shorter side */
    CROP_PAD,    /* the whole, moved by up to `pad` pixels of the result; black comes in */
    CROP_WHOLE,
};

struct augment {
    enum crop     crop;
    i64           size, channels; /* of the result: size x size */
    i64           pad, cutout;
    f64           area_min, area_max, ratio, centre, flip, mixup;
    bool          is_normal; /* f32 by `normal`; else bytes */
    bool          is_late;   /* bytes that a model normalises by `normal` */
    struct normal normal;
    u8            hole[3]; /* of bytes: what becomes 0 */
};

struct view {
    struct rect part;
    bool        mirrored;
    i64         dx, dy; /* the result begins so many pixels to the right and below; -pad to pad */
    struct rect hole;   /* of the result; no width: none */
};

/* From data.augment and the image_ settings of data. */
enum status augment_from(const struct data_config *config, struct augment *out, struct err *err);

/* What training takes; `key` is of the sample: (seed, epoch, index). */
struct view view_draw(const struct augment *a, i64 width, i64 height, struct rng_key key);
/* What evaluation takes: nothing is drawn. */
struct view view_still(const struct augment *a, i64 width, i64 height);

/* Makes the result of `image`, which holds `part` of the picture: u8 or f32[size, size, channels]. */
i64  view_room(const struct augment *a, const struct view *v, const struct image *image);
void view_make(const struct augment *a, const struct view *v, const struct image *image,
               struct rect part, enum isa isa, u8 *room, void *to);

/* The same of a picture u8[size, size, channels] that is all there, without normalising. */
void view_copy(const struct augment *a, const struct view *v, const u8 *from, u8 *to);

/* The share of itself that a picture keeps when two are mixed: Beta(alpha, alpha), 0 < alpha <= 1. */
f64 mix_share(f64 alpha, struct rng_key key);
/* a = share a + (1 - share) b, and b likewise. */
void mix_f32(f32 *a, f32 *b, i64 count, f32 share);
void mix_u8(u8 *a, u8 *b, i64 count, f32 share); /* rounded */

#endif
