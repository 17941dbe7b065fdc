/* test_observe.c - steps and metrics from lines and from event files, in whatever pieces they come. */
#include "base/hash.h"
#include "harness.h"
#include "supervise/observe.h"
#include "supervise/tensorboard.h"
#include "support/folder.h"

struct heard {
    struct observed all[64];
    i64             count;
};

static void hear(void *context, const struct observed *o)
{
    struct heard *h = context;
    if (h->count < 64) h->all[h->count++] = *o;
}

static const struct program_config regex = { .read   = STR_INIT("regex"),
                                             .step   = STR_INIT("step +([0-9]+)"),
                                             .loss   = STR_INIT("loss[= ]([0-9.e+-]+)"),
                                             .metric = STR_INIT("^accuracy ([0-9.]+)") };

TEST(lines_by_expression)
{
    static const char text[] = "hello\nstep 10 loss 0.5\rstep 20 loss=0.25\naccuracy 0.9\n"
                               "loss nan\nstep x\n\nstep 30";
    struct heard      h      = { 0 };
    struct observer  *o;
    CHECK_EQ(observer_new(perm, &regex, hear, &h, &o, NULL), STATUS_OK);
    CHECK(observer_reads_lines(o));
    for (const char *c = text; *c; c++) observer_add(o, (struct str){ c, 1 }); /* byte by byte */
    observer_release(o);
    CHECK_EQ(h.count, 3); /* the last line has not ended */
    CHECK_EQ(h.all[0].step, 10);
    CHECK_EQ(h.all[0].loss, 0.5);
    CHECK(isnan(h.all[0].metric));
    CHECK_EQ(h.all[1].loss, 0.25);
    CHECK_EQ(h.all[2].step, 20); /* the last that was seen */
    CHECK_EQ(h.all[2].metric, 0.9);
}

TEST(expressions_that_are_none_are_refused)
{
    static const char *const wrong[][2] = { { "step ([0-9]+", "program.step is step ([0-9]+: " },
                                            { "step [0-9]+",
                                              "it has no (group) around the number" } };
    for (i64 i = 0; i < COUNT_OF(wrong); i++) {
        struct program_config c   = regex;
        struct err            err = { 0 };
        struct observer      *o;
        c.step = str_of(wrong[i][0]);
        CHECK_EQ(observer_new(perm, &c, hear, NULL, &o, &err), STATUS_USAGE);
        CHECK(strstr(err.text, wrong[i][1]));
        observer_release(o);
    }
}

TEST(lines_as_json)
{
    struct program_config c = {
        .read = STR("json"), .step = STR("step"), .loss = STR("train/loss"), .metric = STR("acc")
    };
    struct heard     h = { 0 };
    struct observer *o;
    CHECK_EQ(observer_new(perm, &c, hear, &h, &o, NULL), STATUS_OK);
    observer_add(
        o, STR("{\"step\": 5, \"train/loss\": 1.5, \"other\": []}\nnot json {\n{\"acc\": 0.75}\n"
               "{\"acc\": \"high\"}\n[1]\n{\"step\": 1e300}\n"));
    CHECK_EQ(h.count, 2);
    CHECK_EQ(h.all[0].step, 5);
    CHECK_EQ(h.all[0].loss, 1.5);
    CHECK_EQ(h.all[1].step, 5);
    CHECK_EQ(h.all[1].metric, 0.75);
    observer_release(o);
}

TEST(a_line_without_end_takes_no_more_than_its_room)
{
    struct heard     h = { 0 };
    struct observer *o;
    CHECK_EQ(observer_new(perm, &regex, hear, &h, &o, NULL), STATUS_OK);
    observer_add(o, STR("step 7 "));
    for (i64 i = 0; i < 100000; i++) observer_add(o, STR("zz"));
    observer_add(o, STR("\nstep 8\n"));
    CHECK_EQ(h.count, 2);
    CHECK_EQ(h.all[1].step, 8);
    observer_release(o);
}

TEST(without_a_reader_there_is_none)
{
    struct program_config c = { .read = STR("none") };
    struct observer      *o;
    CHECK_EQ(observer_new(perm, &c, hear, NULL, &o, NULL), STATUS_OK);
    CHECK(!o);
    CHECK(!observer_reads_lines(o));
    observer_look(o, os_real());
    observer_release(o);
    c.read = STR("tensorboard");
    CHECK_EQ(observer_new(perm, &c, hear, NULL, &o, NULL), STATUS_USAGE);
}

/* --- event files: written here as TensorBoard's own writers do ---------------------------------- */

static void add_sum(struct textbuf *b, struct str bytes)
{
    u32 crc = crc32c_add(0, bytes), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    textbuf_add(b, (struct str){ (char *)&masked, 4 });
}

static struct str record(struct arena *perm, struct str bytes)
{
    struct textbuf b   = textbuf_new(perm);
    u64            len = (u64)bytes.len;
    textbuf_add(&b, (struct str){ (char *)&len, 8 });
    add_sum(&b, (struct str){ (char *)&len, 8 });
    textbuf_add(&b, bytes);
    add_sum(&b, bytes);
    return textbuf_str(&b);
}

