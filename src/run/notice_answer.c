/* notice_answer.c - what the clouds' answers mean. The figures are those of their documentation:
 * AWS tells of a stop or termination two minutes ahead, GCP of a preemption 30 s and of maintenance 60 s,
 * Azure of a preemption 30 s and of reboots and redeployments 10 minutes and more. */
#include "base/date.h"
#include "base/json.h"
#include "run/notice_int.h"
#include <stdio.h>
#include <strings.h>

static const i64 second_ns = 1000000000;
enum {
    AWS_NOTICE_S      = 115, /* two minutes less the five seconds between two questions */
    GCP_PREEMPT_S     = 30,
    GCP_MAINTENANCE_S = 60,
    AZURE_PREEMPT_S   = 30,
    MINUTES_AWAY_S    = 120, /* a reboot further off than this is time to save and go on */
};

__attribute__((format(printf, 5, 6))) static void
add(struct notices *out, u64 key, enum notice_act act, i64 deadline_ns, const char *format, ...)
{
    if (out->count == COUNT_OF(out->items)) return;
    struct notice *n = &out->items[out->count];
    va_list        args;
    va_start(args, format);
    vsnprintf(n->text, sizeof n->text, format, args);
    va_end(args);
    n->act                  = act;
    n->deadline_ns          = deadline_ns;
    out->keys[out->count++] = key;
}

static struct str text_of(const struct json *map, struct str key)
{
    const struct json *v = json_get(map, key);
    return v && v->kind == JSON_STRING ? v->text : STR("");
}

/* A moment of the wall clock as one of now_ns, not before now. */
static i64 moment_ns(i64 unix_s, struct notice_clock now)
{
    i64 now_s = now.wall_ns / second_ns, left = MIN(MAX(unix_s - now_s, 0), 366 * 86400);
    return now.at_ns + left * second_ns;
}

static long long left_s(i64 moment, struct notice_clock now)
{
    return (moment - now.at_ns + second_ns / 2) / second_ns;
}

/* --- AWS ---------------------------------------------------------------------------------------- */

void notice_aws_action(struct str body, struct notice_clock now, struct arena scratch,
                       struct notices *out)
{
    struct json *root;
    i64          unix_s, deadline = now.at_ns + AWS_NOTICE_S * second_ns;
    json_parse(&scratch, body, &root, NULL);
    struct str action = text_of(root, STR("action")), time = text_of(root, STR("time"));
    if (!action.len) { /* something is there, and we cannot read it: a save costs little */
        add(out, str_hash(body), NOTICE_SAVE, 0,
            "AWS sent an interruption notice that frugal does not understand");
        return;
    }
    if (date_iso(time, &unix_s)) deadline = moment_ns(unix_s, now);
    add(out, str_hash(action) ^ str_hash(time), NOTICE_END, deadline,
        "AWS will %.*s this spot machine in %lld s", (int)MIN(action.len, 32), action.data,
        left_s(deadline, now));
}

void notice_aws_rebalance(struct str body, struct notice_clock now, struct arena scratch,
                          struct notices *out)
{
    struct json *root;
    (void)now;
    json_parse(&scratch, body, &root, NULL);
    struct str time = text_of(root, STR("noticeTime"));
    add(out, str_hash(STR("rebalance")) ^ str_hash(time), NOTICE_SAVE, 0,
        "AWS recommends leaving this machine: an interruption is more likely than usual");
}

/* --- GCP ---------------------------------------------------------------------------------------- */

void notice_gcp_preempted(struct str body, struct notice_clock now, struct notices *out)
{
    if (!str_eq(str_trim(body), STR("TRUE"))) return;
    add(out, str_hash(STR("preempted")), NOTICE_END, now.at_ns + GCP_PREEMPT_S * second_ns,
        "GCP preempts this machine: it stops in %d s", GCP_PREEMPT_S);
}

void notice_gcp_maintenance(struct str body, struct notice_clock now, struct notices *out)
{
    struct str event = str_trim(body);
    if (str_eq(event, STR("TERMINATE_ON_HOST_MAINTENANCE")))
        add(out, str_hash(event), NOTICE_END, now.at_ns + GCP_MAINTENANCE_S * second_ns,
            "GCP stops this machine for maintenance in %d s", GCP_MAINTENANCE_S);
    if (str_eq(event, STR("MIGRATE_ON_HOST_MAINTENANCE")))
        add(out, str_hash(event), NOTICE_LOG, 0,
            "GCP moves this machine to another host: it will pause");
}

/* --- Azure -------------------------------------------------------------------------------------- */

static bool names(const struct json *resources, struct str vm)
{
    if (!vm.len || !resources || !resources->count) return true;
    for (const struct json *r = resources->first; r; r = r->next)
        if (r->text.len == vm.len && !strncasecmp(r->text.data, vm.data, (size_t)vm.len))
            return true;
    return false;
}

static enum notice_act azure_act(struct str type, i64 seconds)
{
    if (str_eq(type, STR("Freeze"))) return NOTICE_LOG;
    bool back = str_eq(type, STR("Reboot")) || str_eq(type, STR("Redeploy"));
    return back && seconds > MINUTES_AWAY_S ? NOTICE_SAVE : NOTICE_END;
}

static void azure_event(const struct json *e, struct notice_clock now, struct notices *out)
{
    struct str type = text_of(e, STR("EventType")), when = text_of(e, STR("NotBefore"));
    bool       preempt = str_eq(type, STR("Preempt")),
         started       = str_eq(text_of(e, STR("EventStatus")), STR("Started"));
    i64 unix_s, deadline = now.at_ns + (preempt && !started ? AZURE_PREEMPT_S : 0) * second_ns;
    if (!type.len) return;
    if (!started && date_http(when, &unix_s)) deadline = moment_ns(unix_s, now);
    long long       left = left_s(deadline, now);
    enum notice_act act  = azure_act(type, left);
    u64             key  = str_hash(text_of(e, STR("EventId"))) ^ str_hash(type) ^ ((u64)act + 1);
    if (act == NOTICE_LOG) add(out, key, act, 0, "Azure pauses this machine for some seconds");
    else
        add(out, key, act, deadline, "Azure announced %.*s for this machine in %lld s",
            (int)MIN(type.len, 32), type.data, left);
}

void notice_azure_events(struct str body, struct str vm, struct notice_clock now,
                         struct arena scratch, struct notices *out)
{
    struct json *root;
    json_parse(&scratch, body, &root, NULL);
    const struct json *events = json_get(root, STR("Events"));
    if (!events || events->kind != JSON_LIST) return;
    for (const struct json *e = events->first; e; e = e->next)
        if (names(json_get(e, STR("Resources")), vm)) azure_event(e, now, out);
}
