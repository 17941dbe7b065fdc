/* machine_price.c - what an hour of the machine and a request to the object store cost, by settings and catalogue. */
#include "backend/ranks/ranks.h"
#include "job/checkpoint_cost.h"
#include "job/job.h"
#include <math.h>

/* "aws/p4d.24xlarge". */
static enum status find_machine(const struct job *j, struct str asked,
                                const struct catalogue **catalogue, const struct machine **out,
                                struct err *err)
{
    struct catalogue *all;
    struct str        name = asked, provider;
    enum status       st   = catalogue_open(j->os, j->perm, STR(""), &all, err);
    if (st) return st;
    str_cut(&name, '/', &provider);
    *catalogue = all;
    *out       = catalogue_machine(all, provider, name);
    if (*out) return STATUS_OK;
    struct str near = machine_nearest(all, name.len ? name : provider, *j->perm);
    i64        i    = 0;
    while (i < all->machine_count && !str_eq(all->machines[i].name, near)) i++;
    if (i == all->machine_count)
        return err_set(err, STATUS_USAGE,
                       "run.machine=%.*s is not in the catalogue; expected CLOUD/MACHINE as in "
                       "`frugal prices`, like aws/g5.xlarge",
                       STR_ARG(asked));
    return err_set(err, STATUS_USAGE,
                   "run.machine=%.*s is not in the catalogue; did you mean %.*s/%.*s? `frugal "
                   "prices` lists all",
                   STR_ARG(asked), STR_ARG(all->machines[i].provider), STR_ARG(near));
}

static enum price price_kind(struct str market)
{
    if (str_eq(market, STR("spot"))) return PRICE_SPOT;
    if (str_eq(market, STR("reserved"))) return PRICE_RESERVED_1Y;
    return str_eq(market, STR("own")) ? PRICE_OWN : PRICE_ON_DEMAND;
}

/* Two prices were named, and one counts. */
static void say_which(const struct job *j, const struct machine *m)
{
    const struct run_config *run   = &j->settings->run;
    f64                      given = j->settings->train.usd_hour;
    enum price               kind  = price_kind(run->market);
    if (!m) {
        if (str_eq(run->market, STR("none"))) return;
        job_say(j, "price: $%g an hour, from train.usd_hour; run.market=%.*s alone has no price",
                given, STR_ARG(run->market));
        return;
    }
    f64 listed = machine_usd_h(m, kind);
    if (isnan(listed) || listed == given) return;
    job_say(j,
            "price: $%g an hour, from train.usd_hour; the catalogue's %s price of %.*s, $%g, is "
            "not used",
            given, price_name(kind), STR_ARG(run->machine), listed);
}

/* Every machine is paid for. A notice takes one of them, and the others cost what they cost: what its provider forgives
 * of that one is not known here, so that the bill is rather too high than too low. */
static void of_all_machines(const struct job *j, struct price_row *out)
{
    if (!j->ranks) return;
    if (j->ranks->machines > 1) out->free_s = 0;
    out->usd_hour               = bill_all_usd_hour(out->usd_hour, j->ranks->machines);
    j->settings->train.usd_hour = out->usd_hour;
}

static enum status price_of_one(const struct job *j, struct price_row *out, struct err *err)
{
    struct run_config      *run   = &j->settings->run;
    struct train_config    *train = &j->settings->train;
    const struct catalogue *all;
    const struct machine   *m;
    bool                    said = !str_eq(run->market, STR("none"));
    *out                         = (struct price_row){ .usd_hour = train->usd_hour,
                                                       .source   = STR("train.usd_hour"),
                                                       .market   = said ? run->market : STR("") };
    if (!run->machine.len && !isnan(train->usd_hour)) say_which(j, NULL);
    if (!run->machine.len) return STATUS_OK;
    enum status st = find_machine(j, run->machine, &all, &m, err);
    if (st) return st;
    struct billing_rule rule = billing_rule_of(catalogue_billing(all, m->provider));
    out->granularity_s       = rule.granularity_s;
    out->minimum_s           = rule.minimum_s;
    out->free_s              = rule.free_s;
    if (!isnan(train->usd_hour)) say_which(j, m);
    if (!isnan(train->usd_hour)) return STATUS_OK;
    enum price kind = price_kind(run->market);
    out->market     = said ? run->market : STR("on-demand");
    out->usd_hour = train->usd_hour = machine_usd_h(m, kind);
    struct price_origin of          = price_origin(m, kind);
    out->source = str_fmt(j->perm, "%.*s %s, %.*s %.*s", STR_ARG(run->machine), price_name(kind),
                          STR_ARG(of.source), STR_ARG(day_or_none(j->perm, of.as_of_day)));
    if (isnan(out->usd_hour))
        job_say(j, "the catalogue has no %s price of %.*s: give train.usd_hour", price_name(kind),
                STR_ARG(run->machine));
    return STATUS_OK;
}

enum status job_price(const struct job *j, struct price_row *out, struct err *err)
{
    enum status st = price_of_one(j, out, err);
    if (!st) of_all_machines(j, out);
    return st;
}

/* What keeping and asking costs there. Within a cloud it is taken to lie in the machine's region, where reading is
 * free of charge; to another cloud's machine it goes over the internet. */
bool job_store_price(const struct job *j, struct str where, struct str class,
                     struct store_price *out)
{
    struct str        provider = str_starts(where, STR("gs://")) ? STR("gcp") : STR("aws");
    struct str        machine = j->settings->run.machine, cloud = STR("");
    struct catalogue *all;
    struct os        *os = j->os;
    bool ours = os->env(os, "AWS_ENDPOINT_URL_S3").len || os->env(os, "AWS_ENDPOINT_URL").len;
    if (ours || catalogue_open(j->os, j->perm, STR(""), &all, NULL)) return false;
    const struct storage *s3 = object_store_class(all, where, class);
    if (!s3) return false;
    *out = store_price_of(s3);
    str_cut(&machine, '/', &cloud);
    if (!cloud.len || str_eq(cloud, provider)) out->egress_gb_usd = 0;
    return true;
}
