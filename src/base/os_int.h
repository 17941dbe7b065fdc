/* os_int.h - the parts of the real os, shared between os*.c and pool.c. */
#ifndef BASE_OS_INT_H
#define BASE_OS_INT_H
#include "base/os.h"
#include <time.h>

i64 os_clock_ns(clockid_t clock);

enum status os_net_connect(struct os *, struct str host, i32 port, i64 limit_ns, struct file *,
                           struct err *);
enum status os_net_listen(struct os *, struct str host, i32 port, struct file *, struct err *);
i32         os_net_port_of(struct os *, struct file);
enum status os_net_accept(struct os *, struct file, i64 limit_ns, struct file *, struct err *);

/* os_map.c: a file that was mapped, and that is about to be unmapped. */
struct stat;
void os_map_add(struct str path, struct str bytes, const struct stat *s);
void os_map_remove(struct str bytes);

#endif
