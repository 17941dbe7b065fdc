/* dealt.c - which ranges of which tensors a rank has, and these over the wire, some megabytes at a time. */
#include "train/dealt.h"
#include <string.h>

/* --- who has what --- */

i32 dealt_parts(const struct session *s) { return s->ranks ? s->config.places : 1; }
i32 dealt_part(const struct session *s) { return s->ranks ? s->config.place : 0; }

i32 dealt_writer(const struct session *s, i32 part)
{
    bool copied = s->config.places < s->ranks->count;
    return copied ? ranks_holder(s->ranks, part) : part;
}

static bool deals_state(const struct session *s)
{
    return s->ranks && s->config.shard == SHARD_STATE && dealt_parts(s) > 1;
}

bool session_deals(const struct session *s)
{
    return s->ranks && s->config.shard == SHARD_ALL && dealt_parts(s) > 1;
}

bool session_calls(const struct session *s)
{
    const struct program *p = s->set->programs[PROGRAM_TRAIN];
    for (i32 i = 0; s->ranks && p && i < p->graph->node_count; i++)
        if (op_info(p->graph->nodes[i].op)->attrs & A_ranks) return true;
    return session_deals(s);
}

bool session_shards(const struct session *s) { return deals_state(s) || session_deals(s); }

/* --- ranges --- */

struct ranges {
    const struct session *s;
    i32                   part;
    struct dealt_range   *to; /* NULL: only counted */
    i64                   count;
};

static void add(struct ranges *r, struct dealt_range range)
{
    if (range.bytes <= 0) return;
    if (r->to) r->to[r->count] = range;
    r->count++;
}

static i64 in_units(i64 bytes, i64 unit) { return (bytes + unit - 1) / unit * unit; }

static bool is_trained(const struct persistent *p)
{
    return p->kind == VALUE_PARAM && !p->frozen && !p->sparse_rows;
}

/* The parameters of one of the two groups: from where on, and how many bytes with what rounds them up. */
static i64 group_span(const struct session *s, bool decay, i64 *begin)
{
    i64 end = 0;
    *begin  = INT64_MAX;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (!is_trained(p) || p->hidden || p->decay != decay) continue;
        *begin = MIN(*begin, p->offset);
        end    = MAX(end, p->offset + type_bytes(p->type));
    }
    return end ? in_units(end - *begin, s->target.align_bytes * dealt_parts(s)) : 0;
}

/* train.shard=state: a state over both groups, of which each rank has a part of each. */
struct groups {
    i64 begin;    /* of the parameters, in the arena */
    i64 bytes[2]; /* whole, of those with and without decay */
};

static bool is_of_groups(const struct session *s, const struct persistent *t, struct groups *out)
{
    i64 first, second;
    if (!deals_state(s) || t->kind != VALUE_STATE || t->sparse_rows ||
        str_starts(t->name, STR("muon.")))
        return false;
    out->bytes[0] = group_span(s, true, &first);
    out->bytes[1] = group_span(s, false, &second);
    out->begin    = MIN(first, second);
    return type_bytes(t->type) * dealt_parts(s) == out->bytes[0] + out->bytes[1];
}

static void add_groups(struct ranges *r, const struct persistent *t, const struct groups *g)
{
    i64 offset = t->offset, whole = g->begin;
    for (i32 k = 0; k < 2; k++) {
        i64 part = g->bytes[k] / dealt_parts(r->s), begin = whole + r->part * part;
        for (i32 i = 0; i < r->s->set->persistent_count; i++) {
            const struct persistent *p = &r->s->set->persistents[i];
            i64 from = MAX(begin, p->offset), end = p->offset + type_bytes(p->type);
            if (!is_trained(p) || p->hidden) continue;
            add(r, (struct dealt_range){ t, p, from - p->offset, MIN(begin + part, end) - from,
                                         offset + from - begin });
        }
        offset += part;
        whole += g->bytes[k];
    }
}

/* train.shard=all: this part of one tensor, which lies there. */
static void add_part(struct ranges *r, const struct persistent *state, const struct persistent *p,
                     i64 offset)
{
    i64 all = type_bytes(persistent_type(p)), part = type_bytes(p->type), from = r->part * part;
    add(r, (struct dealt_range){ state, p, from, MIN(part, all - from), offset });
}

