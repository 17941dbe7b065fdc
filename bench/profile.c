/* profile.c - where the time of a step goes: `bench_profile [--each] RUN.YAML [key=value…]`.
 *
 * Opens the run as `frugal train` does, feeds it one batch and times the instructions of its
 * programs again and again; the smallest counts, because what disturbs only adds. One line a
 * pair of op and kernel, or with --each one an instruction. FLOPs and bytes are the op table's; `roof` is the
 * time these would take at the target's rates over the time they took. */
#include "cli/config.h"
#include "train/train_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS_MIN = 5, PERM_GIB = 64 };
static const f64 budget_s = 2; /* of a program, beyond the fewest repeats */

struct line { /* of the table */
    struct str  op, kernel, what;
    i64         count;
    f64         seconds, roof_s;
    struct cost cost;
};

static const char *const program_names[PROGRAM_COUNT] = {
    [PROGRAM_TRAIN] = "train",         [PROGRAM_TRAIN_LAST] = "train, last batch",
    [PROGRAM_ADD] = "train, adding",   [PROGRAM_ADD_LAST] = "train, adding, last batch",
    [PROGRAM_UPDATE] = "update",       [PROGRAM_EVAL] = "eval",
    [PROGRAM_EVAL_LAST] = "eval, last batch",
};

static void check(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "bench_profile: %s\n", err->text);
    exit((int)st);
}

/* One batch and the scalars of a first step. */
static void feed(struct session *s)
{
    const struct train_config *t     = &s->settings->train;
    const struct feeds        *feeds = dataset_feeds(s->data);
    bool                       sgd   = s->config.optimiser == OPTIMISER_SGD;
    struct loader_config       c     = { .split = SPLIT_TRAIN, .seed = t->seed, .shuffle = true,
                                         .batch = s->config.batch };
    f32 hyper[4] = { (f32)t->lr, (f32)(sgd ? t->momentum : t->beta1), (f32)t->beta2, 1 };
    f32 seed     = 1 / (f32)(s->config.batch * model_rows(s->model));
    i32 rng[4]   = { (i32)t->seed };

    struct loader *loader;
    struct err     err;
    check(loader_open(s->perm, s->data, &c, &loader, &err), &err);
    struct batch *b = loader_next(loader);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    session_put(s, STR("hyper"), hyper, sizeof hyper);
    session_put(s, STR("loss_seed"), &seed, sizeof seed);
    session_put(s, STR("rng"), rng, sizeof rng);
    loader_close(loader);
}

/* "h.0.attn f32[8,256,384] f32[1152,384] -> f32[8,256,1152]" */
static struct str describe(struct arena *perm, const struct graph *g, const struct node *n)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%.*s", STR_ARG(n->name));
    for (i32 i = 0; i < n->in_count + node_results(n); i++) {
        bool         is_out = i >= n->in_count;
        i32          value  = is_out ? n->out + i - n->in_count : n->in[i];
        char         text[128];
        struct arena lent = { (u8 *)text, (u8 *)text + sizeof text, NULL };
        struct str   type = type_text(&lent, g->values[value].type);
        textbuf_fmt(&b, "%s%.*s", i == n->in_count ? " -> " : " ", STR_ARG(type));
    }
    return textbuf_str(&b);
}

static int by_seconds(const void *a, const void *b)
{
    f64 x = ((const struct line *)a)->seconds, y = ((const struct line *)b)->seconds;
    return (x < y) - (x > y);
}

/* Smallest seconds of each instruction, and of the whole program without looking inside. */
static f64 measure(struct session *s, const struct program *p, f64 *seconds, struct arena scratch)
{
    const struct backend_table *b    = s->backend->table;
    f64                        *once = NEW(&scratch, f64, MAX(1, p->instr_count));
    f64                         whole = 0;
    i64                         start_ns = s->os->now_ns(s->os), begin_ns = start_ns;
    for (i64 r = 0; r < REPEATS_MIN || (f64)(begin_ns - start_ns) * 1e-9 < budget_s; r++) {
        begin_ns = s->os->now_ns(s->os);
        b->wait(s->backend, b->run(s->backend, p));
        f64 run_s = (f64)(s->os->now_ns(s->os) - begin_ns) * 1e-9;
        whole     = r ? MIN(whole, run_s) : run_s;
        b->time(s->backend, p, once);
        for (i32 i = 0; i < p->instr_count; i++)
            seconds[i] = r ? MIN(seconds[i], once[i]) : once[i];
    }
    return whole;
}

