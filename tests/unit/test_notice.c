/* test_notice.c - notices of three clouds, from what their services answer and from scripted services;
 * who is asked, and that nobody else ever is. */
#include "harness.h"
#include "run/notice_int.h"
#include "support/served.h"
#include "support/sim_os.h"
#include <stdatomic.h>

static const struct notice_clock noon = { .at_ns   = 5000000000,
                                          .wall_ns = (i64)1505722800 * 1000000000 }; /* 08:20:00 */

static i64 left_s(const struct notice *n) { return (n->deadline_ns - noon.at_ns) / 1000000000; }

/* --- answers ------------------------------------------------------------------------------------ */

TEST(an_action_of_aws_ends_the_run_by_its_time)
{
    struct notices n = { 0 };
    notice_aws_action(STR("{\"action\": \"terminate\", \"time\": \"2017-09-18T08:22:00Z\"}"), noon,
                      scratch, &n);
    notice_aws_action(STR("{\"action\":\"hibernate\",\"time\":\"2017-09-18T08:19:00Z\"}"), noon,
                      scratch, &n);
    notice_aws_action(STR("{\"action\":\"stop\",\"time\":\"soon\"}"), noon, scratch, &n);
    notice_aws_action(STR("<html>"), noon, scratch, &n);
    CHECK_EQ(n.count, 4);
    CHECK_EQ(n.items[0].act, NOTICE_END);
    CHECK_EQ(left_s(&n.items[0]), 120);
    CHECK_STR(n.items[0].text, "AWS will terminate this spot machine in 120 s");
    CHECK_EQ(left_s(&n.items[1]), 0); /* it is late already */
    CHECK_EQ(left_s(&n.items[2]), 115);
    CHECK_EQ(n.items[3].act, NOTICE_SAVE); /* whatever it was */
    notice_aws_rebalance(STR("{\"noticeTime\": \"2020-10-26T13:42:00Z\"}"), noon, scratch, &n);
    CHECK_EQ(n.items[4].act, NOTICE_SAVE);
}

TEST(gcp_preempts_in_30_s_stops_in_60_and_moves_with_a_log_line)
{
    struct notices n = { 0 };
    notice_gcp_preempted(STR("FALSE"), noon, &n);
    notice_gcp_maintenance(STR("NONE"), noon, &n);
    CHECK_EQ(n.count, 0);
    notice_gcp_preempted(STR("TRUE\n"), noon, &n);
    notice_gcp_maintenance(STR("TERMINATE_ON_HOST_MAINTENANCE"), noon, &n);
    notice_gcp_maintenance(STR("MIGRATE_ON_HOST_MAINTENANCE"), noon, &n);
    CHECK_EQ(n.count, 3);
    CHECK_EQ(n.items[0].act, NOTICE_END);
    CHECK_EQ(left_s(&n.items[0]), 30);
    CHECK_EQ(n.items[1].act, NOTICE_END);
    CHECK_EQ(left_s(&n.items[1]), 60);
    CHECK_EQ(n.items[2].act, NOTICE_LOG);
}

static struct str azure_event(struct arena *perm, const char *type, const char *status,
                              const char *when)
{
    return str_fmt(perm,
                   "{\"DocumentIncarnation\":1,\"Events\":[{\"EventId\":\"A\",\"EventType\":\"%s\","
                   "\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"vm_1\",\"VM_0\"],"
                   "\"EventStatus\":\"%s\",\"NotBefore\":\"%s\",\"DurationInSeconds\":-1}]}",
                   type, status, when);
}

TEST(events_of_azure_by_kind_distance_and_machine)
{
    static const struct {
        const char     *type, *status, *when, *vm;
        enum notice_act act;
        i64             left_s; /* of END; -1: there is no notice */
    } cases[] = {
        { "Preempt", "Scheduled", "Mon, 18 Sep 2017 08:20:30 GMT", "vm_0", NOTICE_END, 30 },
        { "Preempt", "Scheduled", "", "vm_0", NOTICE_END, 30 },
        { "Preempt", "Started", "", "vm_0", NOTICE_END, 0 },
        { "Terminate", "Scheduled", "Mon, 18 Sep 2017 08:25:00 GMT", "", NOTICE_END, 300 },
        { "Reboot", "Scheduled", "Mon, 18 Sep 2017 08:35:00 GMT", "vm_0", NOTICE_SAVE, 900 },
        { "Redeploy", "Scheduled", "Mon, 18 Sep 2017 08:21:00 GMT", "vm_0", NOTICE_END, 60 },
        { "Reboot", "Started", "", "vm_0", NOTICE_END, 0 },
        { "Freeze", "Scheduled", "Mon, 18 Sep 2017 08:35:00 GMT", "vm_0", NOTICE_LOG, 0 },
        { "Preempt", "Scheduled", "Mon, 18 Sep 2017 08:20:30 GMT", "vm_2", NOTICE_END, -1 },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct notices n = { 0 };
        notice_azure_events(azure_event(perm, cases[i].type, cases[i].status, cases[i].when),
                            str_of(cases[i].vm), noon, scratch, &n);
        CHECK_EQ(n.count, cases[i].left_s >= 0);
        if (!n.count) continue;
        CHECK_EQ(n.items[0].act, cases[i].act);
        if (n.items[0].act != NOTICE_LOG) CHECK_EQ(left_s(&n.items[0]), cases[i].left_s);
    }
}

