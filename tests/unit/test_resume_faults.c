/* test_resume_faults.c - a run whose world ends again and again, at any call, ends with the same bits.
 *
 * The whole run works on a simulated disk: data, checkpoints and weights. It is killed, gets an error,
 * finds the disk full or loses power, of which what was not synced survives in part; then it is started
 * again in what is left. test_ckpt_faults.c does this to the save path alone, and at every call. */
#include "base/rng.h"
#include "harness.h"
#include "support/folder.h"
#include "support/sim_os.h"
#include "support/small_run.h"
#include "train/train.h"

enum { STARTS = 4, TRIALS_MIN = 3 }; /* with an accident each; at least */
enum accident { KILL, POWER_CUT, FAIL, FULL, ACCIDENTS };

static const i64 disk_bytes = (i64)1 << 30; /* address space */

/* A file of the real disk, on the simulated one under the same name. */
static void bring(struct sim_os *sim, struct str path, struct arena *perm)
{
    struct str bytes;
    CHECK_EQ(os_read_all(os_real(), path, perm, &bytes, NULL), STATUS_OK);
    sim_os_put(sim, path, bytes);
}

static struct settings settings_new(struct arena *perm)
{
    struct settings s =
        small_run(perm, folder_new(perm).data,
                  "- dropout: 0.2\n- flatten\n- dense: {units: 8, activation: relu}\n"
                  "- dense: 4\n");
    s.train.steps      = 12;
    s.train.eval_every = 4;
    s.train.out        = STR("out/weights");
    s.checkpoint.dir   = STR("runs/a");
    s.checkpoint.every = STR("2");
    s.checkpoint.keep  = 2;
    return s;
}

static struct sim_os *world_new(const struct settings *s, struct arena *disk, struct arena *perm)
{
    struct sim_os *sim = sim_os_new(disk);
    bring(sim, s->data.path, perm);
    bring(sim, s->data.labels, perm);
    sim_os_put(sim, STR("out/here"), STR("")); /* for the folder */
    return sim;
}

struct watch {
    i64 resumed; /* starts that went on from a checkpoint */
    i64 damaged; /* checkpoints that were passed over */
    i64 failed;  /* saves */
    i64 full;    /* notes that the disk is */
};

static void on_checkpoint(void *context, const struct event_checkpoint *t)
{
    struct watch *w = context;
    w->resumed += t->what == CHECKPOINT_RESUMED;
    w->damaged += t->what == CHECKPOINT_DAMAGED;
    w->failed += t->what == CHECKPOINT_FAILED;
}

static void on_note(void *context, const struct event_note *e)
{
    ((struct watch *)context)->full +=
        memmem(e->text.data, (size_t)e->text.len, "is full", 7) != NULL;
}

static enum status run(struct sim_os *sim, const struct settings *s, struct watch *w,
                       struct train_result *r, struct err *err)
{
    struct subscriber l = { .context = w, .on_checkpoint = on_checkpoint, .on_note = on_note };
    return train_run(&sim->os, s, &(struct train_with){ .to = &l }, r, err);
}

/* Where and how the next start ends. */
static enum accident plan(struct sim_os *sim, struct rng_key key, u64 start, i64 calls)
{
    enum accident how = (enum accident)(rng_u32(key, 3 * start) % ACCIDENTS);
    i64           at  = sim->calls + 1 + rng_u32(key, 3 * start + 1) % calls;
    sim->seed         = key.seed + start;
    if (how == FAIL) sim->fail_at = at;
    else if (how == FULL) sim->full_at = at;
    else sim->kill_at = at;
    return how;
}

/* Accidents, then one start without any: it must end as if nothing had been. Returns how many starts
 * went on from a checkpoint. */
static i64 check_trial(const struct settings *s, struct rng_key key, i64 calls, struct str weights,
                       const struct train_result *want, struct arena memory)
{
    struct arena        disk = arena_part(&memory, disk_bytes);
    struct sim_os      *sim  = world_new(s, &disk, &memory);
    struct watch        w    = { 0 };
    struct err          err  = { 0 };
    struct train_result r;
    for (u64 start = 0; start < STARTS; start++) {
        enum accident how = plan(sim, key, start, calls);
        u32           any = rng_u32(key, 3 * start + 2) % SIM_ALL;
        run(sim, s, &w, &r, &err);
        sim_os_crash(sim, how == POWER_CUT ? (enum sim_survive)any : SIM_ALL);
    }
    w.damaged = 0;
    if (run(sim, s, &w, &r, &err))
        harness_fail(__FILE__, __LINE__, "trial %d: %s", (int)key.step, err.text);
    CHECK_EQ(w.damaged, 0);
    CHECK(str_eq(sim_os_look(sim, s->train.out), weights));
    CHECK_EQ(memcmp(&r.loss, &want->loss, sizeof r.loss), 0);
    CHECK_EQ(r.steps, want->steps);
    return w.resumed;
}

TEST(a_run_ends_with_the_same_bits_whatever_happens_to_its_disk)
{
    struct settings     s    = settings_new(perm);
    struct arena        disk = arena_part(perm, disk_bytes);
    struct sim_os      *sim  = world_new(&s, &disk, perm);
    struct watch        w    = { 0 };
    struct err          err  = { 0 };
    struct train_result whole;
    struct rng_key      key   = { .seed = test_seed() };
    const char         *limit = getenv("CHECK_SECONDS");
    struct os          *real  = os_real();
    i64 end_ns = real->now_ns(real) + (i64)((limit ? strtod(limit, NULL) : 5) * 1e9), resumed = 0;

    if (run(sim, &s, &w, &whole, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct str weights = sim_os_look(sim, s.train.out);
    i64        calls   = sim->calls;
    CHECK(weights.len > 100);
    for (; key.step < TRIALS_MIN || real->now_ns(real) < end_ns; key.step++)
        resumed += check_trial(&s, key, calls, weights, &whole, scratch);
    printf("(%d trials, %d restarts from a checkpoint) ", (int)key.step, (int)resumed);
    CHECK(resumed > 0);
}

/* Room for two checkpoints where three are to be kept: each save finds room, and it is said once. */
TEST(older_checkpoints_make_room_on_a_full_disk)
{
    struct settings     s    = settings_new(perm);
    struct arena        disk = arena_part(perm, disk_bytes);
    struct sim_os      *sim  = world_new(&s, &disk, perm);
    struct watch        w    = { 0 };
    struct err          err  = { 0 };
    struct train_result whole, r;
    s.train.out        = STR("");
    s.train.epochs     = 0;
    s.train.steps      = 2000;      /* so that there are a few saves on the slowest machine, */
    s.checkpoint.every = STR("10"); /* and on the fastest no more than the disk has names for */
    s.checkpoint.keep  = 3;
    if (run(sim, &s, &w, &whole, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(w.full, 0);
    i64 one        = whole.saving.bytes,
        data       = sim_os_look(sim, s.data.path).len + sim_os_look(sim, s.data.labels).len;
    sim            = world_new(&s, &disk, perm);
    sim->bytes_max = data + 2 * one + one / 2 + 8192; /* manifests, the lock */
    if (run(sim, &s, &w, &r, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(w.failed, 0);
    CHECK_EQ(w.full, 1);
    CHECK(r.saving.count > 2);
    CHECK_EQ(r.saving.step, 2000);
    CHECK_EQ(memcmp(&r.loss, &whole.loss, sizeof r.loss), 0);
}
