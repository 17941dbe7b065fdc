/* test_import.c - public price lists become rows: the samples are the fuzzer's first inputs, cut from
 * the real formats, so their first byte is not part of the list. */
#include "base/json_walk.h"
#include "base/os.h"
#include "harness.h"
#include "plan/import.h"
#include "plan/table.h"

static struct str sample(struct arena *perm, const char *name)
{
    struct str text = { 0 };
    struct err err;
    CHECK_EQ(os_read_all(os_real(), str_fmt(perm, "tests/fuzz/corpus/prices/%s", name), perm, &text,
                         &err),
             STATUS_OK);
    return str_sub(text, 1, text.len);
}

static struct imported import(struct arena *perm, const char *format, const char *path,
                              struct str region, struct str text)
{
    struct import   how = { .format = str_of(format), .region = region, .as_of_day = 20000 };
    struct imported out = { 0 };
    struct err      err = { 0 };
    if (prices_import(catalogue_new(perm), &how, str_of(path), text, perm, &out, &err))
        printf("\n  %s", err.text);
    CHECK_EQ(err.status, STATUS_OK);
    return out;
}

static bool is_there(const struct imported *all, const char *name)
{
    for (i64 i = 0; i < all->count; i++)
        if (str_eq(all->machines[i].name, str_of(name))) return true;
    return false;
}

static const struct machine *named(const struct imported *all, const char *name)
{
    for (i64 i = 0; i < all->count; i++)
        if (str_eq(all->machines[i].name, str_of(name))) return &all->machines[i];
    CHECK(!"it was imported");
    return NULL;
}

TEST(aws_offers_give_shape_price_and_reservations)
{
    struct imported       all = import(perm, "aws", "x", STR(""), sample(perm, "aws.json"));
    const struct machine *m   = named(&all, "p4d.24xlarge");
    CHECK_EQ(all.count, 2);
    CHECK_EQ(all.passed_over, 1); /* inf1 */
    CHECK_EQ(m->on_demand_usd_h, 21.957642);
    CHECK_EQ(m->reserved_1y_usd_h, 14.5);
    CHECK_EQ(m->reserved_3y_usd_h, 9.9);
    CHECK_EQ(m->ram_gib, 1152);
    CHECK_EQ(m->disk_gb, 8000);
    CHECK_EQ(m->net_gbit_s, 400);
    CHECK_EQ(m->gpus, 8);
    CHECK(isnan(m->spot_usd_h));
    CHECK_STR(m->region, "us");
    CHECK_STR(day_text(perm, m->fact.as_of_day), "2026-11-03");
    const struct machine *c7i =
        named(&all, "c7i.2xlarge"); /* new to the catalogue, by its family */
    CHECK_STR(c7i->cpu, "sapphire-rapids");
    CHECK_EQ(c7i->disk_gb, 0);
    CHECK_STR(machine_assumed(perm, c7i), "net_gbit_s"); /* "up to" */
}

static struct str excerpt(struct arena *perm, const char *name)
{
    struct str text = { 0 };
    struct err err;
    CHECK_EQ(os_read_all(os_real(), str_fmt(perm, "tests/unit/prices/%s", name), perm, &text, &err),
             STATUS_OK);
    return text;
}

/* With every field and kind of row that the real files have around what is wanted: capacity blocks and
 * reservations of capacity, Windows, SQL, storage; upfront payments, convertible terms. */
TEST(an_aws_offer_file_in_its_full_form)
{
    struct imported       all = import(perm, "aws", "x", STR(""), excerpt(perm, "aws_offer.json"));
    const struct machine *m   = named(&all, "p5.48xlarge");
    CHECK_EQ(all.count, 1);
    CHECK_EQ(m->on_demand_usd_h, 55.04); /* not the 31.464 of a capacity block */
    CHECK_EQ(m->reserved_1y_usd_h, 37.5373);
    CHECK_EQ(m->reserved_3y_usd_h, 23.7773);
    CHECK_EQ(m->gpus, 8);
    CHECK_EQ(m->ram_gib, 2048);
    CHECK_EQ(m->disk_gb, 30720);
    CHECK_EQ(m->net_gbit_s, 3200);
    CHECK_STR(day_text(perm, m->fact.as_of_day), "2026-11-03");
}

