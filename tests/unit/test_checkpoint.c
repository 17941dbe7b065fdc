/* test_checkpoint.c - what is written is listed, verified and read back; what is damaged is told and
 * passed over; what is pinned, best or newest stays. The accidents are in test_ckpt_faults.c. */
#include "harness.h"
#include "store/checkpoint.h"
#include "support/folder.h"
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err err;

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        err = (struct err){ 0 };                                                                   \
        if (call) harness_fail(__FILE__, __LINE__, "%s: %s", #call, err.text);                     \
    } while (0)

static struct str in(struct arena *perm, struct str folder, const char *name)
{
    return str_fmt(perm, "%.*s/%s", STR_ARG(folder), name);
}

/* A checkpoint of three tensors in two parts, all made of the step. */
static enum status save(struct ckpt_store *s, i64 step, f64 value, struct arena *perm,
                        struct ckpt_manifest *m)
{
    f32              *w       = NEW(perm, f32, 6);
    i64              *counter = NEW(perm, i64, 1);
    struct arena      scratch = arena_part(perm, 1 << 21);
    struct ckpt_part *parts   = NEW(perm, struct ckpt_part, 2);
    struct st_tensor *t       = NEW(perm, struct st_tensor, 3);
    for (i64 i = 0; i < 6; i++) w[i] = (f32)(10 * step + i);
    *counter = step;
    t[0]     = (struct st_tensor){ STR("w"), STR("F32"), shape_2(2, 2), { (char *)w, 16 } };
    t[1]     = (struct st_tensor){ STR("b"), STR("F32"), shape_1(2), { (char *)(w + 4), 8 } };
    t[2]     = (struct st_tensor){ STR("step"), STR("I64"), shape_1(1), { (char *)counter, 8 } };
    parts[0] = (struct ckpt_part){ STR("weights"), t, 2, STR("") };
    parts[1] = (struct ckpt_part){ STR("state"), t + 2, 1, STR("") };
    *m       = (struct ckpt_manifest){ .run = STR("r1"), .state = STR("{\"threads\":2}") };
    m->id    = (struct ckpt_id){ .step = step, .attempt = MAX(1, ckpt_attempt_last(s)) };
    m->value = value;
    if (!isnan(value)) m->metric = STR("loss");
    return ckpt_write(s, m, parts, 2, perm, scratch, &err);
}

static struct str steps_there(struct str folder, struct arena *perm)
{
    struct ckpt_list list;
    struct arena     memory = arena_part(perm, 1 << 22);
    struct textbuf   b      = textbuf_new(perm);
    CHECK_OK(ckpt_list(os_real(), folder, &memory, &list, &err));
    for (i64 i = 0; i < list.count; i++)
        textbuf_fmt(&b, "%s%lld%s", i ? " " : "", (long long)list.items[i].id.step,
                    list.items[i].why.status ? "?" : "");
    return textbuf_str(&b);
}

/* Changes one byte in the middle of a file. */
static void spoil(struct str path, struct arena *perm)
{
    struct str text;
    CHECK_OK(os_read_all(os_real(), path, perm, &text, &err));
    ((char *)(uintptr_t)text.data)[text.len / 2] ^= 1;
    CHECK_OK(os_publish(os_real(), path, text, *perm, &err));
}

TEST(names_are_read_back_and_no_others_are)
{
    static const char *const wrong[] = { "step-1.1.1",
                                         "step-000000001.0.1",
                                         "step-000000001.1",
                                         "step-000000001.1.1.",
                                         "step-0000000001.1.1",
                                         "step-",
                                         "step-000000001.1.01",
                                         "step--00000001.1.1",
                                         "lock",
                                         "",
                                         "step-000000001.1.99999999999999999999",
                                         "step-000000001.9223372036854775807.1" };
    struct ckpt_id           id, ids[] = { { 0, 1, 1 },
                                           { 1200, 3, 7 },
                                           { CKPT_NUMBER_MAX, CKPT_NUMBER_MAX, CKPT_NUMBER_MAX } };
    for (i64 i = 0; i < COUNT_OF(ids); i++) {
        CHECK(ckpt_name_parse(ckpt_name(perm, ids[i]), &id));
        CHECK_EQ(memcmp(&id, &ids[i], sizeof id), 0);
    }
    CHECK_STR(ckpt_name(perm, ids[1]), "step-000001200.3.7");
    for (i64 i = 0; i < COUNT_OF(wrong); i++) CHECK(!ckpt_name_parse(str_of(wrong[i]), &id));
    CHECK(ckpt_order((struct ckpt_id){ 9, 1, 3 }, (struct ckpt_id){ 5, 2, 1 }) < 0);
    CHECK(ckpt_order((struct ckpt_id){ 9, 2, 1 }, (struct ckpt_id){ 5, 2, 2 }) < 0);
}

