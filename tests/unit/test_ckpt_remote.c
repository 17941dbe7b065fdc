/* test_ckpt_remote.c - checkpoints in an object store: there and back, two starts of one run, what is kept,
 * what an outage at any request leaves behind. Over real HTTP: tests/oracle/test_s3.py. */
#include "harness.h"
#include "plan/catalogue.h"
#include "store/upload.h"
#include "support/fake_s3.h"
#include "support/folder.h"

static struct err err;

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        err = (struct err){ 0 };                                                                   \
        if (call) harness_fail(__FILE__, __LINE__, "%s: %s", #call, err.text);                     \
    } while (0)

static const i64 soon_ns = (i64)10 * 1000000000;

/* A machine: its disk and its uploader. */
struct site {
    struct os          os;
    struct ckpt_store *store;
    struct uploader   *up;
};

static enum status start(struct site *m, struct fake_s3 *f, const struct os *os, i64 keep,
                         struct arena *perm)
{
    struct upload_settings c = {
        .where = fake_s3_settings(), .keep = keep, .web = &f->web, .wait_s = NAN
    };
    m->os = *os;
    CHECK_OK(ckpt_store_open(&m->os, folder_new(perm), perm, &m->store, &err));
    return uploader_start(&m->os, &c, m->store, perm, &m->up, &err);
}

static void stop(struct site *m, bool ended)
{
    uploader_close(m->up, ended);
    ckpt_store_close(m->store);
}

/* Saved by that start, with two shards made of the step. */
static struct ckpt_manifest save(struct site *m, i64 step, f64 loss, struct arena *perm)
{
    struct ckpt_manifest c       = { .run = STR("r"), .state = STR("{}"), .value = loss };
    struct arena         scratch = arena_part(perm, 1 << 21);
    i64                 *bytes   = NEW(perm, i64, 1);
    struct st_tensor     t       = { STR("t"), STR("I64"), shape_1(1), { (char *)bytes, 8 } };
    struct ckpt_part     parts[] = { { STR("weights"), &t, 1, STR("") },
                                     { STR("state"), &t, 1, STR("") } };
    *bytes                       = step;
    c.id = (struct ckpt_id){ .step = step, .attempt = uploader_attempt(m->up) };
    if (!isnan(loss)) c.metric = STR("loss");
    CHECK_OK(ckpt_write(m->store, &c, parts, 2, perm, scratch, &err));
    return c;
}

static struct ckpt_manifest save_and_carry(struct site *m, i64 step, f64 loss, struct arena *perm)
{
    struct ckpt_manifest c = save(m, step, loss, perm);
    uploader_offer(m->up, &c);
    CHECK_OK(uploader_wait_until(m->up, m->os.now_ns(&m->os) + soon_ns, &err));
    return c;
}

/* "12! 10 7*": steps in the store, newest first; ! tagged, * without one of its shards. */
static struct str there(struct fake_s3 *f, struct os *os, struct arena *perm)
{
    struct s3_settings  where = fake_s3_settings();
    struct ckpt_remote *r;
    struct ckpt_list    list;
    struct textbuf      b       = textbuf_new(perm);
    struct arena        scratch = arena_open(1 << 26), lists = arena_open(1 << 24);
    CHECK_OK(ckpt_remote_open(os, &f->web, &where, &lists, &r, &err));
    CHECK_OK(ckpt_remote_list(r, &lists, scratch, &list, &err));
    for (i64 i = 0; i < list.count; i++) {
        struct ckpt *c    = &list.items[i];
        struct str   name = ckpt_name(&scratch, c->id);
        pthread_mutex_lock(&f->lock); /* an uploader may be at work */
        struct fake_object *w =
            fake_s3_find(f, str_fmt(&scratch, "run/%.*s/weights.safetensors", STR_ARG(name)));
        struct fake_object *s =
            fake_s3_find(f, str_fmt(&scratch, "run/%.*s/state.safetensors", STR_ARG(name)));
        textbuf_fmt(&b, "%s%lld%s%s", i ? " " : "", (long long)c->id.step,
                    w && s && w->retired && s->retired ? "!" : "", w && s ? "" : "*");
        pthread_mutex_unlock(&f->lock);
    }
    ckpt_remote_close(r);
    arena_close(&scratch);
    arena_close(&lists);
    return textbuf_str(&b);
}

