/* test_catalogue.c - the compiled-in facts are whole, a user's file lies over them, unknown stays
 * unknown, and bills follow the providers' rules. */
#include "base/rng.h"
#include "harness.h"
#include "plan/table.h"
#include "support/sim_os.h"

static struct catalogue *laid(struct arena *perm, const char *text)
{
    struct catalogue *c   = catalogue_new(perm);
    struct err        err = { 0 };
    if (catalogue_merge(c, perm, STR("p.csv"), str_of(text), &err)) printf("\n  %s", err.text);
    CHECK_EQ(err.status, STATUS_OK);
    return c;
}

static const char *refused(struct arena *perm, const char *text)
{
    struct err *err = NEW(perm, struct err, 1);
    CHECK_EQ(catalogue_merge(catalogue_new(perm), perm, STR("p.csv"), str_of(text), err),
             STATUS_USAGE);
    return err->text;
}

TEST(every_machine_has_its_gpu_or_cpu_a_price_a_source_and_a_date)
{
    struct catalogue *c      = catalogue_new(perm);
    i64               on_cpu = 0;
    CHECK(c->machine_count >= 60);
    for (i64 i = 0; i < c->machine_count; i++) {
        const struct machine *m = &c->machines[i];
        CHECK(m->gpu.len ? catalogue_gpu(c, m->gpu) && m->gpus >= 1 : m->gpus == 0);
        CHECK(m->gpu.len || catalogue_cpu(c, m->cpu));
        CHECK(m->on_demand_usd_h > 0);
        CHECK(m->fact.as_of_day > 19000);
        CHECK(m->fact.source.len);
        CHECK(isnan(m->spot_usd_h) || m->spot_usd_h <= m->on_demand_usd_h);
        on_cpu += m->gpus == 0;
        for (i64 j = 0; j < i; j++)
            CHECK(!str_eq(c->machines[j].name, m->name) ||
                  !str_eq(c->machines[j].provider, m->provider) ||
                  !str_eq(c->machines[j].region, m->region));
    }
    CHECK(on_cpu >= 8);
}

TEST(every_provider_has_a_billing_rule_and_every_rule_and_class_a_source)
{
    struct catalogue *c = catalogue_new(perm);
    for (i64 i = 0; i < c->machine_count; i++)
        CHECK_STR(catalogue_billing(c, c->machines[i].provider)->provider, c->machines[i].provider);
    for (i64 i = 0; i < c->billing_count; i++) {
        CHECK(c->billing[i].granularity_s > 0);
        CHECK(c->billing[i].fact.source.len);
    }
    for (i64 i = 0; i < c->storage_count; i++) {
        CHECK(c->storage[i].gb_month_usd > 0);
        CHECK(c->storage[i].fact.source.len);
        CHECK(c->storage[i].fact.as_of_day > 19000);
    }
    const struct billing *other = catalogue_billing(c, STR("nobody"));
    CHECK_EQ(other->granularity_s, 1);
    CHECK_STR(table_assumed(&table_billing, other, perm),
              "granularity_s, minimum_s, free_interrupted_s");
}

TEST(usable_memory_is_measured_or_nominal_less_seven_per_cent_and_marked)
{
    struct catalogue *c = catalogue_new(perm);
    for (i64 i = 0; i < c->gpu_count; i++) {
        const struct gpu *g = &c->gpus[i];
        CHECK(g->memory_usable_gib > 0.9 * g->memory_gib);
        CHECK(g->memory_usable_gib < g->memory_gib);
        CHECK(g->fp32_tflops > 0);
        CHECK(g->hbm_tb_s > 0);
        CHECK(g->fact.source.len);
    }
    const struct gpu *l4 = catalogue_gpu(c, STR("L4-24"));
    CHECK_NEAR(l4->memory_usable_gib, 24 * 0.93, 1e-12);
    CHECK_STR(gpu_assumed(perm, l4), "memory_usable_gib");
    CHECK_EQ(catalogue_gpu(c, STR("L5-24")), NULL);
}

