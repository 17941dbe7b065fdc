/* hf_weights.c - a run that begins with somebody else's model (model.kind=hf): its config.json becomes the
 * model's settings, and its tensors go from the mapped files to where they live. */
#include "model/hf.h"
#include "store/st_folder.h"
#include "train/train_int.h"

enum { NAMES_BYTES = 256 << 20 }; /* address space for headers and names */

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

static struct weights_sources sources_of(const struct session *s, const struct model_config *c,
                                         const struct st_folder *f, struct arena *perm)
{
    struct weights_sources all = weights_sources_new(s, perm);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
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
    struct weights_sources all = sources_of(s, &c, &f, &names);
    st = st_sources_check(&f, c.path, all.list, all.count, ignores, &c, scratch, err);
    if (!st && what == HF_WEIGHTS_LOAD) weights_load(s, &f, &all, scratch);
    if (!st) st = os_maps_check(err);
    st_folder_close(s->os, &f);
    return st;
}
