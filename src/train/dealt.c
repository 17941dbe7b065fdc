/* dealt.c - parts of tensors and of optimiser state over the wire, some megabytes at a time. */
#include "train/dealt.h"
#include <string.h>

static i64 parts_of(const struct session *s)
{
    return s->ranks && s->config.shard == SHARD_STATE ? s->config.places : 1;
}

bool session_deals(const struct session *s)
{
    return s->ranks && s->config.shard == SHARD_ALL && s->config.places > 1;
}

bool session_calls(const struct session *s)
{
    const struct program *p = s->set->programs[PROGRAM_TRAIN];
    for (i32 i = 0; s->ranks && p && i < p->graph->node_count; i++)
        if (op_info(p->graph->nodes[i].op)->attrs & A_ranks) return true;
    return session_deals(s);
}

bool session_shards(const struct session *s) { return parts_of(s) > 1 || session_deals(s); }

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

/* The part of one place, which lies at `offset` of an arena and at `at` of the whole: from the rank of rank 0's machine
 * that has it, or to the one of every machine. */
static enum status carry(struct session *s, enum dealt_way way, i32 place, i64 offset, u8 *at,
                         i64 bytes, struct err *err)
{
    bool            copied  = s->config.places < s->ranks->count;
    i32             holder  = copied ? ranks_holder(s->ranks, place) : place;
    struct backend *b       = s->backend;
    struct arena    scratch = s->scratch;
    u8             *piece   = NEW(&scratch, u8, MIN(bytes, RANKS_CHUNK_BYTES));
    enum status     st      = STATUS_OK;
    for (i64 done = 0; !st && done < bytes; done += RANKS_CHUNK_BYTES) {
        i64 now = MIN(bytes - done, RANKS_CHUNK_BYTES);
        if (way == DEALT_TO_RANK_0 && s->ranks->rank == holder)
            b->table->wait(b, b->table->get(b, offset + done, piece, now));
        if (way == DEALT_FROM_RANK_0 && at) memcpy(piece, at + done, (size_t)now);
        st = ranks_spread(s->ranks, way == DEALT_TO_RANK_0 ? holder : 0, piece, now);
        if (st) return err_set(err, st, "%s", s->ranks->failed.text);
        if (way == DEALT_TO_RANK_0 && at) memcpy(at + done, piece, (size_t)now);
        if (way == DEALT_FROM_RANK_0 && s->config.place == place)
            b->table->wait(b, b->table->put(b, offset + done, piece, now));
    }
    return st;
}

static enum status carry_all(struct session *s, const struct dealt *d, enum dealt_way way,
                             u8 *whole, struct err *err)
{
    enum status st     = STATUS_OK;
    i64         offset = d->state->offset;
    for (i32 group = 0; group < 2; group++) {
        i64 part = d->bytes[group] / parts_of(s);
        for (i32 place = 0; !st && place < parts_of(s); place++) {
            u8 *at = whole ? whole + (group ? d->bytes[0] : 0) + place * part : NULL;
            st     = carry(s, way, place, offset, at, part, err);
        }
        offset += part;
    }
    if (way == DEALT_FROM_RANK_0) s->backend->table->mark(s->backend);
    return st;
}

/* --- tensor by tensor --- */

const struct persistent *dealt_param(const struct session *s, const struct persistent *t)
{
    if (t->kind == VALUE_PARAM) return t->dealt ? t : NULL;
    if (t->kind != VALUE_GRAD || t->sparse_rows) return NULL;
    struct str               name = str_sub(t->name, 0, t->name.len - STR(".grad").len);
    const struct persistent *p    = program_set_find(s->set, name);
    return p && p->dealt ? p : NULL;
}

enum status dealt_tensor(struct session *s, enum dealt_way way, i64 offset,
                         const struct persistent *param, u8 *whole, struct err *err)
{
    i64         all = type_bytes(persistent_type(param)), part = type_bytes(param->type);
    enum status st = STATUS_OK;
    for (i32 place = 0; !st && place < s->config.places && place * part < all; place++) {
        u8 *at = whole ? whole + place * part : NULL;
        st     = carry(s, way, place, offset, at, MIN(part, all - place * part), err);
    }
    if (way == DEALT_FROM_RANK_0) s->backend->table->mark(s->backend);
    return st;
}

/* Of a state over all parameters that are dealt out: where the first of these begins; -1: it is another. */
static i64 state_begin(const struct session *s, const struct persistent *state)
{
    i64 begin = INT64_MAX, end = 0, align = s->target.align_bytes;
    if (state->kind != VALUE_STATE || state->sparse_rows) return -1;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (!p->dealt) continue;
        begin = MIN(begin, p->offset);
        end   = MAX(end, p->offset + type_bytes(p->type));
    }
    bool muon = str_starts(state->name, STR("muon."));
    return !muon && end && type_bytes(state->type) == (end - begin + align - 1) / align * align
               ? begin
               : -1;
}