/* --- scripted services -------------------------------------------------------------------------- */

/* Everything through the real os, except that a connection to anywhere but loopback is a failure. */
static struct os   watched;
static atomic_long strayed, connects;

static enum status connect_watched(struct os *os, struct str host, i32 port, i64 limit_ns,
                                   struct file *f, struct err *err)
{
    (void)os;
    connects++;
    if (str_eq(host, STR("127.0.0.1")))
        return os_real()->connect(os_real(), host, port, limit_ns, f, err);
    strayed++;
    f->fd = -1;
    return err_set(err, STATUS_WORLD, "%.*s is not this machine", STR_ARG(host));
}

static struct str env_url; /* of both variables; empty: they are not set */
static bool       env_disabled;

static struct str env_watched(struct os *os, const char *name)
{
    (void)os;
    if (!strcmp(name, "AWS_EC2_METADATA_SERVICE_ENDPOINT")) return env_url;
    if (!strcmp(name, "GCE_METADATA_HOST") && env_url.len) return str_sub(env_url, 7, env_url.len);
    if (!strcmp(name, "AWS_EC2_METADATA_DISABLED") && env_disabled) return STR("true");
    if (!strcmp(name, "http_proxy")) return STR("http://192.0.2.1:3128"); /* is not for us */
    return (struct str){ 0 };
}

/* One table for all tests: a watcher that was closed may still wait for its last answer. */
static struct os *watched_os(void)
{
    if (!watched.connect) {
        watched         = *os_real();
        watched.env     = env_watched;
        watched.connect = connect_watched;
    }
    strayed = connects = 0;
    return &watched;
}

struct service {                                /* what the scripted one does, and what it saw */
    atomic_int  code;                           /* of all its answers, once it is not 0 */
    atomic_int  tokens, good_token, asked, bad; /* bad: questions that break the protocol */
    atomic_bool coming, hangs;
};

static void aws(void *context, struct str request, struct file stream)
{
    struct service *s = context;
    char            token[64];
    snprintf(token, sizeof token, "X-aws-ec2-metadata-token: T%d\r\n", s->good_token);
    s->asked++;
    if (s->hangs) {
        os_real()->sleep_ns(os_real(), 100000000);
    } else if (s->code) {
        served_reply(stream, s->code, "", STR("no"));
    } else if (str_starts(request, STR("PUT /latest/api/token HTTP/1.1\r\n"))) {
        if (!served_asks(request, "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n")) s->bad++;
        snprintf(token, sizeof token, "T%d", s->good_token);
        s->tokens++;
        served_reply(stream, 200, "", str_of(token));
    } else if (!served_asks(request, token)) {
        served_reply(stream, 401, "", STR("Unauthorized"));
    } else if (str_starts(request,
                          STR("GET /latest/meta-data/spot/instance-action HTTP/1.1\r\n"))) {
        if (s->coming)
            served_reply(stream, 200, "",
                         STR("{\"action\":\"stop\",\"time\":\"2017-09-18T08:22:00Z\"}"));
        else served_reply(stream, 404, "", STR(""));
    } else if (str_starts(
                   request,
                   STR("GET /latest/meta-data/events/recommendations/rebalance HTTP/1.1\r\n"))) {
        served_reply(stream, 200, "", STR("{\"noticeTime\":\"2017-09-18T08:00:00Z\"}"));
    } else {
        s->bad++;
    }
}

static void gcp(void *context, struct str request, struct file stream)
{
    struct service *s = context;
    s->asked++;
    if (!served_asks(request, "\r\nMetadata-Flavor: Google\r\n") ||
        !served_asks(request, "\r\nHost: metadata.google.internal\r\n"))
        s->bad++;
    if (served_asks(request, "GET /computeMetadata/v1/instance/maintenance-event HTTP"))
        served_reply(stream, 200, "", STR("MIGRATE_ON_HOST_MAINTENANCE"));
    else if (served_asks(request,
                         "preempted?wait_for_change=true&timeout_sec=5&last_etag=e1 HTTP")) {
        for (i64 i = 0; i < 100 && !s->coming; i++) os_real()->sleep_ns(os_real(), 5000000);
        served_reply(stream, 200, "ETag: e2\r\n", s->coming ? STR("TRUE") : STR("FALSE"));
    } else if (served_asks(request, "GET /computeMetadata/v1/instance/preempted"))
        served_reply(stream, 200, "ETag: e1\r\n", s->coming ? STR("TRUE") : STR("FALSE"));
    else s->bad++;
}

