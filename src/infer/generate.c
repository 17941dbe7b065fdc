/* generate.c - the loop: the next token's logits, a draw, and again. A place that a finished text leaves is taken by
 * the next one that waits. */
#include "infer/generate.h"

struct place { /* of a text that is being continued */
    i64 index; /* of the text; -1: none */
    i64 begin; /* tokens that it came with */
};

struct loop {
    const struct generating *g;
    struct generation       *all;
    i64                      count, next; /* texts; the first that waits */
    struct place            *places;
    struct use_text         *texts;
    f64                     *logits;    /* [places][vocabulary] */
    i32                     *likeliest; /* of each place, instead, where nothing is drawn */
};

static void end(struct loop *l, i64 i, enum generated how)
{
    l->all[l->places[i].index].how = how;
    if (l->g->on_end) l->g->on_end(l->g->context, l->places[i].index, how);
    l->places[i].index = -1;
}

/* Why text i gets no further token; false: it may. */
static bool is_over(const struct loop *l, i64 i, enum generated *how)
{
    const struct generation *t = &l->all[l->places[i].index];
    *how                       = GENERATED_ENOUGH;
    if (t->count - l->places[i].begin >= l->g->tokens_max) return true;
    *how = GENERATED_FULL;
    return t->count >= use_length(l->g->use);
}

/* True: there are texts to continue. */
static bool fill(struct loop *l)
{
    bool           any = false;
    enum generated how;
    for (i64 i = 0; i < use_sequences(l->g->use); i++) {
        struct place *p = &l->places[i];
        while (p->index >= 0 || l->next < l->count) {
            if (p->index < 0) {
                *p = (struct place){ l->next, l->all[l->next].count };
                l->next++;
                use_forget(l->g->use, i);
            }
            if (!is_over(l, i, &how)) break;
            end(l, i, how);
        }
        const struct generation *t = p->index < 0 ? NULL : &l->all[p->index];
        l->texts[i] = t ? (struct use_text){ t->tokens, t->count } : (struct use_text){ NULL, 0 };
        any |= t != NULL;
    }
    return any;
}

/* false: the caller has had enough. */
static bool extend(struct loop *l, i64 i, struct arena scratch)
{
    const struct generating *g     = l->g;
    i64                      count = use_vocabulary(g->use), index = l->places[i].index;
    struct generation       *t    = &l->all[index];
    i64                      next = l->likeliest ? l->likeliest[i]
                                                 : sample_token(&g->sampling, l->logits + i * count, count, index,
                                                                t->count, scratch);
    if (words_ends(&g->words, next)) {
        end(l, i, GENERATED_END);
        return true;
    }
    t->tokens[t->count++] = (i32)next;
    return g->on_token(g->context, index, next, words_of(&g->words, next, &scratch));
}

void generate(const struct generating *g, struct generation *all, i64 count, struct arena scratch)
{
    i64         room = use_sequences(g->use);
    struct loop l    = { .g = g, .all = all, .count = count };
    bool        goes = true;
    l.places         = NEW(&scratch, struct place, room);
    l.texts          = NEW(&scratch, struct use_text, room);
    if (g->sampling.temperature <= 0) l.likeliest = NEW(&scratch, i32, room);
    else l.logits = NEW(&scratch, f64, room * use_vocabulary(g->use));
    for (i64 i = 0; i < room; i++) l.places[i].index = -1;
    while (goes && fill(&l)) {
        if (l.likeliest) use_likeliest(g->use, l.texts, l.likeliest);
        else use_next(g->use, l.texts, l.logits);
        for (i64 i = 0; i < room && goes; i++)
            if (l.places[i].index >= 0) goes = extend(&l, i, scratch);
    }
    for (i64 i = 0; i < room; i++)
        if (l.places[i].index >= 0) end(&l, i, GENERATED_STOPPED);
}