TEST(gcp_skus_in_their_full_form)
{
    struct imported       all = import(perm, "gcp", "x", STR(""), excerpt(perm, "gcp_skus.json"));
    const struct machine *m   = named(&all, "g2-standard-4");
    for (i64 i = 0; i < all.count; i++) CHECK(machine_has_price(&all.machines[i]));
    CHECK(all.unpriced > 0); /* a2, a3, c3 … have no SKU here, so no row */
    /* 4 vCPUs, 16 GiB, one GPU; neither sole tenancy nor commitments */
    CHECK_NEAR(m->on_demand_usd_h, 4 * 0.024988 + 16 * 0.002927 + 0.56004, 1e-9);
    CHECK_NEAR(m->spot_usd_h, 4 * 0.00999 + 16 * 0.00117 + 0.224, 1e-9);
}

/* Samples of 2019 and 2020 have no "Spot" in these names. */
TEST(gcp_skus_as_they_were_called_before_spot)
{
    struct str     text = excerpt(perm, "gcp_skus.json"), spot = STR("Spot Preemptible");
    struct textbuf older = textbuf_new(perm);
    for (i64 i = 0; i < text.len; i++)
        if (str_starts(str_sub(text, i, text.len), spot)) i += STR("Spot").len; /* and the blank */
        else textbuf_add(&older, str_sub(text, i, i + 1));
    struct imported all = import(perm, "gcp", "x", STR(""), textbuf_str(&older));
    CHECK_NEAR(named(&all, "g2-standard-4")->spot_usd_h, 4 * 0.00999 + 16 * 0.00117 + 0.224, 1e-9);
}

TEST(an_azure_page_in_its_full_form)
{
    struct imported all     = import(perm, "azure", "x", STR(""), excerpt(perm, "azure_page.json"));
    const struct machine *m = named(&all, "ND96isr_H100_v5");
    CHECK_EQ(all.count, 1);
    CHECK_EQ(m->on_demand_usd_h, 98.32); /* neither Windows, nor dev/test, nor another region */
    CHECK_EQ(m->spot_usd_h, 39.328);
    CHECK_NEAR(m->reserved_1y_usd_h, 551233.0 / 8760, 1e-9);
    CHECK_NEAR(m->reserved_3y_usd_h, 1137000.0 / 8760 / 3, 1e-9);
}

TEST(aws_offers_of_one_region)
{
    struct imported all = import(perm, "aws", "x", STR("us-west-2"), sample(perm, "aws.json"));
    CHECK_EQ(all.count, 1);
    CHECK_STR(all.machines[0].name, "c7i.2xlarge");
    CHECK_STR(all.machines[0].region, "us-west-2");
}

TEST(gcp_machines_are_the_sum_of_their_parts)
{
    struct imported       all = import(perm, "gcp", "x", STR(""), sample(perm, "gcp.json"));
    const struct machine *m   = named(&all, "a2-highgpu-8g");
    /* 96 vCPUs, 680 GiB, 8 GPUs of us-central1; Tokyo's cheaper GPU and the commitment are not it */
    CHECK_NEAR(m->on_demand_usd_h, 96 * 0.031611 + 680 * 0.004237 + 8 * 2.933908, 1e-9);
    CHECK_NEAR(m->spot_usd_h, 96 * 0.0158 + 680 * 0.0021 + 8 * 1.5, 1e-9);
    CHECK(!is_there(&all, "c3-highcpu-22")); /* its memory has no SKU here */
}

TEST(azure_items_give_spot_and_reservations_by_the_hour)
{
    struct imported all = import(perm, "azure", "x", STR(""), sample(perm, "azure.json"));
    CHECK_EQ(all.count, 1);
    CHECK_EQ(all.passed_over, 1); /* D2s_v3 */
    const struct machine *m = &all.machines[0];
    CHECK_STR(m->name, "NC24ads_A100_v4");
    CHECK_EQ(m->on_demand_usd_h, 3.673);
    CHECK_EQ(m->spot_usd_h, 1.2);
    CHECK_NEAR(m->reserved_1y_usd_h, 2.35, 1e-9);
    CHECK_NEAR(m->reserved_3y_usd_h, 1.35, 1e-9);
}

