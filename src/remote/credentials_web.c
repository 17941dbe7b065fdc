/* credentials_web.c - credentials from services: AWS's token service, a container's agent, and the
 * metadata service of the machine, which is asked directly and given one second to connect. */
#include "base/date.h"
#include "base/json.h"
#include "remote/credentials_int.h"
#include "remote/xml.h"
#include <strings.h>

static const i64 reply_bytes_max  = 1 << 16;
static const i64 connect_limit_ns = 1000000000;
static const i64 limit_ns         = (i64)5 * 1000000000;

/* A question to a service of this machine's own link. */
static enum status ask_near(struct credential_chain *c, struct str method, struct str url,
                            struct pair header, struct arena *perm, struct web_reply *reply,
                            struct err *err)
{
    struct web_request r = { .method           = method,
                             .url              = url,
                             .headers          = &header,
                             .header_count     = header.name.len > 0,
                             .reply_bytes_max  = reply_bytes_max,
                             .connect_limit_ns = connect_limit_ns,
                             .limit_ns         = limit_ns,
                             .direct           = true };
    return c->web->send(c->web, &r, perm, reply, err) ? STATUS_WORLD : STATUS_OK;
}

static enum status refused(const char *who, i32 status, struct err *err)
{
    return err_set(err, STATUS_WORLD, "%s gives no credentials: it answered %d", who, status);
}

enum status held_of_json(struct str text, const char *who, struct arena *perm, struct held *out,
                         struct err *err)
{
    struct json *root;
    enum status  st = json_parse(perm, text, &root, NULL);
    if (st || root->kind != JSON_MAP)
        return err_set(err, STATUS_WORLD, "%s answered with something that is not JSON", who);
    struct json *id     = json_get(root, STR("AccessKeyId")),
                *secret = json_get(root, STR("SecretAccessKey"));
    struct json *token = json_get(root, STR("Token")), *expires = json_get(root, STR("Expiration"));
    if (!token) token = json_get(root, STR("SessionToken"));
    if (!id || !secret || !id->text.len || !secret->text.len)
        return err_set(err, STATUS_WORLD, "%s answered without AccessKeyId and SecretAccessKey",
                       who);
    out->c.key_id = id->text;
    out->c.secret = secret->text;
    out->c.token  = token ? token->text : STR("");
    if (expires && !date_iso(expires->text, &out->expires_s))
        return err_set(err, STATUS_WORLD, "%s answered with an Expiration that is not a date", who);
    return STATUS_OK;
}

/* --- web identity --------------------------------------------------------------------------------- */

static enum status held_of_sts(struct str body, struct arena *perm, struct held *out,
                               struct err *err)
{
    struct xml root = { 0 };
    xml_next(&body, &root);
    struct str result = xml_child(root.inner, STR("AssumeRoleWithWebIdentityResult"));
    struct str inner  = xml_child(result, STR("Credentials"));
    out->c.key_id     = xml_text(perm, xml_child(inner, STR("AccessKeyId")));
    out->c.secret     = xml_text(perm, xml_child(inner, STR("SecretAccessKey")));
    out->c.token      = xml_text(perm, xml_child(inner, STR("SessionToken")));
    if (!out->c.key_id.len || !out->c.secret.len ||
        !date_iso(xml_text(perm, xml_child(inner, STR("Expiration"))), &out->expires_s))
        return err_set(err, STATUS_WORLD, "the token service's answer has no credentials");
    return STATUS_OK;
}

enum status role_by_web_identity(struct credential_chain *c, const struct role *r,
                                 struct arena *perm, struct held *out, struct err *err)
{
    struct os  *os       = c->os;
    struct str  endpoint = os->env(os, "AWS_ENDPOINT_URL_STS"), token;
    enum status st       = os_read_all(os, r->token_file, perm, &token, err);
    if (st) return st;
    if (!endpoint.len)
        endpoint = str_fmt(perm, "https://sts.%.*s.amazonaws.com", STR_ARG(c->settings.region));
    struct pair        form[]  = { { STR("Action"), STR("AssumeRoleWithWebIdentity") },
                                   { STR("Version"), STR("2011-06-15") },
                                   { STR("RoleArn"), r->arn },
                                   { STR("RoleSessionName"), r->session.len ? r->session : STR("frugal") },
                                   { STR("WebIdentityToken"), str_trim(token) } };
    struct pair        header  = { STR("Content-Type"), STR("application/x-www-form-urlencoded") };
    struct web_request request = { .method          = STR("POST"),
                                   .url             = str_cat(perm, endpoint, STR("/")),
                                   .headers         = &header,
                                   .header_count    = 1,
                                   .body            = sigv4_query(perm, form, COUNT_OF(form)),
                                   .reply_bytes_max = reply_bytes_max,
                                   .limit_ns        = 2 * limit_ns };
    struct web_reply   reply;
    st = c->web->send(c->web, &request, perm, &reply, err);
    if (st) return STATUS_WORLD; /* NO would ask the next source, and hide why */
    if (reply.status == 200) return held_of_sts(reply.body, perm, out, err);
    struct xml root = { 0 };
    xml_next(&reply.body, &root);
    struct str code = xml_child(xml_child(root.inner, STR("Error")), STR("Code"));
    return err_set(err, STATUS_WORLD, "the token service does not give the role %.*s: %d %.*s",
                   STR_ARG(r->arn), reply.status, (int)MIN(code.len, 80), code.data);
}

enum status source_web_identity(struct credential_chain *c, struct arena *perm, struct held *out,
                                struct err *err)
{
    struct os  *os   = c->os;
    struct role role = { os->env(os, "AWS_ROLE_ARN"), os->env(os, "AWS_WEB_IDENTITY_TOKEN_FILE"),
                         os->env(os, "AWS_ROLE_SESSION_NAME") };
    if (!role.arn.len || !role.token_file.len) return STATUS_NO;
    return role_by_web_identity(c, &role, perm, out, err);
}

