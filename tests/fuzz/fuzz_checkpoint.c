/* fuzz_checkpoint.c - a checkpoint whose numbers are anything and whose hashes fit all the same, as whoever
 * can write to the store can make it: refused with a sentence, or gone on from.
 *
 *     input    step, attempt, save, wall_ns, value     8 bytes each, of the manifest
 *              row, element, number                    1, 1 and 8 bytes, any number of times: written over
 *                                                      the state of a sound run
 *
 * What is taken goes where a run's own numbers go: stopping, the interval of saves, the noise scale,
 * the order of samples. */
#include "base/hash.h"
#include "base/rng.h"
#include "store/store_int.h"
#include "support/sim_os.h"
#include "train/cadence.h"
#include "train/state.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { FIXED_BYTES = 40, RECORD_BYTES = 10, STEPS = 8, SAMPLES = 1000 };

static i64 take(struct str *in)
{
    i64 x = 0;
    memcpy(&x, in->data, (size_t)MIN(in->len, 8));
    *in = str_sub(*in, 8, in->len);
    return x;
}

static struct stop_config limits(void)
{
    return (struct stop_config){ .metric      = STR("loss"),
                                 .target      = 0.1,
                                 .patience    = 5,
                                 .max_seconds = 1e6,
                                 .max_dollars = NAN,
                                 .steps_max   = 100000,
                                 .forecast    = 0.95,
                                 .rollbacks   = 2,
                                 .spike       = 4 };
}

static void sound(struct run_state *r, struct guard *g)
{
    struct stop_config c = limits();
    *r                   = (struct run_state){
                          .step = 40, .next_index = 320, .samples = 320, .elapsed_ns = 5000000000, .eval_step = 40
    };
    *g = (struct guard){ .lr_factor = 1 };
    stop_init(&g->stop, &c);
    for (i64 i = 1; i <= 40; i++) stop_step(&g->stop, i, 0.1 * (f64)i, 2.0 / (f64)i);
}

static void write_over(struct str in, struct st_tensor *tensors)
{
    for (; in.len >= RECORD_BYTES; in = str_sub(in, RECORD_BYTES, in.len)) {
        struct st_tensor *t = &tensors[(u8)in.data[0] % state_count()];
        i64 each = str_eq(t->dtype, STR("U8")) ? 1 : str_eq(t->dtype, STR("I32")) ? 4 : 8;
        i64 at   = (u8)in.data[1] % (t->bytes.len / each) * each;
        memcpy((char *)(uintptr_t)t->bytes.data + at, in.data + 2, (size_t)each);
    }
}

/* What the next steps would do with it. */
static void go_on(struct run_state *r, struct guard *g)
{
    struct stop *s = &g->stop;
    ASSERT(s->point_count >= 0 && s->point_count <= FORECAST_POINTS_MAX);
    for (i64 i = 1; i <= STEPS; i++) {
        f64 elapsed_s = (f64)r->elapsed_ns * 1e-9 + (f64)i;
        stop_step(s, r->step + i, elapsed_s, r->loss);
        stop_at_eval(s, &(struct stop_eval){
                            .step = r->step + i, .elapsed_s = elapsed_s, .value = 1.0 / (f64)i });
    }
    ASSERT(memchr(s->text, '\0', sizeof s->text));
    stop_reason_name(s->reason);
    stop_saved_s(s, r->step, (f64)r->elapsed_ns * 1e-9);
    stop_rolled_back(s, g->copy_step);
    noise_add(&r->noise, 1.5, 8, 1.25, 16);
    noise_scale(&r->noise);
    ASSERT(r->elapsed_ns <= INT64_MAX / 2 && r->next_index >= 0 && r->next_epoch >= 0);
    if (r->next_index < SAMPLES)
        ASSERT(rng_permute(1, (u64)r->next_epoch, r->next_index, SAMPLES) < SAMPLES);
    struct cadence_facts f = { { 1, 1 }, s->eval_s, s->elapsed_s, (f64)r->elapsed_ns * 1e-9, 0 };
    f64                  wait_s = cadence_seconds((struct cadence){ EVERY_AUTO, 0 }, &f);
    ASSERT(wait_s > 0 || isnan(wait_s));
    ASSERT(strlen(g->copy_eval.metric_count ? g->copy_eval.metrics[0].name.data : "") < 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena memory;
    if (!memory.begin) memory = arena_open((i64)1 << 30);
    struct arena       perm = memory, disk = arena_part(&perm, (i64)1 << 28);
    struct str         in  = { (const char *)data, (i64)bytes };
    struct sim_os     *sim = sim_os_new(&disk);
    struct run_state   r, back;
    struct guard       g, guard_back;
    struct ckpt_store *store;
    struct ckpt_list   list;
    struct ckpt_loaded loaded;
    struct err         err   = { 0 };
    struct ckpt_shard  shard = { .name = STR("run.safetensors") };
    if (bytes < FIXED_BYTES) return 0;
    struct ckpt_manifest m     = { .id      = { take(&in), take(&in), take(&in) },
                                   .wall_ns = take(&in),
                                   .run     = STR("r"),
                                   .state   = STR("{}"),
                                   .metric  = STR("loss") };
    i64                  value = take(&in);
    memcpy(&m.value, &value, sizeof value);
    struct st_tensor *tensors = NEW(&perm, struct st_tensor, state_count());
    u8               *numbers = NEW(&perm, u8, state_bytes());
    sound(&r, &g);
    state_describe(tensors, numbers);
    state_collect(&r, &g, numbers);
    write_over(in, tensors);
    struct textbuf    b      = textbuf_new(&perm);
    const struct str *pieces = st_pieces(tensors, state_count(), &disk);
    for (i64 i = 0; i <= state_count(); i++) textbuf_add(&b, pieces[i]);
    struct str file   = textbuf_str(&b);
    shard.bytes       = file.len;
    shard.hash        = xxh64(file);
    m.shards          = &shard;
    m.shard_count     = 1;
    struct str folder = str_fmt(&perm, "runs/a/%.*s", STR_ARG(ckpt_name(&perm, m.id)));
    sim_os_put(sim, str_cat(&perm, folder, STR("/run.safetensors")), file);
    sim_os_put(sim, str_cat(&perm, folder, STR("/manifest.json")), ckpt_manifest_text(&perm, &m));
    if (ckpt_store_open(&sim->os, STR("runs/a"), &perm, &store, &err)) return 0;
    ASSERT(ckpt_attempt_last(store) + 1 >= 1);
    enum status st = ckpt_list(&sim->os, STR("runs/a"), &perm, &list, &err);
    if (!st) st = ckpt_load_newest(&sim->os, &list, &perm, &loaded, &err);
    if (!st) {
        sound(&back, &guard_back);
        st = state_put_back(&back, &guard_back, ckpt_shard(&loaded, STR("run")), &err);
        if (!st) go_on(&back, &guard_back);
    }
    ASSERT(!st || err.text[0]);
    ckpt_store_close(store);
    return 0;
}
