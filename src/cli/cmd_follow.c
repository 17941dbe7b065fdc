/* cmd_follow.c - frugal follow [RUN.YAML] [KEY=VALUE...]: a training loop reports on standard input; the run's stream
 * comes back on standard output as JSON lines, and the summary goes to stderr in words. */
#include "cli/jobs.h"
#include "cli/progress.h"
#include "job/followed.h"
#include <math.h>

enum status command_follow(struct cli *c, struct err *err);

enum { EVENT_BYTES = 1 << 16 };

static const f64 step_every_s = 1; /* a loop that wants to know more computes it itself */

struct shown {
    struct say  *say;
    struct arena scratch;
    f64          next_s; /* no step is written before the run is so old */
};

static bool is_due(struct shown *s, enum event_kind kind, const void *event)
{
    const struct event_step *e = event;
    if (kind != EVENT_step) return event_rows[kind].field_count > 0;
    if (e->elapsed_s < s->next_s) return false;
    s->next_s = e->elapsed_s + step_every_s;
    return true;
}

/* A loop that no longer listens has ended or soon will. */
static void on_event(void *context, enum event_kind kind, const void *event)
{
    struct shown  *s       = context;
    struct arena   scratch = s->scratch;
    struct textbuf b       = textbuf_new(&scratch);
    if (!is_due(s, kind, event)) return;
    event_json(kind, event, &b);
    say_line(s->say, &b);
    fflush(s->say->results);
}

static void on_done(void *context, const struct event_done *e) { summary_show(context, e); }

static enum status read_config(struct cli *c, struct config **out, struct err *err)
{
    const struct request *r     = c->request;
    bool                  named = r->argument_count && str_find(r->arguments[0], '=') < 0;
    return config_read(c->os, c->perm, r->command->name, named ? r->arguments[0] : STR(""),
                       r->arguments + named, r->argument_count - named, out, err);
}

enum status command_follow(struct cli *c, struct err *err)
{
    struct config       *config;
    struct follow_result result;
    struct say           words = *c->say;
    struct shown         lines = { .say = c->say, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct progress      last  = { .say = &words, .scratch = arena_part(c->perm, EVENT_BYTES) };
    struct subscriber    ends  = { .context = &last, .on_done = on_done };
    struct subscriber    show  = { .context = &lines, .next = &ends, .on_event = on_event };
    enum status          st    = read_config(c, &config, err);
    if (st) return st;
    words.results  = words.messages; /* standard output is the loop's */
    last.usd_hour  = config->settings.train.usd_hour;
    struct job job = job_of(c, config, "followed");
    return job_follow(&job, (struct file){ 0 }, &show, &result, err);
}
