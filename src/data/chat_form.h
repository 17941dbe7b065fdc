/* chat_form.h - conversations as one text, the way that a model's chat template writes them.
 *
 * There is no interpreter of templates here. tokenizer_config.json's chat_template is recognised by what it contains
 * (ChatML, Llama 3, Mistral), or data.template says how a message is written:
 *
 *     "<|{role}|>\n{content}{eos}\n"                          the same for every role
 *     user=USER: {content}, assistant= ASSISTANT: {content}{eos}     a pattern a role
 *
 * {role}, {content}, {eos}; {bos} counts in the first message only; {end}: where the answer ends, and with it what is
 * learned (without it: at the pattern's end). */
#ifndef DATA_CHAT_FORM_H
#define DATA_CHAT_FORM_H
#include "base/json.h"
#include "base/os.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

struct chat_form {
    struct str pattern[CHAT_ROLES]; /* data NULL: messages of this role are refused */
    struct str bos, eos;
    struct str first_system; /* written where no system message comes first; empty: nothing */
    struct str
         system_head; /* before what the first system message says; then there always is one */
    bool trim;        /* contents lose the blanks around them */
};

struct chat_span { /* bytes of the text that are an answer */
    i64 begin, end;
};
enum { CHAT_SPANS_MAX = 1024 };
struct chat_text {
    struct str       text;
    struct chat_span span[CHAT_SPANS_MAX];
    i64              span_count;
};

/* declared: data.template; without it by tokenizer_config.json or chat_template.jinja of that folder. today: "18 Nov
 * 2026", for a template that writes it (Llama 3.2's); empty: such a one is refused, as of a text to learn from. */
enum status chat_form_open(struct os *os, struct str folder, const struct str *declared, i64 count,
                           struct str today, struct arena *perm, struct chat_form *out,
                           struct err *err);
/* The same on memory; `config` may be empty, and so may `template`: then it is the config's. For the fuzzer, too. */
enum status chat_form_read(struct str name, struct str config, struct str template,
                           const struct str *declared, i64 count, struct str today,
                           struct arena *perm, struct chat_form *out, struct err *err);
/* A list of {"role": …, "content": …}. The sentence begins with what is wrong: the caller says where. */
enum status chat_write(const struct chat_form *f, const struct json *messages, struct arena *perm,
                       struct chat_text *out, struct err *err);
/* The same for who wants the next answer: behind the messages, which do not end with an answer, what the template
 * writes before one, without blanks at its end: they belong to the answer's first token. */
enum status chat_ask(const struct chat_form *f, const struct json *messages, struct arena *perm,
                     struct str *out, struct err *err);
/* What the template writes behind an answer that is still learned: "<|im_end|>"; may be empty. */
struct str chat_answer_end(const struct chat_form *f, struct arena *perm);

#endif
