/* tokenize.h - text files to one file of tokens, on all cores, and vocabularies trained from text.
 *
 * The output is what data.kind tokens reads (docs/formats/tokens.md): no byte of it depends on how many
 * threads there were, nor on how often the work was killed and started again. */
#ifndef DATA_TOKENIZE_H
#define DATA_TOKENIZE_H
#include "data/bpe.h"

struct tokenize_progress {
    i64 bytes, bytes_all;   /* of the text; of a .gz as it lies there */
    i64 tokens, tokens_all; /* tokens_all, when a vocabulary is learned: its size */
};

struct tokenize_listener {
    void *context;
    bool (*on_progress)(void *context, const struct tokenize_progress *p); /* false: stop */
};

struct tokenize_config {
    const struct str        *paths; /* each is a document; a .gz is unpacked */
    i64                      path_count;
    struct str               out;
    bool                     append; /* to a file of the same vocabulary; else there may be none */
    bool                     has_separator; /* a token behind each document */
    u32                      separator;
    i32                      threads;
    i64                      piece_bytes, segment_bytes; /* 0: as usual; tests make them small */
    struct tokenize_listener listener;
};

struct tokenize_result {
    i64        tokens, tokens_before; /* in the file; of them, there before */
    i64        documents, bytes;      /* read now or by the runs before this one that were killed */
    i64        bytes_kept;            /* of them, those that such runs had done */
    i64        bad;                   /* places that were not UTF-8 */
    struct str type;                  /* u16 or u32 */
    bool       was_done;              /* by an earlier run, which may have been killed at its end */
};

enum status tokenize_files(struct os *os, const struct bpe *b, const struct tokenize_config *config,
                           struct tokenize_result *out, struct err *err);

/* What one thread does, for tests and fuzzers: any bytes to tokens. Room in `to`: tokens_max(len). */
i64         tokens_max(i64 bytes);
enum status tokenize_text(struct bpe_coder *c, struct str text, bool begins, u32 *to, i64 *count,
                          i64 *bad, struct err *err);

#endif
