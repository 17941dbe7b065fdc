/* labelled_lines.c - several text files, one a class: a sample is a line, its class the file it is from.
 *
 * Feeds: "x" i32[context], the line's bytes + 1, so that 0 is padding; "lens" i32, how many there
 * are; "y" i32, the number of the file. Empty lines are skipped, longer ones are cut at `context`.
 *
 * A line is held out by a hash of its text: every class gives about the same share, a line that
 * comes twice is never on both sides, and adding lines moves none of the others. */
#include "base/rng.h"
#include "data/data_int.h"
#include "data/rows_int.h"

static const i64 lines_max = 1 << 30;

struct line {
    struct str text;
    i32        label;
};

struct lines_state {
    struct source source[DATA_FILES_MAX];
    struct arena  own; /* holds the lines */
    struct line  *line[SPLIT_COUNT];
    i64           context;
};

/* FNV's upper bits hardly move for short texts, so they are stirred. */
bool held_out_by_text(struct str text, f64 share)
{
    return (f64)(rng_mix(str_hash(text)) >> 11) * 0x1p-53 < share;
}

/* The next line that is not empty, without its end. */
static bool next_line(struct str *rest, struct str *line)
{
    while (str_cut(rest, '\n', line)) {
        if (str_ends(*line, STR("\r"))) line->len--;
        if (line->len) return true;
    }
    return false;
}

/* Counts the lines of each split; once there is room for them, puts them there too. */
static void each_line(struct dataset *d, const struct data_config *config)
{
    struct lines_state *state = d->state;
    for (i32 s = 0; s < SPLIT_COUNT; s++) d->count[s] = 0;
    for (i64 f = 0; f < config->file_count; f++) {
        struct str rest = state->source[f].bytes, line;
        while (next_line(&rest, &line)) {
            enum split s = held_out_by_text(line, config->held_out) ? SPLIT_EVAL : SPLIT_TRAIN;
            if (state->own.begin) state->line[s][d->count[s]] = (struct line){ line, (i32)f };
            d->count[s]++;
        }
    }
}

/* At most `max` lines, taken at even distances: the first ones would all be of one class. */
static void thin(struct line *line, i64 *count, i64 max)
{
    i64 kept = limit_count(*count, max);
    for (i64 i = 0; i < kept; i++) line[i] = line[i * *count / kept]; /* lines_max squared fits */
    *count = kept;
}

/* Of a file: its name without folder and ending. */
static struct str class_name(struct str path)
{
    i64 from = path.len, to = path.len;
    while (from > 0 && path.data[from - 1] != '/') from--;
    for (i64 i = from + 1; i < path.len; i++)
        if (path.data[i] == '.') to = i;
    return str_sub(path, from, to);
}

static void add_names(struct dataset *d, const struct data_config *config, struct arena *perm)
{
    struct str *names = NEW(perm, struct str, config->file_count);
    for (i64 i = 0; i < config->file_count; i++) {
        names[i] = class_name(config->files[i]);
        for (i64 k = 0; k < i; k++)
            if (str_eq(names[i], names[k])) return; /* they would mean two */
    }
    d->class_names = names;
    d->class_count = config->file_count;
}

static void add_feeds(struct dataset *d, const struct data_config *config)
{
    struct type scalar = type_of(DT_I32, shape_of(0, NULL));
    dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(config->context)), 257);
    dataset_add_feed(d, STR("lens"), scalar, config->context + 1);
    dataset_add_feed(d, STR("y"), scalar, config->file_count);
}

static enum status open_lines(struct dataset *d, const struct data_config *config,
                              struct arena *perm, struct err *err)
{
    struct lines_state *state = d->state = NEW(perm, struct lines_state, 1);
    enum status         st               = check_context(config, err);
    state->context                       = config->context;
    if (!st && (config->file_count < 2 || config->file_count > DATA_FILES_MAX))
        st = err_set(
            err, STATUS_USAGE, "data.files has %lld file%s; lines need 2 to %d, one per class",
            (long long)config->file_count, config->file_count == 1 ? "" : "s", DATA_FILES_MAX);
    if (!st && config->eval_path.len)
        st = err_set(err, STATUS_USAGE,
                     "data.kind=lines does not use data.eval_path; set data.held_out");
    if (!st) add_feeds(d, config);
    if (!st) add_names(d, config, perm);
    if (!st && config->rows_only) return STATUS_OK;
    for (i64 f = 0; f < config->file_count && !st; f++) {
        st = source_open(d->os, config->files[f], config, *perm, &state->source[f], err);
        struct str rest = state->source[f].bytes, line;
        if (!st && !next_line(&rest, &line))
            st = err_set(err, STATUS_USAGE,
                         "%.*s: no line with text; its class would have no sample",
                         STR_ARG(config->files[f]));
    }
    if (st) return st;

    each_line(d, config);
    i64 lines = d->count[SPLIT_TRAIN] + d->count[SPLIT_EVAL];
    if (lines <= lines_max) state->own = arena_open((lines + 1) * (i64)sizeof(struct line));
    if (!state->own.begin)
        return err_set(err, STATUS_WORLD, "%lld lines do not fit in memory", (long long)lines);
    for (i32 s = 0; s < SPLIT_COUNT; s++)
        state->line[s] = NEW(&state->own, struct line, d->count[s]);
    each_line(d, config);
    thin(state->line[SPLIT_TRAIN], &d->count[SPLIT_TRAIN], config->samples);
    thin(state->line[SPLIT_EVAL], &d->count[SPLIT_EVAL], config->eval_samples);
    return STATUS_OK;
}

static i32 put_bytes(struct str text, i32 *x, i64 context)
{
    i64 len = MIN(text.len, context);
    for (i64 k = 0; k < len; k++) x[k] = (u8)text.data[k] + 1;
    for (i64 k = len; k < context; k++) x[k] = 0;
    return (i32)len;
}

static void fetch_lines(const struct dataset *d, enum split s, const i64 *index, i64 count,
                        void *const *to)
{
    const struct lines_state *state   = d->state;
    i64                       context = state->context;
    i32                      *lens = to[1], *y = to[2];
    for (i64 i = 0; i < count; i++) {
        const struct line *line = &state->line[s][index[i]];
        lens[i]                 = put_bytes(line->text, (i32 *)to[0] + i * context, context);
        y[i]                    = line->label;
    }
}

static enum status row_line(struct rows *r, struct str line, void *const *to, struct err *err)
{
    const struct lines_state *state = r->d->state;
    (void)err;
    *(i32 *)to[1] = put_bytes(line, to[0], state->context);
    *(i32 *)to[2] = 0;
    return STATUS_OK;
}

static i64 length_of_line(const struct dataset *d, enum split s, i64 number)
{
    const struct lines_state *state = d->state;
    return MIN(state->line[s][number].text.len, state->context);
}

static void close_lines(struct dataset *d)
{
    struct lines_state *state = d->state;
    if (!state) return;
    for (i64 f = 0; f < DATA_FILES_MAX; f++) source_close(d->os, &state->source[f]);
    if (state->own.begin) arena_close(&state->own);
}

const struct format format_lines = { .kind   = { "lines", 5 },
                                     .open   = open_lines,
                                     .fetch  = fetch_lines,
                                     .length = length_of_line,
                                     .row    = row_line,
                                     .close  = close_lines };
