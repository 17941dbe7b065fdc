/* cmd_generate.c - frugal generate MODEL TEXT: what a trained model writes after a text. */
#include "cli/jobs.h"
#include "data/tokenize.h"
#include "infer/generate.h"
#include "infer/generation_config.h"
#include "infer/prompts.h"
#include "run/clock.h"
#include <math.h>

enum status command_generate(struct cli *c, struct err *err);

enum { COUNT_MAX = 1000000000 }; /* of --count and --top_k */
enum { TEXT_GIB = 64 };          /* address space for tokenizer, texts and tokens */
enum { TOKENS_LEFT = 1 << 30 };  /* of it, numbers of 4 bytes: to encode a text, and to draw */
enum {
    AT_ONCE = 16
}; /* texts: a product of so many rows takes little longer than one of one row */

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

/* An answer begins behind the blanks that a template writes before it. */
static i64 text_begin(const struct shown *s)
{
    i64 begin = 0;
    while (s->prompts->items[s->current].messages && begin < s->text.len &&
           s->text.data[begin] == ' ')
        begin++;
    return begin;
}

static void print_to(struct shown *s, i64 end)
{
    struct arena scratch = *s->cli->perm;
    i64          from    = MIN(MAX(s->printed, text_begin(s)), end);
    struct str   text    = str_sub(textbuf_str(&s->text), from, end);
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
    const struct prompt *p     = &s->prompts->items[s->current];
    if (!s->cli->say->json && !p->messages) say_text(s->cli->say, p->shown);
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
    event_str(&b, "prompt", s->prompts->items[s->current].shown);
    event_str(&b, "text", str_sub(textbuf_str(&s->text), text_begin(s), s->text.len));
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

/* With room for what is generated. */
static enum status encode(const struct generating *g, const struct prompt *p,
                          struct generation *out, struct arena *memory, struct err *err)
{
    i64               most = use_length(g->use), own = tokens_max(p->text.len) + BPE_AROUND_MAX;
    i64               room   = MAX(own, MIN(most, own + g->tokens_max));
    enum words_around around = p->messages ? WORDS_ALONE : WORDS_WITH_BEFORE;
    if (room > (memory->end - memory->begin) / (i64)sizeof(i32) - TOKENS_LEFT)
        return err_set(err, STATUS_USAGE,
                       "the texts up to here and --count=%lld new tokens each need more than %d "
                       "GiB: give fewer texts or a smaller --count",
                       (long long)g->tokens_max, TEXT_GIB);
    out->tokens    = NEW(memory, i32, room);
    enum status st = words_encode(&g->words, p->text, around, use_vocabulary(g->use), out->tokens,
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
        struct err why;
        st       = encode(g, &p->items[i], &all[i], memory, &why);
        begin[i] = all[i].count;
        if (st) prompts_failed(p, i, st, &why, err);
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

/* The chat template beside the tokenizer at `path`, a folder or a file in it; or data.template. */
static enum status form_open(struct cli *c, const struct data_config *d, struct str path,
                             struct arena *perm, struct chat_form *form, struct err *err)
{
    bool file = os_is_file(c->os, path);
    while (file && path.len && path.data[path.len - 1] != '/') path.len--;
    if (!path.len) path = STR(".");
    return chat_form_open(c->os, path, d->template, d->template_count, prompts_today(c->os, perm),
                          perm, form, err);
}

static enum status form_of(struct cli *c, const struct settings *s, struct str path,
                           struct words *words, struct chat_form *form, struct err *err)
{
    struct str  end;
    enum status st = form_open(c, &s->data, path, c->perm, form, err);
    if (st) return st;
    for (i64 i = 0; words->bpe && i < words->bpe->added_count && !form->eos.len; i++)
        if (words->bpe->added[i].id == bpe_end_token(words->bpe)) /* as in training: data/chat.c */
            form->eos = words->bpe->added[i].text;
    end = chat_answer_end(form, c->perm);
    words_add_end(words, words_token(words, end));
    return STATUS_OK;
}

/* Tokens that the model's folder names end a text too, and where it draws, its numbers are the defaults. */
static enum status follow_folder(struct cli *c, const struct settings *s, struct generating *g,
                                 struct err *err)
{
    const struct request    *r     = c->request;
    struct settings          whole = *s; /* of adapters with the folder of their model */
    struct generation_config about = { 0 };
    enum status              st    = use_settings(c->os, &whole, c->perm, err);
    if (!st)
        st = generation_config_read(c->os, s->model.path, whole.model.path, *c->perm, &about, err);
    for (i64 i = 0; !st && i < about.end_count; i++) words_add_end(&g->words, about.ends[i]);
    if (st || r->given[FLAG_temperature] || r->given[FLAG_top_k] || r->given[FLAG_top_p]) return st;
    if (!isnan(about.temperature)) g->sampling.temperature = about.temperature;
    if (!isnan(about.top_p)) g->sampling.top_p = about.top_p;
    if (about.top_k >= 0) g->sampling.top_k = about.top_k;
    return STATUS_OK;
}

static void mention_chat(struct cli *c, const struct settings *s, struct str path)
{
    struct chat_form form;
    struct arena     scratch = *c->perm;
    if (path.len && !form_open(c, &s->data, path, &scratch, &form, NULL))
        say_message(c->say, "the model has a chat template: --chat asks it, without it the text is "
                            "continued\n");
}

static enum status open_words(struct cli *c, const struct settings *s, i64 vocabulary,
                              struct generating *g, struct prompts *p, struct arena *memory,
                              struct err *err)
{
    struct str       path;
    struct chat_form form;
    enum status      st = tokenizer_of(c, s, vocabulary, &path, err);
    if (!st) st = words_open(&g->words, c->os, path, memory, err);
    if (!st) st = follow_folder(c, s, g, err);
    if (!st && p->chat) st = form_of(c, s, path, &g->words, &form, err);
    if (!st && p->chat) st = prompts_write(p, &form, memory, err);
    if (!st && !p->chat && p->count == 1) mention_chat(c, s, path);
    return st;
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

/* Conversations become texts first: the model is opened for their length. No token is shorter than a byte. */
static enum status open_and_write(struct cli *c, const struct config *config, struct generating *g,
                                  struct prompts *p, struct arena *memory, struct err *err)
{
    const struct settings *s   = &config->settings;
    struct use_next_config how = { .sequences = MIN(p->count, AT_ONCE) };
    enum status            st  = cache_of(c->os, &how.cache, err);
    if (!st && p->chat) st = open_words(c, s, -1, g, p, memory, err);
    how.length = prompts_longest(p) + BPE_AROUND_MAX + g->tokens_max;
    if (!st) st = use_open_next(c->os, s, &how, &g->use, err);
    if (!st) show_loaded(c, use_loaded(g->use));
    if (!st && !p->chat) st = open_words(c, s, use_vocabulary(g->use), g, p, memory, err);
    return st ? st : write_on(c, g, p, memory, err);
}

enum status command_generate(struct cli *c, struct err *err)
{
    const struct request *r  = c->request;
    struct generating     g  = { 0 };
    enum prompts_as       as = r->given[FLAG_chat] ? PROMPTS_CHAT : PROMPTS_TEXT;
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
    st = prompts_read(c->os, r->arguments[1], as, &memory, &prompts, err);
    if (!st) st = open_and_write(c, config, &g, &prompts, &memory, err);
    use_close(g.use);
    arena_close(&memory);
    return st;
}
