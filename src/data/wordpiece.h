/* wordpiece.h - BERT's way from text to tokens (Devlin et al. 2019), as Hugging Face's tokenizers do it: characters
 * are cleaned, accents and capitals taken away, words end at blanks and signs, and of each word the longest beginning
 * that is a token is taken, then the longest "##…" of the rest. */
#ifndef DATA_WORDPIECE_H
#define DATA_WORDPIECE_H
#include "data/bpe.h"

struct wordpiece {
    bool              clean, spaced, strip, lower; /* of BertNormalizer */
    bool              is_normal;                   /* there is one */
    i64               chars_max;                   /* of a word; a longer one is unknown */
    u32               unknown;
    struct str        prefix; /* of what does not begin a word: "##" */
    const u8         *kinds;  /* by code point */
    const struct nfc *nfc;    /* for strip */
};

const u8 *wordpiece_kinds(struct arena *perm);
/* Room in `perm`: 80 bytes a byte. Valid UTF-8. */
struct str wordpiece_normal(const struct wordpiece *w, struct str text, struct arena *perm);
/* Of normal text. `to` has room for a token a character. */
void wordpiece_encode(const struct bpe *b, struct str text, u32 *to, i64 *count);

#endif
