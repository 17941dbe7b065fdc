/* cmd_generate.c - frugal generate MODEL TEXT: what a trained model writes after a text. */
#include "base/json.h"
#include "cli/jobs.h"
#include "data/tokenize.h"
#include "infer/generate.h"
#include "run/clock.h"
#include <math.h>

enum status command_generate(struct cli *c, struct err *err);

enum { COUNT_MAX = 1000000000 }; /* of --count and --top_k */
enum { TEXT_GIB = 64 };          /* address space for tokenizer, texts and tokens */
enum {
    AT_ONCE = 16
}; /* texts: a product of so many rows takes little longer than one of one row */

struct prompts { /* one a line, or the one of the command line */
    struct str *texts;
    i64         count;
};

/* Texts are continued several at a time and shown one after the other: the first that is not complete as it grows. */
struct shown {
    struct cli              *cli;
    const struct words      *words;
    const struct prompts    *prompts;
    const struct generation *all;
    const i64               *begin;   /* tokens of each prompt */
    bool                    *ended;   /* each text */
    i64                      current; /* the text that is shown */
    enum os_signal           signal;  /* that stopped it */
    i64                      context; /* tokens that the model reads at most */
    struct stopwatch         watch;
    f64           *first_s; /* of each text: when its first new token came; NaN: not yet */
    struct arena   memory, own;
    struct textbuf text;    /* what was generated of it */
    i64            printed; /* bytes of that */
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

static void show_end(struct shown *s, enum generated how);

/* The text that is shown from now on, with what there is of it. */
static void show_begin(struct shown *s)
{
    const struct generation *g = &s->all[s->current];
    s->own                     = s->memory;
    s->text                    = textbuf_new(&s->own);
    s->printed                 = 0;
    if (!s->cli->say->json) say_text(s->cli->say, s->prompts->texts[s->current]);
    for (i64 i = s->begin[s->current]; i < g->count; i++) {
        struct arena scratch = *s->cli->perm;
        textbuf_add(&s->text, words_of(s->words, g->tokens[i], &scratch));
    }
    print_to(s, whole_end(textbuf_str(&s->text), s->printed));
}

static bool on_token(void *context, i64 index, i64 token, struct str bytes)
{
    struct shown *s = context;
    (void)token;
    if (isnan(s->first_s[index])) s->first_s[index] = stopwatch_s(&s->watch);
    if (index == s->current) {
        textbuf_add(&s->text, bytes);
        print_to(s, whole_end(textbuf_str(&s->text), s->printed));
    }
    s->signal = s->cli->os->signal_take(s->cli->os);
    return s->signal == OS_SIGNAL_NONE;
}

static void on_end(void *context, i64 index, enum generated how)
{
    struct shown *s = context;
    s->ended[index] = true;
    while (s->current < s->prompts->count && s->ended[s->current]) {
        print_to(s, s->text.len);
        show_end(s, s->current == index ? how : s->all[s->current].how);
        if (++s->current < s->prompts->count) show_begin(s);
    }
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

/* As it is meant: 2.5 tokens are a mistake, not two. */
static enum status whole_flag(const struct request *r, i64 flag, i64 least, i64 most, i64 usual,
                              i64 *out, struct err *err)
{
    struct str text = r->value[flag];
    *out            = usual;
    if (!text.len || (str_i64(text, out) && *out >= least && *out <= most)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s takes a whole number from %lld to %lld, not %.*s",
                   STR_ARG(flags[flag].name), (long long)least, (long long)most,
                   (int)MIN(text.len, 40), text.data);
}

static enum status read_flags(const struct request *r, struct generating *g, struct err *err)
{
    i64         seed = 1;
    enum status st   = whole_flag(r, FLAG_count, 1, COUNT_MAX, 100, &g->tokens_max, err);
    if (!st) st = number_flag(r, FLAG_temperature, 0, 1e3, 1, &g->sampling.temperature, err);
    if (!st) st = whole_flag(r, FLAG_top_k, 0, COUNT_MAX, 0, &g->sampling.top_k, err);
    if (!st) st = number_flag(r, FLAG_top_p, 0, 1, 1, &g->sampling.top_p, err);
    if (!st) st = whole_flag(r, FLAG_seed, 0, INT64_MAX, 1, &seed, err);
    g->sampling.seed = (u64)seed;
    return st;
}

/* --tokenizer, or the one in the model's folder, of adapters also that of their model; bytes where the model was
 * trained on them, and in a folder that says nothing of its text where the tokens are as many as bytes. */
static enum status tokenizer_of(struct cli *c, const struct settings *s, i64 vocabulary,
                                struct str *path, struct err *err)
{
    struct settings whole = *s;
    *path                 = c->request->value[FLAG_tokenizer];
    if (path->len || words_find(c->os, s, c->perm, path)) return STATUS_OK;
    enum status st = use_settings(c->os, &whole, c->perm, err);
    if (st || words_find(c->os, &whole, c->perm, path)) return st;
    if (!s->data.path.len && vocabulary == WORDS_BYTES) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "which tokenizer? Give --tokenizer, the folder or file that the text was tokenized with");
}

static void show_end(struct shown *s, enum generated how)
{
    struct cli    *c       = s->cli;
    struct arena   scratch = *c->perm;
    struct textbuf b;
    if (!c->say->json) {
        say_result(c->say, "\n");
        if (how == GENERATED_FULL)
            say_message(
                c->say,
                "stopped after %lld new tokens: the model's context of %lld tokens is full\n",
                (long long)(s->all[s->current].count - s->begin[s->current]),
                (long long)s->context);
        return;
    }
    b = event_begin(&scratch, "generated");
    event_str(&b, "prompt", s->prompts->texts[s->current]);
    event_str(&b, "text", textbuf_str(&s->text));
    event_i64(&b, "tokens", s->all[s->current].count - s->begin[s->current]);
    event_str(&b, "ended",
              how == GENERATED_END       ? STR("end")
              : how == GENERATED_FULL    ? STR("full")
              : how == GENERATED_STOPPED ? STR("stopped")
                                         : STR("count"));
    event_f64(&b, "first_s", s->first_s[s->current]);
    event_f64(&b, "seconds", stopwatch_s(&s->watch));
    event_end(&b, c->say);
}

static enum status encode(const struct generating *g, struct str prompt, struct generation *out,
                          struct arena *memory, struct err *err)
{
    i64 most    = use_length(g->use);
    out->tokens = NEW(memory, i32, MAX(tokens_max(prompt.len) + BPE_AROUND_MAX, most));
    if (!prompt.len)
        return err_set(err, STATUS_USAGE, "the text is empty: give at least one character");
    enum status st = words_encode(&g->words, prompt, use_vocabulary(g->use), out->tokens,
                                  &out->count, *memory, err);
    if (!st && out->count > most)
        st =
            err_set(err, STATUS_USAGE, "the text has %lld tokens, and the model reads at most %lld",
                    (long long)out->count, (long long)most);
    return st;
}

static enum status write_on(struct cli *c, struct generating *g, const struct prompts *p,
                            struct arena *memory, struct err *err)
{
    struct generation *all   = NEW(memory, struct generation, p->count);
    i64               *begin = NEW(memory, i64, p->count);
    enum status        st    = STATUS_OK;
    for (i64 i = 0; !st && i < p->count; i++) {
        st       = encode(g, p->texts[i], &all[i], memory, err);
        begin[i] = all[i].count;
    }
    if (st) return st;
    struct shown shown = { .cli = c, .words = &g->words, .prompts = p, .all = all, .begin = begin };
    shown.ended        = NEW(memory, bool, p->count);
    shown.first_s      = NEW(memory, f64, p->count);
    shown.watch        = stopwatch_start(c->os);
    for (i64 i = 0; i < p->count; i++) shown.first_s[i] = NAN;
    shown.context = use_length(g->use);
    shown.memory  = arena_part(memory, 1 << 28);
    g->on_token   = on_token;
    g->on_end     = on_end;
    g->context    = &shown;
    show_begin(&shown);
    generate(g, all, p->count, *memory);
    if (shown.signal == OS_SIGNAL_NONE) return STATUS_OK;
    i64 whole = 0;
    for (i64 i = 0; i < p->count; i++) whole += shown.ended[i] && all[i].how != GENERATED_STOPPED;
    return err_set(err, STATUS_INTERRUPTED, "stopped by %s: %lld of %lld texts are complete",
                   os_signal_name(shown.signal), (long long)whole, (long long)p->count);
}

/* --- what is continued --- */

/* A line of a .jsonl is an object with the text under "prompt". */
static enum status prompt_of(struct str line, i64 number, struct str file, struct arena *memory,
                             struct str *out, struct err *err)
{
    struct json *root, *prompt;
    *out = line;
    if (!str_ends(file, STR(".jsonl"))) return STATUS_OK;
    enum status st = json_parse(memory, line, &root, err);
    prompt         = st ? NULL : json_get(root, STR("prompt"));
    if (prompt && prompt->kind == JSON_STRING) return *out = prompt->text, STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s:%lld: expected an object with a text \"prompt\"",
                   STR_ARG(file), (long long)number);
}