TEST(skypilot_spot_is_the_median_of_the_zones)
{
    struct imported all =
        import(perm, "skypilot", "v8/aws/vms.csv", STR(""), sample(perm, "skypilot_aws.csv"));
    const struct machine *m = named(&all, "p4d.24xlarge");
    CHECK_EQ(all.count, 3);
    CHECK_EQ(all.passed_over, 1); /* Trainium */
    CHECK_EQ(m->spot_usd_h, 14);
    CHECK_EQ(m->spot_min_usd_h, 12);
    CHECK_EQ(m->spot_max_usd_h, 16);
    CHECK_EQ(m->on_demand_usd_h, 21.957642);
    CHECK_STR(named(&all, "g6.4xlarge")->gpu, "L4-24");
    CHECK_STR(named(&all, "m7i.large")->cpu, "sapphire-rapids");
    CHECK_EQ(m->fact.as_of_day, 20000);
}

TEST(skypilot_adds_the_gpus_that_gcp_prices_apart)
{
    struct imported all =
        import(perm, "skypilot", "v8/gcp/vms.csv", STR(""), sample(perm, "skypilot_gcp.csv"));
    CHECK_NEAR(named(&all, "a2-highgpu-1g")->on_demand_usd_h, 0.73948 + 2.933908, 1e-12);
    CHECK_NEAR(named(&all, "a2-highgpu-1g")->spot_usd_h, 0.36975 + 1.75, 1e-12);
    CHECK(!is_there(&all, "a2-highgpu-8g")); /* no price of eight GPUs */
    CHECK_EQ(named(&all, "c3-highcpu-22")->on_demand_usd_h, 0.9356);
    CHECK_EQ(named(&all, "a2-highgpu-2g")->gpus, 2); /* new to the catalogue: by its name */
    CHECK_NEAR(named(&all, "a2-highgpu-2g")->on_demand_usd_h, 1.47895 + 5.867816, 1e-12);
}

TEST(imported_rows_join_a_users_file_and_keep_what_it_said)
{
    struct imported all = import(perm, "aws", "x", STR(""), sample(perm, "aws.json"));
    struct str      before =
        STR("provider,instance,region,own_usd_h,on_demand_usd_h\naws,p4d.24xlarge,us,12,99\n");
    struct str        text;
    struct err        err;
    struct catalogue *c = catalogue_new(perm);
    CHECK_EQ(prices_merge_text(perm, STR("p"), before, all.machines, all.count, &text, &err),
             STATUS_OK);
    CHECK_EQ(catalogue_merge(c, perm, STR("p"), text, &err), STATUS_OK);
    const struct machine *m = catalogue_machine(c, STR("aws"), STR("p4d.24xlarge"));
    CHECK_EQ(m->own_usd_h, 12);
    CHECK_EQ(m->on_demand_usd_h, 21.957642);
    CHECK_EQ(m->spot_usd_h, 16.44); /* the catalogue's: the list said nothing of spot */
    CHECK_NEAR(reserved_break_even(m, PRICE_RESERVED_1Y), 14.5 / 21.957642, 1e-15);
    CHECK_STR(day_text(perm, price_origin(m, PRICE_ON_DEMAND).as_of_day), "2026-11-03");
    CHECK_STR(price_origin(m, PRICE_ON_DEMAND).source, "imported from aws");
    CHECK_STR(day_text(perm, price_origin(m, PRICE_SPOT).as_of_day), "2026-08-22");
    CHECK_STR(str_sub(price_origin(m, PRICE_SPOT).source, 0, 8), "skypilot");
    CHECK_EQ(price_origin(m, PRICE_OWN).as_of_day, DAY_UNKNOWN); /* as the user's file has it */
}

