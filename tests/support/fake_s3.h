/* fake_s3.h - an object store behind the door of remote/web.h, in memory: puts with conditions, gets by
 * range, heads, lists, tags, deletions; and what goes wrong with them. Signatures and multipart are
 * for tests/oracle/test_s3.py. Any thread may send. */
#ifndef FAKE_S3_H
#define FAKE_S3_H
#include "remote/s3.h"
#include <pthread.h>

enum { FAKE_OBJECTS_MAX = 256 };

struct fake_object {
    char        key[128];
    const char *bytes;
    i64         len;
    const char *storage_class; /* NULL: the usual one */
    bool        retired;       /* tagged so */
    i64         modified_s;    /* 0: the list does not tell */
};

struct fake_s3 {
    struct web         web; /* pass &f->web */
    struct arena       memory;
    pthread_mutex_t    lock;
    struct fake_object objects[FAKE_OBJECTS_MAX];
    i64                count;
    i64                requests; /* so far */
    i64                down_at; /* from that request on (1 is the first) nobody answers; 0: never */
    i64                torn_at; /* that one is done, but its answer is lost */
    bool               ignores_conditions;
    /* Of the next fault_count reads (GET, HEAD) of keys that hold this text: the status they are
     * answered with; 200: the body has a byte changed. */
    const char *fault_key;
    i32         fault_status;
    i64         fault_count;
    atomic_bool held;    /* PUTs of shards wait while it is true, */
    atomic_int  waiting; /* so many */
};

/* Also gives an os whose environment has keys for it and nothing else. */
struct fake_s3     *fake_s3_new(struct arena *perm, struct os *os);
struct s3_settings  fake_s3_settings(void); /* s3://bucket/run, with little patience */
struct fake_object *fake_s3_find(struct fake_s3 *f, struct str key); /* NULL: none */
/* While others may be sending: so many more requests are answered, then none until it is up again. */
void fake_s3_down_after(struct fake_s3 *f, i64 answered);
void fake_s3_up(struct fake_s3 *f);
/* Sets fault_key, fault_status and fault_count; a count of 0 ends the faults. */
void fake_s3_fault(struct fake_s3 *f, const char *key, i32 status, i64 count);

#endif
