/* summary.c - what is printed when a run is done: quality, speed, where the time went, the bill. */
#include "base/digits.h"
#include "cli/progress.h"
#include "job/sweep.h"
#include "train/noise.h"
#include <math.h>
#include <string.h>

static void remote_words(struct say *s, const struct event_done *v, struct arena scratch)
{
    if (!v->remote_puts) return;
    say_result(s, "%-12s", "object store");
    if (v->remote_step >= 0) say_result(s, " has step %lld", (long long)v->remote_step);
    else say_result(s, " has nothing");
    struct str sent = text_bytes(&scratch, (f64)v->remote_bytes);
    say_result(s, "; %.*s sent, %lld requests", STR_ARG(sent),
               (long long)(v->remote_puts + v->remote_gets));
    if (!isnan(v->requests_usd))
        say_result(s, " for %.*s", STR_ARG(text_dollars(&scratch, v->requests_usd)));
    else say_result(s, ", price unknown");
    say_result(s, "\n");
}

/* What is less than half a hundredth of the time is not. */
static bool is_worth_a_word(const struct event_done *r, i64 ns)
{
    return 200 * (f64)ns >= (f64)split_sum(&r->split_ns);
}

static void saving_words(struct say *s, const struct event_done *v, struct arena scratch)
{
    if (!v->checkpoints && !v->checkpoints_failed) return;
    struct str     newest = text_bytes(&scratch, (f64)v->checkpoint_bytes);
    struct textbuf b      = textbuf_new(&scratch);
    textbuf_fmt(&b, "%lld saved", (long long)v->checkpoints);
    if (v->checkpoints_failed) textbuf_fmt(&b, ", %lld failed", (long long)v->checkpoints_failed);
    if (v->checkpoints_late) textbuf_fmt(&b, ", %lld late", (long long)v->checkpoints_late);
    if (v->checkpoints)
        textbuf_fmt(&b, "; the newest of step %lld, %.*s", (long long)v->checkpoint_step,
                    STR_ARG(newest));
    textbuf_fmt(&b, "; training paused for %s s", DIGITS(v->checkpoint_blocked_s));
    bool differs = strcmp(DIGITS(v->checkpoint_total_s), DIGITS(v->checkpoint_blocked_s)) != 0;
    if (v->checkpoint_total_s > v->checkpoint_blocked_s && differs) /* neither of a NaN */
        textbuf_fmt(&b, " (%s s with the steps that were slower while one was written)",
                    DIGITS(v->checkpoint_total_s));
    /* `spent` has both: steps that stood still, and the wait for the last checkpoint and the weights. */
    i64 end_ns = v->split_ns.ns[PART_checkpoint] - llround(1e9 * v->checkpoint_blocked_s);
    if (end_ns > 0 && is_worth_a_word(v, end_ns))
        textbuf_fmt(&b, ", and %s s at the end until everything was on disk",
                    DIGITS((f64)end_ns * 1e-9));
    say_labelled(s, "checkpoints", textbuf_str(&b));
    remote_words(s, v, scratch);
}

/* What the noise of the gradients says of the batch. */
static void noise_words(struct say *s, const struct event_done *r, struct arena scratch)
{
    f64 scale = r->noise_scale, tokens = scale * r->tokens_per_s / r->samples_per_s;
    if (r->noise_absent.len)
        say_result(s, "%-12sscale not known: %.*s\n", "noise", STR_ARG(r->noise_absent));
    if (isnan(scale)) return;
    struct str unit = STR("");
    if (!isnan(tokens))
        unit = str_fmt(&scratch, " (%.*s tokens)", STR_ARG(text_count(&scratch, tokens)));
    say_result(s,
               "%-12sscale %.*s samples%.*s: with %lld a step the run takes %s times the fewest "
               "steps and %s times the least data; with about %lld a step it would take twice the "
               "fewest steps and twice the least data\n",
               "noise", STR_ARG(text_count(&scratch, scale)), STR_ARG(unit),
               (long long)r->step_samples, DIGITS(noise_steps(scale, r->step_samples)),
               DIGITS(noise_data(scale, r->step_samples)), (long long)noise_batch(scale));
}

