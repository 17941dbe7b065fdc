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
};

#define KERNEL_JOINED "joined" /* an instruction's kernel: another's does its work on the way */

struct instr {
    i32        node;
    i64        work_offset; /* workspace in the arena */
    i64        work_bytes;
    struct str kernel;      /* chosen by the backend */
};

struct program {
    struct graph *graph;
    i64          *offset; /* of each value in the arena; -1: it has no memory (unused) */
    struct instr *instrs; /* nodes that do something; reshapes do not */
    i32           instr_count;
    i64           bytes;  /* end of the highest tensor this program touches */
    void         *prepared; /* the backend's own */
};

enum program_id {
    PROGRAM_TRAIN,      /* gradients of a full batch */
    PROGRAM_TRAIN_LAST, /* of the short last batch of an epoch */
    PROGRAM_ADD,        /* later micro-batches: gradients are added to those that are there */
    PROGRAM_ADD_LAST,
    PROGRAM_UPDATE,     /* clip and optimiser */
    PROGRAM_SQUARE,     /* squared norm of the gradients there are */
    PROGRAM_EVAL,
    PROGRAM_EVAL_LAST,
    PROGRAM_COUNT
};

struct program_set {
    struct persistent *persistents;
    i32                persistent_count;
    i64                persistent_bytes; /* their end in the arena */
    i64                arena_bytes;      /* exact: the end of the highest tensor of any program */
    struct program    *programs[PROGRAM_COUNT]; /* NULL where there is none */
};

const struct persistent *program_set_find(const struct program_set *s, struct str name);
struct cost              program_cost(const struct program *p, struct arena scratch);

/* Text: one line an instruction, with operands, types, offsets, kernel and cost. Reading it back
 * gives the same graph and layout, and printing that the same text. */
struct str  program_print(const struct program *p, struct arena *perm, struct arena scratch);
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