/* What a new machine goes on from: "step", or "" and what was said. */
static struct str restored_as(struct fake_s3 *f, struct os *os, struct str *said, enum status *end,
                              struct arena *perm)
{
    struct site        m;
    struct ckpt_id     got;
    struct ckpt_list   list;
    struct ckpt_loaded loaded;
    CHECK_OK(start(&m, f, os, 0, perm));
    enum status st   = uploader_restore(m.up, (struct ckpt_id){ 0 }, perm, said, &got, &err);
    struct str  text = STR("");
    *end             = st;
    if (!st) {
        CHECK_OK(ckpt_list(
            &m.os,
            str_sub(ckpt_store_path(m.store, perm, got), 0,
                    ckpt_store_path(m.store, perm, got).len - ckpt_name(perm, got).len - 1),
            perm, &list, &err));
        CHECK_OK(ckpt_load_newest(&m.os, &list, perm, &loaded, &err));
        text =
            str_fmt(perm, "%lld",
                    (long long)*(const i64 *)(const void *)loaded.shards[0].tensors[0].bytes.data);
        ckpt_unload(&m.os, &loaded);
    }
    stop(&m, false);
    return text;
}

static struct str restored(struct fake_s3 *f, struct os *os, struct str *said, struct arena *perm)
{
    enum status st;
    struct str  text = restored_as(f, os, said, &st, perm);
    CHECK(st == STATUS_OK || st == STATUS_NO);
    return text;
}

static void until_there(struct fake_s3 *f, struct os *os, const char *steps, struct arena memory)
{
    for (i64 end = os->now_ns(os) + soon_ns;;) {
        struct arena turn = memory;
        struct str   now  = there(f, os, &turn);
        if (str_eq(now, str_of(steps))) return;
        if (os->now_ns(os) > end) harness_fail(__FILE__, __LINE__, "%s, not %s", now.data, steps);
        os->sleep_ns(os, 1000000);
    }
}

TEST(what_one_machine_saves_another_goes_on_from)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    struct str      said;
    CHECK_OK(start(&m, f, &os, 0, perm));
    CHECK_EQ(uploader_attempt(m.up), 1);
    CHECK(uploader_state(m.up).alone);
    CHECK_EQ(uploader_state(m.up).newest.attempt, 0);
    save_and_carry(&m, 10, NAN, perm);
    struct ckpt_manifest c = save_and_carry(&m, 20, NAN, perm);
    struct upload_state  s = uploader_state(m.up);
    CHECK_EQ(s.newest.step, 20);
    CHECK_EQ(s.newest_wall_ns, c.wall_ns);
    CHECK(s.bytes_s > 0 && s.bytes_left == 0 && !s.busy);
    stop(&m, false);
    CHECK_STR(there(f, &os, perm), "20 10!");
    CHECK_STR(restored(f, &os, &said, perm), "20");
    CHECK_STR(said, "");
}

TEST(a_later_start_takes_over)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     old, new;
    CHECK_OK(start(&old, f, &os, 0, perm));
    save_and_carry(&old, 10, NAN, perm);
    CHECK_OK(start(&new, f, &os, 0, perm));
    CHECK_EQ(uploader_attempt(new.up), 2);
    struct ckpt_manifest c = save(&old, 20, NAN, perm);
    uploader_offer(old.up, &c);
    while (uploader_state(old.up).busy) os.sleep_ns(&os, 1000000);
    CHECK_EQ(uploader_wait_until(old.up, 0, &err), STATUS_INTERRUPTED);
    CHECK_EQ(uploader_state(old.up).taken_over_by, 2);
    save_and_carry(&new, 15, NAN, perm);
    stop(&old, false);
    stop(&new, false);                            /* waits for what follows an upload */
    CHECK_STR(there(f, &os, perm), "15 20! 10!"); /* by start, not by step */
}

