/* cmd_tokenize.c - frugal tokenize: text to tokens, and a vocabulary from text. */
#include "base/pool.h"
#include "cli/commands.h"
#include "data/bpe_train.h"
#include "data/texts.h"

enum status command_tokenize(struct cli *c, struct err *err);

enum { BAR_COLUMNS = 20 };
static const i64 train_bytes = (i64)64 << 30, encode_bytes = (i64)8 << 30; /* address space */
static const f64 live_every_s = 0.1, plain_every_s = 5.0, json_every_s = 1.0;

struct show { /* how far it is */
    struct cli *cli;
    i64         begin_ns;
    f64         next_s;
};

static f64 elapsed_s(const struct show *s)
{
    return 1e-9 * (f64)(clock_now(s->cli->clock) - s->begin_ns);
}

static struct str progress_words(struct arena *perm, const struct tokenize_progress *p, f64 seconds)
{
    char bar[BAR_COLUMNS + 1] = { 0 };
    i64  all = MAX(p->bytes_all, MAX(p->bytes, 1)); /* a .gz holds more than it is long */
    if (p->tokens_all && p->tokens)
        return str_fmt(perm, "learning  %.*s of %.*s tokens",
                       STR_ARG(text_count(perm, (f64)p->tokens)),
                       STR_ARG(text_count(perm, (f64)p->tokens_all)));
    f64 rate = seconds > 0 ? (f64)p->bytes / seconds : 0;
    for (i64 i = 0; i < BAR_COLUMNS; i++)
        bar[i] = (i + 1) * all <= p->bytes * BAR_COLUMNS ? '#' : '-';
    struct str made = p->tokens_all
                          ? STR("counting words")
                          : str_cat(perm, text_count(perm, (f64)p->tokens), STR(" tokens"));
    return str_fmt(perm, "[%s] %.*s of %.*s  %.*s  %.*s/s  ETA %.*s", bar,
                   STR_ARG(text_bytes(perm, (f64)p->bytes)), STR_ARG(text_bytes(perm, (f64)all)),
                   STR_ARG(made), STR_ARG(text_bytes(perm, rate)),
                   STR_ARG(text_clock(perm, rate > 0 ? (f64)(all - p->bytes) / rate : -1)));
}

static bool on_progress(void *context, const struct tokenize_progress *p)
{
    struct show *s = context;
    struct cli  *c = s->cli;
    u8           room[4096]; /* c->perm is the caller's meanwhile */
    struct arena scratch = { room, room + sizeof room, NULL };
    f64          now_s   = elapsed_s(s);
    if (now_s >= s->next_s && c->say->json) {
        struct textbuf b = event_begin(&scratch, "tokenizing");
        event_i64(&b, "bytes", p->bytes);
        event_i64(&b, "bytes_all", p->bytes_all);
        event_i64(&b, "tokens", p->tokens);
        event_f64(&b, "elapsed_s", now_s);
        event_end(&b, c->say);
        s->next_s = now_s + json_every_s;
    } else if (now_s >= s->next_s) {
        struct str line = progress_words(&scratch, p, now_s);
        if (c->say->live) say_live(c->say, line);
        else say_message(c->say, "%.*s\n", STR_ARG(line));
        s->next_s = now_s + (c->say->live ? live_every_s : plain_every_s);
    }
    return c->os->signal_take(c->os) == OS_SIGNAL_NONE;
}

static void show_result(struct cli *c, const struct tokenize_result *r, const struct bpe *b,
                        f64 seconds)
{
    struct arena scratch = *c->perm;
    struct str   out     = c->request->value[FLAG_out];
    i64          tokens  = r->tokens - r->tokens_before;
    if (c->say->json) {
        struct textbuf e = event_begin(&scratch, "tokenized");
        event_str(&e, "out", out);
        event_i64(&e, "tokens", r->tokens);
        event_i64(&e, "tokens_before", r->tokens_before);
        event_i64(&e, "documents", r->documents);
        event_i64(&e, "bytes", r->bytes);
        event_i64(&e, "bytes_kept", r->bytes_kept);
        event_i64(&e, "not_utf8", r->bad);
        event_str(&e, "token_type", r->type);
        event_i64(&e, "vocabulary", b->vocabulary);
        event_str(&e, "tokenizer", b->hash);
        event_bool(&e, "was_done", r->was_done);
        event_f64(&e, "elapsed_s", seconds);
        event_end(&e, c->say);
        return;
    }
    if (r->bad)
        say_message(c->say, "warning: %lld places are not UTF-8; each was replaced by U+FFFD\n",
                    (long long)r->bad);
    if (r->was_done)
        say_message(c->say, "an earlier run of this command had already done all of this\n");
    if (r->bytes_kept)
        say_message(c->say, "%.*s were done by a run that was killed\n",
                    STR_ARG(text_bytes(&scratch, (f64)r->bytes_kept)));
    say_result(c->say, "%.*s  %.*s tokens", STR_ARG(out),
               STR_ARG(text_count(&scratch, (f64)r->tokens)));
    if (r->tokens_before)
        say_result(c->say, ", %.*s of them new", STR_ARG(text_count(&scratch, (f64)tokens)));
    if (tokens && r->bytes)
        say_result(c->say, ", %.2f bytes each, %.*s/s", (f64)r->bytes / (f64)tokens,
                   STR_ARG(text_bytes(&scratch, (f64)(r->bytes - r->bytes_kept) / seconds)));
    say_result(c->say,
               "\n  train on it with data.kind=tokens data.path=%.*s data.token_type=%.*s "
               "data.vocabulary=%lld\n",
               STR_ARG(out), STR_ARG(r->type), (long long)b->vocabulary);
}

