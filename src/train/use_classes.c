/* use_classes.c - classes and their probabilities, of held-out samples and of rows that come from outside. */
#include "base/lines.h"
#include "data/rows.h"
#include "train/use_int.h"
#include <math.h>

static void softmax(f64 *x, i64 count)
{
    f64 top = -INFINITY, sum = 0;
    for (i64 i = 0; i < count; i++) top = MAX(top, x[i]);
    for (i64 i = 0; i < count; i++) sum += x[i] = exp(x[i] - top);
    for (i64 i = 0; i < count; i++) x[i] /= sum;
}

struct predicting {
    use_answer *answer;
    void       *context;
    i64         sample, classes; /* classes 1: a click or none */
    bool        clicks;
};

static enum status predict_batch(void *context, struct session *s, const struct batch *b,
                                 struct err *err)
{
    struct predicting *p       = context;
    struct arena       scratch = s->scratch;
    f64               *x       = NEW(&scratch, f64, b->count * p->classes);
    (void)err;
    session_get_numbers(s, p->clicks ? STR("scores") : STR("logits"), x, b->count * p->classes);
    for (i64 i = 0; i < b->count; i++) {
        f64 *of = x + i * p->classes;
        if (p->clicks) *of = 1 / (1 + exp(-*of));
        else softmax(of, p->classes);
        p->answer(p->context, p->sample++, of, p->classes);
    }
    return STATUS_OK;
}

static enum status predicting_init(struct predicting *p, struct use *u, use_answer *answer,
                                   void *context, struct err *err)
{
    const struct persistent *t = program_set_find(u->s.set, STR("logits"));
    *p = (struct predicting){ answer, context, 0, 1, session_has(&u->s, STR("scores")) };
    if (model_rows(u->s.model) > 1)
        return err_set(err, STATUS_USAGE,
                       "this model predicts tokens, not classes: use `frugal generate`");
    if (!p->clicks) p->classes = shape_last(t->type.shape);
    return STATUS_OK;
}

enum status use_predict(struct use *u, use_answer *answer, void *context, struct err *err)
{
    struct predicting p;
    enum status       st = predicting_init(&p, u, answer, context, err);
    return st ? st : evaluate_batches(&u->s, predict_batch, &p, err);
}

/* --- rows as they come --- */

struct taking {
    struct session   *s;
    struct lines      lines;
    struct rows      *rows;
    struct batch      batch; /* of up to s->config.eval_batch rows */
    struct predicting to;
};

/* What has come: waits for the first row and for no other. With a failure, the rows before it are in the batch. */
static enum status take_rows(struct taking *t, struct err *err)
{
    static const i64 listen_ns = 100000000;
    struct batch    *b         = &t->batch;
    enum status      st        = STATUS_OK;
    struct str       line;
    for (b->count = 0; b->count < t->s->config.eval_batch;) {
        st = lines_next(&t->lines, b->count ? 0 : listen_ns, &line, err);
        if (st == STATUS_NO && (b->count || t->lines.ended)) return STATUS_OK;
        if (!st) st = rows_add(t->rows, line, b->data, b->count, err);
        if (!st) b->count++;
        if (st == STATUS_NO) st = session_check_signal(t->s, 0, err);
        if (st) return st;
    }
    return STATUS_OK;
}

static enum status answer_rows(struct taking *t, struct err *err)
{
    const struct feeds *feeds = dataset_feeds(t->s->data);
    struct batch        b     = t->batch;
    i64                 each  = b.count == t->s->config.eval_batch ? b.count : 1;
    enum status         st    = STATUS_OK;
    for (i64 i = 0; !st && i < t->batch.count; i += each) {
        b.count = b.all = each;
        for (i32 f = 0; f < feeds->count; f++)
            b.data[f] = (u8 *)t->batch.data[f] + i * type_bytes(feeds->feed[f].type);
        st = evaluate_batch(t->s, &b, err);
        if (!st) st = predict_batch(&t->to, t->s, &b, err);
        if (!st) st = session_check_signal(t->s, 0, err);
    }
    return st;
}

static enum status read_rows(struct taking *t, struct err *err)
{
    enum status st = STATUS_OK;
    while (!st && !(t->lines.ended && t->lines.begin == t->lines.end)) {
        struct err  why  = { 0 };
        enum status read = take_rows(t, &why);
        st               = answer_rows(t, err);
        if (!st && read) st = err_set(err, read, "%s", why.text);
    }
    return st;
}

enum status use_rows(struct use *u, struct file in, use_answer *answer, void *context,
                     struct err *err)
{
    struct session     *s     = &u->s;
    const struct feeds *feeds = dataset_feeds(s->data);
    struct taking       t     = { .s = s };
    enum status         st    = predicting_init(&t.to, u, answer, context, err);
    if (!st)
        st = rows_open(s->data, &s->settings->data, STR("standard input"), &u->perm, &t.rows, err);
    if (!st) {
        t.lines = lines_of(s->os, in, ROW_BYTES_MAX, &u->perm);
        for (i32 f = 0; f < feeds->count; f++) {
            i64 bytes = s->config.eval_batch * type_bytes(feeds->feed[f].type);
            t.batch.data[f] =
                NEW(&u->perm, f64, bytes / (i64)sizeof(f64) + 1); /* aligned for any */
        }
        st = read_rows(&t, err);
    }
    rows_close(t.rows);
    return st;
}

/* --- confusion --- */

static i32 target_feed(const struct session *s)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    for (i32 f = 0; f < feeds->count; f++)
        if (str_eq(feeds->feed[f].name, STR("y"))) return f;
    return -1;
}

static enum status confuse_batch(void *context, struct session *s, const struct batch *b,
                                 struct err *err)
{
    struct use_confusion *k       = context;
    struct arena          scratch = s->scratch;
    f64                  *x       = NEW(&scratch, f64, b->count * k->classes);
    const i32            *y       = b->data[target_feed(s)];
    (void)err;
    session_get_numbers(s, STR("logits"), x, b->count * k->classes);
    for (i64 i = 0; i < b->count; i++) {
        i64 best = 0;
        for (i64 c = 1; c < k->classes; c++)
            if (x[i * k->classes + c] > x[i * k->classes + best]) best = c;
        if (y[i] >= 0 && y[i] < k->classes) k->counts[y[i] * k->classes + best]++;
    }
    return STATUS_OK;
}

enum status use_confuse(struct use *u, struct use_confusion *out, struct arena *perm,
                        struct err *err)
{
    const struct persistent *t = program_set_find(u->s.set, STR("logits"));
    ASSERT(t && model_rows(u->s.model) == 1);
    out->classes = shape_last(t->type.shape);
    out->counts  = NEW(perm, i64, out->classes * out->classes);
    out->names   = NEW(perm, struct str, out->classes);
    for (i64 i = 0; i < out->classes; i++) out->names[i] = str_copy(perm, use_class_name(u, i));
    return evaluate_batches(&u->s, confuse_batch, out, err);
}
