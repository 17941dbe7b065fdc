/* test_chat.c - conversations as text, which of it is learned, and how samples lie in sequences. */
#include "data/chat_form.h"
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

#define TALK "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Ho\"}]"
#define TOKENS "\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"}"

/* The text with answers between brackets; else the sentence. */
static struct str written(struct arena *perm, const char *config, const char *pattern,
                          const char *talk)
{
    struct chat_form  form;
    struct err        err      = { 0 };
    struct str        declared = str_of(pattern);
    struct json      *messages;
    struct chat_text *t = NEW(perm, struct chat_text, 1);
    enum status st = chat_form_read(STR("c"), str_of(config), STR(""), &declared, declared.len > 0,
                                    STR(""), perm, &form, &err);
    if (!st) st = json_parse(perm, str_of(talk), &messages, &err);
    if (!st) st = chat_write(&form, messages, perm, t, &err);
    if (st) return str_copy(perm, str_of(err.text));
    struct textbuf b  = textbuf_new(perm);
    i64            at = 0;
    for (i64 i = 0; i < t->span_count; i++) {
        textbuf_fmt(&b, "%.*s[%.*s]", STR_ARG(str_sub(t->text, at, t->span[i].begin)),
                    STR_ARG(str_sub(t->text, t->span[i].begin, t->span[i].end)));
        at = t->span[i].end;
    }
    textbuf_add(&b, str_sub(t->text, at, t->text.len));
    return textbuf_str(&b);
}

#define CHATML_MESSAGE                                                                             \
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"

TEST(templates_are_recognised_or_declared)
{
    CHECK_STR(written(perm, "{" TOKENS "}", "chatml", TALK),
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Ho<|im_end|>]\n");
    CHECK_STR(written(perm,
                      "{" TOKENS ",\"chat_template\":\"{{ '<|im_start|>system\\\\nBe "
                      "kind.<|im_end|>\\\\n' }}" CHATML_MESSAGE "\"}",
                      "", TALK),
              "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n[Ho<|im_end|>]\n");
    CHECK_STR(written(perm,
                      "{" TOKENS ",\"chat_template\":\"{{- bos_token }}{{ '<|im_start|>' + "
                      "message.role + '\\\\n' + message.content + '<|im_end|>' }}\"}",
                      "", TALK),
              "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Ho<|im_end|>]\n");
    CHECK_STR(written(perm, "{" TOKENS "}", "llama3", TALK),
              "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n[Ho<|eot_id|>]");
    CHECK_STR(written(perm, "{" TOKENS "}", "mistral", TALK), "<s>[INST] Hi [/INST][Ho</s>]");
    CHECK_STR(written(perm, "{" TOKENS "}", "{bos}{role}: {content}{end}\n", TALK),
              "<s>user: Hi\nassistant:[ Ho]\n");
}

TEST(what_cannot_be_written_is_said)
{
    CHECK_STR(written(perm, "{" TOKENS "}", "{role}", TALK),
              "data.template: {role} does not say where {content} stands");
    CHECK_STR(written(perm, "{" TOKENS "}", "user={content}", TALK),
              "the chat template has no messages of role assistant");
    CHECK_STR(written(perm, "{" TOKENS "}", "chatml", "[{\"role\":\"tool\",\"content\":\"x\"}]"),
              "the role tool is not system, user or assistant");
    CHECK_STR(written(perm, "{" TOKENS "}", "chatml", "[]"),
              "\"messages\" is not a list of messages");
    struct str said = written(perm, "{\"chat_template\":\"{{ x }}\"}", "", TALK);
    CHECK(strstr(said.data, "is neither plain ChatML"));
    said =
        written(perm, "{\"chat_template\":\"'<think>' message.content + '<|im_end|>'\"}", "", TALK);
    CHECK(strstr(said.data, "is neither plain ChatML nor Llama 3's nor Mistral's"));
}

