/* images.c - pictures in files, JPEG or PNG, a class each: folders and tar shards (place.h).
 *
 *     read       the file's bytes                                       place_read
 *     decode     the part that the view will show, or what is kept      image_decode
 *     augment    that part at its size, mirrored, …, into the batch     view_make
 *
 * Feeds: "x" u8 or, normalised here, f32[size, size, channels]; "y" i32, the class; with mixup "y_other" i32,
 * the other picture's, and "y_share" f32, what counts of y.
 *
 * What is kept for later epochs (sample.whole) must lead to the same bytes as decoding anew. So it is the
 * whole picture in full size; where a crop of it might be decoded at a smaller scale, it is the file. */
#include "data/augment.h"
#include "data/data_int.h"
#include "data/place.h"
#include "data/rows_int.h"
#include <string.h>

struct images_state {
    struct place *place[SPLIT_COUNT]; /* evaluation's is NULL where it takes a part of training's */
    bool          is_sorted[SPLIT_COUNT]; /* by class: a folder */
    i64          *number[SPLIT_COUNT];    /* of each sample in its place; NULL: as they come */
    i64           first_held;             /* then: where the held-out ones begin */
    struct augment augment;
    u64            view_name, mix_name; /* of the randomness of views and of mixing */
    enum isa       isa;
};

/* What decoded begins with; pixels or the file follow. */
struct head {
    struct image image; /* its pixels lie `at` bytes from the head: the buffer may move */
    struct rect  part;  /* of the picture */
    i64          at;
    bool         is_file;
};

enum { NAME_BYTES_MAX = 8192, HEAD_BYTES = 192 };
_Static_assert(sizeof(struct head) <= HEAD_BYTES, "pixels lie behind the head");

static const i64 samples_max = (i64)1 << 30;

/* ---- opening ---- */

/* Evaluation takes samples in even distances, training the others: files come sorted by class. */
static void split_evenly(struct dataset *d, struct arena *perm)
{
    struct images_state *state = d->state;
    i64                  held = d->count[SPLIT_EVAL], so_far[SPLIT_COUNT] = { 0 };
    i64                  count = d->count[SPLIT_TRAIN] + held;
    for (i32 s = 0; s < SPLIT_COUNT; s++) state->number[s] = NEW(perm, i64, d->count[s]);
    for (i64 n = 0; n < count; n++) {
        i64        next = held ? (2 * so_far[SPLIT_EVAL] + 1) * count / (2 * held) : count;
        enum split s    = n == next ? SPLIT_EVAL : SPLIT_TRAIN;
        state->number[s][so_far[s]++] = n;
    }
    ASSERT(so_far[SPLIT_EVAL] == held);
}

/* At most so many samples: the first ones, or where they are sorted by class in even distances. */
static void thin(struct dataset *d, enum split s, i64 most, struct arena *perm)
{
    struct images_state *state = d->state;
    i64                  count = d->count[s], kept = limit_count(count, most);
    d->count[s] = kept;
    if (!state->is_sorted[s] || kept == count) return;
    i64 *number = NEW(perm, i64, kept);
    for (i64 i = 0; i < kept; i++) {
        i64 k     = i * count / kept; /* samples_max squared fits */
        number[i] = state->number[s] ? state->number[s][k] : k;
    }
    state->number[s] = number;
}

/* Classes are numbered by the order of their names, so those of two folders, or of the weights, must be the same. */
static enum status check_names(const struct place *p, struct str path, const struct str *known,
                               i64 count, struct arena scratch, struct err *err)
{
    const struct str *names = place_class_names(p, &scratch);
    for (i64 i = 0; names && known && i < MIN(count, place_classes(p)); i++)
        if (!str_eq(names[i], known[i]))
            return err_set(err, STATUS_USAGE,
                           "%.*s: class %lld is %.*s, and the model's is %.*s; the subfolders must "
                           "have the names of the model's classes",
                           STR_ARG(path), (long long)i, STR_ARG(names[i]), STR_ARG(known[i]));
    return STATUS_OK;
}

