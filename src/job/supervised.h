/* supervised.h - one run of somebody else's program, from its settings to its bill. */
#ifndef JOB_SUPERVISED_H
#define JOB_SUPERVISED_H
#include "job/job.h"
#include "supervise/supervise.h"

struct job_program {
    const char *const *command;                         /* ends with NULL */
    void (*on_output)(void *context, struct str bytes); /* of its standard output */
    void *context;
};

/* As supervise_run; NO also where the target was not reached. */
enum status job_supervise(const struct job *j, const struct job_program *p,
                          struct supervise_result *result, struct err *err);

#endif
