/* Any bytes as a tokenizer.json, or, with a byte 1 inside, as vocab.json and merges.txt: a vocabulary or a sentence.
 * What was accepted then encodes the input itself, and no token lies outside of it. */
#include "data/tokenize.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void encode(const struct bpe *b, struct str text, struct arena *perm)
{
    struct bpe_coder *c      = bpe_coder_new(perm, b);
    u32              *tokens = NEW(perm, u32, tokens_max(text.len));
    i64               count = 0, bad = 0;
    struct err        err = { 0 };
    enum status       st  = tokenize_text(c, text, true, tokens, &count, &bad, &err);
    ASSERT(!st);
    ASSERT(count <= tokens_max(text.len) && (b->chars || (count > 0) == (text.len > 0)));
    for (i64 i = 0; i < count; i++) ASSERT(tokens[i] < b->vocabulary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all; /* opened once: unmapping it each time took most of the time */
    if (!all.begin) all = arena_open((i64)8 << 30);
    struct arena perm  = all;
    struct str   text  = { (const char *)data, (i64)bytes };
    i64          split = str_find(text, '\1');
    struct bpe  *b     = NULL;
    struct err   err   = { 0 };
    enum status  st;
    if (split < 0) st = bpe_parse_tokenizer(STR("t"), text, &perm, &b, &err);
    else
        st = bpe_parse_vocabulary(STR("v"), str_sub(text, 0, split),
                                  str_sub(text, split + 1, text.len), &perm, &b, &err);
    ASSERT(st ? !b && err.text[0] : b != NULL);
    if (!st) encode(b, text, &perm);
    return 0;
}
