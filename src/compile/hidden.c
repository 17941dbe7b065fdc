/* hidden.c - which parameters are hidden matrices, those that Muon is for.
 *
 * The weight of a product (a column of the op table: class LOW) whose result another product reads
 * further on. So the last layer is none, nor is a table that is looked up, a bias or a norm's weight;
 * a table that is the last layer's weight too is read by something else than a product. */
#include "compile/compile_int.h"

static bool is_product(const struct node *n) { return op_info(n->op)->dtype_class == CLASS_LOW; }

void leads_to_product(const struct graph *g, i32 nodes, bool *leads)
{
    for (i32 i = nodes - 1; i >= 0; i--) {
        const struct node *n    = &g->nodes[i];
        bool               lead = is_product(n);
        for (i32 k = 0; k < op_info(n->op)->out_count; k++) lead |= leads[n->out + k];
        for (i32 k = 0; k < n->in_count && lead; k++) leads[n->in[k]] = true;
    }
}

void mark_hidden(struct graph *g, struct arena scratch)
{
    bool *leads = NEW(&scratch, bool, g->value_count);
    leads_to_product(g, g->node_count, leads);
    for (i32 v = 0; v < g->value_count; v++) {
        struct value *p = &g->values[v];
        p->hidden       = p->kind == VALUE_PARAM && !p->frozen && p->type.shape.rank > 1;
    }
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        for (i32 k = 0; k < n->in_count; k++)
            g->values[n->in[k]].hidden &= is_product(n) && k == 1 && leads[n->out];
    }
}