static enum status open_place(struct dataset *d, const struct data_config *config, enum split s,
                              struct arena *perm, struct err *err)
{
    struct images_state *state = d->state;
    struct str           path  = s == SPLIT_TRAIN ? config->path : config->eval_path;
    enum status          st    = place_open(d->os, config, path, perm, &state->place[s], err);
    if (st) return st;
    state->is_sorted[s] = place_is_sorted(state->place[s]);
    d->count[s]         = place_count(state->place[s]);
    i64 classes         = place_classes(state->place[s]);
    if (d->count[s] > samples_max)
        return err_set(err, STATUS_USAGE, "%.*s holds %lld images; at most %lld are supported",
                       STR_ARG(path), (long long)d->count[s], (long long)samples_max);
    if (!classes)
        return err_set(err, STATUS_USAGE,
                       "%.*s: no image has a class; a folder needs a subfolder for each class, a "
                       "shard a .cls next to each image",
                       STR_ARG(path));
    if (classes != place_classes(state->place[SPLIT_TRAIN]))
        return err_set(err, STATUS_USAGE, "%.*s has %lld classes, %.*s has %lld",
                       STR_ARG(config->path), (long long)place_classes(state->place[SPLIT_TRAIN]),
                       STR_ARG(path), (long long)classes);
    const struct str *known = config->class_names;
    i64               count = config->class_count;
    if (!known && s == SPLIT_EVAL) {
        known = place_class_names(state->place[SPLIT_TRAIN], perm);
        count = classes;
    }
    return check_names(state->place[s], path, known, count, *perm, err);
}

/* Once the classes are known: by files, or by the weights where rows are all that is asked for. */
static void add_feeds(struct dataset *d)
{
    const struct images_state *state   = d->state;
    const struct augment      *a       = &state->augment;
    const struct place        *place   = state->place[SPLIT_TRAIN];
    struct type                label   = type_of(DT_I32, shape_of(0, NULL));
    i64                        classes = place ? place_classes(place) : d->class_count;
    dataset_add_feed(d, STR("x"),
                     type_of(a->is_normal ? DT_F32 : DT_U8, shape_3(a->size, a->size, a->channels)),
                     0);
    if (a->is_late) {
        struct pixels *p = &d->feeds.pixels;
        p->is_normal     = true;
        memcpy(p->factor, a->normal.factor, sizeof p->factor);
        memcpy(p->shift, a->normal.shift, sizeof p->shift);
    }
    dataset_add_feed(d, STR("y"), label, classes);
    if (a->mixup <= 0) return;
    dataset_add_feed(d, STR("y_other"), label, classes);
    dataset_add_feed(d, STR("y_share"), type_of(DT_F32, shape_of(0, NULL)), 0);
}

static enum status open_images(struct dataset *d, const struct data_config *config,
                               struct arena *perm, struct err *err)
{
    struct images_state *state = d->state = NEW(perm, struct images_state, 1);
    state->isa                            = kernel_isa();
    state->view_name                      = str_hash(STR("data.view"));
    state->mix_name                       = str_hash(STR("data.mixup"));
    bool        files                     = !config->rows_only || !config->class_count;
    enum status st                        = augment_from(config, &state->augment, err);
    d->class_names                        = config->class_names;
    d->class_count                        = config->class_count;
    if (!st && !files) add_feeds(d);
    if (st || !files) return st;
    st = open_place(d, config, SPLIT_TRAIN, perm, err);
    if (!st && config->eval_path.len) st = open_place(d, config, SPLIT_EVAL, perm, err);
    if (!st && place_is_one_class(state->place[SPLIT_TRAIN]))
        st = refuse_one_class(config->path, d->count[SPLIT_TRAIN], err);
    if (st) return st;
    if (!config->eval_path.len) {
        state->first_held            = hold_out_last(d, config);
        state->is_sorted[SPLIT_EVAL] = state->is_sorted[SPLIT_TRAIN];
        if (state->is_sorted[SPLIT_TRAIN]) split_evenly(d, perm);
    }
    thin(d, SPLIT_TRAIN, config->samples, perm);
    thin(d, SPLIT_EVAL, config->eval_samples, perm);
    d->keepable    = state->augment.crop != CROP_RANDOM;
    d->class_names = place_class_names(state->place[SPLIT_TRAIN], perm);
    d->class_count = d->class_names ? place_classes(state->place[SPLIT_TRAIN]) : 0;
    add_feeds(d);
    return STATUS_OK;
}

static void close_images(struct dataset *d)
{
    struct images_state *state = d->state;
    for (i32 s = 0; state && s < SPLIT_COUNT; s++) place_close(state->place[s]);
}

/* ---- the stages ---- */

static const struct place *place_of(const struct images_state *state, enum split s)
{
    return state->place[s] ? state->place[s] : state->place[SPLIT_TRAIN];
}

/* The sample's number in its place. */
static i64 number_of(const struct images_state *state, enum split s, i64 number)
{
    if (state->number[s]) return state->number[s][number];
    return s == SPLIT_EVAL && !state->place[s] ? state->first_held + number : number;
}

