/* chat_form.c - recognising a chat template, and writing conversations by it. */
#include "data/chat_form.h"
#include <string.h>

static const char *const role_names[CHAT_ROLES] = { "system", "user", "assistant" };

static i64 find(struct str text, const char *part)
{
    struct str p = str_of(part);
    for (i64 at = 0; at + p.len <= text.len; at++)
        if (!memcmp(text.data + at, p.data, (size_t)p.len)) return at;
    return -1;
}

static bool has(struct str text, const char *part) { return find(text, part) >= 0; }

/* A text, or {"content": text}. */
static struct str token_text(const struct json *root, const char *key)
{
    const struct json *v = json_get(root, str_of(key));
    if (v && v->kind == JSON_MAP) v = json_get(v, STR("content"));
    return v && v->kind == JSON_STRING ? v->text : STR("");
}

static void same_for_all(struct chat_form *f, struct str pattern)
{
    for (i32 i = 0; i < CHAT_ROLES; i++) f->pattern[i] = pattern;
}

/* ---- templates that are known ---- */

/* Is each message written as plain ChatML writes it, and nothing else but a first token before them all? The words are
 * those of the models on the hub; \n are two characters or one. */
static bool is_chatml(struct str template, bool *bos)
{
    static const char *const message[] = {
        "'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'",
        "'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'",
        "'<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>'",
        "'<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>'",
    };
    struct str rest = template;
    bool       is   = false;
    while (rest.len && strchr("{- \n", rest.data[0])) rest = str_sub(rest, 1, rest.len);
    *bos = str_starts(rest, STR("bos_token"));
    if (*bos) rest = str_sub(rest, STR("bos_token").len, rest.len);
    for (i64 i = 0; i < COUNT_OF(message); i++) is = is || has(rest, message[i]);
    return is && !has(rest, "bos_token") && !has(rest, "eos_token");
}

/* ChatML. Qwen and SmolLM write a system message of their own where the conversation has none: it stands in the
 * template as '<|im_start|>system\nTEXT<|im_end|>', where \n are two characters or one. */
static void read_chatml(struct chat_form *f, struct str template, bool bos)
{
    static const char begin[] = "<|im_start|>system";
    same_for_all(f, bos ? STR("{bos}<|im_start|>{role}\n{content}<|im_end|>{end}\n")
                        : STR("<|im_start|>{role}\n{content}<|im_end|>{end}\n"));
    for (i64 at = 0, next; (next = find(str_sub(template, at, template.len), begin)) >= 0;) {
        at += next + (i64)sizeof begin - 1;
        struct str rest = str_sub(template, at, template.len);
        if (str_starts(rest, STR("\\n"))) rest = str_sub(rest, 2, rest.len);
        else if (str_starts(rest, STR("\n"))) rest = str_sub(rest, 1, rest.len);
        else continue;
        i64 end = find(rest, "<|im_end|>"), quote = MAX(str_find(rest, '\''), -1);
        if (end <= 0 || (quote >= 0 && quote < end)) continue;
        f->first_system = str_sub(rest, 0, end);
        return;
    }
}

/* Llama 3. Since 3.1 a system message comes first that tells the date: one that stands in the template as
 * date_string = "26 Jul 2024"; where it is today's, a text would not be the same tomorrow. */
static enum status read_llama3(struct chat_form *f, struct str template, struct str name,
                               struct str today, struct arena *perm, struct err *err)
{
    static const char date[] = "date_string = \"";
    same_for_all(f, STR("{bos}<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"));
    f->trim = true;
    if (!has(template, "Cutting Knowledge Date")) return STATUS_OK;
    i64        at  = find(template, date);
    struct str day = at < 0 ? STR("") : str_sub(template, at + (i64)sizeof date - 1, template.len);
    i64        end = str_find(day, '"');
    bool       dated = has(template, "strftime_now");
    if (dated && today.len) day = today, end = today.len;
    if ((dated && !today.len) || end < 0 || !has(template, "Cutting Knowledge Date: December 2023"))
        return err_set(
            err, STATUS_USAGE,
            "%.*s: this chat_template writes today's date into the text; write it as data.template",
            STR_ARG(name));
    f->system_head = str_fmt(perm, "Cutting Knowledge Date: December 2023\nToday Date: %.*s\n\n",
                             (int)end, day.data);
    return STATUS_OK;
}

static enum status read_mistral(struct chat_form *f, struct str template, struct str name,
                                struct err *err)
{
    bool spaced = has(template, "'[INST] ' + message['content'] + ' [/INST]'");
    bool close  = has(template, "'[INST] ' + message['content'] + '[/INST]'");
    bool after  = has(template, "message['content'] + eos_token + ' '");
    bool before = has(template, "' ' + message['content'] + eos_token");
    bool plain  = has(template, "message['content'] + eos_token");
    if ((!spaced && !close) || !plain)
        return err_set(
            err, STATUS_USAGE,
            "%.*s: this chat_template with [INST] is not one of those that are known; write it as "
            "data.template",
            STR_ARG(name));
    f->pattern[CHAT_USER] =
        spaced ? STR("{bos}[INST] {content} [/INST]") : STR("{bos}[INST] {content}[/INST]");
    f->pattern[CHAT_ASSISTANT] = before  ? STR(" {content}{eos}")
                                 : after ? STR("{content}{eos}{end} ")
                                         : STR("{content}{eos}");
    return STATUS_OK;
}

