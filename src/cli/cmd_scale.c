/* cmd_scale.c - frugal scale: how large a model, how many tokens, for a budget. */
#include "cli/commands.h"
#include "plan/catalogue.h"
#include "plan/scaling.h"
#include <math.h>

enum status command_scale(struct cli *c, struct err *err);

enum { RESAMPLES = 200 };
static const f64 mfu_usual = 0.40; /* Llama 3 report: 38 to 43 % */
/* The laws were fitted to runs from 1.4e18 FLOPs on (Hoffmann's 245 points); a thousandth of that is the least
 * that they are asked for. */
static const f64 flops_least = 1e15, flops_fitted = 1.4e18;

/* ---- the budget ---- */

struct budget {
    f64        flops;
    struct str words; /* how it came about; empty: it was given */
};

struct rate { /* of the machine that hours and dollars are spent on */
    const struct machine *machine;
    f64                   flops_s, usd_h, mfu;
};

static enum status read_rate(struct cli *c, struct rate *out, struct err *err)
{
    const struct request *r    = c->request;
    struct str            name = r->value[FLAG_INDEX_machine];
    struct catalogue     *k;
    enum status           st = catalogue_open(c->os, c->perm, r->value[FLAG_INDEX_prices], &k, err);
    if (st) return st;
    if (!(r->flags & FLAG_machine))
        return err_set(err, STATUS_USAGE,
                       "hours and dollars of which machine? Give --machine NAME");
    out->machine = NULL;
    for (i64 i = 0; i < k->machine_count && !out->machine; i++)
        if (machine_is_named(&k->machines[i], name)) out->machine = &k->machines[i];
    if (!out->machine || !out->machine->gpus) {
        struct str near = machine_nearest(k, name, *c->perm);
        bool       slip = !out->machine && near.len;
        return err_set(
            err, STATUS_USAGE,
            "the catalogue has no machine %.*s with GPUs%s%.*s%s; `frugal prices` lists all",
            (int)MIN(name.len, 60), name.data, slip ? " (did you mean " : "",
            slip ? (int)near.len : 0, near.data ? near.data : "", slip ? "?)" : "");
    }
    out->mfu = mfu_usual;
    if (r->flags & FLAG_mfu &&
        (!str_f64(r->value[FLAG_INDEX_mfu], &out->mfu) || !(out->mfu > 0 && out->mfu <= 1)))
        return err_set(err, STATUS_USAGE, "--mfu takes a number above 0, at most 1");
    const struct machine *m = out->machine;
    const struct gpu     *g = catalogue_gpu(k, m->gpu);
    f64 peak     = isnan(g->bf16_dense_tflops) ? g->fp16_dense_tflops : g->bf16_dense_tflops;
    out->flops_s = m->gpus * peak * 1e12 * out->mfu;
    out->usd_h   = m->on_demand_usd_h;
    if (r->flags & FLAG_spot) out->usd_h = m->spot_usd_h;
    else if (!isnan(m->own_usd_h)) out->usd_h = m->own_usd_h;
    return STATUS_OK;
}

/* 1e21, 100h or $5000. */
static enum status read_budget(struct cli *c, struct str text, struct budget *out, struct err *err)
{
    bool        dollars = str_starts(text, STR("$")), hours = str_ends(text, STR("h"));
    struct str  digits = str_sub(text, dollars, text.len - hours);
    struct rate rate;
    f64         value;
    *out = (struct budget){ 0 };
    if (!str_f64(digits, &value) || !(value > 0) || (dollars && hours))
        return err_set(err, STATUS_USAGE,
                       "\"%.*s\" is not a budget; write 1e21 (FLOPs), 100h or '$5000'",
                       (int)MIN(text.len, 40), text.data);
    if (!dollars && !hours) {
        const u64 of_machines = FLAG_machine | FLAG_mfu | FLAG_spot | FLAG_prices;
        out->flops            = value;
        if (c->request->flags & of_machines)
            return err_set(err, STATUS_USAGE,
                           "%.*s is a number of FLOPs, for which no machine is needed: leave out "
                           "--machine, --mfu, --spot and --prices, or write '$%.*s' or %.*sh",
                           STR_ARG(text), STR_ARG(text), STR_ARG(text));
        return STATUS_OK;
    }
    enum status st = read_rate(c, &rate, err);
    if (st) return st;
    out->flops = dollars ? budget_flops_dollars(value, rate.usd_h, rate.flops_s)
                         : budget_flops_hours(value, rate.flops_s);
    if (isnan(out->flops))
        return err_set(err, STATUS_NO,
                       "the catalogue has no such price for %.*s; see `frugal "
                       "prices %.*s`",
                       STR_ARG(rate.machine->name), STR_ARG(rate.machine->name));
    f64 h      = dollars ? bill_hours(rate.usd_h, value) : value;
    out->words = str_fmt(
        c->perm, "%.4g h of %.*s %.*s at $%.2f are %.3g FLOPs at %.0f %% of its peak%s", h,
        STR_ARG(rate.machine->provider), STR_ARG(rate.machine->name), rate.usd_h, out->flops,
        100 * rate.mfu, c->request->flags & FLAG_mfu ? "" : " (assumed; --mfu)");
    return STATUS_OK;
}

/* A law says nothing of budgets far below those of its runs: 5000 was meant as dollars or hours. */
static enum status check_budget(const struct request *r, const struct budget *b, struct err *err)
{
    struct str text = r->arguments[0];
    if (b->flops >= flops_least || r->flags & FLAG_fit) return STATUS_OK;
    if (b->words.len)
        return err_set(
            err, STATUS_USAGE,
            "%.*s buys %.3g FLOPs, too few for a scaling law: they were fitted from %.2g FLOPs on",
            STR_ARG(text), b->flops, flops_fitted);
    return err_set(
        err, STATUS_USAGE,
        "%.*s FLOPs are too few for a scaling law: they were fitted from %.2g FLOPs on; for "
        "dollars write '$%.*s', for hours %.*sh, with --machine",
        STR_ARG(text), flops_fitted, STR_ARG(text), STR_ARG(text));
}

