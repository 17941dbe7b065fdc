/* read_place.c - read_place PATH CACHE CACHE_BYTES EPOCHS THREADS: reads a place (data/place.h) in its
 * order, epoch after epoch, as the loader would, for the tests in Python. Prints a line for each epoch:
 * samples, a hash of what was read in its order, bytes fetched so far. */
#include "base/hash.h"
#include "data/place.h"
#include "data/stage.h"
#include "remote/files.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 16 }; /* as in the loader, no reader is further ahead of another */

struct epoch {
    struct place     *place;
    i64               number, count;
    u64              *hash; /* [count]: of the sample at that index */
    pthread_barrier_t batch_ends;
    atomic_llong      next;
    atomic_bool       failed;
};

static void read_one(struct epoch *e, i64 index, struct buffer *b)
{
    struct err err = { 0 };
    i64        n   = place_order(e->place, e->count, 7, e->number, index);
    if (place_read(e->place, n, b, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        e->failed = true;
    }
    e->hash[index] =
        xxh64((struct str){ (char *)b->data, b->bytes }) + (u64)place_class(e->place, n);
}

static void *read_some(void *context)
{
    struct epoch *e = context;
    struct buffer b = { 0 };
    for (i64 end = BATCH; end < e->count + BATCH; end += BATCH) {
        for (i64 i; (i = atomic_fetch_add(&e->next, 1)) < MIN(end, e->count);) read_one(e, i, &b);
        if (pthread_barrier_wait(&e->batch_ends) == PTHREAD_BARRIER_SERIAL_THREAD)
            atomic_store(&e->next, end); /* each has taken one too many */
        pthread_barrier_wait(&e->batch_ends);
    }
    buffer_release(&b);
    return NULL;
}

int main(int argc, char **argv)
{
    struct arena  perm = arena_open((i64)8 << 30);
    struct place *place;
    struct err    err = { 0 };
    pthread_t     thread[16];
    if (argc != 6) return STATUS_USAGE;
    struct data_config config = { .cache = str_of(argv[2]), .cache_bytes = atoll(argv[3]) };
    i64                epochs = atoll(argv[4]), threads = MIN(atoll(argv[5]), 16);
    config.remote = remote_files_open(os_real(), NULL, &(struct s3_settings){ 0 }, &perm);
    if (place_open(os_real(), &config, str_of(argv[1]), &perm, &place, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return (int)err.status;
    }
    struct epoch e = { .place = place, .count = place_count(place) };
    e.hash         = NEW(&perm, u64, e.count);
    pthread_barrier_init(&e.batch_ends, NULL, (unsigned)threads);
    for (e.number = 0; e.number < epochs && !e.failed; e.number++) {
        atomic_store(&e.next, 0);
        for (i64 i = 0; i < threads; i++) pthread_create(&thread[i], NULL, read_some, &e);
        for (i64 i = 0; i < threads; i++) pthread_join(thread[i], NULL);
        printf("%lld %016llx %lld\n", (long long)e.count,
               (unsigned long long)xxh64((struct str){ (char *)e.hash, e.count * 8 }),
               (long long)remote_files_sums(config.remote).bytes);
    }
    place_close(place);
    remote_files_close(config.remote);
    return e.failed ? STATUS_WORLD : STATUS_OK;
}
