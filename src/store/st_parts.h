/* st_parts.h - tensors of which several files hold ranges, as the ranks of a sharded run write them.
 *
 *     weights.safetensors                  the first file: its metadata says "parts": "3"
 *     weights-00002-of-00003.safetensors   the others
 *
 * A range is a tensor of one dimension, NAME[SHAPE]#BEGIN: elements of NAME, whose shape is SHAPE, from BEGIN on. All
 * other tensors are whole. A file without "parts" is a set of one, whatever its tensors are called. */
#ifndef STORE_ST_PARTS_H
#define STORE_ST_PARTS_H
#include "store/safetensors.h"

struct st_range {
    i64        from; /* byte of the tensor */
    struct str bytes;
};
struct st_whole {
    struct str       name, dtype;
    struct shape     shape;
    i64              bytes;
    struct st_range *ranges; /* in order, each byte once */
    i64              range_count;
};
struct st_parts {
    struct st_whole *tensors; /* by name */
    i64              count;
    struct st_file  *files; /* of st_parts_open, to be closed */
    i64              file_count;
};

/* The name of file `index` of `count` (from 1), without .safetensors: NAME is that of the first. */
struct str st_part_name(struct arena *perm, struct str name, i64 index, i64 count);
bool       st_is_part(struct str file_name); /* of another than the first, .safetensors included */
/* The name of a range, of elements from `begin` on. */
struct str st_range_name(struct arena *perm, struct str name, struct shape shape, i64 begin);
/* Files that are open, the first one first. `where` is for messages; USAGE: a range is missing, or is there twice. */
enum status st_parts_join(struct str where, const struct st_file *files, i64 count,
                          struct arena *perm, struct st_parts *out, struct err *err);
/* A file, and those beside it that it says it has. */
enum status st_parts_open(struct os *os, struct str path, struct arena *perm, struct st_parts *out,
                          struct err *err);
void        st_parts_close(struct os *os, struct st_parts *p);
const struct st_whole *st_parts_find(const struct st_parts *p, struct str name);
/* Bytes [from, from + bytes) of it. */
void st_whole_read(const struct st_whole *w, i64 from, i64 bytes, void *to);
/* As one tensor: its bytes are empty where several ranges hold them. */
struct st_tensor st_whole_tensor(const struct st_whole *w);
/* As a file with all of them: what lies in several ranges is copied to perm. It closes nothing. */
struct st_file st_parts_flat(const struct st_parts *p, struct arena *perm);

#endif
