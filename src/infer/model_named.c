/* model_named.c - from a model's name to its settings. Weights that `frugal train` wrote know the settings of their
 * model (docs/formats/weights.md); a run of the ledger knows where its weights are; a checkpoint knows its run. */
#include "infer/model_named.h"
#include "base/json.h"
#include "data/data.h"
#include "run/ledger.h"
#include "store/checkpoint.h"
#include "train/options.h"

enum { HEADER_GIB = 1, LEDGER_GIB = 16 }; /* address space */

static const struct str class_line    = STR_INIT("class ");
static const struct str computed_line = STR_INIT("computed ");

/* KEY=VALUE a line. */
static enum status add_lines(struct config *config, struct arena *perm, struct str lines,
                             struct err *err)
{
    struct str  line;
    enum status st = STATUS_OK;
    while (!st && str_cut(&lines, '\n', &line))
        if (str_find(line, '=') > 0 && !str_starts(line, class_line) &&
            !str_starts(line, computed_line))
            st = config_add_override(config, perm, line, err);
    return st;
}

/* How training's own evaluation computed, for who wants its figures; unless somebody says otherwise. */
static enum status compute_as(struct config *config, struct arena *perm, struct str key_value,
                              struct err *err)
{
    struct str           key = key_value;
    const struct option *o   = NULL;
    i64                  at  = str_find(key_value, '=');
    bool all = str_eq(config->command, STR("evaluate")) || str_eq(config->command, STR("predict"));
    if (at > 0) key.len = at;
    if (at > 0 && all) o = option_find(key);
    if (!o || config->origin[o - options].kind != ORIGIN_DEFAULT) return STATUS_OK;
    return config_add_override(config, perm, key_value, err);
}

static enum status of_folder(struct arena *perm, struct str path, struct config *config,
                             struct err *err)
{
    enum status st = config_add_override(config, perm, STR("model.kind=hf"), err);
    if (st) return st;
    return config_add_override(config, perm, str_cat(perm, STR("model.path="), path), err);
}

