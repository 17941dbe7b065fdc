/* crash.h - a crash says where it happened: a fault of ours, or of a library that we use, cannot be found from an exit
 * code alone. */
#ifndef CLI_CRASH_H
#define CLI_CRASH_H

/* From now on a fault prints one sentence and the calls that led there on stderr; then the process ends as it would
 * have. */
void crash_report(void);

#endif
