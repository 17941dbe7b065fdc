/* weights.c - where parameters come from and go to: random by (seed, name, element), a
 * safetensors file, or both; docs/formats/weights.md. */
#include "base/rng.h"
#include "store/safetensors.h"
#include "train/options.h"
#include "train/train_int.h"
#include <string.h>

enum { CHUNK = 1 << 20 };         /* numbers made at a time */
enum { FILL_BLOCK = 1 << 14 };    /* numbers that one thread makes at a time */
enum { NAMES_BYTES = 256 << 20 }; /* address space for the header of train.init */

static bool is_weight(const struct persistent *t)
{
    return t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER;
}

i64 weights_count(const struct session *s, bool trained_only)
{
    i64 count = 0;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (t->kind == VALUE_PARAM && !(trained_only && t->frozen))
            count += shape_count(t->type.shape);
    }
    return count;
}

static f32 initial(const struct init *init, struct rng_key key, i64 element)
{
    switch (init->kind) {
    case INIT_ZERO: return 0;
    case INIT_CONST: return (f32)init->scale;
    case INIT_NORMAL: break; /* many at a time: fill_block */
    case INIT_UNIFORM: return (f32)(init->scale * (2 * rng_uniform(key, (u64)element) - 1));
    }
    return 0;
}

void weights_put(struct session *s, const struct persistent *t, i64 from, const f32 *values,
                 i64 count, struct arena scratch)
{
    const struct backend_table *be = s->backend->table;
    if (t->type.dtype == DT_F64) {
        f64 *wide = NEW(&scratch, f64, count);
        for (i64 i = 0; i < count; i++) wide[i] = (f64)values[i];
        be->put(s->backend, t->offset + from * (i64)sizeof *wide, wide, count * (i64)sizeof *wide);
        return;
    }
    ASSERT(t->type.dtype == DT_F32);
    be->put(s->backend, t->offset + from * (i64)sizeof *values, values,
            count * (i64)sizeof *values);
}

/* Numbers from `from` on, by many hands: each is a function of its address alone. The calling thread meanwhile puts
 * those that were made before to where they belong. */
struct fill {
    struct session          *s;
    const struct persistent *t;
    struct rng_key           key;
    struct arena             scratch;
    f32                     *to;
    i64                      from, count;
    f32                     *made; /* made_count of them, from made_from on, are not yet put */
    i64                      made_from, made_count;
};

static void put_made(struct fill *f)
{
    if (f->made_count) weights_put(f->s, f->t, f->made_from, f->made, f->made_count, f->scratch);
    f->made_count = 0;
}

static void fill_block(void *context, i64 block, i32 worker)
{
    struct fill       *f    = context;
    const struct init *init = &f->t->init;
    i64                from = block * FILL_BLOCK, count = MIN(FILL_BLOCK, f->count - from);
    f32               *to = f->to + from;
    if (!worker) put_made(f);
    if (init->kind == INIT_NORMAL)
        rng_fill_normal(f->key, (u64)(f->from + from), count, init->scale, to);
    else
        for (i64 i = 0; i < count; i++) to[i] = initial(init, f->key, f->from + from + i);
}

static void put_initial(struct session *s, const struct persistent *t, struct pool *pool,
                        struct arena scratch)
{
    struct fill f     = { .s   = s,
                          .t   = t,
                          .key = { .seed = s->settings->train.seed, .name = str_hash(t->name) },
                          .to  = NEW(&scratch, f32, CHUNK) };
    f32        *other = NEW(&scratch, f32, CHUNK);
    i64         all   = shape_count(t->type.shape);
    f.scratch         = scratch;
    for (; f.from < all; f.from += CHUNK) {
        f.count = MIN(CHUNK, all - f.from);
        pool_run(pool, (f.count + FILL_BLOCK - 1) / FILL_BLOCK, fill_block, &f);
        put_made(&f);
        f.made       = f.to;
        f.made_from  = f.from;
        f.made_count = f.count;
        f.to         = other;
        other        = f.made;
    }
    put_made(&f);
}

/* The file's name for one of our tensors: the right side of "theirs=ours", or the same. */
static struct str their_name(const struct train_config *c, struct str ours)
{
    for (i64 i = 0; i < c->rename_count; i++) {
        struct str right = c->rename[i], left;
        if (str_cut(&right, '=', &left) && str_eq(str_trim(right), ours)) return str_trim(left);
    }
    return ours;
}

