/* carry.h - brings the complete files of a program's folder into a store of checkpoints, and back.
 *
 * The program does not know us, so a file counts as complete when nobody has it open for writing and
 * it has not changed for the settle time, or when its marker is there, or when the program has
 * exited. A checkpoint is taken when every file of the folder is complete and one is new: it is the
 * whole folder at one moment. After the copy each file is looked at again; what changed meanwhile is
 * thrown away. The store is that of store/checkpoint.h, with its order of writing and its manifest:
 * docs/formats/run.md.
 *
 * carry_begin starts a thread that looks again and again; between carry_begin and carry_pause the
 * other functions but carry_state are not called. */
#ifndef SUPERVISE_CARRY_H
#define SUPERVISE_CARRY_H
#include "run/supervised_config.h"
#include "store/upload.h"

struct carry_config {
    const struct program_config  *program;
    struct str                    store; /* its folder: checkpoint.dir */
    i64                           keep;
    i64                           look_ns; /* between two looks */
    const struct upload_settings *to;      /* to an object store as well; NULL: none */
    bool fresh; /* begin anew: what was carried is removed, and files that lie in the
                                              folder go aside */
};

/* Whether files that are open or were written just now may still be half. */
enum carry_moment { CARRY_RUNNING, CARRY_EXITED };

struct carry_state {
    i64  count; /* checkpoints carried since carry_open */
    i64  step;  /* of the newest, as it was given; before the first, of the one that lies there */
    i64  bytes; /* of it */
    i64  complete_ns;  /* when its files were complete, on the clock of now_ns */
    char newest[256];  /* the file in it that was written last, within the folder */
    char waits[256];   /* a file that is new and not complete; empty: none */
    i64  waits_ns;     /* since when there has been such a one */
    i64  discarded;    /* copies thrown away, because a file changed meanwhile */
    i64  freed;        /* older checkpoints deleted because the disk is full */
    struct err failed; /* why the last try failed; OK: it did not */
};

struct carry;
/* Which run its checkpoints are of (ledger's id); the newest one that lies there says it, until
 * carry_set_run. Empty: none is known. */
struct str carry_run(const struct carry *c);
void       carry_set_run(struct carry *c, struct str run); /* at most 63 bytes of it */
/* Holds the store alone. USAGE: the store lies in the folder, or the other way round. */
enum status carry_open(struct os *os, const struct carry_config *c, struct arena *perm,
                       struct carry **out, struct err *err);
/* `ended`: the program is done, and does not go on from what was carried. NULL too. */
void carry_close(struct carry *c, bool ended);

/* Before the program starts: the folder becomes what the newest whole checkpoint has; other files go
 * to FOLDER/.frugal-aside, for they may be half. *found: there is one. `said` gets sentences on
 * damaged ones and on what went aside. WORLD: one cannot be read, or none is whole, and no file was
 * moved. Only where the store was never used, what lies in the folder
 * is believed as it is, and becomes the first checkpoint. */
enum status carry_restore(struct carry *c, struct arena *perm, struct str *said, bool *found,
                          struct err *err);
/* Takes a checkpoint if there is one to take. A file that changes meanwhile is left to the next look while the
 * program runs; once it has exited there is none, so it is tried again at once, and at last is an error (WORLD). */
enum status carry_look(struct carry *c, i64 step, enum carry_moment moment, struct err *err);

enum status carry_begin(struct carry *c, struct err *err);
void        carry_pause(struct carry *c);
/* The run must end soon: nothing is read back for pruning any more. From any thread. */
void               carry_hurry(struct carry *c);
void               carry_step(struct carry *c, i64 step); /* how far the program is */
struct carry_state carry_state(struct carry *c);

/* The object store. Without one all is there and well. */
struct upload_state carry_upload(struct carry *c);
/* As uploader_wait_end. */
enum status carry_wait_end(struct carry *c, i64                                    deadline_ns,
                           void (*say)(void *context, const char *sentence), void *context,
                           struct err *err);

#endif
