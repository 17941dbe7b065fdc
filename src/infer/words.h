/* words.h - between text and a model's tokens: by the tokenizer in a folder, or bytes. */
#ifndef INFER_WORDS_H
#define INFER_WORDS_H
#include "data/bpe.h"
#include "train/settings.h"

enum { WORDS_ENDS_MAX = 64 };
enum { WORDS_BYTES = 256 }; /* tokens of a model that was trained on text as bytes */

struct words {
    struct bpe       *bpe; /* NULL: a token is a byte */
    struct bpe_coder *coder;
    u32 *left, *right; /* of each token, the two it was merged from; UINT32_MAX: it was not */
    u32  ends[WORDS_ENDS_MAX]; /* more tokens that end a text than those with the usual names */
    i64  end_count;
};

/* The tokenizer of a model trained with these settings: empty where its tokens are bytes, or its folder. False:
 * only who made the tokens knows. */
bool words_find(struct os *os, const struct settings *s, struct arena *perm, struct str *path);
/* path empty: bytes. One thread encodes with it. */
enum status words_open(struct words *w, struct os *os, struct str path, struct arena *perm,
                       struct err *err);
enum words_around {
    WORDS_WITH_BEFORE,
    WORDS_ALONE
}; /* what the tokenizer puts before a text; or
                                                         the text has it, by a chat template */
/* `to` has room for tokens_max(text.len) and 8 more; none
 * is at or above `vocabulary`. */
enum status words_encode(const struct words *w, struct str text, enum words_around around,
                         i64 vocabulary, i32 *to, i64 *count, struct arena scratch,
                         struct err *err);
/* The bytes of a token, which may be a part of a character; empty: it stands for none. */
struct str words_of(const struct words *w, i64 token, struct arena *perm);
bool       words_ends(const struct words *w, i64 token); /* does it end a text? */
void       words_add_end(struct words *w, i64 token);
/* The token that is this text alone; -1: there is none. */
i64 words_token(const struct words *w, struct str text);

#endif
