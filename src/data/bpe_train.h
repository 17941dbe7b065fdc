/* bpe_train.h - a vocabulary from text: words counted, then the most frequent pairs merged.
 *
 * The result is that of Hugging Face's BpeTrainer (min_frequency 0, the whole byte alphabet, each file one
 * sequence). Its rule where counts are equal: the pair of the smaller left token, then of the smaller
 * right one. It depends on the text alone, not on threads. */
#ifndef DATA_BPE_TRAIN_H
#define DATA_BPE_TRAIN_H
#include "data/tokenize.h"

struct bpe_count { /* a word and how often it came */
    struct str word;
    i64        count;
};

struct bpe_learned {
    struct str *tokens; /* by id, written as the files of a vocabulary have them */
    i64         token_count;
    u64        *merges; /* left id above right id, in order */
    i64         merge_count;
};

struct bpe_train_config {
    const struct str        *paths;
    i64                      path_count;
    struct str               folder;     /* made before the text is read; empty: none */
    i64                      vocabulary; /* tokens at most: special ones, 256 bytes, merges */
    struct str               special;    /* the first token; empty: none */
    i32                      threads;
    struct tokenize_listener listener;
};

/* Is the size of the vocabulary possible? bpe_train asks it first. */
enum status bpe_train_check(const struct bpe_train_config *config, struct err *err);

/* Counts the words of the files and learns from them. `memory` is large: address space only. */
enum status bpe_train(struct os *os, const struct bpe_train_config *config, struct arena *memory,
                      struct bpe_learned *out, struct err *err);

/* The second half alone. The words may come in any order, each once. */
enum status bpe_learn(const struct bpe_count *words, i64 word_count,
                      const struct bpe_train_config *config, struct arena *memory,
                      struct bpe_learned *out, struct err *err);

/* vocab.json, merges.txt and tokenizer.json in the folder, which is made where there is none. */
enum status bpe_write(struct os *os, struct str folder, const struct bpe_learned *l,
                      struct str special, struct arena scratch, struct err *err);
bool bpe_is_in(struct os *os, struct str folder, struct arena scratch); /* is there one already? */

#endif
