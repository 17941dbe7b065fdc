/* events.h - what a run says while it runs, from events.def, and those who hear it.
 *
 *     loop ──emit──► subscriber ─► subscriber ─► …      progress bar, --json, ledger, logs, event log
 *
 * Whoever trains emits; each subscriber hears each event in turn, on the thread that emits, and should be quick:
 * `step` comes after every step, and the subscriber decides what it shows. What may be asked of a run (stop, save)
 * goes the other way, through struct train_orders (train/train.h).
 *
 * The stream is JSON lines. Read back and emitted again, it gives the same rows in the ledger and the same summary. */
#ifndef RUN_EVENTS_H
#define RUN_EVENTS_H
#include "base/err.h"
#include "run/clock.h"
#include "run/stop.h"

struct program_set;
struct target;
struct profile;

/* What happened to a checkpoint, and its word in the stream. */
#define CHECKPOINT_KINDS(X)                                                                        \
    X(DAMAGED, "damaged")   /* one is passed over, and the one before it tried */                  \
    X(RESUMED, "resumed")   /* the run goes on from it; `text` empty: bit-exact, else why not */   \
    X(CHANGED, "changed")   /* a setting is another than when the run began */                     \
    X(INTERVAL, "interval") /* when they are taken from now on, and why */                         \
    X(SAVED, "saved")                                                                              \
    X(FAILED, "failed")             /* to be written; the run goes on */                           \
    X(UPLOADED, "uploaded")         /* it is in the object store */                                \
    X(NOT_UPLOADED, "not uploaded") /* and is tried again */                                       \
    X(BEHIND, "behind")             /* the newest there is old */                                  \
    X(SHARED, "shared")             /* the store cannot keep a second writer out */
enum checkpoint_kind {
#define KIND(name, word) CHECKPOINT_##name,
    CHECKPOINT_KINDS(KIND)
#undef KIND
        CHECKPOINT_KIND_COUNT
};

enum { EVENT_METRICS_MAX = 4 };

struct eval_progress {
    i64 step;                 /* of the run */
    i64 samples, samples_all; /* evaluated so far, and in all */
};

struct event_metric {
    struct str name; /* "accuracy", "auc", "best_auc" (of made-up data), "perplexity": in [0, 1] but
                        for the last */
    f64        value;
};

struct event_metrics {
    struct event_metric items[EVENT_METRICS_MAX];
    i64                 count;
};

struct event_terms {
    i64 ns[TERM_COUNT];
};

struct event_list { /* items live as long as the event */
    const i64 *items;
    i64        count;
};

struct event_holder {
    struct str name;
    i64        bytes;
};

struct event_holders {
    const struct event_holder *items;
    i64                        count;
};

typedef i64                  event_I64, event_COUNT, event_ANSWER;
typedef f64                  event_F64;
typedef bool                 event_BOOL;
typedef struct str           event_TEXT;
typedef enum checkpoint_kind event_CHECKPOINT;
typedef enum stop_reason     event_REASON;
typedef struct event_metrics event_METRICS;
typedef struct step_split    event_SPLIT;
typedef struct event_terms   event_TERMS;
typedef struct event_list    event_LIST;
typedef struct event_holders event_HOLDERS;

/* struct event_open, event_start, … */
#define EVENT(name, when) struct event_##name {
#define F(event, kind, field, meaning) event_##kind field;
#define LIVE(event, type, field, meaning) type *field;
#define END(name)                                                                                  \
    }                                                                                              \
    ;
#include "run/events.def"
#undef EVENT
#undef F
#undef LIVE
#undef END

enum event_kind {
#define EVENT(name, when) EVENT_##name,
#define F(...)
#define LIVE(...)
#define END(name)
#include "run/events.def"
#undef EVENT
    EVENT_COUNT
};

union event_any {
#define EVENT(name, when) struct event_##name name;
#include "run/events.def"
#undef EVENT
};

/* Any of the functions may be NULL. */
struct subscriber {
    void                    *context;
    const struct subscriber *next; /* hears it after this one; NULL: nobody */
    void (*on_event)(void *context, enum event_kind kind,
                     const void *event); /* all, before those below */
#define EVENT(name, when) void (*on_##name)(void *context, const struct event_##name *event);
#include "run/events.def"
#undef EVENT
};

void events_emit(const struct subscriber *first, enum event_kind kind, const void *event);
/* emit_step(to, &(struct event_step){ … }): the same, with the type checked. */
#define EVENT(name, when)                                                                          \
    static inline void emit_##name(const struct subscriber   *first,                               \
                                   const struct event_##name *event)                               \
    {                                                                                              \
        events_emit(first, EVENT_##name, event);                                                   \
    }
#include "run/events.def"
#undef EVENT
#undef F
#undef LIVE
#undef END

/* What takes a moment to find out is left to the subscriber that shows the step: steps_per_s and percentiles. */
void event_step_fill(struct event_step *e);

/* The stream: {"event":"step","step":1,…}. */
void event_json(enum event_kind kind, const void *event, struct textbuf *b);
/* From a line of it; texts lie in perm. NO: an event that is not known here. Fields that it lacks are not known. */
enum status event_read(struct str line, struct arena *perm, enum event_kind *kind,
                       union event_any *out, struct err *err);

void        event_clear(enum event_kind kind, void *event); /* nothing is known of it */
struct str  checkpoint_kind_name(enum checkpoint_kind k);   /* "saved" */
const char *event_name(enum event_kind k);

/* The table, for the documents and the tests. */
enum event_field_kind {
    FIELD_I64,
    FIELD_COUNT,
    FIELD_F64,
    FIELD_BOOL,
    FIELD_ANSWER,
    FIELD_TEXT,
    FIELD_CHECKPOINT,
    FIELD_REASON,
    FIELD_METRICS,
    FIELD_SPLIT,
    FIELD_TERMS,
    FIELD_LIST,
    FIELD_HOLDERS,
    FIELD_KIND_COUNT
};
struct event_field {
    const char           *name, *meaning;
    enum event_field_kind kind;
    size_t                offset;
};
struct event_row {
    const char               *name, *when;
    const struct event_field *fields;
    i64                       field_count; /* 0: what it holds is not in the stream */
};
extern const struct event_row event_rows[EVENT_COUNT];

#endif
