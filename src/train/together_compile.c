/* together_compile.c - train.recompute=auto where ranks gather each other's weights (train.shard=all): what runs again
 * in the backward pass is the same in all of them, or they would wait for each other's parts for ever. Rank 0 chooses,
 * for the least memory of all ranks and the largest part of a batch, and the others compile what it has chosen. */
#include "train/train_int.h"
#include <string.h>

static bool chooses(const struct session *s)
{
    return session_deals(s) && s->config.recompute.kind == RECOMPUTE_AUTO;
}

/* Ranks on the processors of one machine have its memory together. */
static i64 own_memory(const struct session *s)
{
    bool shared = !s->target.gpus && s->settings->train.memory_gib <= 0;
    return shared ? s->target.memory_bytes / MAX(s->ranks->locals, 1) : s->target.memory_bytes;
}

enum status together_memory(struct session *s, struct err *err)
{
    i64 least = 0;
    if (!chooses(s)) return STATUS_OK;
    struct arena scratch = s->scratch;
    i64         *all     = NEW(&scratch, i64, s->ranks->count);
    all[s->ranks->rank]  = own_memory(s);
    enum status st       = ranks_gather(s->ranks, all, s->ranks->count, sizeof *all);
    for (i32 i = 0; i < s->ranks->count; i++)
        if (all[i] && (!least || all[i] < least)) least = all[i];
    s->config.recompute.memory_bytes = least;
    return st ? err_set(err, st, "%s", s->ranks->failed.text) : STATUS_OK;
}

static enum status compile_own(struct session *s, graph_builder *build, void *context,
                               struct err *err)
{
    return compile(s->perm, &s->target, &s->config, build, context, &s->set, s->scratch, err);
}

/* What rank 0 has compiled, or that it could not. */
static enum status say_chosen(struct session *s, enum status st, struct str *text, struct err *err)
{
    bool follows = s->ranks->rank > 0;
    if (!st && !follows) *text = compile_chosen(s->set, s->perm);
    st = ranks_agree(s->ranks, st, err);
    if (!st) st = together_say(s, &text->len, sizeof text->len, err);
    char *bytes = st ? NULL : NEW(s->perm, char, text->len);
    if (!st && !follows) memcpy(bytes, text->data, (size_t)text->len);
    text->data = bytes;
    return st ? st : together_say(s, bytes, text->len, err);
}

enum status together_compile(struct session *s, graph_builder *build, void *context,
                             struct err *err)
{
    bool        asks           = chooses(s) && !s->ranks->shown;
    bool        begins         = !asks || !s->ranks->rank;
    struct str  chosen         = { 0 };
    enum status st             = STATUS_OK;
    s->config.recompute_chosen = chosen;
    if (begins) st = compile_own(s, build, context, err);
    if (asks) st = say_chosen(s, st, &chosen, err);
    if (st || begins) return st;
    s->config.recompute_chosen = chosen;
    return compile_own(s, build, context, err);
}