static enum status read_prompts(struct cli *c, struct str file, struct prompts *p,
                                struct arena *memory, struct err *err)
{
    struct str  text;
    i64         lines = 1;
    enum status st    = os_read_all(c->os, file, memory, &text, err);
    for (i64 i = 0; !st && i < text.len; i++) lines += text.data[i] == '\n';
    p->texts = NEW(memory, struct str, lines);
    for (i64 number = 1; !st && text.len; number++) {
        i64        end  = str_find(text, '\n');
        struct str line = end < 0 ? text : str_sub(text, 0, end);
        text            = end < 0 ? (struct str){ 0 } : str_sub(text, end + 1, text.len);
        if (line.len && line.data[line.len - 1] == '\r') line.len--;
        if (str_trim(line).len)
            st = prompt_of(line, number, file, memory, &p->texts[p->count++], err);
    }
    if (!st && !p->count)
        st = err_set(err, STATUS_USAGE, "%.*s has no prompts: one a line", STR_ARG(file));
    return st;
}

/* FRUGAL_CACHE in the environment. */
static enum status cache_of(struct os *os, enum use_cache *out, struct err *err)
{
    static const char *const words[] = { "auto", "on", "off" };
    struct str               word    = os->env(os, "FRUGAL_CACHE");
    *out                             = USE_CACHE_AUTO;
    for (i64 i = 0; i < COUNT_OF(words); i++)
        if (str_eq(word, str_of(words[i]))) return *out = (enum use_cache)i, STATUS_OK;
    if (!word.len) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "FRUGAL_CACHE is auto, on or off, not %.*s",
                   (int)MIN(word.len, 40), word.data);
}

