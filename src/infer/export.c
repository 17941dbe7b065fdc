/* export.c - weights of ours under the names of others, split and transposed as they have them. */
#include "infer/export.h"
#include "base/half.h"
#include "model/hf.h"
#include "store/safetensors.h"
#include <string.h>

enum { MEMORY_GIB = 256 };            /* address space: of transposed and rounded weights too */
enum { TENSORS_MAX = 3 * (1 << 16) }; /* theirs */

struct exporting {
    struct os          *os;
    struct model_config config;
    struct str          folder, from; /* from: their folder it came from; empty: a model of ours */
    enum export_dtype   dtype;
    struct arena        memory;
    struct st_tensor   *list;
    i64                 count;
    struct err         *err;
};

/* --- the weights --- */

static const void *rounded(struct exporting *e, const f32 *from, i64 count)
{
    u16 *to = NEW(&e->memory, u16, count);
    for (i64 i = 0; i < count; i++) to[i] = bf16_from_f32(from[i]);
    return to;
}

static const f32 *transposed(struct exporting *e, const f32 *from, i64 rows, i64 columns)
{
    enum { TILE = 32 };
    f32 *to = NEW(&e->memory, f32, rows * columns);
    for (i64 r = 0; r < rows; r += TILE)
        for (i64 c = 0; c < columns; c += TILE)
            for (i64 i = r; i < MIN(r + TILE, rows); i++)
                for (i64 k = c; k < MIN(c + TILE, columns); k++)
                    to[k * rows + i] = from[i * columns + k];
    return to;
}

static void add(struct exporting *e, struct str name, struct shape shape, const f32 *values)
{
    i64         count = shape_count(shape);
    bool        low   = e->dtype == EXPORT_BF16;
    const void *bytes = low ? rounded(e, values, count) : values;
    ASSERT(e->count < TENSORS_MAX);
    e->list[e->count++] = (struct st_tensor){
        name, low ? STR("BF16") : STR("F32"), shape, { bytes, count * (low ? 2 : 4) }
    };
}

/* As f32 and aligned, where the file has them otherwise. */
static const f32 *values_of(struct exporting *e, const struct st_tensor *t)
{
    if (str_eq(t->dtype, STR("F32")) && (uintptr_t)t->bytes.data % sizeof(f32) == 0)
        return (const f32 *)(const void *)t->bytes.data;
    f32 *to = NEW(&e->memory, f32, shape_count(t->shape));
    return st_to_f32(t, to) ? to : NULL;
}

static enum status add_ours(struct exporting *e, const struct st_tensor *t)
{
    struct hf_source s;
    if (!hf_source(&e->config, t->name, t->shape, &e->memory, &s))
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has no place in a model of type %.*s",
                       STR_ARG(t->name), STR_ARG(hf_type(&e->config)));
    const f32 *values = values_of(e, t);
    if (!values)
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has type %.*s", STR_ARG(t->name),
                       STR_ARG(t->dtype));
    i64 rows = t->shape.dim[0], each = shape_count(t->shape) / MAX(rows, 1), sum = 0;
    for (i32 i = 0; i < s.count; i++) sum += s.rows[i];
    if (sum != rows)
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has %lld rows instead of %lld",
                       STR_ARG(t->name), (long long)rows, (long long)sum);
    if (s.transposed) {
        add(e, s.name[0], shape_2(each, rows), transposed(e, values, rows, each));
        return STATUS_OK;
    }
    for (i32 i = 0; i < s.count; i++) {
        struct shape shape = t->shape;
        shape.dim[0]       = s.rows[i];
        add(e, s.name[i], shape, values);
        values += s.rows[i] * each;
    }
    return STATUS_OK;
}

