/* weights_save.c - parameters and gradients as a safetensors file, with the settings of their model. */
#include "base/digits.h"
#include "store/safetensors.h"
#include "train/dealt.h"
#include "train/options.h"
#include <string.h>

struct str train_out_file(struct arena *perm, struct str out)
{
    return str_ends(out, STR("/")) ? str_cat(perm, out, STR("weights.safetensors")) : out;
}

static bool is_part(const struct session *s, const struct persistent *t, enum weights_part part)
{
    return part == WEIGHTS_VALUES ? weights_are_kept(s, t)
                                  : t->kind == VALUE_GRAD && t->type.dtype != DT_I32;
}

enum status weights_save_check(struct session *s, enum weights_part part, struct str path,
                               i64 copies, struct err *err)
{
    struct arena   scratch = s->scratch;
    struct str     name    = os_part_name(&scratch, path);
    struct os_stat old;
    struct file    f     = { -1 };
    i64            bytes = 0, room = os_disk_free_bytes(path);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (is_part(s, t, part)) bytes += type_bytes(persistent_type(t));
    }
    bytes *= copies;
    if (!s->os->stat(s->os, path, &old, NULL) && old.is_dir)
        return err_set(err, STATUS_USAGE, "%.*s is a folder; name a file to write", STR_ARG(path));
    os_part_sweep(s->os, path, scratch);
    enum status st = s->os->create(s->os, name, &f, err);
    if (st) return st;
    st = s->os->close(s->os, &f, err);
    s->os->remove(s->os, name, NULL);
    if (!st && room >= 0 && room < bytes)
        st = err_set(err, STATUS_WORLD, "%.*s will take %s MB, and its disk has %s MB free",
                     STR_ARG(path), DIGITS((f64)bytes / 1e6), DIGITS((f64)room / 1e6));
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

/* The gradient of a whole table from that of the rows which have one. */
static u8 *spread_rows(struct session *s, const struct persistent *rows, struct str table,
                       struct arena *perm)
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
    return to;
}

/* What the figures of an evaluation depend on beside model and data: "computed KEY=VALUE" a line. The precision is the
 * one that was chosen, in a resumed run as in one that nothing disturbed. */
static void add_computed(const struct session *s, struct textbuf *b)
{
    const struct train_config *t = &s->settings->train;
    if (s->precision.dtype != DT_F64)
        textbuf_fmt(b, "computed train.precision=%.*s\n",
                    STR_ARG(precision_name(s->precision.dtype)));
    if (t->wide_sums) textbuf_fmt(b, "computed train.wide_sums=true\n");
    if (!str_eq(t->fp8, STR("off")) && t->fp8.len)
        textbuf_fmt(b, "computed train.fp8=%.*s\n", STR_ARG(t->fp8));
}

/* What makes the model and its data, so that the file can be used without its run file: KEY=VALUE a line, where it is
 * not the default; and the names of its classes, "class NAME" a line. */
static struct str settings_of_model(const struct session *s, struct arena *perm)
{
    struct arena     values   = arena_part(perm, 1 << 20);
    struct settings *defaults = NEW(perm, struct settings, 1);
    struct textbuf   b        = textbuf_new(perm);
    for (i64 i = 0; s->model && i < OPTION_COUNT; i++) {
        struct arena         here = values;
        const struct option *o    = &options[i];
        if (!str_starts(o->key, STR("data.")) && !str_starts(o->key, STR("model.")) &&
            !str_starts(o->key, STR("train.lora.")))
            continue;
        if (str_starts(o->key, STR("data.cache")) || str_eq(o->key, STR("data.shuffle_block")))
            continue; /* of a machine; and a resumed run has it from its first start */
        option_set_text(o, defaults, o->initial, &here, NULL);
        struct str value = option_shown_text(o, s->settings, &here);
        if (!str_eq(value, option_shown_text(o, defaults, &here)))
            textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(o->key), STR_ARG(value));
    }
    if (s->model) add_computed(s, &b);
    const struct data_config *data = &s->settings->data;
    if (s->model && str_eq(data->kind, STR("auto")) &&
        str_eq(data_kind(s->os, data), STR("images")))
        textbuf_fmt(&b, "data.kind=images\n"); /* a folder that is gone does not look like one */
    const struct str *names;
    i64               count = s->model && s->data ? dataset_class_names(s->data, &names) : 0;
    for (i64 i = 0; i < count; i++)
        if (str_find(names[i], '\n') >= 0) count = 0; /* a line each */
    for (i64 i = 0; i < count; i++) textbuf_fmt(&b, "class %.*s\n", STR_ARG(names[i]));
    return textbuf_str(&b);
}

