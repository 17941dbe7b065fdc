/* test_credentials.c - each source by itself, their order, renewal, and that nothing tells a secret.
 * The world is a sim_os with an environment, and a script of what services answer. */
#include "harness.h"
#include "remote/credentials.h"
#include "support/sim_os.h"

enum { ROWS_MAX = 8 };

struct script {
    struct web web;
    struct {
        const char *method, *url; /* asked for exactly so */
        i32         status;       /* 0: nobody answers */
        const char *body;
    } rows[ROWS_MAX];
    i64  count;
    i64  asked;      /* requests so far */
    bool near;       /* the last one: direct, and one second to connect */
    char said[4096]; /* its headers and its body */
};

static enum status script_send(struct web *web, const struct web_request *r, struct arena *perm,
                               struct web_reply *reply, struct err *err)
{
    struct script *s = web->context;
    struct textbuf b = textbuf_new(perm);
    s->asked++;
    s->near = r->direct && r->connect_limit_ns == 1000000000;
    for (i64 i = 0; i < r->header_count; i++)
        textbuf_fmt(&b, "%.*s: %.*s\n", STR_ARG(r->headers[i].name), STR_ARG(r->headers[i].value));
    textbuf_add(&b, r->body);
    snprintf(s->said, sizeof s->said, "%.*s", STR_ARG(textbuf_str(&b)));
    for (i64 i = 0; i < s->count; i++) {
        if (!str_eq(r->method, str_of(s->rows[i].method)) ||
            !str_eq(r->url, str_of(s->rows[i].url)))
            continue;
        *reply = (struct web_reply){ .status = s->rows[i].status, .body = str_of(s->rows[i].body) };
        if (reply->status) return STATUS_OK;
    }
    return err_set(err, STATUS_WORLD, "nobody answers at %.*s", STR_ARG(r->url));
}

static struct script *script_new(struct arena *perm)
{
    struct script *s = NEW(perm, struct script, 1);
    s->web           = (struct web){ .context = s, .send = script_send };
    return s;
}

static void when(struct script *s, const char *method, const char *url, i32 status,
                 const char *body)
{
    i64 i = 0;
    while (i < s->count && (strcmp(s->rows[i].url, url) || strcmp(s->rows[i].method, method))) i++;
    ASSERT(i < ROWS_MAX);
    s->count          = MAX(s->count, i + 1);
    s->rows[i].method = method;
    s->rows[i].url    = url;
    s->rows[i].status = status;
    s->rows[i].body   = body;
}

static void set(struct sim_os *sim, const char *name, const char *value)
{
    ASSERT(sim->env_count < COUNT_OF(sim->env));
    sim->env[sim->env_count][0]   = str_of(name);
    sim->env[sim->env_count++][1] = str_of(value);
}

static struct err         err;
static struct credentials got;

static enum status ask(struct credential_chain *c, struct arena *perm)
{
    err            = (struct err){ 0 };
    enum status st = credentials_get(c, perm, &got, &err);
    CHECK(!strstr(err.text, "hidden")); /* every secret here has that word */
    return st;
}

static struct credential_chain *chain(struct sim_os *sim, struct script *s, struct arena *perm)
{
    struct credential_settings c = { SIGV4_AWS, STR("eu-west-3"), true, false };
    return credential_chain_new(&sim->os, &s->web, &c, perm);
}

#define STS "https://sts.eu-west-3.amazonaws.com/"
#define IMDS "http://169.254.169.254/latest/"
#define ROLE IMDS "meta-data/iam/security-credentials/"
#define KEYS(id, expires)                                                                          \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"hidden-" id            \
    "\",\"Token\":\"hidden-token\",\"Expiration\":\"" expires "\"}"
/* The simulated clock begins at 1700000000: 2023-11-14T22:13:20Z. */
#define IN_AN_HOUR "2023-11-14T23:13:20Z"
#define IN_TWO_HOURS "2023-11-15T00:13:20Z"

