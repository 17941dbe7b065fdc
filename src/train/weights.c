/* weights.c - where parameters come from and go to: random by (seed, name, element), a
 * safetensors file, or both; docs/formats/weights.md. */
#include "base/half.h"
#include "base/rng.h"
#include "model/hf.h"
#include "model/lora.h"
#include "store/st_folder.h"
#include "store/st_parts.h"
#include "train/train_int.h"

enum { CHUNK = 1 << 20 };         /* numbers made at a time */
enum { FILL_BLOCK = 1 << 14 };    /* numbers that one thread makes at a time */
enum { NAMES_BYTES = 256 << 20 }; /* address space for the header of train.init */

static bool is_weight(const struct persistent *t)
{
    return t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER;
}

static bool is_foreign(const struct session *s)
{
    return s->model && model_config_of(s->model)->family;
}

/* The weights that adapters stand beside are in their folder, and are not written again. */
static bool has_base(const struct session *s)
{
    return is_foreign(s) && s->settings->train.lora.rank > 0;
}

bool weights_are_kept(const struct session *s, const struct persistent *t)
{
    return is_weight(t) && !(has_base(s) && !lora_is_adapter(t->name));
}

/* Of a matrix in fewer bits: its numbers; what else belongs to it is none. */
static i64 number_count(const struct session *s, const struct persistent *t)
{
    bool nf4    = t->type.dtype == DT_U8 && packed_part(s, t, ".sizes");
    bool scales = t->frozen && (str_ends(t->name, STR(".weight.scales")) ||
                                str_ends(t->name, STR(".weight.sizes")));
    return scales ? 0 : shape_count(persistent_type(t).shape) * (nf4 ? 2 : 1);
}

i64 weights_count(const struct session *s, bool trained_only)
{
    i64 count = 0;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (t->kind == VALUE_PARAM && !(trained_only && t->frozen)) count += number_count(s, t);
    }
    return count;
}

static void fill_initial(const struct init *init, struct rng_key key, i64 first, i64 count, f32 *to)
{
    switch (init->kind) {
    case INIT_NORMAL: rng_fill_normal(key, (u64)first, count, init->scale, to); return;
    case INIT_UNIFORM: rng_fill_around_zero(key, (u64)first, count, init->scale, to); return;
    case INIT_ZERO:
    case INIT_CONST: break;
    }
    f32 value = init->kind == INIT_CONST ? (f32)init->scale : 0;
    for (i64 i = 0; i < count; i++) to[i] = value;
}

i64 weights_first(const struct session *s, const struct persistent *t)
{
    return t->dealt ? shape_count(t->type.shape) * s->config.place : 0;
}

/* Of numbers [*from, *from + *count) of a tensor those that lie here: how many to skip, and where they begin. */
static i64 own_numbers(const struct session *s, const struct persistent *t, i64 *from, i64 *count)
{
    i64 part = shape_count(t->type.shape), first = weights_first(s, t);
    i64 begin = MAX(*from, first), end = MIN(*from + *count, first + part), skip = begin - *from;
    *from  = begin - first;
    *count = MAX(end - begin, 0);
    return skip;
}

void weights_put(struct session *s, const struct persistent *t, i64 from, const f32 *values,
                 i64 count, struct arena scratch)
{
    const struct backend_table *be = s->backend->table;
    values += own_numbers(s, t, &from, &count);
    if (!count) return;
    if (t->type.dtype == DT_F64) {
        f64 *wide = NEW(&scratch, f64, count);
        for (i64 i = 0; i < count; i++) wide[i] = (f64)values[i];
        be->put(s->backend, t->offset + from * (i64)sizeof *wide, wide, count * (i64)sizeof *wide);
        return;
    }
    if (t->type.dtype == DT_BF16) {
        u16 *low = NEW(&scratch, u16, count);
        for (i64 i = 0; i < count; i++) low[i] = bf16_from_f32(values[i]);
        be->put(s->backend, t->offset + from * (i64)sizeof *low, low, count * (i64)sizeof *low);
        return;
    }
    ASSERT(t->type.dtype == DT_F32);
    be->put(s->backend, t->offset + from * (i64)sizeof *values, values,
            count * (i64)sizeof *values);
}

