/* sweep_file.c - sweep.results: one JSON object a line for each rung that a trial came to. It is
 * written anew each time, whole or not at all; a few hundred lines are no burden. */
#include "base/json.h"
#include "job/sweep.h"
#include <math.h>
#include <stdio.h>

/* All settings that could change a result, as a number: results of other runs are not ours. */
static struct str run_name(const struct sweep *s, struct arena *perm)
{
    static const struct str free_to_change[] = { STR_INIT("train.threads"),
                                                 STR_INIT("train.usd_hour"),
                                                 STR_INIT("train.log_every"),
                                                 STR_INIT("train.out") };
    u64                     hash             = 0;
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena scratch = *perm;
        bool         skip    = str_eq(option_section(&options[i]), STR("sweep"));
        for (i64 k = 0; k < COUNT_OF(free_to_change); k++)
            skip |= str_eq(options[i].key, free_to_change[k]);
        if (skip) continue;
        struct str text = option_get_text(&options[i], &s->config->settings, &scratch);
        hash            = hash * 31 +
               str_hash(str_fmt(&scratch, "%.*s=%.*s", STR_ARG(options[i].key), STR_ARG(text)));
    }
    return str_fmt(perm, "%016llx", (unsigned long long)hash);
}

static struct trial *trial_of(struct sweep *s, const struct json *settings)
{
    for (i64 i = 0; settings && i < s->count; i++)
        if (str_eq(s->trials[i].words, settings->text)) return &s->trials[i];
    return NULL;
}

static f64 number(const struct json *line, const char *key)
{
    f64          value = NAN;
    struct json *v     = json_get(line, str_of(key));
    return v && json_f64(v, &value) ? value : NAN;
}

static i64 whole(const struct json *line, const char *key) /* -1: none */
{
    i64          value = -1;
    struct json *v     = json_get(line, str_of(key));
    return v && json_i64(v, &value) ? value : -1;
}

static bool is_true(const struct json *line, const char *key)
{
    struct json *v = json_get(line, str_of(key));
    return v && str_eq(v->text, STR("true"));
}

static void text_to(const struct json *line, const char *key, char *to, size_t bytes)
{
    struct json *v = json_get(line, str_of(key));
    snprintf(to, bytes, "%.*s", v ? (int)MIN(v->text.len, (i64)bytes - 1) : 0,
             v ? v->text.data : "");
}

static void line_read(struct sweep *s, const struct json *line)
{
    struct trial *t    = trial_of(s, json_get(line, STR("settings")));
    f64           part = number(line, "rung");
    i64           rung = 0, status = whole(line, "status");
    while (rung < s->asha->rung_count && !(fabs(s->asha->part[rung] - part) < 1e-9)) rung++;
    struct note n = { .kind           = is_true(line, "end") ? NOTE_END : NOTE_RUNG,
                      .status         = (enum status)status,
                      .step           = whole(line, "step"),
                      .steps          = whole(line, "steps"),
                      .seconds        = number(line, "seconds"),
                      .begin_s        = number(line, "begin_s"),
                      .loss           = number(line, "loss"),
                      .value          = number(line, "value"),
                      .target_reached = is_true(line, "target_reached") };
    bool sound = n.step >= 0 && n.steps >= 1 && status >= STATUS_OK && status <= STATUS_INTERRUPTED;
    if (!t || rung == s->asha->rung_count || !sound) return;
    text_to(line, "metric", n.metric, sizeof n.metric);
    text_to(line, "why", n.text, sizeof n.text);
    t->known[rung] = n;
}

enum status results_read(struct sweep *s, struct arena *perm, struct err *err)
{
    struct str     path = s->config->settings.sweep.results, text, line;
    struct os_stat there;
    i64            line_number = 1;
    struct err     why;
    if (!path.len || s->job->os->stat(s->job->os, path, &there, NULL)) return STATUS_OK;
    enum status    st     = os_read_all(s->job->os, path, perm, &text, err);
    struct str     run    = run_name(s, perm);
    struct textbuf others = textbuf_new(perm);
    for (; !st && str_cut(&text, '\n', &line); line_number++) {
        struct arena scratch = s->scratch;
        struct json *v;
        if (!str_trim(line).len) continue;
        if (json_parse(&scratch, line, &v, &why))
            return err_set(err, STATUS_USAGE, "%.*s:%lld: %s", STR_ARG(path),
                           (long long)line_number, why.text);
        struct json *of = json_get(v, STR("run"));
        if (of && str_eq(of->text, run)) line_read(s, v);
        else textbuf_fmt(&others, "%.*s\n", STR_ARG(line));
    }
    s->others = textbuf_str(&others);
    return st;
}

static void line_add(struct textbuf *b, struct str run, const struct trial *t, f64 part,
                     const struct note *n)
{
    textbuf_fmt(b, "{\"run\":\"%.*s\",\"settings\":", STR_ARG(run));
    json_add_string(b, t->words);
    textbuf_fmt(b, ",\"rung\":");
    json_add_f64(b, part);
    textbuf_fmt(b, ",\"end\":%s,\"status\":%d,\"step\":%lld,\"steps\":%lld,\"seconds\":",
                n->kind == NOTE_END ? "true" : "false", (int)n->status, (long long)n->step,
                (long long)n->steps);
    json_add_f64(b, n->seconds);
    textbuf_fmt(b, ",\"begin_s\":");
    json_add_f64(b, n->begin_s);
    textbuf_fmt(b, ",\"metric\":\"%s\",\"value\":", n->metric);
    json_add_f64(b, n->value);
    textbuf_fmt(b, ",\"loss\":");
    json_add_f64(b, n->loss);
    textbuf_fmt(b, ",\"target_reached\":%s,\"why\":", n->target_reached ? "true" : "false");
    json_add_string(b, str_of(n->text));
    textbuf_fmt(b, "}\n");
}

enum status results_write(struct sweep *s, struct err *err)
{
    struct str   path    = s->config->settings.sweep.results;
    struct arena scratch = s->scratch, names = arena_part(&scratch, 1 << 20);
    if (!path.len) return STATUS_OK;
    struct str     run = run_name(s, &names);
    struct textbuf b   = textbuf_new(&scratch);
    textbuf_add(&b, s->others);
    for (i64 i = 0; i < s->count; i++)
        for (i64 k = 0; k < s->asha->rung_count; k++)
            if (s->trials[i].known[k].steps)
                line_add(&b, run, &s->trials[i], s->asha->part[k], &s->trials[i].known[k]);
    return os_publish(s->job->os, path, textbuf_str(&b), names, err);
}
