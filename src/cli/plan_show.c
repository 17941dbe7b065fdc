/* plan_show.c - the ranked rows, why the first is first, and what would change it. */
#include "cli/plan_show.h"
#include "job/sweep.h"
#include <math.h>

enum { OPS_SHOWN = 5, SCRATCH_BYTES = 16 << 20 };
static const f64 minute_h = 1.0 / 60;

/* "4 x aws p5.48xlarge", "2 of 8 GPUs of aws p5.48xlarge" */
struct str plan_place(struct arena *perm, const struct plan_row *r)
{
    i64 all = r->machines * r->device->units;
    if (r->gpus * r->side_by_side < all)
        return str_fmt(perm, "%.*s (%lld of %lld GPUs)", STR_ARG(r->device->name),
                       (long long)(r->gpus * r->side_by_side), (long long)all);
    if (r->machines > 1)
        return str_fmt(perm, "%lld x %.*s", (long long)r->machines, STR_ARG(r->device->name));
    return r->device->name;
}

static void json_row(struct cli *c, const struct plan_question *q, i64 rank,
                     const struct plan_row *r)
{
    struct arena   s = *c->perm;
    struct textbuf b = event_begin(&s, "plan");
    event_i64(&b, "rank", rank);
    event_str(&b, "machine", r->device->name);
    event_i64(&b, "machines", r->machines);
    event_str(&b, "market", str_of(price_name(r->price)));
    event_f64(&b, "usd_hour", r->device->usd_h[r->price]);
    event_f64(&b, "price_age_days", plan_price_age_days(q, r));
    event_i64(&b, "gpus", r->device->row && r->device->row->gpus ? r->gpus : 0);
    event_i64(&b, "runs_side_by_side", r->side_by_side);
    event_str(&b, "precision", str_of(precision_text(r->precision)));
    event_str(&b, "recompute", str_of(recompute_text(r->variant)));
    event_str(&b, "shard", str_of(shard_word(r)));
    event_str(&b, "shard_over", str_of(shard_over_word(r)));
    event_i64(&b, "batch", r->micro);
    event_i64(&b, "accumulate", r->accumulate);
    event_i64(&b, "steps", q->workload.steps);
    event_f64(&b, "memory_bytes", r->memory_bytes);
    event_i64(&b, "memory_bytes_usable", r->device->target.memory_bytes);
    event_f64(&b, "step_s", r->step.step_s);
    event_f64(&b, "mfu", r->step.mfu);
    event_f64(&b, "efficiency", r->step.efficiency);
    event_f64(&b, "communication_s", r->step.comm_s);
    event_f64(&b, "communication_exposed_s", r->step.exposed_s);
    event_str(&b, "bound_by", str_of(estimate_bound(&r->step)));
    event_bool(&b, "ops_guessed", r->step.guessed);
    event_f64(&b, "work_s", r->work_s);
    event_f64(&b, "hours", r->hours);
    event_f64(&b, "billed_hours", r->billed_h);
    event_bool(&b, "frugal_trains_it", !plan_cannot(q, r));
    event_f64(&b, "interruptions", r->outcome.interruptions);
    event_f64(&b, "save_every_s", r->outcome.interval_s);
    event_f64(&b, "in_time", r->in_time);
    event_f64(&b, "usd", r->bill.total);
    event_f64(&b, "usd_useful", r->bill.useful);
    event_f64(&b, "usd_lost", r->bill.lost);
    event_f64(&b, "usd_starting", r->bill.starting);
    event_f64(&b, "usd_storage", r->bill.storage);
    event_f64(&b, "usd_requests", r->bill.requests);
    event_f64(&b, "pace_learned",
              r->device->pace_runs[r->precision] ? r->device->pace[r->precision] : NAN);
    event_i64(&b, "pace_runs", r->device->pace_runs[r->precision]);
    event_bool(&b, "memory_exact", r->exact);
    event_str(&b, "assumed", r->device->assumed);
    event_end(&b, c->say);
}

static void show_ops(struct cli *c, const struct plan_row *r)
{
    struct plan_op_part ops[OPS_SHOWN];
    struct arena        s     = *c->perm;
    i64                 count = plan_ops(r, ops, OPS_SHOWN);
    struct textbuf      b     = textbuf_new(&s);
    for (i64 i = 0; i < count; i++)
        textbuf_fmt(&b, "%s%s %.0f %%", i ? ", " : "", ops[i].name, 100 * ops[i].part);
    say_result(c->say, "  A step of %.*s ms: %.*s.\n", STR_ARG(plan_ms(&s, r->step.step_s)),
               STR_ARG(textbuf_str(&b)));
}

