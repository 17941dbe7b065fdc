/* export.c - weights of ours under the names of others, split and transposed as they have them.
 *
 * What goes into the file is listed first, then made tensor by tensor from the mapped files while it is written: the
 * memory that it takes is that of the largest tensor. */
#include "infer/export.h"
#include "base/half.h"
#include "model/lora.h"
#include "store/st_folder.h"
#include "store/st_parts.h"
#include "train/use.h"
#include <string.h>

enum { MEMORY_GIB = 256 };            /* address space, half of it for the tensor at hand */
enum { TENSORS_MAX = 3 * (1 << 16) }; /* theirs */

/* Where the numbers of a tensor lie: in one that is mapped. */
struct source {
    const struct st_tensor *from;
    i64                     skip;       /* so many others come first */
    bool                    transposed; /* they lie as columns of the result */
};

struct exporting {
    struct os          *os;
    struct model_config config;
    struct str          folder, from; /* from: their folder it came from; empty: a model of ours */
    struct str          tokenizer;    /* folder of it; empty: none */
    const struct str   *class_names;
    i64                 class_count;
    enum export_dtype   dtype;
    bool                merges;
    bool                gguf; /* one file for llama.cpp, `folder`, of matrices of `gguf_type` */
    enum gguf_type      gguf_type;
    struct model_config names;    /* of matrices that have adapters */
    struct st_tensor   *adapters; /* under PEFT's names */
    i64                 adapter_count;
    struct arena        memory, scratch;
    struct st_tensor   *list; /* what the file will have; of the bytes only how many */
    struct source      *sources;
    i64                 count;
    struct err         *err;
};

/* --- adapters --- */

static const f32 *values_of(struct exporting *e, const struct st_tensor *t);

/* PEFT's tensors of one of ours: a part each. */
static enum status add_adapter(struct exporting *e, const struct st_tensor *t)
{
    struct hf_source s;
    const f32       *values = values_of(e, t);
    if (!values || t->shape.rank != 2 || !lora_source(&e->names, t->name, t->shape, &e->memory, &s))
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has no place among the adapters",
                       STR_ARG(t->name));
    i64 left = t->shape.dim[0], width = t->shape.dim[1];
    for (i32 i = 0; i < s.count; i++, left -= s.rows[i - 1]) {
        if (left < s.rows[i] || e->adapter_count == TENSORS_MAX) break;
        e->adapters[e->adapter_count++] =
            (struct st_tensor){ s.name[i],
                                STR("F32"),
                                shape_2(s.rows[i], width),
                                { (const char *)values, s.rows[i] * width * (i64)sizeof *values } };
        values += s.rows[i] * width;
    }
    if (!left) return STATUS_OK;
    return err_set(e->err, STATUS_USAGE, "the tensor %.*s does not have the rows of its adapters",
                   STR_ARG(t->name));
}

static const struct st_tensor *adapter_of(const struct exporting *e, struct str module, char which,
                                          struct arena scratch)
{
    struct str name =
        str_fmt(&scratch, "base_model.model.%.*slora_%c.weight", STR_ARG(module), which);
    for (i64 i = 0; i < e->adapter_count; i++)
        if (str_eq(e->adapters[i].name, name)) return &e->adapters[i];
    return NULL;
}

/* W + scale B A, summed in f64 and rounded once; of a transposed W its transposed. */
static const f32 *merged(const struct exporting *e, const struct st_tensor *t, const f32 *values,
                         struct arena *memory)
{
    struct str   name  = t->name;
    struct shape shape = t->shape;
    if (!e->merges || !str_ends(name, STR(".weight")) || shape.rank != 2) return values;
    struct str              module = str_sub(name, 0, name.len - STR("weight").len);
    const struct st_tensor *A      = adapter_of(e, module, 'A', *memory),
                           *B      = adapter_of(e, module, 'B', *memory);
    if (!A && e->from.len) { /* only the body of the model was saved */
        module = str_cat(memory, hf_prefix(&e->names), module);
        A = adapter_of(e, module, 'A', *memory), B = adapter_of(e, module, 'B', *memory);
    }
    if (!A || !B) return values;
    const f32 *a = (const f32 *)(const void *)A->bytes.data,
              *b = (const f32 *)(const void *)B->bytes.data;
    i64  rank = A->shape.dim[0], in = A->shape.dim[1], out = B->shape.dim[0];
    bool turned = shape.dim[0] == in && hf_is_transposed(&e->names);
    f32 *to     = NEW(memory, f32, in * out);
    f64 *row = NEW(memory, f64, in), scale = lora_scale(&e->names.lora);
    for (i64 o = 0; o < out; o++) {
        memset(row, 0, (size_t)in * sizeof *row);
        for (i64 r = 0; r < rank; r++)
            for (i64 i = 0; i < in; i++) row[i] += (f64)b[o * rank + r] * (f64)a[r * in + i];
        for (i64 i = 0; i < in; i++) {
            i64 at = turned ? i * out + o : o * in + i;
            to[at] = (f32)((f64)values[at] + scale * row[i]);
        }
    }
    return to;
}

