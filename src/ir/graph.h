/* graph.h - a step as a list of nodes over values, in the order they were built.
 *
 * Values are numbered; a node's results are consecutive. The order of nodes is already an order
 * of execution. Errors are sticky: the first wrong node leaves its sentence in the graph, later
 * calls do nothing and return -1, and the builder asks graph_status once at the end (or after each
 * layer, to name the line). */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H
#include "base/arena.h"
#include "base/err.h"
#include "ir/op.h"

/* Where a value's memory comes from. All but TEMP persist between programs, are known by name,
 * and lie in the arena in this order. */
enum value_kind {
    VALUE_PARAM,  /* trained (or frozen) weights */
    VALUE_GRAD,   /* gradient of a parameter */
    VALUE_STATE,  /* optimiser state */
    VALUE_BUFFER, /* other state of the model: batch-norm statistics */
    VALUE_CACHE, /* made from others: keys and values of sequences, copies of weights; never saved */
    VALUE_SCALAR, /* set by the host between steps: lr, step, seed of the loss, rng */
    VALUE_INPUT,  /* a batch */
    VALUE_OUTPUT, /* read by the host: loss, metrics, logits */
    VALUE_TEMP,
};

enum init_kind { INIT_ZERO, INIT_CONST, INIT_NORMAL, INIT_UNIFORM };

struct init { /* how a parameter or buffer starts; random by (seed, name, element) */
    enum init_kind kind;
    f64            scale; /* CONST: the value; NORMAL: standard deviation; UNIFORM: half width */
};

#define MATRIX_PARTS_MAX 3

struct value {
    struct str      name; /* unique among persistents; temps: empty */
    struct type     type;
    enum value_kind kind;
    i32             node; /* producer, or -1 */
    struct init     init;
    bool            decay;  /* PARAM: belongs to the group with weight decay */
    bool            frozen; /* PARAM: neither gradient nor optimiser state */
    bool            hidden; /* PARAM: a matrix between two others, for an optimiser of matrices */
    bool            table;  /* PARAM: rows that ids pick, of which a step may need few */
    i64 sparse_rows; /* PARAM: a table of which a step reads at most so many rows, by one embedding: its
                                    gradient is of these alone. GRAD, STATE: they are such a table's. 0: not so */
    bool         dealt; /* PARAM: this rank's part of a tensor of shape `whole` (compile/deal.c) */
    struct shape whole;
    i64 part_rows[MATRIX_PARTS_MAX]; /* PARAM: rows of the matrices that lie one below the other in
                                        it (queries, keys, values); all 0: it is one */
};

struct node {
    i32          op;
    struct str   name; /* stable: path in the model, e.g. h.3.mlp.up; gradients add "'" */
    i32          in_count;
    i32         *in;    /* value ids */
    i32          out;   /* first result's value id; results are consecutive */
    i32          block; /* which repeated part of the model it belongs to, from 1; 0: none */
    struct attrs at;
};

#define GRAPH_VALUES_MAX 65536
#define GRAPH_NODES_MAX 32768

struct graph {
    struct str    name;
    struct arena *perm;
    struct value *values;
    struct node  *nodes;
    i32           value_count, node_count;
    i32           forward_count;         /* nodes before the gradients; 0: there are none yet */
    i32           values_max, nodes_max; /* room in the arrays; they grow by copying */
    i32           block; /* of the nodes that are added now: models set it, passes read it */
    i64        rows; /* that sequences are packed into: set before it is built, 0: for all that they
                            may have; afterwards what it was built for, 0: nothing is packed */
    struct err err;  /* sticky */
};

i32 node_inputs(const struct node *n); /* the op's own; the rest belongs to its chain */
i32 node_results(const struct node *n);

struct graph *graph_new(struct arena *perm, struct str name);
struct graph *graph_copy(const struct graph *g, struct arena *perm); /* to change; shares names and
                                                                        inputs of nodes */
enum status   graph_status(const struct graph *g, struct err *err);  /* copies the sentence */

/* Room for one more value and one more node; the arrays may move. */
void graph_reserve(struct graph *g);

/* A named value without producer. A second call with the same name returns the first if the
 * type agrees (tied weights), else fails. */
i32 graph_value(struct graph *g, enum value_kind kind, struct str name, struct type type);
i32 graph_param(struct graph *g, struct str name, struct type type, struct init init, bool decay);
i32 graph_find(const struct graph *g, struct str name); /* persistent by name, or -1 */

/* Appends a node; returns its first result (or -1; ops without result return -1 too, see err).
 * `at` may be NULL. */
i32 graph_op(struct graph *g, i32 op, struct str name, const i32 *in, i32 in_count,
             const struct attrs *at);
/* The value persists from now on, under this name; a copy of it where its bytes have a name already
 * (it is a parameter, say, or a view of one). */
void graph_keep(struct graph *g, i32 value, enum value_kind kind, struct str name);
void graph_output(struct graph *g, i32 value, struct str name); /* kept for the host to read */

struct type graph_type(const struct graph *g, i32 value);
struct sig  graph_sig(const struct graph *g, const struct node *n, struct arena *scratch);
/* May the node's first result take the memory of input k, once it dies? By the table; and the node's
 * chain must not read it later. */
bool graph_may_share(const struct graph *g, const struct node *n, i32 k);
i32  graph_viewed(const struct graph *g, i32 value); /* whose bytes a chain of views shows */

/* Checks everything a pass could break, and survives whatever program_parse lets through: order,
 * types by the shape rules, sizes, names, writes. */
enum status graph_verify(const struct graph *g, struct arena scratch, struct err *err);

#endif