TEST(a_claim_whose_answer_is_lost_is_ours)
{
    for (i64 lost = 1; lost <= 4; lost++) {
        struct os       os;
        struct fake_s3 *f = fake_s3_new(perm, &os);
        struct site     m;
        f->torn_at = lost;
        CHECK_OK(start(&m, f, &os, 0, perm));
        CHECK_EQ(uploader_attempt(m.up), 1);
        CHECK(uploader_state(m.up).alone);
        stop(&m, false);
    }
}

TEST(a_store_without_conditions_is_told)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     a, b;
    f->ignores_conditions = true;
    CHECK_OK(start(&a, f, &os, 0, perm));
    CHECK_OK(start(&b, f, &os, 0, perm));
    CHECK(!uploader_state(a.up).alone && !uploader_state(b.up).alone);
    CHECK_EQ(uploader_attempt(a.up), 1);
    CHECK_EQ(uploader_attempt(b.up), 2);
    save_and_carry(&b, 7, NAN, perm);
    CHECK_STR(there(f, &os, perm), "7");
    stop(&a, false);
    stop(&b, false);
}

TEST(a_newer_one_replaces_the_waiting_one_and_what_is_needed_is_not_pruned)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    struct arena    memory = arena_part(perm, 1 << 22);
    CHECK_OK(start(&m, f, &os, 0, perm));
    atomic_store(&f->held, true);
    for (i64 step = 1; step <= 4; step++) {
        struct ckpt_manifest c = save(&m, step, NAN, perm);
        uploader_offer(m.up, &c);
        while (!atomic_load(&f->waiting)) os.sleep_ns(&os, 1000000); /* it runs */
        CHECK_OK(ckpt_prune(m.store, 1, memory, &err));
    }
    CHECK_EQ(uploader_wait_until(m.up, os.now_ns(&os) + 1000000, &err), STATUS_NO);
    CHECK(uploader_state(m.up).bytes_left > 0);
    atomic_store(&f->held, false);
    CHECK_OK(uploader_wait_until(m.up, os.now_ns(&os) + soon_ns, &err));
    stop(&m, false);
    CHECK_STR(there(f, &os, perm), "4 1!");
}

TEST(keep_counts_the_newest_and_the_best_besides)
{
    static const f64 losses[] = { 5, 1, 3, 4, 2 };
    struct os        os;
    struct fake_s3  *f = fake_s3_new(perm, &os);
    struct site      m;
    CHECK_OK(start(&m, f, &os, 2, perm));
    for (i64 i = 0; i < COUNT_OF(losses); i++) {
        save_and_carry(&m, i, losses[i], perm);
        while (uploader_state(m.up).busy) os.sleep_ns(&os, 1000000);
    }
    until_there(f, &os, "4 3! 1", *perm); /* what follows an upload */
    uploader_close(m.up, false);
    CHECK_OK(uploader_start(&m.os, &(struct upload_settings){ fake_s3_settings(), 2, &f->web, NAN },
                            m.store, perm, &m.up, &err));
    stop(&m, true); /* the run is over: all may go cold */
    CHECK_STR(there(f, &os, perm), "4! 3! 1!");
}

TEST(an_outage_at_any_request_leaves_nothing_half_believed)
{
    bool whole = false;
    for (i64 down_at = 1; !whole; down_at++) {
        struct os       os;
        struct arena    turn = arena_open((i64)1 << 30);
        struct fake_s3 *f    = fake_s3_new(&turn, &os);
        struct site     m;
        CHECK_OK(start(&m, f, &os, 0, &turn));
        save_and_carry(&m, 1, NAN, &turn);
        fake_s3_down_after(f, down_at - 1);
        struct ckpt_manifest c = save(&m, 2, NAN, &turn);
        uploader_offer(m.up, &c);
        whole = uploader_wait_until(m.up, os.now_ns(&os) + 500000000, &err) == STATUS_OK;
        stop(&m, false);
        fake_s3_up(f);
        struct str now = there(f, &os, &turn);
        CHECK(str_eq(now, STR("1")) || str_eq(now, STR("2 1")) || str_eq(now, STR("2 1!")));
        CHECK(down_at < 20);
        arena_close(&turn);
    }
}