/* --- the weights --- */

static const void *rounded(const f32 *from, i64 count, struct arena *memory)
{
    u16 *to = NEW(memory, u16, count);
    for (i64 i = 0; i < count; i++) to[i] = bf16_from_f32(from[i]);
    return to;
}

static const f32 *transposed(const f32 *from, i64 rows, i64 columns, struct arena *memory)
{
    enum { TILE = 32 };
    f32 *to = NEW(memory, f32, rows * columns);
    for (i64 r = 0; r < rows; r += TILE)
        for (i64 c = 0; c < columns; c += TILE)
            for (i64 i = r; i < MIN(r + TILE, rows); i++)
                for (i64 k = c; k < MIN(c + TILE, columns); k++)
                    to[k * rows + i] = from[i * columns + k];
    return to;
}

static void add(struct exporting *e, struct str name, struct shape shape, struct source from)
{
    bool low = e->dtype == EXPORT_BF16;
    ASSERT(e->count < TENSORS_MAX);
    e->sources[e->count] = from;
    e->list[e->count++]  = (struct st_tensor){
         name, low ? STR("BF16") : STR("F32"), shape, { NULL, shape_count(shape) * (low ? 2 : 4) }
    };
}

/* As f32 and aligned, where the file has them otherwise; NULL: they are no such numbers. */
static const f32 *numbers_of(const struct st_tensor *t, i64 skip, i64 count, struct arena *memory)
{
    i64              each = t->bytes.len / MAX(shape_count(t->shape), 1);
    struct st_tensor part = { t->name, t->dtype, shape_1(count),
                              str_sub(t->bytes, skip * each, (skip + count) * each) };
    if (str_eq(t->dtype, STR("F32")) && (uintptr_t)part.bytes.data % sizeof(f32) == 0)
        return (const f32 *)(const void *)part.bytes.data;
    f32 *to = NEW(memory, f32, count);
    return st_to_f32(&part, to) ? to : NULL;
}

static const f32 *values_of(struct exporting *e, const struct st_tensor *t)
{
    return numbers_of(t, 0, shape_count(t->shape), &e->memory);
}

static bool has_numbers(const struct exporting *e, const struct st_tensor *t)
{
    struct arena scratch = e->memory;
    return numbers_of(t, 0, 0, &scratch) != NULL;
}

static struct str make_bytes(const void *context, i64 tensor)
{
    const struct exporting *e       = context;
    const struct st_tensor *t       = &e->list[tensor];
    const struct source    *s       = &e->sources[tensor];
    struct arena            scratch = e->scratch;
    i64                     count   = shape_count(t->shape);
    const f32              *values  = numbers_of(s->from, s->skip, count, &scratch);
    if (s->transposed) values = transposed(values, t->shape.dim[1], t->shape.dim[0], &scratch);
    values            = merged(e, t, values, &scratch);
    const void *bytes = e->dtype == EXPORT_BF16 ? rounded(values, count, &scratch) : values;
    return (struct str){ bytes, t->bytes.len };
}

static enum status add_ours(struct exporting *e, const struct st_tensor *t)
{
    struct hf_source s;
    if (lora_is_adapter(t->name)) return STATUS_OK;
    if (!hf_source(&e->config, t->name, t->shape, &e->memory, &s))
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has no place in a model of type %.*s",
                       STR_ARG(t->name), STR_ARG(hf_type(&e->config)));
    if (!has_numbers(e, t))
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has type %.*s", STR_ARG(t->name),
                       STR_ARG(t->dtype));
    i64 rows = t->shape.dim[0], each = shape_count(t->shape) / MAX(rows, 1), sum = 0;
    for (i32 i = 0; i < s.count; i++) sum += s.rows[i];
    if (sum != rows)
        return err_set(e->err, STATUS_USAGE, "the tensor %.*s has %lld rows instead of %lld",
                       STR_ARG(t->name), (long long)rows, (long long)sum);
    if (s.transposed) {
        add(e, s.name[0], shape_2(each, rows), (struct source){ t, 0, true });
        return STATUS_OK;
    }
    for (i64 i = 0, skip = 0; i < s.count; skip += s.rows[i++] * each) {
        struct shape shape = t->shape;
        shape.dim[0]       = s.rows[i];
        add(e, s.name[i], shape, (struct source){ t, skip, false });
    }
    return STATUS_OK;
}

