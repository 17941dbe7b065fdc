/* recompute_auto.c - the least recomputation that fits a budget of memory.
 *
 * Given a price of a byte kept, the best choice is a smallest cut. Every forward node either runs
 * again (it costs its time) or not; every value that the backward half or a node run again reads
 * is either kept (it costs its bytes) or its node runs again:
 *
 *     source --never--> v              v is read by the backward half
 *     v --price x bytes--> node(v)     v is read, but its node does not run again: v is kept
 *     node --never--> each input       who runs again reads its inputs
 *     node --seconds--> sink           who runs again takes its time
 *
 * Raising the price from nothing gives a ladder of choices, each with the least time for its
 * bytes. Between two rungs the higher one holds for the first nodes of the model and the lower for
 * the rest: what is dropped early is missed last. Where on the ladder the program just fits is
 * found by laying it out, byte for byte. Values that pass from one part of the model to the next
 * are kept, or recomputing would begin at the input and hold everything at once; a part is a
 * block, or several where one each does not fit. */
#include "compile/compile_int.h"
#include "compile/mincut.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNGS_MAX = 24, KEPT_MAX = 64 };

static const f64 ps_per_s  = 1e12; /* capacities are whole picoseconds */
static const f64 price_top = 1e3;  /* highest price, in mean seconds of a byte of this program */

struct rung {
    bool *drop;    /* by value */
    f64   bytes;   /* kept */
    f64   seconds; /* run again */
};

struct search {
    const struct graph      *g;     /* the first of them */
    const struct parts      *parts; /* all must fit */
    const struct pass_input *in;
    struct target            rates; /* that times are of */
    i64                      budget;
    f64                     *seconds; /* by forward node */
    bool                    *read;    /* by value: the backward half reads it */
    bool                    *always;  /* by value: it is never kept (drop_always) */
    i32                     *part;    /* by forward node, rising */
    bool                    *stays;   /* by forward node: must not run again */
    struct rung              rungs[RUNGS_MAX];
    i32                      rung_count;
    bool                    *best; /* what to drop */
    f64                      best_seconds;
    bool                     found;
    i64                      least_bytes; /* of anything tried */
};

static bool is_forward(const struct graph *g, i32 value)
{
    i32 node = g->values[value].node;
    return node >= 0 && node < g->forward_count;
}

/* Seconds of all that runs again, readers before what they read. */
static f64 seconds_again(const struct search *s, const bool *drop, struct arena scratch)
{
    const struct graph *g    = s->g;
    bool               *need = NEW(&scratch, bool, g->value_count + 1);
    f64                 sum  = 0;
    memcpy(need, s->read, (size_t)g->value_count * sizeof *need);
    for (i32 i = g->forward_count - 1; i >= 0; i--) {
        const struct node *n     = &g->nodes[i];
        bool               again = false;
        for (i32 k = 0; k < node_results(n); k++) again |= need[n->out + k] && drop[n->out + k];
        if (!again) continue;
        sum += s->seconds[i];
        for (i32 k = 0; k < n->in_count; k++) need[graph_viewed(g, n->in[k])] = true;
    }
    return sum;
}

/* --- what a node costs, and where parts of the model end --- */

static void look(struct search *s, struct arena scratch)
{
    const struct graph *g     = s->g;
    i32                 count = g->forward_count, last = 0, now = 0;
    for (i32 i = 0; i < count; i++) {
        s->seconds[i] =
            op_is_view(g->nodes[i].op) ? 0 : target_seconds(&s->rates, g, &g->nodes[i], scratch);
        if (g->nodes[i].block) last = i;
    }
    for (i32 i = count; i < g->node_count; i++) {
        for (i32 k = 0; k < g->nodes[i].in_count; k++)
            s->read[graph_viewed(g, g->nodes[i].in[k])] = true;
    }
    i32 width = (i32)sqrt((f64)count) + 1; /* of a part where the model has no blocks */
    for (i32 i = 0; i < count; i++) {
        now        = MAX(now, g->nodes[i].block);
        s->part[i] = !last ? i / width + 1 : i > last ? now + 1 : MAX(now, 1);
    }
}