/* --- container ------------------------------------------------------------------------------------ */

/* The token is sent in the clear only to this machine and to the agents of ECS and EKS. */
static bool is_near(struct str url)
{
    static const char *const near[] = { "127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
    if (str_starts(url, STR("https://"))) return true;
    if (!str_starts(url, STR("http://"))) return false;
    struct str rest = str_sub(url, 7, url.len), host = STR("");
    str_cut(&rest, '/', &host);
    for (i64 i = 0; i < COUNT_OF(near); i++) {
        struct str name = str_of(near[i]);
        if (str_starts(host, name) && (host.len == name.len || host.data[name.len] == ':'))
            return true;
    }
    return false;
}

enum status source_container(struct credential_chain *c, struct arena *perm, struct held *out,
                             struct err *err)
{
    static const char who[]    = "the container's credential agent";
    struct os        *os       = c->os;
    struct str        relative = os->env(os, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    struct str        url      = os->env(os, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    struct str        file     = os->env(os, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    struct str        token    = os->env(os, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (relative.len) url = str_cat(perm, STR("http://169.254.170.2"), relative);
    if (!url.len) return STATUS_NO;
    if (!is_near(url))
        return err_set(err, STATUS_USAGE,
                       "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https:// "
                       "or name this machine or its agent");
    enum status st = file.len ? os_read_all(os, file, perm, &token, err) : STATUS_OK;
    if (st) return st;
    struct pair      header = { token.len ? STR("Authorization") : STR(""), str_trim(token) };
    struct web_reply reply;
    st = ask_near(c, STR("GET"), url, header, perm, &reply, err);
    if (st) return st;
    if (reply.status != 200) return refused(who, reply.status, err);
    return held_of_json(reply.body, who, perm, out, err);
}

/* --- the machine's metadata service ---------------------------------------------------------------- */

static struct str instance_endpoint(struct os *os)
{
    struct str said = os->env(os, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    struct str mode = os->env(os, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (said.len) return str_ends(said, STR("/")) ? str_sub(said, 0, said.len - 1) : said;
    return mode.len == 4 && !strncasecmp(mode.data, "IPv6", 4) ? STR("http://[fd00:ec2::254]")
                                                               : STR("http://169.254.169.254");
}

enum status source_instance(struct credential_chain *c, struct arena *perm, struct held *out,
                            struct err *err)
{
    static const char who[] = "the machine's metadata service";
    struct os        *os    = c->os;
    struct str  off = os->env(os, "AWS_EC2_METADATA_DISABLED"), at = instance_endpoint(os), role;
    struct pair ttl = { STR("X-aws-ec2-metadata-token-ttl-seconds"), STR("21600") };
    struct web_reply reply;
    if (!c->settings.ask_aws || (off.len == 4 && !strncasecmp(off.data, "true", 4)))
        return STATUS_NO;
    struct str  url = str_cat(perm, at, STR("/latest/api/token"));
    enum status st  = ask_near(c, STR("PUT"), url, ttl, perm, &reply, err);
    if (st) return st;
    if (reply.status != 200) return refused(who, reply.status, err);

    struct pair token = { STR("X-aws-ec2-metadata-token"), str_trim(reply.body) };
    url               = str_cat(perm, at, STR("/latest/meta-data/iam/security-credentials/"));
    st                = ask_near(c, STR("GET"), url, token, perm, &reply, err);
    if (st) return st;
    if (reply.status == 404) return STATUS_NO; /* a machine without a role */
    if (reply.status != 200) return refused(who, reply.status, err);
    struct str roles = reply.body;
    str_cut(&roles, '\n', &role);
    url = str_cat(perm, url, sigv4_encode(perm, str_trim(role)));
    st  = ask_near(c, STR("GET"), url, token, perm, &reply, err);
    if (st) return st;
    if (reply.status != 200) return refused(who, reply.status, err);
    return held_of_json(reply.body, who, perm, out, err);
}

/* {"access_token": "ya29.…", "expires_in": 3599, "token_type": "Bearer"} */
enum status source_google(struct credential_chain *c, struct arena *perm, struct held *out,
                          struct err *err)
{
    static const char who[]  = "Google's metadata service";
    struct pair       header = { STR("Metadata-Flavor"), STR("Google") };
    struct str        host   = c->os->env(c->os, "GCE_METADATA_HOST");
    struct web_reply  reply;
    struct json      *root;
    i64               seconds;
    if (!c->settings.ask_gcp) return STATUS_NO;
    if (!host.len) host = STR("metadata.google.internal");
    struct str url =
        str_fmt(perm, "http://%.*s/computeMetadata/v1/instance/service-accounts/default/token",
                STR_ARG(host));
    enum status st = ask_near(c, STR("GET"), url, header, perm, &reply, err);
    if (st) return st;
    if (reply.status != 200) return refused(who, reply.status, err);
    if (json_parse(perm, reply.body, &root, NULL) || root->kind != JSON_MAP)
        return err_set(err, STATUS_WORLD, "%s answered with something that is not JSON", who);
    struct json *token = json_get(root, STR("access_token")),
                *life  = json_get(root, STR("expires_in"));
    if (!token || !token->text.len || !life || !json_i64(life, &seconds))
        return err_set(err, STATUS_WORLD, "%s answered without access_token and expires_in", who);
    out->c.bearer  = token->text;
    out->expires_s = c->os->wall_ns(c->os) / 1000000000 + seconds;
    return STATUS_OK;
}
