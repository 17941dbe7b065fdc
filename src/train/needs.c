/* needs.c - settings that were given and would be ignored: the column `needs` of options.def, and the sections that
 * a command has no use for, checked once when all settings are known.
 *
 * The environment speaks to every command and every run of a machine. So what it says of a section that this
 * command ignores is no mistake; nor are FRUGAL_SPOT_* in a run without checkpoints, or with spot.cloud=none. */
#include "data/place.h"
#include "remote/address.h"
#include "train/config.h"
#include <string.h>

struct check {
    struct os             *os;
    const struct config   *config;
    const struct settings *now, *defaults;
};

static bool is_given(const struct check *c, const struct option *o)
{
    return c->config->origin[o - options].kind > ORIGIN_RECIPE;
}

static bool is_default(const struct check *c, const struct option *o, struct arena scratch)
{
    return str_eq(option_get_text(o, c->now, &scratch), option_get_text(o, c->defaults, &scratch));
}

/* Cuts at a word between blanks, like " or "; false when rest was empty. */
static bool cut_word(struct str *rest, struct str word, struct str *head)
{
    if (!rest->len) return false;
    for (i64 at = 0; at + word.len <= rest->len; at++) {
        if (!str_eq(str_sub(*rest, at, at + word.len), word)) continue;
        *head = str_sub(*rest, 0, at);
        *rest = str_sub(*rest, at + word.len, rest->len);
        return true;
    }
    *head = *rest;
    *rest = STR("");
    return true;
}

/* What sweep.over varies is another in each trial. */
static bool is_swept(const struct check *c, struct str key)
{
    const struct yaml *item = c->now->sweep.over ? c->now->sweep.over->first : NULL;
    for (; item; item = item->next)
        if (item->first && str_eq(item->first->key, key)) return true;
    return false;
}

static struct str value_of(const struct check *c, const struct option *o, struct arena *perm)
{
    if (str_eq(o->key, STR("data.kind"))) return data_kind(c->os, &c->now->data);
    return option_get_text(o, c->now, perm);
}

/* --- facts: what `needs` may ask for besides settings --- */

static bool is_remote(struct str path) { return address_is_remote(path); }
static bool is_gz(struct str path) { return str_ends(address_path(path), STR(".gz")); }
static bool is_tar(struct str path) { return str_ends(address_path(path), STR(".tar")); }

static bool any_file(const struct check *c, bool (*is)(struct str path))
{
    const struct data_config *d      = &c->now->data;
    const struct str          some[] = { d->path, d->labels, d->eval_path, d->eval_labels };
    bool                      any = is_swept(c, STR("data.path")) || is_swept(c, STR("data.files"));
    for (i64 i = 0; i < COUNT_OF(some); i++) any |= is(some[i]);
    for (i64 i = 0; i < d->file_count; i++) any |= is(d->files[i]);
    return any;
}

/* data.path=shards, a folder of them. */
static bool any_folder_of_shards(const struct check *c, struct arena scratch)
{
    const struct data_config *d = &c->now->data;
    return place_holds_shards(c->os, d->path, scratch) ||
           place_holds_shards(c->os, d->eval_path, scratch);
}

/* Those that train or run; show, plan and doctor only look, at a file that may be meant for any command. */
static bool is_runner(struct str command)
{
    return str_eq(command, STR("train")) || str_eq(command, STR("profile")) ||
           str_eq(command, STR("sweep")) || str_eq(command, STR("tune")) ||
           str_eq(command, STR("run")) || str_eq(command, STR("follow"));
}

/* False: the atom is a setting. */
static bool fact(const struct check *c, struct str atom, bool *holds, struct arena scratch)
{
    if (str_eq(atom, STR("a remote file"))) *holds = any_file(c, is_remote);
    else if (str_eq(atom, STR("a .gz file"))) *holds = any_file(c, is_gz);
    else if (str_eq(atom, STR("a .tar file")))
        *holds = any_file(c, is_tar) || any_folder_of_shards(c, scratch);
    else if (str_starts(atom, STR("frugal ")))
        *holds = !is_runner(c->config->command) ||
                 str_eq(str_sub(atom, STR("frugal ").len, atom.len), c->config->command);
    else return false;
    return true;
}

/* A fact, KEY=a|b, KEY or !KEY. */
static bool holds(const struct check *c, struct str atom, struct arena scratch)
{
    bool is;
    if (fact(c, atom, &is, scratch)) return is;
    bool       without = str_starts(atom, STR("!"));
    struct str words = str_sub(atom, without, atom.len), key = words, word;
    bool       listed = str_find(atom, '=') >= 0;
    if (listed) str_cut(&words, '=', &key);
    const struct option *o = option_find(key);
    ASSERT(o);
    if (is_swept(c, key)) return true;
    if (without) return is_default(c, o, scratch);
    if (!listed)
        return is_given(c, o) || !is_default(c, o, scratch); /* checkpoint.dir= is meant so */
    struct str value = value_of(c, o, &scratch);
    while (str_cut(&words, '|', &word))
        if (str_eq(word, value)) return true;
    return false;
}

/* "with data.kind=idx; it needs data.kind=images", "without checkpoint.dir or checkpoint.to" or
 * "with data.eval_path" */
