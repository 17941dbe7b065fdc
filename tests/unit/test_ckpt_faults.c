/* test_ckpt_faults.c - every accident at every call of the save path, on a simulated disk.
 *
 * Three processes, one after the other, save and delete checkpoints in one folder. At one call, each
 * in turn, one of them is killed, gets an error, or finds the disk full; the others go on from what it
 * left. And before every change of the disk, in all of these runs, the power is cut in a copy of that
 * world: what was not synced survives in part, by chance. What must then be found, and at the end:
 *
 *     every checkpoint that has a manifest is whole, to the byte
 *     the newest is not older than the newest that was ever reported as saved
 *     as many as are to be kept, or all that were ever saved
 *     none that was reported as saved was better than the best
 *
 * That the test sees what it should is shown by taking out each sync of the save path in turn. */
#include "base/hash.h"
#include "base/rng.h"
#include "harness.h"
#include "store/checkpoint.h"
#include "store/store_int.h"
#include "support/sim_os.h"

enum { PROCESSES = 3, SAVED_MAX = 8, KEYS_MAX = 64, SHARD_FLOATS = 7 };
enum accident { NONE, KILL, FAIL, FULL, ACCIDENTS };

static const char *const accident_names[] = { "none", "kill", "error", "full disk" };
static const i64         keep             = 1;
static const i64         disk_bytes       = 64 << 20; /* address space */

struct key { /* a place where the save path syncs, as the disk sees it */
    char text[96];
};

struct world {
    struct arena   perm;  /* of one run's processes */
    struct arena   looks; /* of those that look at a disk meanwhile */
    struct sim_os *sim;
    u64            seed;
    enum accident  accident;
    i64            at; /* call of the accident */
    bool           cuts;
    struct {
        struct ckpt_id id;
        f64            value;
    } saved[SAVED_MAX]; /* and reported so */
    i64         saved_count;
    i64         writes;
    const char *phase;         /* what the process is at: part of a key */
    i64         phase_begin;   /* in keys_now */
    struct key  keys_now[256]; /* of this run, in order */
    struct str  paths_now[256];
    i64         keys_now_count;
    const char *skip;        /* text of the key whose syncs do nothing; NULL: none */
    bool        skipped;     /* one did nothing in this run */
    char        broken[800]; /* what was found wrong first; empty: nothing */
};

/* The lower the better: the first of the second process is the best. */
static f64 value_of(i64 write)
{
    static const f64 values[] = { 0.5, 0.4, 0.1, 0.6, 0.6, 0.6, 0.6, 0.6 };
    return values[write % COUNT_OF(values)];
}

/* Two shards whose bytes follow from the name of the checkpoint. */
static void fill(f32 *to, struct ckpt_id id, i64 shard)
{
    for (i64 i = 0; i < SHARD_FLOATS; i++)
        to[i] = (f32)(id.step + 100 * id.attempt + 10 * shard + i);
}

/* The next checkpoint: its manifest, and two parts of one tensor each, in memory. */
struct next {
    struct ckpt_manifest manifest;
    struct st_tensor     tensors[2];
    struct ckpt_part     parts[2];
};

static struct next *next_new(struct world *w, i64 attempt, struct arena *perm)
{
    static const char *const names[2] = { "weights", "state" };
    struct next             *n        = NEW(perm, struct next, 1);
    n->manifest = (struct ckpt_manifest){ .id     = { 10 * (w->writes + 1), attempt, 0 },
                                          .run    = STR("r"),
                                          .metric = STR("loss"),
                                          .value  = value_of(w->writes),
                                          .state  = STR("{}") };
    for (i64 i = 0; i < 2; i++) {
        f32 *to = NEW(perm, f32, SHARD_FLOATS);
        fill(to, n->manifest.id, i);
        n->tensors[i] = (struct st_tensor){
            STR("t"), STR("F32"), shape_1(SHARD_FLOATS), { (char *)to, SHARD_FLOATS * 4 }
        };
        n->parts[i] = (struct ckpt_part){ str_of(names[i]), &n->tensors[i], 1, STR("") };
    }
    w->writes++;
    return n;
}

