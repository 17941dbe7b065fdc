/* hf_weights.c - a run that begins with somebody else's model (model.kind=hf): its config.json becomes the
 * model's settings, and its tensors go from the mapped files to where they live. */
#include "base/half.h"
#include "model/hf.h"
#include "store/st_folder.h"
#include "train/train_int.h"

enum { NAMES_BYTES = 256 << 20 };  /* address space for headers and names */
enum { STRETCH_BYTES = 64 << 20 }; /* for one stretch in the type of the tensor */

enum status hf_settings(struct os *os, struct model_config *c, struct arena *perm, struct err *err)
{
    struct str text, path;
    if (!c->path.len)
        return err_set(
            err, STATUS_USAGE,
            "model.kind=hf needs model.path, the folder of a model with its config.json");
    path           = str_cat(perm, c->path, STR("/config.json"));
    enum status st = os_read_all(os, path, perm, &text, err);
    return st ? st : hf_config_read(path, text, perm, c, err);
}

/* Bytes are no tokens of a model that has a tokenizer, and nothing but a poor loss would show it. */
static enum status check_tokens(const struct session *s, struct err *err)
{
    struct arena scratch = s->scratch;
    struct str   path = s->settings->data.path, folder = s->settings->model.path;
    if (!str_eq(data_kind(s->os, &s->settings->data), STR("text")) ||
        !os_is_file(s->os, str_cat(&scratch, folder, STR("/tokenizer.json"))))
        return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "data.path=%.*s would be read as bytes, and %.*s has a tokenizer: `frugal "
                   "tokenize --tokenizer %.*s --out FILE.bin %.*s`, then data.path=FILE.bin",
                   STR_ARG(path), STR_ARG(folder), STR_ARG(folder), STR_ARG(path));
}

enum status session_model(struct session *s, struct err *err)
{
    struct model_config c  = s->settings->model;
    enum status         st = STATUS_OK;
    c.lora                 = s->settings->train.lora;
    if (str_eq(c.kind, STR("hf"))) st = check_tokens(s, err);
    if (!st && str_eq(c.kind, STR("hf"))) st = hf_settings(s->os, &c, s->perm, err);
    return st ? st : model_new(s->perm, &c, dataset_feeds(s->data), &s->model, err);
}

/* Where our tensors are in the folder, one item each: of those that it can have. */
struct sources {
    struct st_source         *list;
    const struct persistent **ours;
    i64                       count;
};

/* Of the matrix itself, where it is kept in fewer bits. */
static struct shape packed_shape(const struct session *s, const struct persistent *t)
{
    struct shape shape = persistent_type(t).shape;
    if (t->type.dtype == DT_U8 && packed_part(s, t, ".sizes")) shape.dim[1] *= 2;
    return shape;
}

/* The first BERTs call a norm's weight gamma and its bias beta. */
static void older_name(const struct st_folder *f, struct st_source *s, struct str prefix,
                       struct arena *perm)
{
    static const char *const now[] = { ".weight", ".bias" }, *const then[] = { ".gamma", ".beta" };
    if (s->count != 1 || st_folder_find(f, s->name[0])) return;
    for (i32 i = 0; i < COUNT_OF(now); i++) {
        struct str name = s->name[0], end = str_of(now[i]);
        if (!str_ends(name, end)) continue;
        name = str_cat(perm, str_sub(name, 0, name.len - end.len), str_of(then[i]));
        if (str_starts(name, prefix) && !st_folder_find(f, name))
            name = str_sub(name, prefix.len, name.len);
        if (st_folder_find(f, name)) s->name[0] = name;
    }
}