TEST(what_is_not_known_is_nan_and_stays_so)
{
    struct catalogue     *c      = catalogue_new(perm);
    const struct machine *lambda = catalogue_machine(c, STR("lambda"), STR("gpu_1x_h100_sxm"));
    CHECK(isnan(lambda->vcpus));
    CHECK(isnan(machine_usd_h(lambda, PRICE_SPOT)));
    CHECK(isnan(spot_discount(lambda)));
    CHECK(isnan(reserved_break_even(lambda, PRICE_RESERVED_1Y)));
    CHECK(
        isnan(billed_dollars(catalogue_billing(c, STR("lambda")), lambda->spot_usd_h, 60, false)));
    CHECK(isnan(catalogue_gpu(c, STR("T4-16"))->bf16_dense_tflops));
}

TEST(a_users_row_replaces_what_it_gives_and_marks_what_it_assumes)
{
    struct catalogue *c =
        laid(perm, "instance,provider,region,own_usd_h,net_gbit_s,disk_gb,as_of\r\n"
                   "p4d.24xlarge,aws,us,12.5,400,~7500,2026-11-01\r\n"
                   "\"p4d.24xlarge\",aws,eu-west-1,,,,\r\n");
    const struct machine *m = catalogue_machine(c, STR("aws"), STR("p4d.24xlarge"));
    CHECK_EQ(m->own_usd_h, 12.5);
    CHECK_EQ(machine_usd_h(m, PRICE_OWN), 12.5);
    CHECK_EQ(m->on_demand_usd_h, 21.96);
    CHECK_EQ(m->disk_gb, 7500);
    CHECK_STR(machine_assumed(perm, m), "disk_gb"); /* the network was, and is not any more */
    /* each price has its own date, the row that of the oldest */
    CHECK_STR(day_text(perm, price_origin(m, PRICE_OWN).as_of_day), "2026-11-01");
    CHECK_STR(day_text(perm, price_origin(m, PRICE_ON_DEMAND).as_of_day), "2026-08-22");
    CHECK_STR(day_text(perm, m->fact.as_of_day), "2026-08-22");
    CHECK_EQ(price_origin(m, PRICE_RESERVED_1Y).as_of_day, DAY_UNKNOWN);
    const struct machine *eu = &c->machines[c->machine_count - 1];
    CHECK_STR(eu->region, "eu-west-1");
    CHECK(isnan(eu->on_demand_usd_h)); /* the hardware is known there too, the price is not */
    CHECK(isnan(eu->own_usd_h));
    CHECK_EQ(eu->gpus, 8);
    CHECK_EQ(eu->ram_gib, 1152);
    CHECK_STR(machine_assumed(perm, eu), "net_gbit_s");
}

/* What renews one price, or none, makes no other price new. */
TEST(a_price_is_as_old_as_the_row_that_gives_it)
{
    struct catalogue *c =
        laid(perm, "provider,instance,region,on_demand_usd_h,spot_usd_h,as_of,source\n"
                   "aws,p4d.24xlarge,us,,14,2026-09-09,a\n"
                   "aws,p4d.24xlarge,us,20,,2026-11-15,b\n"
                   "aws,g5.xlarge,us,,,2026-11-15,c\n");
    const struct machine *m = catalogue_machine(c, STR("aws"), STR("p4d.24xlarge"));
    i32                   today;
    CHECK(day_parse(STR("2026-12-09"), &today)); /* 91 and 24 days later */
    CHECK_EQ(m->on_demand_usd_h, 20);
    CHECK_EQ(m->spot_usd_h, 14);
    CHECK(isnan(m->spot_min_usd_h)); /* of another day's median */
    CHECK_STR(price_origin(m, PRICE_SPOT).source, "a");
    CHECK_STR(price_origin(m, PRICE_ON_DEMAND).source, "b");
    CHECK_EQ(price_age_days(m, PRICE_SPOT, today), 91);
    CHECK(price_is_old(m, PRICE_SPOT, today));
    CHECK(!price_is_old(m, PRICE_ON_DEMAND, today));
    CHECK_STR(m->fact.source, "a");
    const struct machine *same = catalogue_machine(c, STR("aws"), STR("g5.xlarge"));
    CHECK_STR(day_text(perm, same->fact.as_of_day), "2026-08-22");
    CHECK(price_is_old(same, PRICE_ON_DEMAND, today));
}

