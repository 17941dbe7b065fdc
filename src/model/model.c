/* model.c - choosing a model by name, and checking it before anything is compiled: the settings
 * one by one, then the whole by building it once, for a single sample, in borrowed memory. */
#include "model/lora.h"
#include "model/model_int.h"

static const struct model_kind kinds[] = {
#define MODEL(name, data, check, build) { #name, data, check, build },
#include "model/models.def"
#undef MODEL
};

static const char kind_names[] =
#define MODEL(name, ...) #name " "
#include "model/models.def"
#undef MODEL
    ;

enum status check_feed(const struct model *m, struct str name, enum dtype dtype, i32 rank,
                       struct err *err)
{
    const struct feed *f = feeds_find(&m->feeds, name);
    char               text[256];
    struct arena       scratch = { .begin = (u8 *)text, .end = (u8 *)text + sizeof text };
    if (f && f->type.dtype == dtype && f->type.shape.rank == rank) return STATUS_OK;
    struct str wanted = dtype_name(dtype);
    if (!f)
        return err_set(err, STATUS_USAGE,
                       "model.kind=%s cannot use this data, which has no %.*s; use data of kind %s",
                       m->kind->name, STR_ARG(name), m->kind->data);
    return err_set(err, STATUS_USAGE,
                   "model.kind=%s cannot use this data: %.*s is %.*s, not %.*s%s; use data of kind "
                   "%s",
                   m->kind->name, STR_ARG(name), STR_ARG(type_text(&scratch, f->type)),
                   STR_ARG(wanted), rank ? "[n]" : "", m->kind->data);
}

enum status check_count(const char *key, i64 value, i64 least, i64 most, struct err *err)
{
    if (value >= least && value <= most) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s=%lld must be between %lld and %lld", key,
                   (long long)value, (long long)least, (long long)most);
}

enum status check_fraction(const char *key, f64 value, struct err *err)
{
    if (value >= 0 && value < 1) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s=%g must be at least 0 and below 1", key, value);
}

enum status check_word(const char *key, struct str value, const char *choices, struct err *err)
{
    struct str all = str_trim(str_of(choices)), rest = all, word;
    while (str_cut(&rest, ' ', &word)) {
        if (str_eq(word, value)) return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "%s=%.*s must be one of: %.*s", key, STR_ARG(value),
                   STR_ARG(all));
}

static enum status find_kind(struct model *m, struct err *err)
{
    for (i64 i = 0; i < COUNT_OF(kinds); i++) {
        if (str_eq(str_of(kinds[i].name), m->config.kind)) m->kind = &kinds[i];
    }
    if (m->kind) return STATUS_OK;
    return check_word("model.kind", m->config.kind, kind_names, err);
}

/* What every kind needs: a target, and settings of the loss that make sense. */
static enum status check_common(const struct model *m, struct err *err)
{
    const struct feed *y  = feeds_find(&m->feeds, STR("y"));
    enum status        st = STATUS_OK;
    if (!y) st = err_set(err, STATUS_USAGE, "this data has no target y to learn");
    if (!st) st = check_fraction("model.smoothing", m->config.smoothing, err);
    if (!st) st = check_fraction("model.dropout", m->config.dropout, err);
    if (!st) st = check_fraction("model.attention_dropout", m->config.attention_dropout, err);
    ASSERT(m->config.dtype == DT_F32 || m->config.dtype == DT_F64);
    for (i32 i = 0; !st && i < m->feeds.count; i++) {
        const struct feed *f = &m->feeds.feed[i];
        if (f->type.dtype == DT_I32 && f->range < 1 && !str_eq(f->name, STR("lens")))
            st = err_set(err, STATUS_USAGE, "the data does not say how many values %.*s has",
                         STR_ARG(f->name));
    }
    return st;
}

enum status model_build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                        struct err *err)
{
    const struct model *m  = context;
    struct builder      b  = { m, g, batch, mode, { .offsets = -1 }, { -1, -1, 0, 0 }, -1, 0 };
    enum status         st = m->kind->build(&b, err);
    if (!st) st = graph_status(g, err);
    return st ? st : lora_freeze(&b, err);
}

enum status model_new(struct arena *perm, const struct model_config *config,
                      const struct feeds *feeds, struct model **out, struct err *err)
{
    struct model *m = NEW(perm, struct model, 1);
    m->config       = *config;
    m->feeds        = *feeds;
    enum status st  = find_kind(m, err);
    if (!st) st = check_common(m, err);
    if (!st) st = m->kind->check(m, err);
    if (!st) st = lora_check(m, err);
    if (!st && m->config.lora.rank) m->names = lora_names(&m->config);
    if (!st) {
        struct arena  trial = *perm; /* given back when we leave */
        struct graph *g     = graph_new(&trial, STR("trial"));
        st                  = model_build(m, g, 1, MODE_TRAIN, err);
    }
    *out = st ? NULL : m;
    return st;
}

const struct model_config *model_config_of(const struct model *m) { return &m->config; }

static struct type target_type(const struct model *m)
{
    return feeds_find(&m->feeds, STR("y"))->type;
}

i64 model_rows(const struct model *m) { return shape_count(target_type(m).shape); }

struct str model_metric(const struct model *m)
{
    struct type y = target_type(m);
    if (dtype_is_float(y.dtype)) return STR("auc");
    return y.shape.rank ? STR("perplexity") : STR("accuracy");
}