/* Of a state over all parameters that are dealt out: where the first of these begins; -1: it is another. */
static i64 state_begin(const struct session *s, const struct persistent *state)
{
    i64 begin = INT64_MAX, end = 0;
    if (!session_deals(s) || state->kind != VALUE_STATE || state->sparse_rows) return -1;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (!p->dealt) continue;
        begin = MIN(begin, p->offset);
        end   = MAX(end, p->offset + type_bytes(p->type));
    }
    bool muon = str_starts(state->name, STR("muon."));
    bool is =
        !muon && end && type_bytes(state->type) == in_units(end - begin, s->target.align_bytes);
    return is ? begin : -1;
}

/* Muon's momentum: each rank has that of hidden matrices of its own (compile/layout.c). */
static bool is_of_owners(const struct session *s, const struct persistent *t)
{
    return session_shards(s) && t->kind == VALUE_STATE && str_eq(t->name, STR("muon.momentum"));
}

static void add_matrices(struct ranges *r, const struct persistent *state)
{
    const struct program_set *set   = r->s->set;
    i64                       first = INT64_MAX, end = 0, begin = 0;
    i32                       last = -1;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *p = &set->persistents[i];
        if (!is_trained(p) || !p->hidden) continue;
        first = MIN(first, p->offset);
        end   = MAX(end, p->offset + in_units(type_bytes(p->type), r->s->target.align_bytes));
    }
    for (i32 i = 0; i < set->persistent_count; i++) { /* in the order of the arena */
        const struct persistent *p = &set->persistents[i];
        if (!is_trained(p) || !p->hidden) continue;
        i64 bytes = type_bytes(p->type);
        i32 owner = ranks_owner(p->offset - first, bytes, end - first, dealt_parts(r->s));
        if (owner != last) begin = p->offset;
        last = owner;
        if (owner == r->part)
            add(r, (struct dealt_range){ state, p, 0, bytes, state->offset + p->offset - begin });
    }
}

bool dealt_is(const struct session *s, const struct persistent *t)
{
    struct groups g;
    return t->dealt || is_of_owners(s, t) || is_of_groups(s, t, &g) || state_begin(s, t) >= 0;
}

static i64 ranges_of(const struct session *s, i32 part, struct dealt_range *to)
{
    const struct program_set *set = s->set;
    struct ranges             r   = { s, part, to, 0 };
    for (i32 i = 0; session_shards(s) && i < set->persistent_count; i++) {
        const struct persistent *t     = &set->persistents[i];
        i64                      begin = state_begin(s, t);
        struct groups            g;
        if (t->dealt) add_part(&r, NULL, t, t->offset);
        if (is_of_owners(s, t)) add_matrices(&r, t);
        if (is_of_groups(s, t, &g)) add_groups(&r, t, &g);
        for (i32 k = 0; begin >= 0 && k < set->persistent_count; k++) {
            const struct persistent *p = &set->persistents[k];
            if (p->dealt) add_part(&r, t, p, t->offset + p->offset - begin);
        }
    }
    return r.count;
}

i64 dealt_ranges(const struct session *s, i32 part, struct dealt_range *to)
{
    return ranges_of(s, part, to);
}

i64 dealt_ranges_max(const struct session *s)
{
    i64 most = 0;
    for (i32 part = 0; part < dealt_parts(s); part++) most = MAX(most, ranges_of(s, part, NULL));
    return most;
}

/* --- over the wire --- */