static void show_spot(struct cli *c, const struct plan_question *q, const struct plan_row *r)
{
    struct arena     s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    struct plan_spot is;
    if (!plan_spot(q, r, &is, scratch)) return;
    struct str     from = is.pays_from > 0
                              ? str_fmt(&s, "from %.1f %% off", 100 * is.pays_from)
                              : STR("even without a discount (machines taken away early are free)");
    struct textbuf b    = textbuf_new(&s);
    textbuf_fmt(&b, "  Spot is %.0f %% off here and is cheaper %.*s.", 100 * is.discount,
                STR_ARG(from));
    if (r->outcome.interval_s < r->work_s)
        textbuf_fmt(&b, " A save every %.0f s.", r->outcome.interval_s);
    say_result(c->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
}

/* Whether a row's settings replace what the user gave. */
static bool replaces(const struct str *words, i64 count, struct str given)
{
    struct str key = str_sub(given, 0, str_find(given, '=') + 1);
    for (i64 i = 0; i < count; i++)
        if (str_starts(words[i], key)) return true;
    return false;
}

/* What the user gave, then what the row adds: as a shell reads it. */
static struct str command_of(struct arena *s, const struct plan_question *q,
                             const struct plan_row *r)
{
    const struct plan_request *ask = q->request;
    struct str                 words[PLAN_WORDS_MAX + 2];
    i64                        count = plan_words(q, r, s, words);
    if (ask->freeze.len) words[count++] = str_cat(s, STR("train.freeze="), ask->freeze);
    if (ask->lora) words[count++] = str_fmt(s, "train.lora.rank=%lld", (long long)ask->lora);
    struct textbuf b = textbuf_new(s);
    if (r->machines > 1) textbuf_fmt(&b, "frugal launch --hosts \"$HOSTS\" ");
    else if (r->gpus > 1) textbuf_fmt(&b, "mpirun -n %lld frugal train ", (long long)r->gpus);
    else textbuf_fmt(&b, "frugal train ");
    add_shell_word(&b, q->run_file);
    for (i64 i = -ask->setting_count; i < count; i++) {
        struct str word = i < 0 ? ask->settings[ask->setting_count + i] : words[i];
        if (i < 0 && replaces(words, count, word)) continue;
        textbuf_fmt(&b, " ");
        add_shell_word(&b, word);
    }
    return textbuf_str(&b);
}

/* As many ranks on each, else whole machines and the rest on the last: as the row is priced. */
static void show_hosts(struct cli *c, const struct plan_row *r)
{
    bool         even = r->gpus % r->machines == 0;
    long long    each = even ? r->gpus / r->machines : r->device->units;
    long long    last = r->gpus - each * (r->machines - 1);
    struct arena s    = *c->perm;
    struct str   rest = even ? STR("") : str_fmt(&s, " and %lld on the last", last);
    say_result(c->say,
               "  HOSTS names the %lld machines, with %lld rank%s on each%.*s: A:%lld,B:%lld%s\n",
               (long long)r->machines, each, each == 1 ? "" : "s", STR_ARG(rest), each,
               r->machines == 2 ? last : each, r->machines == 2 ? "" : ",…");
}

/* The command line of the cheapest row that frugal itself can carry out. */
static void show_command(struct cli *c, const struct plan_question *q)
{
    struct arena s     = *c->perm;
    i64          first = plan_first_trained(q);
    if (first < 0) return;
    const struct plan_row *r = &q->result->rows[first];
    if (first)
        say_result(c->say, "  The first that frugal itself can train is %.*s %s, for %.*s:\n",
                   STR_ARG(plan_place(&s, r)), price_name(r->price),
                   STR_ARG(plan_dollars(&s, r->bill.total)));
    say_result(c->say, "  %.*s\n", STR_ARG(command_of(&s, q, r)));
    if (r->machines > 1) show_hosts(c, r);
}

/* Who holds what, and what is known of it. */
static void show_ranks(struct cli *c, const struct plan_row *r)
{
    static const char *const words[] = {
        [SHARD_NONE]  = "each %s holds everything, and gradients are summed",
        [SHARD_STATE] = "optimiser state and update are shared out over the %ss%s (ZeRO-1)",
        [SHARD_ALL]   = "weights, gradients and state are shared out over the %ss%s (ZeRO-3)",
    };
    struct arena s    = *c->perm;
    const char  *unit = plan_has_gpu(r) ? "GPU" : "machine";
    const char  *of   = r->sharding.copies ? " of each machine, and each machine holds a copy" : "";
    if (r->gpus < 2) return;
    struct str kept = str_fmt(&s, words[r->sharding.kind], unit, of);
    say_result(c->say, "  train.shard=%s: %.*s (docs/several.md).%s\n", shard_word(r),
               STR_ARG(kept),
               plan_has_gpu(r) ? " Nobody has timed frugal on several GPUs yet." : "");
}

static void show_reason(struct cli *c, const struct plan_question *q)
{
    const struct plan_result *p = q->result;
    const struct plan_row    *r = &p->rows[0];
    struct arena              s = *c->perm;
    say_result(c->say, "\n");
    say_heading(c->say, "Why the first");
    say_result(
        c->say,
        "  %.*s = %.*s of work + %.*s starting + %.*s lost to saves and interruptions + %.*s "
        "storage + %.*s requests.\n",
        STR_ARG(plan_dollars(&s, r->bill.total)), STR_ARG(plan_dollars(&s, r->bill.useful)),
        STR_ARG(plan_dollars(&s, r->bill.starting)), STR_ARG(plan_dollars(&s, r->bill.lost)),
        STR_ARG(plan_dollars(&s, r->bill.storage)), STR_ARG(plan_dollars(&s, r->bill.requests)));
    show_ops(c, r);
    if (r->price == PRICE_SPOT) show_spot(c, q, r);
    if (p->count > 1) {
        const struct plan_row *next = &p->rows[1];
        f64                    more = next->bill.total - r->bill.total;
        f64                    less = r->hours - next->hours;
        bool                   same = fabs(less) < minute_h / 20; /* of what is printed */
        say_result(c->say, "  The next, %.*s %s, costs %.*s more and %s%.*s%s.\n",
                   STR_ARG(plan_place(&s, next)), price_name(next->price),
                   STR_ARG(plan_dollars(&s, more)), same ? "takes as long" : "finishes ",
                   STR_ARG(same ? STR("") : plan_time(&s, fabs(less))),
                   same       ? ""
                   : less > 0 ? " earlier"
                              : " later");
    }
    show_command(c, q);
    show_ranks(c, r);
}

/* Where links hold GPUs up: what would help, in dollars. */
static void show_remedies(struct cli *c, const struct plan_question *q, const struct plan_row *r)
{
    struct arena         s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    struct plan_remedies are   = plan_remedies(q, r, scratch);
    struct textbuf       b     = textbuf_new(&s);
    const char          *units = plan_has_gpu(r) ? "GPUs" : "machines";
    textbuf_fmt(&b, "  %.*s: scaling efficiency on %lld %s: %.0f %%.", STR_ARG(plan_place(&s, r)),
                (long long)r->gpus, units, 100 * r->step.efficiency);
    if (!isnan(are.short_gradients_usd))
        textbuf_fmt(&b, " Gradients sent as bf16: %.*s.",
                    STR_ARG(plan_dollars(&s, are.short_gradients_usd)));
    if (!isnan(are.larger_batch_usd))
        textbuf_fmt(&b, " A four times larger batch, a quarter of the steps: %.*s.",
                    STR_ARG(plan_dollars(&s, are.larger_batch_usd)));
    if (!isnan(are.fewer_usd))
        textbuf_fmt(&b, " Half the %s: %.*s in %.*s.", units,
                    STR_ARG(plan_dollars(&s, are.fewer_usd)), STR_ARG(plan_time(&s, are.fewer_h)));
    say_result(c->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
}

static void show_mixed(struct cli *c, const struct plan_question *q, const struct plan_row *r)
{
    struct arena    s = *c->perm, scratch = arena_part(&s, SCRATCH_BYTES);
    struct plan_mix mix;
    if (!plan_mix(q, r, &mix, scratch)) return;
    say_result(c->say,
               "  %.*s, spot while available and on-demand when late: %.*s, in time in %.0f %% "
               "of runs.\n",
               STR_ARG(plan_place(&s, r)), STR_ARG(plan_dollars(&s, mix.usd)), 100 * mix.in_time);
}

static void show_assumed(struct cli *c, const struct plan_question *q, const struct plan_result *p)
{
    say_result(c->say, "\n");
    say_heading(c->say, "Assumed");
    for (i64 i = 0; i < q->notes.count; i++)
        say_result(c->say, "  %.*s\n", STR_ARG(q->notes.text[i]));
    if (p->rows[0].device->assumed.len)
        say_result(c->say, "  of %.*s: %.*s\n", STR_ARG(p->rows[0].device->name),
                   STR_ARG(p->rows[0].device->assumed));
    if (p->rows[0].step.guessed)
        say_result(c->say, "  half of the peak for ops that were not measured on such a machine\n");
    for (i64 i = 0; i < assumption_count; i++)
        say_result(c->say, "  %-16s %6g %-8s %s\n", assumptions[i].name, assumptions[i].value,
                   assumptions[i].unit, assumptions[i].why);
    say_result(c->say,
               "  `frugal help claims`: common figures about cost, ours, and why they differ\n");
}

static void json_rest(struct cli *c, const struct plan_question *q)
{
    for (i64 i = 0; i < q->notes.count; i++) {
        struct arena   s = *c->perm;
        struct textbuf b = event_begin(&s, "note");
        event_str(&b, "text", q->notes.text[i]);
        event_end(&b, c->say);
    }
    for (i64 i = 0; i < assumption_count; i++) {
        struct arena   s = *c->perm;
        struct textbuf b = event_begin(&s, "assumption");
        event_str(&b, "name", str_of(assumptions[i].name));
        event_f64(&b, "value", assumptions[i].value);
        event_str(&b, "unit", str_of(assumptions[i].unit));
        event_str(&b, "why", str_of(assumptions[i].why));
        event_end(&b, c->say);
    }
}

/* "1 step", "1,000 steps" */
static struct str counted(struct arena *s, i64 count, const char *what)
{
    return str_fmt(s, "%.*s %s%s", STR_ARG(text_count(s, (f64)count)), what, count == 1 ? "" : "s");
}

/* "mixtral-8x7b: 46.7 G parameters, 12.9 G used by a token; 1,000 steps of 64 sequences" */
static struct str title(struct arena *s, const struct plan_question *q)
{
    const struct plan_variants *v    = q->variants;
    const struct plan_workload *w    = &q->workload;
    struct str                  used = STR(""), of = counted(s, w->batch_total, "sample");
    if (q->parameters_used > 0 && q->parameters_used < 0.99 * v->parameters)
        used =
            str_fmt(s, ", %.*s used by a token", STR_ARG(plan_parameters(s, q->parameters_used)));
    if (!q->ours)
        of = str_fmt(s, "%.*s of %.*s", STR_ARG(counted(s, w->batch_total, "sequence")),
                     STR_ARG(counted(s, w->tokens, "token")));
    struct str runs = str_fmt(s, ", %.*s", STR_ARG(counted(s, q->limits.runs, "run")));
    if (q->limits.runs == 1) runs = STR("");
    return str_fmt(s, "%.*s: %.*s parameters%.*s; %.*s of %.*s%.*s", STR_ARG(w->name),
                   STR_ARG(plan_parameters(s, v->parameters)), STR_ARG(used),
                   STR_ARG(counted(s, w->steps, "step")), STR_ARG(of), STR_ARG(runs));
}

void plan_show(struct cli *c, const struct plan_question *q)
{
    const struct plan_result *p = q->result;
    struct arena              s = *c->perm;
    if (c->say->json) {
        for (i64 i = 0; i < p->count; i++) json_row(c, q, i + 1, &p->rows[i]);
        json_rest(c, q);
        return;
    }
    say_heading(c->say, str_z(&s, title(&s, q)));
    plan_tables(c, q);
    show_reason(c, q);
    show_mixed(c, q, &p->rows[0]);
    for (i64 i = 0, told = 0; i < MIN(p->count, PLAN_SHOWN) && told < 2; i++) {
        if (!plan_is_held_up(&p->rows[i])) continue;
        show_remedies(c, q, &p->rows[i]);
        told++;
    }
    show_assumed(c, q, p);
}
