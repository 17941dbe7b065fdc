/* tokens.c - windows over one long row of tokens: a file of u16 or u32, or the bytes of a text.
 *
 *     tokens   t0 t1 t2 t3 t4 t5 t6 t7 ...      context 3
 *     sample 0 [x0 x1 x2]                       x = t0 t1 t2, y = t1 t2 t3
 *     sample 1          [x0 x1 x2]              x = t3 t4 t5, y = t4 t5 t6
 *
 * Windows meet in one token: the last target of one is the first input of the next, so that every
 * token but the first is a target once. What is left at the end is too short for a window and is
 * not used. Feeds: "x" i32[context], "y" i32[context], both in [0, vocabulary).
 *
 * With data.documents a document ends with the separator S, which is its last token:
 *
 *     tokens   a b S c d e ...      x         a b S c d e
 *                                   y         b S - d e f      - is no target (-1): nothing before it predicts c
 *                                   position  0 1 2 0 1 2
 *
 * A window that begins inside a document counts its positions from there.
 *
 * With data.windows=random each epoch shifts all its training windows by the same random number of tokens, less than
 * a window:
 *
 *     epoch 0   . . [x0 x1 x2][x0 x1 x2] .      shift 2
 *     epoch 1   [x0 x1 x2][x0 x1 x2] . . .      shift 0
 *
 * so that a model does not learn the same few windows by heart, and every token is still a target once an epoch but for
 * less than a window at each end. Held-out windows stay where they are.
 *
 * With data.pieces the sequences of the first half of a run consist of pieces of several windows, of each at its own
 * place, so that all sequences together still have each token once:
 *
 *     window    [a b c d] [e f g h] [i j k l]      context 4, data.pieces 2
 *     sequence  [a b g h] [e f k l] [i j c d]      position  0 1 0 1
 *
 * With data.windows=best_fit documents lie whole in the training sequences (best_fit.h), and only those longer than one
 * are cut; the places that are left at the end of a sequence predict nothing:
 *
 *     tokens    a b S c d e f g S h i j S      context 5
 *     sequence  [a b h i j] [c d e f g]         y  b S i j S   d e f g S
 *
 * A separator is predicted and never read. Held-out windows are those of data.windows=fixed, so that losses compare. */
#include "base/rng.h"
#include "data/best_fit.h"
#include "data/data_int.h"
#include "data/tokenize_int.h"
#include "remote/address.h"
#include <string.h>

/* Of a vocabulary that nobody asked for: four times what the largest published tokenizers have (262,144). A
 * few bytes of the wrong type, or a sidecar, must not make a model of many gigabytes. */
static const i64 vocabulary_believed_max = 1 << 20;

struct tokens_state {
    struct source source[SPLIT_COUNT];
    const char   *begin[SPLIT_COUNT]; /* of sample 0 */
    i64           context;
    i64           width;     /* bytes of a token: 1, 2 or 4 */
    i64           shift_max; /* of training windows, in tokens */
    i64 separator; /* the last token of a document; -1: attention may cross from one to the next */
    struct arena    own;    /* of best_fit; zeroed: training has windows */
    struct best_fit pack;   /* pieces by the index of their first token */
    i64             pieces; /* of them in all */
    bool            told;
    i64             piece; /* tokens of one, in sequences of several; 0: there are none */
};

enum { OWN_GIB = 256 }; /* address space */

static u32 token_at(const char *p, i64 width)
{
    u32 t = 0;
    memcpy(&t, p, (size_t)width); /* the file is little-endian, and so is every machine we run on */
    return t;
}

static u32 largest_of(struct str bytes, i64 width)
{
    u32 max = 0;
    for (i64 at = 0; at < bytes.len; at += width) {
        u32 t = token_at(bytes.data + at, width);
        max   = MAX(max, t);
    }
    return max;
}

static u32 largest_token(struct str bytes, i64 width)
{
    switch (width) { /* constants, so that the compiler makes vectors of the loop */
    case 1: return largest_of(bytes, 1);
    case 2: return largest_of(bytes, 2);
    default: return largest_of(bytes, 4);
    }
}

/* Opens one file, counts its windows, and looks at every token once, so that no model ever asks a
 * table for a row it does not have; *vocabulary grows where config leaves it open. */
