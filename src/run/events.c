/* events.c - the table of events.def, dispatch, and JSON both ways. */
#include "run/events.h"
#include "base/json.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* --- the table --- */

#define EVENT(name, when) static const struct event_field name##_fields[] = {
#define F(event, kind, field, meaning)                                                             \
    { #field, meaning, FIELD_##kind, offsetof(struct event_##event, field) },
#define LIVE(...)
#define END(name)                                                                                  \
    {                                                                                              \
        NULL, NULL, FIELD_I64, 0                                                                   \
    }                                                                                              \
    }                                                                                              \
    ;
#include "run/events.def"
#undef EVENT
#undef F
#undef END

const struct event_row event_rows[EVENT_COUNT] = {
#define EVENT(id, at) [EVENT_##id] = { #id, at, id##_fields, COUNT_OF(id##_fields) - 1 },
#define F(...)
#define END(name)
#include "run/events.def"
#undef EVENT
};

const char *event_name(enum event_kind k) { return event_rows[k].name; }

static const struct str checkpoint_names[CHECKPOINT_KIND_COUNT] = {
#define KIND(name, word) [CHECKPOINT_##name] = STR_INIT(word),
    CHECKPOINT_KINDS(KIND)
#undef KIND
};

struct str checkpoint_kind_name(enum checkpoint_kind k) { return checkpoint_names[k]; }

/* --- dispatch --- */