static i64 order_images(const struct dataset *d, enum split s, u64 seed, i64 epoch, i64 index)
{
    const struct images_state *state = d->state;
    if (state->number[s]) return rng_permute(seed, (u64)epoch, index, d->count[s]);
    return place_order(place_of(state, s), d->count[s], seed, epoch, index);
}

static i64 block_images(const struct dataset *d)
{
    const struct images_state *state = d->state;
    return state->number[SPLIT_TRAIN] ? 0 : place_block(state->place[SPLIT_TRAIN]);
}

static bool says_images(struct dataset *d, char line[LOADER_LINE_MAX])
{
    struct images_state *state = d->state;
    return place_says(state->place[SPLIT_TRAIN], line) ||
           place_says(state->place[SPLIT_EVAL], line);
}

static enum status read_images(const struct dataset *d, struct sample *s, struct err *err)
{
    const struct images_state *state = d->state;
    const struct place        *place = place_of(state, s->split);
    i64                        n     = number_of(state, s->split, s->number);
    s->label                         = place_class(place, n);
    if (s->label < 0) {
        char         text[NAME_BYTES_MAX];
        struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
        return err_set(err, STATUS_USAGE, "%.*s has no class",
                       STR_ARG(place_name(place, n, &lent)));
    }
    return place_read(place, n, &s->raw, s->stop, err);
}

static struct view view_of(const struct images_state *state, const struct sample *s)
{
    struct rng_key key = {
        .seed = s->seed, .name = state->view_name, .step = (u64)s->epoch, .sample = (u64)s->index
    };
    if (s->split == SPLIT_EVAL) return view_still(&state->augment, s->width, s->height);
    return view_draw(&state->augment, s->width, s->height, key);
}

static struct str name_of(const struct images_state *state, const struct sample *s,
                          struct arena *perm)
{
    return place_name(place_of(state, s->split), number_of(state, s->split, s->number), perm);
}

static enum status look(const struct images_state *state, struct sample *s, struct str file,
                        struct image_info *out, struct err *err)
{
    char         text[NAME_BYTES_MAX];
    struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    enum status  st   = image_look(name_of(state, s, &lent), file, out, err);
    if (st) return st;
    s->width  = out->width;
    s->height = out->height;
    return STATUS_OK;
}

/* Into `to`, behind its head. */
static enum status decode_part(const struct images_state *state, const struct sample *s,
                               struct str file, const struct image_info *info,
                               const struct image_want *want, struct buffer *to, struct err *err)
{
    char         text[NAME_BYTES_MAX];
    struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    struct head  head = { .part = want->part };
    enum status  st   = buffer_resize(to, HEAD_BYTES + image_room(info, file.len, want), err);
    if (!st)
        st = image_decode(name_of(state, s, &lent), file, info, want, to->data + HEAD_BYTES,
                          &head.image, err);
    if (st) return st;
    head.at = head.image.pixels - to->data;
    memcpy(to->data, &head, sizeof head);
    return buffer_resize(to, head.at + head.image.stride * head.image.height + IMAGE_PAD, err);
}

/* The part that the view shows: in training no larger than it must be, in evaluation at full scale, so that what is
 * measured are the pixels that other libraries give, too. */
static struct image_want want_view(const struct images_state *state, const struct sample *s)
{
    const struct augment *a    = &state->augment;
    i64                   side = s->split == SPLIT_EVAL ? 0 : a->size;
    return (struct image_want){ view_of(state, s).part, side, side, a->channels };
}

static enum status keep_file(struct sample *s, struct err *err)
{
    struct head head = { .is_file = true };
    enum status st   = buffer_resize(&s->decoded, HEAD_BYTES + s->raw.bytes, err);
    if (st) return st;
    memcpy(s->decoded.data, &head, sizeof head);
    memcpy(s->decoded.data + HEAD_BYTES, s->raw.data, (size_t)s->raw.bytes);
    return STATUS_OK;
}

static enum status decode_images(const struct dataset *d, struct sample *s, struct err *err)
{
    const struct images_state *state = d->state;
    const struct augment      *a     = &state->augment;
    struct str                 file  = { (const char *)s->raw.data, s->raw.bytes };
    struct image_info          info;
    enum status                st = look(state, s, file, &info, err);
    if (st) return st;
    struct image_want want = want_view(state, s);
    if (s->split == SPLIT_EVAL || a->crop != CROP_RANDOM) /* the same part in every epoch */
        return decode_part(state, s, file, &info, &want, &s->decoded, err);

