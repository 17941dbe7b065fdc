/* bpe_int.h - what the readers of vocabularies share: bpe_read.c (files, byte-level ones), bpe_kinds.c (the others). */
#ifndef DATA_BPE_INT_H
#define DATA_BPE_INT_H
#include "base/json.h"
#include "data/bpe.h"

enum { CODES = 0x180 };

struct token {
    struct str text;
    u32        id;
};

struct reader {
    struct str    name; /* of the file, for messages */
    struct arena *perm;
    struct arena  scratch;
    struct bpe   *bpe;
    struct token *tokens; /* open addressing by text; text.data NULL: empty */
    u64           token_mask;
    i64           token_count;
    u8            byte_of[CODES]; /* by code; only where is_byte */
    bool          is_byte[CODES];
    struct err   *err;
};

enum status reader_refuse(struct reader *r, const char *what, struct str detail); /* one sentence */
bool        token_find(const struct reader *r, struct str text, u32 *id);
enum status read_tokens(struct reader *r, const struct json *vocab);
enum status read_merge_list(struct reader *r, const struct json *list);
void        make_words(struct reader *r); /* bpe->words, of all tokens */
struct str  type_name(const struct json *v);
bool        json_is(const struct json *v, struct str text);
bool        is_null_or_empty(const struct json *v);

/* ---- bpe_kinds.c */
/* Merges over characters: is it that kind, and reading it. */
bool        is_sentencepiece(const struct json *root);
enum status read_sentencepiece(struct reader *r, const struct json *root);
enum status read_wordpiece(struct reader *r, const struct json *root);
/* What stands before and behind a text that a model is given. */
enum status read_post_processor(struct reader *r, const struct json *v);
/* Would normalising change an added token? Then it is sought in another form than it is written. */
bool changes_added(const struct reader *r, struct str text);

#endif
