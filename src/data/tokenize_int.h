/* tokenize_int.h - what is kept while text becomes tokens, so that a kill costs seconds: shared by
 * tokenize.c, which makes segments, and tokenize_keep.c, which keeps them and makes the file of them. */
#ifndef DATA_TOKENIZE_INT_H
#define DATA_TOKENIZE_INT_H
#include "data/tokenize.h"

enum { SEGMENTS_MAX = 60000 };

struct keep {
    struct os              *os;
    struct arena           *perm;
    struct str              out, side, dir; /* OUT, OUT.json, OUT.parts */
    struct str              run;            /* 16 digits: this work, at this place of the file */
    struct str              work;           /* the same at any place */
    struct str              hash;           /* of the vocabulary */
    i64                     vocabulary, width, separator;
    struct file             lock;
    struct tokenize_result *result;
    i64                     segment; /* the next one's number */
    i64                     documents_before, source_bytes_before;
};

struct token_side { /* OUT.json */
    struct str type, hash, work;
    i64        tokens, vocabulary, documents, source_bytes;
    i64 separator; /* the token behind each document; -1: there is none, or an older file does not say */
};

enum status token_side_read(struct os *os, struct str path, struct arena *perm,
                            struct token_side *out, struct err *err);

i64 token_bytes(const struct bpe *b); /* 2, or 4 where the vocabulary needs them */

/* Names the run, reads what there is of OUT, holds the folder of segments, and ends what a run that was
 * killed at its very end has left. */
enum status keep_open(struct keep *k, struct os *os, const struct bpe *b,
                      const struct tokenize_config *config, i64 *bytes_all, struct arena *perm,
                      struct err *err);
bool        keep_has(struct keep *k); /* the next segment is there: passes over it */
enum status keep_segment(struct keep *k, const struct str *tokens, i64 count, struct arena scratch,
                         struct err *err);
enum status keep_publish(struct keep *k, struct arena scratch, struct err *err);
void        keep_close(struct keep *k);

#endif