bool dealt_by_owner(const struct session *s, const struct persistent *t)
{
    return session_shards(s) && t->kind == VALUE_STATE && str_eq(t->name, STR("muon.momentum"));
}

bool dealt_by_tensor(const struct session *s, const struct persistent *t)
{
    return dealt_by_owner(s, t) || (session_deals(s) && (t->dealt || state_begin(s, t) >= 0));
}

static bool is_owned(const struct persistent *p)
{
    return p->kind == VALUE_PARAM && p->hidden && !p->frozen && !p->sparse_rows;
}

/* Of a state that the ranks have for hidden matrices of their own (compile/layout.c): each from its owner, or to it. */
static enum status dealt_matrices(struct session *s, enum dealt_way way,
                                  const struct persistent *state, dealt_place *at, void *context,
                                  struct err *err)
{
    const struct program_set *set   = s->set;
    i64                       align = s->target.align_bytes, first = INT64_MAX, end = 0, begin = 0;
    enum status               st   = STATUS_OK;
    i32                       last = -1;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p = &set->persistents[i];
        if (!is_owned(p)) continue;
        first = MIN(first, p->offset);
        end   = MAX(end, p->offset + (type_bytes(p->type) + align - 1) / align * align);
    }
    for (i32 i = 0; !st && i < set->persistent_count; i++) { /* in the order of the arena */
        const struct persistent *p = &set->persistents[i];
        if (!is_owned(p)) continue;
        i64 bytes = type_bytes(p->type);
        i32 owner = ranks_owner(p->offset - first, bytes, end - first, s->config.places);
        if (owner != last) begin = p->offset;
        last = owner;
        st   = carry(s, way, owner, state->offset + p->offset - begin,
                   at ? at(context, state, p) : NULL, bytes, err);
    }
    if (way == DEALT_FROM_RANK_0) s->backend->table->mark(s->backend);
    return st;
}

enum status dealt_tensors(struct session *s, enum dealt_way way, dealt_place *at, void *context,
                          struct err *err)
{
    const struct program_set *set = s->set;
    enum status               st  = STATUS_OK;
    for (i32 i = 0; !st && i < set->persistent_count; i++) {
        const struct persistent *t     = &set->persistents[i];
        i64                      begin = state_begin(s, t);
        if (t->dealt)
            st = dealt_tensor(s, way, t->offset, t, at ? at(context, NULL, t) : NULL, err);
        if (dealt_by_owner(s, t)) st = dealt_matrices(s, way, t, at, context, err);
        for (i32 k = 0; begin >= 0 && !st && k < set->persistent_count; k++) {
            const struct persistent *p = &set->persistents[k];
            if (p->dealt)
                st = dealt_tensor(s, way, t->offset + p->offset - begin, p,
                                  at ? at(context, t, p) : NULL, err);
        }
    }
    return st;
}

enum status dealt_collect(struct session *s, const struct dealt *d, u8 *whole, struct err *err)
{
    return carry_all(s, d, DEALT_TO_RANK_0, whole, err);
}

enum status dealt_hand_out(struct session *s, const struct dealt *d, const u8 *whole,
                           struct err *err)
{
    return carry_all(s, d, DEALT_FROM_RANK_0, (u8 *)(uintptr_t)whole, err);
}

/* --- when --- */

struct order {
    i32 word, tensor; /* which persistent */
};

static enum status say(struct session *s, struct order *o, struct err *err)
{
    return session_shards(s) ? together_say(s, o, sizeof *o, err) : STATUS_OK;
}

enum status dealt_say(struct session *s, enum dealt_word word, struct err *err)
{
    return say(s, &(struct order){ .word = (i32)word }, err);
}

static enum status give(struct session *s, i32 tensor, u8 *whole, struct err *err)
{
    const struct persistent *t = &s->set->persistents[tensor];
    return dealt_tensor(s, DEALT_TO_RANK_0, t->offset, dealt_param(s, t), whole, err);
}

enum status dealt_fetch(struct session *s, const struct persistent *t, u8 *whole, struct err *err)
{
    struct order o  = { DEALT_TENSOR, (i32)(t - s->set->persistents) };
    enum status  st = say(s, &o, err);
    return st ? st : give(s, o.tensor, whole, err);
}

static enum status give_all(struct session *s, struct err *err)
{
    struct dealt d;
    enum status  st = STATUS_OK;
    st              = dealt_tensors(s, DEALT_TO_RANK_0, NULL, NULL, err);
    for (i32 i = 0; !st && i < s->set->persistent_count; i++)
        if (dealt_is(s, &s->set->persistents[i], &d)) st = dealt_collect(s, &d, NULL, err);
    return st;
}

enum status dealt_follow(struct session *s, struct err *err)
{
    struct order o  = { 0 };
    enum status  st = STATUS_OK;
    while (!st && session_shards(s)) {
        st = say(s, &o, err);
        if (st || o.word == DEALT_GO_ON) break;
        st = o.word == DEALT_TENSOR ? give(s, o.tensor, NULL, err) : give_all(s, err);
    }
    return st;
}
