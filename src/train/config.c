/* config.c - settings from defaults, run.yaml, environment and command line, in that order; a recipe
 * speaks last and only where they were silent. */
#include "train/config.h"
#include <ctype.h>

enum status config_at(struct err *err, struct str place, i32 line, const struct err *what)
{
    if (line) return err_set(err, what->status, "%.*s:%d: %s", STR_ARG(place), line, what->text);
    return err_set(err, what->status, "%.*s: %s", STR_ARG(place), what->text);
}

struct config *config_new(struct arena *perm)
{
    struct config *c = NEW(perm, struct config, 1);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct err  err;
        enum status st = option_set_text(&options[i], &c->settings, options[i].initial, perm, &err);
        ASSERT(st == STATUS_OK); /* a default of the table that its own row refuses */
    }
    return c;
}

/* Is it the beginning of other settings' keys, as train.lora is of train.lora.rank? */
static bool is_group(struct str key, struct arena scratch)
{
    struct str begin = str_cat(&scratch, key, STR("."));
    for (i64 i = 0; i < OPTION_COUNT; i++)
        if (str_starts(options[i].key, begin)) return true;
    return false;
}

static enum status settings_add(struct config *c, struct arena *perm, struct str above,
                                const struct yaml *map, struct err *err)
{
    struct err why;
    for (const struct yaml *v = map->first; v; v = v->next) {
        struct str           key = str_fmt(perm, "%.*s.%.*s", STR_ARG(above), STR_ARG(v->key));
        const struct option *o   = option_find(key);
        enum status          st;
        if (!o && v->kind == YAML_MAP && is_group(key, *perm)) {
            st = settings_add(c, perm, key, v, err);
            if (st) return st;
            continue;
        }
        st = o ? option_set(o, &c->settings, v, perm, &why) : option_unknown(key, *perm, &why);
        if (st) return config_at(err, c->file, v->line, &why);
        c->origin[o - options] = (struct origin){ ORIGIN_FILE, v->line };
    }
    return STATUS_OK;
}

static enum status section_add(struct config *c, struct arena *perm, const struct yaml *section,
                               struct err *err)
{
    struct err why;
    if (section->kind == YAML_SCALAR && section->text.len == 0) return STATUS_OK; /* "data:" */
    if (section->kind != YAML_MAP) {
        err_set(&why, STATUS_USAGE, "%.*s: expected settings below it, one per line",
                STR_ARG(section->key));
        return config_at(err, c->file, section->line, &why);
    }
    return settings_add(c, perm, section->key, section, err);
}

static bool is_section(struct str name)
{
    for (i64 i = 0; i < OPTION_COUNT; i++)
        if (str_eq(option_section(&options[i]), name)) return true;
    return false;
}

static enum status unknown_section(struct str name, struct arena scratch, struct err *err)
{
    for (i64 i = 0; i < OPTION_COUNT && name.len < 16; i++) {
        struct str ours = option_section(&options[i]);
        if (str_distance(ours, name, scratch) <= 2)
            return err_set(err, STATUS_USAGE, "unknown key %.*s; did you mean %.*s?", STR_ARG(name),
                           STR_ARG(ours));
    }
    return option_unknown(name, scratch, err);
}

enum status config_add_file(struct config *c, struct arena *perm, struct str file, struct str text,
                            struct err *err)
{
    struct yaml *root = NULL;
    struct err   why;
    enum status  st = yaml_parse(perm, file, text, &root, err);
    if (st) return st;

    c->file = c->settings.model.file = str_copy(perm, file);
    c->empty                         = !root || (root->kind == YAML_SCALAR && root->text.len == 0);
    if (c->empty) return STATUS_OK;
    if (root->kind != YAML_MAP)
        return err_set(err, STATUS_USAGE,
                       "%.*s:%d: expected the sections data:, model: and train:", STR_ARG(file),
                       root->line);
    for (const struct yaml *section = root->first; section && !st; section = section->next) {
        if (is_section(section->key)) {
            st = section_add(c, perm, section, err);
        } else {
            unknown_section(section->key, *perm, &why);
            st = config_at(err, file, section->line, &why);
        }
    }
    return st;
}

/* A network from another source has its lines counted there, not in the run file. */
static void layers_from(struct config *c, const struct option *o, struct str place)
{
    if (str_eq(o->key, STR("model.layers"))) c->settings.model.file = place;
}

