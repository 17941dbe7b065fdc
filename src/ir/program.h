/* program.h - a graph with memory: what a backend runs, and the set of them that is a run.
 *
 * The set shares one arena: named persistents first (parameters, gradients, optimiser state,
 * buffers, scalars, inputs, outputs, each kind contiguous, parameters in the order of their
 * groups), then the temporaries of whichever program is running. A checkpoint is exactly the
 * persistents that carry state. docs/formats/program.md describes the text. */
#ifndef IR_PROGRAM_H
#define IR_PROGRAM_H
#include "ir/graph.h"
#include "ir/target.h"

struct persistent {
    struct str      name;
    enum value_kind kind;
    struct type     type;
    struct init     init;
    i64             offset; /* in the arena */
    bool            decay, frozen, hidden;
    i64             sparse_rows;
    bool            dealt; /* a rank's part of `whole` */
    struct shape    whole;
};
/* As the model has it, whatever of it lies here. */
struct type persistent_type(const struct persistent *t);

#define KERNEL_JOINED "joined" /* an instruction's kernel: another's does its work on the way */

struct instr {
    i32        node;
    i64        work_offset; /* workspace in the arena */
    i64        work_bytes;
    struct str kernel; /* chosen by the backend */
    i32        queue;  /* 0: in turn; 1: beside what follows, until that touches the same bytes */
};

struct program {
    struct graph   *graph;
    i64            *offset; /* of each value in the arena; -1: it has no memory (unused) */
    struct instr   *instrs; /* nodes that do something; reshapes do not */
    i32             instr_count;
    i64             bytes;    /* end of the highest tensor this program touches */
    void           *prepared; /* the backend's own; NULL: not yet */
    i64             rows;     /* that it packs sequences into, its capacity; 0: it packs none */
    struct program *smaller; /* the same for fewer rows, where that has been made; the list falls */
};

enum program_id {
    PROGRAM_TRAIN,      /* gradients of a full batch */
    PROGRAM_TRAIN_LAST, /* of the short last batch of an epoch */
    PROGRAM_ADD,        /* later micro-batches: gradients are added to those that are there */
    PROGRAM_ADD_LAST,
    PROGRAM_UPDATE, /* clip and optimiser */
    PROGRAM_SQUARE, /* squared norm of the gradients there are */
    PROGRAM_EVAL,
    PROGRAM_EVAL_LAST,
    PROGRAM_COUNT
};

/* A graph as it was after a pass of compile; kept where the configuration asks for it. */
struct pass_text {
    enum program_id program;
    struct str      pass, text; /* text: graph_print */
    i32             nodes;
};
struct pass_list {
    struct pass_text *items;
    i32               count;
};

struct program_set {
    struct persistent *persistents;
    i32                persistent_count;
    i64                persistent_bytes; /* their end in the arena */
    i64                arena_bytes;      /* exact: the end of the highest tensor of any program */
    struct program
                 *programs[PROGRAM_COUNT]; /* NULL where there is none; of those that pack rows the
                                                   one that holds all that a batch may have */
    f64           row_share; /* of all rows, that a batch of the data has on average; 0: all */
    struct maker *maker;     /* compile's own, for programs of fewer rows */
    struct pass_list passes; /* in the order in which they ran; empty: nobody asked for them */
};

/* Capacities are the multiples of `program_row_step` and the whole: few enough that each is worth preparing,
 * and a batch that fills half of the whole wastes 3 % on average. The same rows always get the same one. */
i64             program_row_step(const struct program *p);
i64             program_capacity(const struct program *p, i64 rows);
struct program *program_holding(struct program *largest, i64 rows); /* NULL: it has not been made */
/* What a batch of average length takes, if that has been made, else programs[id]; NULL: none. */
struct program *program_typical(const struct program_set *s, enum program_id id);

const struct persistent *program_set_find(const struct program_set *s, struct str name);
/* Of tables that are trained by the rows of a step, and of their state: there whatever the batch is. */
i64         program_set_table_bytes(const struct program_set *s, enum value_kind kind);
struct cost program_cost(const struct program *p, struct arena scratch);

/* Text: one line an instruction, with operands, types, offsets, kernel and cost. Reading it back
 * gives the same graph and layout, and printing that the same text. */
struct str  program_print(const struct program *p, struct arena *perm, struct arena scratch);
struct str  graph_print(const struct graph *g,
                        struct arena       *perm); /* the same, without what a layout adds */
enum status program_parse(struct arena *perm, struct str text, struct program **out,
                          struct err *err);

/* A stretch of bytes that somebody owns from the node that writes it (-1: the host does) to the last that
 * reads it. A claim may take over another's bytes at the node where that one ends. */
struct claim {
    i64 begin, end;  /* in the arena */
    i32 first, last; /* nodes, both included */
    i32 value;       /* -1: a workspace */
};
/* All of them; room for as many as values and instructions. */
i64 program_claims(const struct program *p, struct claim *claims, struct arena scratch);

/* The graph is sound, what instructions touch has a place below `bytes`, and no two values that
 * live at the same time share a byte, except where the table allows it. */
enum status program_verify(const struct program *p, struct arena scratch, struct err *err);

#endif