/* As long as the longest text can get: no token is shorter than a byte. */
static i64 longest(const struct prompts *p, i64 tokens)
{
    i64 most = 0;
    for (i64 i = 0; i < p->count; i++) most = MAX(most, p->texts[i].len);
    return most + BPE_AROUND_MAX + tokens;
}

/* How fast the weights came, for who measures it. */
static void show_loaded(struct cli *c, struct train_loaded l)
{
    struct arena   scratch = *c->perm;
    struct textbuf b;
    if (!c->say->json || !l.bytes) return;
    b = event_begin(&scratch, "loaded");
    event_i64(&b, "bytes", l.bytes);
    event_f64(&b, "seconds", l.seconds);
    event_end(&b, c->say);
}

static enum status open_and_write(struct cli *c, const struct config *config, struct generating *g,
                                  const struct prompts *p, struct arena *memory, struct err *err)
{
    struct use_next_config how = { .length    = longest(p, g->tokens_max),
                                   .sequences = MIN(p->count, AT_ONCE) };
    struct str             tokenizer;
    enum status            st = cache_of(c->os, &how.cache, err);
    if (!st) st = use_open_next(c->os, &config->settings, &how, &g->use, err);
    if (!st) show_loaded(c, use_loaded(g->use));
    if (!st) st = tokenizer_of(c, &config->settings, use_vocabulary(g->use), &tokenizer, err);
    if (!st) st = words_open(&g->words, c->os, tokenizer, memory, err);
    return st ? st : write_on(c, g, p, memory, err);
}

/* TEXT, or the lines of @FILE. */
static enum status prompts_of(struct cli *c, struct prompts *p, struct arena *memory,
                              struct err *err)
{
    struct str text = c->request->arguments[1];
    *p              = (struct prompts){ 0 };
    if (text.len > 1 && text.data[0] == '@')
        return read_prompts(c, str_sub(text, 1, text.len), p, memory, err);
    p->texts             = NEW(memory, struct str, 1);
    p->texts[p->count++] = text;
    return STATUS_OK;
}

enum status command_generate(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct generating     g = { 0 };
    struct prompts        prompts;
    struct config        *config;
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
    st = prompts_of(c, &prompts, &memory, err);
    if (!st) st = open_and_write(c, config, &g, &prompts, &memory, err);
    use_close(g.use);
    arena_close(&memory);
    return st;
}