static enum status open_file(struct dataset *d, const struct data_config *config, enum split s,
                             struct str path, struct arena scratch, i64 *vocabulary,
                             struct err *err)
{
    struct tokens_state *state = d->state;
    enum status          st    = source_open(d->os, path, config, scratch, &state->source[s], err);
    if (st) return st;
    struct str bytes = state->source[s].bytes;
    i64        count = bytes.len / state->width;
    if (bytes.len % state->width)
        return err_set(
            err, STATUS_USAGE,
            "%.*s: %lld bytes are not a whole number of %lld-byte tokens; `frugal tokenize` "
            "turns text into tokens",
            STR_ARG(path), (long long)bytes.len, (long long)state->width);
    if (count < state->context + 1)
        return err_set(err, STATUS_USAGE,
                       "%.*s: %lld tokens are fewer than one sample's %lld (data.context + 1)",
                       STR_ARG(path), (long long)count, (long long)state->context + 1);
    state->begin[s] = bytes.data;
    d->count[s]     = (count - 1) / state->context;

    if (*vocabulary >= (i64)1 << (8 * state->width)) return STATUS_OK; /* none can be too large */
    i64 max = largest_token(bytes, state->width);
    if (config->vocabulary == 0) *vocabulary = MAX(*vocabulary, max + 1);
    if (max >= *vocabulary || max >= INT32_MAX)
        return err_set(err, STATUS_USAGE,
                       "%.*s: holds token %lld, but tokens must be below the vocabulary of %lld",
                       STR_ARG(path), (long long)max, (long long)MIN(*vocabulary, INT32_MAX));
    return STATUS_OK;
}

static enum status check_vocabulary(const struct data_config *config, i64 width, i64 vocabulary,
                                    struct err *err)
{
    if (config->vocabulary || vocabulary <= vocabulary_believed_max) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%.*s: a vocabulary of %lld tokens is larger than any tokenizer's; is "
                   "data.token_type=%s right? data.vocabulary=%lld accepts it",
                   STR_ARG(config->path), (long long)vocabulary, width == 4 ? "u32" : "u16",
                   (long long)vocabulary);
}

/* beside: the separator by the file's own description, or -1. */
static enum status find_separator(const struct data_config *config, i64 beside, i64 *separator,
                                  struct err *err)
{
    *separator = -1;
    if (!config->documents.len || str_eq(config->documents, STR("cross"))) return STATUS_OK;
    if (str_i64(config->documents, separator)) return STATUS_OK;
    *separator = beside;
    if (beside >= 0) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "data.documents=separate: no file next to %.*s says which token ends a document; "
        "give its number instead, as in data.documents=50256",
        STR_ARG(config->path));
}

/* Room for any shift below a window costs one of them, unless it is the only one. `tokens`: those that training may
 * use. */
static void make_room(struct dataset *d, const struct data_config *config, i64 tokens)
{
    struct tokens_state *state   = d->state;
    i64                  context = state->context, *count = &d->count[SPLIT_TRAIN];
    if (!str_eq(config->windows, STR("random"))) return;
    *count           = MAX((tokens - context) / context, 1);
    state->shift_max = MIN(context - 1, tokens - 1 - *count * context);
}

static enum status check_pieces(const struct data_config *config, enum status st, struct err *err)
{
    if (st || !config->pieces) return st;
    if (str_eq(config->windows, STR("best_fit")))
        return err_set(
            err, STATUS_USAGE,
            "data.pieces cuts sequences, and data.windows=best_fit fills them with whole "
            "documents: set one of the two");
    if (config->pieces > 0 && config->context % config->pieces == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "data.pieces is %lld; it must divide data.context, which is %lld",
                   (long long)config->pieces, (long long)config->context);
}

/* A document is one piece, or several that meet in one token. One token alone predicts nothing. */
static struct fit_piece *find_pieces(struct tokens_state *state, i64 tokens, struct arena *to)
{
    const char       *from  = state->begin[SPLIT_TRAIN];
    struct fit_piece *piece = NEW(to, struct fit_piece, 0);
    for (i64 at = 0, begin = 0; at < tokens; at++) {
        bool ends = token_at(from + at * state->width, state->width) == (u32)state->separator;
        bool full = at - begin == state->context;
        if (!ends && !full && at + 1 < tokens) continue;
        if (at > begin) {
            struct fit_piece *p = NEW(to, struct fit_piece, 1);
            *p                  = (struct fit_piece){ begin, at - begin + 1 };
            state->pieces++;
        }
        begin = ends ? at + 1 : at;
    }
    return piece;
}

