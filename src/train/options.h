/* options.h - the table of settings (options.def) as data: finding, reading and printing one.
 *
 * From this one table come the reader of run.yaml, the overrides on the command line, the names in
 * the environment, help, manual page, completions and docs/formats/run_yaml.md. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H
#include "base/err.h"
#include "base/yaml.h"
#include "train/settings.h"

enum option_kind {
    OPTION_INT,
    OPTION_FLOAT,
    OPTION_BOOL,
    OPTION_TEXT,
    OPTION_CHOICE,
    OPTION_DTYPE,
    OPTION_INTS,
    OPTION_TEXTS,
    OPTION_TREE,
};

/* What another value means when a checkpoint is resumed; options.def says more. */
enum option_resume {
    RESUME_FREE,
    RESUME_END,
    RESUME_LENGTH,
    RESUME_EVALS,
    RESUME_COURSE,
    RESUME_EQUAL
};

struct option {
    struct str         key; /* "train.batch" */
    enum option_kind   kind;
    size_t             offset;                    /* of the field in struct settings */
    size_t             count_offset;              /* lists: of the field that counts */
    i64                count_max;                 /* lists */
    struct str         initial, allowed, example; /* as options.def says */
    enum option_resume resume;
    struct str         needs, help, more;
};

enum {
    OPTION_COUNT = 0
#define SCALAR(...) +1
#define LIST(...) +1
#include "train/options.def"
};

extern const struct option options[OPTION_COUNT];

struct interval {
    f64  low, high;
    bool low_open, high_open;
};

const struct option *option_find(struct str key);                          /* NULL: none */
const struct option *option_nearest(struct str key, struct arena scratch); /* NULL: none near */
bool                 option_is_gone(struct str key); /* was it one once? (gone.def) */
/* Why there is no such key: it is gone, or misspelt. Always USAGE. */
enum status option_unknown(struct str key, struct arena scratch, struct err *err);
struct str  option_section(const struct option *o);   /* "train" */
struct str  option_name(const struct option *o);      /* "batch" */
struct str  option_zero_word(const struct option *o); /* a word for 0; empty: none */
bool        option_is_list(const struct option *o);
bool        option_is_number(const struct option *o);                       /* or a list of them */
struct str  option_environment(const struct option *o, struct arena *perm); /* FRUGAL_TRAIN_BATCH */
struct str
option_resume_text(const struct option *o); /* "must be equal": what a change means on resume */
struct str option_expects(const struct option *o, struct arena *perm);    /* "true or false" */
struct str option_needs_text(const struct option *o, struct arena *perm); /* as people read it */
bool       interval_parse(struct str text, struct interval *out);
bool       interval_has(struct interval i, f64 value);

/* Sets the field from a node of YAML. The sentence of a failure ("train.batch is many; expected a
 * whole number of at least 1, like 64") has no place in it: the caller knows that. */
enum status option_set(const struct option *o, struct settings *s, const struct yaml *value,
                       struct arena *perm, struct err *err);
/* The same from text: lists and trees as YAML in brackets, or a bare list "a, b". */
enum status option_set_text(const struct option *o, struct settings *s, struct str text,
                            struct arena *perm, struct err *err);
/* The value as a user would write it; option_set_text reads it back. */
struct str option_get_text(const struct option *o, const struct settings *s, struct arena *perm);
/* The same for people and for the ledger: without passwords and tokens in addresses. */
struct str option_shown_text(const struct option *o, const struct settings *s, struct arena *perm);

#endif