TEST(a_users_row_adds_a_machine)
{
    i64               before = catalogue_new(perm)->machine_count;
    struct catalogue *c      = laid(perm, "provider,instance,gpu,gpus,own_usd_h,reserved_1y_usd_h,"
                                               "on_demand_usd_h\nus,tower,RTX4090-24,2,0.2,0.3,0.5\n");
    CHECK_EQ(c->machine_count, before + 1);
    const struct machine *m = catalogue_machine(c, STR("us"), STR("tower"));
    CHECK_EQ(m->gpus, 2);
    CHECK_NEAR(reserved_break_even(m, PRICE_RESERVED_1Y), 0.6, 1e-15);
    CHECK_EQ(m->fact.as_of_day, DAY_UNKNOWN);
}

TEST(a_region_is_a_whole_name_or_its_beginning_up_to_a_dash)
{
    static const struct {
        const char *provider, *row, *asked;
        bool        in;
    } cases[] = {
        { "aws", "us", "us", true },
        { "aws", "us", "us-", true },
        { "aws", "us", "us-east-1", true },
        { "aws", "us", "us-east", true },
        { "aws", "us", "us-east1", false }, /* gcp's */
        { "aws", "us", "us-central1", false },
        { "aws", "us", "us-gov-west-1", false },
        { "aws", "us", "u", false },
        { "aws", "us", "usa", false },
        { "aws", "us-east-1", "us-east", true },
        { "aws", "us-east-1", "us-east-", true },
        { "aws", "us-east-1", "us-e", false },
        { "aws", "us-east-1", "us-east-10", false },
        { "gcp", "us-central1", "us-central1", true },
        { "gcp", "us-central1", "us", true },
        { "gcp", "us", "us-east-1", false }, /* aws's */
        { "azure", "eastus", "eastus", true },
        { "azure", "eastus", "us", false },
        { "mine", "us", "us-anything9", true },
        { "runpod", "any", "us-east-1", true },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        struct machine m = { .provider = str_of(cases[i].provider),
                             .region   = str_of(cases[i].row) };
        if (machine_is_in(&m, str_of(cases[i].asked)) == cases[i].in) continue;
        printf("\n  %s %s: %s", cases[i].provider, cases[i].row, cases[i].asked);
        CHECK(!"as the row says");
    }
}

TEST(a_bad_file_is_refused_with_file_line_and_reason)
{
    CHECK(strstr(refused(perm, ""), "p.csv: there is no header"));
    CHECK(strstr(refused(perm, "provider,price\n"), "the column \"price\" is not known"));
    CHECK(strstr(refused(perm, "gpu,gpu\n"), "given twice"));
    CHECK(strstr(refused(perm, "provider,instance,vcpus\na,b,many\n"),
                 "p.csv:2: \"many\" in column vcpus should be a number of 0 or more"));
    CHECK(strstr(refused(perm, "provider,instance,vcpus\na,b,-1\n"), "of 0 or more"));
    CHECK(strstr(refused(perm, "provider,instance,gpus\na,b,1.5\n"), "a whole number"));
    CHECK(strstr(refused(perm, "provider,instance,as_of\na,b,2026-02-30\n"), "a date like"));
    CHECK(strstr(refused(perm, "provider,instance\na,b,c\n"), "3 fields, but the header has 2"));
    CHECK(
        strstr(refused(perm, "provider,instance,gpu,gpus\na,b,H9,1\n"), "GPU that the catalogue"));
    CHECK(strstr(refused(perm, "provider,instance,cpu\na,b,8086\n"), "CPU that the catalogue"));
    CHECK(strstr(refused(perm, "provider,instance,gpu\na,b,L4-24\n"),
                 "a number of gpus that does not match"));
    CHECK(strstr(refused(perm, "provider,instance,cpu,gpus\na,b,zen4,4\n"), "gpus that does not"));
    CHECK(strstr(refused(perm, "provider,instance\na,b\n"), "neither a gpu nor a cpu"));
    CHECK(strstr(refused(perm, "provider,instance\n,b\n"), "without provider or instance"));
}

