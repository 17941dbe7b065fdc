/* st_folder.c - a folder of safetensors files: the index, the shards, and how to say what is wrong with
 * them. */
#include "store/st_folder.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

static const struct str single_name = STR_INIT("model.safetensors");
static const struct str index_name  = STR_INIT("model.safetensors.index.json");

static int text_order(struct str a, struct str b)
{
    int order = memcmp(a.data, b.data, (size_t)MIN(a.len, b.len));
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_file(const void *a, const void *b)
{
    const struct st_entry *x = a, *y = b;
    int                    order = text_order(x->file, y->file);
    return order ? order : text_order(x->tensor, y->tensor);
}

static int by_name(const void *a, const void *b)
{
    return text_order(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

/* --- the index --- */

static bool is_plain_name(struct str file)
{
    return str_ends(file, STR(".safetensors")) && str_find(file, '/') < 0 &&
           str_find(file, '\0') < 0 && !str_starts(file, STR("."));
}

enum status st_index_parse(struct str path, struct str text, struct arena *perm,
                           struct st_index *out, struct err *err)
{
    struct json *root;
    struct err   why = { 0 };
    *out             = (struct st_index){ 0 };
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    const struct json *map = json_get(root, STR("weight_map"));
    if (!map || map->kind != JSON_MAP || !map->count)
        return err_set(err, STATUS_USAGE, "%.*s has no map \"weight_map\" from tensors to files",
                       STR_ARG(path));
    out->entries = NEW(perm, struct st_entry, map->count);
    for (const struct json *v = map->first; v; v = v->next) {
        if (v->kind != JSON_STRING || !is_plain_name(v->text))
            return err_set(err, STATUS_USAGE,
                           "%.*s: tensor %.*s is not in a file of this folder that ends in "
                           ".safetensors",
                           STR_ARG(path), (int)MIN(v->key.len, 80), v->key.data);
        out->entries[out->count++] = (struct st_entry){ v->key, v->text };
    }
    qsort(out->entries, (size_t)out->count, sizeof *out->entries, by_file);
    return STATUS_OK;
}

/* --- the folder --- */

static struct str inside(struct arena *perm, struct str folder, struct str name)
{
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
}

static bool is_there(struct os *os, struct str folder, struct str name, struct arena scratch)
{
    struct os_stat stat;
    return !os->stat(os, inside(&scratch, folder, name), &stat, NULL) && !stat.is_dir;
}

/* Neither weights nor an index: what is there instead? */
static enum status nothing_to_read(struct os *os, struct str folder, struct arena scratch,
                                   struct err *err)
{
    struct os_stat stat;
    if (os->stat(os, folder, &stat, NULL) || !stat.is_dir)
        return err_set(err, STATUS_USAGE, "%.*s is not a folder", STR_ARG(folder));
    if (is_there(os, folder, STR("pytorch_model.bin"), scratch) ||
        is_there(os, folder, STR("pytorch_model.bin.index.json"), scratch))
        return err_set(
            err, STATUS_USAGE,
            "%.*s has its weights in pytorch_model.bin, a pickle, which can run any code and is "
            "not read; convert it: python -c \"import transformers as t; p='%.*s'; getattr(t, "
            "t.AutoConfig.from_pretrained(p).architectures[0]).from_pretrained(p)"
            ".save_pretrained(p)\"",
            STR_ARG(folder), STR_ARG(folder));
    return err_set(err, STATUS_USAGE, "%.*s has neither %.*s nor %.*s", STR_ARG(folder),
                   STR_ARG(single_name), STR_ARG(index_name));
}

/* The index's entries of one file, and the tensors of that file: the same names. */
static enum status check_shard(const struct st_file *f, struct str path, struct str index,
                               const struct st_entry *entries, i64 count, struct err *err)
{
    for (i64 i = 0; i < count; i++)
        if (!st_find(f, entries[i].tensor))
            return err_set(err, STATUS_USAGE,
                           "%.*s says that tensor %.*s is in %.*s, and it is not", STR_ARG(index),
                           STR_ARG(entries[i].tensor), STR_ARG(path));
    for (i64 i = 0; f->count != count && i < f->count; i++) {
        struct st_entry key = { f->tensors[i].name, entries[0].file };
        if (!bsearch(&key, entries, (size_t)count, sizeof key, by_file))
            return err_set(err, STATUS_USAGE, "%.*s has the tensor %.*s, which %.*s does not list",
                           STR_ARG(path), STR_ARG(key.tensor), STR_ARG(index));
    }
    return STATUS_OK;
}

static enum status open_shards(struct os *os, struct str folder, struct arena *perm,
                               struct st_folder *out, struct err *err)
{
    struct str      path = inside(perm, folder, index_name), text;
    struct st_index index;
    enum status     st = os_read_all(os, path, perm, &text, err);
    if (!st) st = st_index_parse(path, text, perm, &index, err);
    if (st) return st;
    out->files = NEW(perm, struct st_file, MIN(index.count, ST_SHARDS_MAX));
    for (i64 from = 0, to; !st && from < index.count; from = to) {
        struct str name = index.entries[from].file, file = inside(perm, folder, name);
        for (to = from + 1; to < index.count && str_eq(index.entries[to].file, name);) to++;
        if (out->file_count == ST_SHARDS_MAX)
            return err_set(err, STATUS_USAGE, "%.*s lists more than %d files", STR_ARG(path),
                           ST_SHARDS_MAX);
        struct st_file *f = &out->files[out->file_count];
        st                = st_open(os, file, perm, f, err);
        if (st) return st;
        out->file_count++;
        st = check_shard(f, file, path, index.entries + from, to - from, err);
    }
    return st;
}

/* All tensors by name. The index is a map, so none is there twice. */
static void collect(struct st_folder *f, struct arena *perm)
{
    i64 count = 0;
    for (i64 i = 0; i < f->file_count; i++) count += f->files[i].count;
    struct st_tensor *all = NEW(perm, struct st_tensor, count);
    for (i64 i = 0; i < f->file_count; i++)
        for (i64 k = 0; k < f->files[i].count; k++) all[f->count++] = f->files[i].tensors[k];
    qsort(all, (size_t)count, sizeof *all, by_name);
    f->tensors = all;
}

enum status st_folder_files(struct os *os, struct str folder, struct arena *perm,
                            struct str **paths, i64 *count, struct err *err)
{
    struct str      path = inside(perm, folder, index_name), text;
    struct st_index index;
    *paths = NEW(perm, struct str, ST_SHARDS_MAX);
    *count = 0;
    if (is_there(os, folder, single_name, *perm)) {
        (*paths)[(*count)++] = inside(perm, folder, single_name);
        return STATUS_OK;
    }
    enum status st = os_read_all(os, path, perm, &text, err);
    if (!st) st = st_index_parse(path, text, perm, &index, err);
    for (i64 i = 0; !st && i < index.count && *count < ST_SHARDS_MAX; i++)
        if (!i || !str_eq(index.entries[i].file, index.entries[i - 1].file))
            (*paths)[(*count)++] = inside(perm, folder, index.entries[i].file);
    return st;
}

enum status st_folder_open_file(struct os *os, struct str path, struct arena *perm,
                                struct st_folder *out, struct err *err)
{
    *out           = (struct st_folder){ .files = NEW(perm, struct st_file, 1) };
    enum status st = st_open(os, path, perm, out->files, err);
    if (st) return st;
    out->file_count = 1;
    collect(out, perm);
    return STATUS_OK;
}

enum status st_folder_open(struct os *os, struct str folder, struct arena *perm,
                           struct st_folder *out, struct err *err)
{
    enum status st = STATUS_OK;
    *out           = (struct st_folder){ 0 };
    if (is_there(os, folder, single_name, *perm)) { /* first, as transformers has it */
        return st_folder_open_file(os, inside(perm, folder, single_name), perm, out, err);
    } else if (is_there(os, folder, index_name, *perm)) {
        st = open_shards(os, folder, perm, out, err);
    } else {
        st = nothing_to_read(os, folder, *perm, err);
    }
    if (st) st_folder_close(os, out);
    else collect(out, perm);
    return st;
}

void st_folder_close(struct os *os, struct st_folder *f)
{
    for (i64 i = 0; i < f->file_count; i++) st_close(os, &f->files[i]);
    *f = (struct st_folder){ 0 };
}

const struct st_tensor *st_folder_find(const struct st_folder *f, struct str name)
{
    struct st_tensor key = { .name = name };
    if (!f->count) return NULL;
    return bsearch(&key, f->tensors, (size_t)f->count, sizeof key, by_name);
}
