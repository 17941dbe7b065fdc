/* credentials.c - the order of the sources, and those on this machine: environment and files. */
#include "remote/credentials_int.h"
#include <string.h>

static const i64 renew_ahead_s = 300;
enum { PROCESS_BYTES_MAX = 1 << 16 };
static const i64 process_limit_ns = (i64)60 * 1000000000; /* it may ask a person, or a service */
static const i64 memory_bytes     = 1 << 20; /* tokens and the replies that bring them */
static const i64 file_bytes_max   = 1 << 18;

/* --- files in the manner of ~/.aws/config --------------------------------------------------------- */

/* Each call gives a line of the section that is not blank, indented or a comment. */
static bool section_line(struct str *rest, struct str section, bool *inside, struct str *line)
{
    while (str_cut(rest, '\n', line)) {
        struct str s = str_trim(*line);
        if (!s.len || s.data[0] == '#' || s.data[0] == ';') continue;
        if (s.data[0] == '[') {
            struct str name = str_trim(str_sub(s, 1, MAX(1, str_find(s, ']'))));
            *inside         = str_eq(name, section);
            if (*inside) return true;
        } else if (*inside && line->data[0] != ' ') {
            return true;
        }
    }
    return false;
}

bool ini_has(struct str text, struct str section)
{
    struct str line;
    bool       inside = false;
    return section_line(&text, section, &inside, &line);
}

struct str ini_value(struct str text, struct str section, struct str key)
{
    struct str line, name;
    bool       inside = false;
    while (section_line(&text, section, &inside, &line))
        if (str_cut(&line, '=', &name) && str_eq(str_trim(name), key)) return str_trim(line);
    return (struct str){ 0 };
}

/* One of the two files; empty where there is none. */
static struct str aws_file(struct os *os, struct arena *perm, const char *variable,
                           const char *name)
{
    struct str     path = os->env(os, variable), home = os->env(os, "HOME"), text;
    struct os_stat stat;
    if (!path.len && !home.len) return STR("");
    if (!path.len) path = str_fmt(perm, "%.*s/.aws/%s", STR_ARG(home), name);
    if (os->stat(os, path, &stat, NULL) || stat.is_dir || stat.bytes > file_bytes_max)
        return STR("");
    return os_read_all(os, path, perm, &text, NULL) ? STR("") : text;
}

static struct str credentials_file(struct os *os, struct arena *perm)
{
    return aws_file(os, perm, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
}

static struct str config_file(struct os *os, struct arena *perm)
{
    return aws_file(os, perm, "AWS_CONFIG_FILE", "config");
}

static struct str profile_name(struct os *os, bool *chosen)
{
    struct str name = os->env(os, "AWS_PROFILE");
    if (!name.len) name = os->env(os, "AWS_DEFAULT_PROFILE");
    *chosen = name.len > 0;
    return *chosen ? name : STR("default");
}

static struct str config_section(struct arena *perm, struct str name)
{
    return str_eq(name, STR("default")) ? name : str_cat(perm, STR("profile "), name);
}

struct str profile_value(struct os *os, struct arena *perm, struct str key)
{
    bool       chosen;
    struct str name  = profile_name(os, &chosen);
    struct str value = ini_value(credentials_file(os, perm), name, key);
    if (value.data) return value;
    return ini_value(config_file(os, perm), config_section(perm, name), key);
}

/* --- sources on this machine ---------------------------------------------------------------------- */

/* Google's keys begin so; those of AWS mean nothing to it. */
static bool is_kind(const struct credential_chain *c, struct str key_id)
{
    return c->settings.kind == SIGV4_AWS || str_starts(key_id, STR("GOOG"));
}

static enum status source_environment(struct credential_chain *c, struct arena *perm,
                                      struct held *out, struct err *err)
{
    struct os *os = c->os;
    struct str id = os->env(os, "AWS_ACCESS_KEY_ID"), secret = os->env(os, "AWS_SECRET_ACCESS_KEY");
    if (!id.len || !is_kind(c, id)) return STATUS_NO;
    if (!secret.len)
        return err_set(err, STATUS_USAGE,
                       "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    out->c.key_id = str_copy(perm, id);
    out->c.secret = str_copy(perm, secret);
    out->c.token  = str_copy(perm, os->env(os, "AWS_SESSION_TOKEN"));
    return STATUS_OK;
}

/* The user's own command, which prints them (AWS's documentation, "Sourcing credentials with an external
 * process"). What it printed is never told: it may hold a secret. */
static enum status held_of_process(struct str command, struct arena *perm, struct held *out,
                                   struct err *err)
{
    struct err  why = { 0 };
    struct str  text;
    enum status st = os_output_of(str_fmt(perm, "%.*s", STR_ARG(command)).data, process_limit_ns,
                                  PROCESS_BYTES_MAX, perm, &text, &why);
    if (st)
        return err_set(err, STATUS_WORLD, "credential_process gives no credentials: %s", why.text);
    return held_of_json(text, "credential_process", perm, out, err);
}

static enum status source_profile(struct credential_chain *c, struct arena *perm, struct held *out,
                                  struct err *err)
{
    static const char *const foreign[] = { "role_arn", "sso_session", "sso_start_url" };
    struct os               *os        = c->os;
    bool                     chosen;
    struct str               name = profile_name(os, &chosen);
    struct str               id   = profile_value(os, perm, STR("aws_access_key_id"));
    out->c.key_id                 = id;
    out->c.secret                 = profile_value(os, perm, STR("aws_secret_access_key"));
    out->c.token                  = profile_value(os, perm, STR("aws_session_token"));
    if (id.len && out->c.secret.len && is_kind(c, id)) return STATUS_OK;
    if (c->settings.kind == SIGV4_GOOGLE) return STATUS_NO;