static enum status write_config(struct exporting *e)
{
    struct str        before = { 0 }, text;
    enum status       st     = STATUS_OK;
    struct hf_written how    = { e->dtype == EXPORT_BF16 ? STR("bfloat16") : STR("float32"),
                              e->class_names, e->class_count };
    if (e->from.len)
        st = os_read_all(e->os, str_cat(&e->memory, e->from, STR("/config.json")), &e->memory,
                         &before, e->err);
    if (!st) st = hf_config_write(&e->config, before, &how, &e->memory, &text, e->err);
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
    if (e->config.new_head) e->config.classes = size_of(f, "classifier.weight", 0);
    if (e->from.len) return;
    e->config.vocabulary = size_of(f, "wte.weight", 0);
    e->config.places     = size_of(f, "wpe.weight", 0);
    e->config.hidden     = size_of(f, "h.0.mlp.down.weight", 1);
}

/* Those of the folder that the adapters are of; they are in its names already. */
static enum status add_base(struct exporting *e, struct st_folder *f)
{
    enum status st = st_folder_open(e->os, e->from, &e->memory, f, e->err);
    for (i64 i = 0; !st && i < f->count; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (hf_is_ignored(&e->config, t->name)) continue;
        if (!has_numbers(e, t))
            return err_set(e->err, STATUS_USAGE, "the tensor %.*s has type %.*s", STR_ARG(t->name),
                           STR_ARG(t->dtype));
        add(e, t->name, t->shape, (struct source){ .from = t });
    }
    return st;
}

static enum status write_adapters(struct exporting *e)
{
    struct str  text = lora_config_write(&e->names, e->from, &e->memory);
    struct str  path = str_cat(&e->memory, e->folder, STR("/adapter_config.json"));
    enum status st   = os_publish(e->os, path, text, e->memory, e->err);
    path             = str_cat(&e->memory, e->folder, STR("/adapter_model.safetensors"));
    return st ? st : st_save(e->os, path, e->adapters, e->adapter_count, e->memory, e->err);
}

static enum status save(struct exporting *e)
{
    struct gguf_model m    = { &e->config, hf_type(&e->config), e->from, e->folder };
    struct st_made    from = { e->list, e->count, make_bytes, e };
    e->scratch             = arena_part(&e->memory, (e->memory.end - e->memory.begin) / 2);
    if (e->gguf) return gguf_save(e->os, e->folder, &m, &from, e->gguf_type, &e->memory, e->err);
    return st_save_from(e->os, str_cat(&e->memory, e->folder, STR("/model.safetensors")), &from,
                        STR(""), e->memory, e->err);
}

/* f NULL: the weights are those of the folder alone. */
static enum status write_whole(struct exporting *e, const struct st_file *f)
{
    struct st_folder base = { 0 };
    bool             ours = f && (!e->from.len || !e->names.lora.rank); /* it has all weights */
    enum status      st   = e->gguf ? STATUS_OK : write_config(e);
    e->list               = NEW(&e->memory, struct st_tensor, TENSORS_MAX);
    e->sources            = NEW(&e->memory, struct source, TENSORS_MAX);
    for (i64 i = 0; !st && ours && i < f->count; i++) st = add_ours(e, &f->tensors[i]);
    if (!st && !ours) st = add_base(e, &base);
    if (!st) st = save(e);
    if (base.count) st_folder_close(e->os, &base);
    return st;
}

/* Of a file of ours, or of a folder of PEFT's, which has their names already. */
static enum status collect_adapters(struct exporting *e, const struct st_file *f, bool theirs)
{
    enum status st = STATUS_OK;
    e->names       = lora_names(&e->config);
    e->adapters    = NEW(&e->memory, struct st_tensor, TENSORS_MAX);
    for (i64 i = 0; !st && i < f->count; i++) {
        const struct st_tensor *t = &f->tensors[i];
        if (!theirs && lora_is_adapter(t->name)) st = add_adapter(e, t);
        if (!theirs) continue;
        const f32 *values = values_of(e, t);
        if (!values || e->adapter_count == TENSORS_MAX)
            return err_set(e->err, STATUS_USAGE, "the tensor %.*s has type %.*s", STR_ARG(t->name),
                           STR_ARG(t->dtype));
        e->adapters[e->adapter_count++] =
            (struct st_tensor){ t->name,
                                STR("F32"),
                                t->shape,
                                { (const char *)values,
                                  shape_count(t->shape) * (i64)sizeof *values } };
    }
    return st;
}

/* The config first: a folder with weights is whole. */
static enum status write_both(struct exporting *e, struct str weights)
{
    struct st_parts parts;
    bool            theirs = !os_is_file(e->os, weights);
    if (!weights.len) return write_whole(e, NULL);
    if (theirs) weights = str_cat(&e->memory, weights, STR("/adapter_model.safetensors"));
    enum status st = st_parts_open(e->os, weights, &e->memory, &parts, e->err);
    if (st) return st;
    struct st_file f = st_parts_flat(&parts, &e->memory);
    look_at(e, &f);
    if (e->config.lora.rank) st = collect_adapters(e, &f, theirs);
    if (!st) st = e->config.lora.rank && !e->merges ? write_adapters(e) : write_whole(e, &f);
    st_parts_close(e->os, &parts);
    return st;
}

