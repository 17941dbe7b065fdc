/* os.h - the seam to the outside world: files, clock, sockets, environment, signals.
 *
 * All of frugal reaches the world through a `struct os`. A test passes its own table of
 * functions and is then the disk, the clock, the network and the power cut. Every function sets
 * one sentence in err (err may be NULL) naming the path or address and the system's reason. */
#ifndef BASE_OS_H
#define BASE_OS_H
#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include <stdatomic.h>

struct file {
    int fd; /* -1: none */
};

struct os_stat {
    i64  bytes;
    i64  mtime_ns;
    bool is_dir, is_plain;
    bool is_private; /* nobody but its owner may read it */
    bool is_link;    /* of an os_beneath only: otherwise links are followed */
};

enum os_signal {
    OS_SIGNAL_NONE,
    OS_SIGNAL_INT,
    OS_SIGNAL_TERM,
    OS_SIGNAL_HUP,
    OS_SIGNAL_USR1,
    OS_SIGNAL_WATCH, /* no signal of the kernel's: somebody pressed "stop" (run/ask_stop.h) */
    OS_SIGNAL_COUNT
};
const char *os_signal_name(enum os_signal s); /* "Ctrl-C", "SIGTERM": who stopped it */

struct os {
    void *context;
    /* Plain files only, at once: a FIFO or a device may never answer. What the shell opened for us
     * (/dev/stdin, /dev/fd/N) may be a pipe. */
    enum status (*open_read)(struct os *, struct str path, struct file *, struct err *);
    enum status (*create)(struct os *, struct str path, struct file *, struct err *);
    enum status (*read)(struct os *, struct file, void *to, i64 bytes, i64 at, i64 *got,
                        struct err *); /* at < 0: next bytes; *got 0 at the end, else >= 1 */
    enum status (*write)(struct os *, struct file, struct str bytes, struct err *); /* all */
    enum status (*sync)(struct os *, struct file, struct err *);
    enum status (*close)(struct os *, struct file *, struct err *);
    enum status (*rename)(struct os *, struct str from, struct str to, struct err *);
    enum status (*remove)(struct os *, struct str path, struct err *);
    enum status (*make_dir)(struct os *, struct str path, struct err *); /* parents too */
    enum status (*sync_dir_of)(struct os *, struct str path, struct err *);
    enum status (*lock)(struct os *, struct str path, struct file *,
                        struct err *); /* made if absent, ours until closed; never through a link;
                                          NO: another has it */
    enum status (*stat)(struct os *, struct str path, struct os_stat *, struct err *);
    void (*set_mtime)(struct os *, struct str path, i64 mtime_ns); /* where that is allowed */
    enum status (*list)(struct os *, struct str dir, struct arena *perm, struct str **names,
                        i64 *count, struct err *);                                     /* sorted */
    enum status (*map)(struct os *, struct str path, struct str *bytes, struct err *); /* to read */
    void (*unmap)(struct os *, struct str bytes);
    i64 (*now_ns)(struct os *);                       /* monotonic */
    i64 (*wall_ns)(struct os *);                      /* since 1970 */
    void (*sleep_ns)(struct os *, i64 ns);            /* a signal ends it early */
    struct str (*env)(struct os *, const char *name); /* data NULL when unset */
    struct str (*env_at)(struct os *,
                         i64 index); /* all of them, as NAME=VALUE; data NULL at the end */
    /* Streams are read, written and closed as files are, each read and write within limit_ns (of
     * connect; accepted ones within ten seconds). A limit below 0 is none. */
    enum status (*connect)(struct os *, struct str host, i32 port, i64 limit_ns, struct file *,
                           struct err *);
    enum status (*listen)(struct os *, struct str host, i32 port, struct file *, struct err *);
    i32 (*port_of)(struct os *, struct file); /* of a listener: the one it got when asked for 0 */
    enum status (*accept)(struct os *, struct file, i64 limit_ns, struct file *,
                          struct err *);        /* STATUS_NO: nobody came; INTERRUPTED: a signal */
    enum os_signal (*signal_take)(struct os *); /* the next signal caught and not yet taken */
    /* Advice: from now on what is written to this file goes past the page cache, or no longer. Where
     * it does, memory, place in the file and length should be multiples of OS_DIRECT_ALIGN. */
    void (*direct)(struct os *, struct file, bool on);
    bool (*holds)(struct os *, struct file lock,
                  struct str path); /* false: what lies there is no longer the
                                                                     file that was locked */
    struct os_root *root;           /* of os_beneath; NULL: none */
    i64 (*signal_ns)(
        struct os
            *); /* when the first TERM or HUP was caught, on now_ns; 0: none was. May be NULL */
};

enum { OS_DIRECT_ALIGN = 4096 };

struct os *os_real(void); /* the machine itself; one for the process */