static enum status write_config(struct exporting *e)
{
    struct str  before = { 0 }, text;
    enum status st     = STATUS_OK;
    struct str  dtype  = e->dtype == EXPORT_BF16 ? STR("bfloat16") : STR("float32");
    if (e->from.len)
        st = os_read_all(e->os, str_cat(&e->memory, e->from, STR("/config.json")), &e->memory,
                         &before, e->err);
    if (!st) st = hf_config_write(&e->config, before, dtype, &e->memory, &text, e->err);
    if (!st)
        st = os_publish(e->os, str_cat(&e->memory, e->folder, STR("/config.json")), text, e->memory,
                        e->err);
    return st;
}

static i64 size_of(const struct st_file *f, const char *name, i32 axis)
{
    const struct st_tensor *t = st_find(f, str_of(name));
    return t && t->shape.rank > axis ? t->shape.dim[axis] : 0;
}

/* What a model of ours has from its data, or from its other settings, is seen in its weights. */
static void look_at(struct exporting *e, const struct st_file *f)
{
    if (e->from.len) return;
    e->config.vocabulary = size_of(f, "wte.weight", 0);
    e->config.places     = size_of(f, "wpe.weight", 0);
    e->config.hidden     = size_of(f, "h.0.mlp.down.weight", 1);
}

/* The config first: a folder with weights is whole. */
static enum status write_both(struct exporting *e, struct str weights)
{
    struct st_file f;
    enum status    st = st_open(e->os, weights, &e->memory, &f, e->err);
    if (st) return st;
    look_at(e, &f);
    st      = write_config(e);
    e->list = NEW(&e->memory, struct st_tensor, TENSORS_MAX);
    for (i64 i = 0; !st && i < f.count; i++) st = add_ours(e, &f.tensors[i]);
    if (!st)
        st = st_save(e->os, str_cat(&e->memory, e->folder, STR("/model.safetensors")), e->list,
                     e->count, e->memory, e->err);
    st_close(e->os, &f);
    return st;
}

/* --- the rest --- */

static enum status copy(struct exporting *e, const char *name)
{
    struct str     from = str_fmt(&e->memory, "%.*s/%s", STR_ARG(e->from), name), bytes;
    struct str     to   = str_fmt(&e->memory, "%.*s/%s", STR_ARG(e->folder), name);
    struct os_stat stat;
    if (e->os->stat(e->os, from, &stat, NULL)) return STATUS_OK;
    enum status st = os_read_all(e->os, from, &e->memory, &bytes, e->err);
    return st ? st : os_publish(e->os, to, bytes, e->memory, e->err);
}

static enum status copy_tokenizer(struct exporting *e)
{
    static const char *const names[] = { "tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "tokenizer.model",
                                         "generation_config.json",
                                         "chat_template.jinja" };
    enum status              st      = STATUS_OK;
    for (i64 i = 0; !st && i < COUNT_OF(names); i++) st = copy(e, names[i]);
    return st;
}

/* A model of theirs has its family from config.json; one of ours is of the family that computes the same. */
static enum status find_family(struct exporting *e)
{
    struct str text, path;
    if (!e->from.len) return hf_family_of(&e->config, e->err);
    path           = str_cat(&e->memory, e->from, STR("/config.json"));
    enum status st = os_read_all(e->os, path, &e->memory, &text, e->err);
    return st ? st : hf_config_read(path, text, &e->memory, &e->config, e->err);
}

enum status export_folder(struct os *os, const struct settings *settings, struct str folder,
                          enum export_dtype dtype, struct err *err)
{
    struct exporting e = { .os     = os,
                           .config = settings->model,
                           .folder = folder,
                           .from   = settings->model.path,
                           .dtype  = dtype,
                           .memory = arena_open((i64)MEMORY_GIB << 30),
                           .err    = err };
    if (!e.memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = STATUS_OK;
    if (!settings->train.init.len)
        st = err_set(err, STATUS_USAGE, "%.*s is a folder already; export what was trained from it",
                     STR_ARG(e.from));
    e.config.context = settings->data.context;
    if (!st) st = find_family(&e);
    if (!st) st = os->make_dir(os, folder, err);
    if (!st && e.from.len) st = copy_tokenizer(&e);
    if (!st) st = write_both(&e, settings->train.init);
    arena_close(&e.memory);
    return st;
}