static struct str why_not(const struct check *c, struct str group, struct arena *perm)
{
    i64 equals = str_find(group, '=');
    if (str_starts(group, STR("!")))
        return str_cat(perm, STR("with "), str_sub(group, 1, group.len));
    if (equals < 0 || strstr(str_z(perm, str_sub(group, 0, equals)), " or "))
        return str_cat(perm, STR("without "), group);
    struct str key = str_sub(group, 0, equals), words = str_sub(group, equals + 1, group.len), word;
    struct str value = value_of(c, option_find(key), perm);
    struct str path = c->now->data.path, by = STR("");
    struct os_stat s;
    bool derived = str_eq(key, STR("data.kind")) && str_eq(c->now->data.kind, STR("auto"));
    if (derived && path.len && !c->os->stat(c->os, path, &s, NULL) && s.is_dir)
        by = str_fmt(perm, " (data.path=%.*s is a folder)", STR_ARG(path));
    struct str text = str_fmt(perm, "with %.*s=%.*s%.*s; it needs %.*s=", STR_ARG(key),
                              STR_ARG(value), STR_ARG(by), STR_ARG(key));
    while (str_cut(&words, '|', &word))
        text = str_fmt(perm, "%.*s%.*s%s", STR_ARG(text), STR_ARG(word),
                       !words.len                 ? ""
                       : str_find(words, '|') < 0 ? " or "
                                                  : ", ");
    return text;
}

/* data.kind=auto takes a path that ends in nothing known for text. Where that is what is wrong, and nothing is there,
 * nobody knows what it is: a folder of pictures, if anything. */
static enum status check_path(const struct check *c, struct str group, struct arena scratch,
                              struct err *err)
{
    const struct data_config *d = &c->now->data;
    bool text = str_starts(group, STR("data.kind=")) && str_eq(data_kind(c->os, d), STR("text")) &&
                str_eq(d->kind, STR("auto"));
    struct os_stat s;
    struct err     why = { 0 };
    if (!text || !d->path.len || is_remote(d->path) || !c->os->stat(c->os, d->path, &s, &why) ||
        why.cause != CAUSE_ABSENT)
        return STATUS_OK;
    return place_absent(c->os, d->path, scratch, err);
}

/* --- sections that a command has no use for --- */

static bool in_section(const struct option *o, const char *names)
{
    struct str all = str_of(names), name, key = o->key, section;
    str_cut(&key, '.', &section);
    while (str_cut(&all, ' ', &name))
        if (str_eq(name, section)) return true;
    return false;
}

/* Somebody else's program is judged and priced; nothing is computed. */
static bool is_used_for_others(const struct option *o)
{
    static const char *const used[] = { "train.target",      "train.target_metric",
                                        "train.patience",    "train.min_improvement",
                                        "train.max_seconds", "train.max_dollars",
                                        "train.forecast",    "train.usd_hour",
                                        "train.steps" };
    for (i64 i = 0; i < COUNT_OF(used); i++)
        if (str_eq(o->key, str_of(used[i]))) return true;
    return !in_section(o, "data loader model train sweep profile");
}

/* A program that reports to us saves its checkpoints itself: the folder only holds what it spent. */
static bool is_of_files(const struct option *o)
{
    return in_section(o, "checkpoint") && !str_eq(o->key, STR("checkpoint.dir"));
}

static enum status check_command(const struct check *c, const struct option *o, struct err *err)
{
    struct str command = c->config->command;
    bool       run = str_eq(command, STR("run")), follow = str_eq(command, STR("follow"));
    bool       program = in_section(o, "program"), files = is_of_files(o);
    bool       used = run || follow ? is_used_for_others(o) : !program;
    if (follow) used &= !program && !files;
    if (!is_runner(command) || used) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%.*s does nothing under frugal %.*s: it is for frugal %s. Leave it out",
                   STR_ARG(o->key), STR_ARG(command), program ? "run" : "train");
}

static enum status check_one(const struct check *c, const struct option *o, struct arena scratch,
                             struct err *err)
{
    struct str needs = o->needs, group, alternative;
    while (cut_word(&needs, STR(" and "), &group)) {
        struct str all = group;
        bool       any = false;
        while (!any && cut_word(&all, STR(" or "), &alternative))
            any = holds(c, alternative, scratch);
        if (any) continue;
        enum status st = check_path(c, group, scratch, err);
        if (st) return st;
        struct str back =
            o->kind == OPTION_TEXT ? o->initial : STR("default"); /* a text may be "default" */
        return err_set(err, STATUS_USAGE,
                       "%.*s does nothing %.*s. Leave it out; %.*s=%.*s resets it", STR_ARG(o->key),
                       STR_ARG(why_not(c, group, &scratch)), STR_ARG(o->key), STR_ARG(back));
    }
    return STATUS_OK;
}

/* With the place where option i was given. */
static enum status wrong_at(const struct config *config, i64 i, const struct err *why,
                            struct arena scratch, struct err *err)
{
    struct str place = STR("command line");
    if (config->origin[i].kind == ORIGIN_FILE) place = config->file;
    if (config->origin[i].kind == ORIGIN_ENVIRONMENT)
        place = option_environment(&options[i], &scratch);
    return config_at(err, place, config->origin[i].line, why);
}

enum status config_check_needs(const struct config *config, struct os *os, struct arena scratch,
                               struct err *err)
{
    struct check c = { os, config, &config->settings, &config_new(&scratch)->settings };
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct err why;
        bool       text        = options[i].kind == OPTION_TEXT; /* whose default takes it back */
        bool       environment = config->origin[i].kind == ORIGIN_ENVIRONMENT;
        if (!is_given(&c, &options[i]) || (text && is_default(&c, &options[i], scratch))) continue;
        if (environment &&
            (in_section(&options[i], "spot profile") || check_command(&c, &options[i], NULL)))
            continue;
        enum status st = check_command(&c, &options[i], &why);
        if (!st) st = check_one(&c, &options[i], scratch, &why);
        i64 wrong = st == STATUS_WORLD ? option_find(STR("data.path")) - options : i;
        if (st) return wrong_at(config, wrong, &why, scratch, err);
    }
    return STATUS_OK;
}