TEST(after_an_outage_the_upload_goes_on)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    CHECK_OK(start(&m, f, &os, 0, perm));
    fake_s3_down_after(f, 1); /* the first shard */
    struct ckpt_manifest c = save(&m, 1, NAN, perm);
    uploader_offer(m.up, &c);
    while (!uploader_state(m.up).failed.status) os.sleep_ns(&os, 1000000);
    CHECK(strstr(uploader_state(m.up).failed.text, "nobody answers"));
    fake_s3_up(f);
    CHECK_OK(uploader_wait_until(m.up, os.now_ns(&os) + soon_ns, &err));
    CHECK(!uploader_state(m.up).failed.status);
    CHECK_STR(there(f, &os, perm), "1");
    stop(&m, false);
}

TEST(what_only_the_disk_has_is_uploaded_by_the_next_start)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    struct ckpt_id  got;
    struct str      said;
    CHECK_OK(start(&m, f, &os, 0, perm));
    struct ckpt_manifest c = save(&m, 1, NAN, perm);
    CHECK_EQ(uploader_restore(m.up, c.id, perm, &said, &got, &err), STATUS_NO);
    CHECK_OK(uploader_wait_until(m.up, os.now_ns(&os) + soon_ns, &err));
    CHECK_STR(there(f, &os, perm), "1");
    uploader_close(m.up, false); /* a start restores once, before its thread has anything to do */
    CHECK_OK(uploader_start(&m.os, &(struct upload_settings){ fake_s3_settings(), 0, &f->web, NAN },
                            m.store, perm, &m.up, &err));
    CHECK_EQ(uploader_restore(m.up, c.id, perm, &said, &got, &err), STATUS_NO);
    CHECK(!uploader_state(m.up).busy); /* it is there */
    stop(&m, false);
}

TEST(shards_without_a_manifest_go_after_a_day)
{
    static const struct {
        const char *key;
        i64         age_s; /* 0: not told */
        bool        stays;
    } cases[] = {
        { "run/attempts/000001", 0, true },
        { "run/step-000000001.1.1/state.safetensors", 90000, false },
        { "run/step-000000001.1.1/weights.safetensors", 90000, false },
        { "run/step-000000002.1.2/state.safetensors", 90000, true }, /* a sister is young */
        { "run/step-000000002.1.2/weights.safetensors", 60, true },
        { "run/step-000000003.1.3/state.safetensors", 90000, true },
        { "run/step-000000003.1.3/manifest.json", 90000, true },
        { "run/step-000000004.9.1/state.safetensors", 90000, true }, /* of a later start */
        { "run/step-000000005.1.4/state.safetensors", 0, true },
        { "run/step-notes/mine.txt", 90000, true }
    };
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct fake_object *o = &f->objects[f->count++];
        snprintf(o->key, sizeof o->key, "%s", cases[i].key);
        o->bytes      = "";
        o->modified_s = cases[i].age_s ? os.wall_ns(&os) / 1000000000 - cases[i].age_s : 0;
    }
    CHECK_OK(start(&m, f, &os, 0, perm));
    for (i64 i = 0; i < COUNT_OF(cases); i++)
        CHECK_EQ(fake_s3_find(f, str_of(cases[i].key)) != NULL, cases[i].stays);
    stop(&m, false);
}