static void azure(void *context, struct str request, struct file stream)
{
    struct service *s       = context;
    struct arena    scratch = arena_open(1 << 16);
    s->asked++;
    if (!served_asks(request, "\r\nMetadata: true\r\n")) s->bad++;
    if (served_asks(request, "GET /metadata/instance/compute/name?")) {
        served_reply(stream, 200, "", STR("vm_0"));
    } else if (served_asks(request, "GET /metadata/scheduledevents?api-version=2020-07-01 HTTP")) {
        if (s->coming)
            served_reply(stream, 200, "", azure_event(&scratch, "Preempt", "Started", ""));
        else served_reply(stream, 200, "", STR("{\"DocumentIncarnation\":1,\"Events\":[]}"));
    } else {
        s->bad++;
    }
    arena_close(&scratch);
}

struct heard {
    atomic_int    count, ends, saves, logs;
    struct notice last; /* read after count has moved and the watcher is closed */
};

static void hear(void *context, const struct notice *n)
{
    struct heard *h = context;
    h->last         = *n;
    if (n->act == NOTICE_END) h->ends++;
    if (n->act == NOTICE_SAVE) h->saves++;
    if (n->act == NOTICE_LOG) h->logs++;
    h->count++;
}

/* At most ten seconds, for a machine that is busy with other things. */
#define WAIT_UNTIL(condition)                                                                      \
    for (i64 wait = 0; wait < 2000 && !(condition); wait++)                                        \
        os_real()->sleep_ns(os_real(), 5000000);                                                   \
    CHECK(condition)

static const i64 poll_ns = 10000000;