/* Each has a part of a template that is known, and writes other tokens than it does. */
TEST(a_template_that_is_nearly_a_known_one_is_refused)
{
    static const char *const nearly[] = {
        "{{'<|im_begin|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}",
        "{{ system_message }}{{ '<|im_start|>user\\n' + content + '<|im_end|>' }}", /* Yi 1.5 */
        CHATML_MESSAGE "{{ eos_token }}",
        ("{% if x %}{{ bos_token }}{% endif %}" CHATML_MESSAGE), /* clang suspects a comma */
        "{{ message['content'] | trim + '<|eot_id|>' }}", /* Llama 3 without its first token */
    };
    for (i64 i = 0; i < COUNT_OF(nearly); i++) {
        struct str config = str_fmt(perm, "{" TOKENS ",\"chat_template\":\"%s\"}%c", nearly[i], 0);
        struct str said   = written(perm, config.data, "", TALK);
        CHECK(strstr(said.data, "is neither plain ChatML nor Llama 3's nor Mistral's"));
    }
}

/* The text that asks for an answer, a bar, and how that one will end; else the sentence. */
static struct str asked(struct arena *perm, const char *pattern, const char *talk)
{
    struct chat_form form;
    struct err       err      = { 0 };
    struct str       declared = str_of(pattern), text;
    struct json     *messages;
    enum status st = chat_form_read(STR("c"), STR("{" TOKENS "}"), STR(""), &declared, 1, STR(""),
                                    perm, &form, &err);
    if (!st) st = json_parse(perm, str_of(talk), &messages, &err);
    if (!st) st = chat_ask(&form, messages, perm, &text, &err);
    if (st) return str_copy(perm, str_of(err.text));
    return str_fmt(perm, "%.*s|%.*s", STR_ARG(text), STR_ARG(chat_answer_end(&form, perm)));
}