TEST(what_is_damaged_or_archived_is_passed_over_with_a_sentence)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    struct str      said;
    CHECK_OK(start(&m, f, &os, 0, perm));
    for (i64 step = 1; step <= 4; step++) save_and_carry(&m, step, NAN, perm);
    stop(&m, false);
    struct fake_object *manifest = fake_s3_find(f, STR("run/step-000000004.1.4/manifest.json"));
    manifest->bytes              = "{ not a manifest";
    manifest->len                = 16;
    struct fake_object *shard    = fake_s3_find(f, STR("run/step-000000003.1.3/state.safetensors"));
    char               *bytes    = NEW(perm, char, shard->len);
    memcpy(bytes, shard->bytes, (size_t)shard->len);
    bytes[shard->len - 1] ^= 1;
    shard->bytes = bytes;
    fake_s3_find(f, STR("run/step-000000002.1.2/weights.safetensors"))->storage_class =
        "DEEP_ARCHIVE";
    CHECK_STR(restored(f, &os, &said, perm), "1");
    CHECK(memmem(said.data, (size_t)said.len, "step-000000004.1.4", 18));
    CHECK(memmem(said.data, (size_t)said.len, "state.safetensors", 17));
    CHECK(memmem(said.data, (size_t)said.len, "is archived in DEEP_ARCHIVE", 27));
    CHECK(memmem(said.data, (size_t)said.len, "12 hours", 8));
    CHECK(memmem(said.data, (size_t)said.len, "$0.00", 5));
    CHECK(str_ends(said, STR("; 3 steps are repeated, from step 1 on")));
    fake_s3_find(f, STR("run/step-000000001.1.1/weights.safetensors"))->storage_class = "GLACIER";
    enum status st;
    CHECK_STR(restored_as(f, &os, &said, &st, perm), ""); /* and never from nothing */
    CHECK_EQ(st, STATUS_WORLD);
    CHECK(strstr(err.text, "no checkpoint in s3://bucket/run/ can be used: "));
}

/* A run that begins anew leaves nothing that costs money, or that a machine after it would stop at. */
TEST(what_is_damaged_goes_when_a_run_begins_anew)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    struct str      said;
    enum status     st;
    CHECK_OK(start(&m, f, &os, 0, perm));
    for (i64 step = 1; step <= 3; step++) save_and_carry(&m, step, NAN, perm);
    stop(&m, false);
    struct fake_object *manifest = fake_s3_find(f, STR("run/step-000000003.1.3/manifest.json"));
    manifest->bytes              = "{ not a manifest";
    manifest->len                = 16;
    struct fake_object *notes    = &f->objects[f->count++];
    *notes                       = (struct fake_object){ .bytes = "mine" };
    snprintf(notes->key, sizeof notes->key, "run/step-000000003.1.3/notes.txt");
    snprintf(fake_s3_find(f, STR("run/step-000000002.1.2/state.safetensors"))->key, 8, "elsewhr");
    CHECK_OK(start(&m, f, &os, 0, perm));
    CHECK_OK(uploader_clear(m.up, &err));
    stop(&m, false);
    for (i64 i = 0; i < f->count; i++)
        CHECK(!strstr(f->objects[i].key, "/step-") || strstr(f->objects[i].key, "notes.txt"));
    CHECK(fake_s3_find(f, STR("run/step-000000003.1.3/notes.txt")));
    CHECK_STR(restored_as(f, &os, &said, &st, perm), "");
    CHECK_EQ(st, STATUS_NO);
}

static const i32 odd[] = { 307, 400, 403, 404, 500, 200 }; /* 200: other bytes */

/* A store with checkpoints of steps 1, 2 and 3. */
static struct fake_s3 *store_of_three(struct os *os, struct arena *perm)
{
    struct fake_s3 *f = fake_s3_new(perm, os);
    struct site     m;
    CHECK_OK(start(&m, f, os, 0, perm));
    for (i64 step = 1; step <= 3; step++) save_and_carry(&m, step, NAN, perm);
    stop(&m, false);
    return f;
}