static bool is_any(struct str pair) { return str_eq(str_trim(pair), STR("any")); }

static enum status check_shape(struct str init, const struct persistent *t,
                               const struct st_tensor *from, struct arena scratch, struct err *err)
{
    if (shape_eq(from->shape, t->type.shape)) return STATUS_OK;
    struct str have = st_type_text(&scratch, from);
    struct str want = type_text(&scratch, t->type);
    return err_set(err, STATUS_USAGE, "%.*s: tensor %.*s is %.*s, but the model's is %.*s",
                   STR_ARG(init), STR_ARG(from->name), STR_ARG(have), STR_ARG(want));
}

static enum status load_one(struct session *s, const struct persistent *t,
                            const struct st_tensor *from, struct arena scratch, struct err *err)
{
    i64  count  = shape_count(from->shape);
    f32 *values = NEW(&scratch, f32, count);
    if (t->type.dtype == DT_F64 && str_eq(from->dtype, STR("F64"))) { /* nothing to round */
        s->backend->table->put(s->backend, t->offset, from->bytes.data, from->bytes.len);
        return STATUS_OK;
    }
    if (!st_to_f32(from, values))
        return err_set(err, STATUS_USAGE,
                       "%.*s: tensor %.*s has type %.*s; F32, F16, BF16 or F64 "
                       "can be read",
                       STR_ARG(s->settings->train.init), STR_ARG(from->name), STR_ARG(from->dtype));
    weights_put(s, t, 0, values, count, scratch);
    return STATUS_OK;
}

/* Names in a sentence, as many as fit. */
static void list_name(struct textbuf *b, i64 *count, struct str name)
{
    if (*count < 8) textbuf_fmt(b, "%s%.*s", *count ? ", " : "", STR_ARG(name));
    if (*count == 8) textbuf_add(b, STR(", …"));
    ++*count;
}

static enum status check_names(struct session *s, const struct st_file *f, struct arena scratch,
                               struct err *err)
{
    const struct train_config *c       = &s->settings->train;
    struct arena               half    = arena_part(&scratch, 1 << 20);
    struct textbuf             missing = textbuf_new(&half), extra = textbuf_new(&scratch);
    i64                        missing_count = 0, extra_count = 0;
    bool                       any = false; /* file and model may differ */
    for (i64 i = 0; i < c->rename_count; i++) any |= is_any(c->rename[i]);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (is_weight(t) && !st_find(f, their_name(c, t->name)))
            list_name(&missing, &missing_count, t->name);
    }
    for (i64 k = 0; k < f->count; k++) {
        bool known = false;
        for (i32 i = 0; i < s->set->persistent_count && !known; i++)
            known = is_weight(&s->set->persistents[i]) &&
                    str_eq(their_name(c, s->set->persistents[i].name), f->tensors[k].name);
        if (!known) list_name(&extra, &extra_count, f->tensors[k].name);
    }
    if (missing_count && !any)
        return err_set(err, STATUS_USAGE,
                       "%.*s lacks %lld of the model's tensors: %.*s; "
                       "train.rename=any starts those at random",
                       STR_ARG(c->init), (long long)missing_count, STR_ARG(textbuf_str(&missing)));
    if (extra_count && !any)
        return err_set(err, STATUS_USAGE,
                       "%.*s has %lld tensors the model lacks: %.*s; "
                       "train.rename=any ignores them",
                       STR_ARG(c->init), (long long)extra_count, STR_ARG(textbuf_str(&extra)));
    if (missing_count || extra_count)
        s->note = str_fmt(
            s->perm,
            "%.*s%s%.*s lacks %lld of the model's tensors, which start at random; %lld of its own "
            "are ignored",
            STR_ARG(s->note), s->note.len ? "; " : "", STR_ARG(c->init), (long long)missing_count,
            (long long)extra_count);
    return STATUS_OK;
}

