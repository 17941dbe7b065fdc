/* stop.c - the policy: a few rules over losses, evaluations and the clock. */
#include "run/stop.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* One bad batch is no divergence: the loss must stay up for some steps. Late in a run the standard
 * deviation is so small that harmless ripples pass any multiple of it, so a part of all that was
 * learned must be lost as well. */
enum { SPIKE_STEPS = 5 };
static const f64 spike_part = 0.25;

/* So far above the loss of the first step no run comes back by itself; and it makes no sense to go
 * back to weights more than a nat above it. The nat is for runs that begin with trained weights. */
static f64 lost_above(const struct stop *s) { return 4 * s->start + 1; }

bool stop_sound(const struct stop *s, f64 eval_loss)
{
    return s->reason != STOP_DIVERGED && !s->high && eval_loss <= s->start + 1;
}

/* A forecast needs a part of the run behind it, and says no twice before it is believed. What the
 * fall of the learning rate brings cannot be seen before it happens: it is credited like four times
 * the steps. Chosen on the recorded curves: docs/decisions/stopping.md. */
enum { DOUBTS = 2 };
static const f64 forecast_part = 0.25, fall_credit = 3;
static const f64 warned_at = 0.95; /* confidence of the warning where none was asked for */

struct str stop_reason_name(enum stop_reason r)
{
    static const struct str names[STOP_REASON_COUNT] = {
        [STOP_NONE] = STR_INIT("none"),         [STOP_END] = STR_INIT("end"),
        [STOP_TARGET] = STR_INIT("target"),     [STOP_PATIENCE] = STR_INIT("patience"),
        [STOP_BUDGET] = STR_INIT("budget"),     [STOP_FORECAST] = STR_INIT("forecast"),
        [STOP_DIVERGED] = STR_INIT("diverged"), [STOP_SIGNAL] = STR_INIT("signal"),
    };
    return names[r];
}

void stop_init(struct stop *s, const struct stop_config *c)
{
    *s = (struct stop){
        .config = *c, .best = NAN, .start = NAN, .first = NAN, .stride = 1, .forecast = { NAN, NAN }
    };
    s->config.limit_s = c->max_seconds; /* until the caller says what dollars allow */
}

__attribute__((format(printf, 4, 5))) static enum stop_action
say(struct stop *s, enum stop_action action, enum stop_reason reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->text, sizeof s->text, format, args);
    va_end(args);
    s->reason = action == STOP_NOW ? reason : STOP_NONE;
    return action;
}

/* Of an evaluation: the longest so far, or what it is expected to take. */
static f64 eval_s(const struct stop *s) { return s->eval_s > 0 ? s->eval_s : s->config.eval_s; }

bool stop_eval_fits(const struct stop *s, f64 elapsed_s)
{
    return !(elapsed_s + eval_s(s) + s->config.save_s > s->config.limit_s);
}

/* Before the cap a run leaves off training for its last evaluation, if that is the smaller part of what
 * the cap allows, and for its last save. */
static f64 kept_back_s(const struct stop *s)
{
    return s->config.save_s + (2 * eval_s(s) <= s->config.limit_s ? eval_s(s) : 0);
}

bool stop_save_fits(const struct stop *s, f64 save_s)
{
    return !(s->elapsed_s + kept_back_s(s) + 2 * save_s > s->config.limit_s);
}

/* --- steps ------------------------------------------------------------------------------------ */

static enum stop_action diverged(struct stop *s, const char *how, i64 step)
{
    const struct stop_config *c = &s->config;
    if (s->rollbacks < c->rollbacks) {
        s->rollbacks++;
        return say(s, STOP_ROLL_BACK, STOP_DIVERGED, "the loss %s after step %lld", how,
                   (long long)step);
    }
    if (c->rollbacks)
        return say(s, STOP_NOW, STOP_DIVERGED,
                   "the loss %s after step %lld, and going back %lld times did not help: try a "
                   "lower train.lr or train.clip=1",
                   how, (long long)step, (long long)c->rollbacks);
    return say(s, STOP_NOW, STOP_DIVERGED,
               "the loss %s after step %lld: a lower train.lr or train.clip=1 usually helps; "
               "train.rollbacks=2 goes back to good weights automatically",
               how, (long long)step);
}

static const char *no_number(f64 loss) { return isnan(loss) ? "is not a number" : "is infinite"; }