/* Marks what must not run again if `step` parts are taken together. */
static void bound(struct search *s, i32 step)
{
    const struct graph *g = s->g;
    for (i32 i = 0; i < g->forward_count; i++) {
        const struct node *n = &g->nodes[i];
        s->stays[i]          = op_info(n->op)->effect == EFFECT_STATE && !s->always[n->out];
        for (i32 k = 0; k < n->in_count; k++) {
            i32 v = graph_viewed(g, n->in[k]);
            if (!is_forward(g, v)) continue;
            i32  from   = g->values[v].node;
            bool passes = (s->part[from] - 1) / step != (s->part[i] - 1) / step;
            if (passes && !s->always[v]) s->stays[from] = true;
        }
    }
}

/* --- the ladder --- */

static f64 kept_bytes(const struct graph *g, i32 value)
{
    return g->values[value].kind == VALUE_TEMP ? (f64)type_bytes(g->values[value].type) : 0;
}

static struct mincut *network(const struct search *s, f64 price, struct arena *perm)
{
    const struct graph *g     = s->g;
    i32                 nodes = g->forward_count, edges = g->value_count;
    for (i32 i = 0; i < nodes; i++) edges += 1 + g->nodes[i].in_count + OP_OUT_MAX;
    struct mincut *m = mincut_new(perm, MINCUT_FIRST + nodes + g->value_count, edges);
    for (i32 i = 0; i < nodes; i++) {
        const struct node *n = &g->nodes[i];
        if (op_is_view(n->op)) continue;
        mincut_edge(m, MINCUT_FIRST + i, MINCUT_SINK,
                    s->stays[i] ? MINCUT_NEVER : (i64)(s->seconds[i] * ps_per_s) + 1);
        for (i32 k = 0; k < n->in_count; k++) {
            i32 v = graph_viewed(g, n->in[k]);
            if (is_forward(g, v))
                mincut_edge(m, MINCUT_FIRST + i, MINCUT_FIRST + nodes + v, MINCUT_NEVER);
        }
        for (i32 k = 0; k < node_results(n); k++) {
            i32 v = n->out + k;
            mincut_edge(m, MINCUT_FIRST + nodes + v, MINCUT_FIRST + i,
                        s->always[v] ? MINCUT_NEVER : (i64)(kept_bytes(g, v) * price * ps_per_s));
            if (s->read[v]) mincut_edge(m, MINCUT_SOURCE, MINCUT_FIRST + nodes + v, MINCUT_NEVER);
        }
    }
    return m;
}

/* The best choice at a price in seconds a byte. */
static struct rung rung_at(const struct search *s, f64 price, struct arena *perm,
                           struct arena scratch)
{
    const struct graph *g     = s->g;
    i32                 nodes = g->forward_count;
    struct mincut      *m     = network(s, price, &scratch);
    bool               *with  = NEW(&scratch, bool, MINCUT_FIRST + nodes + g->value_count);
    struct rung         r     = { .drop = NEW(perm, bool, g->value_count + 1) };
    mincut_solve(m, with);
    for (i32 i = 0; i < nodes; i++) {
        bool again = with[MINCUT_FIRST + i];
        if (again) r.seconds += s->seconds[i];
        for (i32 k = 0; k < node_results(&g->nodes[i]); k++) {
            i32 v     = g->nodes[i].out + k;
            r.drop[v] = again && g->values[v].kind == VALUE_TEMP;
            bool kept = with[MINCUT_FIRST + nodes + v] && !again;
            if (kept) r.bytes += kept_bytes(g, v);
        }
    }
    return r;
}

/* From nothing dropped to all that may be, with every choice between them that some price makes
 * the best: the lower edge of all (bytes, seconds). */
static void build_ladder(struct search *s, struct arena *perm, struct arena scratch)
{
    f64 all_s = 0;
    for (i32 i = 0; i < s->g->forward_count; i++) all_s += s->seconds[i];
    s->rungs[0]   = rung_at(s, 0, perm, scratch);
    f64 top       = price_top * all_s / MAX(s->rungs[0].bytes, 1);
    s->rungs[1]   = rung_at(s, top, perm, scratch);
    s->rung_count = 2;
    for (i32 i = 0; i + 1 < s->rung_count && s->rung_count < RUNGS_MAX;) {
        struct rung *low = &s->rungs[i], *high = low + 1;
        f64 fewer = low->bytes - high->bytes, price = (high->seconds - low->seconds) / fewer;
        struct rung                       r = fewer > 0 ? rung_at(s, price, perm, scratch) : *high;
        f64                               line = low->seconds + price * (low->bytes - r.bytes);
        bool new = r.bytes < low->bytes &&r.bytes > high->bytes &&r.seconds <
                   line - 1e-6 * (high->seconds - low->seconds);
        if (!new) {
            i++;
            continue;
        }
        memmove(high + 1, high, (size_t)(s->rung_count - i - 1) * sizeof *high);
        *high = r;
        s->rung_count++;
    }
}

