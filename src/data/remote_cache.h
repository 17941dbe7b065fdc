/* remote_cache.h - remote files, kept whole on the disk as long as they fit.
 *
 *     FOLDER/9f86d081884c7d65-104857600-train-000003.tar          a file: hash of address and version,
 *     FOLDER/9f86d081884c7d65-104857600-train-000003.tar.71.part  one on its way: process 71 writes it
 *     FOLDER/9f86d081884c7d65-104857600-train-000003.tar.lock     held by whoever fetches or maps it
 *     FOLDER/lock                                                 held while room is made
 *
 * The folder is all the state there is: several processes share one, and one that was killed leaves
 * nothing that the next cannot use or remove. Names say how large their files will be, so a reservation
 * is a name. The least recently read goes first; what is open or mapped stays readable to the end, as
 * any removed file does, and what is mapped is not even removed. Where a file cannot be kept (it is larger
 * than the cache, the disk is full, the folder cannot be written) its ranges are read directly. */
#ifndef DATA_REMOTE_CACHE_H
#define DATA_REMOTE_CACHE_H
#include "remote/files.h"

enum { REMOTE_CACHE_FOLDER_MAX = 1024 }; /* bytes of its name */

struct remote_cache; /* opaque, lives in perm; any thread may use it */

/* Touches nothing yet. `remote` must outlive it. */
struct remote_cache *remote_cache_new(struct os *os, struct remote_files *remote, struct str folder,
                                      i64 bytes_max, struct arena *perm);
void                 remote_cache_release(struct remote_cache *c);

enum status remote_cache_read(struct remote_cache *c, struct str url,
                              const struct remote_file *version, i64 from, i64 count, void *to,
                              const atomic_bool *stop, struct err *err);
/* Makes it be there, as fresh as if it had just been read. NO: it cannot be kept; the sentence says why. */
enum status remote_cache_fetch(struct remote_cache *c, struct str url,
                               const struct remote_file *version, const atomic_bool *stop,
                               struct err *err);
/* The whole file, mapped, for as long as `pin` is held; NO as remote_cache_fetch. */
enum status remote_cache_map(struct remote_cache *c, struct str url,
                             const struct remote_file *version, struct str *bytes, struct file *pin,
                             struct err *err);

/* Once: why a file could not be kept, the first that could not; false: there is nothing to say. */
bool remote_cache_says(struct remote_cache *c, struct err *why);

struct remote_cache_sums {
    i64 fetched_bytes; /* of whole files */
    i64 direct_bytes;  /* of ranges that went past the cache */
    i64 evicted;       /* files */
};
struct remote_cache_sums remote_cache_sums(const struct remote_cache *c);

#endif
