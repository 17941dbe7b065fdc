/* bpe_train.c - words of files counted on all cores, each thread in a table of its own, and put together. */
#include "data/bpe_train.h"
#include "base/pool.h"
#include "data/pieces.h"
#include <string.h>

static const i64 table_arena_bytes = (i64)32 << 30; /* address space */

struct counter { /* one thread's words */
    struct arena      arena;
    struct bpe_count *slots; /* open addressing; word.data NULL: empty */
    i64               slot_count, used;
    bool              full;
};

struct job {
    const u8       *classes;
    struct pieces   pieces;
    struct counter *counters;
};

static bool has_room(const struct counter *c, i64 bytes)
{
    return bytes <= c->arena.end - c->arena.begin - 64;
}

static struct bpe_count *slot_of(const struct counter *c, struct str word)
{
    u64 mask = (u64)c->slot_count - 1, i = str_hash(word) & mask;
    while (c->slots[i].word.data && !str_eq(c->slots[i].word, word)) i = (i + 1) & mask;
    return &c->slots[i];
}

static void counter_grow(struct counter *c)
{
    struct counter old   = *c;
    i64            count = MAX(2 * c->slot_count, 1 << 16);
    c->full              = !has_room(c, count * (i64)sizeof *c->slots);
    if (c->full) return;
    c->slots      = NEW(&c->arena, struct bpe_count, count);
    c->slot_count = count;
    for (i64 i = 0; i < old.slot_count; i++)
        if (old.slots[i].word.data) *slot_of(c, old.slots[i].word) = old.slots[i];
}

static void count_word(struct counter *c, struct str word, i64 times)
{
    if (2 * c->used >= c->slot_count) counter_grow(c);
    if (c->full) return;
    struct bpe_count *s = slot_of(c, word);
    s->count += times;
    if (s->word.data) return;
    c->full = !has_room(c, word.len + 1);
    if (c->full) return;
    s->word = str_copy(&c->arena, word);
    c->used++;
}

static void count_piece(void *context, i64 block, i32 worker)
{
    struct job     *j    = context;
    struct counter *c    = &j->counters[worker];
    struct str      text = j->pieces.piece[block].text;
    struct arena    own  = { 0 };
    i64             bad  = 0;
    if (!utf8_valid(text)) {
        own = arena_open(3 * text.len + 64);
        if (!own.begin) c->full = true;
        else text = utf8_repair(text, NEW(&own, char, 3 * text.len), &bad);
    }
    for (i64 at = 0, end; at < text.len && !c->full; at = end) {
        end = presplit_end(PRESPLIT_GPT2, j->classes, text, at);
        count_word(c, str_sub(text, at, end), 1);
    }
    if (own.begin) arena_close(&own);
}

static enum status count_files(struct job *j, struct pool *pool,
                               const struct bpe_train_config *config, struct err *err)
{
    struct tokenize_progress p  = { .tokens_all = config->vocabulary };
    enum status              st = STATUS_OK;
    for (i64 i = 0; i < config->path_count && !st; i++) {
        struct os_stat stat;
        st = j->pieces.os->stat(j->pieces.os, config->paths[i], &stat, err);
        if (!st) p.bytes_all += stat.bytes;
    }
    while (!st && !(st = pieces_next(&j->pieces, err))) {
        pool_run(pool, j->pieces.count, count_piece, j);
        p.bytes += j->pieces.bytes;
        if (config->listener.on_progress &&
            !config->listener.on_progress(config->listener.context, &p))
            st = err_set(err, STATUS_INTERRUPTED, "interrupted; nothing was written");
    }
    return st == STATUS_NO ? STATUS_OK : st;
}

/* All into the first one's table; its words become a list. */
static enum status put_together(struct job *j, i32 threads, struct bpe_count **words, i64 *count,
                                struct err *err)
{
    struct counter *all = &j->counters[0];
    for (i32 t = 1; t < threads; t++) {
        const struct counter *c = &j->counters[t];
        all->full |= c->full;
        for (i64 i = 0; i < c->slot_count && !all->full; i++)
            if (c->slots[i].word.data) count_word(all, c->slots[i].word, c->slots[i].count);
    }
    if (all->full)
        return err_set(err, STATUS_USAGE,
                       "too many different words for the memory; train on a sample");
    *words = all->slots;
    *count = 0;
    for (i64 i = 0; i < all->slot_count; i++)
        if (all->slots[i].word.data) (*words)[(*count)++] = all->slots[i];
    return STATUS_OK;
}

enum status bpe_train(struct os *os, const struct bpe_train_config *config, struct arena *memory,
                      struct bpe_learned *out, struct err *err)
{
    static const struct presplit_cuts cuts    = { true, true };
    i32                               threads = MAX(config->threads, 1);
    struct job                        j       = { .classes = char_classes(memory) };
    struct bpe_count                 *words   = NULL;
    i64                               count   = 0;
    enum status                       st      = bpe_train_check(config, err);
    struct pool                      *pool    = pool_open(memory, threads);
    if (!st && config->folder.len) st = os->make_dir(os, config->folder, err);
    j.counters = NEW(memory, struct counter, threads);
    pieces_init(&j.pieces, os, config->paths, config->path_count, &cuts, j.classes, memory);
    for (i32 t = 0; t < threads && !st; t++) {
        j.counters[t].arena = arena_open(table_arena_bytes);
        if (!j.counters[t].arena.begin)
            st = err_set(err, STATUS_WORLD, "the system refuses address space for %d threads",
                         threads);
    }
    if (!st) st = count_files(&j, pool, config, err);
    if (!st) st = os_maps_verify(err);
    if (!st) st = put_together(&j, threads, &words, &count, err);
    if (!st) st = bpe_learn(words, count, config, memory, out, err);
    pieces_release(&j.pieces);
    for (i32 t = 0; t < threads; t++)
        if (j.counters[t].arena.begin) arena_close(&j.counters[t].arena);
    pool_close(pool);
    return st;
}