static void reported(struct world *w, const struct ckpt_manifest *m)
{
    ASSERT(w->saved_count < SAVED_MAX);
    w->saved[w->saved_count].id      = m->id;
    w->saved[w->saved_count++].value = m->value;
}

static void write_one(struct world *w, struct ckpt_store *s, i64 attempt)
{
    struct arena scratch = w->perm, perm = arena_part(&scratch, 1 << 16);
    struct next *n = next_new(w, attempt, &perm);
    if (!ckpt_write(s, &n->manifest, n->parts, 2, &perm, scratch, NULL)) reported(w, &n->manifest);
}

/* One that two processes write; the first has the lock, and commits it once the other has reported its shard. */
static void write_shared(struct world *w, struct ckpt_store *s, i64 attempt)
{
    struct arena          scratch = w->perm, perm = arena_part(&scratch, 1 << 16);
    struct next          *n = next_new(w, attempt, &perm);
    struct ckpt_manifest *m = &n->manifest;
    struct ckpt_shard     all[2];
    if (ckpt_begin(s, m, scratch, NULL)) return;
    enum status own   = ckpt_write_own(s, m, &n->parts[0], 1, &perm, scratch, NULL);
    enum status other = ckpt_write_beside(&w->sim->os, STR("runs/a"), m->id, &n->parts[1], 1,
                                          &all[1], &perm, scratch, NULL);
    all[0]            = m->shards[0];
    m->shards         = all;
    m->shard_count    = 2;
    enum status st    = own ? own : other;
    if (!st) st = ckpt_commit(s, m, scratch, NULL);
    if (st) ckpt_drop(s, m, scratch);
    else reported(w, m);
}

/* A file as a download would leave it: written, not synced. */
static enum status put(struct os *os, struct str folder, struct ckpt_shard *shard,
                       const struct str *pieces, struct arena scratch)
{
    struct str  path  = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(folder), STR_ARG(shard->name));
    struct str  bytes = str_cat(&scratch, pieces[0], pieces[1]);
    struct file f;
    enum status st = os->create(os, path, &f, NULL);
    if (st) return st;
    st = os->write(os, f, bytes, NULL);
    os->close(os, &f, NULL);
    shard->bytes = bytes.len;
    shard->hash  = xxh64(bytes);
    return st;
}

/* The same checkpoint, as if it had been fetched from elsewhere. */
static void import_one(struct world *w, struct ckpt_store *s, i64 attempt)
{
    struct arena          scratch = w->perm, perm = arena_part(&scratch, 1 << 16);
    struct next          *n        = next_new(w, attempt, &perm);
    struct ckpt_shard     shards[] = { { .name = STR("weights.safetensors") },
                                       { .name = STR("state.safetensors") } };
    struct ckpt_manifest *m        = &n->manifest;
    struct str            folder;
    m->id.save     = 9;
    m->shards      = shards;
    m->shard_count = 2;
    enum status st = ckpt_import_begin(s, m, &perm, &folder, NULL);
    for (i64 i = 0; i < 2 && !st; i++)
        st = put(&w->sim->os, folder, &shards[i], st_pieces(&n->tensors[i], 1, &scratch), scratch);
    if (!st && !ckpt_import_commit(s, m, scratch, NULL)) reported(w, m);
}

__attribute__((format(printf, 2, 3))) static void broken(struct world *w, const char *format, ...)
{
    va_list args;
    if (w->broken[0]) return;
    va_start(args, format);
    i64 len = vsnprintf(w->broken, sizeof w->broken, format, args);
    va_end(args);
    snprintf(w->broken + MIN(len, 700), 100, " (%s at call %lld, found before call %lld)",
             accident_names[w->accident], (long long)w->at, (long long)w->sim->calls + 1);
}