static struct str field(struct arena *perm, int number, struct str bytes)
{
    return str_fmt(perm, "%c%c%.*s", number << 3 | 2, (char)bytes.len, STR_ARG(bytes));
}

static struct str joined(struct arena *perm, struct str a, struct str b)
{
    struct textbuf t = textbuf_new(perm);
    textbuf_add(&t, a);
    textbuf_add(&t, b);
    return textbuf_str(&t);
}

/* tensor: as TensorFlow 2 writes a scalar, else simple_value. */
static struct str scalar_event(struct arena *perm, u8 step, const char *tag, f32 value, bool tensor)
{
    struct textbuf b    = textbuf_new(perm), value_bytes;
    struct str     four = { (char *)&value, 4 };
    struct str     tag_bytes =
        joined(perm, (struct str){ (char[]){ 1 << 3 | 2, (char)strlen(tag) }, 2 }, str_of(tag));
    struct arena part = arena_part(perm, 4096);
    value_bytes       = textbuf_new(&part);
    if (tensor) {
        textbuf_add(&value_bytes,
                    (struct str){ (char[]){ 8 << 3 | 2, 8, 1 << 3 | 0, 1, 4 << 3 | 2, 4 }, 6 });
    } else {
        textbuf_add(&value_bytes, (struct str){ (char[]){ 2 << 3 | 5 }, 1 });
    }
    textbuf_add(&value_bytes, four);
    struct str value_message = joined(perm, tag_bytes, textbuf_str(&value_bytes));
    struct str head          = { (char[]){ 1 << 3 | 2, (char)value_message.len }, 2 };
    struct str summary       = joined(perm, head, value_message);
    b                        = textbuf_new(perm);
    textbuf_add(&b,
                (struct str){ (char[]){ 1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0 }, 9 }); /* wall time */
    textbuf_add(&b, (struct str){ (char[]){ 2 << 3 | 0, (char)step }, 2 });
    textbuf_add(&b, (struct str){ (char[]){ 5 << 3 | 2, (char)summary.len }, 2 });
    textbuf_add(&b, summary);
    return record(perm, textbuf_str(&b));
}

TEST(scalars_of_both_kinds_and_records_in_pieces)
{
    struct tb_event e;
    for (i64 tensor = 0; tensor < 2; tensor++) {
        struct str r = scalar_event(perm, 9, "loss", 0.25f, tensor);
        for (i64 len = 0; len < r.len; len++) CHECK_EQ(tb_next(str_sub(r, 0, len), &e), 0);
        CHECK_EQ(tb_next(r, &e), r.len);
        CHECK_EQ(e.step, 9);
        CHECK_EQ(e.count, 1);
        CHECK_STR(e.scalars[0].tag, "loss");
        CHECK_EQ(e.scalars[0].value, 0.25);
        for (i64 at = 0; at < r.len; at++) { /* any bit that flips is found */
            struct arena here   = *perm;
            struct str   broken = str_copy(&here, r);
            ((char *)(uintptr_t)broken.data)[at] ^= 4;
            CHECK_EQ(tb_next(broken, &e), -1);
        }
    }
}

TEST(event_files_are_followed_as_they_grow)
{
    struct str            folder = folder_new(perm);
    struct program_config c      = {
             .read = STR("tensorboard"), .loss = STR("loss"), .metric = STR("acc"), .events = folder
    };
    struct heard     h = { 0 };
    struct observer *o;
    struct str       first  = joined(perm, record(perm, field(perm, 3, STR("brain.Event:2"))),
                                     scalar_event(perm, 1, "loss", 2, false));
    struct str       second = scalar_event(perm, 2, "acc", 0.5, true),
               third        = scalar_event(perm, 3, "lr", 1, false);
    struct str all          = joined(perm, joined(perm, first, second), third);
    CHECK_EQ(observer_new(perm, &c, hear, &h, &o, NULL), STATUS_OK);
    CHECK(!observer_reads_lines(o));
    observer_look(o, os_real());
    CHECK_EQ(h.count, 0);
    CHECK_EQ(os_real()->make_dir(os_real(), str_fmt(perm, "%.*s/run1", STR_ARG(folder)), NULL),
             STATUS_OK);
    folder_put(perm, folder, "run1/events.out.tfevents.1", str_sub(all, 0, first.len + 5));
    observer_look(o, os_real());
    CHECK_EQ(h.count, 1);
    CHECK_EQ(h.all[0].loss, 2);
    folder_put(perm, folder, "run1/events.out.tfevents.1", all);
    observer_look(o, os_real());
    observer_look(o, os_real());
    CHECK_EQ(h.count, 2); /* what others name is not ours */
    CHECK_EQ(h.all[1].step, 2);
    CHECK_EQ(h.all[1].metric, 0.5);
    observer_release(o);
}
