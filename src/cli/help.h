/* help.h - every text about how to use frugal, made from the tables: options.def, commands.def,
 * topics.def and model/layers.def. Nothing here is written twice. */
#ifndef CLI_HELP_H
#define CLI_HELP_H
#include "cli/commands.h"
#include "train/options.h"

struct topic {
    struct str name;  /* "exit-codes" */
    struct str title; /* "EXIT STATUS": its section in the manual */
    struct str help;  /* one line */
    struct str text;  /* paragraphs; lines that begin with a blank stay as they are */
};

extern const struct topic topics[];
extern const i64          topic_count;

/* Filled to so many columns: 80 in a file or a pipe, fewer where the terminal has fewer. Lines of lists, tables and
 * commands may be wider; say_wrapped breaks them. */
enum { HELP_COLUMNS = 80 };
struct str help_overview(struct arena *perm, i64 columns);
struct str help_command(struct arena *perm, const struct command *c, i64 columns);
/* What --help prints: that, and where a topic of the same name is. */
struct str help_flag(struct arena *perm, const struct command *c, i64 columns);
/* Everything that goes by that name: command, setting, section, topic. Empty: nothing does. */
struct str help_word(struct arena *perm, struct str word, i64 columns);
struct str help_man(struct arena *perm);                           /* roff */
struct str help_completions(struct arena *perm, struct str shell); /* empty: no such shell */

/* completion_names.c: names that go with a flag or a command, between blanks. */
enum completion {
    COMPLETE_MODELS,
    COMPLETE_MACHINES,
    COMPLETE_CLOUD_MACHINES, /* aws/p5.48xlarge */
    COMPLETE_CLOUDS,
    COMPLETE_REGIONS,
    COMPLETE_GPUS
};
void completion_names(struct textbuf *b, enum completion what);

/* A topic's text with what the tables add to it: the list of layers, of settings, … */
struct str help_topic_text(struct arena *perm, const struct topic *t);
void       claims_add(struct textbuf *b, struct arena scratch); /* claims_show.c */

#endif