/* Power, and how busy the GPU was: what its driver and the catalogue tell. */
static void gpu_words(const struct progress *p, const struct event_done *r)
{
    if (!isnan(r->mfu))
        say_result(p->say, "%-12s%.1f %% of %s\n", "MFU", 100 * r->mfu,
                   r->mfu_measured ? "the measured peak of a large matrix product here"
                                   : "the GPU's dense peak");
    if (!isnan(r->energy_wh))
        say_result(p->say, "%-12s%s Wh, %.0f W on average\n", "energy", DIGITS(r->energy_wh),
                   r->watts);
    if (!isnan(r->sm_activity))
        say_result(p->say, "%-12smultiprocessors had work %.0f %% of the time\n", "activity",
                   100 * r->sm_activity);
}

/* A loop that is not ours may say little of its samples, and nothing of its work. */
static void rate_words(struct say *s, const struct event_done *r, struct arena scratch)
{
    bool words = !isnan(r->tokens_per_s);
    f64  rate  = words ? r->tokens_per_s : r->samples_per_s;
    if (isnan(rate) && isnan(r->steps_per_s)) return;
    say_result(s, "%-12s", "throughput");
    if (rate > 0)
        say_result(s, "%.*s %s/s%s", STR_ARG(text_count(&scratch, rate)),
                   words ? "tokens" : "samples", isnan(r->steps_per_s) ? "" : ", ");
    if (!isnan(r->steps_per_s))
        say_result(s, "%.*s steps/s", STR_ARG(text_rate(&scratch, r->steps_per_s)));
    if (!isnan(r->flops_per_s))
        say_result(s, ", %.*sFLOP/s", STR_ARG(text_si(&scratch, r->flops_per_s)));
    say_result(s, "\n");
}

/* Steps by percentile, and where their time and all between them went. */
static void time_words(struct say *s, const struct event_done *r, struct arena scratch)
{
    f64 all_ns = (f64)split_sum(&r->split_ns);
    if (isnan(r->step_p50_s)) return;
    say_result(s, "%-12s%s ms p50, %s p95, %s p99; %.1f %% of it waiting for data\n", "step",
               DIGITS(1e3 * r->step_p50_s), DIGITS(1e3 * r->step_p95_s),
               DIGITS(1e3 * r->step_p99_s), 100 * r->input_share);
    struct textbuf b = textbuf_new(&scratch);
    for (i64 i = 0; i < PART_LOOP_COUNT; i++)
        if (is_worth_a_word(r, r->split_ns.ns[i]))
            textbuf_fmt(&b, "%s%s %.1f %%", b.len ? ", " : "", clock_part_name((enum part)i),
                        100 * (f64)r->split_ns.ns[i] / all_ns);
    say_labelled(s, "spent", textbuf_str(&b));
}

/* For whom the others waited, which `spent` of this rank does not say. */
static void ranks_words(struct say *s, const struct event_done *r)
{
    f64 steps_s = 1e-9 * (f64)split_sum(&r->split_ns);
    if (r->ranks < 2 || r->slowest_rank < 0) return;
    say_result(
        s, "%-12s%lld; the slowest is rank %lld, for which the others waited %.1f %% of the time\n",
        "ranks", (long long)r->ranks, (long long)r->slowest_rank,
        steps_s > 0 ? 100 * r->waited_s / steps_s : 0.0);
}

static void cost_words(const struct progress *p, const struct event_done *r, struct arena scratch)
{
    struct str usd = text_dollars(&scratch, r->dollars);
    if (isnan(r->dollars))
        say_result(p->say,
                   "cost        price unknown; give the price of an hour: train.usd_hour=0.10\n");
    else say_result(p->say, "%-12s%.*s at $%g an hour\n", "cost", STR_ARG(usd), p->usd_hour);
}

