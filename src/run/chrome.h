/* chrome.h - a profile as a Chrome trace in Kineto's dialect: Perfetto opens it, Holistic Trace Analysis
 * reads it. docs/formats/trace.md has the fields. Written whole or not at all, in pieces of 64 KiB. */
#ifndef RUN_CHROME_H
#define RUN_CHROME_H
#include "base/os.h"
#include "run/profile.h"

/* `pid` is that of the process; the trace begins with the oldest event kept. */
enum status chrome_write(struct os *os, struct str path, const struct profile *p,
                         const struct target *target, i64 pid, struct arena scratch,
                         struct err *err);

#endif
