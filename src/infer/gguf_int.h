/* gguf_int.h - keys and their values, as the writers of a .gguf add them. */
#ifndef INFER_GGUF_INT_H
#define INFER_GGUF_INT_H
#include "infer/gguf.h"

enum gguf_kind { /* of a value, as the file numbers them */
                 KIND_U32    = 4,
                 KIND_I32    = 5,
                 KIND_F32    = 6,
                 KIND_BOOL   = 7,
                 KIND_STRING = 8,
                 KIND_ARRAY  = 9
};

struct gguf_keys {
    struct textbuf bytes;
    i64            count;
    struct str     prefix; /* of keys that begin with a dot: the architecture */
};

void gguf_u32(struct gguf_keys *k, const char *key, i64 value);
void gguf_f32(struct gguf_keys *k, const char *key, f64 value);
void gguf_flag(struct gguf_keys *k, const char *key, bool value);
void gguf_text(struct gguf_keys *k, const char *key, struct str value);
void gguf_list(struct gguf_keys *k, const char *key, enum gguf_kind kind,
               i64 count);                                         /* whose values follow: */
void gguf_item(struct gguf_keys *k, const void *value, i64 bytes); /* of a fixed size */
void gguf_item_text(struct gguf_keys *k, struct str value);

/* gguf_tokens.c: `vocabulary` rows of the embedding; tokens that nobody has named are filled up. */
enum status gguf_tokenizer(struct gguf_keys *k, struct os *os, struct str folder, i64 vocabulary,
                           struct arena *memory, struct err *err);

#endif
