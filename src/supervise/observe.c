/* observe.c - lines and event files as observations. */
#include "supervise/observe.h"
#include "base/json.h"
#include "supervise/pattern.h"
#include "supervise/tensorboard.h"
#include <math.h>
#include <regex.h>
#include <string.h>

enum {
    LINE_BYTES_MAX  = 1 << 16,   /* a longer one is cut */
    SCRATCH_BYTES   = 512 << 20, /* address space: a folder may hold many names */
    EVENT_FILES_MAX = 64,
    FOLDERS_DEEP    = 4,
    PIECE_BYTES     = TB_RECORD_BYTES_MAX + 64, /* holds any record that is believed */
};

enum { VALUE_STEP, VALUE_LOSS, VALUE_METRIC, VALUE_COUNT };
static const char *const keys[VALUE_COUNT] = { "step", "loss", "metric" };
enum kind { KIND_REGEX, KIND_JSON, KIND_TENSORBOARD };

struct event_file {
    struct str path;
    i64        at; /* read so far; -1: damaged, and left alone */
};

struct observer {
    enum kind         kind;
    struct str        name[VALUE_COUNT]; /* expression, key or tag; empty: not read */
    regex_t           regex[VALUE_COUNT];
    bool              seen[VALUE_COUNT];
    observed_fn      *tell;
    void             *context;
    i64               step;
    char             *line; /* LINE_BYTES_MAX + 1 */
    i64               line_len;
    struct arena      scratch;
    struct arena     *perm;
    struct str        events;
    struct event_file files[EVENT_FILES_MAX];
    i64               file_count;
};

static enum status compile(struct observer *o, i64 v, struct err *err)
{
    char        text[128];
    const char *why = pattern_refused(o->name[v]);
    if (!o->name[v].len) return STATUS_OK;
    if (!why) {
        int bad = regcomp(&o->regex[v], str_z(o->perm, o->name[v]), REG_EXTENDED | REG_NEWLINE);
        if (!bad && o->regex[v].re_nsub >= 1) return STATUS_OK;
        if (bad) regerror(bad, &o->regex[v], text, sizeof text);
        else regfree(&o->regex[v]);
        why = bad ? text : "it has no (group) around the number";
    }
    enum status st = err_set(err, STATUS_USAGE, "program.%s is %.*s: %s", keys[v],
                             (int)MIN(o->name[v].len, 80), o->name[v].data, why);
    o->name[v]     = STR("");
    return st;
}

enum status observer_new(struct arena *perm, const struct program_config *c, observed_fn *tell,
                         void *context, struct observer **out, struct err *err)
{
    enum status st = STATUS_OK;
    *out           = NULL;
    if (str_eq(c->read, STR("none"))) return STATUS_OK;
    struct observer *o = NEW(perm, struct observer, 1);
    *o                 = (struct observer){ .kind    = str_eq(c->read, STR("regex"))  ? KIND_REGEX
                                                       : str_eq(c->read, STR("json")) ? KIND_JSON
                                                                                      : KIND_TENSORBOARD,
                                            .name    = { c->step, c->loss, c->metric },
                                            .tell    = tell,
                                            .context = context,
                                            .step    = -1,
                                            .line    = NEW(perm, char, LINE_BYTES_MAX + 1),
                                            .perm    = perm,
                                            .events  = c->events };
    o->scratch         = arena_part(perm, SCRATCH_BYTES);
    for (i64 v = 0; !st && o->kind == KIND_REGEX && v < VALUE_COUNT; v++) st = compile(o, v, err);
    if (!st && o->kind == KIND_TENSORBOARD && !c->events.len)
        st = err_set(
            err, STATUS_USAGE,
            "program.read=tensorboard needs program.events=FOLDER, where the event files are");
    *out = o;
    return st;
}

void observer_release(struct observer *o)
{
    for (i64 v = 0; o && o->kind == KIND_REGEX && v < VALUE_COUNT; v++)
        if (o->name[v].len) regfree(&o->regex[v]);
}

bool observer_reads_lines(const struct observer *o) { return o && o->kind != KIND_TENSORBOARD; }

/* --- lines -------------------------------------------------------------------------------------- */

static bool find_in_line(const struct observer *o, i64 v, const struct json *object, f64 *out)
{
    regmatch_t m[2];
    if (!o->name[v].len) return false;
    if (o->kind == KIND_JSON) return json_f64(json_get(object, o->name[v]), out);
    if (regexec(&o->regex[v], o->line, 2, m, 0) || m[1].rm_so < 0) return false;
    return str_f64((struct str){ o->line + m[1].rm_so, m[1].rm_eo - m[1].rm_so }, out);
}

