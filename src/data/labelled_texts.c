/* labelled_texts.c - rows of CSV or JSON lines with a column of text and one of classes, for classifiers of sequences.
 *
 * Feeds: "x" i32[context], the text's tokens by data.tokenizer with the special tokens that its post-processor puts
 * around them ([CLS] text [SEP]), padded with 0; "lens" i32, how many there are; "y" i32, the class. A longer text is
 * cut, the special tokens stay. Classes are the numbers of the column where all are whole numbers from 0 on, else its
 * words: numbered as in the model, if it knows them all, else in the order of their bytes.
 *
 * A row is held out by a hash of its text, as in labelled_lines.c: files of texts are often sorted by class. */
#include "data/bpe.h"
#include "data/data_int.h"
#include "data/rows_int.h"
#include "data/text_rows.h"
#include "data/tokenize.h"
#include <stdlib.h>
#include <string.h>

static const i64 class_max = 1 << 16;
enum { OWN_GIB = 256, ROW_GIB = 4 }; /* address space */

struct row {
    i64        begin; /* of its tokens */
    i32        count;
    i32        label;
    struct str name; /* as written; of labels that are words the first row's, for each */
};

struct texts_state {
    struct arena      own;
    const struct bpe *bpe;
    struct bpe_coder *coder; /* while it is opened, and of rows from outside the files */
    struct row       *row[SPLIT_COUNT];
    u32              *tokens;
    i64               token_count, context;
};

struct reading {
    struct texts_state *state;
    struct arena rows, tokens, names, scratch; /* rows and tokens grow, each in a part of its own */
    struct row  *row;
    i64          row_count, eval_from; /* rows of data.eval_path come last */
    struct str  *class_names;          /* where labels are words, class_count of them */
    i64          class_count;
};

/* At most `context` tokens, in `memory`. */
static enum status encode(const struct texts_state *state, struct str text, struct arena scratch,
                          struct arena *memory, u32 **out, i32 *count, struct err *err)
{
    const struct bpe *b      = state->bpe;
    i64               around = b->before_count + b->after_count, most = state->context - around;
    u32              *ids = NEW(&scratch, u32, tokens_max(text.len));
    i64               bad = 0, got = 0;
    enum status       st = tokenize_text(state->coder, text, true, ids, &got, &bad, err);
    if (st) return st;
    got     = MIN(got, most);
    u32 *to = NEW(memory, u32, got + around);
    memcpy(to, b->before, (size_t)b->before_count * sizeof *to);
    memcpy(to + b->before_count, ids, (size_t)got * sizeof *to);
    memcpy(to + b->before_count + got, b->after, (size_t)b->after_count * sizeof *to);
    *out   = to;
    *count = (i32)(got + around);
    return STATUS_OK;
}

static enum status add_row(struct reading *r, struct str text, struct row *row, struct err *err)
{
    u32        *to;
    enum status st = encode(r->state, text, r->scratch, &r->tokens, &to, &row->count, err);
    if (!st) row->begin = to - r->state->tokens;
    return st;
}

static enum status read_file(struct reading *r, struct dataset *d, const struct data_config *config,
                             struct str path, struct err *err)
{
    struct source    source  = { 0 };
    struct str       names[] = { config->text, config->label }, values[2] = { { 0 } };
    struct text_rows rows;
    bool             csv = str_eq(data_kind(d->os, config), STR("csv"));
    enum status      st  = source_open(d->os, path, config, r->scratch, &source, err);
    if (!st) st = text_rows_init(&rows, path, source.bytes, csv, names, 2, r->scratch, err);
    while (!st) {
        struct arena before = r->scratch;
        st                  = text_rows_next(&rows, values, &r->scratch, err);
        struct str label    = st ? STR("") : str_trim(values[1]);
        if (!st && (!values[0].data || !label.len))
            st = err_set(err, STATUS_USAGE, "%.*s:%lld: there is no %s", STR_ARG(path),
                         (long long)rows.line, label.len ? "text" : "label");
        struct row *row = st ? NULL : NEW(&r->rows, struct row, 1);
        if (!st) st = add_row(r, values[0], row, err);
        if (!st) {
            row->name  = str_copy(&r->names, label);
            row->label = -1 - (i32)held_out_by_text(values[0],
                                                    config->held_out); /* until classes are known */
            r->row_count++;
        }
        r->scratch = before;
    }
    source_close(d->os, &source);
    return st == STATUS_NO ? STATUS_OK : st;
}

static int by_name(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int               order = memcmp(x->data, y->data, (size_t)MIN(x->len, y->len));
    return order ? order : x->len < y->len ? -1 : x->len > y->len;
}