static enum status of_weights(struct os *os, struct arena *perm, struct str path,
                              struct config *config, struct err *err)
{
    struct st_file f;
    struct arena   names = arena_open((i64)HEADER_GIB << 30);
    if (!names.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = st_open(os, path, &names, &f, err);
    if (!st && !f.about.len)
        st = err_set(
            err, STATUS_USAGE,
            "%.*s does not say which model it is of, so it was not written by this version of "
            "frugal train; give the run file instead, with train.out=%.*s",
            STR_ARG(path), STR_ARG(path));
    if (!st) st = add_lines(config, perm, str_copy(perm, f.about), err);
    if (!st) config->settings.train.init = path;
    st_close(os, &f);
    arena_close(&names);
    return st;
}

/* What the weights say of the classes, and of how they were computed with; nothing where they cannot be read, which
 * whoever opens them will say. */
static enum status add_facts(struct os *os, struct arena *perm, struct config *config,
                             struct err *err)
{
    struct data_config *data  = &config->settings.data;
    struct arena        names = arena_open((i64)HEADER_GIB << 30);
    struct st_file      f;
    struct str          line;
    enum status         st = STATUS_OK;
    if (!names.begin) return STATUS_OK;
    if (!st_open(os, config->settings.train.init, &names, &f, NULL)) {
        struct str rest = str_copy(perm, f.about), again = rest;
        while (str_cut(&again, '\n', &line)) data->class_count += str_starts(line, class_line);
        struct str *to        = NEW(perm, struct str, data->class_count);
        data->class_names     = to;
        data->classes_trained = data->class_count > 0;
        while (!st && str_cut(&rest, '\n', &line))
            if (str_eq(line, STR("data.kind=images")) && str_eq(data->kind, STR("auto")))
                data->kind = STR("images");
            else if (str_starts(line, class_line)) *to++ = str_sub(line, class_line.len, line.len);
            else if (str_starts(line, computed_line))
                st = compute_as(config, perm, str_sub(line, computed_line.len, line.len), err);
        st_close(os, &f);
    }
    arena_close(&names);
    return st;
}

/* A run that began with a folder of PEFT's has its rank and its matrices, and the folder of the model that they are of;
 * the weights that it wrote say them. */
static enum status with_adapters(struct os *os, struct arena *perm, struct config *config,
                                 struct err *err)
{
    struct settings *s     = &config->settings;
    struct arena     names = arena_open((i64)HEADER_GIB << 30);
    struct st_file   f;
    struct str       line;
    enum status      st = STATUS_OK;
    if (!names.begin) return STATUS_OK;
    bool whole = os_is_file(os, str_cat(perm, s->model.path, STR("/config.json")));
    if (!st_open(os, s->train.init, &names, &f, NULL)) {
        struct str rest = str_copy(perm, f.about);
        while (!st && str_cut(&rest, '\n', &line))
            if (str_starts(line, STR("train.lora.")) ||
                (!whole && str_starts(line, STR("model.path="))))
                st = config_add_override(config, perm, line, err);
        st_close(os, &f);
    }
    arena_close(&names);
    return st;
}

static enum status with_out(struct os *os, struct arena *perm, struct config *config,
                            struct str name, struct err *err)
{
    struct train_config *t = &config->settings.train;
    if (str_eq(t->out, STR("auto"))) t->out = STR(""); /* it ran before there were any by default */
    if (!t->out.len) /* those that a model of kind hf began with are others */
        return err_set(err, STATUS_USAGE, "%.*s: no weights were written (train.out=none)",
                       STR_ARG(name));
    t->init = t->out;
    if (!str_ends(t->out, STR("/")))
        return str_eq(config->settings.model.kind, STR("hf")) ? with_adapters(os, perm, config, err)
                                                              : STATUS_OK;
    t->init                     = STR(""); /* a folder of Hugging Face's, or of PEFT's */
    t->lora                     = (struct lora_config){ 0 };
    config->settings.model.kind = STR("hf");
    config->settings.model.path = str_sub(t->out, 0, t->out.len - 1);
    return STATUS_OK;
}

/* `other`: a run that does have the name, of another kind; NULL: none. */
static enum status not_found(struct os *os, struct str name, bool ledger,
                             const struct run_row *other, struct arena scratch, struct err *err)
{
    struct os_stat stat;
    struct str     weights = str_cat(&scratch, name, STR("/weights.safetensors"));
    if (os_is_file(os, weights))
        return err_set(err, STATUS_USAGE,
                       "%.*s is a checkpoint without a manifest.json, so it is not complete; see "
                       "`frugal checkpoints`",
                       STR_ARG(name));
    if (!os->stat(os, name, &stat, NULL) && stat.is_dir)
        return err_set(
            err, STATUS_USAGE,
            "%.*s is a folder without config.json; give a Hugging Face folder, which "
            "has one, a safetensors file that frugal train wrote, a checkpoint, or a run",
            STR_ARG(name));
    if (other)
        return err_set(
            err, STATUS_USAGE,
            "%.*s is a run of kind %.*s, not of `frugal train`; give the file or folder of "
            "the weights (`frugal sweep` writes one with train.out=FILE)",
            STR_ARG(name), STR_ARG(other->kind));
    if (!ledger)
        return err_set(err, STATUS_USAGE, "%.*s is no file, and there is no ledger of runs",
                       STR_ARG(name));
    return err_set(err, STATUS_USAGE,
                   "%.*s is neither a file, a folder nor a run; see `frugal runs`", STR_ARG(name));
}

/* This machine's, not that of the run; *out NULL: there is none. */
static enum status open_ledger(struct os *os, struct arena *perm, struct ledger **out,
                               struct arena **read, struct err *err)
{
    struct config *here = config_new(perm);
    enum status    st   = config_add_environment(here, os, perm, err);
    struct str     path = ledger_path(os, here->settings.run.ledger, perm);
    *out                = NULL;
    if (st || !path.len) return st;
    *read  = NEW(perm, struct arena, 1);
    **read = arena_open((i64)LEDGER_GIB << 30);
    return ledger_open(os, path, *read, out, err);
}

/* The newest run of the ledger whose id begins so, or of that name; "last": the newest of all. *out NULL: there is
 * none; *other: the newest that is not one of training, or NULL. *ledger false: there is not even a ledger. */
static enum status find_run(struct os *os, struct arena *perm, struct str name,
                            struct run_row **out, struct run_row **other, bool *ledger,
                            struct err *err)
{
    struct ledger  *l;
    struct arena   *read;
    struct run_row *rows  = NULL;
    i64             count = 0;
    enum status     st    = open_ledger(os, perm, &l, &read, err);
    *out = *other = NULL;
    *ledger       = l != NULL;
    if (st || !l) return st;
    st = ledger_read(l, LEDGER_TABLE_run, NULL, STR(""), read, &rows, &count, err);
    for (i64 i = 0; !st && i < count; i++) {
        bool is = str_eq(name, STR("last")) || str_eq(rows[i].name, name) ||
                  (name.len >= 4 && str_starts(rows[i].id, name));
        if (is) *(str_eq(rows[i].kind, STR("train")) ? out : other) = &rows[i];
    }
    ledger_close(l);
    return st;
}

/* Two runs of one name write one file: has another run written the weights that are there now? */
static enum status check_writer(struct os *os, struct arena *perm, const struct run_row *run,
                                struct str file, struct err *err)
{
    struct ledger      *l;
    struct arena       *read;
    struct segment_row *rows  = NULL;
    struct str          mark  = { 0 };
    i64                 count = 0;
    bool                own   = false;
    if (!os_is_file(os, file) || fingerprint_files(os, &file, 1, perm, &mark, NULL))
        return STATUS_OK;
    enum status st = open_ledger(os, perm, &l, &read, err);
    if (st || !l) return st;
    st = ledger_read(l, LEDGER_TABLE_segment, "weights", mark, read, &rows, &count, err);
    for (i64 i = 0; !st && i < count; i++) own |= str_eq(rows[i].run, run->id);
    if (!st && count && !own)
        st = err_set(err, STATUS_USAGE,
                     "%.*s has the weights of run %.*s, not those of run %.*s; give the file "
                     "itself, or a checkpoint",
                     STR_ARG(file), (int)MIN(rows[0].run.len, 8), rows[0].run.data,
                     (int)MIN(run->id.len, 8), run->id.data);
    ledger_close(l);
    return st;
}

static bool is_written(struct os *os, const struct settings *s, struct arena scratch)
{
    static const char *const names[] = { "/config.json", "/adapter_config.json" };
    bool                     there   = s->train.init.len && os_is_file(os, s->train.init);
    for (i64 i = 0; !s->train.init.len && i < COUNT_OF(names); i++)
        there |= os_is_file(os, str_cat(&scratch, s->model.path, str_of(names[i])));
    return there;
}

static enum status of_run(struct os *os, struct arena *perm, struct str name, struct config *config,
                          struct err *err)
{
    struct run_row *found, *other;
    bool            ledger;
    enum status     st = find_run(os, perm, name, &found, &other, &ledger, err);
    if (!st && !found) st = not_found(os, name, ledger, other, *perm, err);
    if (!st) st = add_lines(config, perm, found->settings, err);
    if (!st) st = with_out(os, perm, config, found->name, err);
    if (!st && !is_written(os, &config->settings, *perm))
        st = err_set(
            err, STATUS_USAGE,
            "run %.*s wrote its weights to %.*s, which is not there; start frugal in the folder "
            "where it was trained",
            STR_ARG(found->name), STR_ARG(config->settings.train.out));
    return st ? st : check_writer(os, perm, found, config->settings.train.init, err);
}

/* A checkpoint knows the settings that must not change when it is resumed, and its run; the ledger, if it has that run,
 * knows the others. */
static enum status of_checkpoint(struct os *os, struct arena *perm, const struct ckpt *c,
                                 struct config *config, struct err *err)
{
    static const char *const rooms[] = { "model.", "data.", "train.lora." };
    struct run_row          *found   = NULL, *other;
    struct json             *state;
    bool                     ledger;
    enum status              st = c->why.status;
    if (st) return err_set(err, st, "%s", c->why.text);
    st = json_parse(perm, c->manifest.state, &state, err);
    if (!st) st = find_run(os, perm, c->manifest.run, &found, &other, &ledger, err);
    if (!st && found) st = add_lines(config, perm, found->settings, err);
    for (const struct json *v = st ? NULL : state->first; v && !st; v = v->next) {
        bool is = false;
        for (i64 i = 0; i < COUNT_OF(rooms); i++) is |= str_starts(v->key, str_of(rooms[i]));
        if (is && option_find(v->key) && !str_eq(v->key, STR("data.shuffle_block")))
            st = config_add_override(
                config, perm, str_fmt(perm, "%.*s=%.*s", STR_ARG(v->key), STR_ARG(v->text)), err);
    }
    config->settings.train.out  = STR("");
    config->settings.train.init = str_cat(perm, c->folder, STR("/weights.safetensors"));
    return st;
}

/* As its evaluation computed: known once nobody can say otherwise any more. */
static enum status compute_as_saved(struct arena *perm, const struct ckpt *c, struct config *config,
                                    struct err *err)
{
    static const char *const keys[] = { "train.precision", "train.wide_sums", "train.fp8" };
    struct json             *state;
    enum status              st = json_parse(perm, c->manifest.state, &state, err);
    for (i64 i = 0; !st && i < COUNT_OF(keys); i++) {
        const struct json *v = json_get(state, str_of(keys[i]));
        if (v)
            st = compute_as(config, perm, str_fmt(perm, "%s=%.*s", keys[i], STR_ARG(v->text)), err);
    }
    return st;
}

/* That folder, or the newest in that folder; NULL: neither. */
static enum status find_checkpoint(struct os *os, struct arena *perm, struct str name,
                                   const struct ckpt **out, struct err *err)
{
    struct str       above = name;
    struct ckpt_id   id;
    struct ckpt_list list = { 0 };
    struct os_stat   stat;
    *out = NULL;
    while (name.len > 1 && name.data[name.len - 1] == '/') name.len--;
    if (os->stat(os, name, &stat, NULL) || !stat.is_dir) return STATUS_OK;
    above = name;
    while (above.len && above.data[above.len - 1] != '/') above.len--;
    struct str  last = str_sub(name, above.len, name.len);
    bool        one  = ckpt_name_parse(last, &id);
    struct str  in   = one ? above.len ? above : STR(".") : name;
    enum status st   = ckpt_list(os, in, perm, &list, err);
    for (i64 i = 0; !st && !*out && i < list.count; i++) {
        bool is = one ? !ckpt_order(list.items[i].id, id) && list.items[i].id.step == id.step
                      : !list.items[i].why.status;
        if (is) *out = &list.items[i];
    }
    return st;
}

enum status model_named(struct os *os, struct arena *perm, struct str command, struct str name,
                        const struct str *overrides, i64 override_count, struct config **out,
                        struct err *err)
{
    struct config     *config = config_new(perm);
    struct str         text, folder_config = str_cat(perm, name, STR("/config.json"));
    struct str         adapters = str_cat(perm, name, STR("/adapter_config.json"));
    bool               yaml     = str_ends(name, STR(".yaml")) || str_ends(name, STR(".yml"));
    const struct ckpt *saved    = NULL;
    enum status        st       = STATUS_OK;
    config->command             = command;
    if (!os_is_file(os, folder_config) && !os_is_file(os, adapters))
        st = find_checkpoint(os, perm, name, &saved, err);
    if (st) return st;
    if (saved) st = of_checkpoint(os, perm, saved, config, err);
    else if (os_is_file(os, folder_config) || os_is_file(os, adapters))
        st = of_folder(perm, name, config, err);
    else if (os_is_file(os, name) && yaml) {
        st = os_read_all(os, name, perm, &text, err);
        if (!st) st = config_add_file(config, perm, name, text, err);
    } else if (os_is_file(os, name)) st = of_weights(os, perm, name, config, err);
    else st = of_run(os, perm, name, config, err);
    if (!st) st = config_add_environment(config, os, perm, err);
    for (i64 i = 0; !st && i < override_count; i++)
        st = config_add_override(config, perm, overrides[i], err);
    if (!st && yaml) st = config_add_recipe(config, perm, err);
    if (!st) config_resolve_out(config, perm);
    if (!st && yaml) st = with_out(os, perm, config, name, err);
    if (!st && config->settings.train.init.len) st = add_facts(os, perm, config, err);
    if (!st && saved) st = compute_as_saved(perm, saved, config, err);
    *out = config;
    return st;
}
