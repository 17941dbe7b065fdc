/* decode.c - where the time of a new token goes: `bench_decode [--each] FOLDER [key=value…]`, a Hugging Face folder.
 *
 * Opens the model as `frugal generate` does and continues one text by greedy tokens. First line: microseconds of a
 * token as the caller sees it; of the device alone, the same step again and again; of the call that starts it; of
 * taking the logits. Then a line a pair of op and kernel, or with --each one an instruction, each timed alone. */
#include "run/op_table.h"
#include "train/config.h"
#include "train/use_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERM_GIB = 64, BEGIN = 16, TOKENS = 128, STEPS = 64, ROUNDS = 5 };

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_decode: %s\n", err->text);
    exit((int)st);
}

static f64 us_since(struct os *os, i64 begin_ns, i64 count)
{
    return (f64)(os->now_ns(os) - begin_ns) * 1e-3 / (f64)count;
}

/* The best of ROUNDS texts: a token as the caller sees it. */
static f64 time_tokens(struct use *u, struct os *os, i32 *tokens)
{
    f64 best = 0;
    for (i32 round = 0; round < ROUNDS; round++) {
        struct use_text text = { tokens, BEGIN };
        i32             next;
        i64             begin_ns = 0;
        use_forget(u, 0);
        for (i64 i = 0; i < BEGIN; i++) tokens[i] = (i32)i;
        for (i64 i = 0; i < TOKENS; i++) {
            if (i == 1) begin_ns = os->now_ns(os);
            use_likeliest(u, &text, &next);
            tokens[text.count++] = next;
        }
        f64 us = us_since(os, begin_ns, TOKENS - 1);
        best   = round ? MIN(best, us) : us;
    }
    return best;
}

static void time_parts(struct use *u, struct os *os, struct arena scratch)
{
    const struct backend_table *b      = u->s.backend->table;
    const struct program       *p      = u->s.set->programs[PROGRAM_EVAL_LAST];
    f32                        *logits = NEW(&scratch, f32, u->vocabulary);
    f64                         device = 0, call = 0, take = 0;
    for (i32 round = 0; round < ROUNDS; round++) {
        i64 begin_ns = os->now_ns(os);
        for (i32 i = 0; i < STEPS; i++) b->run(u->s.backend, p);
        f64 called = us_since(os, begin_ns, STEPS);
        b->wait(u->s.backend, 0);
        f64 ran  = us_since(os, begin_ns, STEPS);
        begin_ns = os->now_ns(os);
        session_get(&u->s, STR("logits"), logits, u->vocabulary * (i64)sizeof *logits);
        f64 took = us_since(os, begin_ns, 1);
        device   = round ? MIN(device, ran) : ran;
        call     = round ? MIN(call, called) : called;
        take     = round ? MIN(take, took) : took;
    }
    printf("device %.1f us, starting it %.1f us, taking the logits %.1f us, %d instructions\n", device,
           call, take, p->instr_count);
}

static void time_ops(struct use *u, bool each, struct arena scratch)
{
    const struct program *p       = u->s.set->programs[PROGRAM_EVAL_LAST];
    f64                  *seconds = NEW(&scratch, f64, p->instr_count);
    f64                  *once    = NEW(&scratch, f64, p->instr_count);
    struct op_table       t       = op_table_new(&scratch, p->instr_count);
    for (i32 round = 0; round < ROUNDS; round++) {
        u->s.backend->table->time(u->s.backend, p, once);
        for (i32 i = 0; i < p->instr_count; i++)
            seconds[i] = round ? MIN(seconds[i], once[i]) : once[i];
    }
    op_table_add(&t, p, &u->s.target, seconds, 1, each ? OPS_EACH : OPS_BY_KERNEL, &scratch);
    op_table_sort(&t, OPS_TIME);
    for (i64 i = 0; i < t.count; i++) {
        const struct op_row *r = &t.rows[i];
        printf("  %-18.*s %-24.*s %4lld %9.1f us %8.1f GB/s\n", STR_ARG(r->op), STR_ARG(r->what),
               (long long)r->calls, r->seconds * 1e6,
               r->seconds > 0 ? r->cost.bytes / r->seconds * 1e-9 : 0);
    }
}

int main(int argc, char **argv)
{
    bool each = argc > 1 && !strcmp(argv[1], "--each");
    argv += each;
    argc -= each;
    if (argc < 2) {
        fprintf(stderr, "bench_decode [--each] FOLDER [key=value...]\n");
        return STATUS_USAGE;
    }
    struct os     *os     = os_real();
    struct arena   perm   = arena_open((i64)PERM_GIB << 30);
    struct config *config = config_new(&perm);
    struct err     err    = { 0 };
    struct use    *u;
    struct str     folder = str_of(argv[1]);
    check(config_add_override(config, &perm, STR("model.kind=hf"), &err), &err);
    check(config_add_override(config, &perm, str_cat(&perm, STR("model.path="), folder), &err), &err);
    for (int i = 2; i < argc; i++)
        check(config_add_override(config, &perm, str_of(argv[i]), &err), &err);
    struct use_next_config how = { .length = 2 * (BEGIN + TOKENS), .sequences = 1 };
    check(use_open_next(os, &config->settings, &how, &u, &err), &err);
    i32 *tokens = NEW(&perm, i32, how.length);
    printf("a token %.1f us; ", time_tokens(u, os, tokens));
    time_parts(u, os, perm);
    time_ops(u, each, perm);
    struct train_loaded l = use_loaded(u);
    printf("loaded %.2f GB at %.1f GB/s\n", (f64)l.bytes * 1e-9, (f64)l.bytes / l.seconds * 1e-9);
    use_close(u);
    arena_close(&perm);
    return STATUS_OK;
}