TEST(one_bad_answer_for_the_newest_is_asked_again)
{
    static const char *const keys[] = { "3.1.3/manifest.json", "3.1.3/weights.safetensors" };
    for (i64 i = 0; i < COUNT_OF(odd) * COUNT_OF(keys); i++) {
        struct arena    turn = arena_open((i64)1 << 30);
        struct os       os;
        struct fake_s3 *f = store_of_three(&os, &turn);
        struct str      said;
        fake_s3_fault(f, keys[i % 2], odd[i / 2], 1);
        CHECK_STR(restored(f, &os, &said, &turn), "3");
        CHECK_STR(said, "");
        CHECK_EQ(f->fault_count, 0);
        arena_close(&turn);
    }
}

/* It may be whole: nothing older is taken, nothing is begun, nothing is deleted. */
TEST(a_store_that_does_not_give_the_newest_is_no_store_without_it)
{
    for (i64 i = 0; i < COUNT_OF(odd); i++) {
        struct arena    turn = arena_open((i64)1 << 30);
        struct os       os;
        struct fake_s3 *f = store_of_three(&os, &turn);
        struct str      said;
        enum status     st;
        fake_s3_fault(f, "3.1.3/weights.safetensors", odd[i], 1000);
        struct str text = restored_as(f, &os, &said, &st, &turn);
        if (odd[i] == 200) CHECK_STR(text, "2"); /* read whole, and wrong twice: damaged */
        else CHECK_EQ(st, STATUS_WORLD);
        if (odd[i] != 200) CHECK(strstr(err.text, "weights.safetensors"));
        fake_s3_fault(f, "", 0, 0);
        CHECK_STR(there(f, &os, &turn), "3 2! 1!");
        arena_close(&turn);
    }
}

TEST(nothing_old_goes_before_a_newer_one_was_read_back)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    CHECK_OK(start(&m, f, &os, 1, perm));
    fake_s3_fault(f, "weights.safetensors", 200,
                  1000000); /* what comes back is never what went there */
    for (i64 step = 1; step <= 3; step++) save_and_carry(&m, step, NAN, perm);
    while (uploader_state(m.up).note.status != STATUS_NO) os.sleep_ns(&os, 1000000);
    CHECK(strstr(uploader_state(m.up).note.text, "no old checkpoint is deleted"));
    fake_s3_fault(f, "", 0, 0);
    save_and_carry(&m, 4, NAN, perm);
    until_there(f, &os, "4", *perm);
    stop(&m, false);
}

/* Reading shards back takes for ever, unless it is given up. */
static atomic_bool reads_hang;
static atomic_int  reads_hanging;
static enum status (*fake_send)(struct web *, const struct web_request *, struct arena *,
                                struct web_reply *, struct err *);

static enum status send_or_hang(struct web *w, const struct web_request *r, struct arena *perm,
                                struct web_reply *out, struct err *e)
{
    bool shard = str_eq(r->method, STR("GET")) && strstr(r->url.data, "safetensors");
    if (!shard || !atomic_load(&reads_hang)) return fake_send(w, r, perm, out, e);
    atomic_fetch_add(&reads_hanging, 1);
    while (atomic_load(&reads_hang) && !(r->cancel && atomic_load(r->cancel)))
        os_real()->sleep_ns(os_real(), 1000000);
    return err_set(e, STATUS_INTERRUPTED, "given up");
}

/* The last checkpoint of a run does not wait until an older one is read back for pruning; nor does the end. */
TEST(the_last_upload_does_not_wait_for_pruning)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    fake_send   = f->web.send;
    f->web.send = send_or_hang;
    atomic_store(&reads_hang, true);
    CHECK_OK(start(&m, f, &os, 1, perm));
    save_and_carry(&m, 1, NAN, perm);
    save_and_carry(&m, 2, NAN, perm);
    while (!atomic_load(&reads_hanging)) os.sleep_ns(&os, 1000000);
    struct ckpt_manifest last = save(&m, 3, NAN, perm);
    uploader_offer(m.up, &last);
    CHECK_EQ(uploader_wait_until(m.up, os.now_ns(&os) + 100000000, &err),
             STATUS_NO); /* nobody hurries yet */
    CHECK_OK(uploader_wait_end(m.up, os.now_ns(&os) + soon_ns, NULL, NULL, &err));
    CHECK_EQ(uploader_state(m.up).newest.step, 3);
    CHECK_EQ(uploader_state(m.up).note.status, STATUS_OK);
    stop(&m, true); /* it is reading back again */
    CHECK_STR(there(f, &os, perm), "3! 2! 1!");
    atomic_store(&reads_hang, false);
}