static struct sources sources_of(const struct session *s, const struct model_config *c,
                                 const struct st_folder *f, struct arena *perm)
{
    i64            most = s->set->persistent_count;
    struct sources all  = { NEW(perm, struct st_source, most + 1),
                            NEW(perm, const struct persistent *, most + 1), 0 };
    for (i32 i = 0; i < most; i++) {
        const struct persistent *t = &s->set->persistents[i];
        struct hf_source         h;
        if (t->kind != VALUE_PARAM || !hf_source(c, t->name, persistent_type(t).shape, perm, &h))
            continue;
        struct st_source *to    = &all.list[all.count];
        struct shape      shape = packed_shape(s, t);
        all.ours[all.count++]   = t;
        *to = (struct st_source){ t->name, shape, { { 0 } }, { 0 }, h.count, h.transposed };
        for (i32 k = 0; k < h.count; k++) to->name[k] = h.name[k], to->rows[k] = h.rows[k];
        st_source_strip(f, to, hf_prefix(c));
        older_name(f, to, hf_prefix(c), perm);
        if (hf_may_lack(c, t->name) && !st_folder_find(f, to->name[0])) all.count--;
    }
    return all;
}

static bool ignores(const void *config, struct str theirs) { return hf_is_ignored(config, theirs); }

/* --- by all threads, a part at a time --- */

struct piece { /* of one of our tensors: numbers [from, from + count) */
    i64 source, from, count;
};

struct loading {
    const struct st_folder *f;
    const struct sources   *all;
    const struct piece     *pieces;
    f32                    *room; /* of each worker, for numbers on their way to another type */
    i64                     each;
};

static struct str file_type(enum dtype t)
{
    return t == DT_BF16 ? STR("BF16") : t == DT_F32 ? STR("F32") : STR("F64");
}

static bool is_same(const struct st_folder *f, const struct sources *all, i64 i)
{
    return st_source_is(f, &all->list[i], file_type(all->ours[i]->type.dtype));
}

static void fill_piece(void *context, i64 part, void *to, i32 worker)
{
    const struct loading   *l     = context;
    const struct piece     *p     = &l->pieces[part];
    const struct st_source *from  = &l->all->list[p->source];
    enum dtype              dtype = l->all->ours[p->source]->type.dtype;
    i64                     bytes = dtype_bytes(dtype);
    if (is_same(l->f, l->all, p->source)) {
        st_source_bytes(l->f, from, p->from * bytes, p->count * bytes, to);
        return;
    }
    f32 *values = dtype == DT_F32 ? to : l->room + worker * l->each;
    st_source_read(l->f, from, p->from, p->count, values);
    for (i64 i = 0; dtype == DT_BF16 && i < p->count; i++)
        ((u16 *)to)[i] = bf16_from_f32(values[i]);
    for (i64 i = 0; dtype == DT_F64 && i < p->count; i++) ((f64 *)to)[i] = (f64)values[i];
}

/* Whole rows, where they are turned round on the way. */
static i64 piece_count(const struct st_source *from, enum dtype t)
{
    i64 most = BACKEND_PART_BYTES / dtype_bytes(t), row = from->shape.dim[1];
    return from->transposed ? most / row * row : most;
}

static bool in_pieces(const struct sources *all, i64 i)
{
    const struct persistent *t = all->ours[i];
    return t->type.dtype != DT_U8 && !t->dealt && piece_count(&all->list[i], t->type.dtype) > 0;
}

/* Those that lie as one piece of memory, in any of three types. */
static void load_pieces(struct session *s, const struct st_folder *f, const struct sources *all,
                        struct pool *pool, struct arena scratch)
{
    i64  most = 0, count = 0;
    bool converts = false;
    for (i64 i = 0; i < all->count; i++) {
        if (!in_pieces(all, i)) continue;
        most +=
            shape_count(all->list[i].shape) / piece_count(&all->list[i], all->ours[i]->type.dtype) +
            1;
        converts |= !is_same(f, all, i);
    }
    struct piece        *pieces = NEW(&scratch, struct piece, most + 1);
    struct backend_part *parts  = NEW(&scratch, struct backend_part, most + 1);
    for (i64 i = 0; i < all->count; i++) {
        const struct persistent *t   = all->ours[i];
        i64                      end = in_pieces(all, i) ? shape_count(all->list[i].shape) : 0;
        for (i64 from = 0; from < end; from += pieces[count++].count) {
            i64 some      = MIN(piece_count(&all->list[i], t->type.dtype), end - from);
            i64 bytes     = dtype_bytes(t->type.dtype);
            pieces[count] = (struct piece){ i, from, some };
            parts[count]  = (struct backend_part){ t->offset + from * bytes, some * bytes };
        }
    }
    struct loading l = { .f = f, .all = all, .pieces = pieces };
    l.each           = converts ? BACKEND_PART_BYTES / (i64)sizeof(u16) : 0;
    l.room           = NEW(&scratch, f32, l.each * pool_threads(pool) + 1);
    s->backend->table->load(s->backend, parts, count, pool, fill_piece, &l);
}

