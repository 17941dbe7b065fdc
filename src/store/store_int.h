/* store_int.h - shared inside the room, and with its fuzzer. */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H
#include "store/safetensors.h"

/* The tensors of a file in memory, checked; their bytes stay where they are. `path` is for
 * messages; `mapped` is left alone. */
enum status st_parse(struct str path, struct str bytes, struct arena *perm, struct st_file *out,
                     struct err *err);

#endif
