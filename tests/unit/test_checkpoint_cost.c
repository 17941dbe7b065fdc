/* test_checkpoint_cost.c - what keeping and reading checkpoints costs, and how quickly a folder is read. */
#include "harness.h"
#include "job/checkpoint_cost.h"
#include "support/folder.h"
#include <math.h>

static const i64 day_ns = (i64)86400 * 1000000000;

TEST(object_stores_are_known_by_their_addresses)
{
    CHECK(object_store_is(STR("s3://bucket/run")));
    CHECK(object_store_is(STR("gs://bucket")));
    CHECK(!object_store_is(STR("https://host/x")));
    CHECK(!object_store_is(STR("s3:/folder")));
    CHECK_STR(object_store_here(os_real(), STR("s3://b/p")).to, STR("s3://b/p"));
}

TEST(classes_are_found_however_they_are_written)
{
    const struct catalogue *c  = catalogue_new(perm);
    struct str              s3 = STR("s3://b"), gs = STR("gs://b");
    const struct storage   *cold = object_store_class(c, s3, STR("GLACIER_IR"));
    CHECK(cold && cold == object_store_class(c, s3, STR("glacier_ir")));
    CHECK(cold->minimum_days > 0);
    CHECK_STR(object_store_class(c, s3, STR(""))->name, STR("standard"));
    CHECK_STR(object_store_class(c, gs, STR(""))->provider, STR("gcp"));
    CHECK(object_store_class(c, gs, STR("GLACIER_IR")) == NULL);
    CHECK(object_store_class(c, s3, STR("a name that is longer than any class of any store")) ==
          NULL);
}

/* A valid one of 16 MiB and a little, in two shards, ten days old; and a damaged one, which counts for nothing. */
TEST(a_cost_is_of_what_is_valid)
{
    struct ckpt_shard shards[2] = { { .bytes = 8 << 20 }, { .bytes = (8 << 20) + 1 } };
    struct ckpt       items[2]  = {
               { .manifest = { .wall_ns = day_ns, .shards = shards, .shard_count = 2 } },
               { .why = { .status = STATUS_NO } }
    };
    struct ckpt_list l           = { items, 2 };
    items[1].manifest            = items[0].manifest;
    const struct catalogue *c    = catalogue_new(perm);
    const struct storage   *cold = object_store_class(c, STR("s3://b"), STR("GLACIER_IR"));
    struct checkpoint_cost  at10 = checkpoint_cost_of(&l, NULL, cold, 11 * day_ns);
    CHECK_EQ(at10.bytes, (16 << 20) + 1);
    CHECK_EQ(at10.requests, (1 + 1) + (1 + 2) + 1); /* HEAD and parts of each, the manifest */
    CHECK_NEAR(at10.fetch_usd, at10.requests_usd + at10.retrieve_usd + at10.egress_usd, 1e-15);
    CHECK(at10.month_usd > 0 && at10.early_usd > 0);
    struct checkpoint_cost late =
        checkpoint_cost_of(&l, NULL, cold, (i64)(2 + cold->minimum_days) * day_ns);
    CHECK_EQ(late.early_usd, 0);
    CHECK_EQ(checkpoint_cost_of(&l, &items[1], cold, 11 * day_ns).bytes, 0);
    struct checkpoint_cost unknown = checkpoint_cost_of(&l, NULL, NULL, 11 * day_ns);
    CHECK_EQ(unknown.bytes, at10.bytes);
    CHECK(isnan(unknown.month_usd) && isnan(unknown.fetch_usd));
}

TEST(a_rate_is_that_of_the_largest_shard)
{
    struct str        folder    = folder_new(perm);
    struct ckpt_shard shards[2] = { { .name = STR("gone"), .bytes = 1 },
                                    { .name = STR("large"), .bytes = 3000000 } };
    struct ckpt       k = { .folder = folder, .manifest = { .shards = shards, .shard_count = 2 } };
    struct clock     *clock = clock_of_process(perm, os_real());
    struct ckpt_list  list;
    f64               rate;
    folder_put(perm, folder, "large", (struct str){ NEW(perm, char, 3000000), 3000000 });
    CHECK_EQ(checkpoint_rate(os_real(), clock, &k, scratch, &rate, NULL), STATUS_OK);
    CHECK(rate > 0 && isfinite(rate));
    shards[0].bytes = 4000000; /* now the one that is not there */
    CHECK_EQ(checkpoint_rate(os_real(), clock, &k, scratch, &rate, NULL), STATUS_WORLD);
    CHECK_EQ(checkpoint_folder_list(os_real(), folder, perm, &list, NULL), STATUS_OK);
    CHECK_EQ(list.count, 0);
    folder = str_cat(perm, folder, STR("/nowhere"));
    CHECK(checkpoint_folder_list(os_real(), folder, perm, &list, NULL) != STATUS_OK);
}
