/* safetensors.h - weights in and out, in the format Python's safetensors reads and writes.
 * docs/formats/weights.md names the tensors. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H
#include "base/os.h"
#include "ir/type.h"

struct st_tensor {
    struct str   name;
    struct str   dtype; /* as in the file: F32, F16, BF16, F64, I32, I64, U8, … */
    struct shape shape;
    struct str   bytes; /* little-endian, row-major; points into the mapped file */
};

struct st_file {
    struct st_tensor *tensors; /* in the order of their bytes */
    i64               count;
    struct str        mapped;
    i64               parts; /* files that its tensors are in, this one included: st_parts.h */
    struct str        about; /* settings of the model, KEY=VALUE a line; empty: the file has none */
};

enum status st_open(struct os *os, struct str path, struct arena *perm, struct st_file *out,
                    struct err *err);
void        st_close(struct os *os, struct st_file *f);
const struct st_tensor *st_find(const struct st_file *f, struct str name);
struct str st_type_text(struct arena *perm, const struct st_tensor *t); /* "f64[8,4]" */
bool       st_is_readable(struct str dtype); /* of a type that st_to_f32 knows */
/* Converts to f32, exactly from F32, F16 and BF16, to nearest from F64; false for other types. */
bool st_to_f32(const struct st_tensor *t, f32 *to);
/* Written under a temporary name, synced and renamed. Tensors are put in the order Python puts them
 * in, and the metadata is {"format":"pt"}: the bytes depend on the tensors only. */
enum status st_save(struct os *os, struct str path, const struct st_tensor *tensors, i64 count,
                    struct arena scratch, struct err *err);
/* The same for tensors whose bytes are made one after the other, as the file has them: of `tensors` only how many there
 * are is read. The metadata also has the settings of the model, which st_open reads back. */
struct st_made {
    const struct st_tensor *tensors;
    i64                     count;
    struct str (*bytes)(const void *context, i64 tensor);
    const void *context;
};
enum status st_save_from(struct os *os, struct str path, const struct st_made *from,
                         struct str about, struct arena scratch, struct err *err);
/* The file in one piece of memory: writes its header to `to`, points the tensors' bytes behind it, and
 * leaves it to the caller to fill them. to NULL: only says how many bytes the file has. parts: as in st_file; of the
 * others of several files it is 1. */
i64 st_lay_out(struct st_tensor *tensors, i64 count, i64 parts, u8 *to, struct arena scratch);

#endif