/* FRUGAL_TRAIN_BACTH=64 as train.bacth, so that the nearest key can be found; empty: not for us. */
static struct str key_of_variable(struct str name, struct arena *perm)
{
    struct str rest = name, word, section;
    if (!str_cut(&rest, '_', &word) || !str_eq(word, STR("FRUGAL"))) return STR("");
    if (!str_cut(&rest, '_', &section) || !rest.len) return STR("");
    struct str key  = str_fmt(perm, "%.*s.%.*s", STR_ARG(section), STR_ARG(rest));
    char      *data = (char *)(uintptr_t)key.data; /* ours alone: str_fmt made it */
    for (i64 i = 0; i < key.len; i++) data[i] = (char)tolower((unsigned char)data[i]);
    return is_section(str_sub(key, 0, str_find(key, '.'))) ? key : STR("");
}

/* Of a key with more dots than one, which the name does not show. */
static bool is_variable(struct str name, struct arena scratch)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = scratch;
        if (str_eq(option_environment(&options[i], &here), name)) return true;
    }
    return false;
}

/* A variable that is meant for a section and names none of its keys. */
static enum status unknown_variables(struct os *os, struct arena scratch, struct err *err)
{
    struct err why;
    struct str pair, name;
    for (i64 i = 0; (pair = os->env_at(os, i)).data; i++) {
        struct arena here = scratch;
        if (!str_cut(&pair, '=', &name)) continue;
        struct str key = key_of_variable(name, &here);
        if (!key.len || option_find(key) || is_variable(name, here)) continue;
        option_unknown(key, here, &why);
        return config_at(err, name, 0, &why);
    }
    return STATUS_OK;
}

/* A variable that is no setting (see topics.def). */
static enum status known_word(struct os *os, const char *name, const char *words, struct err *err)
{
    struct str value = os->env(os, name), rest = str_of(words), word;
    if (!value.len) return STATUS_OK;
    while (str_cut(&rest, '|', &word))
        if (str_eq(word, value)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s is %.*s; expected %s", name, (int)MIN(value.len, 80),
                   value.data, words);
}

enum status config_add_environment(struct config *c, struct os *os, struct arena *perm,
                                   struct err *err)
{
    enum status st = unknown_variables(os, *perm, err);
    if (!st) st = known_word(os, "FRUGAL_KERNELS", "ref", err);
    if (st) return st;
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena scratch = *perm;
        struct str   name    = option_environment(&options[i], &scratch);
        struct str   value   = os->env(os, name.data);
        struct err   why;
        if (!value.data) continue;
        if (option_set_text(&options[i], &c->settings, value, perm, &why)) {
            scratch = *perm;
            return config_at(err, option_environment(&options[i], &scratch), 0, &why);
        }
        c->origin[i] = (struct origin){ ORIGIN_ENVIRONMENT, 0 };
        layers_from(c, &options[i], option_environment(&options[i], perm));
    }
    return STATUS_OK;
}

enum status config_add_override(struct config *c, struct arena *perm, struct str key_value,
                                struct err *err)
{
    i64        equals = str_find(key_value, '=');
    struct str key    = str_trim(str_sub(key_value, 0, equals));
    struct str value  = str_sub(key_value, equals + 1, key_value.len);
    struct err why;
    if (equals <= 0)
        return err_set(err, STATUS_USAGE, "expected key=value, like train.batch=64, but found %.*s",
                       (int)MIN(key_value.len, 80), key_value.data);

    const struct option *o    = option_find(key);
    bool                 back = o && o->kind != OPTION_TEXT &&
                str_eq(value, STR("default")); /* takes back what others said */
    if (back) value = o->initial;
    enum status st =
        o ? option_set_text(o, &c->settings, value, perm, &why) : option_unknown(key, *perm, &why);
    if (st) return config_at(err, STR("command line"), 0, &why);
    c->origin[o - options] = (struct origin){ back ? ORIGIN_DEFAULT : ORIGIN_COMMAND_LINE, 0 };
    layers_from(c, o, STR("command line, model.layers"));
    return STATUS_OK;
}

/* A file without settings is a mistake, unless other sources say what to train on, or what. */
static enum status check_empty(const struct config *c, struct err *err)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct str section = option_section(&options[i]);
        bool       of_run  = str_eq(section, STR("data")) || str_eq(section, STR("model"));
        if (!c->empty || (c->origin[i].kind != ORIGIN_DEFAULT && of_run)) return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE,
                   "%.*s is empty; expected the sections data:, model: and train: (frugal help "
                   "run.yaml)",
                   STR_ARG(c->file));
}

