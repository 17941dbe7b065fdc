/* show_logits.c - what a model says before any softmax, for tests/oracle against transformers: a line a row of logits.
 *
 *     show_logits next KEY=VALUE...     of each token of each line of standard input, token numbers
 *     show_logits cached KEY=VALUE...   the same with keys and values of the tokens before in a cache
 *     show_logits classes KEY=VALUE...  of each held-out sample of the settings' data */
#include "train/config.h"
#include "train/use_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 4096 };

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "show_logits: %s\n", err->text);
    exit((int)st);
}

static void print_row(const f64 *x, i64 count)
{
    for (i64 i = 0; i < count; i++) printf("%s%.9g", i ? " " : "", x[i]);
    printf("\n");
}

static enum status print_batch(void *context, struct session *s, const struct batch *b,
                               struct err *err)
{
    struct arena scratch = s->scratch;
    i64          classes = shape_last(program_set_find(s->set, STR("logits"))->type.shape);
    f64         *x       = NEW(&scratch, f64, b->count * classes);
    (void)context, (void)err;
    session_get_numbers(s, STR("logits"), x, b->count * classes);
    for (i64 i = 0; i < b->count; i++) print_row(x + i * classes, classes);
    return STATUS_OK;
}

static void show_classes(const struct settings *settings)
{
    struct err  err = { 0 };
    struct use *u;
    check(use_open(os_real(), settings, USE_PREDICT, &u, &err), &err);
    check(evaluate_batches(&u->s, print_batch, NULL, &err), &err);
    use_close(u);
}

static i64 read_tokens(const char *line, i32 *to)
{
    char *end;
    i64   count = 0;
    for (long token = strtol(line, &end, 10); end != line && count < TOKENS_MAX;
         token      = strtol(line, &end, 10)) {
        to[count++] = (i32)token;
        line        = end;
    }
    return count;
}

static void show_next(const struct settings *settings, enum use_cache cache, struct arena perm)
{
    static char            line[1 << 16];
    struct use_next_config how    = { .sequences = 1, .cache = cache };
    i32                   *tokens = NEW(&perm, i32, TOKENS_MAX);
    struct err             err    = { 0 };
    struct use            *u;
    check(use_open_next(os_real(), settings, &how, &u, &err), &err);
    f64 *logits = NEW(&perm, f64, use_vocabulary(u));
    while (fgets(line, sizeof line, stdin)) {
        i64 count = read_tokens(line, tokens);
        use_forget(u, 0);
        for (i64 i = 1; i <= count; i++) {
            struct use_text text = { tokens, i };
            use_next(u, &text, logits);
            print_row(logits, use_vocabulary(u));
        }
    }
    use_close(u);
}

int main(int argc, char **argv)
{
    struct arena   perm   = arena_open((i64)1 << 36);
    struct config *config = config_new(&perm);
    struct err     err    = { 0 };
    struct str     what   = str_of(argc > 1 ? argv[1] : "");
    for (int i = 2; i < argc; i++)
        check(config_add_override(config, &perm, str_of(argv[i]), &err), &err);
    if (str_eq(what, STR("classes"))) show_classes(&config->settings);
    else if (str_eq(what, STR("next"))) show_next(&config->settings, USE_CACHE_OFF, perm);
    else if (str_eq(what, STR("cached"))) show_next(&config->settings, USE_CACHE_ON, perm);
    else return STATUS_USAGE;
    return STATUS_OK;
}