    struct role role = { profile_value(os, perm, STR("role_arn")),
                         profile_value(os, perm, STR("web_identity_token_file")),
                         profile_value(os, perm, STR("role_session_name")) };
    if (role.arn.len && role.token_file.len) return role_by_web_identity(c, &role, perm, out, err);
    struct str process = profile_value(os, perm, STR("credential_process"));
    if (process.len) return held_of_process(process, perm, out, err);
    for (i64 i = 0; i < COUNT_OF(foreign); i++)
        if (profile_value(os, perm, str_of(foreign[i])).len)
            return err_set(err, STATUS_USAGE,
                           "the profile %.*s gets its keys through %s, which frugal cannot do; "
                           "try: eval $(aws configure export-credentials --format env)",
                           STR_ARG(name), foreign[i]);
    if (!chosen) return STATUS_NO;
    return err_set(err, STATUS_USAGE,
                   "the profile %.*s has no aws_access_key_id; is AWS_PROFILE right?",
                   STR_ARG(name));
}

/* --- the order ------------------------------------------------------------------------------------ */

typedef enum status source_fn(struct credential_chain *, struct arena *, struct held *,
                              struct err *);

static source_fn *const sources_of[][5] = {
    [SIGV4_AWS]    = { source_environment, source_web_identity, source_profile, source_container,
                       source_instance },
    [SIGV4_GOOGLE] = { source_environment, source_profile, source_google },
};

struct credential_chain *credential_chain_new(struct os *os, struct web *web,
                                              const struct credential_settings *s,
                                              struct arena                     *perm)
{
    struct credential_chain *c = NEW(perm, struct credential_chain, 1);
    *c = (struct credential_chain){ .os = os, .web = web, .settings = *s, .source = -1 };
    for (int i = 0; i < 2; i++) c->memory[i] = arena_part(perm, memory_bytes);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static enum status none(const struct credential_chain *c, struct err *err)
{
    if (c->settings.kind == SIGV4_GOOGLE)
        return err_set(
            err, STATUS_USAGE,
            "no credentials for gs://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to an "
            "HMAC key of Cloud Storage, or run on a machine of Google's (cloud: gcp)");
    return err_set(err, STATUS_USAGE,
                   "no credentials for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                   "AWS_PROFILE, or run on a machine that has a role (cloud: aws)");
}

/* The held ones stay in their memory until the new ones have come into the other. */
static enum status ask(struct credential_chain *c, struct err *err)
{
    source_fn *const *sources = sources_of[c->settings.kind];
    struct arena      fresh   = c->memory[1];
    enum status       st      = STATUS_NO;
    i64               i       = MAX(0, c->source);
    struct held       got     = { 0 };
    for (; st == STATUS_NO && i < 5 && sources[i]; i++) st = sources[i](c, &fresh, &got, err);
    if (st == STATUS_NO) return none(c, err);
    if (st) return st;
    struct arena before = c->memory[0];
    c->memory[0]        = c->memory[1];
    c->memory[1]        = before;
    c->source           = i - 1;
    c->held             = got;
    c->stale            = false;
    return STATUS_OK;
}

enum status credentials_get(struct credential_chain *c, struct arena *perm, struct credentials *out,
                            struct err *err)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&c->lock);
    i64  now_s = c->os->wall_ns(c->os) / 1000000000, expires_s = c->held.expires_s;
    bool due   = c->source < 0 || c->stale || (expires_s && now_s > expires_s - renew_ahead_s);
    bool valid = c->source >= 0 && !c->stale && (!expires_s || now_s < expires_s);
    if (due) st = ask(c, err);
    if (valid) st = STATUS_OK; /* could not be renewed ahead of time, but hold for now */
    if (!st)
        *out =
            (struct credentials){ str_copy(perm, c->held.c.key_id),
                                  str_copy(perm, c->held.c.secret), str_copy(perm, c->held.c.token),
                                  str_copy(perm, c->held.c.bearer) };
    pthread_mutex_unlock(&c->lock);
    return st;
}

void credentials_expire(struct credential_chain *c, const struct credentials *used)
{
    pthread_mutex_lock(&c->lock);
    const struct credentials *held = &c->held.c;
    if (str_eq(held->key_id, used->key_id) && str_eq(held->token, used->token) &&
        str_eq(held->bearer, used->bearer))
        c->stale = true; /* else another thread has renewed them already */
    pthread_mutex_unlock(&c->lock);
}

bool credentials_in(const struct credentials *c, struct str text)
{
    struct str secrets[] = { c->secret, c->token, c->bearer };
    for (i64 i = 0; i < COUNT_OF(secrets); i++)
        if (secrets[i].len && text.len &&
            memmem(text.data, (size_t)text.len, secrets[i].data, (size_t)secrets[i].len))
            return true;
    return false;
}
