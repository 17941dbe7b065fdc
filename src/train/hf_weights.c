/* hf_weights.c - a run that begins with somebody else's model (model.kind=hf): its config.json becomes the
 * model's settings, and its tensors go from the mapped files to where they live. */
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

enum status session_model(struct session *s, struct err *err)
{
    struct model_config c  = s->settings->model;
    enum status         st = STATUS_OK;
    if (str_eq(c.kind, STR("hf"))) st = hf_settings(s->os, &c, s->perm, err);
    return st ? st : model_new(s->perm, &c, dataset_feeds(s->data), &s->model, err);
}

/* Where our tensors are in the folder, one item each: of those that it can have. */
struct sources {
    struct st_source         *list;
    const struct persistent **ours;
    i64                       count;
};

static struct sources sources_of(const struct session *s, const struct st_folder *f,
                                 struct arena *perm)
{
    const struct model_config *c    = model_config_of(s->model);
    i64                        most = s->set->persistent_count;
    struct sources             all  = { NEW(perm, struct st_source, most + 1),
                                        NEW(perm, const struct persistent *, most + 1), 0 };
    for (i32 i = 0; i < most; i++) {
        const struct persistent *t = &s->set->persistents[i];
        struct hf_source         h;
        if (t->kind != VALUE_PARAM || !hf_source(c, t->name, t->type.shape, perm, &h)) continue;
        struct st_source *to  = &all.list[all.count];
        all.ours[all.count++] = t;
        *to = (struct st_source){ t->name, t->type.shape, { { 0 } }, { 0 }, h.count, h.transposed };
        for (i32 k = 0; k < h.count; k++) to->name[k] = h.name[k], to->rows[k] = h.rows[k];
        st_source_strip(f, to, hf_prefix(c));
    }
    return all;
}

static bool ignores(const void *config, struct str theirs) { return hf_is_ignored(config, theirs); }

struct destination {
    struct session          *s;
    const struct persistent *t;
    struct arena             scratch;
};

static void put_stretch(void *context, i64 from, const f32 *values, i64 count)
{
    const struct destination *to = context;
    weights_put(to->s, to->t, from, values, count, to->scratch);
}

enum status hf_weights(struct session *s, enum hf_weights_do what, struct err *err)
{
    const struct model_config *c       = model_config_of(s->model);
    struct arena               scratch = s->scratch, names = arena_part(&scratch, NAMES_BYTES);
    struct st_folder           f;
    enum status                st = st_folder_open(s->os, c->path, &names, &f, err);
    if (st) return st;
    struct sources all = sources_of(s, &f, &names);
    st = st_sources_check(&f, c->path, all.list, all.count, ignores, c, scratch, err);
    struct destination to = { .s = s, .scratch = arena_part(&scratch, STRETCH_BYTES) };
    for (i64 i = 0; !st && what == HF_WEIGHTS_LOAD && i < all.count; i++) {
        to.t = all.ours[i];
        st_source_stream(&f, &all.list[i], put_stretch, &to, scratch);
    }
    if (!st) st = os_maps_check(err);
    st_folder_close(s->os, &f);
    return st;
}
