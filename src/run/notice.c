/* notice.c - the thread that asks a cloud's metadata service. */
#include "run/notice.h"
#include "base/http.h"
#include "base/thread.h"
#include "run/clock.h"
#include "run/notice_int.h"
#include <stdio.h>
#include <string.h>

enum {
    WATCH_BYTES   = 4 << 20, /* address space */
    TOKEN_TTL_S   = 21600,
    TOLD_MAX      = 64,
    FAILURES_TOLD = 3, /* in a row, before the user hears of it */
    GCP_WAIT_S    = 5, /* of a long poll: so often the other key is asked */
};
static const i64 second_ns = 1000000000, connect_ns = 1000000000, backoff_max_ns = 10000000000,
                 azure_first_ns = 150000000000; /* its first answer may take two minutes */

struct notice_watch { /* lives in `perm`; the last of its two owners closes that */
    struct os          *os;
    struct arena        perm;
    struct http_address at;
    enum cloud          cloud;
    i64                 poll_ns; /* 0: as the cloud wants it */
    notice_fn          *tell;
    void               *context;
    char                token[512]; /* AWS */
    struct deadline     token_until;
    char                etag[128]; /* GCP, of `preempted` */
    char                vm[256];   /* Azure: our own name; empty: not known */
    bool                vm_asked;
    u64                 told[TOLD_MAX]; /* keys, as a ring */
    i64                 told_count, failures;
    pthread_mutex_t     lock;
    pthread_cond_t      wake;
    bool                closing;
    i64                 owners;
};

/* --- telling ------------------------------------------------------------------------------------ */

static void tell_once(struct notice_watch *w, u64 key, const struct notice *n)
{
    for (i64 i = 0; i < MIN(w->told_count, TOLD_MAX); i++)
        if (w->told[i] == key) return;
    w->told[w->told_count++ % TOLD_MAX] = key;
    pthread_mutex_lock(&w->lock);
    if (!w->closing) w->tell(w->context, n);
    pthread_mutex_unlock(&w->lock);
}

static void tell_all(struct notice_watch *w, struct notices *found)
{
    for (i64 i = 0; i < found->count; i++) tell_once(w, found->keys[i], &found->items[i]);
    found->count = 0;
}

/* --- asking ------------------------------------------------------------------------------------- */

static enum status ask(struct notice_watch *w, struct str method, const char *path,
                       const char *header, i64 answer_ns, struct arena *perm, struct http_answer *a,
                       struct err *err)
{
    struct http_question q = { .method     = method,
                               .path       = str_of(path),
                               .to         = w->at,
                               .header     = header,
                               .connect_ns = connect_ns,
                               .answer_ns  = answer_ns };
    if (w->cloud == CLOUD_GCP) q.host = STR("metadata.google.internal");
    return http_ask(w->os, &q, perm, a, err);
}

static struct notice_clock both_clocks(struct os *os)
{
    return (struct notice_clock){ moment_now(os), os->wall_ns(os) };
}

/* What is neither an answer nor the absence of one (404). */
static enum status unexpected(const struct http_answer *a, const char *path, struct err *err)
{
    return err_set(err, STATUS_WORLD, "it answered %d to %s", a->code, path);
}

static enum status aws_token(struct notice_watch *w, struct arena scratch, struct err *err)
{
    static const char  path[] = "/latest/api/token";
    char               header[64];
    struct http_answer a;
    snprintf(header, sizeof header, "X-aws-ec2-metadata-token-ttl-seconds: %d\r\n", TOKEN_TTL_S);
    enum status st = ask(w, STR("PUT"), path, header, connect_ns, &scratch, &a, err);
    if (st) return st;
    if (a.code != 200) return unexpected(&a, path, err);
    struct str token = str_trim(a.body);
    if (!token.len || token.len >= (i64)sizeof w->token || str_find(token, '\r') >= 0 ||
        str_find(token, '\n') >= 0)
        return err_set(err, STATUS_WORLD, "its token is unusable");
    snprintf(w->token, sizeof w->token, "%.*s", STR_ARG(token));
    w->token_until = deadline_in(w->os, TOKEN_TTL_S / 2 * second_ns);
    return STATUS_OK;
}