void weights_put_stretch(void *weights_to, i64 from, const f32 *values, i64 count)
{
    const struct weights_to *to = weights_to;
    weights_put(to->s, to->t, from, values, count, to->scratch);
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
    struct fill *f    = context;
    i64          from = block * FILL_BLOCK, count = MIN(FILL_BLOCK, f->count - from);
    if (!worker) put_made(f);
    fill_initial(&f->t->init, f->key, f->from + from, count, f->to + from);
}

static void put_initial(struct session *s, const struct persistent *t, struct pool *pool,
                        struct arena scratch)
{
    i64         first = weights_first(s, t), part = shape_count(t->type.shape);
    i64         all   = MIN(shape_count(persistent_type(t).shape), first + part);
    struct fill f     = { .s   = s,
                          .t   = t,
                          .key = { .seed = s->settings->train.seed, .name = str_hash(t->name) },
                          .to  = NEW(&scratch, f32, MIN(CHUNK, part)) };
    f32        *other = NEW(&scratch, f32, MIN(CHUNK, part));
    f.scratch         = scratch;
    f.from            = first;
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

static enum status check_type(struct str init, const struct persistent *t,
                              const struct st_whole *from, struct arena scratch, struct err *err)
{
    struct type      ours   = persistent_type(t);
    struct st_tensor theirs = st_whole_tensor(from);
    if (!st_is_readable(from->dtype))
        return err_set(err, STATUS_USAGE,
                       "%.*s: tensor %.*s has type %.*s; F32, F16, BF16 or F64 can be read",
                       STR_ARG(init), STR_ARG(from->name), STR_ARG(from->dtype));
    if (shape_eq(from->shape, ours.shape)) return STATUS_OK;
    struct str have = st_type_text(&scratch, &theirs);
    struct str want = type_text(&scratch, ours);
    return err_set(err, STATUS_USAGE, "%.*s: tensor %.*s is %.*s, but the model's is %.*s",
                   STR_ARG(init), STR_ARG(from->name), STR_ARG(have), STR_ARG(want));
}

/* Names in a sentence, as many as fit. */
static void list_name(struct textbuf *b, i64 *count, struct str name)
{
    if (*count < 8) textbuf_fmt(b, "%s%.*s", *count ? ", " : "", STR_ARG(name));
    if (*count == 8) textbuf_add(b, STR(", …"));
    ++*count;
}

static enum status check_names(struct session *s, const struct st_parts *f, struct arena scratch,
                               struct err *err)
{
    const struct train_config *c       = &s->settings->train;
    struct arena               half    = arena_part(&scratch, 1 << 20);
    struct textbuf             missing = textbuf_new(&half), extra = textbuf_new(&scratch);
    i64                        missing_count = 0, extra_count = 0;
    bool                       any     = false;       /* file and model may differ */
    bool                       adapted = has_base(s); /* the file has adapters, or should */
    for (i64 k = 0; k < f->count; k++) adapted |= lora_is_adapter(f->tensors[k].name);
    for (i64 i = 0; i < c->rename_count; i++) any |= is_any(c->rename[i]);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t      = &s->set->persistents[i];
        bool                     starts = c->lora.rank && lora_is_adapter(t->name) && !adapted;
        if (weights_are_kept(s, t) && !starts && !st_parts_find(f, their_name(c, t->name)))
            list_name(&missing, &missing_count, t->name);
    }
    for (i64 k = 0; k < f->count; k++) {
        bool known = false;
        for (i32 i = 0; i < s->set->persistent_count && !known; i++)
            known = weights_are_kept(s, &s->set->persistents[i]) &&
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
static enum status check_renames(struct session *s, const struct st_parts *f, struct err *err)
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
        if (!st_parts_find(f, str_trim(theirs)))
            return err_set(err, STATUS_USAGE, "train.rename=%.*s: %.*s has no tensor %.*s",
                           STR_ARG(c->rename[i]), STR_ARG(c->init), STR_ARG(theirs));
    }
    return STATUS_OK;
}

/* Opens train.init and holds all its names and shapes against the model. */
static enum status init_open(struct session *s, struct arena *names, struct st_parts *f,
                             struct err *err)
{
    const struct train_config *c  = &s->settings->train;
    enum status                st = st_parts_open(s->os, c->init, names, f, err);
    if (st) return st;
    st = check_renames(s, f, err);
    if (!st) st = check_names(s, f, s->scratch, err);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        const struct st_whole   *from =
            weights_are_kept(s, t) ? st_parts_find(f, their_name(c, t->name)) : NULL;
        if (from) st = check_type(c->init, t, from, s->scratch, err);
    }
    if (st) st_parts_close(s->os, f);
    return st;
}

