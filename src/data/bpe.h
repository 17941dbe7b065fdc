/* bpe.h - byte-level byte pair encoding: text to tokens, to the token as Hugging Face's tokenizers.
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
};

struct bpe_merge {
    u64 pair; /* the left token's id above the right one's */
    u32 rank, id;
};

struct bpe_word { /* a token's text as bytes, by a hash of it */
    struct str bytes;
    u32        id;
};

struct bpe {
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
bool              bpe_find_added(const struct bpe *b, struct str text, u32 *id);

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