/* Has the loss jumped, and stayed up? Losses that jumped do not enter the window. */
static bool spiked(struct stop *s, f64 loss)
{
    f64 sum = 0, squares = 0;
    i64 count = MIN(s->window_count, STOP_WINDOW);
    for (i64 i = 0; i < count; i++) sum += s->window[i];
    f64 mean = sum / (f64)count;
    for (i64 i = 0; i < count; i++) squares += (s->window[i] - mean) * (s->window[i] - mean);
    bool full = count == STOP_WINDOW;
    if (full && isnan(s->first)) s->first = mean;
    f64  far  = loss - mean;
    bool jump = full && far > s->config.spike * sqrt(squares / (f64)count) &&
                far > spike_part * (s->first - mean);
    if (jump || loss > lost_above(s)) {
        s->high++;
    } else {
        s->high                                    = 0;
        s->window[s->window_count++ % STOP_WINDOW] = loss;
    }
    return s->high >= SPIKE_STEPS;
}

/* With what is kept back and the next step, which must fit as well. */
static enum stop_action over(struct stop *s, f64 elapsed_s, f64 kept_s, f64 step_s)
{
    const struct stop_config *c        = &s->config;
    char                      kept[96] = "";
    if (!(elapsed_s + kept_s + step_s > c->limit_s)) return STOP_GO_ON;
    if (kept_s > 0)
        snprintf(kept, sizeof kept,
                 ", except %.2g s reserved for the last evaluation and the last save", kept_s);
    if (c->limit_s == c->max_seconds)
        return say(s, STOP_NOW, STOP_BUDGET, "the %g s of train.max_seconds are used up%s",
                   c->max_seconds, kept);
    return say(s, STOP_NOW, STOP_BUDGET, "the $%g of train.max_dollars are spent%s", c->max_dollars,
               kept);
}

enum stop_action stop_over(struct stop *s, f64 elapsed_s) { return over(s, elapsed_s, 0, 0); }

enum stop_action stop_step(struct stop *s, i64 step, f64 elapsed_s, f64 loss)
{
    const struct stop_config *c      = &s->config;
    f64                       step_s = elapsed_s - s->elapsed_s;
    bool                      first  = isnan(s->start);
    s->elapsed_s                     = elapsed_s;
    if (first) {
        s->start      = loss;
        s->begin_s    = elapsed_s;
        s->begin_step = step;
    }
    if (!isfinite(loss)) return diverged(s, no_number(loss), step);
    if (c->rollbacks && spiked(s, loss)) return diverged(s, "jumped up and stayed there", step);
    return over(s, elapsed_s, kept_back_s(s), first ? 0 : step_s);
}

/* --- evaluations ------------------------------------------------------------------------------ */

bool metric_falls(struct str metric)
{
    return str_eq(metric, STR("loss")) || str_eq(metric, STR("perplexity"));
}

enum status target_in_range(struct str metric, f64 target, bool measured_by_us, struct err *err)
{
    bool share = str_eq(metric, STR("accuracy")) || str_eq(metric, STR("auc"));
    f64  least = str_eq(metric, STR("perplexity")) ? 1 : share || measured_by_us ? 0 : -INFINITY;
    f64  most  = share ? 1 : INFINITY;
    if (isnan(target) || (target > least && target <= most && isfinite(target))) return STATUS_OK;
    if (share)
        return err_set(err, STATUS_USAGE,
                       "train.target=%g is out of range: %.*s is a fraction; expected a number "
                       "above 0, up to 1%s",
                       target, STR_ARG(metric),
                       target >= 2 && target <= 100 ? ", not percent" : "");
    return err_set(err, STATUS_USAGE, "train.target=%g is out of range: expected a %.*s above %g",
                   target, STR_ARG(metric), least);
}

/* The metric as something that falls to a floor of 0 or above, and back. */
static f64 falling(struct str metric, f64 value)
{
    if (str_eq(metric, STR("perplexity"))) return log(value);
    return metric_falls(metric) ? value : 1 - value;
}

static f64 unfalling(struct str metric, f64 y)
{
    if (str_eq(metric, STR("perplexity"))) return exp(y);
    return metric_falls(metric) ? y : 1 - y;
}

bool stop_improved(const struct stop *s) { return !isnan(s->best) && !s->worse; }

static void compare(struct stop *s, const struct stop_eval *e)
{
    f64 gain = metric_falls(s->config.metric) ? s->best - e->value : e->value - s->best;
    s->worse++;
    if (!isnan(s->best) && !(gain > s->config.min_improvement)) return;
    s->best      = e->value;
    s->best_step = e->step;
    s->worse     = 0;
}

/* Keeps at most FORECAST_POINTS_MAX points: when they are full, every second one goes. */
static void add_point(struct stop *s, f64 x, f64 y)
{
    if (s->evals++ % s->stride) return;
    if (s->point_count == FORECAST_POINTS_MAX) {
        for (i64 i = 0; i < s->point_count / 2; i++) {
            s->x[i] = s->x[2 * i];
            s->y[i] = s->y[2 * i];
        }
        s->point_count /= 2;
        s->stride *= 2;
    }
    s->x[s->point_count]   = x;
    s->y[s->point_count++] = y;
}