/* A pair that renames nothing is a mistake in writing. */
static enum status check_renames(struct session *s, const struct st_file *f, struct err *err)
{
    const struct train_config *c = &s->settings->train;
    for (i64 i = 0; i < c->rename_count; i++) {
        struct str ours = c->rename[i], theirs;
        if (is_any(ours)) continue;
        if (str_find(ours, '=') < 0 || !str_cut(&ours, '=', &theirs))
            return err_set(err, STATUS_USAGE, "train.rename: %.*s is not written theirs=ours",
                           STR_ARG(c->rename[i]));
        const struct persistent *t = program_set_find(s->set, str_trim(ours));
        if (!t || !is_weight(t))
            return err_set(err, STATUS_USAGE, "train.rename=%.*s: the model has no tensor %.*s",
                           STR_ARG(c->rename[i]), STR_ARG(ours));
        if (!st_find(f, str_trim(theirs)))
            return err_set(err, STATUS_USAGE, "train.rename=%.*s: %.*s has no tensor %.*s",
                           STR_ARG(c->rename[i]), STR_ARG(c->init), STR_ARG(theirs));
    }
    return STATUS_OK;
}

/* Opens train.init and holds all its names and shapes against the model. */
static enum status init_open(struct session *s, struct arena *names, struct st_file *f,
                             struct err *err)
{
    const struct train_config *c  = &s->settings->train;
    enum status                st = st_open(s->os, c->init, names, f, err);
    if (st) return st;
    st = check_renames(s, f, err);
    if (!st) st = check_names(s, f, s->scratch, err);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++) {
        const struct persistent *t    = &s->set->persistents[i];
        const struct st_tensor  *from = is_weight(t) ? st_find(f, their_name(c, t->name)) : NULL;
        if (from) st = check_shape(c->init, t, from, s->scratch, err);
    }
    if (st) st_close(s->os, f);
    return st;
}

static bool is_foreign(const struct session *s)
{
    return s->model && model_config_of(s->model)->family;
}

enum status weights_check(struct session *s, struct err *err)
{
    struct st_file f;
    struct arena   before = s->scratch, names;
    if (!s->settings->train.init.len)
        return is_foreign(s) ? hf_weights(s, HF_WEIGHTS_CHECK, err) : STATUS_OK;
    names          = arena_part(&s->scratch, NAMES_BYTES);
    enum status st = init_open(s, &names, &f, err);
    if (!st) st_close(s->os, &f);
    s->scratch = before;
    return st;
}

static enum status load(struct session *s, struct err *err)
{
    const struct train_config *c = &s->settings->train;
    struct st_file             f;
    struct arena               names = arena_part(&s->scratch, NAMES_BYTES);
    enum status                st    = init_open(s, &names, &f, err);
    if (st) return st;
    for (i32 i = 0; !st && i < s->set->persistent_count; i++) {
        const struct persistent *t    = &s->set->persistents[i];
        const struct st_tensor  *from = is_weight(t) ? st_find(&f, their_name(c, t->name)) : NULL;
        if (from) st = load_one(s, t, from, s->scratch, err);
    }
    st_close(s->os, &f);
    return st;
}

enum status weights_init(struct session *s, struct err *err)
{
    i64          given   = s->settings->train.threads;
    i32          threads = given ? (i32)given : pool_machine_threads();
    struct pool *pool    = pool_open(s->perm, weights_count(s, false) < FILL_BLOCK ? 1 : threads);
    /* Gradients, state and the padding between tensors start at zero: sweeps run over all of it. */
    s->backend->table->put(s->backend, 0, NULL, s->set->persistent_bytes);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (t->init.kind != INIT_ZERO) put_initial(s, t, pool, s->scratch);
    }
    pool_close(pool);
    if (s->settings->train.init.len) return load(s, err);
    return is_foreign(s) ? hf_weights(s, HF_WEIGHTS_LOAD, err) : STATUS_OK;
}

static bool is_part(const struct persistent *t, enum weights_part part)
{
    return part == WEIGHTS_VALUES ? is_weight(t) : t->kind == VALUE_GRAD && t->type.dtype != DT_I32;
}

enum status weights_save_check(struct session *s, enum weights_part part, struct str path,
                               struct err *err)
{
    struct arena   scratch = s->scratch;
    struct str     name    = os_part_name(&scratch, path);
    struct os_stat old;
    struct file    f     = { -1 };
    i64            bytes = 0, room = os_disk_free_bytes(path);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (is_part(t, part)) bytes += type_bytes(t->type);
    }
    if (!s->os->stat(s->os, path, &old, NULL) && old.is_dir)
        return err_set(err, STATUS_USAGE, "%.*s is a folder; name a file to write", STR_ARG(path));
    os_part_sweep(s->os, path, scratch);
    enum status st = s->os->create(s->os, name, &f, err);
    if (st) return st;
    st = s->os->close(s->os, &f, err);
    s->os->remove(s->os, name, NULL);
    if (!st && room >= 0 && room < bytes)
        st = err_set(err, STATUS_WORLD, "%.*s will take %lld bytes, and its disk has %lld free",
                     STR_ARG(path), (long long)bytes, (long long)room);
    return st;
}