enum status weights_check(struct session *s, struct err *err)
{
    struct st_parts            f;
    struct arena               before = s->scratch, names;
    const struct train_config *c      = &s->settings->train;
    enum status                st     = STATUS_OK;
    if (is_foreign(s) && (!c->init.len || c->lora.rank))
        st = hf_weights(s, model_config_of(s->model)->path, HF_WEIGHTS_CHECK, err);
    if (!st && c->lora.rank && !is_foreign(s) && !c->init.len && !s->settings->resumed)
        st = err_set(err, STATUS_USAGE,
                     "train.lora needs weights to begin with: give train.init, or model.kind=hf");
    if (st || !c->init.len) return st;
    if (adapters_are_folder(s)) return adapters_weights(s, HF_WEIGHTS_CHECK, err);
    if (init_is_folder(s) && has_base(s)) /* the adapters' file names model.path as their model */
        return err_set(err, STATUS_USAGE,
                       "train.init=%.*s is no folder of adapters, and train.lora trains those of "
                       "model.path; give the folder of a whole model as model.path instead",
                       STR_ARG(c->init));
    if (init_is_folder(s)) return hf_weights(s, c->init, HF_WEIGHTS_CHECK, err);
    names = arena_part(&s->scratch, NAMES_BYTES);
    st    = init_open(s, &names, &f, err);
    if (!st) st_parts_close(s->os, &f);
    s->scratch = before;
    return st;
}

static enum status load(struct session *s, struct err *err)
{
    const struct train_config *c      = &s->settings->train;
    struct arena               before = s->scratch, names = arena_part(&s->scratch, NAMES_BYTES);
    struct weights_sources     all = weights_sources_new(s, &names);
    struct st_parts            f;
    enum status                st = init_open(s, &names, &f, err);
    if (st) goto out;
    struct st_file   flat   = st_parts_flat(&f, &s->scratch);
    struct st_folder folder = { .tensors = flat.tensors, .count = flat.count };
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t     = &s->set->persistents[i];
        struct shape             shape = persistent_type(t).shape;
        struct str               name  = their_name(c, t->name);
        if (!weights_are_kept(s, t) || !st_folder_find(&folder, name)) continue;
        all.list[all.count] =
            (struct st_source){ t->name, shape, { name }, { shape.rank ? shape.dim[0] : 1 },
                                1,       false };
        all.ours[all.count++] = t;
    }
    weights_load(s, &folder, &all, s->scratch);
    st = os_maps_check(err);
    st_parts_close(s->os, &f);
out:
    s->scratch = before;
    return st;
}

enum status weights_init(struct session *s, struct err *err)
{
    if (s->of) return weights_copy(s, err);
    struct str   init    = s->settings->train.init;
    i64          given   = s->settings->train.threads;
    i32          threads = given ? (i32)given : pool_machine_threads();
    struct pool *pool    = pool_open(s->perm, weights_count(s, false) < FILL_BLOCK ? 1 : threads);
    /* Gradients, state and the padding between tensors start at zero: sweeps run over all of it. */
    s->backend->table->put(s->backend, 0, NULL, s->set->persistent_bytes);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        bool there = is_foreign(s) && t->kind == VALUE_PARAM && !lora_is_adapter(t->name) &&
                     !hf_may_lack(model_config_of(s->model), t->name);
        if (t->init.kind != INIT_ZERO && !there) put_initial(s, t, pool, s->scratch);
    }
    pool_close(pool);
    enum status st = STATUS_OK;
    if (is_foreign(s) && (!init.len || has_base(s)))
        st = hf_weights(s, model_config_of(s->model)->path, HF_WEIGHTS_LOAD, err);
    if (st || !init.len) return st;
    if (!adapters_are_folder(s) && init_is_folder(s))
        return hf_weights(s, init, HF_WEIGHTS_LOAD, err);
    return adapters_are_folder(s) ? adapters_weights(s, HF_WEIGHTS_LOAD, err) : load(s, err);
}
