/* chat.c - conversations, one JSON object a line, packed into sequences for a language model:
 *
 *     {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
 *     {"prompt": "…", "completion": "…"}
 *
 * Each becomes tokens once, when the data is opened: messages by the chat template (chat_form.h), a prompt and its
 * completion as they are, with the tokens that the tokenizer puts before a text, and the end token behind. Feeds: "x",
 * "y" and "position", each i32[context]. Several samples lie in one sequence, and "position" restarts at each, so that
 * attention stays within it (docs/decisions/packing.md); "y" is -1 but where an answer's token is predicted.
 *
 * Samples are put, the longest first, where the least room is left that holds them (best fit decreasing, Johnson 1973).
 * One longer than data.context is cut; one with no answer left is not used. */
#include "data/best_fit.h"
#include "data/bpe.h"
#include "data/chat_form.h"
#include "data/data_int.h"
#include "data/tokenize.h"
#include <string.h>

enum { OWN_GIB = 256, LINE_GIB = 8 }; /* address space */
static const u32 answer_bit = (u32)1 << 31;

struct chat_state {
    struct arena    own;
    u32            *tokens; /* answers have answer_bit */
    struct best_fit pack[SPLIT_COUNT];
    i64             context, count, cut, left_out, told;
};

struct reading {
    struct chat_state        *state;
    const struct data_config *config;
    const struct bpe         *bpe;
    struct bpe_coder         *coder;
    struct chat_form          form;
    struct err                no_form; /* why there is none: said where messages come */
    i64                       eos;     /* behind a completion; -1: nothing */
    struct arena              samples, tokens, scratch;
    struct fit_piece         *sample;
    i64                       count;
};

/* ---- one sample ---- */

static enum status encode(struct reading *r, struct str text, struct arena *perm, u32 **to,
                          i64 *count, struct err *err)
{
    i64 bad = 0;
    *to     = NEW(perm, u32, tokens_max(text.len));
    *count  = 0;
    return tokenize_text(r->coder, text, true, *to, count, &bad, err);
}

/* How many of the whole text's tokens end within its first `bytes`. */
static enum status tokens_within(struct reading *r, struct str text, i64 bytes, const u32 *whole,
                                 i64 whole_count, i64 *out, struct err *err)
{
    struct arena scratch = r->scratch;
    u32         *part;
    i64          count;
    enum status  st = encode(r, str_sub(text, 0, bytes), &scratch, &part, &count, err);
    for (*out = 0; !st && *out < MIN(count, whole_count) && part[*out] == whole[*out];) ++*out;
    return st;
}

/* Appends a text's tokens, those within the spans as answers. */
static enum status add_text(struct reading *r, const struct chat_text *t, bool alone,
                            struct err *err)
{
    struct fit_piece *s = &r->sample[r->count];
    u32              *ids;
    i64               count, behind = alone && r->eos >= 0;
    enum status       st     = encode(r, t->text, &r->scratch, &ids, &count, err);
    i64               before = alone ? r->bpe->before_count : 0;
    if (st) return st;
    u32 *to  = NEW(&r->tokens, u32, before + count + behind);
    s->begin = to - r->state->tokens;
    memcpy(to, r->bpe->before, (size_t)before * sizeof *to);
    memcpy(to + before, ids, (size_t)count * sizeof *to);
    if (behind) to[before + count] = (u32)r->eos | answer_bit;
    for (i64 i = 0; i < t->span_count && !st; i++) {
        i64 from, end;
        st = tokens_within(r, t->text, t->span[i].begin, ids, count, &from, err);
        if (!st) st = tokens_within(r, t->text, t->span[i].end, ids, count, &end, err);
        for (i64 k = from; !st && k < end; k++) to[before + k] |= answer_bit;
    }
    s->count = before + count + behind;
    return st;
}

