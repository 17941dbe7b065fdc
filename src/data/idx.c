/* idx.c - images and labels in the IDX format (MNIST and its kin), plain or .gz.
 *
 *     00 00 08 RANK | RANK x u32 big-endian: the dimensions | bytes, row-major
 *
 * 08 says "unsigned bytes". Images are [count, height, width] or [count, height, width, channels],
 * labels [count]. Training samples are augmented (data.augment) as they are copied.
 * Feeds: "x" u8[H,W,C], "y" i32 in [0, largest label + 1). */
#include "data/augment.h"
#include "data/data_int.h"
#include "data/rows_int.h"
#include <stdio.h>
#include <string.h>

struct idx_set { /* images and labels of one split */
    const u8 *images, *labels;
};

struct idx_state {
    struct source  source[SPLIT_COUNT][2]; /* images, labels */
    struct idx_set set[SPLIT_COUNT];
    i64            image_bytes;
    struct augment augment; /* size 0: none */
    u64            view_name;
};

static i64 be32(const u8 *p) { return (i64)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

/* The product of the dimensions, or -1 where it is more than `max`. */
static i64 product(const struct idx *x, i64 max)
{
    i64 items = 1;
    for (i32 i = 0; i < x->rank; i++) {
        if (x->dim[i] == 0) return 0;
        if (items > max / x->dim[i]) return -1;
        items *= x->dim[i];
    }
    return items;
}

static enum status wrong_size(struct str path, const struct idx *x, i64 bytes, struct err *err)
{
    char dims[64] = "";
    for (i32 i = 0, at = 0; i < x->rank; i++)
        at += snprintf(dims + at, sizeof dims - (size_t)at, "%s%lld", i ? "x" : "",
                       (long long)x->dim[i]);
    return err_set(err, STATUS_USAGE, "%.*s: %s, its header asks for %s bytes and %lld follow",
                   STR_ARG(path), product(x, bytes) < 0 ? "truncated" : "too long", dims,
                   (long long)bytes);
}

enum status idx_parse(struct str path, struct str bytes, struct idx *out, struct err *err)
{
    const u8 *p = (const u8 *)bytes.data;
    *out        = (struct idx){ 0 };
    if (bytes.len < 4)
        return err_set(err, STATUS_USAGE, "%.*s: %lld bytes are too few for an IDX file",
                       STR_ARG(path), (long long)bytes.len);
    if (p[0] || p[1] || p[2] != 0x08 || p[3] < 1 || p[3] > IDX_RANK_MAX)
        return err_set(err, STATUS_USAGE,
                       "%.*s: begins with %02x %02x %02x %02x; an IDX file of bytes begins with "
                       "00 00 08 and its number of dimensions, 1 to %d",
                       STR_ARG(path), p[0], p[1], p[2], p[3], IDX_RANK_MAX);
    i64 head  = 4 + 4 * (i64)p[3];
    out->rank = p[3];
    if (bytes.len < head)
        return err_set(err, STATUS_USAGE, "%.*s: truncated, %lld bytes of a header of %lld",
                       STR_ARG(path), (long long)bytes.len, (long long)head);
    for (i32 i = 0; i < out->rank; i++) out->dim[i] = be32(p + 4 + 4 * i);
    out->data = p + head;
    if (product(out, bytes.len - head) != bytes.len - head)
        return wrong_size(path, out, bytes.len - head, err);
    return STATUS_OK;
}

/* Opens images and labels of one split and checks that they belong together. */
static enum status open_pair(struct dataset *d, const struct data_config *config, enum split s,
                             struct arena scratch, struct idx *images, struct idx *labels,
                             struct err *err)
{
    struct idx_state *state = d->state;
    struct str        path[2];
    path[0] = s == SPLIT_TRAIN ? config->path : config->eval_path;
    path[1] = s == SPLIT_TRAIN ? config->labels : config->eval_labels;
    if (!path[1].len)
        return err_set(err, STATUS_USAGE, "%.*s needs a file of labels: set data.%s",
                       STR_ARG(path[0]), s == SPLIT_TRAIN ? "labels" : "eval_labels");

    struct source *source = state->source[s];
    enum status    st     = source_open(d->os, path[0], config, scratch, &source[0], err);
    if (!st) st = source_open(d->os, path[1], config, scratch, &source[1], err);
    if (!st) st = idx_parse(path[0], source[0].bytes, images, err);
    if (!st) st = idx_parse(path[1], source[1].bytes, labels, err);
    if (st) return st;
    if (images->rank < 3 || !images->dim[1] || !images->dim[2])
        return err_set(err, STATUS_USAGE,
                       "%.*s: %d dimensions; images have a count, a height and a width",
                       STR_ARG(path[0]), images->rank);
    if (labels->rank != 1)
        return err_set(err, STATUS_USAGE, "%.*s: %d dimensions; labels have one", STR_ARG(path[1]),
                       labels->rank);
    if (images->dim[0] != labels->dim[0])
        return err_set(err, STATUS_USAGE, "%.*s has %lld images, %.*s has %lld labels",
                       STR_ARG(path[0]), (long long)images->dim[0], STR_ARG(path[1]),
                       (long long)labels->dim[0]);
    state->set[s] = (struct idx_set){ images->data, labels->data };
    d->count[s]   = images->dim[0];
    return STATUS_OK;
}

static i64 largest(const u8 *labels, i64 count)
{
    u8 max = 0;
    for (i64 i = 0; i < count; i++) max = MAX(max, labels[i]);
    return max;
}

/* Of both splits; what is alike in all of them cannot be learned. */
static bool is_one_class(const struct dataset *d)
{
    const struct idx_state *state = d->state;
    const u8               *first = state->set[SPLIT_TRAIN].labels;
    for (i32 s = 0; s < SPLIT_COUNT; s++)
        for (i64 i = 0; i < d->count[s]; i++)
            if (state->set[s].labels[i] != *first) return false;
    return true;
}

/* The last samples of the one file, or a file of their own with the same image size. */
static enum status open_held_out(struct dataset *d, const struct data_config *config,
                                 const struct idx *train, struct arena scratch, struct err *err)
{
    struct idx_state *state = d->state;
    struct idx        images, labels;
    if (!config->eval_path.len) {
        i64                   first = hold_out_last(d, config);
        const struct idx_set *all   = &state->set[SPLIT_TRAIN];
        state->set[SPLIT_EVAL] =
            (struct idx_set){ all->images + first * state->image_bytes, all->labels + first };
        return STATUS_OK;
    }
    enum status st = open_pair(d, config, SPLIT_EVAL, scratch, &images, &labels, err);
    if (st) return st;
    for (i32 i = 1; i < IDX_RANK_MAX; i++)
        if (images.dim[i] != train->dim[i])
            return err_set(
                err, STATUS_USAGE, "the images of %.*s are %lldx%lld, those of %.*s %lldx%lld",
                STR_ARG(config->path), (long long)train->dim[1], (long long)train->dim[2],
                STR_ARG(config->eval_path), (long long)images.dim[1], (long long)images.dim[2]);
    return STATUS_OK;
}

/* What data.augment asks for; the pictures keep their size. */
static enum status open_augment(struct dataset *d, const struct data_config *config,
                                const struct idx *images, struct err *err)
{
    struct idx_state  *state = d->state;
    struct data_config sized = *config;
    struct augment    *a     = &state->augment;
    bool alone = config->augment_count == 1 && str_eq(config->augment[0], STR("auto"));
    if (!config->augment_count || alone) return STATUS_OK;
    sized.image_size      = images->dim[1];
    sized.image_normalise = STR("none");
    enum status st        = augment_from(&sized, a, err);
    if (st) return st;
    if (a->crop == CROP_RANDOM || a->crop == CROP_CENTRE || a->mixup > 0)
        return err_set(err, STATUS_USAGE,
                       "data.augment: data.kind=idx has pad=N, flip and cutout=N only");
    if (!a->pad && !a->cutout && a->flip <= 0) {
        *a = (struct augment){ 0 };
        return STATUS_OK;
    }
    if (images->dim[1] != images->dim[2])
        return err_set(err, STATUS_USAGE,
                       "data.augment needs square images; those of %.*s are %lldx%lld",
                       STR_ARG(config->path), (long long)images->dim[1], (long long)images->dim[2]);
    a->channels      = images->rank == 4 ? images->dim[3] : 1;
    state->view_name = str_hash(STR("data.augment"));
    d->fresh         = true;
    return STATUS_OK;
}

static enum status open_idx(struct dataset *d, const struct data_config *config, struct arena *perm,
                            struct err *err)
{
    struct idx_state *state = d->state = NEW(perm, struct idx_state, 1);
    struct idx        images, labels;
    enum status       st = open_pair(d, config, SPLIT_TRAIN, *perm, &images, &labels, err);
    if (st) return st;

    i64 channels = images.rank == 4 ? images.dim[3] : 1;
    if (images.dim[0]) /* else nothing bounds the other dimensions, and nothing is fetched */
        state->image_bytes = product(&images, INT64_MAX) / images.dim[0];
    st = open_held_out(d, config, &images, *perm, err);
    if (!st) st = open_augment(d, config, &images, err);
    if (st) return st;

    i64 label_max = 0;
    for (i32 s = 0; s < SPLIT_COUNT; s++)
        label_max = MAX(label_max, largest(state->set[s].labels, d->count[s]));
    if (is_one_class(d))
        return refuse_one_class(config->labels, d->count[SPLIT_TRAIN] + d->count[SPLIT_EVAL], err);
    limit_counts(d, config);
    dataset_add_feed(d, STR("x"), type_of(DT_U8, shape_3(images.dim[1], images.dim[2], channels)),
                     0);
    dataset_add_feed(d, STR("y"), type_of(DT_I32, shape_of(0, NULL)), label_max + 1);
    return STATUS_OK;
}

static void fetch_idx(const struct dataset *d, enum split s, const i64 *index, i64 count,
                      void *const *to)
{
    const struct idx_state *state = d->state;
    const struct idx_set   *set   = &state->set[s];
    u8                     *x     = to[0];
    i32                    *y     = to[1];
    for (i64 i = 0; i < count; i++) {
        memcpy(x + i * state->image_bytes, set->images + index[i] * state->image_bytes,
               (size_t)state->image_bytes);
        y[i] = set->labels[index[i]];
    }
}

/* With flip=0.5 a picture is mirrored in every second epoch: half of them in the first, as many as by chance and each
 * as often (Jordan 2024, "94% on CIFAR-10 in 3.29 seconds", section 3.6). */
static struct view view_of(const struct idx_state *state, u64 seed, i64 epoch, i64 number)
{
    const struct augment *a   = &state->augment;
    struct rng_key        key = {
               .seed = seed, .name = state->view_name, .step = (u64)epoch, .sample = (u64)number
    };
    struct view v = view_draw(a, a->size, a->size, key);
    key.step      = 0;
    if (a->flip == 0.5)
        v.mirrored = (view_draw(a, a->size, a->size, key).mirrored ? 1 : 0) != (epoch & 1);
    return v;
}

static void fetch_augmented(const struct dataset *d, u64 seed, i64 epoch, const i64 *index,
                            i64 count, void *const *to)
{
    const struct idx_state *state = d->state;
    const struct idx_set   *set   = &state->set[SPLIT_TRAIN];
    if (!state->augment.size) {
        fetch_idx(d, SPLIT_TRAIN, index, count, to);
        return;
    }
    for (i64 i = 0; i < count; i++) {
        struct view v = view_of(state, seed, epoch, index[i]);
        view_copy(&state->augment, &v, set->images + index[i] * state->image_bytes,
                  (u8 *)to[0] + i * state->image_bytes);
        ((i32 *)to[1])[i] = set->labels[index[i]];
    }
}

/* The line is the path of a JPEG or PNG of the size of the images here. */
static enum status row_idx(struct rows *r, struct str line, void *const *to, struct err *err)
{
    const i64        *dim     = r->d->feeds.feed[0].type.shape.dim; /* height, width, channels */
    struct arena      scratch = r->scratch;
    struct image_info info;
    struct str        file;
    struct image      image;
    struct err        why;
    enum status       st = rows_picture(r, line, &scratch, &file, &info, err);
    if (st) return st;
    if (info.height != dim[0] || info.width != dim[1] || (dim[2] != 1 && dim[2] != 3)) {
        err_set(&why, STATUS_USAGE,
                "%.*s has %lldx%lld pixels, and the model sees %lldx%lld with %lld channels",
                STR_ARG(line), (long long)info.height, (long long)info.width, (long long)dim[0],
                (long long)dim[1], (long long)dim[2]);
        return rows_failed(r, STATUS_USAGE, &why, err);
    }
    struct image_want want = { { 0, 0, info.width, info.height }, 0, 0, dim[2] };
    st                     = rows_pixels(r, line, file, &info, &want, &scratch, &image, err);
    if (st) return st;
    for (i64 h = 0; h < dim[0]; h++)
        memcpy((u8 *)to[0] + h * dim[1] * dim[2], image.pixels + h * image.stride,
               (size_t)(dim[1] * dim[2]));
    *(i32 *)to[1] = 0;
    return STATUS_OK;
}

static void close_idx(struct dataset *d)
{
    struct idx_state *state = d->state;
    if (!state) return;
    for (i32 s = 0; s < SPLIT_COUNT; s++)
        for (i32 i = 0; i < 2; i++) source_close(d->os, &state->source[s][i]);
}

const struct format format_idx = { .kind        = { "idx", 3 },
                                   .open        = open_idx,
                                   .fetch       = fetch_idx,
                                   .fetch_epoch = fetch_augmented,
                                   .row         = row_idx,
                                   .close       = close_idx };