static bool value_in_line(struct observer *o, i64 v, const struct json *object, f64 *out)
{
    bool found = find_in_line(o, v, object, out);
    o->seen[v] |= found;
    return found;
}

static void end_line(struct observer *o)
{
    struct arena    scratch = o->scratch;
    struct observed seen    = { .loss = NAN, .metric = NAN };
    struct json    *object  = NULL;
    struct str      line    = { o->line, o->line_len };
    f64             step;
    o->line[o->line_len] = '\0';
    o->line_len          = 0;
    if (!line.len || (o->kind == KIND_JSON && json_parse(&scratch, line, &object, NULL))) return;
    bool stepped = value_in_line(o, VALUE_STEP, object, &step) && step >= 0 && step < 1e15;
    if (stepped) o->step = (i64)step;
    bool loss   = value_in_line(o, VALUE_LOSS, object, &seen.loss);
    bool metric = value_in_line(o, VALUE_METRIC, object, &seen.metric);
    seen.step   = o->step;
    if (stepped || loss || metric) o->tell(o->context, &seen);
}

void observer_add(struct observer *o, struct str bytes)
{
    for (i64 i = 0; i < bytes.len; i++) {
        char c = bytes.data[i];
        if (c == '\n' || c == '\r') end_line(o);
        else if (o->line_len < LINE_BYTES_MAX && c) o->line[o->line_len++] = c;
    }
}

const char *observer_missed(const struct observer *o, i64 *next)
{
    while (o && *next < VALUE_COUNT) {
        i64 v = (*next)++;
        if (o->name[v].len && !o->seen[v]) return keys[v];
    }
    return NULL;
}

/* --- event files -------------------------------------------------------------------------------- */

static void tell_event(struct observer *o, const struct tb_event *e)
{
    struct observed seen = { .loss = NAN, .metric = NAN };
    for (i64 i = 0; i < e->count; i++) {
        if (str_eq(e->scalars[i].tag, o->name[VALUE_LOSS])) seen.loss = e->scalars[i].value;
        if (str_eq(e->scalars[i].tag, o->name[VALUE_METRIC])) seen.metric = e->scalars[i].value;
    }
    o->seen[VALUE_LOSS] |= !isnan(seen.loss);
    o->seen[VALUE_METRIC] |= !isnan(seen.metric);
    if (isnan(seen.loss) && isnan(seen.metric)) return;
    o->step = seen.step = MAX(e->step, 0);
    o->tell(o->context, &seen);
}

static void read_more(struct observer *o, struct os *os, struct event_file *f)
{
    struct arena scratch = o->scratch;
    char        *piece   = NEW(&scratch, char, PIECE_BYTES);
    struct file  file;
    i64          got = 1, used = 1;
    if (f->at < 0 || os->open_read(os, f->path, &file, NULL)) return;
    while (used > 0 && !os->read(os, file, piece, PIECE_BYTES, f->at, &got, NULL) && got > 0) {
        struct tb_event e;
        i64             at = 0;
        while ((used = tb_next((struct str){ piece + at, got - at }, &e)) > 0) {
            tell_event(o, &e);
            at += used;
        }
        f->at = used < 0 ? -1 : f->at + at;
        used  = used < 0 ? -1 : at; /* nothing whole in a full piece: the rest is not written yet */
    }
    os->close(os, &file, NULL);
}

static void add_file(struct observer *o, struct str path)
{
    for (i64 i = 0; i < o->file_count; i++)
        if (str_eq(o->files[i].path, path)) return;
    if (o->file_count == EVENT_FILES_MAX) return;
    o->files[o->file_count++] = (struct event_file){ str_copy(o->perm, path), 0 };
}

static void find_files(struct observer *o, struct os *os, struct str folder, i64 deep,
                       struct arena scratch)
{
    struct str *names;
    i64         count = 0;
    if (os->list(os, folder, &scratch, &names, &count, NULL)) return;
    for (i64 i = 0; i < count; i++) {
        struct os_stat stat;
        struct str     path = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[i]));
        bool           is   = str_glob(STR("*tfevents*"), names[i]);
        if (os->stat(os, path, &stat, NULL)) continue;
        if (stat.is_dir && deep < FOLDERS_DEEP) find_files(o, os, path, deep + 1, scratch);
        else if (!stat.is_dir && is) add_file(o, path);
    }
}

void observer_look(struct observer *o, struct os *os)
{
    if (!o || o->kind != KIND_TENSORBOARD) return;
    find_files(o, os, o->events, 0, o->scratch);
    for (i64 i = 0; i < o->file_count; i++) read_more(o, os, &o->files[i]);
}
