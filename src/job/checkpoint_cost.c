/* checkpoint_cost.c - prices are the catalogue's (plan/catalogue.h), sums the bill's (run/bill.h). */
#include "job/checkpoint_cost.h"
#include "base/hash.h"
#include "run/notice.h"
#include <ctype.h>
#include <math.h>

enum { PART_BYTES = 8 << 20 }; /* that one request reads */
enum { RATE_SAMPLE_BYTES = 256 << 20, READ_BYTES = 1 << 20 };

bool object_store_is(struct str where)
{
    return str_starts(where, STR("s3://")) || str_starts(where, STR("gs://"));
}

struct s3_settings object_store_here(struct os *os, struct str where)
{
    enum cloud here = cloud_of_machine(os);
    return (struct s3_settings){ .to      = where,
                                 .ask_aws = here == CLOUD_AWS,
                                 .ask_gcp = here == CLOUD_GCP };
}

/* The catalogue writes them in small letters. */
const struct storage *object_store_class(const struct catalogue *c, struct str where,
                                         struct str class)
{
    char       low[32];
    struct str provider = str_starts(where, STR("gs://")) ? STR("gcp") : STR("aws");
    if (class.len > (i64)sizeof low) return NULL;
    for (i64 i = 0; i < class.len; i++) low[i] = (char)tolower((unsigned char)class.data[i]);
    return catalogue_storage(c, provider, (struct str){ low, class.len });
}

struct checkpoint_cost checkpoint_cost_of(const struct ckpt_list *l, const struct ckpt *only,
                                          const struct storage *s, i64 now_wall_ns)
{
    struct checkpoint_cost sum   = { 0 };
    struct store_price     price = s ? store_price_of(s) : (struct store_price){ 0 };
    f64                    now_d = (f64)now_wall_ns / 86400e9;
    for (i64 i = 0; i < l->count; i++) {
        const struct ckpt_manifest *m = &l->items[i].manifest;
        if (l->items[i].why.status || (only && only != &l->items[i])) continue;
        f64 bytes = (f64)ckpt_bytes(m), age_d = now_d - (f64)m->wall_ns / 86400e9;
        sum.bytes += bytes;
        for (i64 k = 0; k < m->shard_count; k++)
            sum.requests += 1 + ceil((f64)m->shards[k].bytes / PART_BYTES);
        sum.requests += 1; /* the manifest; before each shard a HEAD */
        if (s && age_d < s->minimum_days) sum.early_usd += bill_early_usd(&price, bytes, age_d);
    }
    sum.month_usd    = s ? bill_storage_usd(&price, sum.bytes, BILL_MONTH_DAYS) : NAN;
    sum.requests_usd = s ? bill_get_usd(&price, sum.requests) : NAN;
    sum.retrieve_usd = s ? bill_retrieve_usd(&price, sum.bytes) : NAN;
    sum.egress_usd   = s ? bill_egress_usd(&price, sum.bytes) : NAN;
    sum.fetch_usd    = sum.requests_usd + sum.retrieve_usd + sum.egress_usd;
    return sum;
}

enum status checkpoint_folder_list(struct os *os, struct str folder, struct arena *perm,
                                   struct ckpt_list *out, struct err *err)
{
    struct os_stat stat;
    enum status    st = os->stat(os, folder, &stat, err);
    if (!st) st = ckpt_list(os, folder, perm, out, err);
    return st;
}

enum status checkpoint_rate(struct os *os, struct clock *clock, const struct ckpt *k,
                            struct arena scratch, f64 *rate, struct err *err)
{
    const struct ckpt_shard *largest = &k->manifest.shards[0];
    char                    *buffer  = NEW(&scratch, char, READ_BYTES);
    struct xxh64             hash;
    struct file              f;
    i64                      got = 1, begin_ns = clock_now(clock);
    for (i64 i = 1; i < k->manifest.shard_count; i++)
        if (k->manifest.shards[i].bytes > largest->bytes) largest = &k->manifest.shards[i];
    struct str  path = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(k->folder), STR_ARG(largest->name));
    enum status st   = os->open_read(os, path, &f, err);
    if (st) return st;
    xxh64_init(&hash);
    while (!st && got > 0 && hash.bytes < RATE_SAMPLE_BYTES) {
        st = os->read(os, f, buffer, READ_BYTES, -1, &got, err);
        if (!st) xxh64_add(&hash, (struct str){ buffer, got });
    }
    os->close(os, &f, NULL);
    *rate = (f64)hash.bytes * 1e9 / (f64)MAX(1, clock_now(clock) - begin_ns);
    return st;
}