static const char sts_answer[] =
    "<AssumeRoleWithWebIdentityResponse xmlns=\"x\"><AssumeRoleWithWebIdentityResult><Credentials>"
    "<AccessKeyId>IRSA</AccessKeyId><SecretAccessKey>hidden-irsa</SecretAccessKey>"
    "<SessionToken>hidden-t</SessionToken><Expiration>" IN_AN_HOUR "</Expiration></Credentials>"
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

/* All sources configured; they are taken away one by one. */
TEST(the_order_is_that_of_the_sdks)
{
    static const char *const ids[] = { "ENV", "IRSA", "PROFILE", "CONTAINER", "INSTANCE" };
    for (i64 first = 0; first < COUNT_OF(ids); first++) {
        struct sim_os *sim = sim_os_new(perm);
        struct script *s   = script_new(perm);
        if (first <= 0) {
            set(sim, "AWS_ACCESS_KEY_ID", "ENV");
            set(sim, "AWS_SECRET_ACCESS_KEY", "hidden");
        }
        if (first <= 1) {
            set(sim, "AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
            set(sim, "AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
            sim_os_put(sim, STR("/token"), STR("hidden.web.token\n"));
            when(s, "POST", STS, 200, sts_answer);
        }
        if (first <= 2)
            sim_os_put(
                sim, STR("/me/.aws/credentials"),
                STR("[default]\naws_access_key_id = PROFILE\naws_secret_access_key=hidden\n"));
        if (first <= 3) {
            set(sim, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
            when(s, "GET", "http://169.254.170.2/v2/x", 200, KEYS("CONTAINER", IN_AN_HOUR));
        }
        set(sim, "HOME", "/me");
        when(s, "PUT", IMDS "api/token", 200, "imds-token");
        when(s, "GET", ROLE, 200, "my role\n");
        when(s, "GET", ROLE "my%20role", 200, KEYS("INSTANCE", IN_AN_HOUR));
        CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_OK);
        CHECK_STR(got.key_id, ids[first]);
        CHECK(got.secret.len && !got.bearer.len);
    }
}

TEST(web_identity_sends_the_token_and_names_the_role_when_refused)
{
    struct sim_os *sim = sim_os_new(perm);
    struct script *s   = script_new(perm);
    set(sim, "AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
    set(sim, "AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD); /* no such file */
    sim_os_put(sim, STR("/token"), STR("hidden.web.token\n"));
    when(s, "POST", STS, 403,
         "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD);
    CHECK(strstr(err.text, "role/r: 403 AccessDenied"));
    CHECK(strstr(s->said, "WebIdentityToken=hidden.web.token"));
    CHECK(strstr(s->said, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"));
    CHECK(!s->near); /* a service on the internet may lie behind a proxy */
    when(s, "POST", STS, 200, "<AssumeRoleWithWebIdentityResponse>");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD);
}

TEST(what_expires_is_renewed_ahead_and_kept_while_it_holds)
{
    struct sim_os *sim = sim_os_new(perm);
    struct script *s   = script_new(perm);
    set(sim, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/x");
    when(s, "GET", "http://127.0.0.1:9/x", 200, KEYS("ONE", IN_AN_HOUR));
    struct credential_chain *c = chain(sim, s, perm);
    CHECK_EQ(ask(c, perm), STATUS_OK);
    sim->now_ns += (i64)54 * 60 * 1000000000;
    CHECK_EQ(ask(c, perm), STATUS_OK);
    CHECK_EQ(s->asked, 1);
    sim->now_ns += (i64)2 * 60 * 1000000000; /* four minutes are left */
    when(s, "GET", "http://127.0.0.1:9/x", 500, "");
    CHECK_EQ(ask(c, perm), STATUS_OK);
    CHECK_EQ(s->asked, 2);
    CHECK_STR(got.key_id, "ONE");
    when(s, "GET", "http://127.0.0.1:9/x", 200, KEYS("TWO", IN_TWO_HOURS));
    CHECK_EQ(ask(c, perm), STATUS_OK);
    CHECK_STR(got.key_id, "TWO");
    when(s, "GET", "http://127.0.0.1:9/x", 500, "");
    sim->now_ns += (i64)2 * 3600 * 1000000000;
    CHECK_EQ(ask(c, perm), STATUS_WORLD);
    CHECK(strstr(err.text, "answered 500"));
}

TEST(what_the_store_calls_expired_is_asked_for_anew_once)
{
    struct sim_os *sim = sim_os_new(perm);
    struct script *s   = script_new(perm);
    set(sim, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/x");
    when(s, "GET", "http://127.0.0.1:9/x", 200, KEYS("ONE", IN_TWO_HOURS));
    struct credential_chain *c = chain(sim, s, perm);
    CHECK_EQ(ask(c, perm), STATUS_OK);
    struct credentials old = got;
    credentials_expire(c, &old);
    when(s, "GET", "http://127.0.0.1:9/x", 200, KEYS("TWO", IN_TWO_HOURS));
    CHECK_EQ(ask(c, perm), STATUS_OK);
    CHECK_STR(got.key_id, "TWO");
    credentials_expire(c, &old); /* another thread, later, with the old ones */
    CHECK_EQ(ask(c, perm), STATUS_OK);
    CHECK_EQ(s->asked, 2);
}

TEST(a_profile_is_read_from_both_files)
{
    struct sim_os *sim = sim_os_new(perm);
    struct script *s   = script_new(perm);
    set(sim, "HOME", "/me");
    set(sim, "AWS_CONFIG_FILE", "/etc/aws");
    set(sim, "AWS_PROFILE", "team");
    sim_os_put(sim, STR("/me/.aws/credentials"),
               STR("[default]\naws_access_key_id=WRONG\naws_secret_access_key=hidden\n"));
    sim_os_put(sim, STR("/etc/aws"),
               STR("# ours\n[profile team]\nregion = ap-south-1\n  nested = x\naws_access_key_id = "
                   "TEAM\r\n"
                   "aws_secret_access_key = hidden\naws_session_token = hidden-too\n"
                   "[profile sso]\nsso_session = corp\n[profile bare]\nregion = x\n"));
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_OK);
    CHECK_STR(got.key_id, "TEAM");
    CHECK_STR(got.token, "hidden-too");
    CHECK_STR(profile_value(&sim->os, perm, STR("region")), "ap-south-1");
    sim->env[2][1] = STR("sso");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_USAGE);
    CHECK(strstr(err.text, "sso_session"));
    sim->env[2][1] = STR("bare");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_USAGE);
    CHECK(strstr(err.text, "bare"));
}

TEST(a_container_token_goes_to_near_agents_only)
{
    static const char *const far[] = { "http://example.com/x", "http://127.0.0.1.example.com/",
                                       "ftp://127.0.0.1/", "http://169.254.170.21/",
                                       "127.0.0.1/x" };
    for (i64 i = 0; i < COUNT_OF(far); i++) {
        struct sim_os *sim = sim_os_new(perm);
        struct script *s   = script_new(perm);
        set(sim, "AWS_CONTAINER_CREDENTIALS_FULL_URI", far[i]);
        set(sim, "AWS_CONTAINER_AUTHORIZATION_TOKEN", "hidden");
        CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_USAGE);
        CHECK_EQ(s->asked, 0);
    }
    struct sim_os *sim = sim_os_new(perm);
    struct script *s   = script_new(perm);
    set(sim, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials");
    set(sim, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/pod/token");
    sim_os_put(sim, STR("/pod/token"), STR("hidden-pod\n"));
    when(s, "GET", "http://169.254.170.23/v1/credentials", 200, KEYS("POD", IN_AN_HOUR));
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_OK);
    CHECK_STR(s->said, "Authorization: hidden-pod\n");
    CHECK(s->near);
}

TEST(the_metadata_service_is_asked_only_where_it_may_be)
{
    struct credential_settings not_aws = { SIGV4_AWS, STR("x"), false, false };
    struct sim_os             *sim     = sim_os_new(perm);
    struct script             *s       = script_new(perm);
    CHECK_EQ(ask(credential_chain_new(&sim->os, &s->web, &not_aws, perm), perm), STATUS_USAGE);
    CHECK_EQ(s->asked, 0);
    set(sim, "AWS_EC2_METADATA_DISABLED", "True");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_USAGE);
    CHECK_EQ(s->asked, 0);
    sim->env[0][1] = STR("false");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD); /* nobody answers */
    CHECK(s->near);
    CHECK_STR(s->said, "X-aws-ec2-metadata-token-ttl-seconds: 21600\n");
    set(sim, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1338/");
    when(s, "PUT", "http://127.0.0.1:1338/latest/api/token", 200, "the-token");
    when(s, "GET", "http://127.0.0.1:1338/latest/meta-data/iam/security-credentials/", 404, "");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_USAGE); /* a machine without a role */
    CHECK_STR(s->said, "X-aws-ec2-metadata-token: the-token\n");
    when(s, "PUT", "http://127.0.0.1:1338/latest/api/token", 403, "");
    CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD);
    CHECK(strstr(err.text, "answered 403"));
}

TEST(services_that_answer_nonsense_are_told)
{
    static const char *const nonsense[] = {
        "", "{", "[]", "{\"AccessKeyId\":\"X\"}",
        "{\"AccessKeyId\":\"X\",\"SecretAccessKey\":\"hidden\",\"Expiration\":\"soon\"}"
    };
    for (i64 i = 0; i < COUNT_OF(nonsense); i++) {
        struct sim_os *sim = sim_os_new(perm);
        struct script *s   = script_new(perm);
        set(sim, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/x");
        when(s, "GET", "http://localhost/x", 200, nonsense[i]);
        CHECK_EQ(ask(chain(sim, s, perm), perm), STATUS_WORLD);
        CHECK(strstr(err.text, "credential agent answered"));
    }
}

TEST(google_by_hmac_key_or_by_the_machines_token)
{
#define TOKEN_URL                                                                                  \
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
    struct credential_settings c   = { SIGV4_GOOGLE, STR("auto"), false, true };
    struct sim_os             *sim = sim_os_new(perm);
    struct script             *s   = script_new(perm);
    set(sim, "AWS_ACCESS_KEY_ID", "GOOG1E");
    set(sim, "AWS_SECRET_ACCESS_KEY", "hidden");
    CHECK_EQ(ask(credential_chain_new(&sim->os, &s->web, &c, perm), perm), STATUS_OK);
    CHECK_STR(got.key_id, "GOOG1E");
    sim->env[0][1] = STR("AKIDAWS"); /* a key of AWS's is none of Google's */
    when(s, "GET", TOKEN_URL, 200,
         "{\"access_token\":\"hidden-ya29\",\"expires_in\":3599,\"token_type\":\"Bearer\"}");
    struct credential_chain *k = credential_chain_new(&sim->os, &s->web, &c, perm);
    CHECK_EQ(ask(k, perm), STATUS_OK);
    CHECK_STR(got.bearer, "hidden-ya29");
    CHECK(s->near);
    CHECK_STR(s->said, "Metadata-Flavor: Google\n");
    sim->now_ns += (i64)3400 * 1000000000;
    CHECK_EQ(ask(k, perm), STATUS_OK);
    CHECK_EQ(s->asked, 2);
    c.ask_gcp = false;
    CHECK_EQ(ask(credential_chain_new(&sim->os, &s->web, &c, perm), perm), STATUS_USAGE);
}

TEST(a_text_with_a_secret_is_seen)
{
    struct credentials c = { STR("ID"), STR("hid"), STR("tok"), STR("") };
    CHECK(credentials_in(&c, STR("xx hid")) && credentials_in(&c, STR("token")));
    CHECK(!credentials_in(&c, STR("ID to ok")) && !credentials_in(&c, STR("")));
}