static enum status read_sample(struct reading *r, const struct json *row, struct err *err)
{
    const struct json *prompt   = json_get(row, STR("prompt")),
                      *answer   = json_get(row, STR("completion"));
    const struct json *messages = json_get(row, STR("messages"));
    struct chat_text  *t        = NEW(&r->scratch, struct chat_text, 1);
    if (row->kind != JSON_MAP || (!messages && (!prompt || !answer)))
        return err_set(err, STATUS_USAGE, "neither \"messages\" nor \"prompt\" and \"completion\"");
    if (!messages) {
        if (prompt->kind != JSON_STRING || answer->kind != JSON_STRING)
            return err_set(err, STATUS_USAGE, "\"prompt\" and \"completion\" should be texts");
        t->text       = str_cat(&r->scratch, prompt->text, answer->text);
        t->span[0]    = (struct chat_span){ prompt->text.len, t->text.len };
        t->span_count = 1;
        return add_text(r, t, true, err);
    }
    if (r->no_form.status) return err_set(err, r->no_form.status, "%s", r->no_form.text);
    enum status st = chat_write(&r->form, messages, &r->scratch, t, err);
    return st ? st : add_text(r, t, false, err);
}

/* Is anything of it learned, once it is cut? */
static void keep_sample(struct reading *r)
{
    struct chat_state *state = r->state;
    struct fit_piece  *s     = &r->sample[r->count];
    bool               any   = false;
    state->count++;
    if (s->count > state->context + 1) state->cut++, s->count = state->context + 1;
    for (i64 i = 1; i < s->count; i++) any = any || state->tokens[s->begin + i] & answer_bit;
    if (any) r->count++;
    else state->left_out++;
}

static enum status read_file(struct reading *r, struct dataset *d, struct str path, i64 max,
                             struct err *err)
{
    struct source source = { 0 };
    struct str    line, rest;
    i64           number = 0, begin = r->count, before_all = r->state->count;
    enum status   st = source_open(d->os, path, r->config, r->scratch, &source, err);
    rest             = source.bytes;
    while (!st && str_cut(&rest, '\n', &line) && !(max && r->count - begin >= max)) {
        struct arena before = r->scratch;
        struct json *row;
        struct err   why;
        number++;
        line = str_trim(line);
        if (!line.len) continue;
        NEW(&r->samples, struct fit_piece, 1);
        st = json_parse_line(&r->scratch, line, &row, &why);
        if (!st) st = read_sample(r, row, &why);
        if (st) err_set(err, st, "%.*s:%lld: %s", STR_ARG(path), (long long)number, why.text);
        else keep_sample(r);
        r->scratch = before;
    }
    source_close(d->os, &source);
    i64 samples = r->state->count - before_all;
    if (!st && samples && r->count == begin)
        st = err_set(err, STATUS_USAGE,
                     "%.*s: %lld sample%s, and no answer within data.context=%lld tokens",
                     STR_ARG(path), (long long)samples, samples == 1 ? "" : "s",
                     (long long)r->state->context);
    return st;
}

/* ---- the data set ---- */

static i64 end_token(const struct reading *r)
{
    u32 id;
    if (r->form.eos.len && bpe_find_added(r->bpe, r->form.eos, &id)) return id;
    return bpe_end_token(r->bpe);
}