/* *a is that of a question with a good token. A token that is refused is renewed once. */
static enum status aws_get(struct notice_watch *w, const char *path, struct arena *perm,
                           struct http_answer *a, struct err *err)
{
    char        header[600];
    enum status st = STATUS_OK;
    for (i64 attempt = 0; attempt < 2; attempt++) {
        bool fresh = w->token[0] && deadline_left_ns(&w->token_until) > 0;
        if (!fresh) st = aws_token(w, *perm, err);
        if (st) return st;
        snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s\r\n", w->token);
        st = ask(w, STR("GET"), path, header, connect_ns, perm, a, err);
        if (st || a->code != 401) break;
        w->token[0] = '\0';
    }
    if (!st && a->code != 200 && a->code != 404) st = unexpected(a, path, err);
    return st;
}

static enum status ask_aws(struct notice_watch *w, struct arena scratch, struct notices *out,
                           struct err *err)
{
    struct http_answer a;
    enum status        st = aws_get(w, "/latest/meta-data/spot/instance-action", &scratch, &a, err);
    if (st) return st;
    if (a.code == 200) notice_aws_action(a.body, both_clocks(w->os), scratch, out);
    st = aws_get(w, "/latest/meta-data/events/recommendations/rebalance", &scratch, &a, err);
    if (!st && a.code == 200) notice_aws_rebalance(a.body, both_clocks(w->os), scratch, out);
    return st;
}

static enum status gcp_get(struct notice_watch *w, const char *path, i64 answer_ns,
                           struct arena *perm, struct http_answer *a, struct err *err)
{
    enum status st =
        ask(w, STR("GET"), path, "Metadata-Flavor: Google\r\n", answer_ns, perm, a, err);
    if (!st && a->code != 200 && a->code != 404) st = unexpected(a, path, err);
    return st;
}

/* What it is now; with the etag of an earlier answer, what it is once it has changed or some seconds
 * have passed. */
static enum status gcp_preempted(struct notice_watch *w, struct arena scratch, struct notices *out,
                                 struct err *err)
{
    char               path[256];
    struct http_answer a;
    i64                wait_s = w->etag[0] ? GCP_WAIT_S : 0;
    int                len = snprintf(path, sizeof path, "/computeMetadata/v1/instance/preempted");
    if (wait_s)
        snprintf(path + len, sizeof path - (size_t)len,
                 "?wait_for_change=true&timeout_sec=%d&last_etag=%s", GCP_WAIT_S, w->etag);
    enum status st = gcp_get(w, path, connect_ns + 2 * wait_s * second_ns, &scratch, &a, err);
    if (st) return st;
    struct str etag = http_header(&a, STR("etag"));
    bool       word = etag.len < (i64)sizeof w->etag;
    for (i64 i = 0; i < etag.len; i++) word &= etag.data[i] > ' ' && etag.data[i] != '&';
    snprintf(w->etag, sizeof w->etag, "%.*s", word ? (int)etag.len : 0, etag.data);
    if (a.code == 200) notice_gcp_preempted(a.body, both_clocks(w->os), out);
    return STATUS_OK;
}

/* maintenance-event is told only to those who have asked for it since the last one: so it is asked
 * first, and without waiting. */
static enum status ask_gcp(struct notice_watch *w, struct arena scratch, struct notices *out,
                           struct err *err)
{
    static const char  events[] = "/computeMetadata/v1/instance/maintenance-event";
    struct http_answer a;
    bool               first = !w->etag[0];
    enum status        st    = gcp_get(w, events, connect_ns, &scratch, &a, err);
    if (!st && a.code == 200) notice_gcp_maintenance(a.body, both_clocks(w->os), out);
    if (!st && first) st = gcp_preempted(w, scratch, out, err);
    tell_all(w, out); /* before the wait */
    return st ? st : gcp_preempted(w, scratch, out, err);
}

