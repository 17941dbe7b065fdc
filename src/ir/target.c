/* target.c - what a node takes on a machine, from its cost and the machine's rates. */
#include "ir/target.h"

static const f64 flops_s_common = 100e9, bytes_s_common = 20e9; /* two cores of 2022 */

/* Whichever of arithmetic and memory is the slower; both at once is the best a machine can do. */
static f64 ideal_seconds(const struct target *t, const struct graph *g, const struct node *n,
                         struct arena scratch)
{
    struct sig  s   = graph_sig(g, n, &scratch);
    struct cost c   = op_cost(&s);
    f64         own = t->flops_s[s.in_count ? s.in[0].dtype : DT_F32];
    f64 flops       = own > 0 ? own : t->flops_s[DT_F32] > 0 ? t->flops_s[DT_F32] : flops_s_common;
    f64 bytes       = t->bandwidth_bytes_s > 0 ? t->bandwidth_bytes_s : bytes_s_common;
    return MAX(c.flops / flops, c.bytes / bytes);
}

f64 target_seconds(const struct target *t, const struct graph *g, const struct node *n,
                   struct arena scratch)
{
    f64 measured = t->seconds ? t->seconds(t, g, n) : 0;
    return measured > 0 ? measured : ideal_seconds(t, g, n, scratch);
}
