/* adapters.c - a folder of PEFT's (adapter_config.json, adapter_model.safetensors) as the beginning of a run, or as the
 * model that is used: its settings become train.lora's, and its tensors go to where they live. */
#include "model/lora.h"
#include "store/st_folder.h"
#include "train/train_int.h"
#include <math.h>

enum { NAMES_BYTES = 64 << 20, STRETCH_BYTES = 64 << 20 };

static const struct str config_name  = STR_INIT("/adapter_config.json");
static const struct str weights_name = STR_INIT("/adapter_model.safetensors");
static const struct str pickle_name  = STR_INIT("/adapter_model.bin");

static bool has(struct os *os, struct str folder, struct str name, struct arena scratch)
{
    return folder.len && os_is_file(os, str_cat(&scratch, folder, name));
}

/* What the run file says of the adapters must be what the folder has. */
static enum status take(struct lora_config *ours, const struct lora_config *theirs, struct str path,
                        struct err *err)
{
    bool given = ours->rank > 0;
    if (given && ours->rank != theirs->rank)
        return err_set(err, STATUS_USAGE,
                       "train.lora.rank=%lld, and the adapters of %.*s have %lld",
                       (long long)ours->rank, STR_ARG(path), (long long)theirs->rank);
    if (given && !isnan(ours->alpha) && ours->alpha != theirs->alpha)
        return err_set(err, STATUS_USAGE, "train.lora.alpha=%g, and the adapters of %.*s have %g",
                       ours->alpha, STR_ARG(path), theirs->alpha);
    f64        dropout = given ? ours->dropout : theirs->dropout;
    struct str weights = ours->weights; /* of which a folder of theirs says nothing */
    if (given && ours->on_count) return ours->alpha = theirs->alpha, STATUS_OK;
    *ours         = *theirs;
    ours->dropout = dropout;
    ours->weights = weights;
    return STATUS_OK;
}

enum status adapters_settings(struct os *os, struct settings *s, struct arena *perm,
                              struct err *err)
{
    struct str         path = s->model.path, text, base;
    struct lora_config l;
    bool               hf = str_eq(s->model.kind, STR("hf"));
    if (hf && has(os, path, config_name, *perm) && !has(os, path, STR("/config.json"), *perm)) {
        if (s->train.init.len)
            return err_set(err, STATUS_USAGE,
                           "model.path=%.*s is a folder of adapters; leave out train.init",
                           STR_ARG(path));
        s->train.init = path;
    } else path = STR("");
    if (!hf || !has(os, s->train.init, config_name, *perm)) return STATUS_OK;
    struct str  file = str_cat(perm, s->train.init, config_name);
    enum status st   = os_read_all(os, file, perm, &text, err);
    if (!st) st = lora_config_read(file, text, perm, &l, &base, err);
    if (!st) st = take(&s->train.lora, &l, s->train.init, err);
    if (st || !path.len) return st;
    if (!base.len || !has(os, base, STR("/config.json"), *perm))
        return err_set(
            err, STATUS_USAGE,
            "%.*s: the adapters are of the model \"%.*s\", which is no folder here: give the "
            "model's folder as model.path, and the adapters as train.init",
            STR_ARG(file), STR_ARG(base));
    s->model.path = base;
    return STATUS_OK;
}

enum status adapters_resolve(struct os *os, const struct settings **s, struct arena *perm,
                             struct err *err)
{
    struct settings *own;
    if (!str_eq((*s)->model.kind, STR("hf"))) return STATUS_OK;
    own  = NEW(perm, struct settings, 1);
    *own = **s;
    *s   = own;
    return adapters_settings(os, own, perm, err);
}

bool adapters_are_folder(const struct session *s)
{
    return s->settings->train.lora.rank &&
           has(s->os, s->settings->train.init, config_name, s->scratch);
}

static bool none(const void *context, struct str theirs)
{
    return (void)context, (void)theirs, false;
}

enum status adapters_weights(struct session *s, enum hf_weights_do what, struct err *err)
{
    struct model_config       names   = lora_names(model_config_of(s->model));
    struct str                folder  = s->settings->train.init;
    struct arena              scratch = s->scratch, room = arena_part(&scratch, NAMES_BYTES);
    i64                       most = s->set->persistent_count, count = 0;
    struct st_source         *list = NEW(&room, struct st_source, most + 1);
    const struct persistent **ours = NEW(&room, const struct persistent *, most + 1);
    struct st_folder          f;
    if (!has(s->os, folder, weights_name, room) && has(s->os, folder, pickle_name, room))
        return err_set(
            err, STATUS_USAGE,
            "%.*s has its adapters in adapter_model.bin, a pickle, which can run any "
            "code and is not read; convert it: python -c \"import torch, "
            "safetensors.torch as s; p='%.*s/adapter_model'; "
            "s.save_file(torch.load(p + '.bin', weights_only=True), p + '.safetensors')\"",
            STR_ARG(folder), STR_ARG(folder));
    enum status st =
        st_folder_open_file(s->os, str_cat(&room, folder, weights_name), &room, &f, err);
    if (st) return st;
    for (i32 i = 0; i < most; i++) {
        const struct persistent *t = &s->set->persistents[i];
        struct hf_source         h;
        struct shape             shape = persistent_type(t).shape;
        if (t->kind != VALUE_PARAM || !lora_source(&names, t->name, shape, &room, &h)) continue;
        struct st_source *to = &list[count];
        ours[count++]        = t;
        *to = (struct st_source){ t->name, shape, { { 0 } }, { 0 }, h.count, false };
        for (i32 k = 0; k < h.count; k++) to->name[k] = h.name[k], to->rows[k] = h.rows[k];
    }
    st                   = st_sources_check(&f, folder, list, count, none, NULL, scratch, err);
    struct weights_to to = { .s = s, .scratch = arena_part(&scratch, STRETCH_BYTES) };
    for (i64 i = 0; !st && what == HF_WEIGHTS_LOAD && i < count; i++) {
        to.t = ours[i];
        st_source_stream(&f, &list[i], weights_put_stretch, &to, scratch);
    }
    if (!st) st = os_maps_check(err);
    st_folder_close(s->os, &f);
    return st;
}