/* A file whose tensors are fetched one by one: the weights of a GPU need not fit the host's memory. */
struct fetching {
    struct session           *s;
    enum weights_part         part;
    const struct persistent **from; /* by tensor */
    struct st_tensor         *list;
    struct arena              scratch; /* of the tensor at hand */
    struct err               *err;
};

/* As the model has it: from all ranks, where they have parts of it. NULL: err says why not. */
static u8 *get_whole(const struct fetching *f, const struct persistent *t, struct arena *perm)
{
    const struct persistent *param = dealt_param(f->s, t);
    if (!param) return get_bytes(f->s, t, perm);
    u8          *to     = NEW(perm, u8, type_bytes(persistent_type(param)));
    struct arena before = f->s->scratch;
    f->s->scratch       = *perm; /* the session's holds what is listed here */
    enum status st      = dealt_fetch(f->s, t, to, f->err);
    f->s->scratch       = before;
    return st ? NULL : to;
}

static struct str fetch(const void *context, i64 tensor)
{
    const struct fetching   *f       = context;
    const struct persistent *t       = f->from[tensor];
    const struct st_tensor  *to      = &f->list[tensor];
    struct arena             scratch = f->scratch;
    bool                     rows    = f->part == WEIGHTS_GRADIENTS && t->sparse_rows;
    u8 *copy = rows ? spread_rows(f->s, t, to->name, &scratch) : get_whole(f, t, &scratch);
    if (!copy) return (struct str){ NULL, -1 };
    if (f->part == WEIGHTS_GRADIENTS) unscale(f->s, (f32 *)(void *)copy, shape_count(to->shape));
    return (struct str){ (const char *)copy, to->bytes.len };
}

static struct st_tensor tensor_of(const struct session *s, const struct persistent *t,
                                  enum weights_part part)
{
    struct str               name = t->name, dtype = STR("F32");
    const struct persistent *param = dealt_param(s, t);
    struct shape             shape = param ? param->whole : t->type.shape;
    if (part == WEIGHTS_GRADIENTS) name.len -= STR(".grad").len;
    if (part == WEIGHTS_GRADIENTS && t->sparse_rows)
        shape = program_set_find(s->set, name)->type.shape;
    if (t->type.dtype == DT_F64) dtype = STR("F64");
    if (t->type.dtype == DT_BF16) dtype = STR("BF16");
    return (struct st_tensor){
        name, dtype, shape, { NULL, type_bytes(type_of(t->type.dtype, shape)) }
    };
}

enum status weights_save(struct session *s, enum weights_part part, struct str path,
                         struct err *err)
{
    struct arena    scratch = s->scratch;
    i64             most = s->set->persistent_count + 1, count = 0;
    struct fetching f = { .s    = s,
                          .err  = err,
                          .part = part,
                          .from = NEW(&scratch, const struct persistent *, most),
                          .list = NEW(&scratch, struct st_tensor, most) };
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (!is_part(s, t, part)) continue;
        f.from[count]   = t;
        f.list[count++] = tensor_of(s, t, part);
    }
    struct str     about  = part == WEIGHTS_VALUES ? settings_of_model(s, &scratch) : STR("");
    struct st_made source = { f.list, count, fetch, &f };
    f.scratch             = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    return st_save_from(s->os, path, &source, about, scratch, err);
}