TEST(a_checkpoint_is_read_as_it_was_written)
{
    struct str           folder = in(perm, folder_new(perm), "a/b");
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    struct ckpt_list     list;
    struct ckpt_loaded   loaded;
    f32                  w[4];
    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_EQ(list.count, 0);
    CHECK_EQ(ckpt_load_newest(os_real(), &list, perm, &loaded, &err), STATUS_NO);
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    CHECK_EQ(ckpt_attempt_last(s), 0);
    CHECK_OK(save(s, 12, 0.5, perm, &m));
    CHECK_OK(save(s, 13, NAN, perm, &m));
    CHECK_EQ(m.id.save, 2);
    ckpt_store_close(s);

    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_EQ(list.count, 2);
    CHECK_STR(list.items[1].manifest.metric, "loss");
    CHECK_EQ(list.items[1].manifest.value, 0.5);
    CHECK_EQ(list.items[0].manifest.metric.len, 0);
    CHECK_OK(ckpt_load_newest(os_real(), &list, perm, &loaded, &err));
    CHECK_EQ(loaded.ckpt->id.step, 13);
    CHECK_STR(loaded.ckpt->manifest.run, "r1");
    CHECK_STR(loaded.ckpt->manifest.state, "{\"threads\":2}");
    CHECK(llabs(loaded.ckpt->manifest.wall_ns - os_real()->wall_ns(os_real())) < (i64)60000000000);
    CHECK(ckpt_shard(&loaded, STR("other")) == NULL);
    CHECK(st_to_f32(st_find(ckpt_shard(&loaded, STR("weights")), STR("w")), w));
    for (i64 i = 0; i < 4; i++) CHECK_EQ(w[i], (f32)(130 + i));
    CHECK_EQ(*(const i64 *)(const void *)ckpt_shard(&loaded, STR("state"))->tensors[0].bytes.data,
             13);
    ckpt_unload(os_real(), &loaded);

    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err)); /* the next start */
    CHECK_EQ(ckpt_attempt_last(s), 1);
    ckpt_store_close(s);
}

/* Two tensors and more than is written at once, in one piece of memory or put together: one file. */
TEST(a_file_that_lies_ready_is_the_one_that_is_put_together)
{
    enum { FIRST = (17 << 20) / 4, SECOND = 1234 };
    struct ckpt_store   *s;
    struct ckpt_manifest m       = { .run = STR("r"), .state = STR("{}"), .id = { 1, 1, 0 } };
    f32                 *numbers = NEW(perm, f32, FIRST + SECOND);
    struct st_tensor     t[2];
    for (i64 i = 0; i < FIRST + SECOND; i++) numbers[i] = (f32)i;
    struct str first  = { (char *)numbers, 4 * FIRST },
               second = { (char *)(numbers + FIRST), 4 * SECOND };
    t[0]              = (struct st_tensor){ STR("z"), STR("F32"), shape_1(FIRST), first };
    t[1]              = (struct st_tensor){ STR("b"), STR("F32"), shape_1(SECOND), second };
    struct st_tensor placed[2] = { t[0], t[1] };
    i64              bytes     = st_lay_out(placed, 2, 1, NULL, scratch);
    u8              *ready     = arena_take(perm, bytes, 1, OS_DIRECT_ALIGN);
    CHECK_EQ(st_lay_out(placed, 2, 1, ready, scratch), bytes);
    for (i64 i = 0; i < 2; i++)
        memcpy((u8 *)(uintptr_t)placed[i].bytes.data, t[i].bytes.data, (size_t)t[i].bytes.len);
    struct ckpt_part parts[] = { { STR("together"), t, 2, STR("") },
                                 { STR("ready"), placed, 2, { (char *)ready, bytes } } };
    CHECK_OK(ckpt_store_open(os_real(), folder_new(perm), perm, &s, &err));
    CHECK_OK(ckpt_write(s, &m, parts, 2, perm, scratch, &err));
    CHECK_EQ(m.shards[0].bytes, bytes);
    CHECK_EQ(m.shards[1].bytes, bytes);
    CHECK_EQ(m.shards[1].hash, m.shards[0].hash);
    ckpt_store_close(s);
}