/* ---- the answer ---- */

static void show_sizing(struct cli *c, const struct law *l, const struct sizing *s)
{
    struct arena scratch = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "sizing");
        event_str(&b, "law", l->name);
        event_f64(&b, "flops", s->flops);
        event_f64(&b, "parameters", s->parameters);
        event_f64(&b, "tokens", s->tokens);
        event_f64(&b, "loss", s->loss);
        event_end(&b, c->say);
        return;
    }
    struct str loss = isnan(s->loss) ? STR("-") : str_fmt(&scratch, "%.3f", s->loss);
    say_result(c->say, "%-14.*s %12.*s %12.*s %10.1f %10.3g %7.*s\n", STR_ARG(l->name),
               STR_ARG(text_si(&scratch, s->parameters)), STR_ARG(text_si(&scratch, s->tokens)),
               s->tokens / s->parameters, s->flops, STR_ARG(loss));
}

/* To the same loss as the budget's best, when the model will also be used. */
static enum status show_served(struct cli *c, const struct law *l, f64 flops, struct err *err)
{
    struct serving s     = { .train_usd_flop = 1, .serve_usd_flop = 1 };
    struct law     named = *l;
    if (!str_f64(c->request->value[FLAG_INDEX_served], &s.tokens_served) || s.tokens_served < 0)
        return err_set(err, STATUS_USAGE, "--served takes a number of tokens, like 1e12");
    struct sizing at = law_best_served(l, law_best(l, flops).loss, &s);
    named.name       = STR("served");
    show_sizing(c, &named, &at);
    return STATUS_OK;
}

static enum status read_law(struct cli *c, struct law *out, struct err *err)
{
    struct run_point *points;
    struct fitted_law fit;
    struct str        text, path = c->request->value[FLAG_INDEX_fit];
    i64               count;
    enum status       st = os_read_all(c->os, path, c->perm, &text, err);
    if (!st) st = law_points_read(path, text, c->perm, &points, &count, err);
    if (!st) st = law_fit(points, count, RESAMPLES, 1, *c->perm, &fit, err);
    if (st) return st;
    const struct {
        const char *name;
        f64         is, low, high;
    } numbers[]            = { { "E", fit.law.e, fit.low.e, fit.high.e },
                               { "A", fit.law.a, fit.low.a, fit.high.a },
                               { "B", fit.law.b, fit.low.b, fit.high.b },
                               { "alpha", fit.law.alpha, fit.low.alpha, fit.high.alpha },
                               { "beta", fit.law.beta, fit.low.beta, fit.high.beta } };
    struct arena   scratch = *c->perm;
    struct textbuf b       = event_begin(&scratch, "law");
    if (!c->say->json) say_result(c->say, "%lld runs; 95 %% by bootstrap\n", (long long)count);
    for (i64 i = 0; i < COUNT_OF(numbers); i++) {
        textbuf_fmt(&b, ",\"%s\":[%.6g,%.6g,%.6g]", numbers[i].name, numbers[i].is, numbers[i].low,
                    numbers[i].high);
        if (!c->say->json)
            say_result(c->say, "  %-6s %10.5g  %10.5g to %10.5g\n", numbers[i].name, numbers[i].is,
                       numbers[i].low, numbers[i].high);
    }
    if (c->say->json) event_end(&b, c->say);
    *out      = fit.law;
    out->name = STR("your runs");
    return STATUS_OK;
}

enum status command_scale(struct cli *c, struct err *err)
{
    const struct request *r      = c->request;
    struct law            chosen = law_at(0);
    struct budget         budget;
    enum status           st = STATUS_OK;
    if (r->argument_count != 1)
        return err_set(err, STATUS_USAGE, "which budget? Write 1e21 (FLOPs), 100h or '$5000'");
    st = read_budget(c, r->arguments[0], &budget, err);
    if (!st) st = check_budget(r, &budget, err);
    if (!st && r->flags & FLAG_law && !law_find(r->value[FLAG_INDEX_law], &chosen))
        st = err_set(err, STATUS_USAGE, "--law takes one of %.*s",
                     STR_ARG(flags[FLAG_INDEX_law].argument));
    if (!st && r->flags & FLAG_fit) st = read_law(c, &chosen, err);
    if (st) return st;
    if (!c->say->json) {
        if (budget.words.len) say_result(c->say, "%.*s\n", STR_ARG(budget.words));
        say_result(c->say, "%-14s %12s %12s %10s %10s %7s\n", "law", "parameters", "tokens",
                   "tokens/N", "FLOPs", "loss");
    }
    struct sizing best = law_best(&chosen, budget.flops);
    show_sizing(c, &chosen, &best);
    if (r->flags & FLAG_served) return show_served(c, &chosen, budget.flops, err);
    for (i64 i = 0; i < law_count() && !(r->flags & (FLAG_law | FLAG_fit)); i++) {
        struct law    other = law_at(i);
        struct sizing s     = law_best(&other, budget.flops);
        if (!str_eq(other.name, chosen.name)) show_sizing(c, &other, &s);
    }
    if (!c->say->json)
        say_message(c->say,
                    "\nLoss is that of the law's own text and tokenizer; for yours, fit small "
                    "runs (--fit). `frugal help claims` explains figures that differ.\n");
    return STATUS_OK;
}