static enum status ask_azure(struct notice_watch *w, struct arena scratch, struct notices *out,
                             struct err *err)
{
    static const char events[] = "/metadata/scheduledevents?api-version=2020-07-01";
    static const char name[] = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
    static const char header[] = "Metadata: true\r\n";
    struct http_answer a;
    if (!w->vm_asked) {
        w->vm_asked = true;
        if (!ask(w, STR("GET"), name, header, connect_ns, &scratch, &a, NULL) && a.code == 200 &&
            a.body.len < (i64)sizeof w->vm)
            snprintf(w->vm, sizeof w->vm, "%.*s", STR_ARG(str_trim(a.body)));
    }
    enum status st = ask(w, STR("GET"), events, header, azure_first_ns, &scratch, &a, err);
    if (st) return st;
    if (a.code != 200) return unexpected(&a, events, err);
    notice_azure_events(a.body, str_of(w->vm), both_clocks(w->os), scratch, out);
    return STATUS_OK;
}

static const struct {
    struct str name, word;
    i64        poll_s;
    enum status (*ask)(struct notice_watch *, struct arena, struct notices *, struct err *);
    const char *hint; /* why its service may be silent */
} clouds[CLOUD_COUNT] = {
    [CLOUD_AWS]   = { STR_INIT("AWS"), STR_INIT("aws"), 5, ask_aws,
                      "; in a container it needs HttpPutResponseHopLimit 2" },
    [CLOUD_GCP]   = { STR_INIT("GCP"), STR_INIT("gcp"), 1, ask_gcp, "" },
    [CLOUD_AZURE] = { STR_INIT("Azure"), STR_INIT("azure"), 1, ask_azure, "" },
};

struct str cloud_name(enum cloud c) { return c ? clouds[c].name : STR("none"); }

/* --- the thread --------------------------------------------------------------------------------- */

static void tell_failure(struct notice_watch *w, const struct err *why)
{
    struct notice n = { .act = NOTICE_LOG };
    snprintf(n.text, sizeof n.text, "notices of %.*s cannot be read: %.120s%s",
             STR_ARG(clouds[w->cloud].name), why->text, clouds[w->cloud].hint);
    tell_once(w, str_hash(str_of(n.text)), &n);
}

/* Asks once. How long to wait until the next time. */
static i64 round_of(struct notice_watch *w)
{
    struct notices  found   = { 0 };
    struct err      err     = { 0 };
    i64             poll_ns = w->poll_ns ? w->poll_ns : clouds[w->cloud].poll_s * second_ns;
    struct deadline next    = deadline_in(w->os, poll_ns);
    enum status     st      = clouds[w->cloud].ask(w, w->perm, &found, &err);
    tell_all(w, &found);
    w->failures = st ? w->failures + 1 : 0;
    if (w->failures == FAILURES_TOLD) tell_failure(w, &err);
    if (!st) return deadline_left_ns(&next); /* long polls have waited */
    return MIN(poll_ns << MIN(w->failures, 10), MAX(backoff_max_ns, poll_ns));
}

/* True: it is closing. */
static bool wait_ns(struct notice_watch *w, i64 ns)
{
    struct deadline until = deadline_in(os_real(), ns);
    pthread_mutex_lock(&w->lock);
    while (!w->closing && thread_wait_until(&w->wake, &w->lock, until.at_ns)) {}
    bool closing = w->closing;
    pthread_mutex_unlock(&w->lock);
    return closing;
}

static void leave(struct notice_watch *w)
{
    pthread_mutex_lock(&w->lock);
    bool last = --w->owners == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last) return;
    struct arena perm = w->perm;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    arena_close(&perm);
}

static void *watch(void *context)
{
    struct notice_watch *w = context;
    while (!wait_ns(w, round_of(w))) {}
    leave(w);
    return NULL;
}