static enum status recognise(struct chat_form *f, struct str template, struct str name,
                             struct str today, struct arena *perm, struct err *err)
{
    bool bos;
    bool chatml = is_chatml(template, &bos);
    bool llama3 = has(template, "message['content'] | trim + '<|eot_id|>'") &&
                  has(template, "bos_token"); /* which read_llama3 writes */
    bool more = has(template, "<think>") ||
                has(template, "strip("); /* contents are not written as they are */
    if (chatml && !more && !has(template, "trim")) read_chatml(f, template, bos);
    else if (llama3 && !more) return read_llama3(f, template, name, today, perm, err);
    else if (has(template, "[INST]")) return read_mistral(f, template, name, err);
    else
        return err_set(err, STATUS_USAGE,
                       "%.*s: %s; write data.template, as in "
                       "data.template=[\"<|{role}|>\\n{content}{eos}\\n\"]",
                       STR_ARG(name),
                       template.len
                           ? "its chat_template is neither plain ChatML nor Llama 3's nor Mistral's"
                           : "there is no chat_template");
    return STATUS_OK;
}

/* ---- a declared one ---- */

static enum status declare(struct chat_form *f, struct str text, struct err *err)
{
    struct str pattern = text;
    i32        role    = -1;
    for (i32 i = 0; i < CHAT_ROLES; i++) {
        i64 len = str_of(role_names[i]).len;
        if (!str_starts(text, str_of(role_names[i])) || text.len <= len || text.data[len] != '=')
            continue;
        role    = i;
        pattern = str_sub(text, len + 1, text.len);
    }
    if (!has(pattern, "{content}"))
        return err_set(err, STATUS_USAGE, "data.template: %.*s does not say where {content} stands",
                       (int)MIN(text.len, 80), text.data);
    if (role < 0) same_for_all(f, pattern);
    else f->pattern[role] = pattern;
    return STATUS_OK;
}

/* As one would write it: chatml, llama3 and mistral are what the templates of these names write. */
static bool by_name(struct chat_form *f, struct str name)
{
    if (str_eq(name, STR("chatml"))) read_chatml(f, STR(""), false);
    else if (str_eq(name, STR("llama3"))) {
        same_for_all(f,
                     STR("{bos}<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"));
        f->trim = true;
    } else if (str_eq(name, STR("mistral"))) {
        f->pattern[CHAT_USER]      = STR("{bos}[INST] {content} [/INST]");
        f->pattern[CHAT_ASSISTANT] = STR("{content}{eos}");
    } else return false;
    return true;
}

