/* dead.c - drops nodes that nobody needs: a node stays if it writes state, or one of its results
 * persists or is read by a node that stays. Values keep their numbers; those of a node that went
 * have no producer, and so no memory. */
#include "compile/compile_int.h"

static bool has_effect(const struct node *n) { return op_info(n->op)->effect == EFFECT_STATE; }

void remove_dead(struct graph *g, struct arena scratch)
{
    bool *read = NEW(&scratch, bool, g->value_count + 1);
    bool *stay = NEW(&scratch, bool, g->node_count + 1);
    for (i32 i = g->node_count - 1; i >= 0; i--) {
        const struct node *n = &g->nodes[i];
        stay[i]              = has_effect(n);
        for (i32 k = 0; k < node_results(n); k++)
            stay[i] |= read[n->out + k] || g->values[n->out + k].kind != VALUE_TEMP;
        for (i32 k = 0; stay[i] && k < n->in_count; k++) read[n->in[k]] = true;
    }
    i32 kept = 0, forward = 0;
    for (i32 i = 0; i < g->node_count; i++) {
        for (i32 k = 0; k < node_results(&g->nodes[i]); k++)
            g->values[g->nodes[i].out + k].node = stay[i] ? kept : -1;
        if (!stay[i]) continue;
        forward += i < g->forward_count;
        g->nodes[kept++] = g->nodes[i];
    }
    for (i32 i = kept; i < g->node_count; i++) g->nodes[i] = (struct node){ 0 };
    g->node_count    = kept;
    g->forward_count = forward;
}
