/* test_events.c - every event survives its JSON line, subscribers hear what they asked for, and a log is bounded. */
#include "base/json.h"
#include "base/rng.h"
#include "harness.h"
#include "run/event_log.h"
#include "support/folder.h"
#include <math.h>

static struct rng_key key;

static u32 draw(u32 count) { return rng_u32(key, key.step++) % count; }

static struct str a_text(struct arena *perm)
{
    static const char *const texts[] = { "", "a \"quoted\" word", "line\nbreak\ttab",
                                         "\xc3\xa9t\xc3\xa9", "plain" };
    return str_copy(perm, str_of(texts[draw(5)]));
}

static void fill_field(const struct event_field *f, void *at, struct arena *perm)
{
    i64 number = (i64)draw(1000000) * 1000003;
    switch (f->kind) {
    case FIELD_I64: *(i64 *)at = number; break;
    case FIELD_COUNT:
    case FIELD_ANSWER:
        *(i64 *)at = f->kind == FIELD_ANSWER ? (i64)draw(3) - 1 : draw(3) ? number : -1;
        break;
    case FIELD_F64: *(f64 *)at = draw(4) ? (f64)number / 9973 : NAN; break;
    case FIELD_BOOL: *(bool *)at = draw(2); break;
    case FIELD_TEXT: *(struct str *)at = a_text(perm); break;
    case FIELD_CHECKPOINT:
        *(enum checkpoint_kind *)at = (enum checkpoint_kind)draw(CHECKPOINT_KIND_COUNT);
        break;
    case FIELD_REASON: *(enum stop_reason *)at = (enum stop_reason)draw(STOP_REASON_COUNT); break;
    case FIELD_METRICS: {
        struct event_metrics *m = at;
        m->count                = draw(EVENT_METRICS_MAX + 1);
        for (i64 i = 0; i < m->count; i++)
            m->items[i] = (struct event_metric){ str_fmt(perm, "metric%lld", (long long)i),
                                                 (f64)draw(1000) / 7 };
        break;
    }
    case FIELD_SPLIT:
        for (i64 i = 0; i < PART_LOOP_COUNT; i++) ((struct step_split *)at)->ns[i] = number + i;
        break;
    case FIELD_TERMS:
        for (i64 i = 0; i < TERM_COUNT; i++) ((struct event_terms *)at)->ns[i] = number + i;
        break;
    case FIELD_LIST: {
        i64 *items = NEW(perm, i64, 3), count = draw(4);
        *(struct event_list *)at = (struct event_list){ items, count };
        for (i64 i = 0; i < count; i++) items[i] = number - i;
        break;
    }
    case FIELD_HOLDERS: {
        struct event_holder *items  = NEW(perm, struct event_holder, 3);
        i64                  count  = draw(4);
        *(struct event_holders *)at = (struct event_holders){ items, count };
        for (i64 i = 0; i < count; i++)
            items[i] = (struct event_holder){ a_text(perm), number + i };
        break;
    }
    case FIELD_KIND_COUNT: break;
    }
}

static struct str line_of(enum event_kind kind, const void *event, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    event_json(kind, event, &b);
    return textbuf_str(&b);
}

/* From one struct, through its line, to another with the same line: nothing is lost, and what is not known stays so. */
TEST(every_event_survives_its_line)
{
    key = (struct rng_key){ .seed = test_seed() };
    for (i64 n = 0; n < 200; n++) {
        for (i64 k = 0; k < EVENT_COUNT; k++) {
            struct arena    here = arena_part(perm, 1 << 16);
            union event_any event, back;
            enum event_kind kind;
            struct err      err = { 0 };
            memset(&event, 0, sizeof event);
            for (i64 i = 0; i < event_rows[k].field_count; i++)
                fill_field(&event_rows[k].fields[i], (u8 *)&event + event_rows[k].fields[i].offset,
                           &here);
            struct str line = line_of((enum event_kind)k, &event, &here);
            if (event_read(line, &here, &kind, &back, &err))
                harness_fail(__FILE__, __LINE__, "%s: %.*s", err.text, STR_ARG(line));
            CHECK_EQ(kind, k);
            CHECK_STR(line_of(kind, &back, &here), str_z(&here, line));
        }
    }
}

TEST(a_line_that_lacks_fields_is_read_and_nonsense_is_refused)
{
    union event_any e;
    enum event_kind kind;
    CHECK_EQ(event_read(STR("{\"event\":\"done\",\"steps\":7,\"new_field\":[1]}"), perm, &kind, &e,
                        NULL),
             STATUS_OK);
    CHECK_EQ(kind, EVENT_done);
    CHECK_EQ(e.done.steps, 7);
    CHECK(isnan(e.done.dollars));
    CHECK_EQ(e.done.target_reached, -1);
    CHECK_EQ(event_read(STR("{\"event\":\"of the future\"}"), perm, &kind, &e, NULL), STATUS_NO);
    static const char *const bad[] = {
        "{\"event\":\"step\",\"step\":\"x\"}",
        "{\"event\":\"step\",\"metrics\":7}",
        "{\"event\":\"done\",\"stopped\":\"tired\"}",
        "{\"event\":\"profile_memory\",\"use_bytes\":[1,\"x\"]}",
        "{\"event\":\"profile_memory\",\"use_bytes\":7}",
        "{\"event\":\"profile_memory\",\"holders\":[{\"name\":\"x\"}]}",
        "{\"event\":\"profile_memory\",\"holders\":[3]}",
        "{\"step\":1}",
        "[]",
        ""
    };
    for (i64 i = 0; i < COUNT_OF(bad); i++)
        CHECK_EQ(event_read(str_of(bad[i]), perm, &kind, &e, NULL), STATUS_USAGE);
}