static enum status read_file(struct os *os, struct arena *perm, struct str file, struct str *text,
                             struct err *err)
{
    struct os_stat there = { 0 };
    bool           none  = os->stat(os, file, &there, NULL) != STATUS_OK;
    if (there.is_dir)
        return err_set(err, STATUS_USAGE, "%.*s is a folder; expected a run file, like run.yaml",
                       STR_ARG(file));
    if (none && str_find(file, '/') < 0 && !str_ends(file, STR(".yaml")) &&
        !str_ends(file, STR(".yml")))
        return err_set(err, STATUS_USAGE,
                       "there is no file %.*s; expected a run file, like run.yaml. `frugal plan "
                       "NAME` takes the names of known models",
                       STR_ARG(file));
    return os_read_all(os, file, perm, text, err);
}

struct str config_run_name(const struct config *c)
{
    struct str path = c->file;
    if (c->settings.run.name.len) return c->settings.run.name;
    for (i64 i = path.len; i-- > 0;)
        if (path.data[i] == '/') path = str_sub(path, i + 1, path.len), i = 0;
    i64 dot = str_find(path, '.');
    return dot > 0 ? str_sub(path, 0, dot) : path;
}

void config_resolve_out(struct config *c, struct arena *perm)
{
    static const char *const named[] = { "train", "evaluate", "predict", "generate", "export" };
    struct str              *out     = &c->settings.train.out;
    bool                     is_auto = str_eq(*out, STR("auto"));
    if (str_eq(c->command, STR("show")) || (!is_auto && !str_eq(*out, STR("none")))) return;
    *out = STR("");
    for (i64 i = 0; is_auto && c->file.len && i < COUNT_OF(named); i++)
        if (str_eq(c->command, str_of(named[i])))
            *out = str_cat(perm, config_run_name(c), STR(".safetensors"));
}

enum status config_read(struct os *os, struct arena *perm, struct str command, struct str file,
                        const struct str *overrides, i64 override_count, struct config **out,
                        struct err *err)
{
    struct config *c = config_new(perm);
    struct str     text;
    c->command     = command;
    enum status st = file.len ? read_file(os, perm, file, &text, err) : STATUS_OK;
    if (!st && file.len) st = config_add_file(c, perm, file, text, err);
    if (!st) st = config_add_environment(c, os, perm, err);
    for (i64 i = 0; i < override_count && !st; i++)
        st = config_add_override(c, perm, overrides[i], err);
    if (!st) st = check_empty(c, err);
    if (!st) st = config_add_recipe(c, perm, err);
    if (!st) st = config_check_needs(c, os, *perm, err);
    if (!st) config_resolve_out(c, perm);
    const struct option *lr = option_find(STR("train.lr"));
    c->settings.lr_given    = c->origin[lr - options].kind > ORIGIN_RECIPE;
    if (!st) *out = c;
    return st;
}

struct str config_origin_text(const struct config *c, const struct option *o, struct arena *perm)
{
    struct origin from = c->origin[o - options];
    switch (from.kind) {
    case ORIGIN_DEFAULT: return STR("default");
    case ORIGIN_RECIPE: return str_fmt(perm, "recipe %.*s", STR_ARG(c->settings.train.recipe));
    case ORIGIN_FILE: return str_fmt(perm, "%.*s:%d", STR_ARG(c->file), from.line);
    case ORIGIN_ENVIRONMENT: {
        struct str name = option_environment(o, perm);
        return str_cat(perm, STR("environment "), name);
    }
    case ORIGIN_COMMAND_LINE: return STR("command line");
    }
    ASSERT(!"an origin without words");
    return STR("");
}

/* train.out has a value of its own where the run's name decides it. */
static bool is_changed(const struct config *c, i64 i)
{
    bool out = str_eq(options[i].key, STR("train.out")) && c->settings.train.out.len;
    return c->origin[i].kind != ORIGIN_DEFAULT || out;
}

struct str settings_changed(const struct config *config, struct arena *perm)
{
    struct arena   values = arena_part(perm, 1 << 20);
    struct textbuf b      = textbuf_new(perm);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = values;
        if (is_changed(config, i))
            textbuf_fmt(&b, "%.*s=%.*s\n", STR_ARG(options[i].key),
                        STR_ARG(option_shown_text(&options[i], &config->settings, &here)));
    }
    return textbuf_str(&b);
}

struct str settings_origins(const struct config *config, struct arena *perm)
{
    struct arena   texts = arena_part(perm, 1 << 16);
    struct textbuf b     = textbuf_new(perm);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena here = texts;
        if (is_changed(config, i))
            textbuf_fmt(&b, "%.*s\n", STR_ARG(config_origin_text(config, &options[i], &here)));
    }
    return textbuf_str(&b);
}