static enum status open_reading(struct reading *r, struct dataset *d, struct err *err)
{
    const struct data_config *c     = r->config;
    struct chat_state        *state = r->state;
    struct bpe               *bpe   = NULL;
    if (!c->tokenizer.len)
        return err_set(err, STATUS_USAGE,
                       "data.kind=chat needs data.tokenizer, a folder with tokenizer.json");
    state->own = arena_open((i64)OWN_GIB << 30);
    r->scratch = arena_open((i64)LINE_GIB << 30);
    if (!state->own.begin || !r->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = bpe_open(d->os, c->tokenizer, &state->own, &bpe, err);
    if (st) return st;
    r->bpe   = bpe;
    r->coder = bpe_coder_new(&state->own, bpe);
    st = chat_form_open(d->os, c->tokenizer, c->template, c->template_count, STR(""), &state->own,
                        &r->form, &r->no_form);
    if (st && c->template_count) return err_set(err, st, "%s", r->no_form.text);
    r->eos = end_token(r);
    for (i64 i = 0; i < bpe->added_count && !r->form.eos.len;
         i++) /* no tokenizer_config.json names it */
        if (bpe->added[i].id == r->eos) r->form.eos = bpe->added[i].text;
    r->samples    = arena_part(&state->own, (i64)32 << 30);
    r->tokens     = arena_part(&state->own, (i64)128 << 30);
    r->sample     = NEW(&r->samples, struct fit_piece, 0);
    state->tokens = NEW(&r->tokens, u32, 0);
    return STATUS_OK;
}

static void pack_split(struct dataset *d, struct reading *r, enum split s, i64 from, i64 count)
{
    struct chat_state *state = r->state;
    d->count[s] = best_fit_pack(r->sample + from, count, state->context, &r->samples, r->scratch,
                                &state->pack[s]);
}

static enum status open_chat(struct dataset *d, const struct data_config *config,
                             struct arena *perm, struct err *err)
{
    struct chat_state *state = d->state = NEW(perm, struct chat_state, 1);
    struct reading     r                = { .state = state, .config = config };
    state->context                      = config->context;
    enum status st                      = check_context(config, err);
    if (!st) st = open_reading(&r, d, err);
    if (!st) st = read_file(&r, d, config->path, 0, err);
    i64 all = r.count;
    if (!st && config->eval_path.len)
        st = read_file(&r, d, config->eval_path, config->eval_samples, err);
    if (!st) {
        d->count[SPLIT_TRAIN] = all; /* samples first, then sequences */
        i64 train             = config->eval_path.len ? all : hold_out_last(d, config);
        i64 eval              = config->eval_path.len ? r.count - all : d->count[SPLIT_EVAL];
        pack_split(d, &r, SPLIT_TRAIN, 0, limit_count(train, config->samples));
        pack_split(d, &r, SPLIT_EVAL, config->eval_path.len ? all : train,
                   limit_count(eval, config->eval_samples));
    }
    if (r.scratch.begin) arena_close(&r.scratch);
    if (st) return st;
    struct type row = type_of(DT_I32, shape_1(config->context));
    dataset_add_feed(d, STR("x"), row, r.bpe->vocabulary);
    dataset_add_feed(d, STR("y"), row, r.bpe->vocabulary);
    dataset_add_feed(d, STR("position"), row, config->context);
    return STATUS_OK;
}

static void fetch_sequence(const struct chat_state *state, const struct best_fit *p, i64 sequence,
                           i32 *x, i32 *y, i32 *position)
{
    i64 at = 0;
    for (i64 i = p->first[sequence]; i < p->first[sequence + 1]; i++) {
        const u32 *t = state->tokens + p->pieces[i].begin;
        for (i64 k = 0; k < fit_inputs(&p->pieces[i]); k++, at++) {
            x[at]        = (i32)(t[k] & ~answer_bit);
            y[at]        = t[k + 1] & answer_bit ? (i32)(t[k + 1] & ~answer_bit) : -1;
            position[at] = (i32)k;
        }
    }
    for (i64 k = 0; at < state->context;
         k++, at++) { /* what is left is a document of its own, that predicts nothing */
        x[at]        = 0;
        y[at]        = -1;
        position[at] = (i32)k;
    }
}

static void fetch_chat(const struct dataset *d, enum split s, const i64 *index, i64 count,
                       void *const *to)
{
    const struct chat_state *state = d->state;
    i64                      n     = state->context;
    for (i64 i = 0; i < count; i++)
        fetch_sequence(state, &state->pack[s], index[i], (i32 *)to[0] + i * n, (i32 *)to[1] + i * n,
                       (i32 *)to[2] + i * n);
}

static bool chat_says(struct dataset *d, char line[LOADER_LINE_MAX])
{
    struct chat_state *state = d->state;
    if (state->told++) return false;
    struct arena lent      = { (u8 *)line, (u8 *)line + LOADER_LINE_MAX, NULL };
    i64          sequences = d->count[SPLIT_TRAIN] + d->count[SPLIT_EVAL];
    str_fmt(&lent,
            "%lld sample%s in %lld sequence%s; %lld longer than data.context cut, %lld without an "
            "answer left out%c",
            (long long)state->count, state->count == 1 ? "" : "s", (long long)sequences,
            sequences == 1 ? "" : "s", (long long)state->cut, (long long)state->left_out, 0);
    return true;
}

static void close_chat(struct dataset *d)
{
    struct chat_state *state = d->state;
    if (state && state->own.begin) arena_close(&state->own);
}

const struct format format_chat = { .kind  = { "chat", 4 },
                                    .open  = open_chat,
                                    .fetch = fetch_chat,
                                    .says  = chat_says,
                                    .close = close_chat };