static bool is_whole(struct os *os, const struct ckpt *c, struct arena scratch, struct err *err)
{
    static const char *const names[2] = { "weights", "state" };
    struct ckpt_loaded       loaded;
    bool                     same = true;
    if (ckpt_load(os, c, &scratch, &loaded, err)) return false;
    for (i64 i = 0; i < 2 && same; i++) {
        f32                   want[SHARD_FLOATS];
        const struct st_file *f = ckpt_shard(&loaded, str_of(names[i]));
        fill(want, c->id, i);
        same = f && f->count == 1 && f->tensors[0].bytes.len == (i64)sizeof want &&
               !memcmp(f->tensors[0].bytes.data, want, sizeof want);
    }
    if (!same) err_set(err, STATUS_WORLD, "%.*s has other bytes", STR_ARG(c->folder));
    ckpt_unload(os, &loaded);
    return same;
}

/* Looks at a disk as the next process would. */
static void check(struct world *w, struct sim_os *disk, struct arena scratch)
{
    struct ckpt_list list;
    struct err       err;
    f64              best = 1e9, best_saved = 1e9;
    i64              saved = w->saved_count;
    if (ckpt_list(&disk->os, STR("runs/a"), &scratch, &list, &err)) {
        broken(w, "%s", err.text);
        return;
    }
    for (i64 i = 0; i < list.count; i++) {
        if (!is_whole(&disk->os, &list.items[i], scratch, &err))
            broken(w, "believed, but not whole: %s", err.text);
        best = MIN(best, list.items[i].manifest.value);
    }
    for (i64 i = 0; i < saved; i++) best_saved = MIN(best_saved, w->saved[i].value);
    if (saved && (!list.count || ckpt_order(list.items[0].id, w->saved[saved - 1].id) < 0))
        broken(w, "step %lld was saved and is lost", (long long)w->saved[saved - 1].id.step);
    if (list.count < MIN(keep, saved)) broken(w, "only %lld are left", (long long)list.count);
    if (best > best_saved) broken(w, "the best is lost: %g, not %g", best, best_saved);
}

/* All of it ends now, in a copy of the world. */
static void end_and_check(struct world *w, enum sim_survive how)
{
    struct arena   scratch = w->looks;
    struct arena   disk    = arena_part(&scratch, disk_bytes);
    struct sim_os *copy    = sim_os_copy(w->sim, &disk);
    copy->seed             = w->seed;
    sim_os_crash(copy, how);
    check(w, copy, scratch);
}

static void cut_power(struct world *w)
{
    u32 draw = rng_u32((struct rng_key){ .seed = w->seed }, (u64)w->sim->calls);
    end_and_check(w, (enum sim_survive)(draw % SIM_ALL));
}

static void before_change(struct sim_os *sim)
{
    struct world *w      = sim->context;
    bool          differ = w->skip ? w->skipped : sim->calls >= w->at; /* from runs done before */
    if (w->cuts && differ && !w->broken[0]) cut_power(w);
}

/* The path without what differs from one checkpoint to the next and from one process to another. */
static void generic(struct str path, char *to, i64 room)
{
    i64 at = 0;
    for (i64 i = 0; i < path.len && at < room - 8; i++) {
        struct str rest = str_sub(path, i, path.len);
        if (str_starts(rest, STR("step-"))) {
            at += snprintf(to + at, 8, "step");
            i += str_find(rest, '/') - 1;
        } else {
            to[at++] = path.data[i];
        }
        if (at >= 5 && !memcmp(to + at - 5, ".json", 5)) break;
    }
    to[at] = '\0';
}

/* "write runs/a/step/ (manifest) 1": what the process is at, what it syncs, whether there is a
 * manifest in it, and which time it does. */
