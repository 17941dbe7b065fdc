/* store_int.h - shared inside the room, and with its fuzzer. */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H
#include "store/safetensors.h"

/* The tensors of a file in memory, checked; their bytes stay where they are. `path` is for
 * messages; `mapped` is left alone. */
enum status st_parse(struct str path, struct str bytes, struct arena *perm, struct st_file *out,
                     struct err *err);
/* The file of these tensors as 1 + count pieces, one behind the other: the header, and the tensors'
 * own bytes where they lie. */
struct str *st_pieces(const struct st_tensor *tensors, i64 count, struct arena *scratch);

#endif
