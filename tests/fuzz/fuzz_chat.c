/* Any bytes as a tokenizer_config.json, and, behind a byte 1, a pattern and the messages: a text or a sentence. Answers
 * lie within the text, one after the other. */
#include "data/chat_form.h"
#include "infer/generation_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_spans(const struct chat_text *t)
{
    i64 at = 0;
    for (i64 i = 0; i < t->span_count; i++) {
        ASSERT(t->span[i].begin >= at && t->span[i].end <= t->text.len);
        at = t->span[i].begin;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)8 << 30);
    struct arena     perm = all;
    struct str       rest = { (const char *)data, (i64)bytes }, config = { 0 }, pattern = { 0 };
    struct chat_form form;
    struct err       err = { 0 };
    struct json     *messages;
    str_cut(&rest, '\1', &config);
    str_cut(&rest, '\1', &pattern);
    struct generation_config about; /* the same bytes as a generation_config.json */
    if (generation_config_parse(STR("g"), config, perm, &about, &err)) ASSERT(err.text[0]);
    err = (struct err){ 0 };
    if (chat_form_read(STR("c"), config, STR(""), &pattern, pattern.len > 0, STR("18 Nov 2026"),
                       &perm, &form, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    if (json_parse(&perm, rest, &messages, &err)) return 0;
    struct chat_text *t  = NEW(&perm, struct chat_text, 1);
    enum status       st = chat_write(&form, messages, &perm, t, &err);
    if (!st) check_spans(t);
    struct str asked = { 0 };
    if (!chat_ask(&form, messages, &perm, &asked, &err)) ASSERT(asked.len >= t->text.len);
    return 0;
}