TEST(the_users_file_is_where_the_environment_says_and_may_be_absent)
{
    struct sim_os    *sim = sim_os_new(perm);
    struct str        row = STR("provider,instance,region,own_usd_h\naws,g5.xlarge,us,0.4\n");
    struct catalogue *c;
    struct err        err;
    CHECK_STR(catalogue_user_path(&sim->os, perm), "");
    CHECK_EQ(catalogue_open(&sim->os, perm, STR(""), &c, &err), STATUS_OK);
    CHECK_EQ(catalogue_open(&sim->os, perm, STR("none.csv"), &c, &err), STATUS_WORLD);
    sim->env[0][0] = STR("HOME");
    sim->env[0][1] = STR("/h");
    sim->env_count = 1;
    CHECK_STR(catalogue_user_path(&sim->os, perm), "/h/.config/frugal/prices.csv");
    CHECK_EQ(catalogue_open(&sim->os, perm, STR(""), &c, &err), STATUS_OK);
    CHECK(isnan(catalogue_machine(c, STR("aws"), STR("g5.xlarge"))->own_usd_h));
    sim_os_put(sim, STR("/h/.config/frugal/prices.csv"), row);
    CHECK_EQ(catalogue_open(&sim->os, perm, STR(""), &c, &err), STATUS_OK);
    CHECK_EQ(catalogue_machine(c, STR("aws"), STR("g5.xlarge"))->own_usd_h, 0.4);
}

TEST(what_is_written_reads_back_the_same)
{
    struct catalogue *c = catalogue_new(perm), *again = catalogue_new(perm);
    struct textbuf    b = textbuf_new(&scratch), twice;
    struct err        err;
    c->machines[0].fact.source = STR("a, \"b\"\nc");
    table_write_header(&table_machines, &b);
    for (i64 i = 0; i < c->machine_count; i++)
        table_write_row(&table_machines, &b, &c->machines[i]);
    struct str text = textbuf_str(&b);
    CHECK_EQ(catalogue_merge(again, perm, STR("w"), text, &err), STATUS_OK);
    CHECK_EQ(again->machine_count, c->machine_count);
    CHECK_STR(again->machines[0].fact.source, "a, \"b\"\nc");
    twice = textbuf_new(perm);
    table_write_header(&table_machines, &twice);
    for (i64 i = 0; i < c->machine_count; i++)
        table_write_row(&table_machines, &twice, &again->machines[i]);
    CHECK_STR(textbuf_str(&twice), text);
}

/* "From memory" is no source: a price has an address and a date, or is left out. */
TEST(no_price_is_from_memory)
{
    struct catalogue *c = catalogue_new(perm);
    for (i64 i = 0; i < c->machine_count; i++) {
        const struct machine *m       = &c->machines[i];
        struct str            assumed = machine_assumed(perm, m);
        CHECK(m->fact.source.len && m->fact.as_of_day != DAY_UNKNOWN);
        CHECK(!strstr(str_z(perm, assumed), "usd_h"));
    }
    for (i64 i = 0; i < c->storage_count; i++) {
        const struct storage *s = &c->storage[i];
        CHECK(s->fact.as_of_day != DAY_UNKNOWN && !s->fact.assumed);
        CHECK(!strstr(str_z(perm, s->fact.source), "memory"));
        CHECK(strstr(str_z(perm, s->fact.source), ".com/")); /* an address */
    }
    for (i64 i = 0; i < c->billing_count; i++)
        CHECK(!strstr(str_z(perm, c->billing[i].fact.source), "memory"));
}