static enum status pack_documents(struct dataset *d, i64 tokens, struct err *err)
{
    struct tokens_state *state = d->state;
    if (state->separator < 0)
        return err_set(err, STATUS_USAGE,
                       "data.windows=best_fit packs whole documents: set data.documents=separate");
    state->own        = arena_open((i64)OWN_GIB << 30);
    struct arena lent = arena_open((i64)OWN_GIB << 30), rest;
    if (!state->own.begin || !lent.begin) {
        if (lent.begin) arena_close(&lent);
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    }
    rest                     = lent;
    struct fit_piece *pieces = find_pieces(state, tokens, &rest);
    d->count[SPLIT_TRAIN] =
        best_fit_pack(pieces, state->pieces, state->context, &state->own, rest, &state->pack);
    arena_close(&lent);
    if (d->count[SPLIT_TRAIN]) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "no document has two tokens: is data.documents=%lld right?",
                   (long long)state->separator);
}

static bool has_positions(const struct tokens_state *state)
{
    return state->separator >= 0 || state->piece;
}

static enum status open_windows(struct dataset *d, const struct data_config *config, i64 width,
                                i64 vocabulary, i64 beside, struct arena *perm, struct err *err)
{
    struct tokens_state *state = d->state = NEW(perm, struct tokens_state, 1);
    state->width                          = width;
    state->context                        = config->context;
    enum status st                        = check_context(config, err);
    state->piece                          = config->pieces;
    st                                    = check_pieces(config, st, err);
    if (!st) st = find_separator(config, beside, &state->separator, err);
    if (!st) st = open_file(d, config, SPLIT_TRAIN, config->path, *perm, &vocabulary, err);
    if (!st && config->eval_path.len)
        st = open_file(d, config, SPLIT_EVAL, config->eval_path, *perm, &vocabulary, err);
    if (!st) st = check_vocabulary(config, width, vocabulary, err);
    if (!st && state->separator >= vocabulary)
        st = err_set(err, STATUS_USAGE,
                     "data.documents=%lld is not a token: the vocabulary has %lld",
                     (long long)state->separator, (long long)vocabulary);
    if (st) return st;
    i64 tokens = state->source[SPLIT_TRAIN].bytes.len / width;
    if (!config->eval_path.len) {
        i64 first                = hold_out_last(d, config) * state->context;
        state->begin[SPLIT_EVAL] = state->begin[SPLIT_TRAIN] + first * width;
        if (d->count[SPLIT_EVAL]) tokens = first + 1;
    }
    make_room(d, config, tokens);
    if (str_eq(config->windows, STR("best_fit"))) st = pack_documents(d, tokens, err);
    if (st) return st;
    limit_counts(d, config);
    dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(config->context)), vocabulary);
    dataset_add_feed(d, STR("y"), type_of(DT_I32, shape_1(config->context)), vocabulary);
    if (has_positions(state))
        dataset_add_feed(d, STR("position"), type_of(DT_I32, shape_1(config->context)),
                         config->context);
    return STATUS_OK;
}

/* What `frugal tokenize` left beside the file is heard: the type must be the one that it says, and the vocabulary is
 * its own unless another is asked for. */
static enum status heed_side(struct os *os, const struct data_config *config, i64 width,
                             i64 *vocabulary, i64 *separator, struct arena scratch, struct err *err)
{
    struct str        path = str_cat(&scratch, config->path, STR(".json"));
    struct token_side side;
    if (token_side_read(os, path, &scratch, &side, NULL)) return STATUS_OK; /* somebody else's */
    if (!str_eq(side.type, width == 2 ? STR("u16") : STR("u32")))
        return err_set(
            err, STATUS_USAGE, "%.*s holds %.*s tokens according to %.*s; set data.token_type=%.*s",
            STR_ARG(config->path), STR_ARG(side.type), STR_ARG(path), STR_ARG(side.type));
    if (!*vocabulary) *vocabulary = side.vocabulary;
    *separator = side.separator;
    return STATUS_OK;
}