static enum status pick_separator(struct cli *c, const struct bpe *b,
                                  struct tokenize_config *config, struct err *err)
{
    struct str name = c->request->value[FLAG_separator];
    bool       said = c->request->given[FLAG_separator];
    if (said && str_eq(name, STR("none"))) return STATUS_OK;
    config->has_separator =
        bpe_find_added(b, said ? name : STR("<|endoftext|>"), &config->separator);
    if (!said || config->has_separator) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "--separator %.*s is not one of the vocabulary's added tokens",
                   (int)MIN(name.len, 80), name.data);
}

static enum status count_flag(const struct request *r, i64 flag, i64 max, i64 *out, struct err *err)
{
    struct str text = r->value[flag];
    if (str_i64(text, out) && *out >= 1 && *out <= max) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s takes a whole number from 1 to %lld, not %.*s",
                   STR_ARG(flags[flag].name), (long long)max, (int)MIN(text.len, 40), text.data);
}

static enum status train(struct cli *c, const struct texts *texts, i32 threads,
                         struct arena *memory, struct err *err)
{
    const struct request   *r      = c->request;
    struct str              folder = r->value[FLAG_tokenizer];
    struct str              named  = r->value[FLAG_separator];
    struct bpe_learned      learned;
    struct show             show   = { .cli = c, .begin_ns = clock_now(c->clock) };
    struct bpe_train_config config = {
        .paths      = texts->paths,
        .path_count = texts->count,
        .folder     = folder,
        .special    = r->given[FLAG_separator] ? named : STR("<|endoftext|>"),
        .threads    = threads,
        .listener   = { &show, on_progress },
    };
    struct arena scratch = *c->perm;
    if (str_eq(config.special, STR("none"))) config.special = STR("");
    if (bpe_is_in(c->os, folder, scratch))
        return err_set(err, STATUS_USAGE,
                       "%.*s holds a tokenizer already; --train needs another folder",
                       STR_ARG(folder));
    enum status st = count_flag(r, FLAG_train, 1 << 24, &config.vocabulary, err);
    if (!st) st = bpe_train(c->os, &config, memory, &learned, err);
    if (!st) st = bpe_write(c->os, folder, &learned, config.special, *memory, err);
    if (st) return st;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "trained");
        event_str(&b, "tokenizer", folder);
        event_i64(&b, "vocabulary", learned.token_count);
        event_i64(&b, "merges", learned.merge_count);
        event_f64(&b, "elapsed_s", elapsed_s(&show));
        event_end(&b, c->say);
        return STATUS_OK;
    }
    say_result(c->say, "%.*s  %.*s tokens in %.*s\n", STR_ARG(folder),
               STR_ARG(text_count(&scratch, (f64)learned.token_count)),
               STR_ARG(text_clock(&scratch, elapsed_s(&show))));
    if (learned.token_count < config.vocabulary)
        say_message(c->say, "the text has no more pairs to merge\n");
    return STATUS_OK;
}

static enum status tokenize(struct cli *c, const struct texts *texts, i32 threads,
                            struct arena *memory, struct err *err)
{
    const struct request  *r = c->request;
    struct bpe            *b;
    struct tokenize_result result;
    struct show            show   = { .cli = c, .begin_ns = clock_now(c->clock) };
    struct tokenize_config config = {
        .paths      = texts->paths,
        .path_count = texts->count,
        .out        = r->value[FLAG_out],
        .append     = r->given[FLAG_append],
        .threads    = threads,
        .listener   = { &show, on_progress },
    };
    enum status st = bpe_open(c->os, r->value[FLAG_tokenizer], memory, &b, err);
    if (!st) st = pick_separator(c, b, &config, err);
    if (!st) st = tokenize_files(c->os, b, &config, &result, err);
    if (!st) show_result(c, &result, b, elapsed_s(&show));
    return st;
}

enum status command_tokenize(struct cli *c, struct err *err)
{
    const struct request *r       = c->request;
    i64                   threads = pool_machine_threads();
    bool                  trains = r->given[FLAG_train], encodes = r->value[FLAG_out].len;
    enum status           st = STATUS_OK;
    if (!r->argument_count)
        return err_set(err, STATUS_USAGE, "no text given; see `frugal help tokenize`");
    if (!r->value[FLAG_tokenizer].len || !(trains || encodes))
        return err_set(err, STATUS_USAGE,
                       "expected --tokenizer, and --out or --train; see `frugal help tokenize`");
    if (r->given[FLAG_threads]) st = count_flag(r, FLAG_threads, 1024, &threads, err);
    if (st) return st;
    struct arena memory = arena_open(trains ? train_bytes : encode_bytes);
    if (!memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct texts texts;
    st = texts_find(c->os, r->arguments, r->argument_count, &memory, &texts, err);
    os_signals_catch();
    if (!st && trains) st = train(c, &texts, (i32)threads, &memory, err);
    if (!st && encodes) st = tokenize(c, &texts, (i32)threads, &memory, err);
    arena_close(&memory);
    return st;
}
