/* s3_call.c - s3_call TO OPERATION [ARGUMENT...]: one call of remote/s3.h over the net, for the tests
 * in Python. Settings come from the environment, as AWS's own and as S3_STYLE, S3_CLASS, S3_PART_BYTES,
 * S3_LIMIT_S, S3_ASK (aws or gcp). Prints what came back; the exit status is the call's. */
#include "store/ckpt_remote.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena perm;

static enum status show(enum status st, struct str bytes)
{
    if (!st) fwrite(bytes.data, 1, (size_t)bytes.len, stdout);
    return st;
}

static enum status list(struct s3 *s, struct str prefix, struct str delimiter, struct err *err)
{
    struct s3_list l;
    struct arena   out = arena_part(&perm, 64 << 20);
    enum status    st  = s3_list(s, prefix, delimiter, &out, perm, &l, err);
    for (i64 i = 0; !st && i < l.count; i++)
        printf("%.*s %lld %.*s\n", STR_ARG(l.objects[i].key), (long long)l.objects[i].bytes,
               STR_ARG(l.objects[i].storage_class));
    return st;
}

static enum status head(struct s3 *s, struct str key, struct err *err)
{
    struct s3_object o;
    enum status      st = s3_head(s, key, &perm, &o, err);
    if (!st)
        printf("%lld %.*s%s%s\n", (long long)o.bytes, STR_ARG(o.storage_class),
               o.archived ? " archived" : "", o.restoring ? " restoring" : "");
    return st;
}

static enum status abort_all(struct s3 *s, struct str prefix, struct err *err)
{
    i64         count;
    enum status st = s3_abort_uploads(s, prefix, perm, &count, err);
    if (!st) printf("%lld\n", (long long)count);
    return st;
}

/* DAYS CLASS, on the bucket of TO */
static enum status lifecycle(const struct s3_settings *where, struct str *arg, struct err *err)
{
    struct ckpt_remote *r;
    struct lifecycle    rules = { .abort_days = 2, .storage_class = arg[1] };
    i64                 others;
    str_i64(arg[0], &rules.cold_days);
    enum status st = ckpt_remote_open(os_real(), NULL, where, &perm, &r, err);
    if (st) return st;
    st = ckpt_remote_lifecycle(r, &rules, perm, &others, err);
    if (!st) printf("%lld of others\n", (long long)others);
    ckpt_remote_close(r);
    return st;
}

static enum status call(struct s3 *s, const char *op, struct str *arg, struct err *err)
{
    struct str bytes = STR("");
    i64        a = 0, b = 0;
    str_i64(arg[1], &a);
    str_i64(arg[2], &b);
    if (!strcmp(op, "put")) return s3_put(s, arg[0], arg[1], perm, err);
    if (!strcmp(op, "put-new")) return s3_put_new(s, arg[0], arg[1], perm, err);
    if (!strcmp(op, "get")) return show(s3_get(s, arg[0], &perm, &bytes, err), bytes);
    if (!strcmp(op, "range")) return show(s3_get_range(s, arg[0], a, b, &perm, &bytes, err), bytes);
    if (!strcmp(op, "head")) return head(s, arg[0], err);
    if (!strcmp(op, "list")) return list(s, arg[0], arg[1], err);
    if (!strcmp(op, "delete")) return s3_delete(s, arg[0], perm, err);
    if (!strcmp(op, "tag")) return s3_tag(s, arg[0], arg[1], arg[2], perm, err);
    if (!strcmp(op, "upload"))
        return s3_upload(s, arg[0], arg[1], arg[2].len ? S3_RESUME : S3_FRESH, err);
    if (!strcmp(op, "download")) return s3_download(s, arg[0], a, arg[2], err);
    if (!strcmp(op, "abort")) return abort_all(s, arg[0], err);
    if (!strcmp(op, "lifecycle-get")) return show(s3_lifecycle_get(s, &perm, &bytes, err), bytes);
    if (!strcmp(op, "restore")) return s3_restore(s, arg[0], a, perm, err);
    return err_set(err, STATUS_USAGE, "no operation %s", op);
}

static struct str env(const char *name)
{
    const char *value = getenv(name);
    return value ? str_of(value) : STR("");
}

int main(int argc, char **argv)
{
    struct str arg[3] = { STR(""), STR(""), STR("") };
    struct err err    = { 0 };
    if (argc < 3 || argc > 6) return fprintf(stderr, "usage: s3_call TO OP [ARG...]\n"), 2;
    for (int i = 3; i < argc; i++) arg[i - 3] = str_of(argv[i]);
    perm                 = arena_open((i64)1 << 30);
    struct s3_settings c = { .to            = str_of(argv[1]),
                             .style         = env("S3_STYLE"),
                             .storage_class = env("S3_CLASS"),
                             .ask_aws       = str_eq(env("S3_ASK"), STR("aws")),
                             .ask_gcp       = str_eq(env("S3_ASK"), STR("gcp")) };
    i64                seconds;
    if (str_i64(env("S3_LIMIT_S"), &seconds)) c.limit_ns = seconds * 1000000000;
    str_i64(env("S3_PART_BYTES"), &c.part_bytes);
    c.endpoint = env("S3_ENDPOINT");
    struct web *web;
    struct s3  *s;
    enum status st = web_open(os_real(), &perm, &web, &err);
    if (!st) st = s3_open(os_real(), web, &c, &perm, &s, &err);
    if (!st) {
        if (!strcmp(argv[2], "lifecycle")) st = lifecycle(&c, arg, &err);
        else st = call(s, argv[2], arg, &err);
        struct s3_sums sums = s3_sums(s);
        fprintf(stderr, "%lld puts, %lld gets\n", (long long)sums.puts, (long long)sums.gets);
        web_close(web);
    }
    if (st) fprintf(stderr, "%s\n", err.text);
    arena_close(&perm);
    return (int)st;
}
