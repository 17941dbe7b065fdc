/* tensors.c - from the host to the arena and back, by name. */
#include "train/train_int.h"
#include <string.h>

bool session_has(const struct session *s, struct str name)
{
    return program_set_find(s->set, name) != NULL;
}

void session_put(struct session *s, struct str name, const void *data, i64 bytes)
{
    const struct persistent *t = program_set_find(s->set, name);
    if (!t) return;
    ASSERT(bytes <= type_bytes(t->type));
    s->backend->table->put(s->backend, t->offset, data, bytes);
}

void session_renew_copies(struct session *s)
{
    static const f32 no_step[4] = { 0 };
    struct backend  *b          = s->backend;
    if (!b->weights_changed || !session_has(s, STR("adam.copies"))) return;
    session_put(s, STR("hyper"), no_step, sizeof no_step);
    b->table->run(b, s->set->programs[PROGRAM_UPDATE]);
    b->weights_changed = false;
}

/* Feeds that the program does not read may be smaller than its batch: they are sized by those that do
 * (mixup's second labels by training, whose batch may be smaller than evaluation's). */
void session_put_batch(struct session *s, enum program_id id, const struct batch *b)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    const struct graph *g     = s->set->programs[id]->graph;
    for (i32 f = 0; f < feeds->count; f++)
        if (graph_find(g, feeds->feed[f].name) >= 0)
            session_put(s, feeds->feed[f].name, b->data[f],
                        b->count * type_bytes(feeds->feed[f].type));
}

/* One number, in whichever type the tensor has. */
static void put_number(struct session *s, struct str name, f64 value)
{
    const struct persistent *t      = program_set_find(s->set, name);
    f32                      narrow = (f32)value;
    if (t && t->type.dtype == DT_F64) session_put(s, name, &value, sizeof value);
    else session_put(s, name, &narrow, sizeof narrow);
}

void session_put_nothing(struct session *s, enum program_id id)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    const struct graph *g     = s->set->programs[id]->graph;
    for (i32 f = 0; f < feeds->count; f++) {
        const struct persistent *t = program_set_find(s->set, feeds->feed[f].name);
        if (t && graph_find(g, t->name) >= 0)
            s->backend->table->put(s->backend, t->offset, NULL, type_bytes(t->type));
    }
    put_number(s, STR("loss_seed"), 0);
}

void session_get(struct session *s, struct str name, void *data, i64 bytes)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && bytes <= type_bytes(t->type));
    s->backend->table->wait(s->backend, s->backend->table->get(s->backend, t->offset, data, bytes));
}

void session_get_numbers(struct session *s, struct str name, f64 *to, i64 count)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && dtype_is_float(t->type.dtype));
    session_get(s, name, to, count * dtype_bytes(t->type.dtype));
    if (t->type.dtype == DT_F64) return;
    ASSERT(t->type.dtype == DT_F32);
    for (i64 i = count - 1; i >= 0; i--) { /* from the end: they grow where they lie */
        f32 narrow;
        memcpy(&narrow, (const char *)to + i * (i64)sizeof narrow, sizeof narrow);
        to[i] = (f64)narrow;
    }
}

void session_ask(struct session *s, struct str name, struct asked *a)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && dtype_is_float(t->type.dtype));
    a->dtype  = t->type.dtype;
    a->ticket = s->backend->table->get(s->backend, t->offset, a->bytes, dtype_bytes(a->dtype));
}

f64 session_answer(struct session *s, const struct asked *a)
{
    f64 wide;
    f32 narrow;
    s->backend->table->wait(s->backend, a->ticket);
    memcpy(&wide, a->bytes, sizeof wide);
    memcpy(&narrow, a->bytes, sizeof narrow);
    return a->dtype == DT_F64 ? wide : (f64)narrow;
}

static const f64 muon_momentum = 0.95; /* Jordan et al. 2024 */

void session_put_scalars(struct session *s, i64 step, i64 rows, i64 first_sample, f64 lr)
{
    const struct train_config *c   = &s->settings->train;
    bool                       sgd = s->config.optimiser == OPTIMISER_SGD;
    f64  level    = c->lr > 0 ? lr / c->lr : 0; /* schedule and batch move all rates alike */
    bool one_rate = s->config.optimiser == OPTIMISER_MUON && str_eq(c->optimiser, STR("auto"));
    f64  own      = one_rate ? level * c->muon_lr : lr; /* lr is AdamW's, had auto taken that */
    f32  hyper[4] = { (f32)own, (f32)(sgd ? c->momentum : c->beta1), (f32)c->beta2,
                      (f32)(step + 1) };
    f32  muon[4]  = { (f32)(level * c->muon_lr), (f32)muon_momentum, 0, (f32)(step + 1) };
    i32  rng[4]   = { (i32)(u32)c->seed, (i32)(u32)(c->seed >> 32), (i32)step, (i32)first_sample };
    session_put(s, STR("hyper"), hyper, sizeof hyper);
    session_put(s, STR("hyper.muon"), muon, sizeof muon);
    put_number(s, STR("loss_seed"), 1 / (f64)rows);
    session_put(s, STR("rng"), rng, sizeof rng);
}