/* Numbers of the largest matrix that is kept in fewer bits; 0: none is. */
static i64 largest_packed(const struct sources *all)
{
    i64 most = 0;
    for (i64 i = 0; i < all->count; i++)
        if (all->ours[i]->type.dtype == DT_U8) most = MAX(most, shape_count(all->list[i].shape));
    return most;
}

bool init_is_folder(const struct session *s)
{
    struct os_stat stat;
    struct str     init = s->settings->train.init;
    return init.len && !s->os->stat(s->os, init, &stat, NULL) && stat.is_dir;
}

/* train.init, where it is a folder. */
static enum status check_init(struct session *s, struct str folder, struct arena scratch,
                              struct err *err)
{
    if (os_is_file(s->os, str_cat(&scratch, folder, STR("/config.json")))) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.init=%.*s is a folder without config.json; give a Hugging Face folder, "
                   "which has one, or a safetensors file, like weights.safetensors of a checkpoint",
                   STR_ARG(folder));
}

static void load_all(struct session *s, const struct st_folder *f, const struct sources *all,
                     struct arena scratch)
{
    i64               given = s->settings->train.threads, packed = largest_packed(all);
    struct stopwatch  watch  = stopwatch_start(s->os);
    struct pool      *pool   = pool_open(&scratch, given ? (i32)given : pool_machine_threads());
    struct packer    *packer = packed ? packed_open(s, packed, &scratch) : NULL;
    struct weights_to to     = { .s = s, .scratch = arena_part(&scratch, STRETCH_BYTES) };
    load_pieces(s, f, all, pool, scratch);
    pool_close(pool);
    for (i64 i = 0; i < all->count; i++) {
        s->loaded.bytes += type_bytes(all->ours[i]->type);
        if (in_pieces(all, i)) continue;
        to.t = all->ours[i];
        if (to.t->type.dtype == DT_U8) packed_load(packer, f, &all->list[i], to.t);
        else st_source_stream(f, &all->list[i], weights_put_stretch, &to, scratch);
    }
    if (packer) packed_close(packer);
    s->loaded.seconds += stopwatch_s(&watch);
}

enum status hf_weights(struct session *s, struct str folder, enum hf_weights_do what,
                       struct err *err)
{
    struct model_config c       = *model_config_of(s->model);
    struct arena        scratch = s->scratch, names = arena_part(&scratch, NAMES_BYTES);
    struct st_folder    f;
    enum status         st    = STATUS_OK;
    bool                other = !str_eq(c.path, folder);
    c.path                    = folder;
    if (other) st = check_init(s, folder, scratch, err);
    if (!st && other)
        st = hf_settings(s->os, &c, &names, err); /* its names; sizes are the model's */
    if (!st) st = st_folder_open(s->os, c.path, &names, &f, err);
    if (st) return st;
    struct sources all = sources_of(s, &c, &f, &names);
    st = st_sources_check(&f, c.path, all.list, all.count, ignores, &c, scratch, err);
    if (!st && what == HF_WEIGHTS_LOAD) load_all(s, &f, &all, scratch);
    if (!st) st = os_maps_check(err);
    st_folder_close(s->os, &f);
    return st;
}
