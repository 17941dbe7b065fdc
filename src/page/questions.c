/* questions.c - what the playground is asked: it plans and may compile for a second, and viewers' events must not wait
 * for it. A question is copied here on the server's thread, answered on the second, and forgotten on the first. */
#include "page/page_int.h"

enum { WORDS_MAX = 64, TEXT_BYTES = 1 << 19, SETTINGS_BYTES_MAX = 1 << 18 };

enum question_kind { QUESTION_FREE, QUESTION_PLAY, QUESTION_CHOICES, QUESTION_RUN };

struct question {
    const struct page_play *play;
    enum question_kind      kind;
    struct arena            all; /* the texts of one */
    struct str              words[WORDS_MAX], settings;
    i64                     count;
};

struct questions {
    struct question items[SERVE_LATER_MAX];
};

struct questions *questions_new(struct arena *perm, const struct page_play *play)
{
    struct questions *all = NEW(perm, struct questions, 1);
    for (i64 i = 0; i < SERVE_LATER_MAX; i++) {
        all->items[i].play = play;
        all->items[i].all  = arena_part(perm, TEXT_BYTES);
    }
    return all;
}

static struct str answer(void *context, struct arena *perm)
{
    const struct question  *q = context;
    const struct page_play *p = q->play;
    if (q->kind == QUESTION_CHOICES) return p->choices(p->context, perm);
    if (q->kind == QUESTION_PLAY) return p->answer(p->context, q->words, q->count, perm);
    return p->run(p->context, q->settings, q->words, q->count, perm);
}

static void forget(void *context) { ((struct question *)context)->kind = QUESTION_FREE; }

/* NULL: all places are taken, and the answer says so. */
static struct question *put_off(struct questions *all, enum question_kind kind,
                                struct serve_answer *a)
{
    struct question *q = NULL;
    for (i64 i = 0; i < SERVE_LATER_MAX && !q; i++)
        if (all->items[i].kind == QUESTION_FREE) q = &all->items[i];
    *a = (struct serve_answer){ .code = q ? 200 : 503,
                                .type = q ? "application/json" : "text/plain; charset=utf-8",
                                .body = STR("too many questions at once\n") };
    if (!q) return NULL;
    q->kind  = kind;
    q->count = 0;
    a->later = (struct serve_later){ q, answer, forget };
    return q;
}

void questions_play(struct questions *all, const struct serve_request *q, struct serve_answer *a)
{
    struct question *to = put_off(all, QUESTION_PLAY, a);
    if (!to) return;
    struct arena here = to->all;
    to->count         = serve_arguments(q, &here, to->words, WORDS_MAX);
}

void questions_choices(struct questions *all, struct serve_answer *a)
{
    put_off(all, QUESTION_CHOICES, a);
}

void questions_run(struct questions *all, const struct run_bill *r, struct serve_answer *a)
{
    struct question *to =
        r->row.settings.len > SETTINGS_BYTES_MAX ? NULL : put_off(all, QUESTION_RUN, a);
    if (!to) return;
    struct arena here = to->all;
    to->settings      = str_copy(&here, r->row.settings);
    to->count         = runs_levers(r, &here, to->words);
}
