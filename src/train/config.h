/* config.h - the settings of a run from their sources, and where each came from. Commands read theirs here; sweeps,
 * tuning and experiments change them by the same words.
 *
 * Later sources win: default < recipe < run.yaml < environment < command line. */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H
#include "base/os.h"
#include "train/options.h"

enum origin_kind {
    ORIGIN_DEFAULT,
    ORIGIN_RECIPE,
    ORIGIN_FILE,
    ORIGIN_ENVIRONMENT,
    ORIGIN_COMMAND_LINE
};

struct origin {
    enum origin_kind kind;
    i32              line; /* of the run file */
};

struct config {
    struct settings settings;
    struct origin   origin[OPTION_COUNT];
    struct str      file;    /* the run file's name */
    bool            empty;   /* it has no settings */
    struct str      command; /* that reads it; empty: none */
};

/* All sources; an empty `file`: there is none. Errors begin with the place: "run.yaml:4: ", "FRUGAL_TRAIN_LR: ". */
enum status config_read(struct os *os, struct arena *perm, struct str command, struct str file,
                        const struct str *overrides, i64 override_count, struct config **out,
                        struct err *err);

/* The parts, for tests: each source changes what the ones before it have set. */
struct config *config_new(struct arena *perm); /* defaults */
enum status config_add_file(struct config *c, struct arena *perm, struct str file, struct str text,
                            struct err *err);
enum status config_add_environment(struct config *c, struct os *os, struct arena *perm,
                                   struct err *err);
enum status config_add_override(struct config *c, struct arena *perm, struct str key_value,
                                struct err *err);
/* Last: what train.recipe says of settings that are still at their default. */
enum status config_add_recipe(struct config *c, struct arena *perm, struct err *err);

/* train.out=auto becomes the name of the run's weights, where the command trains or uses one; else, and by none,
 * empty. */
void config_resolve_out(struct config *c, struct arena *perm);
struct str
config_run_name(const struct config *c); /* run.name, or the run file's without folder and ending */

/* After that: a setting that was given and would be ignored is an error (the column `needs` of options.def). */
enum status config_check_needs(const struct config *c, struct os *os, struct arena scratch,
                               struct err *err);

/* One sentence behind its place: "run.yaml:4: …"; line 0: there is none. */
enum status config_at(struct err *err, struct str place, i32 line, const struct err *what);

/* "default", "recipe modern", "run.yaml:12", "environment FRUGAL_TRAIN_LR" or "command line". */
struct str config_origin_text(const struct config *c, const struct option *o, struct arena *perm);
/* Settings that are not the default, KEY=VALUE a line, as the ledger keeps them. */
struct str settings_changed(const struct config *config, struct arena *perm);
/* Of each of these lines, where it came from, as config_origin_text says it. */
struct str settings_origins(const struct config *config, struct arena *perm);

#endif