/* --- what fits --- */

/* With the passes that follow: they change what lives when. */
static i64 peak_of_part(const struct search *s, const struct graph *part, const bool *drop,
                        struct arena scratch)
{
    struct arena  room = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    struct graph *c    = graph_copy(part, &room);
    drop_values(c, drop, scratch);
    if (gathers_ahead(s->in)) gather_ahead(c, scratch);
    fuse(c, s->in->config->fuse, s->in->target, scratch);
    return program_peak(c, s->in->target, s->in->plan, scratch);
}

static i64 peak_of(const struct search *s, const bool *drop, struct arena scratch)
{
    i64 most = 0;
    for (i32 i = 0; i < s->parts->count; i++)
        most = MAX(most, peak_of_part(s, s->parts->graphs[i], drop, scratch));
    return most;
}

/* Lays the program out with these values dropped; the best of all that fit is remembered. */
static bool try_out(struct search *s, bool *drop, struct arena scratch)
{
    drop_always(s->g, s->in->config, drop);
    i64 bytes      = peak_of(s, drop, scratch);
    f64 seconds    = seconds_again(s, drop, scratch);
    s->least_bytes = MIN(s->least_bytes, bytes);
    if (bytes > s->budget) return false;
    if (s->found && seconds >= s->best_seconds) return true;
    memcpy(s->best, drop, (size_t)s->g->value_count * sizeof *drop);
    s->best_seconds = seconds;
    s->found        = true;
    return true;
}

/* `at` counts nodes over all rungs; nodes from `end` on keep everything. */
static void stand(const struct search *s, i64 at, i32 end, bool *drop)
{
    const struct graph *g     = s->g;
    i64                 nodes = g->forward_count, low = MIN(at / nodes, s->rung_count - 2);
    i64                 first = at - low * nodes; /* nodes on the higher rung */
    for (i32 v = 0; v < g->value_count; v++) {
        i32 node = g->values[v].node;
        drop[v]  = is_forward(g, v) && node < end && s->rungs[low + (node < first)].drop[v];
    }
}

/* The lowest place on the ladder that fits, by halving; then the last nodes, whose values are
 * wanted again at once, are kept as far as they fit. False: not even the top does. */
static bool climb(struct search *s, struct arena scratch)
{
    bool *drop  = NEW(&scratch, bool, s->g->value_count + 1);
    i32   nodes = s->g->forward_count;
    i64   low = 0, high = (i64)(s->rung_count - 1) * nodes; /* low does not fit, high does */
    stand(s, high, nodes, drop);
    if (!try_out(s, drop, scratch)) return false;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        stand(s, middle, nodes, drop);
        if (try_out(s, drop, scratch)) high = middle;
        else low = middle;
    }
    for (i32 short_ = 0, end = nodes; end - short_ > 1;) {
        i32 middle = (short_ + end) / 2;
        stand(s, high, middle, drop);
        if (try_out(s, drop, scratch)) end = middle;
        else short_ = middle;
    }
    return true;
}

/* --- what the ladder leaves over --- */

struct again {
    i32 node;
    f64 worth; /* seconds saved for each byte if what it makes is kept */
};

static int by_worth(const void *a, const void *b)
{
    const struct again *x = a, *y = b;
    if (x->worth != y->worth) return x->worth < y->worth ? 1 : -1;
    return y->node - x->node; /* the last first: its values live the shortest time */
}

static void set_dropped(const struct graph *g, i32 node, bool dropped, bool *drop)
{
    const struct node *n = &g->nodes[node];
    for (i32 k = 0; k < node_results(n); k++)
        drop[n->out + k] = dropped && g->values[n->out + k].kind == VALUE_TEMP;
}