/* A second list takes its figures from the row of the first, which keeps the others with its date, or goes. */
TEST(a_list_leaves_prices_that_it_does_not_have_as_old_as_they_were)
{
    struct imported sky =
        import(perm, "skypilot", "v8/aws/vms.csv", STR(""), sample(perm, "skypilot_aws.csv"));
    struct imported   aws = import(perm, "aws", "x", STR(""), sample(perm, "aws.json"));
    struct str        one, two, three;
    struct err        err;
    struct catalogue *c = catalogue_new(perm);
    CHECK_EQ(prices_merge_text(perm, STR("p"), STR(""), sky.machines, sky.count, &one, &err),
             STATUS_OK);
    CHECK_EQ(prices_merge_text(perm, STR("p"), one, aws.machines, aws.count, &two, &err),
             STATUS_OK);
    CHECK_EQ(prices_merge_text(perm, STR("p"), two, aws.machines, aws.count, &three, &err),
             STATUS_OK);
    CHECK_STR(three, str_z(perm, two)); /* again: nothing grows */
    CHECK_EQ(catalogue_merge(c, perm, STR("p"), two, &err), STATUS_OK);
    const struct machine *m = catalogue_machine(c, STR("aws"), STR("p4d.24xlarge"));
    CHECK_EQ(m->spot_usd_h, 14);
    CHECK_EQ(m->spot_min_usd_h, 12);
    CHECK_EQ(price_origin(m, PRICE_SPOT).as_of_day, 20000);
    CHECK_STR(price_origin(m, PRICE_SPOT).source, "imported from skypilot");
    CHECK_STR(day_text(perm, price_origin(m, PRICE_ON_DEMAND).as_of_day), "2026-11-03");
    CHECK_EQ(m->fact.as_of_day, 20000); /* of the whole: as old as its oldest price */
}

TEST(what_is_no_price_list_is_refused)
{
    static const char *const texts[][2] = {
        { "aws", "[]" },
        { "aws", "{\"products\": {\"a\": 1, \"b\"" },
        { "aws", "{\"products\": {\"a\": {\"x\": nonsense}}}" },
        { "gcp", "{\"items\": []}" },
        { "azure", "" },
        { "skypilot", "a,b\n1,2\n" },
        { "skypilot", "" },
        { "spotty", "{}" },
    };
    for (i64 i = 0; i < COUNT_OF(texts); i++) {
        struct import   how = { .format = str_of(texts[i][0]) };
        struct imported out;
        struct err      err = { 0 };
        CHECK_EQ(prices_import(catalogue_new(perm), &how, STR("aws/f"), str_of(texts[i][1]), perm,
                               &out, &err),
                 STATUS_USAGE);
        CHECK(err.text[0]);
    }
}

TEST(json_walk_gives_members_as_text)
{
    struct json_walk w;
    struct str       key, value;
    struct err       err  = { 0 };
    struct str       text = STR(" {\"a\" : [1, {\"}\": \"]\\\"\"}] , \"b\":12e3,\"c\": \"x\" }");
    CHECK_EQ(json_walk_open(&w, text, &err), STATUS_OK);
    CHECK_EQ(json_walk_next(&w, &key, &value, &err), STATUS_OK);
    CHECK_STR(key, "a");
    CHECK_STR(value, "[1, {\"}\": \"]\\\"\"}]");
    CHECK_EQ(json_walk_next(&w, &key, &value, &err), STATUS_OK);
    CHECK_STR(value, "12e3");
    CHECK_EQ(json_walk_next(&w, &key, &value, &err), STATUS_OK);
    CHECK_STR(value, "\"x\"");
    CHECK_EQ(json_walk_next(&w, &key, &value, &err), STATUS_NO);
    CHECK_EQ(json_walk_find(text, STR("b"), &value, &err), STATUS_OK);
    CHECK_STR(value, "12e3");
    CHECK_EQ(json_walk_find(text, STR("d"), &value, &err), STATUS_NO);
    CHECK_EQ(json_walk_find(STR("{\"a\": [1, 2"), STR("d"), &value, &err), STATUS_USAGE);
    CHECK_EQ(json_walk_find(STR("{\"a\" 1}"), STR("d"), &value, &err), STATUS_USAGE);
    CHECK_EQ(json_walk_find(STR("{\"a\": ]}"), STR("d"), &value, &err), STATUS_USAGE);
    CHECK_EQ(json_walk_find(STR("12"), STR("d"), &value, &err), STATUS_USAGE);
}