static enum status open_tokens(struct dataset *d, const struct data_config *config,
                               struct arena *perm, struct err *err)
{
    struct str type  = config->token_type;
    i64        width = !type.len || str_eq(type, STR("u16")) ? 2 : str_eq(type, STR("u32")) ? 4 : 0;
    if (!width)
        return err_set(err, STATUS_USAGE, "data.token_type is %.*s; it must be u16 or u32",
                       STR_ARG(type));
    if (config->vocabulary < 0 || config->vocabulary > INT32_MAX)
        return err_set(err, STATUS_USAGE, "data.vocabulary is %lld; it must be 0 to %d",
                       (long long)config->vocabulary, INT32_MAX);
    i64         vocabulary = config->vocabulary, separator = -1;
    enum status st = heed_side(d->os, config, width, &vocabulary, &separator, *perm, err);
    return st ? st : open_windows(d, config, width, vocabulary, separator, perm, err);
}

/* Of a file of tokens each byte would be taken for a letter. `frugal tokenize` leaves NAME.json beside it; one from
 * another program holds zero bytes, which no text has: refused if it is called .bin, or without data.kind=text. */
static enum status refuse_tokens(struct dataset *d, struct str path, struct str bytes, bool chosen,
                                 struct arena scratch, struct err *err)
{
    struct str        side_path = str_cat(&scratch, path, STR(".json"));
    struct token_side side;
    bool              named = str_ends(address_path(path), STR(".bin"));
    bool              kept =
        !address_is_remote(path) && !token_side_read(d->os, side_path, &scratch, &side, NULL);
    bool zeros = memchr(bytes.data, 0, (size_t)MIN(bytes.len, 1 << 16));
    d->binary |= zeros;
    if (!kept && !(zeros && (named || !chosen))) return STATUS_OK;
    if (!kept && !named)
        return err_set(err, STATUS_USAGE,
                       "%.*s holds zero bytes, which no text has: set data.kind=tokens if it holds "
                       "tokens, or data.kind=text to train on its bytes",
                       STR_ARG(path));
    return err_set(err, STATUS_USAGE,
                   "%.*s holds tokens%s%.*s, and data.kind=text reads bytes; set data.kind=tokens",
                   STR_ARG(path), kept ? " according to " : "",
                   STR_ARG(kept ? side_path : STR("")));
}

static enum status open_text(struct dataset *d, const struct data_config *config,
                             struct arena *perm, struct err *err)
{
    enum status                st     = open_windows(d, config, 1, 256, -1, perm, err);
    const struct tokens_state *state  = d->state;
    bool                       chosen = str_eq(config->kind, STR("text"));
    if (!st)
        st = refuse_tokens(d, config->path, state->source[SPLIT_TRAIN].bytes, chosen, *perm, err);
    if (!st && config->eval_path.len)
        st = refuse_tokens(d, config->eval_path, state->source[SPLIT_EVAL].bytes, chosen, *perm,
                           err);
    return st;
}

static void fetch_window(const char *from, i64 width, i64 context, i32 *x, i32 *y)
{
    for (i64 i = 0; i < context; i++) x[i] = (i32)token_at(from + i * width, width);
    memcpy(y, x + 1, (size_t)(context - 1) * sizeof *y);
    y[context - 1] = (i32)token_at(from + context * width, width);
}

static void split_documents(const i32 *x, i32 *y, i32 *position, i64 context, i64 separator)
{
    for (i64 i = 0; i < context; i++) {
        position[i] = i > 0 && x[i - 1] != separator ? position[i - 1] + 1 : 0;
        if (x[i] == separator) y[i] = -1;
    }
}

static void fetch_from(const struct dataset *d, const char *begin, const i64 *index, i64 count,
                       void *const *to)
{
    const struct tokens_state *state   = d->state;
    i64                        context = state->context;
    for (i64 i = 0; i < count; i++) {
        i32 *x = (i32 *)to[0] + i * context, *y = (i32 *)to[1] + i * context;
        fetch_window(begin + index[i] * context * state->width, state->width, context, x, y);
        if (has_positions(state))
            split_documents(x, y, (i32 *)to[2] + i * context, context, state->separator);
    }
}

