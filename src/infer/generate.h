/* generate.h - continues a sequence of tokens, one after the other. */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H
#include "infer/sample.h"
#include "infer/words.h"
#include "train/use.h"

struct generating {
    struct use     *use;
    struct words    words;
    struct sampling sampling;
    i64             tokens_max; /* new ones */
    /* After each token, with its bytes; false: it is enough. */
    bool (*on_token)(void *context, i64 token, struct str bytes);
    void *context;
};

enum generated {
    GENERATED_ENOUGH,
    GENERATED_END,
    GENERATED_FULL
}; /* tokens_max; the text ended; no room */

/* `tokens` has `count` >= 1 and room for use_length; *count grows. `sequence`: which prompt it is, for the draws. */
enum generated generate(const struct generating *g, i32 *tokens, i64 *count, i64 sequence,
                        struct arena scratch);

#endif