TEST(an_answer_is_asked_for_as_the_template_begins_one)
{
    const char *hi = "[{\"role\":\"user\",\"content\":\"Hi\"}]";
    CHECK_STR(asked(perm, "chatml", hi),
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n|<|im_end|>");
    CHECK_STR(asked(perm, "llama3", hi),
              "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n|<|eot_id|>");
    CHECK_STR(asked(perm, "mistral", hi), "<s>[INST] Hi [/INST]|</s>");
    CHECK_STR(asked(perm, "{bos}{role}: {content}{eos}{end}\n", hi),
              "<s>user: Hi</s>\nassistant:|</s>");
    CHECK_STR(asked(perm, "chatml", TALK), "the last message is an answer: there is none to give");
    CHECK_STR(asked(perm, "user={content}", hi),
              "the chat template has no messages of role assistant");
}

/* As Llama 3.2's: to be learned from, a text is not of today. */
TEST(a_template_that_writes_the_date_needs_one)
{
    static const char template[] =
        "{\"bos_token\":\"<s>\",\"chat_template\":\"date_string = strftime_now('%d %b %Y') "
        "bos_token date_string = \\\"26 Jul 2024\\\" Cutting Knowledge Date: December 2023 "
        "message['content'] | trim + '<|eot_id|>'\"}";
    struct chat_form form;
    struct err       err;
    CHECK_EQ(
        chat_form_read(STR("c"), str_of(template), STR(""), NULL, 0, STR(""), perm, &form, &err),
        STATUS_USAGE);
    CHECK(strstr(err.text, "writes today's date into the text"));
    CHECK_EQ(chat_form_read(STR("c"), str_of(template), STR(""), NULL, 0, STR("18 Nov 2026"), perm,
                            &form, &err),
             STATUS_OK);
    CHECK_STR(form.system_head,
              "Cutting Knowledge Date: December 2023\nToday Date: 18 Nov 2026\n\n");
}

/* A vocabulary of bytes, and an end of text. */
static struct str bytes_tokenizer(struct arena *perm)
{
    struct textbuf b    = textbuf_new(perm);
    u32            next = 256;
    textbuf_add(&b, STR("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                        "\"added_tokens\":[{\"id\":256,\"content\":\"</s>\",\"special\":true}],"
                        "\"model\":{\"merges\":[],\"vocab\":{"));
    for (u32 i = 0; i < 256; i++) {
        bool prints = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        textbuf_fmt(&b, "%s\"\\u%04x\":%u", i ? "," : "", prints ? i : next++, i);
    }
    textbuf_add(&b, STR("}}}"));
    return textbuf_str(&b);
}

TEST(samples_fill_sequences_and_answers_alone_are_learned)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = { .kind = STR("chat"), .context = 8 };
    struct dataset    *d;
    struct err         err = { 0 };
    i32                x[8], y[8], position[8];
    c.tokenizer = folder_put(perm, dir, "tokenizer.json", bytes_tokenizer(perm));
    c.path      = folder_put(
             perm, dir, "p.jsonl",
             STR("{\"prompt\":\"ab\",\"completion\":\"c\"}\n\n" /* abc and the end: 3 inputs */
                 "{\"prompt\":\"abcdefghijk\",\"completion\":\"l\"}\n" /* its answer is cut off */
                 "{\"prompt\":\"wxy\",\"completion\":\"z\"}\n"));
    enum status st = dataset_open(os_real(), &c, perm, &d, &err);
    if (st) printf("%s\n", err.text);
    CHECK(!st);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 1);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 0 }, 1, (void *[]){ x, y, position });
    static const i32 xs[] = { 'a', 'b', 'c', 'w', 'x', 'y', 'z', 0 };
    static const i32 ys[] = { -1, 'c', 256, -1, -1, 'z', 256, -1 },
                     at[] = { 0, 1, 2, 0, 1, 2, 3, 0 };
    for (i64 i = 0; i < 8; i++) {
        CHECK_EQ(x[i], xs[i]);
        CHECK_EQ(y[i], ys[i]);
        CHECK_EQ(position[i], at[i]);
    }
    char line[LOADER_LINE_MAX];
    CHECK(dataset_says(d, line));
    CHECK_STR(
        str_of(line),
        "3 samples in 1 sequence; 1 longer than data.context cut, 1 without an answer left out");
    dataset_close(d);
    c.path = folder_put(perm, dir, "o.jsonl",
                        STR("{\"prompt\":\"abcdefghijk\",\"completion\":\"l\"}\n"));
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "o.jsonl: 1 sample, and no answer within data.context=8 tokens"));
    c.path = folder_put(perm, dir, "q.jsonl", STR("{\"prompt\":\"ab\"}\n"));
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "q.jsonl:1: neither \"messages\" nor"));
}

TEST(rows_of_text_get_their_classes_by_number_or_by_name)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = {
          .kind = STR("csv"), .context = 4, .text = STR("t"), .label = STR("y")
    };
    struct dataset *d;
    struct err      err = { 0 };
    i32             x[3][4], lens[3], y[3];
    c.tokenizer = folder_put(perm, dir, "tokenizer.json", bytes_tokenizer(perm));
    c.path      = folder_put(perm, dir, "t.csv", STR("t,y\n\"a,b\",good\nlonger,bad\nq,good\n"));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("y"))->range, 2);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 0, 1, 2 }, 3, (void *[]){ x, lens, y });
    CHECK_EQ(lens[0], 3);
    CHECK_EQ(x[0][1], ',');
    CHECK_EQ(x[0][3], 0);
    CHECK_EQ(lens[1], 4); /* cut */
    CHECK_EQ(y[0], 1);
    CHECK_EQ(y[1], 0);
    dataset_close(d);
    c.kind = STR("jsonl");
    c.path =
        folder_put(perm, dir, "t.jsonl", STR("{\"t\":\"a\",\"y\":4}\n{\"t\":\"b\",\"y\":0}\n"));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("y"))->range, 5);
    dataset_close(d);
    c.path = folder_put(perm, dir, "u.jsonl", STR("{\"t\":\"a\",\"y\":4}\n{\"y\":0}\n"));
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "u.jsonl:2: there is no text"));
    c.kind = STR("csv");
    c.path = folder_put(perm, dir, "v.csv", STR("t,y\n\"two\nlines\",good\n\nx,\nz,bad\n"));
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "v.csv:5: there is no label"));
}
