/* s3.c - where the store lies: address, endpoint, region, style. */
#include "base/rng.h"
#include "remote/s3_int.h"
#include <string.h>

static const i64 usual_limit_ns = (i64)60 * 1000000000;

static enum status place_of(struct s3 *s, struct str to, struct arena *perm, struct err *err)
{
    struct str rest = str_sub(to, 5, to.len);
    s->kind         = str_starts(to, STR("gs://")) ? SIGV4_GOOGLE : SIGV4_AWS;
    if (!str_starts(to, STR("s3://")) && s->kind != SIGV4_GOOGLE)
        return err_set(
            err, STATUS_USAGE,
            "%.*s is not an object store; expected s3://bucket/prefix or gs://bucket/prefix",
            (int)MIN(to.len, 200), to.data);
    i64 slash = str_find(rest, '/');
    s->bucket = str_copy(perm, str_sub(rest, 0, slash < 0 ? rest.len : slash));
    s->prefix = slash < 0 ? STR("") : str_sub(rest, slash + 1, rest.len);
    while (str_ends(s->prefix, STR("/"))) s->prefix.len--;
    s->prefix = s->prefix.len ? str_cat(perm, s->prefix, STR("/")) : STR("");
    for (i64 i = 0; i < s->bucket.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789.-_", s->bucket.data[i]))
            s->bucket.len = 0;
    if (s->bucket.len < 3 || s->bucket.len > 63 || s->prefix.len > 512)
        return err_set(
            err, STATUS_USAGE,
            "%.*s has no valid bucket name: 3 to 63 of a-z, 0-9, - and . (and at most 512 "
            "characters after it)",
            (int)MIN(to.len, 200), to.data);
    return STATUS_OK;
}

static enum status endpoint_of(struct s3 *s, struct str said, struct arena *perm, struct err *err)
{
    struct os *os = s->os;
    if (!said.len && s->kind == SIGV4_AWS) {
        said = os->env(os, "AWS_ENDPOINT_URL_S3");
        if (!said.len) said = os->env(os, "AWS_ENDPOINT_URL");
        if (!said.len) said = profile_value(os, perm, STR("endpoint_url"));
    }
    if (!said.len && s->kind == SIGV4_GOOGLE) said = os->env(os, "STORAGE_EMULATOR_HOST");
    s->own_endpoint = said.len > 0;
    s->https        = !str_starts(said, STR("http://"));
    if (!said.len) return STATUS_OK;
    struct str rest = str_sub(said, s->https ? 8 : 7, said.len);
    if (s->https && !str_starts(said, STR("https://"))) rest.len = 0;
    while (str_ends(rest, STR("/"))) rest.len--;
    i64 slash = str_find(rest, '/');
    s->host   = str_copy(perm, str_sub(rest, 0, slash < 0 ? rest.len : slash));
    s->base   = slash < 0 ? STR("") : str_copy(perm, str_sub(rest, slash, rest.len));
    if (s->host.len) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "the endpoint %.*s is not an address; expected https://HOST[:PORT]",
                   (int)MIN(said.len, 200), said.data);
}

static enum status style_of(struct s3 *s, struct str style, struct err *err)
{
    /* A dot in the bucket's name would make it two levels of a host name, which no certificate has. */
    s->in_path = s->own_endpoint || s->kind == SIGV4_GOOGLE || str_find(s->bucket, '.') >= 0;
    if (str_eq(style, STR("path"))) s->in_path = true;
    else if (str_eq(style, STR("host"))) s->in_path = false;
    else if (style.len && !str_eq(style, STR("auto")))
        return err_set(err, STATUS_USAGE, "the style %.*s is not one of auto, path, host",
                       (int)MIN(style.len, 80), style.data);
    return STATUS_OK;
}

static enum status region_of(struct s3 *s, struct str said, struct arena *perm, struct err *err)
{
    struct os *os = s->os;
    if (!said.len) said = os->env(os, "AWS_REGION");
    if (!said.len) said = os->env(os, "AWS_DEFAULT_REGION");
    if (!said.len) said = profile_value(os, perm, STR("region"));
    if (s->kind == SIGV4_GOOGLE) said = STR("auto");
    if (!said.len) said = STR("us-east-1");
    if (said.len >= S3_REGION_MAX)
        return err_set(err, STATUS_USAGE, "%.*s is not a region", S3_REGION_MAX, said.data);
    memcpy(s->region, said.data, (size_t)said.len);
    return STATUS_OK;
}

enum status s3_open(struct os *os, struct web *web, const struct s3_settings *c, struct arena *perm,
                    struct s3 **out, struct err *err)
{
    struct s3 *s     = NEW(perm, struct s3, 1);
    s->os            = os;
    s->web           = web;
    s->limit_ns      = c->limit_ns ? c->limit_ns : usual_limit_ns;
    s->part_bytes    = c->part_bytes;
    s->storage_class = c->storage_class;
    s->seed          = rng_mix((u64)os->now_ns(os) ^ (u64)os->wall_ns(os));
    pthread_mutex_init(&s->lock, NULL);
    enum status st = place_of(s, c->to, perm, err);
    if (!st) st = endpoint_of(s, c->endpoint, perm, err);
    if (!st) st = style_of(s, c->style, err);
    if (!st) st = region_of(s, c->region, perm, err);
    if (st) return st;
    struct credential_settings cs = { s->kind, str_copy(perm, str_of(s->region)), c->ask_aws,
                                      c->ask_gcp };
    s->chain                      = credential_chain_new(os, web, &cs, perm);
    *out                          = s;
    return STATUS_OK;
}

void       s3_cancel(struct s3 *s) { atomic_store(&s->cancel, true); }
struct str s3_prefix(const struct s3 *s) { return s->prefix; }
bool       s3_is_google(const struct s3 *s) { return s->kind == SIGV4_GOOGLE; }

struct str s3_address(const struct s3 *s, struct arena *perm, struct str key)
{
    return str_fmt(perm, "%s://%.*s/%.*s", s->kind == SIGV4_GOOGLE ? "gs" : "s3",
                   STR_ARG(s->bucket), STR_ARG(key));
}

struct s3_sums s3_sums(const struct s3 *s)
{
    return (struct s3_sums){ atomic_load(&s->puts), atomic_load(&s->gets),
                             atomic_load(&s->bytes_out), atomic_load(&s->bytes_in) };
}