/* --- who is asked ------------------------------------------------------------------------------- */

static bool dmi_has(struct os *os, const char *name, struct str part)
{
    char        path[64], text[256];
    struct file f;
    i64         got = 0;
    snprintf(path, sizeof path, "/sys/class/dmi/id/%s", name);
    if (os->open_read(os, str_of(path), &f, NULL)) return false;
    if (os->read(os, f, text, sizeof text, 0, &got, NULL)) got = 0;
    os->close(os, &f, NULL);
    return memmem(text, (size_t)got, part.data, (size_t)part.len) != NULL;
}

enum cloud cloud_of_machine(struct os *os)
{
    if (dmi_has(os, "sys_vendor", STR("Amazon EC2"))) return CLOUD_AWS;
    if (dmi_has(os, "bios_version", STR("amazon"))) return CLOUD_AWS; /* older ones, under Xen */
    if (dmi_has(os, "product_name", STR("Google Compute Engine"))) return CLOUD_GCP;
    /* Hyper-V says Microsoft everywhere; this tag is Azure's alone. */
    if (dmi_has(os, "chassis_asset_tag", STR("7783-7084-3265-9085-8269-3286-77")))
        return CLOUD_AZURE;
    return CLOUD_NONE;
}

static enum cloud cloud_chosen(struct os *os, struct str word)
{
    enum cloud c = CLOUD_NONE;
    if (str_eq(word, STR("auto"))) c = cloud_of_machine(os);
    for (i32 i = 1; i < CLOUD_COUNT; i++)
        if (str_eq(word, clouds[i].word)) c = (enum cloud)i;
    bool disabled = str_eq(os->env(os, "AWS_EC2_METADATA_DISABLED"), STR("true"));
    return c == CLOUD_AWS && disabled ? CLOUD_NONE : c;
}

/* GCP's service has a name too; the number needs no resolver, which could take its time. */
static struct str address_of(struct os *os, enum cloud c, struct str given)
{
    struct str named = { 0 };
    if (given.len) return given;
    if (c == CLOUD_AWS) named = os->env(os, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (c == CLOUD_GCP) named = os->env(os, "GCE_METADATA_HOST");
    return named.len ? named : STR("169.254.169.254");
}

enum status notice_watch_open_every(struct os *os, const struct spot_config *c, i64 poll_ns,
                                    notice_fn *tell, void *context, struct notice_watch **out,
                                    struct err *err)
{
    enum cloud          cloud = cloud_chosen(os, c->cloud);
    struct http_address at;
    *out = NULL;
    if (!cloud) return STATUS_OK;
    struct arena perm = arena_open(WATCH_BYTES);
    if (!perm.begin) return err_set(err, STATUS_WORLD, "the system refuses memory for a thread");
    struct str  address = str_copy(&perm, address_of(os, cloud, c->metadata));
    enum status st      = http_address_parse(address, &at, err);
    if (!st) {
        struct notice_watch *w = NEW(&perm, struct notice_watch, 1);
        *w                     = (struct notice_watch){ .os      = os,
                                                        .perm    = perm,
                                                        .at      = at,
                                                        .cloud   = cloud,
                                                        .poll_ns = poll_ns,
                                                        .tell    = tell,
                                                        .context = context,
                                                        .owners  = 2 };
        pthread_t thread;
        thread_cond_init(&w->wake);
        pthread_mutex_init(&w->lock, NULL);
        st = thread_start(&thread, watch, w, "the thread that polls for notices", err);
        if (!st) pthread_detach(thread);
        if (!st) *out = w;
    }
    if (st) arena_close(&perm);
    return st;
}

enum status notice_watch_open(struct os *os, const struct spot_config *c, notice_fn *tell,
                              void *context, struct notice_watch **out, struct err *err)
{
    return notice_watch_open_every(os, c, 0, tell, context, out, err);
}

void notice_watch_close(struct notice_watch *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    leave(w);
}