struct heard {
    i64 all, notes, steps;
};

static void on_event(void *context, enum event_kind kind, const void *event)
{
    (void)kind;
    (void)event;
    ((struct heard *)context)->all++;
}

static void on_note(void *context, const struct event_note *e)
{
    CHECK_STR(e->text, "x");
    ((struct heard *)context)->notes++;
}

TEST(subscribers_hear_in_turn_what_they_asked_for)
{
    struct heard      a = { 0 }, b = { 0 };
    struct subscriber second = { .context = &b, .on_event = on_event };
    struct subscriber first  = { .context = &a, .on_note = on_note, .next = &second };
    emit_note(&first, &(struct event_note){ STR("x") });
    emit_open(&first, &(struct event_open){ STR("ab") });
    emit_note(NULL, &(struct event_note){ STR("x") });
    CHECK_EQ(a.notes, 1);
    CHECK_EQ(b.all, 2);
}

static void count_steps(void *context, const struct event_step *e)
{
    struct heard *h = context;
    CHECK(e->step > h->steps);
    h->steps = e->step;
    h->all++;
}

/* A month of steps of ten milliseconds: what is written is bounded, and what is read again is in order. */
TEST(a_log_is_bounded_and_read_again)
{
    struct str        path = str_cat(perm, folder_new(perm), STR("/events/ab/01.jsonl")), text;
    struct event_log *log  = event_log_new(perm, os_real());
    struct subscriber s    = event_log_subscriber(log, NULL);
    struct heard      h    = { 0 };
    i64               wall = 0;
    event_log_to(log, path);
    struct event_step e = { .loss = 1, .lr = 0.1 };
    for (e.elapsed_s = 0; e.elapsed_s < 30 * 86400; e.elapsed_s += e.elapsed_s < 1000 ? 0.01 : 10) {
        e.step++;
        emit_step(&s, &e);
        if (e.step % 100 == 0) CHECK_EQ(event_log_flush(log, NULL), STATUS_OK);
    }
    emit_done(&s, &(struct event_done){ .steps = e.step });
    CHECK_EQ(event_log_flush(log, NULL), STATUS_OK);
    CHECK_EQ(event_log_dropped(log), 0);
    CHECK_EQ(event_log_text(log, perm, &text, NULL), STATUS_OK);
    event_log_close(log);
    CHECK(text.len < 8 << 20);
    struct subscriber counts = { .context = &h, .on_step = count_steps };
    struct arena      room   = arena_part(perm, 1 << 20);
    CHECK_EQ(event_log_replay(text, &counts, &wall, room, NULL), STATUS_OK);
    CHECK(h.all > 1000 && h.all < 12000);
    CHECK(wall > 0);
    text.len -= 20; /* a kill in the middle of its last line */
    CHECK_EQ(event_log_replay(text, NULL, NULL, room, NULL), STATUS_OK);
}

static i64 a_wall_ns;

static i64 the_wall(struct os *os) { return (void)os, a_wall_ns; }

static void check_wall(void *context, enum event_kind kind, const void *event)
{
    (void)event;
    CHECK_EQ(*(const i64 *)context, kind == EVENT_eval ? 90 : 20);
}

/* A step that is written only because an evaluation follows came before that took its time. */
TEST(a_line_says_when_it_came)
{
    struct os os             = *os_real();
    os.wall_ns               = the_wall;
    struct event_log *log    = event_log_new(perm, &os);
    struct subscriber s      = event_log_subscriber(log, NULL);
    struct str        text   = STR("");
    i64               wall   = 0;
    struct subscriber checks = { .context = &wall, .on_event = check_wall };
    event_log_to(log, str_cat(perm, folder_new(perm), STR("/01.jsonl")));
    a_wall_ns = 20;
    for (i64 i = 1; i <= 2; i++) emit_step(&s, &(struct event_step){ .step = i, .elapsed_s = 0.1 });
    a_wall_ns = 90;
    emit_eval(&s, &(struct event_eval){ .step = 2 });
    CHECK_EQ(event_log_flush(log, NULL), STATUS_OK);
    CHECK_EQ(event_log_text(log, perm, &text, NULL), STATUS_OK);
    event_log_close(log);
    CHECK_EQ(event_log_replay(text, &checks, &wall, arena_part(perm, 1 << 20), NULL), STATUS_OK);
    CHECK_EQ(wall, 90);
}

/* Nobody writes the file: what finds no room is counted, and the end still fits. */
TEST(a_log_that_is_not_written_keeps_room_for_the_end)
{
    struct event_log *log  = event_log_new(perm, os_real());
    struct subscriber s    = event_log_subscriber(log, NULL);
    struct str        path = str_cat(perm, folder_new(perm), STR("/01.jsonl")), text;
    for (i64 i = 0; i < 100000; i++) emit_note(&s, &(struct event_note){ STR("again") });
    emit_done(&s, &(struct event_done){ .steps = 5 });
    CHECK(event_log_dropped(log) > 0);
    event_log_to(log, path);
    CHECK_EQ(event_log_flush(log, NULL), STATUS_OK);
    CHECK_EQ(event_log_text(log, perm, &text, NULL), STATUS_OK);
    event_log_close(log);
    CHECK(memmem(text.data, (size_t)text.len, "\"event\":\"done\"", 14));
}