TEST(the_second_to_open_a_folder_gets_a_sentence)
{
    struct str         folder = folder_new(perm);
    struct ckpt_store *s, *second;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    CHECK_EQ(ckpt_store_open(os_real(), folder, perm, &second, &err), STATUS_WORLD);
    CHECK(second == NULL);
    CHECK(strstr(err.text, "two runs cannot write to one folder of checkpoints: "));
    CHECK(strstr(err.text, "/lock is held by another process: process "));
    ckpt_store_close(s);
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    ckpt_store_close(s);
}

TEST(the_newest_few_and_the_best_stay)
{
    struct str           folder = folder_new(perm);
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    for (i64 step = 1; step <= 6; step++) {
        CHECK_OK(save(s, step, step == 2 ? 0.1 : 0.5, perm, &m)); /* the lower loss is better */
        CHECK_OK(ckpt_prune(s, 3, *perm, &err));
    }
    CHECK_STR(steps_there(folder, perm), "6 5 4 2");
    CHECK_OK(save(s, 3, 0.5, perm, &m)); /* rolled back: the newest is the one written last */
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "3 2");
    ckpt_pin(s, m.id);
    ckpt_pin(s, m.id);
    ckpt_unpin(s, m.id);
    for (i64 step = 4; step <= 6; step++) CHECK_OK(save(s, step, 0.5, perm, &m));
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "6 3 2");
    ckpt_unpin(s, (struct ckpt_id){ .attempt = 1, .save = 7 });
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "6 2");
    ckpt_store_close(s);
}

struct uploader {
    struct ckpt_store *store;
    struct ckpt_id     id;
};

static void *pin_and_unpin(void *argument)
{
    struct uploader *u = argument;
    for (i64 i = 0; i < 1000; i++) {
        ckpt_pin(u->store, u->id);
        ckpt_unpin(u->store, u->id);
    }
    return NULL;
}

TEST(an_uploader_pins_while_others_are_deleted)
{
    struct str           folder = folder_new(perm);
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    pthread_t            thread;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    CHECK_OK(save(s, 1, NAN, perm, &m));
    struct uploader u = { s, m.id };
    ckpt_pin(s, m.id);
    CHECK_EQ(pthread_create(&thread, NULL, pin_and_unpin, &u), 0);
    for (i64 step = 2; step <= 5; step++) {
        CHECK_OK(save(s, step, NAN, perm, &m));
        CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    }
    pthread_join(thread, NULL);
    CHECK_STR(steps_there(folder, perm), "5 1");
    ckpt_store_close(s);
}

/* Nothing older goes while the newest turns out to be damaged; it is passed over with a sentence. */
TEST(a_damaged_one_is_passed_over_and_keeps_the_older)
{
    struct str           folder = folder_new(perm);
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    struct ckpt_list     list;
    struct ckpt_loaded   loaded;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    for (i64 step = 1; step <= 4; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    spoil(in(perm, folder, "step-000000004.1.4/weights.safetensors"), perm);
    spoil(in(perm, folder, "step-000000003.1.3/manifest.json"), perm);
    CHECK_STR(steps_there(folder, perm), "4 3? 2 1");
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "4 3? 2");

    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_OK(ckpt_load_newest(os_real(), &list, perm, &loaded, &err));
    CHECK_EQ(loaded.ckpt->id.step, 2);
    CHECK(strstr(list.items[0].why.text, "weights.safetensors is damaged: its hash is "));
    CHECK(strstr(list.items[1].why.text, "manifest.json is damaged: "));
    ckpt_unload(os_real(), &loaded);

    CHECK_OK(
        save(s, 5, NAN, perm, &m)); /* a whole one: what is known to be damaged stays even so */
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "5 3?");
    spoil(in(perm, folder, "step-000000005.1.5/state.safetensors"), perm);
    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_EQ(ckpt_load_newest(os_real(), &list, perm, &loaded, &err), STATUS_NO);
    ckpt_store_close(s);
}