static void fetch_packed(const struct tokens_state *state, i64 sequence, i32 *x, i32 *y,
                         i32 *position)
{
    const struct best_fit *p  = &state->pack;
    i64                    at = 0, w = state->width;
    for (i64 i = p->first[sequence]; i < p->first[sequence + 1]; i++) {
        const char *t = state->begin[SPLIT_TRAIN] + p->pieces[i].begin * w;
        for (i64 k = 0; k < fit_inputs(&p->pieces[i]); k++, at++) {
            x[at]        = (i32)token_at(t + k * w, w);
            y[at]        = (i32)token_at(t + (k + 1) * w, w);
            position[at] = (i32)k;
        }
    }
    for (i64 k = 0; at < state->context;
         k++, at++) { /* a document of its own, that predicts nothing */
        x[at]        = 0;
        y[at]        = -1;
        position[at] = (i32)k;
    }
}

static void fetch_windows(const struct dataset *d, enum split s, const i64 *index, i64 count,
                          void *const *to)
{
    const struct tokens_state *state = d->state;
    i64                        n     = state->context;
    if (s == SPLIT_TRAIN && state->own.begin) {
        for (i64 i = 0; i < count; i++)
            fetch_packed(state, index[i], (i32 *)to[0] + i * n, (i32 *)to[1] + i * n,
                         (i32 *)to[2] + i * n);
        return;
    }
    fetch_from(d, state->begin[s], index, count, to);
}

/* Where the windows of an epoch begin. */
static const char *shifted(const struct tokens_state *state, u64 seed, i64 epoch)
{
    struct rng_key key   = { .seed = seed, .name = str_hash(STR("windows")), .step = (u64)epoch };
    i64            shift = (i64)(rng_uniform(key, 0) * (f64)(state->shift_max + 1));
    return state->begin[SPLIT_TRAIN] + shift * state->width;
}

static void fetch_shifted(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                          void *const *to)
{
    const struct tokens_state *state = d->state;
    if (state->own.begin) {
        fetch_windows(d, SPLIT_TRAIN, index, count, to);
        return;
    }
    fetch_from(d, shifted(state, seed, epoch), index, count, to);
}

/* Piece k of a sequence is piece k of another window for each k, so that all sequences have all pieces once. */
static void fetch_joined(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                         void *const *to)
{
    const struct tokens_state *state = d->state;
    const char                *begin = shifted(state, seed, epoch);
    i64 context = state->context, piece = state->piece, windows = d->count[SPLIT_TRAIN];
    i64 apart = MAX(windows * piece / context, 1);
    for (i64 i = 0; i < count * context; i += piece) {
        i64  k = i % context, window = (index[i / context] + k / piece * apart) % windows;
        i32 *x = (i32 *)to[0] + i, *y = (i32 *)to[1] + i;
        fetch_window(begin + (window * context + k) * state->width, state->width, piece, x, y);
        split_documents(x, y, (i32 *)to[2] + i, piece, state->separator);
    }
}

static bool packing_says(struct dataset *d, char line[LOADER_LINE_MAX])
{
    struct tokens_state *state = d->state;
    if (!state->own.begin || state->told) return false;
    i64          sequences = d->count[SPLIT_TRAIN]; /* data.samples may have left some out */
    i64          pieces = state->pack.first[sequences], places = 0;
    struct arena lent = { (u8 *)line, (u8 *)line + LOADER_LINE_MAX, NULL };
    state->told       = true;
    for (i64 i = 0; i < pieces; i++) places += fit_inputs(&state->pack.pieces[i]);
    str_fmt(&lent,
            "%lld documents or parts of one in %lld sequences; %.2g %% of their places are empty%c",
            (long long)pieces, (long long)sequences,
            MIN(100 - 100 * (f64)places / (f64)(sequences * state->context), 99), 0);
    return true;
}

static void close_tokens(struct dataset *d)
{
    struct tokens_state *state = d->state;
    if (!state) return;
    if (state->own.begin) arena_close(&state->own);
    for (i32 s = 0; s < SPLIT_COUNT; s++) source_close(d->os, &state->source[s]);
}

const struct format format_tokens = { .kind         = { "tokens", 6 },
                                      .open         = open_tokens,
                                      .fetch        = fetch_windows,
                                      .fetch_epoch  = fetch_shifted,
                                      .fetch_pieces = fetch_joined,
                                      .says         = packing_says,
                                      .close        = close_tokens };
const struct format format_text   = { .kind         = { "text", 4 },
                                      .open         = open_text,
                                      .fetch        = fetch_windows,
                                      .fetch_epoch  = fetch_shifted,
                                      .fetch_pieces = fetch_joined,
                                      .says         = packing_says,
                                      .close        = close_tokens };
