/* cmd_scale.c - frugal scale: how large a model, how many tokens, for a budget. */
#include "cli/commands.h"
#include "plan/budget.h"
#include "plan/known.h"
#include <math.h>

enum status command_scale(struct cli *c, struct err *err);

static enum status read_request(const struct request *r, struct budget_request *out,
                                struct err *err)
{
    *out = (struct budget_request){ .text    = r->arguments[0],
                                    .machine = r->value[FLAG_machine],
                                    .prices  = r->value[FLAG_prices],
                                    .mfu     = NAN,
                                    .spot    = r->given[FLAG_spot] };
    if (r->given[FLAG_mfu] &&
        (!str_f64(r->value[FLAG_mfu], &out->mfu) || !(out->mfu > 0 && out->mfu <= 1)))
        return err_set(err, STATUS_USAGE, "--mfu takes a number above 0, at most 1");
    return STATUS_OK;
}

static void show_budget(struct cli *c, const struct budget *b)
{
    if (!b->machine || c->say->json) return;
    say_result(c->say, "%.4g h of %.*s %.*s at $%.2f are %.3g FLOPs at %.0f %% of its peak%s\n",
               b->hours, STR_ARG(b->machine->provider), STR_ARG(b->machine->name), b->usd_h,
               b->flops, 100 * b->mfu, c->request->given[FLAG_mfu] ? "" : " (assumed; --mfu)");
}

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
    struct law named = *l;
    f64        tokens;
    if (!str_f64(c->request->value[FLAG_served], &tokens) || tokens < 0)
        return err_set(err, STATUS_USAGE, "--served takes a number of tokens, like 1e12");
    struct sizing at = law_best_with_use(l, flops, tokens);
    named.name       = STR("served");
    show_sizing(c, &named, &at);
    return STATUS_OK;
}

/* What the frozen weights take with train.lora.weights: embeddings and head stay in bf16, and the matrices of the
 * blocks are in 16, 8 or 4.127 bits (base/nf4.h). */
static void show_frozen(struct cli *c, const struct known *k)
{
    static const struct {
        const char *name;
        f64         bits;
    } ways[]             = { { "bf16", 16 }, { "fp8", 8 }, { "nf4", 4.127 } };
    struct arena scratch = *c->perm, part = arena_part(&scratch, 1 << 12);
    f64          all = known_parameters(k), tables = (f64)k->vocabulary * (f64)k->width;
    if (!(k->traits & KNOWN_TIED)) tables *= 2;
    struct textbuf b = c->say->json ? event_begin(&scratch, "frozen") : textbuf_new(&scratch);
    for (i64 i = 0; i < COUNT_OF(ways); i++) {
        struct arena here  = part;
        f64          bytes = 2 * tables + (all - tables) * ways[i].bits / 8;
        if (c->say->json) event_i64(&b, ways[i].name, (i64)bytes);
        else
            textbuf_fmt(&b, "%s%.*s in %s",
                        i ? ", " : "frozen weights: ", STR_ARG(text_bytes(&here, bytes)),
                        ways[i].name);
    }
    if (c->say->json) event_end(&b, c->say);
    else
        say_message(c->say, "%.*s (QLoRA), for the same FLOPs: train.lora.weights\n",
                    STR_ARG(textbuf_str(&b)));
}

/* Of a token: 6 FLOPs a weight where all are trained; with adapters 4, because a frozen matrix has no gradient. */
static enum status show_finetune(struct cli *c, f64 flops, struct err *err)
{
    static const struct {
        const char *name;
        f64         flops;
    } ways[]                 = { { "all weights", 6 }, { "adapters", 4 } };
    struct str          name = c->request->value[FLAG_lora];
    const struct known *k    = known_find(name);
    if (!k)
        return err_set(err, STATUS_USAGE,
                       "--lora: there is no known model %.*s; see `frugal plan --models`",
                       (int)MIN(name.len, 40), name.data);
    for (i64 i = 0; i < COUNT_OF(ways); i++) {
        struct law    as = { .name = str_of(ways[i].name) };
        f64           n  = known_parameters_used(k);
        struct sizing at = {
            .flops = flops, .parameters = n, .tokens = flops / (ways[i].flops * n), .loss = NAN
        };
        show_sizing(c, &as, &at);
    }
    show_frozen(c, k);
    return STATUS_OK;
}

static enum status show_fit(struct cli *c, struct law *out, struct err *err)
{
    struct fitted_law fit;
    i64               count;
    enum status       st = law_read(c->os, c->request->value[FLAG_fit], c->perm, &fit, &count, err);
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
    *out = fit.law;
    return STATUS_OK;
}

enum status command_scale(struct cli *c, struct err *err)
{
    const struct request *r      = c->request;
    struct law            chosen = law_at(0);
    struct budget_request asked;
    struct budget         budget;
    if (r->argument_count != 1)
        return err_set(err, STATUS_USAGE, "which budget? Write 1e21 (FLOPs), 100h or '$5000'");
    enum status st = read_request(r, &asked, err);
    if (!st) st = budget_read(c->os, &asked, c->perm, &budget, err);
    if (!st && !r->given[FLAG_fit]) st = budget_check(&asked, &budget, err);
    if (!st && r->given[FLAG_law] && !law_find(r->value[FLAG_law], &chosen))
        st = err_set(err, STATUS_USAGE, "--law takes one of %.*s",
                     STR_ARG(flags[FLAG_law].argument));
    if (!st && r->given[FLAG_fit]) st = show_fit(c, &chosen, err);
    if (st) return st;
    show_budget(c, &budget);
    if (!c->say->json)
        say_result(c->say, "%-14s %12s %12s %10s %10s %7s\n", "law", "parameters", "tokens",
                   "tokens/N", "FLOPs", "loss");
    struct sizing best = law_best(&chosen, budget.flops);
    show_sizing(c, &chosen, &best);
    if (r->given[FLAG_lora]) st = show_finetune(c, budget.flops, err);
    if (st || r->given[FLAG_lora]) return st;
    if (r->given[FLAG_served]) return show_served(c, &chosen, budget.flops, err);
    for (i64 i = 0; i < law_count() && !r->given[FLAG_law] && !r->given[FLAG_fit]; i++) {
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
