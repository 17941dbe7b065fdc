/* test_room.c - before the first step a run says whether its disk has room for checkpoint.keep. The disk's answer is
 * the test's own (cmake/tests.cmake puts it before the real one). */
#include "harness.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/train.h"

static i64 room_bytes; /* -1: not known */
i64        __wrap_os_disk_free_bytes(struct str path);
i64        __wrap_os_disk_free_bytes(struct str path)
{
    (void)path;
    return room_bytes;
}

struct watch {
    char note[1000];
    i64  steps, steps_at_note;
};

static void on_note(void *context, const struct event_note *e)
{
    struct watch *w = context;
    if (!memmem(e->text.data, (size_t)e->text.len, "has space for", 13)) return;
    snprintf(w->note, sizeof w->note, "%.*s", STR_ARG(e->text));
    w->steps_at_note = w->steps;
}

static void on_step(void *context, const struct event_step *e)
{
    (void)e;
    ((struct watch *)context)->steps++;
}

/* Two steps with room for so many bytes; what was said of it, and *saved: of one checkpoint. */
static struct watch with_room(struct settings *s, i64 room, i64 *saved)
{
    struct watch        w = { .steps_at_note = -1 };
    struct subscriber   l = { .context = &w, .on_note = on_note, .on_step = on_step };
    struct train_result r;
    struct err          err = { 0 };
    room_bytes              = room;
    enum status st          = train_run(os_real(), s, &(struct train_with){ .to = &l }, &r, &err);
    if (st) harness_fail(__FILE__, __LINE__, "%s", err.text);
    *saved = r.saving.bytes;
    return w;
}

TEST(too_little_room_for_keep_is_said_before_the_first_step)
{
    struct settings s =
        small_run(perm, folder_new(perm).data, "- flatten\n- dense: 1000\n- dense: 4\n");
    i64 one            = 0, same;
    s.train.epochs     = 0;
    s.train.steps      = 2;
    s.checkpoint.every = STR("1h");
    s.checkpoint.keep  = 3;
    s.checkpoint.dir   = folder_new(perm);
    CHECK_STR(with_room(&s, -1, &one).note, ""); /* a file system that does not tell */
    CHECK(one >
          8 * 3 *
              OS_DIRECT_ALIGN); /* its three files take whole pages: four of them, half of one */
    static const struct {
        i64         fit; /* checkpoints */
        const char *says;
    } cases[] = { { 4, "" }, /* three that are kept and the next */
                  { 3, "space for 3 checkpoints of " },
                  { 2, "needs space for 4: older ones will be deleted earlier" },
                  { 1, "needs space for 4: a second one cannot be saved" } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        s.checkpoint.dir = folder_new(perm);
        struct watch w   = with_room(&s, cases[i].fit * one + one / 2, &same);
        CHECK_EQ(w.steps, 2);
        CHECK_EQ(w.note[0] != '\0', cases[i].says[0] != '\0');
        CHECK(strstr(w.note, cases[i].says));
        if (w.note[0]) CHECK_EQ(w.steps_at_note, 0);
    }
    struct train_result r;
    struct err          err = { 0 };
    s.checkpoint.dir        = folder_new(perm); /* no room for one: nothing is trained */
    room_bytes              = one / 2;
    struct watch      w     = { .steps_at_note = -1 };
    struct subscriber l     = { .context = &w, .on_note = on_note, .on_step = on_step };
    CHECK_EQ(train_run(os_real(), &s, &(struct train_with){ .to = &l }, &r, &err), STATUS_WORLD);
    CHECK(strstr(err.text, ": a checkpoint takes "));
    CHECK(strstr(err.text, " MB free; free some space, or use another disk"));
    CHECK_EQ(w.steps, 0);
    s.checkpoint.dir = folder_new(perm);
    CHECK_STR(with_room(&s, 4 * one + one / 2, &same).note, "");
    s.train.steps = 4; /* what the folder has of this run makes room as it goes */
    CHECK_STR(with_room(&s, 3 * one + one / 2, &same).note, "");
}
