/* prompts.c - reading what is to be continued. */
#include "infer/prompts.h"
#include "base/date.h"

static struct json *text_node(struct arena *perm, struct str key, struct str text)
{
    struct json *j = NEW(perm, struct json, 1);
    *j             = (struct json){ .kind = JSON_STRING, .key = key, .text = text };
    return j;
}

/* [{"role": "user", "content": text}] */
static const struct json *said_by_user(struct arena *perm, struct str text)
{
    struct json *list = NEW(perm, struct json, 1), *m = NEW(perm, struct json, 1);
    *list          = (struct json){ .kind = JSON_LIST, .first = m, .count = 1 };
    *m             = (struct json){ .kind = JSON_MAP, .count = 2 };
    m->first       = text_node(perm, STR("role"), STR("user"));
    m->first->next = text_node(perm, STR("content"), text);
    return list;
}

static void set_text(struct prompt *p, struct str text, enum prompts_as as, struct arena *memory)
{
    *p = (struct prompt){ .shown = text, .text = text };
    if (as == PROMPTS_CHAT) p->messages = said_by_user(memory, text);
}

static struct str last_content(const struct json *messages)
{
    const struct json *content = NULL;
    for (const struct json *m = messages->first; m; m = m->next)
        content = json_get(m, STR("content"));
    return content && content->kind == JSON_STRING ? content->text : STR("");
}

static enum status read_object(struct str line, enum prompts_as as, struct arena *memory,
                               struct prompt *out, struct err *err)
{
    struct json *root, *prompt, *messages;
    enum status  st = json_parse(memory, line, &root, err);
    prompt          = st ? NULL : json_get(root, STR("prompt"));
    messages        = st ? NULL : json_get(root, STR("messages"));
    if (prompt && prompt->kind == JSON_STRING) {
        set_text(out, prompt->text, as, memory);
        return STATUS_OK;
    }
    if (!messages || messages->kind != JSON_LIST)
        return err_set(err, STATUS_USAGE,
                       "expected an object with a text \"prompt\" or a list \"messages\"");
    *out = (struct prompt){ .shown = last_content(messages), .messages = messages };
    return STATUS_OK;
}

enum status prompts_failed(const struct prompts *p, i64 index, enum status st,
                           const struct err *why, struct err *err)
{
    if (!p->file.len) return err_set(err, st, "%s", why->text);
    return err_set(err, st, "%.*s:%lld: %s", STR_ARG(p->file), (long long)p->items[index].line,
                   why->text);
}

static enum status read_lines(struct os *os, struct str file, enum prompts_as as,
                              struct arena *memory, struct prompts *p, struct err *err)
{
    struct str  text, line;
    i64         lines = 1;
    struct err  why;
    bool        json = str_ends(file, STR(".jsonl"));
    enum status st   = os_read_all(os, file, memory, &text, err);
    if (st) return st;
    for (i64 i = 0; i < text.len; i++) lines += text.data[i] == '\n';
    p->file  = file;
    p->items = NEW(memory, struct prompt, lines);
    for (i64 number = 1; str_cut(&text, '\n', &line); number++) {
        struct prompt *to = &p->items[p->count];
        if (line.len && line.data[line.len - 1] == '\r') line.len--;
        if (!str_trim(line).len) continue;
        if (json) st = read_object(line, as, memory, to, &why);
        else set_text(to, line, as, memory);
        to->line = number;
        if (st) return prompts_failed(p, p->count, st, &why, err);
        p->count++;
    }
    if (p->count) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s has no prompts: one a line", STR_ARG(file));
}

static enum status check_text(const struct prompts *p, i64 index, struct err *err)
{
    struct err why;
    if (p->items[index].messages || p->items[index].text.len) return STATUS_OK;
    err_set(&why, STATUS_USAGE, "the text is empty: give at least one character");
    return prompts_failed(p, index, STATUS_USAGE, &why, err);
}

enum status prompts_read(struct os *os, struct str asked, enum prompts_as as, struct arena *memory,
                         struct prompts *out, struct err *err)
{
    enum status st = STATUS_OK;
    *out           = (struct prompts){ 0 };
    if (asked.len > 1 && asked.data[0] == '@')
        st = read_lines(os, str_sub(asked, 1, asked.len), as, memory, out, err);
    else {
        out->items = NEW(memory, struct prompt, 1);
        set_text(&out->items[out->count++], asked, as, memory);
    }
    for (i64 i = 0; !st && i < out->count; i++) {
        st = check_text(out, i, err);
        out->chat |= out->items[i].messages != NULL;
    }
    return st;
}

enum status prompts_write(struct prompts *p, const struct chat_form *form, struct arena *memory,
                          struct err *err)
{
    enum status st = STATUS_OK;
    struct err  why;
    for (i64 i = 0; !st && i < p->count; i++) {
        struct prompt *one = &p->items[i];
        if (!one->messages) continue;
        st = chat_ask(form, one->messages, memory, &one->text, &why);
        if (st) st = prompts_failed(p, i, st, &why, err);
    }
    return st;
}

struct str prompts_today(struct os *os, struct arena *perm)
{
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct str               iso      = date_text(perm, os->wall_ns(os) / 1000000000);
    i64                      month    = 1;
    str_i64(str_sub(iso, 5, 7), &month); /* 2026-11-18T… */
    return str_fmt(perm, "%.*s %s %.*s", STR_ARG(str_sub(iso, 8, 10)), months[(month + 11) % 12],
                   STR_ARG(str_sub(iso, 0, 4)));
}

i64 prompts_longest(const struct prompts *p)
{
    i64 most = 0;
    for (i64 i = 0; i < p->count; i++) most = MAX(most, p->items[i].text.len);
    return most;
}