/* All nodes that are dropped whole, the one worth most first. */
static i32 find_again(const struct search *s, bool *drop, struct again *out, struct arena scratch)
{
    const struct graph *g     = s->g;
    f64                 all   = seconds_again(s, drop, scratch);
    i32                 count = 0;
    for (i32 i = 0; i < g->forward_count; i++) {
        const struct node *n     = &g->nodes[i];
        f64                bytes = 0;
        bool               whole = !op_is_view(n->op);
        for (i32 k = 0; k < node_results(n); k++) {
            whole &= drop[n->out + k] && !s->always[n->out + k];
            bytes += kept_bytes(g, n->out + k);
        }
        if (!whole || bytes <= 0) continue;
        set_dropped(g, i, false, drop);
        f64 saved = all - seconds_again(s, drop, scratch);
        set_dropped(g, i, true, drop);
        if (saved > 0) out[count++] = (struct again){ i, saved / bytes };
    }
    qsort(out, (size_t)count, sizeof *out, by_worth);
    return count;
}

/* From `drop` on, node by node, what saves most for its bytes is kept as long as it fits. */
static void keep_more(struct search *s, bool *drop, struct arena scratch)
{
    struct again *again = NEW(&scratch, struct again, s->g->forward_count + 1);
    i32           count = MIN(find_again(s, drop, again, scratch), KEPT_MAX);
    for (i32 i = 0; i < count; i++) {
        set_dropped(s->g, again[i].node, false, drop);
        if (!try_out(s, drop, scratch)) set_dropped(s->g, again[i].node, true, drop);
    }
}

/* Memory does not follow the ladder's bytes step by step: values are packed, and what is run again outside of
 * blocks, or two blocks at once, holds more than it frees. So single values are kept beside the best choice so far,
 * and beside the fixed policy that recomputes every block, which often takes the least of all. */
static void improve(struct search *s, struct arena scratch)
{
    bool *drop = NEW(&scratch, bool, s->g->value_count + 1);
    if (!s->found) return;
    memcpy(drop, s->best, (size_t)s->g->value_count * sizeof *drop);
    keep_more(s, drop, scratch);
    memset(drop, 0, (size_t)s->g->value_count * sizeof *drop);
    drop_blocks(s->g, 1, drop);
    keep_more(s, drop, scratch);
}

/* A fixed policy that fits and takes less time wins: packing may favour it by a hair. */
static void consider_fixed(struct search *s, i32 blocks, struct arena scratch)
{
    bool *drop = NEW(&scratch, bool, s->g->value_count + 1);
    for (i32 every = 1; every <= blocks; every++) {
        drop_blocks(s->g, every, drop);
        if (!s->found || seconds_again(s, drop, scratch) < s->best_seconds)
            try_out(s, drop, scratch);
    }
}

/* Several ranks go by rates, not by what kernels are timed at: their program is then the same in every start, and in
 * what `show` makes of it. */
static struct target rates_of(const struct pass_input *in)
{
    struct target t = *in->target;
    if (deals(in->config)) t.seconds = NULL;
    return t;
}

enum status recompute_auto(const struct parts *parts, const struct pass_input *in, bool *drop,
                           struct arena scratch, struct err *err)
{
    const struct graph *g       = parts->graphs[0];
    i64                 allowed = in->config->recompute.memory_bytes,
        budget                  = allowed ? allowed : in->target->memory_bytes;
    struct search s = { .g = g, .parts = parts, .in = in, .budget = budget, .best = drop };
    s.rates         = rates_of(in);
    s.least_bytes   = INT64_MAX;
    drop_always(g, in->config, drop);
    if (!budget || peak_of(&s, drop, scratch) <= budget) return STATUS_OK;
    s.seconds = NEW(&scratch, f64, g->forward_count + 1);
    s.read    = NEW(&scratch, bool, g->value_count + 1);
    s.always  = NEW(&scratch, bool, g->value_count + 1);
    s.part    = NEW(&scratch, i32, g->forward_count + 1);
    s.stays   = NEW(&scratch, bool, g->forward_count + 1);
    drop_always(g, in->config, s.always);
    look(&s, scratch);
    i32          last  = s.part[g->forward_count - 1];
    struct arena rungs = arena_part(&scratch, (scratch.end - scratch.begin) / 4);
    for (i32 step = 1; step <= MAX(last, 1); step *= 2) {
        bound(&s, step);
        build_ladder(&s, &rungs, scratch);
        if (climb(&s, scratch)) break;
    }
    consider_fixed(&s, last, scratch);
    improve(&s, scratch);
    if (s.found) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "the run needs at least %.3g GiB with everything recomputed, and "
                   "%.3g GiB are allowed: train.micro_batch=auto or a smaller model fits",
                   (f64)s.least_bytes / 0x1p30, (f64)budget / 0x1p30);
}