/* One range of one part. */
static enum status carry(struct session *s, enum dealt_way way, i32 part,
                         const struct dealt_range *r, dealt_copy *copy, void *context,
                         struct err *err)
{
    struct backend *b       = s->backend;
    struct arena    scratch = s->scratch;
    u8             *piece   = NEW(&scratch, u8, MIN(r->bytes, RANKS_CHUNK_BYTES));
    i32             from    = way == DEALT_TO_RANK_0 ? dealt_writer(s, part) : 0;
    for (i64 done = 0; done < r->bytes; done += RANKS_CHUNK_BYTES) {
        i64 now = MIN(r->bytes - done, RANKS_CHUNK_BYTES);
        if (way == DEALT_TO_RANK_0 && s->ranks->rank == from)
            b->table->wait(b, b->table->get(b, r->offset + done, piece, now));
        if (way == DEALT_FROM_RANK_0 && copy) copy(context, r, r->from + done, piece, now);
        enum status st = ranks_spread(s->ranks, from, piece, now);
        if (st) return err_set(err, st, "%s", s->ranks->failed.text);
        if (way == DEALT_TO_RANK_0 && copy) copy(context, r, r->from + done, piece, now);
        if (way == DEALT_FROM_RANK_0 && dealt_part(s) == part)
            b->table->wait(b, b->table->put(b, r->offset + done, piece, now));
    }
    return STATUS_OK;
}

enum status dealt_carry(struct session *s, enum dealt_way way, dealt_copy *copy, void *context,
                        struct err *err)
{
    struct arena        before = s->scratch;
    struct dealt_range *all    = NEW(&s->scratch, struct dealt_range, dealt_ranges_max(s));
    enum status         st     = STATUS_OK;
    for (i32 part = 0; part < dealt_parts(s) && !st; part++) {
        i64 count = dealt_ranges(s, part, all);
        for (i64 i = 0; i < count && !st; i++)
            st = carry(s, way, part, &all[i], copy, context, err);
    }
    if (way == DEALT_FROM_RANK_0) s->backend->table->mark(s->backend);
    s->scratch = before;
    return st;
}

const struct persistent *dealt_param(const struct session *s, const struct persistent *t)
{
    if (t->kind == VALUE_PARAM) return t->dealt ? t : NULL;
    if (t->kind != VALUE_GRAD || t->sparse_rows) return NULL;
    struct str               name = str_sub(t->name, 0, t->name.len - STR(".grad").len);
    const struct persistent *p    = program_set_find(s->set, name);
    return p && p->dealt ? p : NULL;
}

/* --- when --- */

enum status dealt_spread(struct session *s, struct dealt_order *o, struct err *err)
{
    return session_shards(s) ? together_say(s, o, sizeof *o, err) : STATUS_OK;
}

enum status dealt_say(struct session *s, enum dealt_word word, struct err *err)
{
    return dealt_spread(s, &(struct dealt_order){ .word = (i32)word }, err);
}

enum status dealt_say_last(struct session *s, enum dealt_word word, struct err *err)
{
    struct dealt_order o = { .word = (i32)word };
    return together_say(s, &o, sizeof o, err);
}

static void put_whole(void *whole, const struct dealt_range *r, i64 from, u8 *piece, i64 bytes)
{
    (void)r;
    memcpy((u8 *)whole + from, piece, (size_t)bytes);
}

static enum status give_tensor(struct session *s, i32 tensor, u8 *whole, struct err *err)
{
    const struct persistent *t = &s->set->persistents[tensor], *param = dealt_param(s, t);
    enum status              st = STATUS_OK;
    for (i32 part = 0; part < dealt_parts(s) && !st; part++) {
        struct dealt_range one;
        struct ranges      r = { s, part, &one, 0 };
        add_part(&r, NULL, param, t->offset);
        if (r.count)
            st = carry(s, DEALT_TO_RANK_0, part, &one, whole ? put_whole : NULL, whole, err);
    }
    return st;
}

enum status dealt_fetch(struct session *s, const struct persistent *t, u8 *whole, struct err *err)
{
    struct dealt_order o  = { .word = DEALT_TENSOR, .tensor = (i32)(t - s->set->persistents) };
    enum status        st = dealt_spread(s, &o, err);
    return st ? st : give_tensor(s, o.tensor, whole, err);
}

enum status dealt_give(struct session *s, const struct dealt_order *o, struct err *err)
{
    if (o->word == DEALT_TENSOR) return give_tensor(s, o->tensor, NULL, err);
    ASSERT(o->word == DEALT_COLLECT);
    return dealt_carry(s, DEALT_TO_RANK_0, NULL, NULL, err);
}
