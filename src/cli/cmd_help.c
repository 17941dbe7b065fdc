/* cmd_help.c - frugal help, frugal version. */
#include "cli/help.h"

enum status command_help(struct cli *c, struct err *err);
enum status command_version(struct cli *c, struct err *err);

/* The known word nearest to one that nothing goes by. */
static enum status unknown_topic(struct str word, struct arena scratch, struct err *err)
{
    struct str best   = { 0 };
    i64        best_d = 1 + word.len / 3;
    if (option_is_gone(word)) return option_unknown(word, scratch, err);
    if (str_distance(STR("options"), str_sub(word, 0, 64), scratch) <= 2) best = STR("options");
    for (i64 i = 0; i < topic_count + COMMAND_COUNT && word.len < 64; i++) {
        struct str name = i < topic_count ? topics[i].name : commands[i - topic_count].name;
        i64        d    = str_distance(name, word, scratch);
        if (d < best_d) {
            best   = name;
            best_d = d;
        }
    }
    const struct option *near = option_nearest(word, scratch);
    if (!best.data && near) best = near->key;
    if (best.data)
        return err_set(err, STATUS_USAGE, "there is no help on %.*s; did you mean %.*s?",
                       (int)MIN(word.len, 80), word.data, STR_ARG(best));
    return err_set(err, STATUS_USAGE, "there is no help on %.*s; `frugal help` lists the topics",
                   (int)MIN(word.len, 80), word.data);
}

enum status command_help(struct cli *c, struct err *err)
{
    const struct request *r       = c->request;
    i64                   columns = say_columns(c->say, HELP_COLUMNS);
    struct str            text;
    if (r->argument_count > 1)
        return err_set(err, STATUS_USAGE, "frugal help takes one topic at a time");
    if (r->given[FLAG_man]) {
        text = help_man(c->perm);
    } else if (r->given[FLAG_completions]) {
        struct str shell = r->value[FLAG_completions];
        text             = help_completions(c->perm, shell);
        if (!text.len)
            return err_set(err, STATUS_USAGE, "no completions for %.*s; there are bash, zsh, fish",
                           (int)MIN(shell.len, 80), shell.data);
    } else if (r->argument_count) {
        text = help_word(c->perm, r->arguments[0], columns);
        if (!text.len) return unknown_topic(r->arguments[0], *c->perm, err);
    } else {
        text = help_overview(c->perm, columns);
    }
    if (r->given[FLAG_man] || r->given[FLAG_completions]) say_text(c->say, text);
    else say_wrapped(c->say, text);
    return STATUS_OK;
}

enum status command_version(struct cli *c, struct err *err)
{
    if (c->request->argument_count)
        return err_set(err, STATUS_USAGE, "frugal version takes no argument");
    if (c->say->json) {
        struct textbuf b = event_begin(c->perm, "version");
        event_str(&b, "version", STR(FRUGAL_VERSION));
        event_end(&b, c->say);
    } else {
        say_result(c->say, "frugal %s\n", FRUGAL_VERSION);
    }
    return STATUS_OK;
}