static struct key key_of(struct world *w, struct str path)
{
    struct key   k;
    char         text[80];
    i64          times    = 1;
    struct arena scratch  = w->looks;
    bool         manifest = sim_os_look(w->sim, str_cat(&scratch, path, STR("manifest.json"))).data;
    generic(path, text, sizeof text);
    i64 len =
        snprintf(k.text, sizeof k.text, "%s %s%s ", w->phase, text, manifest ? "(manifest)" : "");
    for (i64 i = w->phase_begin; i < w->keys_now_count; i++)
        times +=
            str_eq(path, w->paths_now[i]) && !strncmp(k.text, w->keys_now[i].text, (size_t)len);
    snprintf(k.text + len, sizeof k.text - (size_t)len, "%lld", (long long)times);
    return k;
}

static bool skip_sync(struct sim_os *sim, struct str path)
{
    struct world *w = sim->context;
    struct key    k = key_of(w, path);
    ASSERT(w->keys_now_count < COUNT_OF(w->keys_now));
    w->paths_now[w->keys_now_count]  = path;
    w->keys_now[w->keys_now_count++] = k;
    bool skip                        = w->skip && !strcmp(w->skip, k.text);
    w->skipped |= skip;
    return skip;
}

static void begin(struct world *w, const char *phase)
{
    w->phase       = phase;
    w->phase_begin = w->keys_now_count;
}

static void process(struct world *w)
{
    struct arena       perm = arena_part(&w->perm, 1 << 16);
    struct os         *os   = &w->sim->os;
    struct ckpt_store *s;
    begin(w, "open");
    if (ckpt_store_open(os, STR("runs/a"), &perm, &s, NULL)) return;
    i64 attempt = ckpt_attempt_last(s) + 1;
    begin(w, "prune");
    ckpt_prune(s, keep, w->perm, NULL);
    begin(w, "write");
    write_one(w, s, attempt);
    static const struct {
        const char *phase;
        void (*write)(struct world *w, struct ckpt_store *s, i64 attempt);
    } second[] = { { "write", write_one }, { "import", import_one }, { "shared", write_shared } };
    begin(w, second[(attempt - 1) % COUNT_OF(second)].phase);
    second[(attempt - 1) % COUNT_OF(second)].write(w, s, attempt);
    begin(w, "prune");
    ckpt_prune(s, keep, w->perm, NULL);
    ckpt_store_close(s);
}

/* One run with its accident; false: the accident would have come after the end. */
static bool run(struct world *w, struct arena memory)
{
    struct arena   disk = arena_part(&memory, disk_bytes);
    struct sim_os *sim  = sim_os_new(&disk);
    w->looks            = arena_part(&memory, 2 * disk_bytes);
    w->perm             = memory;
    w->sim              = sim;
    w->skipped          = false;
    w->saved_count = w->writes = w->keys_now_count = 0;
    w->broken[0]                                   = '\0';
    sim->context                                   = w;
    sim->before_change                             = before_change;
    sim->skip_sync                                 = skip_sync;
    if (w->accident == KILL) sim->kill_at = w->at;
    if (w->accident == FAIL) sim->fail_at = w->at;
    if (w->accident == FULL) sim->full_at = w->at;
    for (i64 i = 0; i < PROCESSES; i++) {
        process(w);
        if (!w->at || sim->calls >= w->at) sim_os_crash(sim, SIM_ALL);
        else {
            i64 kill = sim->kill_at, fail = sim->fail_at, full = sim->full_at;
            sim_os_crash(sim, SIM_ALL); /* its process ended, the accident is still to come */
            sim->kill_at = kill, sim->fail_at = fail, sim->full_at = full;
        }
    }
    end_and_check(w, SIM_ALL);
    if (w->cuts) cut_power(w);
    return sim->calls >= w->at;
}

static i64 calls_in_all(struct world *w, struct arena memory)
{
    w->accident = NONE;
    w->at       = 0;
    run(w, memory);
    return w->sim->calls;
}

static f64 seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static f64 seconds_max(void)
{
    const char *text = getenv("CHECK_SECONDS");
    return text ? strtod(text, NULL) : 5;
}