void events_emit(const struct subscriber *first, enum event_kind kind, const void *event)
{
    for (const struct subscriber *to = first; to; to = to->next) {
        if (to->on_event) to->on_event(to->context, kind, event);
        switch (kind) {
#define EVENT(name, when)                                                                          \
    case EVENT_##name:                                                                             \
        if (to->on_##name) to->on_##name(to->context, event);                                      \
        break;
#include "run/events.def"
#undef EVENT
        case EVENT_COUNT: break;
        }
    }
}

void event_step_fill(struct event_step *e)
{
    if (!e->times || !e->times->count) return;
    e->steps_per_s = quantiles_per_s(e->times);
    e->step_p50_s  = quantiles_at(e->times, 0.5);
    e->step_p95_s  = quantiles_at(e->times, 0.95);
    e->step_p99_s  = quantiles_at(e->times, 0.99);
}

/* --- writing --- */

static void add_map(struct textbuf *b, const char *(*name)(i64), const i64 *ns, i64 count)
{
    for (i64 i = 0; i < count; i++)
        textbuf_fmt(b, "%s\"%s\":%lld", i ? "," : "{", name(i), (long long)ns[i]);
    textbuf_fmt(b, "}");
}

static const char *part_at(i64 i) { return clock_part_name((enum part)i); }
static const char *term_at(i64 i) { return term_name((enum term)i); }

static void add_metrics(struct textbuf *b, const struct event_metrics *m)
{
    textbuf_fmt(b, "{");
    for (i64 i = 0; i < m->count; i++) {
        if (i) textbuf_fmt(b, ",");
        json_add_string(b, m->items[i].name);
        textbuf_fmt(b, ":");
        json_add_f64(b, m->items[i].value);
    }
    textbuf_fmt(b, "}");
}

static void add_list(struct textbuf *b, const struct event_list *l)
{
    textbuf_fmt(b, "[");
    for (i64 i = 0; i < l->count; i++)
        textbuf_fmt(b, "%s%lld", i ? "," : "", (long long)l->items[i]);
    textbuf_fmt(b, "]");
}

static void add_holders(struct textbuf *b, const struct event_holders *h)
{
    textbuf_fmt(b, "[");
    for (i64 i = 0; i < h->count; i++) {
        textbuf_fmt(b, "%s{\"name\":", i ? "," : "");
        json_add_string(b, h->items[i].name);
        textbuf_fmt(b, ",\"bytes\":%lld}", (long long)h->items[i].bytes);
    }
    textbuf_fmt(b, "]");
}

static void add_count(struct textbuf *b, i64 value)
{
    if (value < 0) textbuf_fmt(b, "null");
    else textbuf_fmt(b, "%lld", (long long)value);
}

static void add_field(struct textbuf *b, const struct event_field *f, const void *at)
{
    if (f->kind == FIELD_ANSWER && *(const i64 *)at < 0) return;
    textbuf_fmt(b, ",\"%s\":", f->name);
    switch (f->kind) {
    case FIELD_I64: textbuf_fmt(b, "%lld", (long long)*(const i64 *)at); break;
    case FIELD_COUNT: add_count(b, *(const i64 *)at); break;
    case FIELD_F64: json_add_f64(b, *(const f64 *)at); break;
    case FIELD_BOOL: textbuf_fmt(b, "%s", *(const bool *)at ? "true" : "false"); break;
    case FIELD_ANSWER: textbuf_fmt(b, "%s", *(const i64 *)at ? "true" : "false"); break;
    case FIELD_TEXT: json_add_string(b, *(const struct str *)at); break;
    case FIELD_CHECKPOINT:
        json_add_string(b, checkpoint_kind_name(*(const enum checkpoint_kind *)at));
        break;
    case FIELD_REASON: json_add_string(b, stop_reason_name(*(const enum stop_reason *)at)); break;
    case FIELD_METRICS: add_metrics(b, at); break;
    case FIELD_SPLIT:
        add_map(b, part_at, ((const struct step_split *)at)->ns, PART_LOOP_COUNT);
        break;
    case FIELD_TERMS: add_map(b, term_at, ((const struct event_terms *)at)->ns, TERM_COUNT); break;
    case FIELD_LIST: add_list(b, at); break;
    case FIELD_HOLDERS: add_holders(b, at); break;
    case FIELD_KIND_COUNT: break;
    }
}

void event_json(enum event_kind kind, const void *event, struct textbuf *b)
{
    const struct event_row *row = &event_rows[kind];
    textbuf_fmt(b, "{\"event\":\"%s\"", row->name);
    for (i64 i = 0; i < row->field_count; i++)
        add_field(b, &row->fields[i], (const u8 *)event + row->fields[i].offset);
    textbuf_fmt(b, "}");
}

/* --- reading --- */

/* What a field is that the line lacks. */
static void clear_field(const struct event_field *f, void *at)
{
    if (f->kind == FIELD_F64) *(f64 *)at = NAN;
    if (f->kind == FIELD_COUNT || f->kind == FIELD_ANSWER) *(i64 *)at = -1;
}

void event_clear(enum event_kind kind, void *event)
{
    static const i64 bytes[EVENT_COUNT] = {
#define EVENT(name, when) [EVENT_##name] = (i64)sizeof(struct event_##name),
#include "run/events.def"
#undef EVENT
    };
    memset(event, 0, (size_t)bytes[kind]);
    for (i64 i = 0; i < event_rows[kind].field_count; i++)
        clear_field(&event_rows[kind].fields[i], (u8 *)event + event_rows[kind].fields[i].offset);
}

static bool read_map(const struct json *v, const char *(*name)(i64), i64 *ns, i64 count)
{
    if (v->kind != JSON_MAP) return false;
    for (i64 i = 0; i < count; i++) {
        const struct json *one = json_get(v, str_of(name(i)));
        if (one && !json_i64(one, &ns[i])) return false;
    }
    return true;
}

static bool read_metrics(const struct json *v, struct arena *perm, struct event_metrics *m)
{
    if (v->kind != JSON_MAP || v->count > EVENT_METRICS_MAX) return false;
    for (const struct json *one = v->first; one; one = one->next) {
        struct event_metric *to = &m->items[m->count++];
        to->name                = str_copy(perm, one->key);
        to->value               = NAN;
        if (one->kind != JSON_NULL && !json_f64(one, &to->value)) return false;
    }
    return true;
}

static bool read_list(const struct json *v, struct arena *perm, struct event_list *l)
{
    if (v->kind != JSON_LIST) return false;
    i64 *items = NEW(perm, i64, MAX(v->count, 1)), count = 0;
    for (const struct json *one = v->first; one; one = one->next)
        if (!json_i64(one, &items[count++])) return false;
    *l = (struct event_list){ items, count };
    return true;
}

static bool read_holders(const struct json *v, struct arena *perm, struct event_holders *h)
{
    if (v->kind != JSON_LIST) return false;
    struct event_holder *items = NEW(perm, struct event_holder, MAX(v->count, 1));
    i64                  count = 0;
    for (const struct json *one = v->first; one; one = one->next, count++) {
        const struct json *name  = one->kind == JSON_MAP ? json_get(one, STR("name")) : NULL;
        const struct json *bytes = name ? json_get(one, STR("bytes")) : NULL;
        if (!bytes || name->kind != JSON_STRING || !json_i64(bytes, &items[count].bytes))
            return false;
        items[count].name = str_copy(perm, name->text);
    }
    *h = (struct event_holders){ items, count };
    return true;
}

static bool read_word(const struct json *v, struct str (*name)(int), int count, int *out)
{
    for (int i = 0; i < count && v->kind == JSON_STRING; i++)
        if (str_eq(v->text, name(i))) return *out = i, true;
    return false;
}

static struct str checkpoint_at(int i) { return checkpoint_kind_name((enum checkpoint_kind)i); }
static struct str reason_at(int i) { return stop_reason_name((enum stop_reason)i); }

static bool read_bool(const struct json *v, bool *out)
{
    *out = v->kind == JSON_BOOL && str_eq(v->text, STR("true"));
    return v->kind == JSON_BOOL;
}

static bool read_field(const struct event_field *f, const struct json *v, struct arena *perm,
                       void *at)
{
    bool yes, known = v->kind != JSON_NULL;
    int  word = 0;
    switch (f->kind) {
    case FIELD_I64: return json_i64(v, at);
    case FIELD_COUNT: return !known || (json_i64(v, at) && *(i64 *)at >= 0);
    case FIELD_F64: return !known || json_f64(v, at);
    case FIELD_BOOL: return read_bool(v, at);
    case FIELD_ANSWER:
        if (!read_bool(v, &yes)) return false;
        *(i64 *)at = yes;
        return true;
    case FIELD_TEXT: *(struct str *)at = str_copy(perm, v->text); return v->kind == JSON_STRING;
    case FIELD_CHECKPOINT:
        if (!read_word(v, checkpoint_at, CHECKPOINT_KIND_COUNT, &word)) return false;
        *(enum checkpoint_kind *)at = (enum checkpoint_kind)word;
        return true;
    case FIELD_REASON:
        if (!read_word(v, reason_at, STOP_REASON_COUNT, &word)) return false;
        *(enum stop_reason *)at = (enum stop_reason)word;
        return true;
    case FIELD_METRICS: return read_metrics(v, perm, at);
    case FIELD_SPLIT: return read_map(v, part_at, ((struct step_split *)at)->ns, PART_LOOP_COUNT);
    case FIELD_TERMS: return read_map(v, term_at, ((struct event_terms *)at)->ns, TERM_COUNT);
    case FIELD_LIST: return read_list(v, perm, at);
    case FIELD_HOLDERS: return read_holders(v, perm, at);
    case FIELD_KIND_COUNT: break;
    }
    return false;
}

enum status event_read(struct str line, struct arena *perm, enum event_kind *kind,
                       union event_any *out, struct err *err)
{
    struct json *root, *name;
    i64          k  = 0;
    enum status  st = json_parse(perm, line, &root, err);
    if (st) return st;
    name = json_get(root, STR("event"));
    if (!name || name->kind != JSON_STRING)
        return err_set(err, STATUS_USAGE, "a line of an event log without \"event\"");
    while (k < EVENT_COUNT && !str_eq(name->text, str_of(event_rows[k].name))) k++;
    if (k == EVENT_COUNT)
        return err_set(err, STATUS_NO, "the event \"%.*s\" is not known here",
                       (int)MIN(name->text.len, 40), name->text.data);
    *kind = (enum event_kind)k;
    event_clear(*kind, out);
    for (i64 i = 0; i < event_rows[k].field_count; i++) {
        const struct event_field *f  = &event_rows[k].fields[i];
        u8                       *at = (u8 *)out + f->offset;
        const struct json        *v  = json_get(root, str_of(f->name));
        if (v && !read_field(f, v, perm, at))
            return err_set(err, STATUS_USAGE, "the field \"%s\" of an event \"%s\" is invalid",
                           f->name, event_rows[k].name);
    }
    return STATUS_OK;
}