/* A disk that misreads: the first `bad` readings of that file have a byte changed. */
static i64         bad, readings;
static struct str  bad_file;
static enum status misread(struct os *os, struct file f, void *to, i64 bytes, i64 at, i64 *got,
                           struct err *e)
{
    enum status st = os_real()->read(os, f, to, bytes, at, got, e);
    char        link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", f.fd);
    ssize_t len = readlink(link, path, sizeof path);
    bool    hit = len > 0 && str_ends((struct str){ path, len }, bad_file);
    if (hit && *got && readings++ < bad) ((char *)to)[*got / 2] ^= 1;
    return st;
}

static atomic_bool urgent;
static enum status read_and_hurry(struct os *os, struct file f, void *to, i64 bytes, i64 at,
                                  i64 *got, struct err *e)
{
    atomic_store(&urgent, true);
    readings++;
    return os_real()->read(os, f, to, bytes, at, got, e);
}

/* Pruning gives up in the middle of reading back, believes no worse of what it read, and deletes nothing. */
TEST(pruning_gives_way_to_what_is_urgent)
{
    struct str           folder = folder_new(perm);
    struct os            os     = *os_real();
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    CHECK_OK(ckpt_store_open(&os, folder, perm, &s, &err));
    for (i64 step = 1; step <= 3; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    struct os *inside = ckpt_store_os(s);
    inside->read      = read_and_hurry;
    readings          = 0;
    CHECK_OK(ckpt_prune_unless(s, 1, &urgent, *perm, &err));
    CHECK_STR(steps_there(folder, perm).data, "3 2 1");
    i64 before = readings;
    CHECK_OK(ckpt_prune_unless(s, 1, &urgent, *perm, &err));
    CHECK_STR(steps_there(folder, perm).data, "3 2 1");
    CHECK(before > 0);
    atomic_store(&urgent, false);
    inside->read = os_real()->read;
    CHECK_OK(ckpt_prune_unless(s, 1, &urgent, *perm, &err));
    CHECK_STR(steps_there(folder, perm).data, "3");
    ckpt_store_close(s);
}

TEST(one_bad_reading_is_no_damage_and_two_are)
{
    struct str           folder = folder_new(perm);
    struct os            os     = *os_real();
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    struct ckpt_list     list;
    struct ckpt_loaded   loaded;
    os.read = misread;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    for (i64 step = 1; step <= 4; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    static const char *const files[] = { "4.1.4/weights.safetensors", "4.1.4/manifest.json" };
    for (i64 i = 0; i < 2 * COUNT_OF(files); i++) {
        bad_file = str_of(files[i / 2]);
        bad      = 1 + i % 2;
        readings = 0;
        CHECK_OK(ckpt_list(&os, folder, perm, &list, &err));
        CHECK_EQ(list.count, 4);
        CHECK_OK(ckpt_load_newest(&os, &list, perm, &loaded, &err));
        CHECK_EQ(readings >= bad, true);
        CHECK_EQ(loaded.ckpt->id.step, bad == 1 ? 4 : 3);
        ckpt_unload(os_real(), &loaded);
    }
    CHECK_EQ(remove(in(perm, folder, "step-000000004.1.4/state.safetensors").data), 0);
    bad = 0; /* what is missing is damage as well */
    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_OK(ckpt_load_newest(os_real(), &list, perm, &loaded, &err));
    CHECK_EQ(loaded.ckpt->id.step, 3);
    CHECK(strstr(list.items[0].why.text, "state.safetensors is missing"));
    ckpt_unload(os_real(), &loaded);
    ckpt_store_close(s);
}

/* A folder or a FIFO in a shard's place: the system refuses, as it does where there is no permission. */
TEST(one_that_cannot_be_read_is_not_damaged_and_nothing_older_is_taken)
{
    struct str           folder = folder_new(perm);
    struct str           shard  = in(perm, folder, "step-000000004.1.4/weights.safetensors");
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    struct ckpt_list     list;
    struct ckpt_loaded   loaded;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    for (i64 step = 1; step <= 4; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    alarm(20);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(remove(shard.data), 0);
        CHECK_EQ(i ? mkfifo(shard.data, 0666) : mkdir(shard.data, 0777), 0);
        CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
        CHECK_EQ(ckpt_load_newest(os_real(), &list, perm, &loaded, &err), STATUS_WORLD);
        CHECK(strstr(err.text, "weights.safetensors: it is a "));
        CHECK_OK(ckpt_prune(s, 3, *perm, &err));
        CHECK_STR(steps_there(folder, perm), i ? "4 3 2" : "4 3 2 1"); /* two whole at least */
    }
    CHECK_EQ(remove(shard.data), 0);
    CHECK_EQ(rename(in(perm, folder, "step-000000004.1.4/manifest.json").data, shard.data), 0);
    CHECK_EQ(mkdir(in(perm, folder, "step-000000004.1.4/manifest.json").data, 0777), 0);
    CHECK_OK(ckpt_list(os_real(), folder, perm, &list, &err));
    CHECK_EQ(ckpt_load_newest(os_real(), &list, perm, &loaded, &err), STATUS_WORLD);
    CHECK_OK(ckpt_clear(s, *perm, &err)); /* anew, all the same */
    CHECK_STR(steps_there(folder, perm), "4?");
    CHECK_EQ(ckpt_list(os_real(), shard, perm, &list, &err), STATUS_WORLD); /* a file, no folder */
    ckpt_store_close(s);
    alarm(0);
}

/* Whoever may write into the folder may not have us delete or write elsewhere. */
TEST(links_lead_nowhere_and_only_what_is_ours_is_deleted)
{
    struct str           top = folder_new(perm), folder = in(perm, top, "kept");
    struct str           theirs = in(perm, top, "theirs");
    struct os           *os     = os_real();
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    struct os_stat       stat;
    CHECK_OK(os->make_dir(os, folder, &err));
    CHECK_OK(os->make_dir(os, theirs, &err));
    struct str shard = folder_put(perm, theirs, "weights.safetensors", STR("theirs"));
    struct str text  = folder_put(perm, theirs, "thesis.txt", STR("theirs"));
    CHECK_EQ(symlink(theirs.data, in(perm, folder, "step-1.9.9").data), 0);
    CHECK_EQ(symlink(theirs.data, in(perm, folder, "step-000000001.10.1").data), 0);
    CHECK_OK(os->make_dir(os, in(perm, folder, "step-2.9.8"), &err));
    struct str note = folder_put(perm, in(perm, folder, "step-2.9.8"), "notes.txt", STR("mine"));
    CHECK_OK(ckpt_store_open(os, folder, perm, &s, &err));
    CHECK_OK(os->stat(os, shard, &stat, &err));
    CHECK_OK(os->stat(os, note, &stat, &err));
    for (i64 step = 1; step <= 3; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_OK(ckpt_clear(s, *perm, &err));
    CHECK_OK(os->stat(os, shard, &stat, &err));
    CHECK_OK(os->stat(os, text, &stat, &err));
    /* The next name is there already, as a link: nothing is written through it. */
    struct ckpt_id next = { 4, m.id.attempt, m.id.save + 1 };
    CHECK_EQ(symlink(theirs.data, ckpt_store_path(s, perm, next).data), 0);
    CHECK_EQ(save(s, 4, NAN, perm, &m), STATUS_WORLD);
    CHECK(strstr(err.text, "symbolic link"));
    struct str bytes;
    CHECK_OK(os_read_all(os, shard, perm, &bytes, &err));
    CHECK(str_eq(bytes, STR("theirs")));
    ckpt_store_close(s);
    CHECK_EQ(remove(in(perm, folder, "lock").data), 0);
    CHECK_EQ(symlink(text.data, in(perm, folder, "lock").data), 0);
    CHECK_EQ(ckpt_store_open(os, folder, perm, &s, &err), STATUS_WORLD);
    CHECK_OK(os_read_all(os, text, perm, &bytes, &err));
    CHECK(str_eq(bytes, STR("theirs")));
}

static i64 mode_of(struct str path)
{
    struct stat s;
    CHECK_EQ(stat(path.data, &s), 0);
    return s.st_mode & 0777;
}

TEST(a_lock_that_was_deleted_is_taken_again_or_another_has_it)
{
    struct str         folder = in(perm, folder_new(perm), "kept"), lock = in(perm, folder, "lock");
    struct ckpt_store *s, *second;
    struct ckpt_manifest m;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    CHECK_OK(save(s, 1, NAN, perm, &m));
    CHECK_EQ(remove(lock.data), 0);
    mode_t mask = umask(022); /* as most people have it: the lock is nobody else's even so */
    CHECK_OK(save(s, 2, NAN, perm, &m));
    CHECK_EQ(mode_of(lock), 0600);
    CHECK_EQ(ckpt_store_open(os_real(), folder, perm, &second, &err), STATUS_WORLD);
    CHECK_EQ(system(str_fmt(perm, "rm -r %.*s", STR_ARG(folder)).data), 0); /* all of it */
    CHECK_OK(save(s, 3, NAN, perm, &m));
    CHECK_EQ(mode_of(folder), 0700);
    umask(mask);
    CHECK_STR(steps_there(folder, perm), "3");
    CHECK_EQ(remove(lock.data), 0);
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &second, &err)); /* nobody keeps it out now */
    CHECK_EQ(save(s, 4, NAN, perm, &m), STATUS_WORLD);
    CHECK(strstr(err.text, "was deleted: two runs cannot write to one folder"));
    m.id.attempt = ckpt_attempt_last(second) + 1;
    CHECK_OK(save(second, 5, NAN, perm, &m));
    ckpt_store_close(second);
    CHECK_EQ(save(s, 6, NAN, perm, &m), STATUS_INTERRUPTED);
    CHECK(strstr(err.text, "another process has saved step-000000005.1.4 there since"));
    CHECK_STR(steps_there(folder, perm), "5 3");
    ckpt_store_close(s);
}

TEST(what_was_left_half_done_is_tidied_up)
{
    struct str           folder = folder_new(perm), half = in(perm, folder, "step-000000007.3.1");
    struct os           *os = os_real();
    struct ckpt_store   *s;
    struct os_stat       stat;
    struct ckpt_manifest m;
    CHECK_OK(os->make_dir(os, half, &err));
    folder_put(perm, half, "weights.safetensors", STR("the first half of"));
    folder_put(perm, folder, "mine.txt", STR("not of ours"));
    CHECK_STR(steps_there(folder, perm), "");
    CHECK_OK(ckpt_store_open(os, folder, perm, &s, &err));
    CHECK(os->stat(os, half, &stat, NULL));
    CHECK_OK(os->stat(os, in(perm, folder, "mine.txt"), &stat, &err));
    CHECK_EQ(ckpt_attempt_last(s), 3); /* a name is never used twice, not even a lost one's */
    CHECK_OK(save(s, 7, NAN, perm, &m));
    CHECK_STR(steps_there(folder, perm), "7");
    CHECK_EQ(m.id.save, 2);
    ckpt_store_close(s);
}

static enum status parse(const char *text, struct arena *perm)
{
    struct ckpt_manifest m;
    return ckpt_manifest_parse(STR("m"), str_of(text), perm, &m, &err);
}

TEST(a_manifest_that_is_not_ours_is_refused_with_a_sentence)
{
    struct ckpt_shard    shards[2] = { { STR("a.safetensors"), 12, 34 }, { STR("b"), 0, ~(u64)0 } };
    struct ckpt_manifest m         = { { 5, 1, 2 },
                                       STR("r\"1"),
                                       3,
                                       STR("auc"),
                                       0.1,
                                       true,
                                       STR("{\"x\": [1, {\"state\": 2}]}"),
                                       shards,
                                       2 },
                         got;
    struct str text = ckpt_manifest_text(perm, &m);
    CHECK_OK(ckpt_manifest_parse(STR("m"), text, perm, &got, &err));
    CHECK_STR(ckpt_manifest_text(perm, &got), text);
    CHECK_EQ(ckpt_bytes(&got), 12);
    for (i64 len = 0; len < text.len; len++) /* cut anywhere */
        CHECK_EQ(ckpt_manifest_parse(STR("m"), str_sub(text, 0, len), perm, &got, &err), STATUS_NO);
    for (i64 i = 0; i < text.len; i++) { /* any bit of it */
        struct str other = str_copy(perm, text);
        ((char *)(uintptr_t)other.data)[i] ^= 1;
        CHECK(ckpt_manifest_parse(STR("m"), other, perm, &got, &err));
    }
    CHECK_EQ(parse("{\"frugal_checkpoint\":3,\"anything\":0}", perm), STATUS_USAGE);
    CHECK_STR(err.text,
              "m has version 3, and this frugal reads up to version 2: a newer frugal wrote it");
    CHECK_EQ(parse("{\"frugal_checkpoint\":1}", perm), STATUS_NO);
    CHECK_STR(err.text, "m is damaged: it does not end with its seal");
    CHECK_EQ(parse("{}", perm), STATUS_NO);
    shards[1].name = STR("../b");
    CHECK(ckpt_manifest_parse(STR("m"), ckpt_manifest_text(perm, &m), perm, &got, &err));
    shards[1].name = shards[0].name;
    CHECK(ckpt_manifest_parse(STR("m"), ckpt_manifest_text(perm, &m), perm, &got, &err));
    CHECK_STR(err.text, "m is damaged: two shards have the same name");
}

/* What a newer frugal wrote is neither believed nor deleted. */
TEST(a_checkpoint_of_an_unknown_version_is_left_alone)
{
    struct str           folder = folder_new(perm);
    struct ckpt_store   *s;
    struct ckpt_manifest m;
    CHECK_OK(ckpt_store_open(os_real(), folder, perm, &s, &err));
    for (i64 step = 1; step <= 3; step++) CHECK_OK(save(s, step, NAN, perm, &m));
    folder_put(perm, in(perm, folder, "step-000000001.1.1"), "manifest.json",
               STR("{\"frugal_checkpoint\":3}"));
    CHECK_OK(ckpt_prune(s, 1, *perm, &err));
    CHECK_STR(steps_there(folder, perm), "3 1?");
    ckpt_store_close(s);
}

TEST(a_checkpoint_from_elsewhere_keeps_its_name)
{
    struct os           *os = os_real();
    struct str           a = folder_new(perm), b = folder_new(perm), into, bytes;
    struct ckpt_store   *from, *to;
    struct ckpt_manifest m, next;
    struct ckpt_list     list;
    CHECK_OK(ckpt_store_open(os, a, perm, &from, &err));
    CHECK_OK(ckpt_store_open(os, b, perm, &to, &err));
    CHECK_OK(save(from, 1, NAN, perm, &m));
    CHECK_OK(save(from, 2, NAN, perm, &m));
    for (i64 turn = 0; turn < 2; turn++) {
        CHECK_OK(ckpt_import_begin(to, &m, perm, &into, &err));
        for (i64 i = 0; i < m.shard_count; i++) {
            const char *name = str_z(perm, m.shards[i].name);
            struct str  path = in(perm, in(perm, a, "step-000000002.1.2"), name);
            CHECK_OK(os_read_all(os, path, perm, &bytes, &err));
            folder_put(perm, into, name, turn || i ? bytes : str_sub(bytes, 0, bytes.len - 1));
        }
        enum status st = ckpt_import_commit(to, &m, *perm, &err); /* first with a byte missing */
        CHECK_EQ(st, turn ? STATUS_OK : STATUS_NO);
        CHECK_STR(steps_there(b, perm), turn ? "2" : "");
    }
    CHECK_EQ(ckpt_import_begin(to, &m, perm, &into, &err), STATUS_NO);
    spoil(in(perm, into, "state.safetensors"), perm);
    CHECK_OK(ckpt_import_begin(to, &m, perm, &into, &err)); /* a damaged one makes room */
    ckpt_drop(to, &m, *perm);
    CHECK_STR(steps_there(b, perm), "");
    CHECK_OK(ckpt_list(os, a, perm, &list, &err));
    CHECK_OK(ckpt_copy(os, &list.items[0], to, *perm, &err));
    CHECK_EQ(ckpt_copy(os, &list.items[0], to, *perm, &err), STATUS_NO);
    CHECK_STR(steps_there(b, perm), "2");
    spoil(in(perm, a, "step-000000001.1.1/weights.safetensors"), perm);
    CHECK_EQ(ckpt_copy(os, &list.items[1], to, *perm, &err), STATUS_NO);
    CHECK(strstr(err.text, "is damaged"));
    CHECK_STR(steps_there(b, perm), "2");
    CHECK_EQ(ckpt_attempt_last(to), 1);
    CHECK_OK(save(to, 3, NAN, perm, &next));
    CHECK_EQ(next.id.save, 3);
    ckpt_store_close(from);
    ckpt_store_close(to);
}