/* Seconds a step, evaluations included and the start of the run not; NaN before the second step. */
static f64 pace_s(const struct stop *s, i64 step, f64 elapsed_s)
{
    return step > s->begin_step ? (elapsed_s - s->begin_s) / (f64)(step - s->begin_step) : NAN;
}

/* The last step that the budget allows for; NaN: there is no end. */
static f64 horizon(const struct stop *s, i64 step, f64 elapsed_s)
{
    const struct stop_config *c    = &s->config;
    f64                       end  = c->steps_max ? (f64)c->steps_max : NAN;
    f64                       left = c->limit_s - elapsed_s;
    return fmin(end, (f64)step + left / pace_s(s, step, elapsed_s)); /* passes over NaN */
}

static enum stop_action judge_forecast(struct stop *s, const struct stop_eval *e)
{
    const struct stop_config *c    = &s->config;
    f64                       end  = horizon(s, e->step, e->elapsed_s);
    f64                       sure = c->forecast > 0 ? c->forecast : warned_at;
    s->forecast                    = (struct forecast){ NAN, NAN };
    if (isnan(c->target) || isnan(end)) return STOP_GO_ON;
    s->forecast = forecast_curve(s->x, s->y, s->point_count, end * (1 + fall_credit * e->fall),
                                 falling(c->metric, c->target));
    s->forecast.value = unfalling(c->metric, s->forecast.value);
    bool doubt        = (f64)e->step >= forecast_part * end && s->forecast.reach < 1 - sure;
    s->doubts         = doubt ? s->doubts + 1 : 0;
    if (s->doubts < DOUBTS) return STOP_GO_ON;
    return say(s, c->forecast > 0 ? STOP_NOW : STOP_GO_ON, STOP_FORECAST,
               "the forecast for step %.0f, %.*s %.4g, misses the target with %.0f %% confidence",
               end, STR_ARG(c->metric), s->forecast.value,
               MIN(100 * (1 - s->forecast.reach), 99)); /* a hundred draws cannot tell more */
}

enum stop_action stop_at_eval(struct stop *s, const struct stop_eval *e)
{
    const struct stop_config *c = &s->config;
    s->eval_s                   = MAX(s->eval_s, e->eval_s);
    if (!isfinite(e->loss)) return diverged(s, no_number(e->loss), e->step);
    if (c->rollbacks && e->loss > lost_above(s))
        return diverged(s, "is far above the first", e->step);
    compare(s, e);
    if (isfinite(e->value)) add_point(s, (f64)e->step, falling(c->metric, e->value));
    if (e->target_reached)
        return say(s, STOP_NOW, STOP_TARGET, "the target %g is reached: %.*s %.4g after step %lld",
                   c->target, STR_ARG(c->metric), e->value, (long long)e->step);
    if (s->reason || (c->steps_max && e->step >= c->steps_max)) return STOP_GO_ON; /* the last */
    if (c->patience && s->worse >= c->patience)
        return say(s, STOP_NOW, STOP_PATIENCE,
                   s->worse == 1 ? "%lld evaluation was no better than %.*s %.4g after step %lld"
                                 : "%lld evaluations in a row were no better than %.*s %.4g after "
                                   "step %lld",
                   (long long)s->worse, STR_ARG(c->metric), s->best, (long long)s->best_step);
    return judge_forecast(s, e);
}

bool stop_warns(struct stop *s)
{
    if (s->doubts != DOUBTS || s->reason) return false;
    s->doubts++; /* the next one is not the first any more */
    return true;
}

void stop_end(struct stop *s, enum stop_reason reason, i64 step)
{
    if (s->reason) return;
    if (reason == STOP_END) say(s, STOP_NOW, reason, "all %lld steps are done", (long long)step);
    else
        say(s, STOP_NOW, reason, "a signal, a notice or a user stopped it after step %lld",
            (long long)step);
}

void stop_rolled_back(struct stop *s, i64 to_step)
{
    s->window_count = s->high = s->doubts = 0;
    while (s->point_count && s->x[s->point_count - 1] > (f64)to_step) s->point_count--;
}

f64 stop_saved_s(const struct stop *s, i64 step, f64 elapsed_s)
{
    bool saves =
        s->reason == STOP_TARGET || s->reason == STOP_PATIENCE || s->reason == STOP_FORECAST;
    f64 end  = horizon(s, step, elapsed_s);
    f64 left = (end - (f64)step) * pace_s(s, step, elapsed_s);
    return saves ? left : NAN;
}
