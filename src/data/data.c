/* data.c - the table of formats, and what they share. */
#include "data/data.h"
#include "data/data_int.h"
#include "remote/address.h"
#include <math.h>

static const struct format *const formats[] = {
    &format_idx,   &format_tokens, &format_text,   &format_csv,  &format_jsonl,
    &format_lines, &format_clicks, &format_images, &format_chat,
};

/* auto: by its name, where .gz at the end does not count; a folder is one of images. */
struct str data_kind(struct os *os, const struct data_config *config)
{
    struct str     path = address_path(config->path);
    struct os_stat stat;
    if (config->kind.len && !str_eq(config->kind, STR("auto"))) return config->kind;
    if (config->file_count) return STR("lines");
    if (str_ends(path, STR(".gz"))) path = str_sub(path, 0, path.len - 3);
    if (str_ends(path, STR("-ubyte")) || str_glob(STR("*.idx*"), path)) return STR("idx");
    if (str_ends(path, STR(".bin"))) return STR("tokens");
    if (str_ends(path, STR(".csv"))) return STR("csv");
    if (str_ends(path, STR(".jsonl")) || str_ends(path, STR(".ndjson"))) return STR("jsonl");
    if (str_ends(path, STR(".tar"))) return STR("images");
    if (path.len && !os->stat(os, path, &stat, NULL) && stat.is_dir) return STR("images");
    return STR("text");
}

bool data_is_remote(const struct data_config *config)
{
    const struct str named[] = { config->path, config->labels, config->eval_path,
                                 config->eval_labels };
    for (i64 i = 0; i < COUNT_OF(named); i++)
        if (address_is_remote(named[i])) return true;
    for (i64 i = 0; i < config->file_count; i++)
        if (address_is_remote(config->files[i])) return true;
    return false;
}

static const struct format *format_find(struct str kind)
{
    for (i64 i = 0; i < COUNT_OF(formats); i++)
        if (str_eq(formats[i]->kind, kind)) return formats[i];
    return NULL;
}

static enum status unknown_kind(struct str kind, struct err *err)
{
    char           text[256];
    struct arena   lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
    struct textbuf b    = textbuf_new(&lent);
    for (i64 i = 0; i < COUNT_OF(formats); i++)
        textbuf_fmt(&b, "%s%.*s", i ? ", " : "", STR_ARG(formats[i]->kind));
    return err_set(err, STATUS_USAGE, "there is no data kind \"%.*s\"; the kinds are auto, %.*s",
                   STR_ARG(kind), STR_ARG(textbuf_str(&b)));
}

enum status dataset_open(struct os *os, const struct data_config *config, struct arena *perm,
                         struct dataset **out, struct err *err)
{
    struct str kind             = data_kind(os, config);
    *out                        = NULL;
    const struct format *format = format_find(kind);
    if (!format) return unknown_kind(kind, err);
    if (config->text.len && (format == &format_csv || format == &format_jsonl))
        format = &format_labelled_texts;
    if (!(config->held_out >= 0 && config->held_out < 1))
        return err_set(err, STATUS_USAGE, "data.held_out is %g; it must be at least 0 and below 1",
                       config->held_out);

    bool files = config->file_count || str_eq(kind, STR("lines")); /* which says so itself */
    if (!config->path.len && !files && !config->rows_only && !str_eq(kind, STR("synthetic_clicks")))
        return err_set(err, STATUS_USAGE,
                       "data.path is empty; give the file, folder or URL to train on");

    struct dataset *d = NEW(perm, struct dataset, 1);
    *d                = (struct dataset){ .format = format, .os = os };
    enum status st    = format->open(d, config, perm, err);
    if (os_maps_verify(NULL)) st = os_maps_check(err); /* whatever the zeros looked like */
    if (!st && config->eval_path.len && !d->count[SPLIT_EVAL] && !config->rows_only)
        st = err_set(err, STATUS_USAGE, "%.*s holds no sample to evaluate on",
                     STR_ARG(config->eval_path));
    if (!st && !d->count[SPLIT_TRAIN] && !config->rows_only)
        st = err_set(err, STATUS_USAGE, "%.*s holds no sample to train on",
                     STR_ARG(config->path.len ? config->path : STR("the data")));
    if (st) {
        format->close(d);
        return st;
    }
    *out = d;
    return STATUS_OK;
}