/* What the work takes at the target's rates, whichever binds. */
static f64 roof_of(const struct target *t, const struct sig *sig, struct cost cost)
{
    bool low  = op_info(sig->op)->dtype_class == CLASS_LOW;
    f64  rate = t->flops_s[low ? sig->in[0].dtype : DT_F32];
    f64  work = rate > 0 ? cost.flops / rate : 0;
    return MAX(work, t->bandwidth_bytes_s > 0 ? cost.bytes / t->bandwidth_bytes_s : 0);
}

/* One line an instruction, or one for all with the same op and kernel. */
static i64 gather(const struct program *p, const struct target *t, const f64 *seconds, bool each,
                  struct line *lines, struct arena *perm)
{
    i64 count = 0;
    for (i32 i = 0; i < p->instr_count; i++) {
        const struct node *n       = &p->graph->nodes[p->instrs[i].node];
        struct arena       scratch = *perm;
        struct sig         sig     = graph_sig(p->graph, n, &scratch);
        struct cost        cost    = op_cost(&sig);
        f64                roof_s  = roof_of(t, &sig, cost); /* sig's memory is lent until here */
        struct str         op = op_text(perm, n->op, &n->at), kernel = p->instrs[i].kernel;
        i64                at = each ? count : 0, colon = str_find(kernel, ':');
        if (!each && colon >= 0) kernel.len = colon; /* of a product without its algorithm */
        while (at < count && !(str_eq(lines[at].op, op) && str_eq(lines[at].kernel, kernel))) at++;
        if (at == count)
            lines[count++] = (struct line){ .op = op, .kernel = kernel };
        if (each) lines[at].what = describe(perm, p->graph, n);
        lines[at].count++;
        lines[at].seconds += seconds[i];
        lines[at].roof_s += roof_s;
        lines[at].cost.flops += cost.flops;
        lines[at].cost.bytes += cost.bytes;
    }
    qsort(lines, (size_t)count, sizeof *lines, by_seconds);
    return count;
}

static void profile(struct session *s, enum program_id id, bool each)
{
    const struct program *p = s->set->programs[id];
    if (!p || id == PROGRAM_TRAIN_LAST) return;
    struct arena scratch = s->scratch;
    f64         *seconds = NEW(&scratch, f64, MAX(1, p->instr_count));
    f64          whole   = measure(s, p, seconds, scratch), sum = 0;
    struct line *lines   = NEW(&scratch, struct line, MAX(1, p->instr_count));
    i64          count   = gather(p, &s->target, seconds, each, lines, &scratch);
    for (i64 i = 0; i < count; i++) sum += lines[i].seconds;

    printf("program %s: %.3f ms, by instruction %.3f ms, %d instructions\n", program_names[id],
           whole * 1e3, sum * 1e3, p->instr_count);
    printf("  %-22s %-24s %5s %9s %6s %8s %7s %5s\n", "op", "kernel", "count", "ms", "share",
           "GFLOP/s", "GB/s", "roof");
    for (i64 i = 0; i < count; i++) {
        const struct line *l = &lines[i];
        printf("  %-22.*s %-24.*s %5lld %9.3f %5.1f%% %8.1f %7.1f %4.0f%%  %.*s\n", STR_ARG(l->op),
               STR_ARG(l->kernel), (long long)l->count, l->seconds * 1e3, 100 * l->seconds / sum,
               l->cost.flops / l->seconds * 1e-9, l->cost.bytes / l->seconds * 1e-9,
               100 * l->roof_s / l->seconds, STR_ARG(l->what));
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    bool each = argc > 1 && !strcmp(argv[1], "--each");
    argv += each;
    argc -= each;
    if (argc < 2) {
        fprintf(stderr, "bench_profile [--each] RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    struct arena   perm      = arena_open((i64)PERM_GIB << 30);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct config *config;
    struct session s;
    struct err     err;
    for (int i = 2; i < argc; i++) overrides[i - 2] = str_of(argv[i]);
    check(config_read(os_real(), &perm, str_of(argv[1]), overrides, argc - 2, &config, &err), &err);
    check(session_open(&s, os_real(), &config->settings, &perm, &err), &err);
    if (s.backend->table->rate) s.backend->table->rate(s.backend, &s.target);
    check(session_start(&s, &err), &err);
    feed(&s);
    for (i32 id = 0; id < PROGRAM_COUNT; id++) profile(&s, id, each);
    session_close(&s);
    arena_close(&perm);
    return STATUS_OK;
}
