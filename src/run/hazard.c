/* hazard.c - the Weibull law of machines' lives: its integrals, its fit, and the saves it asks for. */
#include "run/hazard.h"
#include <math.h>

enum { EVENTS_FOR_SHAPE = 20, HALVINGS = 60, SERIES_MAX = 500 };

/* Ten spot traces of 2023 (V100, r5: skypilot-org/spot-traces) had means of 0.8 to 8.5 h and shapes of 0.57 to 0.85. */
const struct hazard hazard_prior = { 0.7, 8533 }; /* a mean of 3 h */

/* Assumed, not measured: a reboot, a kill or a fault each month. Hardware alone fails less often: on 16,384 GPUs, eight
 * to a node, 419 unexpected interruptions in 54 days (Llama Team 2024, arXiv 2407.21783, section 3.3.4) are one in 264
 * days for each node. Too short a life costs little: saves are sqrt(264 / 30) = 3 times as frequent as they need be. */
const struct hazard hazard_lasting = { 1, 30 * 24 * 3600.0 };

static const f64 prior_events = 2;    /* what the prior is worth */
static const f64 landing_max  = 0.95; /* notices are never trusted beyond this */

struct hazard hazard_of_mean(f64 mean_s, f64 shape)
{
    return (struct hazard){ shape, mean_s / tgamma(1 + 1 / shape) };
}

/* pow, whose time a plan's search is mostly made of; machines that fail at any age alike need none. */
static f64 power(f64 x, f64 by) { return by == 1 ? x : pow(x, by); }

f64 hazard_mean_s(struct hazard h) { return h.scale_s * tgamma(1 + 1 / h.shape); }

f64 hazard_survival(struct hazard h, f64 age_s)
{
    return age_s > 0 ? exp(-power(age_s / h.scale_s, h.shape)) : 1;
}

f64 hazard_age_s(struct hazard h, f64 alive) { return h.scale_s * pow(-log(alive), 1 / h.shape); }

/* The lower incomplete gamma function over Gamma(a + 1), by its series: all terms are positive. */
static f64 gamma_series(f64 a, f64 x)
{
    f64 term = exp(a * log(x) - x - lgamma(a + 1)), sum = term;
    for (i32 n = 1; n < SERIES_MAX && term > 1e-16 * sum; n++) sum += term *= x / (a + n);
    return sum;
}

/* The integral of the survival up to the age: Gamma(1 + 1/k, x) of x = (age / scale)^k. */
f64 hazard_lived_s(struct hazard h, f64 age_s)
{
    f64 x = age_s > 0 ? power(age_s / h.scale_s, h.shape) : 0;
    if (x < 1e-12) return age_s;         /* nobody dies before */
    if (x > 50) return hazard_mean_s(h); /* nobody is left: e^-50 */
    return hazard_mean_s(h) * gamma_series(1 / h.shape, x);
}

/* --- the fit --- */

/* What the log-likelihood's derivative by the shape is made of. */
struct slope {
    f64 events, logs, powers, weighted;
};

static void slope_add(struct slope *s, f64 age_s, bool interrupted, f64 shape)
{
    f64 t = MAX(age_s, 1), p = pow(t, shape);
    s->powers += p;
    s->weighted += p * log(t);
    s->events += interrupted;
    if (interrupted) s->logs += log(t);
}

/* That derivative, over the number of interruptions: falls. The prior's two stand at its quartiles: forty lives of one
 * length alone would have the largest shape there is, and under that law the prior's mean would outweigh them. */
static f64 shape_slope(const struct lifetime *lives, i64 count, f64 shape)
{
    struct slope s = { 0 };
    for (i64 i = 0; i < count; i++) slope_add(&s, lives[i].age_s, lives[i].interrupted, shape);
    slope_add(&s, hazard_age_s(hazard_prior, 0.75), true, shape);
    slope_add(&s, hazard_age_s(hazard_prior, 0.25), true, shape);
    return 1 / shape + s.logs / s.events - s.weighted / s.powers;
}

static f64 shape_of(const struct lifetime *lives, i64 count)
{
    f64 low = 0.1, high = 10;
    for (i32 i = 0; i < HALVINGS; i++) {
        f64 middle = (low + high) / 2;
        if (shape_slope(lives, count, middle) > 0) low = middle;
        else high = middle;
    }
    return low;
}

/* Lives that did not end in an interruption count too: without them the hazard would be overstated,
 * since most runs are not interrupted. */
struct hazard hazard_fit(const struct lifetime *lives, i64 count)
{
    struct hazard h      = hazard_prior;
    f64           events = 0, powers = 0;
    for (i64 i = 0; i < count; i++) events += lives[i].interrupted;
    if (events >= EVENTS_FOR_SHAPE) h = hazard_of_mean(hazard_mean_s(h), shape_of(lives, count));
    for (i64 i = 0; i < count; i++) powers += pow(MAX(lives[i].age_s, 1), h.shape);
    powers += prior_events * pow(h.scale_s, h.shape);
    h.scale_s = pow(powers / (prior_events + events), 1 / h.shape);
    return h;
}

/* --- saves --- */

/* A save every sqrt(2 stall / hazard) seconds is the best where the hazard stays (Young 1974). It
 * falls from infinity here, so saves are counted instead: up to age t they are the integral of
 * sqrt(hazard / (2 stall)), which is rate x t^m with m = (shape + 1) / 2. A notice that leaves time
 * for a save makes the work between two of them at risk only in the other cases. */
f64 hazard_save_due_s(struct hazard h, const struct save_costs *c, f64 age_s)
{
    f64 stall = MAX(c->stall_s, 1e-3) / (1 - MIN(MAX(c->landing, 0), landing_max));
    f64 m     = (h.shape + 1) / 2;
    f64 rate  = sqrt(2 * h.shape / (stall * power(h.scale_s, h.shape))) / (h.shape + 1);
    f64 due   = power(power(MAX(age_s, 0), m) + 1 / rate, 1 / m);
    f64 most  = c->interval_max_s > 0 ? age_s + MAX(c->interval_max_s, c->persist_s) : INFINITY;
    return MIN(MAX(due, age_s + c->persist_s), most);
}
