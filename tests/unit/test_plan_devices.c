/* test_plan_devices.c - the machines that a plan may choose: of one cloud or all, and this one behind them. */
#include "harness.h"
#include "job/plan_devices.h"
#include "job/predict.h"
#include "support/folder.h"
#include <math.h>
#include <stdlib.h>

/* Neither prices nor rates of the user's own. */
static struct str new_home(struct arena *perm)
{
    struct str home = folder_new(perm);
    setenv("XDG_STATE_HOME", str_z(perm, home), 1);
    setenv("XDG_CONFIG_HOME", str_z(perm, home), 1);
    unsetenv("FRUGAL_RUN_LEDGER");
    return home;
}

TEST(a_cloud_has_its_own_machines_alone)
{
    struct plan_devices all, gcp, none;
    struct plan_notes   notes = { 0 };
    struct plan_where   where = { .usd_hour = NAN };
    struct err          err;
    new_home(perm);
    CHECK_EQ(plan_devices_open(&all, os_real(), &where, &notes, perm, &err), STATUS_OK);
    where.cloud = STR("gcp");
    where.here  = true; /* but a cloud is named */
    CHECK_EQ(plan_devices_open(&gcp, os_real(), &where, &notes, perm, &err), STATUS_OK);
    CHECK(gcp.count > 0);
    CHECK(gcp.count < all.count);
    CHECK_EQ(gcp.rented_count, gcp.count);
    CHECK_EQ(gcp.here_count, 0);
    for (i64 i = 0; i < gcp.count; i++) CHECK_STR(gcp.items[i].row->provider, STR("gcp"));
    where.cloud = STR("nobody");
    CHECK_EQ(plan_devices_open(&none, os_real(), &where, &notes, perm, &err), STATUS_USAGE);
    CHECK(str_starts(str_of(err.text), STR("the catalogue has no machine of nobody")));
}

/* Its kernels were never timed: the note says so; once rates.csv is there, they are that file's. */
TEST(this_machine_comes_last_with_rates_of_its_own_where_there_are_some)
{
    struct os          *os   = os_real();
    struct str          home = new_home(perm);
    struct plan_devices d;
    struct plan_notes   before = { 0 }, after = { 0 };
    struct plan_where   where = { .here = true, .usd_hour = 0.25 };
    struct rates        r     = *rates_of_cpus();
    struct err          err;
    CHECK_EQ(plan_devices_open(&d, os, &where, &before, perm, &err), STATUS_OK);
    CHECK(d.count > d.rented_count);
    const struct device *here = &d.items[d.rented_count];
    CHECK(here->row == NULL);
    CHECK_EQ(here->usd_h[PRICE_OWN], 0.25);
    CHECK(here->target.flops_s[DT_F32] > 0);
    CHECK(before.count > 0);
    CHECK(str_starts(before.text[before.count - 1], STR("this machine: uses rates measured on")));
    plan_devices_close(&d);

    r.peak[RATE_F32].flops = 12340e6; /* as many digits as are written */
    struct str path        = predict_rates_path(os, perm);
    CHECK(str_starts(path, home));
    CHECK_EQ(os->make_dir(os, str_sub(path, 0, path.len - STR("/rates.csv").len), &err), STATUS_OK);
    CHECK_EQ(os_publish(os, path, rates_print(&r, perm), scratch, &err), STATUS_OK);
    CHECK_EQ(plan_devices_open(&d, os, &where, &after, perm, &err), STATUS_OK);
    CHECK_EQ(after.count, before.count - 1);
    CHECK_NEAR(d.items[d.rented_count].target.flops_s[DT_F32], 12340e6, 1);
    plan_devices_close(&d);
}
