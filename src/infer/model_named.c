/* model_named.c - from a model's name to its settings. Weights that `frugal train` wrote know the settings of their
 * model (docs/formats/weights.md); a run of the ledger knows where its weights are. */
#include "infer/model_named.h"
#include "run/ledger.h"
#include "store/safetensors.h"

enum { HEADER_GIB = 1, LEDGER_GIB = 16 }; /* address space */

static const struct str class_line = STR_INIT("class ");

/* KEY=VALUE a line. */
static enum status add_lines(struct config *config, struct arena *perm, struct str lines,
                             struct err *err)
{
    struct str  line;
    enum status st = STATUS_OK;
    while (!st && str_cut(&lines, '\n', &line))
        if (str_find(line, '=') > 0 && !str_starts(line, class_line))
            st = config_add_override(config, perm, line, err);
    return st;
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

/* What the weights say of the classes; nothing where they cannot be read, which whoever opens them will say. */
static void add_classes(struct os *os, struct arena *perm, struct config *config)
{
    struct data_config *data  = &config->settings.data;
    struct arena        names = arena_open((i64)HEADER_GIB << 30);
    struct st_file      f;
    struct str          line;
    if (!names.begin) return;
    if (!st_open(os, config->settings.train.init, &names, &f, NULL)) {
        struct str rest = str_copy(perm, f.about), again = rest;
        while (str_cut(&again, '\n', &line)) data->class_count += str_starts(line, class_line);
        struct str *to        = NEW(perm, struct str, data->class_count);
        data->class_names     = to;
        data->classes_trained = data->class_count > 0;
        while (str_cut(&rest, '\n', &line))
            if (str_eq(line, STR("data.kind=images")) && str_eq(data->kind, STR("auto")))
                data->kind = STR("images");
            else if (str_starts(line, class_line)) *to++ = str_sub(line, class_line.len, line.len);
        st_close(os, &f);
    }
    arena_close(&names);
}

static enum status with_out(struct config *config, struct str name, struct err *err)
{
    struct train_config *t = &config->settings.train;
    if (str_eq(t->out, STR("auto"))) t->out = STR(""); /* it ran before there were any by default */
    if (!t->out.len) /* those that a model of kind hf began with are others */
        return err_set(err, STATUS_USAGE, "%.*s: no weights were written (train.out=none)",
                       STR_ARG(name));
    t->init = t->out;
    return STATUS_OK;
}

static enum status not_found(struct os *os, struct str name, bool ledger, struct arena scratch,
                             struct err *err)
{
    struct os_stat stat;
    struct str     weights = str_cat(&scratch, name, STR("/weights.safetensors"));
    if (os_is_file(os, weights))
        return err_set(err, STATUS_USAGE,
                       "%.*s is a checkpoint, which does not say which model it is of; give the "
                       "run file instead, with train.out=%.*s",
                       STR_ARG(name), STR_ARG(weights));
    if (!os->stat(os, name, &stat, NULL) && stat.is_dir)
        return err_set(err, STATUS_USAGE,
                       "%.*s is a folder without config.json; give a Hugging Face folder, which "
                       "has one, a safetensors file that frugal train wrote, or a run",
                       STR_ARG(name));
    if (!ledger)
        return err_set(err, STATUS_USAGE, "%.*s is no file, and there is no ledger of runs",
                       STR_ARG(name));
    return err_set(err, STATUS_USAGE,
                   "%.*s is neither a file, a folder nor a run; see `frugal runs`", STR_ARG(name));
}

/* The newest run whose id begins so, or of that name; "last": the newest of all. */
static enum status of_run(struct os *os, struct arena *perm, struct str name, struct config *config,
                          struct err *err)
{
    struct ledger  *l;
    struct run_row *rows = NULL, *found = NULL;
    i64             count = 0;
    struct config  *here = config_new(perm); /* the ledger is this machine's, not that of the run */
    enum status     st   = config_add_environment(here, os, perm, err);
    struct str      path = ledger_path(os, here->settings.run.ledger, perm);
    struct arena   *read = NEW(perm, struct arena, 1);
    *read                = arena_open((i64)LEDGER_GIB << 30);
    if (!st && !path.len) st = not_found(os, name, false, *perm, err);
    if (!st) st = ledger_open(os, path, read, &l, err);
    if (st) return st;
    st = ledger_read(l, LEDGER_TABLE_run, NULL, STR(""), read, &rows, &count, err);
    for (i64 i = 0; !st && i < count; i++) {
        bool is = str_eq(name, STR("last")) || str_eq(rows[i].name, name) ||
                  (name.len >= 4 && str_starts(rows[i].id, name));
        if (is && str_eq(rows[i].kind, STR("train"))) found = &rows[i];
    }
    ledger_close(l);
    if (!st && !found) st = not_found(os, name, true, *perm, err);
    if (!st) st = add_lines(config, perm, found->settings, err);
    if (!st) st = with_out(config, found->name, err);
    if (!st && config->settings.train.init.len && !os_is_file(os, config->settings.train.init))
        st = err_set(
            err, STATUS_USAGE,
            "run %.*s wrote its weights to %.*s, which is not there; start frugal in the folder "
            "where it was trained",
            STR_ARG(found->name), STR_ARG(config->settings.train.init));
    return st;
}

enum status model_named(struct os *os, struct arena *perm, struct str command, struct str name,
                        const struct str *overrides, i64 override_count, struct config **out,
                        struct err *err)
{
    struct config *config = config_new(perm);
    struct str     text, folder_config = str_cat(perm, name, STR("/config.json"));
    struct str     adapters = str_cat(perm, name, STR("/adapter_config.json"));
    bool           yaml     = str_ends(name, STR(".yaml")) || str_ends(name, STR(".yml"));
    enum status    st       = STATUS_OK;
    config->command         = command;
    if (os_is_file(os, folder_config) || os_is_file(os, adapters))
        st = of_folder(perm, name, config, err);
    else if (os_is_file(os, name) && yaml) {
        st = os_read_all(os, name, perm, &text, err);
        if (!st) st = config_add_file(config, perm, name, text, err);
    } else if (os_is_file(os, name)) st = of_weights(os, perm, name, config, err);
    else st = of_run(os, perm, name, config, err);
    if (!st) st = config_add_environment(config, os, perm, err);
    for (i64 i = 0; !st && i < override_count; i++)
        st = config_add_override(config, perm, overrides[i], err);
    if (!st) config_resolve_out(config, perm);
    if (!st && yaml) st = with_out(config, name, err);
    if (!st && config->settings.train.init.len) add_classes(os, perm, config);
    *out = config;
    return st;
}
