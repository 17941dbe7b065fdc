/* prompts.h - what a model is asked to continue: a text, the lines of a file, or conversations, which its chat template
 * makes one text of (data/chat_form.h). */
#ifndef INFER_PROMPTS_H
#define INFER_PROMPTS_H
#include "data/chat_form.h"

struct prompt {
    struct str         shown;    /* as it was given; of a conversation its last message */
    struct str         text;     /* for the tokenizer */
    const struct json *messages; /* of a conversation; NULL: the text is as it was given */
    i64                line;     /* of the file, from 1 */
};

struct prompts {
    struct prompt *items;
    i64            count;
    struct str     file; /* whose lines they are; empty: of none */
    bool           chat; /* some are conversations, and have no text before prompts_write */
};

enum prompts_as { PROMPTS_TEXT, PROMPTS_CHAT }; /* a text is continued; it is a user's message */
/* TEXT, or the lines of @FILE: texts, or of a .jsonl objects with "prompt", a text, or "messages". */
enum status prompts_read(struct os *os, struct str asked, enum prompts_as as, struct arena *memory,
                         struct prompts *out, struct err *err);
enum status prompts_write(struct prompts *p, const struct chat_form *form, struct arena *memory,
                          struct err *err);
/* "FILE:7: " before what is wrong with a prompt, where it is of a file. */
enum status prompts_failed(const struct prompts *p, i64 index, enum status st,
                           const struct err *why, struct err *err);
struct str  prompts_today(struct os *os, struct arena *perm); /* "18 Nov 2026", UTC */
i64         prompts_longest(const struct prompts *p);         /* bytes of a text */

#endif