bool dataset_close(struct dataset *d)
{
    bool held = d && d->held;
    if (d && !held) d->format->close(d);
    return !held;
}

const struct feeds *dataset_feeds(const struct dataset *d) { return &d->feeds; }

bool dataset_is_binary(const struct dataset *d) { return d->binary; }

i64 dataset_count(const struct dataset *d, enum split s)
{
    ASSERT(s < SPLIT_COUNT);
    return d->count[s];
}

i64 dataset_class_names(const struct dataset *d, const struct str **names)
{
    *names = d->class_names;
    return d->class_count;
}

void dataset_fetch(const struct dataset *d, enum split s, const i64 *index, i64 count,
                   void *const *to)
{
    ASSERT(s < SPLIT_COUNT);
    for (i64 i = 0; i < count; i++) ASSERT(index[i] >= 0 && index[i] < d->count[s]);
    d->format->fetch(d, s, index, count, to);
}

void dataset_fetch_epoch(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                         void *const *to)
{
    if (!d->format->fetch_epoch) {
        dataset_fetch(d, SPLIT_TRAIN, index, count, to);
        return;
    }
    for (i64 i = 0; i < count; i++) ASSERT(index[i] >= 0 && index[i] < d->count[SPLIT_TRAIN]);
    d->format->fetch_epoch(d, seed, epoch, index, count, to);
}

void dataset_fetch_pieces(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                          void *const *to)
{
    for (i64 i = 0; i < count; i++) ASSERT(index[i] >= 0 && index[i] < d->count[SPLIT_TRAIN]);
    d->format->fetch_pieces(d, seed, epoch, index, count, to);
}

i64 dataset_block(const struct dataset *d) { return d->format->block ? d->format->block(d) : 0; }

bool dataset_says(struct dataset *d, char line[LOADER_LINE_MAX])
{
    return d->format->says && d->format->says(d, line);
}

f64 dataset_best_auc(const struct dataset *d)
{
    return d->format->best_auc ? d->format->best_auc(d) : NAN;
}

void dataset_add_feed(struct dataset *d, struct str name, struct type type, i64 range)
{
    ASSERT(d->feeds.count < FEEDS_MAX);
    d->feeds.feed[d->feeds.count++] = (struct feed){ .name = name, .type = type, .range = range };
}

enum status check_context(const struct data_config *config, struct err *err)
{
    static const i64 context_max = 1 << 24;
    if (config->context >= 1 && config->context <= context_max) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "data.context is %lld; it must be 1 to %lld",
                   (long long)config->context, (long long)context_max);
}

i64 hold_out_last(struct dataset *d, const struct data_config *config)
{
    i64 count = d->count[SPLIT_TRAIN];
    i64 kept  = MIN(MAX((i64)((f64)count * config->held_out), 1), count - 1);
    if (config->held_out == 0 || count < 2) kept = 0;
    d->count[SPLIT_EVAL]  = kept;
    d->count[SPLIT_TRAIN] = count - kept;
    return count - kept;
}

enum status refuse_one_class(struct str path, i64 count, struct err *err)
{
    if (!count) return STATUS_OK;
    if (count == 1)
        return err_set(err, STATUS_USAGE,
                       "%.*s: there is only 1 sample, so there is nothing to learn", STR_ARG(path));
    return err_set(err, STATUS_USAGE,
                   "%.*s: all %lld samples have the same class, so there is nothing to learn",
                   STR_ARG(path), (long long)count);
}

i64 limit_count(i64 count, i64 max) { return max > 0 ? MIN(count, max) : count; }

void limit_counts(struct dataset *d, const struct data_config *config)
{
    d->count[SPLIT_TRAIN] = limit_count(d->count[SPLIT_TRAIN], config->samples);
    d->count[SPLIT_EVAL]  = limit_count(d->count[SPLIT_EVAL], config->eval_samples);
}