/* Without any accident, and without a sync missing: what a run leaves is what it should. */
TEST(three_processes_leave_the_newest_and_the_best)
{
    struct world    *w = NEW(perm, struct world, 1);
    struct ckpt_list list;
    w->seed = test_seed();
    run(w, scratch);
    CHECK_STR(w->broken, "");
    CHECK_EQ(w->saved_count, 2 * PROCESSES);
    CHECK(!ckpt_list(&w->sim->os, STR("runs/a"), perm, &list, NULL));
    CHECK_EQ(list.count, 2);
    CHECK_EQ(list.items[0].id.step, 60);
    CHECK_EQ(list.items[1].id.step, 30);
}

/* Every accident at every call, and after each a power cut before every change, in an order by
 * chance, until all were tried or the time is up; the first of a call always. */
TEST(no_accident_at_any_call_spoils_a_checkpoint)
{
    struct world *w     = NEW(perm, struct world, 1);
    u64           seed  = test_seed();
    i64           calls = calls_in_all(w, scratch), tried = 0, all = calls * (ACCIDENTS - 1);
    f64           end_s = seconds_now() + seconds_max();
    w->cuts             = true;
    for (; tried < all && (tried < 100 || seconds_now() < end_s); tried++) {
        i64 which   = rng_permute(seed, 0, tried, all);
        w->seed     = seed + (u64)tried;
        w->accident = (enum accident)(1 + which % (ACCIDENTS - 1));
        w->at       = 1 + which / (ACCIDENTS - 1);
        run(w, scratch);
        CHECK_STR(w->broken, "");
        CHECK(w->saved_count >= 2 * (PROCESSES - 2)); /* a process without accidents can save */
    }
    printf("(%lld of %lld accidents in %lld calls) ", (long long)tried, (long long)all,
           (long long)calls);
}

/* Adds the places where the last run synced. */
static void keys_add(const struct world *w, struct key *keys, i64 *count)
{
    for (i64 i = 0; i < w->keys_now_count; i++) {
        i64 k = 0;
        while (k < *count && strcmp(keys[k].text, w->keys_now[i].text)) k++;
        ASSERT(k < KEYS_MAX);
        if (k == *count) keys[(*count)++] = w->keys_now[i];
    }
}

/* Is anything wrong in any run without that sync? Some need an accident and a cut at one call each,
 * and the chance that just these bytes survive: so all is tried again with other luck. */
static bool is_found_out(struct world *w, i64 calls, struct arena memory)
{
    enum { ROUNDS_MAX = 40 }; /* the rarest is found in two rounds of three */
    for (i64 round = 0; round < ROUNDS_MAX; round++)
        for (i64 which = 0; which <= 2 * calls; which++) {
            w->accident = which == 0 ? NONE : which % 2 ? KILL : FAIL;
            w->at       = (which + 1) / 2;
            w->seed++;
            run(w, memory);
            if (w->broken[0]) return true;
        }
    return false;
}

/* A save path that forgets one of its syncs is found out, whichever it is. */
TEST(no_sync_can_be_left_out)
{
    struct world *w     = NEW(perm, struct world, 1);
    struct key   *keys  = NEW(perm, struct key, KEYS_MAX);
    i64           count = 0;
    w->seed             = test_seed();
    i64 calls           = calls_in_all(w, scratch);
    for (i64 at = 1; at <= calls; at++) /* some syncs are done after an accident only */
        for (i64 accident = KILL; accident < ACCIDENTS; accident++) {
            w->accident = (enum accident)accident;
            w->at       = at;
            run(w, scratch);
            keys_add(w, keys, &count);
        }
    w->cuts = true;
    for (i64 i = 0; i < count; i++) {
        w->skip = keys[i].text;
        if (!is_found_out(w, calls, scratch))
            harness_fail(__FILE__, __LINE__, "without the sync \"%s\" nothing is lost", w->skip);
    }
    printf("(%lld syncs) ", (long long)count);
    CHECK(count >= 15);
}
