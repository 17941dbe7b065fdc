/* tokenize.c - the pieces of text become tokens, segment by segment.
 *
 * A segment is written whole or not at all, under a name that says which run it is of and its place in
 * it, so a run that starts again passes over those that are there. At the end all of them become OUT in
 * one step (tokenize_keep.c). */
#include "base/pool.h"
#include "data/pieces.h"
#include "data/tokenize_int.h"
#include <string.h>

struct encoded {
    struct str tokens; /* as they are written */
    i64        bad;
    struct err err;
};

struct worker {
    struct arena      arena;
    struct bpe_coder *coder;
    char             *out; /* the tokens of its pieces of this segment */
    i64               room, used;
};

struct job {
    const struct bpe             *bpe;
    const struct tokenize_config *config;
    struct keep                   keep;
    struct pool                  *pool;
    struct worker                *workers;
    struct pieces                 pieces;
    struct encoded               *encoded; /* of each piece */
    struct tokenize_progress      progress;
};

/* ---- one piece ---- */

i64 tokens_max(i64 bytes)
{
    return bytes * 9 / 2 + 2; /* U+FFFD is three bytes, and half as many pieces may get a blank */
}

enum status tokenize_text(struct bpe_coder *c, struct str text, bool begins, u32 *to, i64 *count,
                          i64 *bad, struct err *err)
{
    if (utf8_valid(text)) return bpe_encode(c, text, begins, to, count, err);
    struct arena scratch = arena_open(3 * text.len + 64);
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "no memory for a text of %lld bytes",
                       (long long)text.len);
    struct str  sound = utf8_repair(text, NEW(&scratch, char, 3 * text.len), bad);
    enum status st    = bpe_encode(c, sound, begins, to, count, err);
    arena_close(&scratch);
    return st;
}

static void encode_piece(void *context, i64 block, i32 worker)
{
    struct job         *j      = context;
    struct worker      *w      = &j->workers[worker];
    const struct piece *p      = &j->pieces.piece[block];
    struct encoded     *e      = &j->encoded[block];
    u32                *tokens = (u32 *)(void *)(w->out + w->used);
    i64                 count = 0, width = token_bytes(j->bpe);
    ASSERT(w->used + tokens_max(p->text.len) * 4 <= w->room);
    *e = (struct encoded){ 0 };
    tokenize_text(w->coder, p->text, p->begins, tokens, &count, &e->bad, &e->err);
    if (p->ends && j->config->has_separator) tokens[count++] = j->config->separator;
    for (i64 i = 0; i < count && width == 2; i++) { /* in place: the narrow ones lie behind */
        u16 narrow = (u16)tokens[i];
        memcpy((char *)tokens + 2 * i, &narrow, sizeof narrow);
    }
    e->tokens = (struct str){ w->out + w->used, count * width };
    w->used += (count * width + 3) & ~(i64)3;
}

/* ---- a segment ---- */

static enum status worker_room(struct worker *w, const struct bpe *b, i64 bytes, i64 pieces,
                               struct err *err)
{
    i64 room =
        4 * (tokens_max(bytes) + 2 * pieces); /* address space; few pages of it are touched */
    w->used = 0;
    if (w->room >= room) return STATUS_OK;
    if (w->arena.begin) arena_close(&w->arena);
    *w = (struct worker){ .arena = arena_open(room + bpe_coder_bytes() + 64) };
    if (!w->arena.begin)
        return err_set(err, STATUS_WORLD, "the system refuses %lld MiB of address space",
                       (long long)(room >> 20));
    w->coder = bpe_coder_new(&w->arena, b);
    w->out   = (char *)NEW(&w->arena, u32, room / 4);
    w->room  = room;
    return STATUS_OK;
}

static enum status encode_segment(struct job *j, struct arena scratch, struct err *err)
{
    const struct pieces *p = &j->pieces;
    for (i32 i = 0; i < pool_threads(j->pool); i++) {
        enum status st = worker_room(&j->workers[i], j->bpe, p->bytes, p->count, err);
        if (st) return st;
    }
    pool_run(j->pool, p->count, encode_piece, j);
    enum status lost = os_maps_verify(err);
    if (lost) return lost;
    struct str *tokens = NEW(&scratch, struct str, p->count);
    for (i64 i = 0; i < p->count; i++) {
        const struct encoded *e = &j->encoded[i];
        if (e->err.status)
            return err_set(err, e->err.status, "%.*s: %s", STR_ARG(p->paths[p->piece[i].document]),
                           e->err.text);
        tokens[i] = e->tokens;
        j->keep.result->bad += e->bad;
    }
    return keep_segment(&j->keep, tokens, p->count, scratch, err);
}

static enum status do_segment(struct job *j, struct arena scratch, struct err *err)
{
    struct tokenize_result  *r        = j->keep.result;
    struct tokenize_listener listener = j->config->listener;
    bool                     there    = keep_has(&j->keep);
    enum status              st       = there ? STATUS_OK : encode_segment(j, scratch, err);
    if (st) return st;
    r->bytes += j->pieces.bytes;
    if (there) r->bytes_kept += j->pieces.bytes;
    j->progress.bytes  = r->bytes;
    j->progress.tokens = r->tokens - r->tokens_before;
    if (listener.on_progress && !listener.on_progress(listener.context, &j->progress))
        return err_set(err, STATUS_INTERRUPTED, "interrupted; run the same command to resume");
    return STATUS_OK;
}

static enum status do_all(struct job *j, struct arena *perm, struct err *err)
{
    const struct tokenize_config *config  = j->config;
    i32                           threads = MAX(config->threads, 1);
    enum status                   st      = STATUS_OK;
    j->pool                               = pool_open(perm, threads);
    j->workers                            = NEW(perm, struct worker, threads);
    j->encoded                            = NEW(perm, struct encoded, PIECES_MAX);
    pieces_init(&j->pieces, j->keep.os, config->paths, config->path_count, &j->bpe->cuts,
                j->bpe->classes, perm);
    if (config->piece_bytes) j->pieces.piece_bytes = config->piece_bytes;
    if (config->segment_bytes) j->pieces.segment_bytes = config->segment_bytes;
    while (!st && !(st = pieces_next(&j->pieces, err))) st = do_segment(j, *perm, err);
    pieces_release(&j->pieces);
    for (i32 i = 0; i < threads; i++)
        if (j->workers[i].arena.begin) arena_close(&j->workers[i].arena);
    pool_close(j->pool);
    return st == STATUS_NO ? STATUS_OK : st;
}

enum status tokenize_files(struct os *os, const struct bpe *b, const struct tokenize_config *config,
                           struct tokenize_result *out, struct err *err)
{
    static const i64 own_bytes = (i64)1 << 30; /* address space: names, pieces */
    struct arena     perm      = arena_open(own_bytes);
    struct job       j         = { .bpe = b, .config = config, .keep = { .result = out } };
    if (!perm.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    *out           = (struct tokenize_result){ .documents = config->path_count };
    enum status st = keep_open(&j.keep, os, b, config, &j.progress.bytes_all, &perm, err);
    if (!st && !out->was_done) {
        st = do_all(&j, &perm, err);
        if (!st) st = keep_publish(&j.keep, perm, err);
    }
    keep_close(&j.keep);
    arena_close(&perm);
    return st;
}
