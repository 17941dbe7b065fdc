/* sim_os.h - a world for tests: a disk in memory, a clock that moves when told, and an accident at
 * whichever call the test chooses.
 *
 * The disk forgets as a real one does: written bytes survive a power cut only after sync, names
 * (of files and folders: made, renamed, removed) only after sync_dir_of. What was not synced may
 * still have reached the disk, so a write path is right when it is right for every enum sim_survive:
 *
 *     for (i64 kill = 1; !done; kill++) {
 *         struct sim_os *sim = sim_os_new(perm);
 *         sim->kill_at = kill;
 *         done = !os_publish(&sim->os, ...);
 *         sim_os_crash(sim, SIM_NAMES_ONLY);
 *         ... what does the next process find? ...
 *     }
 *
 * A sync of a file that fails loses its bytes, and says "done" when asked again, as Linux does; a
 * folder's stays to be done, for file systems keep names in a journal that stops with the error. */
#ifndef SIM_OS_H
#define SIM_OS_H
#include "base/os.h"

enum sim_survive {
    SIM_SYNCED_ONLY, /* nothing but what was synced */
    SIM_NAMES_ONLY,  /* all names, but of their bytes only the synced ones */
    SIM_BYTES_ONLY,  /* all bytes, but only the synced names */
    SIM_ANY,         /* of what was not synced some bytes, some names, by sim->seed */
    SIM_ALL,         /* the process was killed, the machine was not: a power cut may follow */
    SIM_SURVIVE_COUNT
};

struct sim_os {
    struct os os;        /* pass &sim->os */
    i64       calls;     /* that could fail, so far */
    i64       fail_at;   /* that call (1 is the first) fails once; 0: none */
    i64       full_at;   /* from that call on the disk is full; 0: never */
    i64       kill_at;   /* that call is the last: it does half its work or none, and from
                                then on nothing has any effect until sim_os_crash */
    i64       bytes_max; /* what the disk can hold; 0: anything */
    u64       seed;      /* of SIM_ANY */
    void     *context;   /* of the two below, which may be NULL */
    void (*before_change)(struct sim_os *);              /* of the disk, by a call */
    bool (*skip_sync)(struct sim_os *, struct str path); /* true: this one does nothing; of a folder
                                                            the path ends in a slash */
    i64              now_ns;                             /* sleep_ns moves it */
    enum os_signal   signal;                             /* given to the next signal_take */
    struct str       env[16][2];
    i64              env_count;
    struct sim_disk *disk;
};

struct sim_os *sim_os_new(struct arena *perm); /* an empty disk; keeps perm for the files */
void           sim_os_crash(struct sim_os *sim, enum sim_survive survive); /* and a new start */
/* A second world with the same disk in the same state, no file open and no accident to come. */
struct sim_os *sim_os_copy(const struct sim_os *sim, struct arena *perm);
/* Around the accidents: what a file holds now; data is NULL when there is none. */
struct str sim_os_look(struct sim_os *sim, struct str path);
void       sim_os_put(struct sim_os *sim, struct str path, struct str bytes); /* synced */

#endif