    bool scales = info.kind == IMAGE_JPEG && MIN(info.width, info.height) / 2 >= a->size;
    if (s->whole && scales) return keep_file(s, err);
    if (s->whole)
        want = (struct image_want){ { 0, 0, info.width, info.height }, 0, 0, a->channels };
    return decode_part(state, s, file, &info, &want, &s->decoded, err);
}

/* What was kept as a file is decoded now, into the thread's own memory. */
static enum status decode_kept(const struct images_state *state, struct sample *s, struct err *err)
{
    struct str file = { (const char *)s->decoded.data + HEAD_BYTES, s->decoded.bytes - HEAD_BYTES };
    struct image_info info;
    enum status       st = look(state, s, file, &info, err);
    if (st) return st;
    struct image_want want = want_view(state, s);
    return decode_part(state, s, file, &info, &want, s->spare, err);
}

static enum status augment_images(const struct dataset *d, struct sample *s, struct err *err)
{
    const struct images_state *state = d->state;
    struct buffer             *from  = &s->decoded;
    struct head                head;
    i64                        used = 0; /* of spare */
    memcpy(&head, from->data, sizeof head);
    if (head.is_file) {
        enum status st = decode_kept(state, s, err);
        if (st) return st;
        from = s->spare;
        used = from->bytes;
        memcpy(&head, from->data, sizeof head);
    }
    struct view v = view_of(state, s);
    enum status st =
        buffer_resize(s->spare, used + view_room(&state->augment, &v, &head.image), err);
    if (st) return st;
    head.image.pixels = from->data + head.at;
    view_make(&state->augment, &v, &head.image, head.part, state->isa, s->spare->data + used,
              s->to[0]);
    *(i32 *)s->to[1] = (i32)s->label;
    if (state->augment.mixup > 0) { /* until it is mixed, all its own */
        *(i32 *)s->to[2] = (i32)s->label;
        *(f32 *)s->to[3] = 1;
    }
    return STATUS_OK;
}

/* The first with the last of the batch, the second with the last but one, … */
static void collate_images(const struct dataset *d, const struct collation *c)
{
    const struct images_state *state = d->state;
    const struct augment      *a     = &state->augment;
    if (a->mixup <= 0 || c->split == SPLIT_EVAL) return;
    struct rng_key key = {
        .seed = c->seed, .name = state->mix_name, .step = (u64)c->epoch, .sample = (u64)c->index
    };
    f32  share = (f32)mix_share(a->mixup, key);
    i64  size  = a->size * a->size * a->channels;
    i32 *y = c->to[1], *other = c->to[2];
    f32 *shares = c->to[3];
    for (i64 i = 0, j = c->count - 1; i < j; i++, j--) {
        if (a->is_normal)
            mix_f32((f32 *)c->to[0] + i * size, (f32 *)c->to[0] + j * size, size, share);
        else mix_u8((u8 *)c->to[0] + i * size, (u8 *)c->to[0] + j * size, size, share);
        other[i]  = y[j];
        other[j]  = y[i];
        shares[i] = shares[j] = share;
    }
}

/* The line is the path of a file; what the model sees of it is what evaluation would show it. */
static enum status row_image(struct rows *r, struct str line, void *const *to, struct err *err)
{
    const struct images_state *state   = r->d->state;
    const struct augment      *a       = &state->augment;
    struct arena               scratch = r->scratch;
    struct image_info          info;
    struct str                 file;
    struct image               image;
    enum status                st = rows_picture(r, line, &scratch, &file, &info, err);
    if (st) return st;
    struct view       v    = view_still(a, info.width, info.height);
    struct image_want want = { v.part, 0, 0, a->channels };
    st                     = rows_pixels(r, line, file, &info, &want, &scratch, &image, err);
    if (st) return st;
    u8 *room = NEW(&scratch, u8, view_room(a, &v, &image));
    view_make(a, &v, &image, v.part, state->isa, room, to[0]);
    for (i32 f = 1; f < r->d->feeds.count; f++)
        memset(to[f], 0, (size_t)type_bytes(r->d->feeds.feed[f].type));
    return STATUS_OK;
}

static const struct place *place_images(const struct dataset *d, enum split s)
{
    const struct images_state *state = d->state;
    return state->place[s];
}

const struct format format_images = {
    .kind    = { "images", 6 },
    .open    = open_images,
    .read    = read_images,
    .decode  = decode_images,
    .augment = augment_images,
    .collate = collate_images,
    .order   = order_images,
    .block   = block_images,
    .says    = says_images,
    .row     = row_image,
    .place   = place_images,
    .close   = close_images,
};