/* The same, but below the folder `root` no symbolic link is followed: files and folders there are what
 * they are called, or an error. The root itself may be reached by links; it is opened at first use, and
 * held until os_beneath_end. Other paths mean what they always do. */
struct os_root {
    struct str path;
    atomic_int fd; /* -1: not opened yet */
};
struct os *os_beneath(struct os *, struct str root, struct arena *perm);
void       os_beneath_end(struct os *);
void       os_signals_catch(void); /* INT, TERM, HUP (unless it is ignored: nohup) and USR1 are held
                                          for signal_take from now on;
                                          a second INT ends the process at once with status 4; a
                                          reader that goes away is an error of write, no signal */
void       os_on_second_interrupt(
          void (*last)(void));        /* in the handler, before it ends us; NULL: nothing */
void os_signal_add(enum os_signal s); /* as if it had been caught; from any thread */

/* A second process of ours: a copy of this one that runs `work` and ends with what that returns. Both
 * ends may write messages of up to 4096 bytes to the stream and read them one by one; a read of 0
 * bytes says that the other is gone. It ends when we do. */
struct os_child {
    i64         pid; /* 0: none */
    struct file stream;
};
typedef int os_child_fn(void *context, struct file stream);
enum status os_child_start(struct os_child *c, os_child_fn *work, void *context, struct err *);
void        os_child_end(struct os_child *c); /* asks it to stop, waits, and closes the stream */
/* What a shell command prints, at most bytes_max, within limit_ns; its errors go where ours do, its input
 * is empty. WORLD: it cannot be run, ends with another code than 0, or takes too long; then it is
 * killed. */
enum status os_output_of(const char *command, i64 limit_ns, i64 bytes_max, struct arena *perm,
                         struct str *out, struct err *err);
/* The path of a program by the folders of PATH; NULL: there is none. */
const char *os_find_program(struct os *os, const char *name, struct arena *perm);
/* Which of the streams has something to read, or is closed; -1: none within limit_ns, or before a
 * signal came. */
i64 os_wait_any(const struct file *streams, i64 count, i64 limit_ns);

/* WORLD once the bytes of a mapped file were lost while they were read (it was truncated, its disk failed)
 * and zeros stood in for them, until that is unmapped and reported: whoever reads mapped files asks before
 * it believes them. With err NULL it is not reported, only asked for. */
enum status os_maps_check(struct err *err);
/* The same, after a look at the length of every mapped file: a system call each. */
enum status os_maps_verify(struct err *err);
/* From now on what this thread creates is for this user alone: files 0600, folders 0700; or, false, what umask
 * leaves to others. Returns what it was. Checkpoints, the ledger and caches are private, results are not. */
bool os_private(bool on);

/* Whole files, built on the seam. A zero byte follows the bytes read. */
bool        os_is_file(struct os *os, struct str path); /* or a link to one; not a folder */
enum status os_read_all(struct os *, struct str path, struct arena *perm, struct str *bytes,
                        struct err *);
/* The name under which a file is written before it takes its own; another for each process, so
 * that two runs with the same output cannot write into one another's. */
struct str os_part_name(struct arena *perm, struct str path);
/* Removes what processes that are gone have left under part names of that path. Those that write hold a
 * lock on theirs; os_publish sweeps by itself. */
void os_part_sweep(struct os *, struct str path, struct arena scratch);
/* "BASE.PID.part" of a process that does not run here. */
bool os_part_is_left(struct str name, struct str base);
/* A reader sees the old file or the whole new one, even after a power cut: part name, sync, rename,
 * folder sync. */
enum status os_publish(struct os *, struct str path, struct str bytes, struct arena scratch,
                       struct err *);
/* The same for bytes that lie in pieces, one behind the other. */
enum status os_publish_parts(struct os *, struct str path, const struct str *parts, i64 count,
                             struct arena scratch, struct err *);
/* The same for pieces made one after the other, each once the last is written; len < 0: it failed and set *err. */
struct os_pieces {
    struct str (*piece)(const void *context, i64 i);
    const void *context;
    i64         count;
};
enum status os_publish_from(struct os *, struct str path, const struct os_pieces *pieces,
                            struct arena scratch, struct err *);
i64         os_disk_free_bytes(struct str path); /* where this file would lie; -1: not known */
bool        os_disk_is_remote(struct str path);  /* on a network file system, or one that may be */
struct str  os_absolute(struct arena *perm, struct str path); /* without links; as given where there
                                                                is no such file */
i64         os_peak_rss_bytes(void);                          /* VmHWM */
i64         os_memory_free_bytes(void); /* what the machine has left, but no more than this process
                                           may have: its control groups, ulimit -v */
/* The start of a small text file of the kernel's; the value after "KEY   : " in such a text. Empty if
 * there is none. */
struct str os_proc_text(struct str path, char *text, i64 bytes_max);
struct str os_proc_value(struct str text, struct str key);
i64        os_process_age_ns(void); /* since the process was loaded */

#endif
