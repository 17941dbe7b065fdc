/* region.c - which prices are those of a region, and whose region it is by its name. */
#include "plan/catalogue.h"

/* How the clouds of the catalogue name their regions. Another's may have any name. */
enum form { FORM_DASH_NUMBER, FORM_NUMBER, FORM_WORD }; /* us-east-1, us-central1, eastus */
static const struct {
    struct str provider;
    enum form  form;
} clouds[] = { { STR_INIT("aws"), FORM_DASH_NUMBER },
               { STR_INIT("lambda"), FORM_DASH_NUMBER },
               { STR_INIT("gcp"), FORM_NUMBER },
               { STR_INIT("azure"), FORM_WORD } };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool has_form(enum form form, struct str region)
{
    i64 end = region.len;
    if (form == FORM_WORD) return str_find(region, '-') < 0;
    while (end > 0 && is_digit(region.data[end - 1])) end--;
    if (end == region.len) return true; /* the beginning of a name: us, us-east */
    return end > 0 && (region.data[end - 1] == '-') == (form == FORM_DASH_NUMBER);
}

bool region_is_of(struct str provider, struct str region)
{
    for (i64 i = 0; i < COUNT_OF(clouds); i++)
        if (str_eq(clouds[i].provider, provider)) return has_form(clouds[i].form, region);
    return true;
}

bool region_is_whole(struct str provider, struct str region)
{
    bool numbered = false;
    for (i64 i = 0; i < COUNT_OF(clouds); i++)
        numbered |= str_eq(clouds[i].provider, provider) && clouds[i].form != FORM_WORD;
    if (!region.len || str_eq(region, STR("any")) || !region_is_of(provider, region)) return false;
    return !numbered || is_digit(region.data[region.len - 1]);
}

struct str region_name(struct str region)
{
    return str_ends(region, STR("-")) ? str_sub(region, 0, region.len - 1) : region;
}

bool region_begins(struct str region, struct str prefix)
{
    struct str rest = str_sub(region, MIN(prefix.len, region.len), region.len);
    return str_starts(region, prefix) && str_starts(rest, STR("-")) &&
           !str_starts(rest, STR("-gov")); /* not sold to everybody */
}

bool machine_is_in(const struct machine *m, struct str region)
{
    struct str asked = region_name(region);
    if (str_eq(m->region, asked) || str_eq(m->region, STR("any"))) return true;
    if (region_begins(m->region, asked)) return true;
    return region_begins(asked, m->region) && region_is_of(m->provider, asked);
}

bool region_is_known(const struct catalogue *c, struct str region)
{
    for (i64 i = 0; i < c->machine_count; i++)
        if (machine_is_in(&c->machines[i], region) && !str_eq(c->machines[i].region, STR("any")))
            return true;
    return false;
}

enum status region_refuse(const struct catalogue *c, struct str region, struct str provider,
                          struct err *err)
{
    const struct machine *there = NULL;
    for (i64 i = 0; i < c->machine_count && !there; i++)
        if (str_eq(c->machines[i].region, region)) there = &c->machines[i];
    if (provider.len && !region_is_of(provider, region_name(region)))
        return err_set(err, STATUS_USAGE, "--region %.*s: %.*s has no region of that name%s%.*s",
                       (int)MIN(region.len, 40), region.data, STR_ARG(provider),
                       there ? "; it is one of " : "", STR_ARG(there ? there->provider : STR("")));
    return err_set(err, STATUS_USAGE,
                   "--region %.*s: the catalogue has no price there%s%.*s; `frugal prices import` "
                   "adds regions",
                   (int)MIN(region.len, 40), region.data, provider.len ? " for " : "",
                   STR_ARG(provider));
}