static bool as_class(struct str name, i64 *out)
{
    return str_i64(name, out) && *out >= 0 && *out < class_max && name.data[0] != '+';
}

static i64 known_class(const struct data_config *config, struct str name)
{
    for (i64 i = 0; i < config->class_count; i++)
        if (str_eq(config->class_names[i], name)) return i;
    return -1;
}

/* As the model numbers them. NO: it does not know them all. */
static enum status number_as_known(struct reading *r, const struct data_config *config, bool *held,
                                   i64 *classes, struct err *err)
{
    for (i64 i = 0; i < r->row_count; i++) {
        struct str name = r->row[i].name;
        if (known_class(config, name) >= 0) continue;
        if (!config->classes_trained) return STATUS_NO;
        return err_set(err, STATUS_USAGE,
                       "the data has the label %.*s, which is none of the model's %lld classes",
                       (int)MIN(name.len, 80), name.data, (long long)config->class_count);
    }
    for (i64 i = 0; i < r->row_count; i++) {
        held[i]         = i < r->eval_from ? r->row[i].label == -2 : true;
        r->row[i].label = (i32)known_class(config, r->row[i].name);
    }
    r->class_names = NEW(&r->names, struct str, config->class_count);
    r->class_count = *classes = config->class_count;
    for (i64 i = 0; i < r->class_count; i++) r->class_names[i] = config->class_names[i];
    return STATUS_OK;
}

/* Numbers each row's class, and says how many there are; names that rows of training lack are refused. */
static enum status number_classes(struct reading *r, struct str path, bool *held, i64 *classes,
                                  struct err *err)
{
    struct arena scratch = r->scratch;
    struct str  *names   = NEW(&scratch, struct str, r->row_count + 1);
    i64          count   = 0, number;
    bool         numbers = true;
    for (i64 i = 0; i < r->eval_from; i++) names[i] = r->row[i].name;
    if (r->eval_from) qsort(names, (size_t)r->eval_from, sizeof *names, by_name);
    for (i64 i = 0; i < r->eval_from; i++)
        if (!count || !str_eq(names[count - 1], names[i])) names[count++] = names[i];
    for (i64 i = 0; i < count; i++) numbers = numbers && as_class(names[i], &number);
    *classes = numbers ? 0 : count;
    if (!numbers) {
        r->class_names = NEW(&r->names, struct str, count);
        r->class_count = count;
        memcpy(r->class_names, names, (size_t)count * sizeof *names);
    }
    if (count > class_max)
        return err_set(err, STATUS_USAGE,
                       "%.*s: more than %lld classes; is the label the right column?",
                       STR_ARG(path), (long long)class_max);
    if (count < 2) return refuse_one_class(path, r->eval_from, err);
    for (i64 i = 0; i < r->row_count; i++) {
        struct row *row = &r->row[i];
        held[i]         = i < r->eval_from ? row->label == -2 : true;
        struct str *at  = bsearch(&row->name, names, (size_t)count, sizeof *names, by_name);
        if (!at)
            return err_set(err, STATUS_USAGE,
                           "the held-out rows have the label %.*s, and those to train on do not",
                           (int)MIN(row->name.len, 80), row->name.data);
        row->label = (i32)(at - names);
        if (numbers && as_class(row->name, &number)) row->label = (i32)number;
        *classes = MAX(*classes, row->label + 1);
    }
    return STATUS_OK;
}

/* Rows of each split, in their order; at most `max`, taken at even distances. */
static void split_rows(struct dataset *d, struct reading *r, const bool *held, enum split s,
                       i64 max)
{
    struct row *to    = NEW(&r->rows, struct row, r->row_count + 1);
    i64         count = 0;
    for (i64 i = 0; i < r->row_count; i++)
        if (held[i] == (s == SPLIT_EVAL)) to[count++] = r->row[i];
    i64 kept = limit_count(count, max);
    for (i64 i = 0; i < kept; i++) to[i] = to[i * count / kept];
    r->state->row[s] = to;
    d->count[s]      = kept;
}