/* Gradients of fp16 lie there times the loss scale. */
static void unscale(struct session *s, f32 *gradient, i64 count)
{
    f64 factor;
    if (!session_has(s, STR("grad_unscale"))) return;
    session_get_numbers(s, STR("grad_unscale"), &factor, 1);
    for (i64 i = 0; i < count; i++) gradient[i] = (f32)((f64)gradient[i] * factor);
}

static u8 *get_bytes(struct session *s, const struct persistent *t, struct arena *perm)
{
    const struct backend_table *be = s->backend->table;
    u8                         *to = NEW(perm, u8, type_bytes(t->type));
    be->wait(s->backend, be->get(s->backend, t->offset, to, type_bytes(t->type)));
    return to;
}

/* The gradient of a whole table from that of the rows which have one; its shape becomes the table's. */
static u8 *spread_rows(struct session *s, const struct persistent *rows, struct str table,
                       struct arena *perm, struct shape *shape)
{
    struct str               name  = str_cat(perm, rows->name, STR(".index"));
    const struct persistent *names = program_set_find(s->set, name),
                            *whole = program_set_find(s->set, table);
    const i32 *index               = (const i32 *)(const void *)get_bytes(s, names, perm);
    const u8  *from                = get_bytes(s, rows, perm);
    i64        width               = type_bytes(rows->type) / rows->type.shape.dim[0];
    u8        *to                  = NEW(perm, u8, whole->type.shape.dim[0] * width);
    for (i64 i = 0; i < rows->type.shape.dim[0] && index[i] >= 0; i++)
        memcpy(to + index[i] * width, from + i * width, (size_t)width);
    *shape = whole->type.shape;
    return to;
}

/* What makes the model and its data, so that the file can be used without its run file: KEY=VALUE a line, where it is
 * not the default. */
static struct str settings_of_model(const struct session *s, struct arena *perm)
{
    struct arena     values   = arena_part(perm, 1 << 20);
    struct settings *defaults = NEW(perm, struct settings, 1);
    struct textbuf   b        = textbuf_new(perm);
    for (i64 i = 0; s->model && i < OPTION_COUNT; i++) {
        struct arena         here = values;
        const struct option *o    = &options[i];
        if (!str_starts(o->key, STR("data.")) && !str_starts(o->key, STR("model."))) continue;
        if (str_starts(o->key, STR("data.cache")) || str_eq(o->key, STR("data.shuffle_block")))
            continue; /* of a machine; and a resumed run has it from its first start */
        option_set_text(o, defaults, o->initial, &here, NULL);
        struct str value = option_shown_text(o, s->settings, &here);
        if (!str_eq(value, option_shown_text(o, defaults, &here)))
            textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(o->key), STR_ARG(value));
    }
    return textbuf_str(&b);
}

enum status weights_save(struct session *s, enum weights_part part, struct str path,
                         struct err *err)
{
    struct arena      scratch = s->scratch;
    struct st_tensor *list    = NEW(&scratch, struct st_tensor, s->set->persistent_count + 1);
    i64               count   = 0;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t    = &s->set->persistents[i];
        struct str               name = t->name;
        if (!is_part(t, part)) continue;
        if (part == WEIGHTS_GRADIENTS) name.len -= STR(".grad").len;
        struct shape shape = t->type.shape;
        bool         rows  = part == WEIGHTS_GRADIENTS && t->sparse_rows;
        u8 *copy = rows ? spread_rows(s, t, name, &scratch, &shape) : get_bytes(s, t, &scratch);
        if (part == WEIGHTS_GRADIENTS) unscale(s, (f32 *)(void *)copy, shape_count(shape));
        list[count++] =
            (struct st_tensor){ name,
                                t->type.dtype == DT_F64 ? STR("F64") : STR("F32"),
                                shape,
                                { (const char *)copy, type_bytes(type_of(t->type.dtype, shape)) } };
    }
    struct str about = part == WEIGHTS_VALUES ? settings_of_model(s, &scratch) : STR("");
    return st_save_about(s->os, path, list, count, about, scratch, err);
}
