/* fuzz_events.c - any bytes as a line of an event log: refused with a sentence, an event that is not known here, or one
 * that is written as a line and read back the same; and any bytes as a whole log, which is replayed or refused. */
#include "run/event_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct str written(enum event_kind kind, const void *event, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    event_json(kind, event, &b);
    return textbuf_str(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena    perm = arena_open((i64)64 << 20);
    struct err      err  = { 0 };
    struct str      text = { (const char *)data, (i64)bytes };
    union event_any event, again;
    enum event_kind kind, same;
    i64             wall_ns;
    enum status     st = event_read(text, &perm, &kind, &event, &err);
    if (!st) {
        struct str line = written(kind, &event, &perm);
        ASSERT(!event_read(line, &perm, &same, &again, &err));
        ASSERT(same == kind);
        ASSERT(str_eq(line, written(same, &again, &perm)));
    } else {
        ASSERT(err.text[0]);
    }
    err = (struct err){ 0 };
    if (event_log_replay(text, NULL, &wall_ns, perm, &err)) ASSERT(err.text[0]);
    arena_close(&perm);
    return 0;
}