static enum status open_reading(struct dataset *d, const struct data_config *config,
                                struct reading *r, struct err *err)
{
    struct texts_state *state = r->state;
    if (!config->tokenizer.len)
        return err_set(err, STATUS_USAGE,
                       "data.text needs data.tokenizer, a folder with tokenizer.json");
    if (!config->label.len)
        return err_set(err, STATUS_USAGE, "data.text needs data.label, the column of classes");
    state->own = arena_open((i64)OWN_GIB << 30);
    r->scratch = arena_open((i64)ROW_GIB << 30);
    if (!state->own.begin || !r->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct bpe *bpe;
    enum status st = bpe_open(d->os, config->tokenizer, &state->own, &bpe, err);
    if (st) return st;
    state->bpe   = bpe;
    state->coder = bpe_coder_new(&state->own, bpe);
    if (bpe->before_count + bpe->after_count >= config->context)
        return err_set(
            err, STATUS_USAGE, "data.context=%lld leaves no room beside %lld special tokens",
            (long long)config->context, (long long)(bpe->before_count + bpe->after_count));
    r->rows       = arena_part(&state->own, (i64)32 << 30);
    r->names      = arena_part(&state->own, (i64)32 << 30);
    r->tokens     = arena_part(&state->own, (i64)128 << 30);
    state->tokens = NEW(&r->tokens, u32, 0);
    r->row        = NEW(&r->rows, struct row, 0);
    return STATUS_OK;
}

static enum status open_texts(struct dataset *d, const struct data_config *config,
                              struct arena *perm, struct err *err)
{
    struct texts_state *state = d->state = NEW(perm, struct texts_state, 1);
    struct reading      r                = { .state = state };
    i64                 classes          = 0;
    state->context                       = config->context;
    enum status st                       = check_context(config, err);
    if (!st) st = open_reading(d, config, &r, err);
    /* Else the model knows its classes. */
    bool files = !config->rows_only || (config->path.len && !config->class_count);
    if (!st && files) st = read_file(&r, d, config, config->path, err);
    r.eval_from = r.row_count;
    if (!st && files && config->eval_path.len)
        st = read_file(&r, d, config, config->eval_path, err);
    if (!st && files) {
        bool *held = NEW(&r.names, bool, r.row_count + 1);
        st = config->class_count ? number_as_known(&r, config, held, &classes, err) : STATUS_NO;
        if (st == STATUS_NO) st = number_classes(&r, config->path, held, &classes, err);
        for (i64 i = 0; !st && config->eval_path.len && i < r.eval_from; i++) held[i] = false;
        if (!st) split_rows(d, &r, held, SPLIT_TRAIN, config->samples);
        if (!st) split_rows(d, &r, held, SPLIT_EVAL, config->eval_samples);
    }
    if (r.scratch.begin) arena_close(&r.scratch);
    if (st) return st;
    struct type scalar = type_of(DT_I32, shape_of(0, NULL));
    dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(config->context)),
                     state->bpe->vocabulary);
    dataset_add_feed(d, STR("lens"), scalar, config->context + 1);
    d->class_names = files ? r.class_names : config->class_names;
    d->class_count = files ? r.class_count : config->class_count;
    dataset_add_feed(d, STR("y"), scalar, files ? classes : MAX(d->class_count, 2));
    return STATUS_OK;
}

static void put_tokens(const u32 *tokens, i64 count, i32 *x, i64 context)
{
    memset(x, 0, (size_t)context * sizeof *x);
    for (i64 k = 0; k < count; k++) x[k] = (i32)tokens[k];
}

static enum status row_text(struct rows *r, struct str line, void *const *to, struct err *err)
{
    const struct texts_state *state   = r->d->state;
    struct arena              scratch = r->scratch;
    struct arena memory = arena_part(&scratch, (state->context + 16) * (i64)sizeof(u32));
    u32         *tokens;
    i32          count;
    struct err   why;
    enum status  st = encode(state, line, scratch, &memory, &tokens, &count, &why);
    if (st) return rows_failed(r, st, &why, err);
    put_tokens(tokens, count, to[0], state->context);
    *(i32 *)to[1] = count;
    *(i32 *)to[2] = 0;
    return STATUS_OK;
}

static void fetch_texts(const struct dataset *d, enum split s, const i64 *index, i64 count,
                        void *const *to)
{
    const struct texts_state *state = d->state;
    i32                      *lens = to[1], *y = to[2];
    for (i64 i = 0; i < count; i++) {
        const struct row *row = &state->row[s][index[i]];
        put_tokens(state->tokens + row->begin, row->count, (i32 *)to[0] + i * state->context,
                   state->context);
        lens[i] = row->count;
        y[i]    = row->label;
    }
}

static i64 length_of(const struct dataset *d, enum split s, i64 number)
{
    const struct texts_state *state = d->state;
    return state->row[s][number].count;
}

static void close_texts(struct dataset *d)
{
    struct texts_state *state = d->state;
    if (state && state->own.begin) arena_close(&state->own);
}

const struct format format_labelled_texts = { .kind   = { "texts", 5 },
                                              .open   = open_texts,
                                              .fetch  = fetch_texts,
                                              .length = length_of,
                                              .row    = row_text,
                                              .close  = close_texts };