TEST(archives_cost_what_the_catalogue_says)
{
    static const char *const names[][2] = { { "GLACIER", "glacier" },
                                            { "DEEP_ARCHIVE", "deep_archive" } };
    struct catalogue        *c          = catalogue_new(perm);
    f64                      hours, usd_gb;
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        CHECK(ckpt_remote_archive(str_of(names[i][0]), &hours, &usd_gb));
        CHECK_EQ(usd_gb, catalogue_storage(c, STR("aws"), str_of(names[i][1]))->retrieve_gb_usd);
    }
    CHECK(!ckpt_remote_archive(STR("GLACIER_IR"), &hours, &usd_gb));
    CHECK(!ckpt_remote_archive(STR(""), &hours, &usd_gb));
}

TEST(libcurl_is_there_or_a_sentence_says_so)
{
    struct web *web;
    enum status st = web_open(os_real(), perm, &web, &err);
    if (!st) web_close(web);
    else CHECK(st == STATUS_WORLD && strstr(err.text, "libcurl"));
}

TEST(addresses_that_are_none)
{
    static const char *const wrong[] = { "bucket/x",  "http://x", "s3://",
                                         "s3://UP/x", "s3:///x",  "s3://ab/x" };
    struct os                os;
    struct fake_s3          *f = fake_s3_new(perm, &os);
    for (i64 i = 0; i < COUNT_OF(wrong); i++) {
        struct s3_settings  c = fake_s3_settings();
        struct ckpt_remote *r;
        c.to = str_of(wrong[i]);
        CHECK_EQ(ckpt_remote_open(&os, &f->web, &c, perm, &r, &err), STATUS_USAGE);
        CHECK(strstr(err.text, wrong[i]));
    }
}

static void hear(void *context, const char *sentence) { snprintf(context, 700, "%s", sentence); }

/* A store that is down when the run ends: said, waited for as long as was asked, and what to do. */
TEST(the_end_of_a_run_waits_as_long_as_it_may)
{
    struct os              os;
    struct fake_s3        *f      = fake_s3_new(perm, &os);
    struct upload_settings c      = { .where = fake_s3_settings(), .web = &f->web, .wait_s = 1.5 };
    struct str             folder = folder_new(perm);
    struct site            m      = { .os = os };
    char                   heard[700] = "";
    CHECK_OK(ckpt_store_open(&m.os, folder, perm, &m.store, &err));
    CHECK_OK(uploader_start(&m.os, &c, m.store, perm, &m.up, &err));
    CHECK_OK(uploader_wait_end(m.up, 0, hear, heard, &err));
    CHECK_STR(heard, "");
    fake_s3_down_after(f, 0);
    struct ckpt_manifest saved = save(&m, 1, NAN, perm);
    i64                  begin = os.now_ns(&os);
    uploader_offer(m.up, &saved);
    CHECK_EQ(uploader_wait_end(m.up, 0, hear, heard, &err), STATUS_NO);
    f64 took_s = (f64)(os.now_ns(&os) - begin) * 1e-9;
    CHECK(took_s >= 1.5 && took_s < 10);
    CHECK(strstr(
        heard,
        "waiting for the upload to s3://bucket/run, at most 2 s (checkpoint.upload_wait_s): "));
    CHECK(strstr(
        err.text,
        str_fmt(perm, "frugal checkpoints copy %.*s s3://bucket/run", STR_ARG(folder)).data));
    fake_s3_up(f);
    CHECK_OK(uploader_wait_end(m.up, 0, hear, heard, &err));
    stop(&m, false);
}

static void *release_soon(void *context)
{
    struct fake_s3 *f = context;
    os_real()->sleep_ns(os_real(), 200000000);
    atomic_store(&f->held, false);
    return NULL;
}

