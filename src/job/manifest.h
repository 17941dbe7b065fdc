/* manifest.h - a plan's row as the file that somebody else's scheduler runs it from: SkyPilot's task, a batch script
 * of Slurm, a Job of Kubernetes. Each installs frugal or names its image, asks for the row's machine at its price,
 * trains with the row's settings, and says what is started again: exit codes 3 (the system failed) and 4
 * (interrupted), from the newest checkpoint; 1 and 2 are answers. */
#ifndef JOB_MANIFEST_H
#define JOB_MANIFEST_H
#include "job/plan_question.h"

enum manifest_kind { MANIFEST_SKYPILOT, MANIFEST_SLURM, MANIFEST_KUBERNETES, MANIFEST_COUNT };
enum { MANIFEST_RESTARTS = 100 };

struct manifest {
    struct str             name;     /* of the run */
    struct str             run_file; /* its path, and what it says */
    struct str             run_text;
    const struct str      *settings; /* KEY=VALUE */
    i64                    setting_count;
    struct str             install; /* a shell command; empty: of the wheel beside the run file */
    struct str             image;   /* empty: none */
    struct str             region;  /* that was asked for; empty: none */
    i64                    ranks;   /* processes, of Slurm */
    const struct plan_row *row;
};

bool manifest_find(struct str name, enum manifest_kind *out);
/* The first row that frugal can train on a machine that this scheduler rents, with one GPU or `ranks` of them (0: any
 * number); NULL: none. */
const struct plan_row *manifest_row(const struct plan_question *q, enum manifest_kind kind,
                                    i64 ranks);
struct str manifest_text(const struct manifest *m, enum manifest_kind kind, struct arena *perm);

#endif