TEST(aws_tells_each_thing_once_and_a_token_that_expired_is_renewed)
{
    struct service       s      = { 0 };
    struct heard         h      = { 0 };
    struct served       *server = served_open(perm, aws, &s);
    struct spot_config   c      = { .cloud = STR("aws"), .metadata = served_url(server, perm) };
    struct notice_watch *w;
    CHECK_EQ(notice_watch_open_every(watched_os(), &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
    WAIT_UNTIL(h.saves == 1); /* the rebalance recommendation */
    s.good_token++;
    WAIT_UNTIL(s.tokens == 2);
    s.coming = true;
    WAIT_UNTIL(h.ends == 1);
    int asked = s.asked;
    WAIT_UNTIL(s.asked > asked + 6);
    notice_watch_close(w);
    served_close(server);
    CHECK_EQ(h.count, 2); /* although it was said again and again */
    CHECK_STR(h.last.text, "AWS will stop this spot machine in 0 s");
    CHECK_EQ(s.tokens, 2);
    CHECK_EQ(s.bad, 0);
    CHECK_EQ(strayed, 0);
    CHECK(connects >= 6);
}

TEST(gcp_waits_for_a_change_and_hears_of_it_at_once)
{
    struct service       s      = { 0 };
    struct heard         h      = { 0 };
    struct served       *server = served_open(perm, gcp, &s);
    struct spot_config   c      = { .cloud = STR("gcp"), .metadata = served_url(server, perm) };
    struct notice_watch *w;
    CHECK_EQ(notice_watch_open_every(watched_os(), &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
    WAIT_UNTIL(h.logs == 1); /* the live migration */
    WAIT_UNTIL(s.asked >= 4);
    s.coming = true;
    WAIT_UNTIL(h.ends == 1);
    notice_watch_close(w);
    served_close(server);
    CHECK_STR(h.last.text, "GCP preempts this machine: it stops in 30 s");
    CHECK_EQ(s.bad, 0);
    CHECK_EQ(strayed, 0);
}

TEST(azure_is_asked_for_our_name_and_its_events)
{
    struct service       s      = { 0 };
    struct heard         h      = { 0 };
    struct served       *server = served_open(perm, azure, &s);
    struct spot_config   c      = { .cloud = STR("azure"), .metadata = served_url(server, perm) };
    struct notice_watch *w;
    CHECK_EQ(notice_watch_open_every(watched_os(), &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
    WAIT_UNTIL(s.asked >= 3);
    CHECK_EQ(h.count, 0);
    s.coming = true;
    WAIT_UNTIL(h.ends == 1);
    notice_watch_close(w);
    served_close(server);
    CHECK_STR(h.last.text, "Azure announced Preempt for this machine in 0 s");
    CHECK_EQ(s.bad, 0);
    CHECK_EQ(strayed, 0);
}

TEST(a_service_that_refuses_or_hangs_is_told_of_once_and_closing_does_not_wait)
{
    for (i64 hangs = 0; hangs < 2; hangs++) {
        struct service       s      = { .code = 403, .hangs = hangs };
        struct heard         h      = { 0 };
        struct served       *server = served_open(perm, aws, &s);
        struct spot_config   c      = { .cloud = STR("aws"), .metadata = served_url(server, perm) };
        struct notice_watch *w;
        struct os           *os = os_real();
        CHECK_EQ(notice_watch_open_every(watched_os(), &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
        WAIT_UNTIL(h.logs == 1);
        CHECK(strstr(h.last.text, "notices of AWS cannot be read: "));
        CHECK(hangs || strstr(h.last.text, "it answered 403 to /latest/api/token"));
        s.hangs  = false;
        s.code   = 0;
        s.coming = true;
        WAIT_UNTIL(h.ends == 1); /* it goes on asking */
        i64 begin = os->now_ns(os);
        notice_watch_close(w);
        CHECK(os->now_ns(os) - begin < 1000000000);
        served_close(server);
        CHECK_EQ(h.logs, 1);
    }
}

/* --- who is asked ------------------------------------------------------------------------------- */

TEST(the_firmware_names_the_cloud)
{
    static const struct {
        const char *file, *text;
        enum cloud  cloud;
    } cases[] = { { "sys_vendor", "Amazon EC2\n", CLOUD_AWS },
                  { "bios_version", "4.11.amazon\n", CLOUD_AWS },
                  { "product_name", "Google Compute Engine\n", CLOUD_GCP },
                  { "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", CLOUD_AZURE },
                  { "sys_vendor", "Microsoft Corporation\n", CLOUD_NONE }, /* Hyper-V at home */
                  { "sys_vendor", "QEMU\n", CLOUD_NONE } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct sim_os *sim = sim_os_new(perm);
        sim_os_put(sim, str_fmt(perm, "/sys/class/dmi/id/%s", cases[i].file),
                   str_of(cases[i].text));
        CHECK_EQ(cloud_of_machine(&sim->os), cases[i].cloud);
    }
    CHECK_EQ(cloud_of_machine(&sim_os_new(perm)->os), CLOUD_NONE);
}

TEST(addresses_come_from_the_environment_and_aws_can_be_forbidden)
{
    static served_fn *const  services[] = { aws, gcp };
    static const char *const words[]    = { "aws", "gcp" };
    for (i64 i = 0; i < 2; i++) {
        struct service       s      = { .coming = true };
        struct heard         h      = { 0 };
        struct served       *server = served_open(perm, services[i], &s);
        struct spot_config   c      = { .cloud = str_of(words[i]), .metadata = STR("") };
        struct os           *os     = watched_os();
        struct notice_watch *w;
        env_url      = served_url(server, perm);
        env_disabled = false;
        CHECK_EQ(notice_watch_open_every(os, &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
        WAIT_UNTIL(h.ends == 1);
        notice_watch_close(w);
        env_disabled = true;
        CHECK_EQ(notice_watch_open_every(os, &c, poll_ns, hear, &h, &w, NULL), STATUS_OK);
        CHECK_EQ(w == NULL, i == 0);
        notice_watch_close(w);
        served_close(server);
        CHECK_EQ(strayed, 0);
    }
    env_url      = STR("");
    env_disabled = false;
}

TEST(without_a_cloud_nobody_is_asked)
{
    struct spot_config   c   = { .cloud = STR("auto"), .metadata = STR("") };
    struct sim_os       *sim = sim_os_new(perm); /* its connect asserts */
    struct heard         h   = { 0 };
    struct notice_watch *w;
    struct err           err = { 0 };
    CHECK_EQ(notice_watch_open(&sim->os, &c, hear, &h, &w, &err), STATUS_OK);
    CHECK(!w);
    notice_watch_close(w);
    c = (struct spot_config){ .cloud = STR("none"), .metadata = STR("http://127.0.0.1:1") };
    CHECK_EQ(notice_watch_open(&sim->os, &c, hear, &h, &w, &err), STATUS_OK);
    CHECK(!w);
    c = (struct spot_config){ .cloud = STR("aws"), .metadata = STR("https://secure") };
    CHECK_EQ(notice_watch_open(&sim->os, &c, hear, &h, &w, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "https://secure is not an address"));
}