enum status chat_form_read(struct str name, struct str config, struct str template,
                           const struct str *declared, i64 count, struct str today,
                           struct arena *perm, struct chat_form *out, struct err *err)
{
    struct json *root = NULL;
    struct err   why;
    enum status  st = STATUS_OK;
    *out            = (struct chat_form){ 0 };
    if (config.len && json_parse(perm, config, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(name), why.text);
    out->bos = token_text(root, "bos_token");
    out->eos = token_text(root, "eos_token");
    if (count == 1 && by_name(out, declared[0])) return STATUS_OK;
    for (i64 i = 0; i < count && !st; i++) st = declare(out, declared[i], err);
    return st || count ? st
                       : recognise(out, template.len ? template : token_text(root, "chat_template"),
                                   name, today, perm, err);
}

enum status chat_form_open(struct os *os, struct str folder, const struct str *declared, i64 count,
                           struct str today, struct arena *perm, struct chat_form *out,
                           struct err *err)
{
    struct str  name = str_cat(perm, folder, STR("/tokenizer_config.json")), text = { 0 };
    enum status st  = STATUS_OK;
    struct str  own = str_cat(perm, folder, STR("/chat_template.jinja")), template = { 0 };
    if (os_is_file(os, name)) st = os_read_all(os, name, perm, &text, err);
    if (!st && os_is_file(os, own)) st = os_read_all(os, own, perm, &template, err);
    return st ? st : chat_form_read(name, text, template, declared, count, today, perm, out, err);
}

/* ---- writing ---- */

struct writer {
    const struct chat_form *form;
    struct textbuf          b;
    struct chat_text       *out;
    bool                    first;
};

/* Blanks before an answer are learned with it: in most vocabularies they are part of its first token, and who asks for
 * an answer ends without them. */
static void put(struct writer *w, enum chat_role role, struct str content)
{
    struct str rest  = w->form->pattern[role];
    i64        begin = -1, end = -1, from = w->b.len;
    bool       head = role == CHAT_SYSTEM && w->first;
    if (w->form->trim) content = str_trim(content);
    while (rest.len) {
        if (str_starts(rest, STR("{role}"))) textbuf_add(&w->b, str_of(role_names[role]));
        else if (str_starts(rest, STR("{content}"))) {
            begin = w->b.len;
            if (head) textbuf_add(&w->b, w->form->system_head);
            textbuf_add(&w->b, content);
        } else if (str_starts(rest, STR("{eos}"))) textbuf_add(&w->b, w->form->eos);
        else if (str_starts(rest, STR("{bos}")))
            textbuf_add(&w->b, w->first ? w->form->bos : STR(""));
        else if (str_starts(rest, STR("{end}"))) end = w->b.len;
        else {
            textbuf_add(&w->b, str_sub(rest, 0, 1));
            rest = str_sub(rest, 1, rest.len);
            continue;
        }
        rest = str_sub(rest, str_find(rest, '}') + 1, rest.len);
    }
    w->first = false;
    while (begin > from && w->b.data[begin - 1] == ' ') begin--;
    if (role == CHAT_ASSISTANT && begin >= 0)
        w->out->span[w->out->span_count++] = (struct chat_span){ begin, end < 0 ? w->b.len : end };
}

static enum status read_message(const struct json *m, i32 *role, struct str *content,
                                struct err *err)
{
    const struct json *r = json_get(m, STR("role")), *c = json_get(m, STR("content"));
    if (!r || r->kind != JSON_STRING || !c || c->kind != JSON_STRING)
        return err_set(err, STATUS_USAGE, "a message needs \"role\" and \"content\", both texts");
    for (*role = 0; *role < CHAT_ROLES; ++*role)
        if (str_eq(r->text, str_of(role_names[*role]))) return *content = c->text, STATUS_OK;
    return err_set(err, STATUS_USAGE, "the role %.*s is not system, user or assistant",
                   (int)MIN(r->text.len, 40), r->text.data);
}

enum status chat_write(const struct chat_form *f, const struct json *messages, struct arena *perm,
                       struct chat_text *out, struct err *err)
{
    struct writer w = { f, textbuf_new(perm), out, true };
    out->span_count = 0;
    if (!messages || messages->kind != JSON_LIST || !messages->count)
        return err_set(err, STATUS_USAGE, "\"messages\" is not a list of messages");
    for (const struct json *m = messages->first; m; m = m->next) {
        i32         role;
        struct str  content;
        enum status st = read_message(m, &role, &content, err);
        if (st) return st;
        if (!f->pattern[role].data)
            return err_set(err, STATUS_USAGE, "the chat template has no messages of role %s",
                           role_names[role]);
        if (out->span_count == CHAT_SPANS_MAX)
            return err_set(err, STATUS_USAGE, "a conversation has more than %d answers",
                           CHAT_SPANS_MAX);
        if (w.first && role != CHAT_SYSTEM && (f->first_system.len || f->system_head.len))
            put(&w, CHAT_SYSTEM, f->first_system);
        put(&w, (enum chat_role)role, content);
    }
    out->text = textbuf_str(&w.b);
    return STATUS_OK;
}

/* A part of the assistant's pattern, without {content} and {end}; {bos} counts in a first message, which an answer is
 * not. */
static struct str filled(const struct chat_form *f, struct str pattern, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    while (pattern.len) {
        i64 skip = 1;
        if (str_starts(pattern, STR("{role}"))) textbuf_add(&b, STR("assistant")), skip = 6;
        else if (str_starts(pattern, STR("{eos}"))) textbuf_add(&b, f->eos), skip = 5;
        else if (str_starts(pattern, STR("{bos}"))) skip = 5;
        else textbuf_add(&b, str_sub(pattern, 0, 1));
        pattern = str_sub(pattern, skip, pattern.len);
    }
    return textbuf_str(&b);
}

struct str chat_answer_end(const struct chat_form *f, struct arena *perm)
{
    struct str pattern = f->pattern[CHAT_ASSISTANT];
    i64        begin   = find(pattern, "{content}");
    if (begin < 0) return STR("");
    struct str rest = str_sub(pattern, begin + STR("{content}").len, pattern.len);
    i64        end  = find(rest, "{end}");
    return filled(f, end < 0 ? rest : str_sub(rest, 0, end), perm);
}

enum status chat_ask(const struct chat_form *f, const struct json *messages, struct arena *perm,
                     struct str *out, struct err *err)
{
    struct chat_text *t       = NEW(perm, struct chat_text, 1);
    struct str        pattern = f->pattern[CHAT_ASSISTANT];
    enum status       st      = chat_write(f, messages, perm, t, err);
    if (st) return st;
    if (!pattern.data)
        return err_set(err, STATUS_USAGE, "the chat template has no messages of role assistant");
    const struct json *last = messages->first;
    while (last->next) last = last->next;
    if (str_eq(json_get(last, STR("role"))->text, STR("assistant")))
        return err_set(err, STATUS_USAGE, "the last message is an answer: there is none to give");
    struct str head = filled(f, str_sub(pattern, 0, find(pattern, "{content}")), perm);
    while (head.len && head.data[head.len - 1] == ' ') head.len--;
    *out = str_cat(perm, t->text, head);
    return STATUS_OK;
}