TEST(bills_by_the_rules)
{
    struct catalogue     *c      = catalogue_new(perm);
    const struct billing *aws    = catalogue_billing(c, STR("aws"));
    const struct billing *gcp    = catalogue_billing(c, STR("gcp"));
    const struct billing *lambda = catalogue_billing(c, STR("lambda"));
    CHECK_EQ(billed_seconds(aws, 0, false), 0);
    CHECK_EQ(billed_seconds(aws, 12, false), 60);
    CHECK_EQ(billed_seconds(aws, 61.2, false), 62);
    CHECK_EQ(billed_seconds(aws, 3599, true), 0);
    CHECK_EQ(billed_seconds(aws, 3600, true), 3600);
    CHECK_EQ(billed_seconds(gcp, 59, true), 59); /* nothing was read: as metered */
    CHECK_EQ(billed_seconds(gcp, 3599, true), 3599);
    CHECK_EQ(billed_seconds(lambda, 61, false), 120);
    CHECK_NEAR(billed_dollars(aws, 36, 100, false), 1, 1e-15);
    /* Longer than an i64 holds as ns (292 years): still billed, and never less than a shorter time. */
    f64 before = 0;
    for (f64 years = 1; years < 1e12; years *= 1.5) {
        f64 up_s = years * 365 * 86400, billed = billed_seconds(lambda, up_s, true);
        CHECK(billed > before);
        CHECK_NEAR(billed / up_s, 1, 60 / up_s + 1e-15);
        before = billed;
    }
    CHECK(isinf(billed_seconds(aws, INFINITY, false)));
    CHECK(isnan(billed_seconds(aws, NAN, true)));
    struct price_row said = { .usd_hour = 36, .granularity_s = 1, .minimum_s = 60 };
    CHECK_EQ(llround(billed_dollars(aws, 36, 61.2, false) * 1e9),
             bill_nusd(&said, 61200000000, false));
    /* 1 TB for three days: in a class with a minimum of 30, thirty are billed */
    struct store_price ia  = store_price_of(catalogue_storage(c, STR("aws"), STR("standard_ia")));
    struct store_price gcs = store_price_of(catalogue_storage(c, STR("gcp"), STR("")));
    CHECK_NEAR(bill_storage_usd(&ia, 1e12, 3), bill_storage_usd(&ia, 1e12, 30), 1e-12);
    CHECK_NEAR(bill_storage_usd(&gcs, 1e12, 365.0 / 12), 20, 1e-9);
}

/* Longer, dearer or not interrupted is never cheaper; and a bill is never below the metered time
 * unless the provider gave the machine away. */
TEST(bills_grow_with_time_and_price)
{
    u64               seed = test_seed();
    struct catalogue *c    = catalogue_new(perm);
    for (u64 i = 0; i < 20000; i++) {
        struct rng_key        key  = { .seed = seed, .step = i };
        const struct billing *rule = &c->billing[rng_u32(key, 0) % (u32)c->billing_count];
        f64                   s = 7200 * rng_uniform(key, 1), more = s + 100 * rng_uniform(key, 2);
        f64  usd_h = 50 * rng_uniform(key, 3), dearer = usd_h + rng_uniform(key, 4);
        bool lost = rng_u32(key, 5) & 1;
        CHECK(billed_seconds(rule, more, lost) >= billed_seconds(rule, s, lost));
        CHECK(billed_dollars(rule, dearer, s, lost) >= billed_dollars(rule, usd_h, s, lost));
        CHECK(billed_seconds(rule, s, false) >= billed_seconds(rule, s, true));
        CHECK(billed_seconds(rule, s, false) >= s);
        CHECK(billed_seconds(rule, s, true) >= s || billed_seconds(rule, s, true) == 0);
    }
}

TEST(days_are_those_of_the_calendar)
{
    i32 day;
    CHECK(day_parse(STR("1970-01-01"), &day));
    CHECK_EQ(day, 0);
    CHECK(day_parse(STR("2000-03-01"), &day));
    CHECK_EQ(day, 11017);
    for (i32 d = 0; d < 80000; d++) {
        struct arena text = *perm;
        CHECK(day_parse(day_text(&text, d), &day));
        CHECK_EQ(day, d);
    }
    CHECK(!day_parse(STR("2025-02-29"), &day));
    CHECK(!day_parse(STR("2025-13-01"), &day));
    CHECK(!day_parse(STR("2025-1-01 "), &day));
}
