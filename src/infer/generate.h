/* generate.h - continues texts, token by token, as many at a time as the model was opened for. */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H
#include "infer/sample.h"
#include "infer/words.h"
#include "train/use.h"

enum generated {
    GENERATED_ENOUGH, /* tokens_max */
    GENERATED_END,    /* the text ended */
    GENERATED_FULL,   /* the model's context is full */
    GENERATED_STOPPED /* the caller's word */
};

struct generation {
    i32           *tokens; /* the prompt's, at least one; room for use_length */
    i64            count;  /* grows */
    enum generated how;
};

struct generating {
    struct use     *use;
    struct words    words;
    struct sampling sampling;
    i64             tokens_max; /* new ones of each text */
    /* After each token of text `index`, with its bytes; false: all of it is enough. */
    bool (*on_token)(void *context, i64 index, i64 token, struct str bytes);
    /* Text `index` is done. */
    void (*on_end)(void *context, i64 index, enum generated how);
    void *context;
};

/* What is drawn for a text depends on its index and the seed, not on those that are continued beside it. */
void generate(const struct generating *g, struct generation *all, i64 count, struct arena scratch);

#endif