/* By the rate so far there is time for the one on its way alone: the last one is not there, and that is said even
 * where the other one is quicker than expected. */
TEST(a_last_checkpoint_that_there_was_no_time_for_is_told)
{
    struct os              os;
    struct fake_s3        *f = fake_s3_new(perm, &os);
    struct upload_settings c = { .where = fake_s3_settings(), .web = &f->web, .wait_s = 2 };
    struct site            m = { .os = os };
    struct ckpt_manifest   saved[3];
    pthread_t              thread;
    CHECK_OK(ckpt_store_open(&m.os, folder_new(perm), perm, &m.store, &err));
    CHECK_OK(uploader_start(&m.os, &c, m.store, perm, &m.up, &err));
    for (i64 i = 0; i < 3; i++) saved[i] = save(&m, i + 1, NAN, perm);
    atomic_store(&f->held, true);
    uploader_offer(m.up, &saved[0]);
    os_real()->sleep_ns(&os, 1500000000); /* 1.5 s for one: the fake sleeps less */
    atomic_store(&f->held, false);
    CHECK_OK(uploader_wait_until(m.up, os.now_ns(&os) + soon_ns, &err));
    atomic_store(&f->held, true);
    uploader_offer(m.up, &saved[1]);
    while (!atomic_load(&f->waiting)) os.sleep_ns(&os, 1000000);
    uploader_offer(m.up, &saved[2]);
    CHECK_EQ(pthread_create(&thread, NULL, release_soon, f), 0);
    CHECK_EQ(uploader_wait_end(m.up, 0, NULL, NULL, &err), STATUS_NO);
    CHECK(strstr(err.text, "the last checkpoint is not in the object store"));
    pthread_join(thread, NULL);
    stop(&m, false);
    CHECK_STR(there(f, &os, perm), "2 1!");
}

/* All is uploaded, and the store goes down before old checkpoints are tagged: nobody waits for that. */
TEST(the_end_of_a_run_does_not_wait_for_tags)
{
    struct os              os;
    struct fake_s3        *f = fake_s3_new(perm, &os);
    struct upload_settings c = { .where = fake_s3_settings(), .web = &f->web, .wait_s = 0.5 };
    struct site            m = { .os = os };
    c.where.limit_ns         = 2 * soon_ns; /* so long it is tried again */
    CHECK_OK(ckpt_store_open(&m.os, folder_new(perm), perm, &m.store, &err));
    CHECK_OK(uploader_start(&m.os, &c, m.store, perm, &m.up, &err));
    save_and_carry(&m, 1, NAN, perm);
    until_there(f, &os, "1", *perm);
    fake_s3_down_after(f, 0);
    i64 begin = os.now_ns(&os);
    stop(&m, true);
    CHECK(os.now_ns(&os) - begin < soon_ns / 2);
    fake_s3_up(f);
}

/* A notice comes in the middle of the wait: the third time that it asks. */
static i64 asked;
static i64 until_third(void *context) { return ++asked < 3 ? 0 : *(i64 *)context; }

TEST(a_deadline_that_is_set_during_the_last_wait_counts)
{
    struct os       os;
    struct fake_s3 *f = fake_s3_new(perm, &os);
    struct site     m;
    CHECK_OK(start(&m, f, &os, 1, perm));
    atomic_store(&f->held, true);
    struct ckpt_manifest saved = save(&m, 1, NAN, perm);
    i64                  begin = os.now_ns(&os), deadline = begin + 300000000;
    uploader_offer(m.up, &saved);
    uploader_listen(m.up, until_third, &deadline);
    CHECK_EQ(uploader_wait_end(m.up, 0, NULL, NULL, &err), STATUS_NO); /* else two minutes */
    CHECK(os.now_ns(&os) >= deadline && os.now_ns(&os) < begin + soon_ns);
    CHECK(strstr(err.text, "not in the object store"));
    atomic_store(&f->held, false);
    stop(&m, false);
}
