/* playground_int.h - what playground.c and playground_answer.c share. */
#ifndef JOB_PLAYGROUND_INT_H
#define JOB_PLAYGROUND_INT_H
#include "job/playground.h"

enum { KEPT = 8, SETTINGS_MAX = 8 + OPTION_COUNT };

/* ---- the levers ---- */

/* name, kind: a text, or a number with its bounds */
#define LEVERS_OF_PLAY(T, N)                                                                       \
    T(part) /* of the answer: rows, levers or deadlines; empty: all */                             \
    T(what)                                                                                        \
    N(tokens, 1e3, 1e15)                                                                           \
    N(steps, 1, 1e12)                                                                              \
    N(batch, 1, 1e12) /* samples of a step */                                                      \
    N(context, 1, 1 << 22)                                                                         \
    N(depth, 0.05, 4)                                                                              \
    N(width, 0.05, 4) /* parts of the model's own */                                               \
    T(precision)                                                                                   \
    T(recompute)                                                                                   \
    N(micro, 1, 1e9)                                                                               \
    N(lora, 1, 1024) /* rank of adapters */                                                        \
    T(freeze)                                                                                      \
    T(cloud)                                                                                       \
    T(machine)                                                                                     \
    T(region)                                                                                      \
    N(gpus, 1, PLAN_GPUS_MAX)                                                                      \
    T(market)                                                                                      \
    N(deadline, 1e-3, 1e7)                                                                         \
    N(save, 1, 1e7)    /* seconds between saves */                                                 \
    N(spot, 0.01, 1e5) /* hours that a spot machine lives */                                       \
    N(stop, 1e-9, 1)   /* part of the run until it stops early */

struct levers {
#define TEXT(name) struct str name;
#define NUMBER(name, low, high) f64 name;
    LEVERS_OF_PLAY(TEXT, NUMBER)
#undef TEXT
#undef NUMBER
};

/* ---- what is kept ---- */

struct kept {
    struct str            key; /* of all that changes a program; empty: free */
    struct arena          all, memory;
    struct plan_variants *variants;
    struct plan_result   *result;
    i64                   used;
};

struct playground {
    struct os          *os;
    struct arena       *perm;
    struct str          run_file;
    struct plan_devices devices; /* with what was learned */
    struct plan_limits  learned;
    struct arena        scratch;
    struct kept         kept[KEPT];
    i64                 turn;
};

/* ---- a question ---- */

struct play {
    struct playground   *p;
    struct levers        levers;
    struct arena        *perm;
    struct str           given; /* settings of a run in the ledger, KEY=VALUE a line; empty: none */
    struct str           settings[SETTINGS_MAX];
    struct plan_request  request;
    struct plan_question q;
    struct kept         *kept;
    bool                 compiled; /* anew */
};

enum status play_levers(struct levers *l, const struct str *words, i64 count, struct err *err);
/* From levers to a question with its programs and machines. */
enum status play_ask(struct play *a, struct err *err);

#endif
