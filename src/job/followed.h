/* followed.h - one run of a training loop that reports to us, from its settings to its bill. */
#ifndef JOB_FOLLOWED_H
#define JOB_FOLLOWED_H
#include "job/job.h"
#include "supervise/follow.h"

/* As follow_run; NO also where the target was not reached. `show` hears the run's events last. */
enum status job_follow(const struct job *j, struct file in, const struct subscriber *show,
                       struct follow_result *result, struct err *err);

#endif
