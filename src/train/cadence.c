/* cadence.c - checkpoint.every as it is written, and as it is meant at this moment. */
#include "train/cadence.h"
#include "base/digits.h"
#include <math.h>

/* Beyond it next to nothing is saved, and whoever looks expects something on the disk. */
static const f64 most_s  = 30 * 60;
static const f64 first_s = 5;

enum status cadence_parse(struct str text, struct cadence *out, struct err *err)
{
    static const struct {
        struct str        word;
        enum cadence_unit unit;
        f64               factor;
    } units[]     = { { STR_INIT(""), EVERY_STEPS, 1 },       { STR_INIT("steps"), EVERY_STEPS, 1 },
                      { STR_INIT("step"), EVERY_STEPS, 1 },   { STR_INIT("s"), EVERY_SECONDS, 1 },
                      { STR_INIT("min"), EVERY_SECONDS, 60 }, { STR_INIT("m"), EVERY_SECONDS, 60 },
                      { STR_INIT("h"), EVERY_SECONDS, 3600 } };
    i64        at = 0, row = 0; /* of the unit */
    f64        number;
    struct str unit;
    *out = (struct cadence){ EVERY_AUTO, 0 };
    text = str_trim(text);
    if (str_eq(text, STR("auto"))) return STATUS_OK;
    while (at < text.len && str_find(STR("0123456789._e"), text.data[at]) >= 0) at++;
    unit = str_trim(str_sub(text, at, text.len));
    while (row < COUNT_OF(units) && !str_eq(unit, units[row].word)) row++;
    bool ok = row < COUNT_OF(units) && str_f64(str_sub(text, 0, at), &number) && number > 0;
    if (ok && units[row].unit == EVERY_STEPS) ok = number == rint(number);
    if (!ok)
        return err_set(err, STATUS_USAGE,
                       "checkpoint.every is %.*s; expected auto, steps like 500, or a time like "
                       "10min, 30s or 2h",
                       (int)MIN(text.len, 60), text.data);
    *out = (struct cadence){ units[row].unit, number * units[row].factor };
    return STATUS_OK;
}

f64 cadence_seconds(struct cadence i, const struct cadence_facts *f)
{
    if (i.unit == EVERY_STEPS) return INFINITY;
    if (i.unit == EVERY_SECONDS) return i.value;
    if (isnan(f->stall_s) || isnan(f->persist_s))
        return MIN(first_s * exp2((f64)MIN(f->failed, 30)), most_s);
    struct save_costs c = { .stall_s        = f->stall_s,
                            .persist_s      = f->persist_s,
                            .interval_max_s = most_s };
    return hazard_save_due_s(f->hazard, &c, f->age_s) - f->age_s;
}

struct str cadence_reason(struct arena *perm, const struct cadence_facts *f)
{
    return str_fmt(
        perm,
        "every %s s: a save pauses the run for %s s and is complete after %s s, and machines "
        "like this last %s h on average (this one has been up for %s h)",
        DIGITS(cadence_seconds((struct cadence){ EVERY_AUTO, 0 }, f)), DIGITS(f->stall_s),
        DIGITS(f->persist_s), DIGITS(hazard_mean_s(f->hazard) / 3600), DIGITS(f->age_s / 3600));
}
