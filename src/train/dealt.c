/* dealt.c - parts of optimiser state over the wire, some megabytes at a time. */
#include "train/dealt.h"
#include <string.h>

static i64 parts_of(const struct session *s)
{
    return s->ranks && s->config.shard == SHARD_STATE ? s->ranks->count : 1;
}

i64 dealt_bytes(const struct dealt *d) { return d->bytes[0] + d->bytes[1]; }

/* The parameters of one of the two groups: from where on, and how many bytes with what rounds them up. */
static i64 group_span(const struct session *s, bool decay, i64 *begin)
{
    i64 end = 0, unit = s->target.align_bytes * parts_of(s);
    *begin = INT64_MAX;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (p->kind != VALUE_PARAM || p->frozen || p->hidden || p->sparse_rows || p->decay != decay)
            continue;
        *begin = MIN(*begin, p->offset);
        end    = MAX(end, p->offset + type_bytes(p->type));
    }
    return end ? (end - *begin + unit - 1) / unit * unit : 0;
}

bool dealt_is(const struct session *s, const struct persistent *t, struct dealt *out)
{
    i64 first, second;
    *out          = (struct dealt){ .state = t };
    out->bytes[0] = group_span(s, true, &first);
    out->bytes[1] = group_span(s, false, &second);
    out->begin    = MIN(first, second);
    bool own      = t->kind != VALUE_STATE || t->sparse_rows || str_starts(t->name, STR("muon."));
    return parts_of(s) > 1 && !own && type_bytes(t->type) * parts_of(s) == dealt_bytes(out);
}

/* --- over the wire --- */

enum way { TO_RANK_0, FROM_RANK_0 };

/* One rank's part of one group, which lies at `offset` of its arena and at `at` of the whole. */
static enum status carry(struct session *s, enum way way, i32 rank, i64 offset, u8 *at, i64 bytes,
                         struct err *err)
{
    struct backend *b       = s->backend;
    struct arena    scratch = s->scratch;
    u8             *piece   = NEW(&scratch, u8, MIN(bytes, RANKS_CHUNK_BYTES));
    enum status     st      = STATUS_OK;
    for (i64 done = 0; !st && done < bytes; done += RANKS_CHUNK_BYTES) {
        i64 now = MIN(bytes - done, RANKS_CHUNK_BYTES);
        if (way == TO_RANK_0 && s->ranks->rank == rank)
            b->table->wait(b, b->table->get(b, offset + done, piece, now));
        if (way == FROM_RANK_0 && at) memcpy(piece, at + done, (size_t)now);
        st = ranks_spread(s->ranks, way == TO_RANK_0 ? rank : 0, piece, now);
        if (st) return err_set(err, st, "%s", s->ranks->failed.text);
        if (way == TO_RANK_0 && at) memcpy(at + done, piece, (size_t)now);
        if (way == FROM_RANK_0 && s->ranks->rank == rank)
            b->table->wait(b, b->table->put(b, offset + done, piece, now));
    }
    return st;
}

static enum status carry_all(struct session *s, const struct dealt *d, enum way way, u8 *whole,
                             struct err *err)
{
    enum status st     = STATUS_OK;
    i64         offset = d->state->offset;
    for (i32 group = 0; group < 2; group++) {
        i64 part = d->bytes[group] / s->ranks->count;
        for (i32 rank = 0; !st && rank < s->ranks->count; rank++) {
            u8 *at = whole ? whole + (group ? d->bytes[0] : 0) + rank * part : NULL;
            st     = carry(s, way, rank, offset, at, part, err);
        }
        offset += part;
    }
    if (way == FROM_RANK_0) s->backend->table->mark(s->backend);
    return st;
}

enum status dealt_collect(struct session *s, const struct dealt *d, u8 *whole, struct err *err)
{
    return carry_all(s, d, TO_RANK_0, whole, err);
}

enum status dealt_hand_out(struct session *s, const struct dealt *d, const u8 *whole,
                           struct err *err)
{
    return carry_all(s, d, FROM_RANK_0, (u8 *)(uintptr_t)whole, err);
}

/* --- when --- */

enum status dealt_say(struct session *s, enum dealt_word word, struct err *err)
{
    i32 said = (i32)word;
    return parts_of(s) > 1 ? together_say(s, &said, sizeof said, err) : STATUS_OK;
}

enum status dealt_follow(struct session *s, struct err *err)
{
    struct dealt d;
    i32          said = DEALT_COLLECT;
    enum status  st   = STATUS_OK;
    while (!st && parts_of(s) > 1) {
        st = together_say(s, &said, sizeof said, err);
        if (st || said == DEALT_GO_ON) break;
        for (i32 i = 0; !st && i < s->set->persistent_count; i++)
            if (dealt_is(s, &s->set->persistents[i], &d)) st = dealt_collect(s, &d, NULL, err);
    }
    return st;
}