/* --- the rest --- */

static enum status copy(struct exporting *e, const char *name)
{
    struct str     from = str_fmt(&e->memory, "%.*s/%s", STR_ARG(e->tokenizer), name), bytes;
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
                                         "vocab.txt",
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

/* Adapters need the weights that they began with, which the export would replace. */
static bool is_own_folder(const struct exporting *e, struct arena scratch)
{
    struct os_stat from, to;
    struct str     name = STR("/config.json");
    return e->from.len && !e->os->stat(e->os, str_cat(&scratch, e->from, name), &from, NULL) &&
           !e->os->stat(e->os, str_cat(&scratch, e->folder, name), &to, NULL) &&
           from.bytes == to.bytes && from.mtime_ns == to.mtime_ns;
}

static enum status check_folder(struct exporting *e)
{
    if (!is_own_folder(e, e->memory)) return STATUS_OK;
    return err_set(e->err, STATUS_USAGE,
                   "%.*s is the folder that the model began with; export to another one",
                   STR_ARG(e->folder));
}

static enum status write_folder(struct exporting *e, struct str weights)
{
    enum status st = check_folder(e);
    if (!st) st = e->os->make_dir(e->os, e->folder, e->err);
    if (!st && e->tokenizer.len) st = copy_tokenizer(e);
    return st ? st : write_both(e, weights);
}

/* That of their folder, or a folder that a model of ours was trained with. */
static struct str tokenizer_of(const struct exporting *e, const struct settings *s)
{
    struct os_stat stat;
    if (e->from.len) return e->from;
    bool folder =
        s->data.tokenizer.len && !e->os->stat(e->os, s->data.tokenizer, &stat, NULL) && stat.is_dir;
    return folder ? s->data.tokenizer : STR("");
}

static enum status export(struct exporting e, const struct settings *settings,
                          enum export_adapters adapters) {
    e.memory = arena_open((i64)MEMORY_GIB << 30);
    if (!e.memory.begin) return err_set(e.err, STATUS_WORLD,
                                        "the system refuses to reserve address space");
    struct settings *own = NEW(&e.memory, struct settings, 1);
    *own                 = *settings;
    enum status st       = use_settings(e.os, own, &e.memory, e.err);
    e.config             = own->model;
    e.config.lora        = own->train.lora;
    e.from               = own->model.path;
    e.class_names        = own->data.class_names;
    e.class_count        = own->data.class_count;
    e.tokenizer          = tokenizer_of(&e, own);
    e.merges             = (adapters == EXPORT_MERGED || e.gguf) && own->train.lora.rank;
    if (!st && adapters == EXPORT_MERGED && !e.merges)
        st = err_set(e.err, STATUS_USAGE, "--merge is for adapters, and this model has none");
    if (!st && !own->train.init.len && !e.gguf)
        st           = err_set(e.err, STATUS_USAGE,
                               "%.*s is a folder already; export what was trained from it", STR_ARG(e.from));
    e.config.context = own->data.context;
    if (!st) st      = find_family(&e);
    if (!st) st      = e.gguf ? write_both(&e, own->train.init) : write_folder(&e, own->train.init);
    arena_close(&e.memory);
    return st;
}

enum status export_check(struct os *os, const struct settings *settings, struct str folder,
                         struct err *err)
{
    struct exporting e = { .os = os, .folder = folder, .err = err };
    e.memory           = arena_open((i64)MEMORY_GIB << 30);
    if (!e.memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct settings *own = NEW(&e.memory, struct settings, 1);
    *own                 = *settings;
    enum status st       = use_settings(os, own, &e.memory, err);
    e.config             = own->model;
    e.from               = own->model.path;
    if (!st) st = find_family(&e);
    if (!st) st = check_folder(&e);
    arena_close(&e.memory);
    return st;
}

enum status export_folder(struct os *os, const struct settings *settings, struct str folder,
                          enum export_dtype dtype, enum export_adapters adapters, struct err *err)
{
    return export((struct exporting){ .os = os, .folder = folder, .dtype = dtype, .err = err },
                  settings, adapters);
}

enum status export_gguf(struct os *os, const struct settings *settings, struct str file,
                        enum gguf_type type, struct err *err)
{
    return export((struct exporting){ .os        = os,
                                      .folder    = file,
                                      .dtype     = EXPORT_F32,
                                      .gguf      = true,
                                      .gguf_type = type,
                                      .err       = err },
                  settings, EXPORT_APART);
}
