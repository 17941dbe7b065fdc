/* cmd_generate.c - frugal generate MODEL TEXT: what a trained model writes after a text. */
#include "cli/jobs.h"
#include "data/tokenize.h"
#include "infer/generate.h"

enum status command_generate(struct cli *c, struct err *err);

enum { TEXT_GIB = 4 }; /* address space for tokenizer, text and tokens */

struct shown {
    struct cli    *cli;
    struct textbuf text;    /* all that was generated */
    i64            printed; /* bytes of it */
};

/* What may be printed: whole characters, as a token may end inside one. */
static i64 whole_end(struct str text, i64 from)
{
    i64 end = from, next;
    while (end < text.len && (next = str_utf8_end(text, end)) > 0) end = next;
    return text.len - end >= 4 ? text.len : end; /* not UTF-8 at all */
}

static void print_to(struct shown *s, i64 end)
{
    struct arena scratch = *s->cli->perm;
    struct str   text    = str_sub(textbuf_str(&s->text), s->printed, end);
    s->printed           = end;
    if (s->cli->say->json || !text.len) return;
    say_text(s->cli->say, s->cli->say->bold ? str_printable_lines(&scratch, text) : text);
    fflush(s->cli->say->results);
}

static bool on_token(void *context, i64 token, struct str bytes)
{
    struct shown *s = context;
    (void)token;
    textbuf_add(&s->text, bytes);
    print_to(s, whole_end(textbuf_str(&s->text), s->printed));
    return s->cli->os->signal_take(s->cli->os) == OS_SIGNAL_NONE;
}

static enum status number_flag(const struct request *r, i64 flag, f64 least, f64 most, f64 usual,
                               f64 *out, struct err *err)
{
    struct str text = r->value[flag];
    *out            = usual;
    if (!text.len || (str_f64(text, out) && *out >= least && *out <= most)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s takes a number from %g to %g, not %.*s",
                   STR_ARG(flags[flag].name), least, most, (int)MIN(text.len, 40), text.data);
}

static enum status read_flags(const struct request *r, struct generating *g, struct err *err)
{
    f64         count, top_k, seed;
    enum status st = number_flag(r, FLAG_count, 1, 1e9, 100, &count, err);
    if (!st) st = number_flag(r, FLAG_temperature, 0, 1e3, 1, &g->sampling.temperature, err);
    if (!st) st = number_flag(r, FLAG_top_k, 0, 1e9, 0, &top_k, err);
    if (!st) st = number_flag(r, FLAG_top_p, 0, 1, 1, &g->sampling.top_p, err);
    if (!st) st = number_flag(r, FLAG_seed, 0, 0x1p53, 1, &seed, err);
    if (st) return st;
    g->tokens_max     = (i64)count;
    g->sampling.top_k = (i64)top_k;
    g->sampling.seed  = (u64)seed;
    return STATUS_OK;
}

/* --tokenizer, or the one in the model's folder; bytes where the model was trained on them. */
static enum status tokenizer_of(struct cli *c, const struct settings *s, struct str *path,
                                struct err *err)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json" };
    *path                            = c->request->value[FLAG_tokenizer];
    if (path->len || str_eq(data_kind(c->os, &s->data), STR("text"))) return STATUS_OK;
    for (i64 i = 0; s->model.path.len && i < COUNT_OF(names); i++) {
        struct str file = str_fmt(c->perm, "%.*s/%s", STR_ARG(s->model.path), names[i]);
        if (os_is_file(c->os, file)) return *path = s->model.path, STATUS_OK;
    }
    return err_set(
        err, STATUS_USAGE,
        "which tokenizer? Give --tokenizer, the folder or file that the text was tokenized with");
}

static void show_end(struct cli *c, const struct shown *s, struct str prompt, i64 tokens,
                     enum generated how)
{
    struct arena   scratch = *c->perm;
    struct textbuf b;
    if (!c->say->json) {
        say_result(c->say, "\n");
        if (how == GENERATED_FULL)
            say_message(c->say, "the text ends here: the model reads no more tokens\n");
        return;
    }
    b = event_begin(&scratch, "generated");
    event_str(&b, "prompt", prompt);
    event_str(&b, "text", textbuf_str(&s->text));
    event_i64(&b, "tokens", tokens);
    event_str(&b, "ended",
              how == GENERATED_END    ? STR("end")
              : how == GENERATED_FULL ? STR("full")
                                      : STR("count"));
    event_end(&b, c->say);
}

static enum status write_on(struct cli *c, struct generating *g, struct str prompt,
                            struct arena *memory, struct err *err)
{
    struct shown shown = { .cli = c };
    i32         *tokens =
        NEW(memory, i32, MAX(tokens_max(prompt.len) + BPE_AROUND_MAX, use_length(g->use)));
    i64          count;
    struct arena text = arena_part(memory, 1 << 28);
    if (!prompt.len)
        return err_set(err, STATUS_USAGE, "the text is empty: give at least one character");
    enum status st =
        words_encode(&g->words, prompt, use_vocabulary(g->use), tokens, &count, *memory, err);
    if (!st && count > use_length(g->use))
        st =
            err_set(err, STATUS_USAGE, "the text has %lld tokens, and the model reads at most %lld",
                    (long long)count, (long long)use_length(g->use));
    if (st) return st;
    i64 before  = count;
    shown.text  = textbuf_new(&text);
    g->on_token = on_token;
    g->context  = &shown;
    if (!c->say->json) say_text(c->say, prompt);
    enum generated how = generate(g, tokens, &count, 0, *memory);
    print_to(&shown, shown.text.len);
    show_end(c, &shown, prompt, count - before, how);
    return STATUS_OK;
}

enum status command_generate(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct generating     g = { 0 };
    struct config        *config;
    struct str            tokenizer;
    if (r->argument_count < 2)
        return err_set(err, STATUS_USAGE,
                       "expected a model and a text: frugal generate MODEL \"Once upon a time\"");
    enum status st = read_flags(r, &g, err);
    if (!st) st = model_of_request(c, 2, &config, err);
    if (st) return st;
    struct arena memory = arena_open((i64)TEXT_GIB << 30);
    if (!memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    os_signals_catch();
    st = use_open_next(c->os, &config->settings, r->arguments[1].len + g.tokens_max, &g.use, err);
    if (!st) st = tokenizer_of(c, &config->settings, &tokenizer, err);
    if (!st) st = words_open(&g.words, c->os, tokenizer, &memory, err);
    if (!st) st = write_on(c, &g, r->arguments[1], &memory, err);
    use_close(g.use);
    arena_close(&memory);
    return st;
}
