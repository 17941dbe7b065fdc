/* supervised_config.h - what `frugal run` is told about the program that it runs: section `program` of a run
 * file. The values are in train/options.def; here, because settings may name lower rooms only. */
#ifndef RUN_SUPERVISED_CONFIG_H
#define RUN_SUPERVISED_CONFIG_H
#include "base/text.h"

struct program_config {
    struct str folder;    /* where it keeps its checkpoints; empty: nothing is carried */
    struct str files[16]; /* patterns of their names, without folders */
    i64        file_count;
    struct str complete;  /* when a closed file is: program_complete */
    struct str signal[2]; /* that asks it to save and end; that asks it to save and go on */
    i64        signal_count;
    f64        grace_s;    /* from that signal until it is killed */
    i64        restarts;   /* in a row without a new checkpoint */
    struct str resume[16]; /* arguments added where there is a checkpoint to go on from */
    i64        resume_count;
    struct str read; /* none | regex | json | tensorboard: what the next three are found in */
    struct str step, loss, metric; /* expression with one group, key or tag; empty: none */
    struct str events;             /* tensorboard: the folder of its event files */
};

/* A closed file is complete when it has not changed for so long, or when FILE + marker is there and newer. */
struct program_complete {
    f64        settle_s;
    struct str marker; /* empty: there are none such */
};
/* From seconds, or an ending like .done. False: it is neither. */
bool program_complete(struct str text, struct program_complete *out);

#endif
