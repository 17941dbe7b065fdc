/* use_next.c - the next token of texts that are continued. */
#include "train/use_int.h"
#include <math.h>
#include <string.h>

enum {
    ROWS_STEPPED = 4
}; /* a text of up to so many more tokens is read one by one, which is faster */

static void next_whole(struct use *u, const struct use_text *text, f64 *logits)
{
    i32 at = (i32)text->count - 1;
    session_put(&u->s, STR("x"), text->tokens, text->count * (i64)sizeof *text->tokens);
    session_put(&u->s, STR("at"), &at, sizeof at);
    u->s.backend->table->run(u->s.backend, u->s.set->programs[PROGRAM_EVAL]);
    session_get_numbers(&u->s, STR("logits"), logits, u->vocabulary);
}

struct new_rows { /* one token each */
    i32 *x, *sequence, *place;
    i32 *at; /* of each sequence: the row of its last token */
    i64  count, room;
};

static struct new_rows rows_new(struct arena *perm, i64 room, i64 sequences)
{
    struct new_rows r = { .room = room };
    r.x               = NEW(perm, i32, room);
    r.sequence        = NEW(perm, i32, room);
    r.place           = NEW(perm, i32, room);
    r.at              = NEW(perm, i32, sequences);
    return r;
}

/* Most steps differ from the one before in tokens and places alone. */
static void put_if_new(struct use *u, struct str name, i32 *last, const i32 *now, i64 count)
{
    if (!memcmp(last, now, (size_t)count * sizeof *now)) return;
    memcpy(last, now, (size_t)count * sizeof *now);
    session_put(&u->s, name, now, count * (i64)sizeof *now);
}

static void rows_run(struct use *u, enum program_id id, struct new_rows *r)
{
    for (i64 i = r->count; i < r->room; i++) r->x[i] = 0, r->sequence[i] = -1, r->place[i] = 0;
    session_put(&u->s, STR("x"), r->x, r->room * (i64)sizeof *r->x);
    session_put(&u->s, STR("place"), r->place, r->room * (i64)sizeof *r->x);
    put_if_new(u, STR("sequence"), u->last_sequence, r->sequence, r->room);
    put_if_new(u, STR("at"), u->last_at, r->at, u->sequences);
    u->s.backend->table->run(u->s.backend, u->s.set->programs[id]);
    r->count = 0;
}

/* As many tokens of the texts as there is room for, those of a text in their order. True: some text is complete. */
static bool rows_fill(struct use *u, const struct use_text *texts, i64 each, struct new_rows *r,
                      bool *complete)
{
    bool any = false;
    for (i64 i = 0; i < u->sequences; i++) {
        i64 left = texts[i].count - u->seen[i], take = MIN(MIN(left, each), r->room - r->count);
        complete[i] = left > 0 && take == left;
        any |= complete[i];
        for (i64 k = 0; k < take; k++, r->count++) {
            r->x[r->count]        = texts[i].tokens[u->seen[i]];
            r->place[r->count]    = (i32)u->seen[i]++;
            r->sequence[r->count] = (i32)i;
        }
        if (complete[i]) r->at[i] = (i32)r->count - 1;
    }
    return any;
}

/* The first of the largest; 0 where none is. Sixteen at a time: a processor compares as many at once. */
static i64 likeliest(const f32 *logits, i64 count)
{
    enum { LANES = 16 };
    f32 top[LANES], most = -INFINITY;
    i64 whole = count / LANES * LANES;
    for (i32 k = 0; k < LANES; k++) top[k] = -INFINITY;
    for (i64 i = 0; i < whole; i += LANES)
        for (i32 k = 0; k < LANES; k++) top[k] = logits[i + k] > top[k] ? logits[i + k] : top[k];
    for (i32 k = 0; k < LANES; k++) most = top[k] > most ? top[k] : most;
    for (i64 i = whole; i < count; i++) most = logits[i] > most ? logits[i] : most;
    for (i64 i = 0; i < count; i++)
        if (logits[i] >= most) return i;
    return 0;
}

static i64 likeliest_wide(const f64 *logits, i64 count)
{
    i64 best = 0;
    for (i64 i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

struct answers { /* of each sequence that is complete: one of the two */
    f64 *logits;
    i32 *tokens;
};

static void take_answers(struct use *u, const bool *complete, struct answers to)
{
    i64  size = u->vocabulary, all = u->sequences * size;
    bool wide    = program_set_find(u->s.set, STR("logits"))->type.dtype == DT_F64;
    f64 *numbers = u->numbers;
    if (to.logits || wide) session_get_numbers(&u->s, STR("logits"), numbers, all);
    else session_get(&u->s, STR("logits"), numbers, all * (i64)sizeof(f32));
    for (i64 i = 0; i < u->sequences; i++) {
        if (!complete[i]) continue;
        if (to.logits) memcpy(to.logits + i * size, numbers + i * size, (size_t)size * sizeof(f64));
        else if (!wide)
            to.tokens[i] = (i32)likeliest((const f32 *)(const void *)numbers + i * size, size);
        else to.tokens[i] = (i32)likeliest_wide(numbers + i * size, size);
    }
}

static void next_cached(struct use *u, const struct use_text *texts, struct answers to)
{
    struct arena    scratch  = u->s.scratch;
    bool           *complete = NEW(&scratch, bool, u->sequences);
    struct new_rows one      = rows_new(&scratch, u->sequences, u->sequences);
    struct new_rows many     = rows_new(&scratch, u->rows, u->sequences);
    for (;;) {
        i64 most = 0;
        for (i64 i = 0; i < u->sequences; i++) most = MAX(most, texts[i].count - u->seen[i]);
        if (!most) return;
        bool             steps = most <= ROWS_STEPPED;
        struct new_rows *r     = steps ? &one : &many;
        bool             done  = rows_fill(u, texts, steps ? 1 : u->rows, r, complete);
        rows_run(u, steps ? PROGRAM_EVAL_LAST : PROGRAM_EVAL, r);
        if (done) take_answers(u, complete, to);
    }
}

static void check_texts(const struct use *u, const struct use_text *texts)
{
    for (i64 i = 0; i < u->sequences; i++)
        ASSERT(!texts[i].count || (texts[i].count > u->seen[i] && texts[i].count <= u->length));
}

void use_next(struct use *u, const struct use_text *texts, f64 *logits)
{
    check_texts(u, texts);
    if (u->rows) {
        next_cached(u, texts, (struct answers){ .logits = logits });
        return;
    }
    for (i64 i = 0; i < u->sequences; i++)
        if (texts[i].count) next_whole(u, &texts[i], logits + i * u->vocabulary);
}

void use_likeliest(struct use *u, const struct use_text *texts, i32 *tokens)
{
    struct arena scratch = u->s.scratch;
    check_texts(u, texts);
    if (u->rows) {
        next_cached(u, texts, (struct answers){ .tokens = tokens });
        return;
    }
    f64 *logits = NEW(&scratch, f64, u->vocabulary);
    for (i64 i = 0; i < u->sequences; i++) {
        if (!texts[i].count) continue;
        next_whole(u, &texts[i], logits);
        tokens[i] = (i32)likeliest_wide(logits, u->vocabulary);
    }
}