/* What to type next with the weights that were written. */
static void next_words(const struct progress *p, const struct event_done *r, bool words)
{
    struct arena   scratch = p->scratch;
    struct textbuf out     = textbuf_new(&scratch);
    if (!r->out.len) return;
    add_shell_word(&out, r->out);
    if (words)
        say_result(p->say, "%-12sfrugal generate %.*s \"TEXT\"%s\n", "next",
                   STR_ARG(textbuf_str(&out)), p->chat ? " --chat" : "");
    else say_result(p->say, "%-12sfrugal predict %.*s\n", "next", STR_ARG(textbuf_str(&out)));
}

void summary_show(struct progress *p, const struct event_done *r)
{
    struct arena scratch = p->scratch;
    struct say  *s       = p->say;
    bool         words   = !isnan(r->tokens_per_s);
    if (!r->steps) {
        say_result(s, "%-12s%.2f s, no step done\n", "time", r->seconds);
        cost_words(p, r, scratch);
        return;
    }
    for (i64 i = 0; i < r->metrics.count; i++)
        say_result(
            s, "%-12.*s%.*s\n", STR_ARG(r->metrics.items[i].name),
            STR_ARG(text_metric(&scratch, r->metrics.items[i].name, r->metrics.items[i].value)));
    if (isfinite(r->loss)) say_result(s, "%-12s%.4f\n", "loss", r->loss);
    if (r->target_reached >= 0)
        say_result(s, "%-12s%s\n", "target", r->target_reached ? "reached" : "not reached");
    if (r->stopped != STOP_END) say_result(s, "%-12s%.*s\n", "stopped", STR_ARG(r->why));
    if (r->samples_skipped)
        say_result(s, "%-12s%lld sample%s unreadable and replaced\n", "skipped",
                   (long long)r->samples_skipped, r->samples_skipped == 1 ? " was" : "s were");
    if (!isnan(r->loss_scale))
        say_result(s, "%-12s%g at the end; %lld step%s overflowed and %s skipped\n", "loss scale",
                   r->loss_scale, (long long)r->skipped, r->skipped == 1 ? "" : "s",
                   r->skipped == 1 ? "was" : "were");
    rate_words(s, r, scratch);
    time_words(s, r, scratch);
    ranks_words(s, r);
    gpu_words(p, r);
    struct str first = STR(""); /* all of them were made before this start */
    if (!isnan(r->first_step_ms))
        first = str_fmt(&scratch, "; the first finished after %.0f ms", r->first_step_ms);
    say_result(s, "%-12s%.2f s for %lld step%s%.*s\n", "time", r->seconds, (long long)r->steps,
               r->steps == 1 ? "" : "s", STR_ARG(first));
    saving_words(s, r, scratch);
    noise_words(s, r, scratch);
    if (r->arena_bytes_planned)
        say_result(s, "%-12s%.*s planned, %.*s used; the process took %.*s at its peak\n", "memory",
                   STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_planned)),
                   STR_ARG(text_bytes(&scratch, (f64)r->arena_bytes_used)),
                   STR_ARG(text_bytes(&scratch, (f64)r->peak_rss_bytes)));
    if (r->device_bytes >= 0)
        say_result(s, "%-12s%.*s used according to the driver, libraries included\n", "GPU memory",
                   STR_ARG(text_bytes(&scratch, (f64)r->device_bytes)));
    if (r->out.len && r->weights_step != r->steps)
        say_result(s, "%-12s%.*s, those of step %lld\n", "weights", STR_ARG(r->out),
                   (long long)r->weights_step);
    else if (r->out.len) say_result(s, "%-12s%.*s\n", "weights", STR_ARG(r->out));
    cost_words(p, r, scratch);
    next_words(p, r, words);
    if (!(r->saved_s > 0)) return;
    struct str clock = text_clock(&scratch, r->saved_s);
    struct str money = isnan(r->saved_dollars) ? STR("") : text_dollars(&scratch, r->saved_dollars);
    say_result(s, "%-12s%.*s%s%.*s of the planned run\n", "saved", STR_ARG(clock),
               money.len ? " and " : "", STR_ARG(money));
}
