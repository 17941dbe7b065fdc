/* pack_trade.c - a pack from what is opened to what reading it took before and after. */
#include "data/pack.h"
#include "remote/address.h"
#include "remote/files.h"

static const f64 measure_s   = 1.0;
static const i64 cache_bytes = (i64)16 * 1000000000;

static struct str pattern_of(struct str prefix, i64 shards, struct arena *perm)
{
    if (shards == 1) return str_cat(perm, prefix, STR("-000000.tar"));
    return str_fmt(perm, "%.*s-{000000..%06lld}.tar", STR_ARG(prefix), (long long)shards - 1);
}

static enum status trade(struct os *os, const struct place *from, struct data_config *data,
                         const struct pack_config *config, pack_progress *progress, void *context,
                         struct arena *perm, struct pack_trade *out, struct err *err)
{
    struct place *to = NULL;
    enum status   st = pack(os, from, config, progress, context, &out->result, err);
    if (st) return st;
    out->pattern = pattern_of(config->to, out->result.shards, perm);
    st           = place_open(os, data, out->pattern, perm, &to, err);
    if (!st) st = pack_measure(os, from, measure_s, &out->before, err);
    if (!st) st = pack_measure(os, to, measure_s, &out->after, err);
    place_close(to);
    return st;
}

enum status pack_trade(struct os *os, struct str path, const struct pack_config *config,
                       pack_progress *progress, void *context, struct arena *perm,
                       struct pack_trade *out, struct err *err)
{
    struct data_config data = { .cache_bytes = cache_bytes };
    struct place      *from = NULL;
    *out                    = (struct pack_trade){ 0 };
    if (address_is_remote(path))
        data.remote = remote_files_open(os, NULL, &(struct s3_settings){ 0 }, perm);
    enum status st = place_open(os, &data, path, perm, &from, err);
    char        line[LOADER_LINE_MAX];
    if (!st && place_says(from, line)) out->note = str_copy(perm, str_of(line));
    if (!st) st = trade(os, from, &data, config, progress, context, perm, out, err);
    place_close(from);
    remote_files_close(data.remote);
    return st;
}
