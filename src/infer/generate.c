/* generate.c - the loop: the next token's logits, a draw, and again. Each token costs a pass over the sequence. */
#include "infer/generate.h"

enum generated generate(const struct generating *g, i32 *tokens, i64 *count, i64 sequence,
                        struct arena scratch)
{
    i64  vocabulary = use_vocabulary(g->use), begin = *count;
    f64 *logits = NEW(&scratch, f64, vocabulary);
    while (*count - begin < g->tokens_max) {
        struct arena here = scratch;
        if (*count == use_length(g->use)) return GENERATED_FULL;
        use_next(g->use, tokens, *count, logits);
        i64 next = sample_token(&g->sampling, logits, vocabulary, sequence, *count, here);
        if (words_ends(&g->words, next)) return GENERATED_END;
        tokens[(*count)++] = (i32)next;
        if (!g->on_token(g->context, next, words_of(&g->words, next, &here))) break;
    }
    return GENERATED_ENOUGH;
}
