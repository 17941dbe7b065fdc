/* mistakes.c - what a classifier takes for what: a table of true and predicted classes, and the pictures that it was
 * most certain of and wrong, for whoever looks at the run. Made with an evaluation now and then (seldom.h) and at the
 * last step, from the logits that it computes anyway: at most some 40 kB each. */
#include "train/mistakes.h"
#include "train/train_int.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mistakes *mistakes_new(struct session *s)
{
    const struct persistent *t = s->set ? program_set_find(s->set, STR("logits")) : NULL;
    const struct feed       *x = feeds_find(dataset_feeds(s->data), STR("x"));
    const struct feed       *y = feeds_find(dataset_feeds(s->data), STR("y"));
    if (!t || !y || !s->to || s->ranks || t->type.dtype != DT_F32 || y->type.dtype != DT_I32)
        return NULL;
    struct mistakes *m = NEW(s->perm, struct mistakes, 1);
    m->classes         = shape_last(t->type.shape);
    ASSERT(m->classes <= MODEL_CLASSES_SHOWN);
    m->table = NEW(s->perm, f64, m->classes * m->classes);
    if (!x || x->type.dtype != DT_U8 || x->type.shape.rank != 3) return m;
    i64 high = x->type.shape.dim[0], wide = x->type.shape.dim[1], deep = x->type.shape.dim[2];
    if (deep != 1 && deep != 3) return m;
    m->stride   = (MAX(high, wide) + MISTAKE_SIDE - 1) / MISTAKE_SIDE;
    m->from_w   = wide;
    m->from_h   = high;
    m->height   = (high + m->stride - 1) / m->stride;
    m->width    = (wide + m->stride - 1) / m->stride;
    m->channels = deep;
    return m;
}

bool mistakes_due(struct mistakes *m, f64 elapsed_s, bool last)
{
    if (!m) return false;
    m->due = seldom_due(&m->when, elapsed_s, last);
    if (!m->due) return false;
    m->count = 0;
    memset(m->table, 0, (size_t)(m->classes * m->classes) * sizeof *m->table);
    return true;
}

/* Every stride-th pixel of each row and column. */
static void copy_picture(const struct mistakes *m, const u8 *from, u8 *to)
{
    for (i64 h = 0; h < m->height; h++)
        for (i64 w = 0; w < m->width; w++)
            for (i64 c = 0; c < m->channels; c++)
                *to++ = from[((h * m->stride) * m->from_w + w * m->stride) * m->channels + c];
}

/* In the place of the one that it was least certain of. */
static void keep(struct mistakes *m, i64 label, i64 guess, f64 probability, const u8 *picture)
{
    struct mistake *to = &m->items[0];
    if (!m->channels) return;
    if (m->count < MISTAKES_MAX) {
        to = &m->items[m->count++];
    } else {
        for (i64 i = 1; i < m->count; i++)
            if (m->items[i].probability < to->probability) to = &m->items[i];
        if (to->probability >= probability) return;
    }
    *to = (struct mistake){ .label = label, .guess = guess, .probability = probability };
    copy_picture(m, picture, to->pixels);
}

static f64 certainty(const f64 *x, i64 count, i64 best)
{
    f64 sum = 0;
    for (i64 i = 0; i < count; i++) sum += exp(x[i] - x[best]);
    return 1 / sum;
}

void mistakes_add(struct mistakes *m, struct session *s, const struct batch *b,
                  struct arena scratch)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    f64                *x     = NEW(&scratch, f64, b->count * m->classes);
    const i32          *y     = NULL;
    const u8           *at    = NULL;
    if (!m->due) return;
    session_get_numbers(s, STR("logits"), x, b->count * m->classes);
    for (i32 f = 0; f < feeds->count; f++) {
        if (str_eq(feeds->feed[f].name, STR("y"))) y = b->data[f];
        if (str_eq(feeds->feed[f].name, STR("x"))) at = b->data[f];
    }
    for (i64 i = 0; i < b->count; i++) {
        const f64 *of   = x + i * m->classes;
        i64        best = 0;
        for (i64 c = 1; c < m->classes; c++)
            if (of[c] > of[best]) best = c;
        if (y[i] < 0 || y[i] >= m->classes) continue;
        m->table[y[i] * m->classes + best]++;
        if (best != y[i])
            keep(m, y[i], best, certainty(of, m->classes, best),
                 at + i * m->from_h * m->from_w * m->channels);
    }
}

static int by_probability(const void *a, const void *b)
{
    const struct mistake *x = a, *y = b;
    return (x->probability < y->probability) - (x->probability > y->probability);
}

void mistakes_tell(struct mistakes *m, const struct subscriber *to, i64 step, struct arena scratch)
{
    i64  n      = m->classes * m->classes;
    i64 *counts = NEW(&scratch, i64, n);
    for (i64 i = 0; i < n; i++) counts[i] = (i64)m->table[i];
    emit_classes(to, &(struct event_classes){ step, m->classes, { counts, n } });
    qsort(m->items, (size_t)m->count, sizeof *m->items, by_probability);
    for (i64 i = 0; i < m->count; i++) {
        struct arena          here = scratch;
        const struct mistake *of   = &m->items[i];
        struct str pixels = { (const char *)of->pixels, m->width * m->height * m->channels };
        emit_mistake(to, &(struct event_mistake){ .step        = step,
                                                  .label       = of->label,
                                                  .guess       = of->guess,
                                                  .probability = of->probability,
                                                  .width       = m->width,
                                                  .height      = m->height,
                                                  .channels    = m->channels,
                                                  .pixels      = str_base64(&here, pixels) });
    }
    m->due = false;
}
