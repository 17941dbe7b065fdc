/* bpe.h - text to tokens, to the token as Hugging Face's tokenizers: byte pair encoding over bytes (GPT-2, Llama 3,
 * Qwen) or over characters as SentencePiece has it (Llama 2, Mistral: a blank is U+2581, what is not in the vocabulary
 * becomes bytes), and BERT's word pieces (wordpiece.h).
 *
 * A vocabulary is opened once and shared; each thread encodes with a coder of its own, which keeps
 * the words it has seen. What a file asks for that is not known here is refused with a sentence,
 * never passed over: a wrong token is worse than none.
 *
 *     text  --added tokens, nfc.h-->  pieces  --presplit.h-->  words  --merges, lowest rank first-->  tokens */
#ifndef DATA_BPE_H
#define DATA_BPE_H
#include "base/os.h"
#include "data/nfc.h"
#include "data/presplit.h"

struct bpe_added {
    struct str text;
    u32        id;
    bool       late; /* looked for where those that are not late left something */
    bool       special;
    bool       lstrip, rstrip; /* it takes the blanks before, behind it along */
};

struct bpe_merge {
    u64 pair; /* the left token's id above the right one's */
    u32 rank, id;
};

struct bpe_word { /* a token's text as bytes, by a hash of it */
    struct str bytes;
    u32        id;
};

/* Which pieces of text get a U+2581 before them: none; each; each that has none; what begins the text, likewise. */
enum bpe_prepend { PREPEND_NEVER, PREPEND_EACH, PREPEND_MISSING, PREPEND_FIRST };
enum { BPE_AROUND_MAX = 8 };

struct wordpiece;

struct bpe {
    const struct wordpiece *wordpiece;     /* NULL: by merges */
    bool                    chars;         /* merges of characters, not of bytes */
    bool                    blanks;        /* of characters: a blank becomes U+2581 */
    bool                    normal_blanks; /* already before late added tokens are sought */
    enum bpe_prepend        prepend;
    bool                    split_blanks; /* words begin at each U+2581; else a piece is one word */
    bool byte_fallback; /* a character that is no token becomes its bytes' tokens, byte_id */
    bool fuse_unknown;
    i64  unknown; /* token of what has none; -1: it is left out */
    u32  before[BPE_AROUND_MAX], after[BPE_AROUND_MAX]; /* a text, for a model */
    i64  before_count, after_count;
    i64  word_bytes_max;        /* the longest of `words` */
    const struct str    *texts; /* of characters: each token's, by number */
    enum presplit        split;
    struct presplit_cuts cuts;
    const u8            *classes;
    const struct nfc    *nfc; /* text is brought to that form before words are sought; NULL: not */
    bool                 prefix_blank; /* a piece that does not begin with a blank gets one */
    bool              whole_words; /* a word that is a token is that token, whatever the merges */
    u32               byte_id[256];
    i64               vocabulary; /* the largest id + 1 */
    struct bpe_merge *merges;     /* open addressing; pair UINT64_MAX: empty */
    u64               merge_mask;
    struct bpe_word  *words; /* for whole_words; bytes.data NULL: empty */
    u64               word_mask;
    struct bpe_added *added; /* by first byte, then longest first */
    i64               added_count;
    i32        added_byte; /* the first byte of all of them; -1: they differ, or there is none */
    i16        added_first[257]; /* those with first byte b: added_first[b] to [b + 1] */
    struct str hash;             /* SHA-256 of the files, 64 digits */
};

/* A folder with tokenizer.json, or vocab.json and merges.txt, or encoder.json and vocab.bpe; or one
 * of these files. */
enum status bpe_open(struct os *os, struct str path, struct arena *perm, struct bpe **out,
                     struct err *err);
/* The parsers on memory; `name` is for messages. */
enum status       bpe_parse_tokenizer(struct str name, struct str json, struct arena *perm,
                                      struct bpe **out, struct err *err);
enum status       bpe_parse_vocabulary(struct str name, struct str vocab, struct str merges,
                                       struct arena *perm, struct bpe **out, struct err *err);
struct bpe_merge *bpe_merge_slot(const struct bpe *b, u64 pair); /* the pair's, or an empty one */
bool              bpe_find_word(const struct bpe *b, struct str text, u32 *id); /* in b->words */
bool              bpe_find_added(const struct bpe *b, struct str text, u32 *id);

/* Tokens that end a text, or an answer, by their usual names. */
bool bpe_is_end(const struct bpe *b, u32 id);
i64  bpe_end_token(const struct bpe *b); /* the first of them that there is; -1: none */

struct bpe_coder; /* for one thread */

i64               bpe_coder_bytes(void); /* what an arena needs to hold one */
struct bpe_coder *bpe_coder_new(struct arena *perm, const struct bpe *b);
/* Valid UTF-8, whole or cut as b->cuts allows; `begins`: nothing comes before it. `to` has room for
 * tokens_max(text.len) of tokenize.h. */
enum status bpe_encode(struct bpe_coder *c, struct str text, bool begins, u32 *to, i64 *count,
                       struct err *err);

/* A byte's character in the files of a vocabulary: itself where it prints, else one above 255. */
void bpe_byte_codes(u32 code[256]);

#endif
