/* st_folder.h - the weights of a folder that transformers' save_pretrained wrote: one
 * model.safetensors, or many shards that model.safetensors.index.json lists. The files are mapped, and
 * numbers go from there to where they live a stretch at a time: there is never a second copy. */
#ifndef STORE_ST_FOLDER_H
#define STORE_ST_FOLDER_H
#include "store/safetensors.h"

#define ST_SHARDS_MAX 4096

struct st_folder {
    struct st_file         *files;
    i64                     file_count;
    const struct st_tensor *tensors; /* of all files, by name */
    i64                     count;
};

struct st_entry { /* of an index */
    struct str tensor, file;
};
struct st_index {
    struct st_entry *entries; /* by file, then by tensor */
    i64              count;
};

/* Reads an index. `path` is for messages. Names of files are plain names: none leads out of the folder. */
enum status st_index_parse(struct str path, struct str text, struct arena *perm,
                           struct st_index *out, struct err *err);

/* Every tensor of the index is in its file, and every tensor of the files is in the index. */
enum status st_folder_open(struct os *os, struct str folder, struct arena *perm,
                           struct st_folder *out, struct err *err);
/* The files that its weights are in. */
enum status st_folder_files(struct os *os, struct str folder, struct arena *perm,
                            struct str **paths, i64 *count, struct err *err);
/* One file as if it were a folder's. */
enum status             st_folder_open_file(struct os *os, struct str path, struct arena *perm,
                                            struct st_folder *out, struct err *err);
void                    st_folder_close(struct os *os, struct st_folder *f);
const struct st_tensor *st_folder_find(const struct st_folder *f, struct str name);

/* One of our tensors as others keep it: in up to three, one below the other, each with its rows; or
 * transposed. */
#define ST_PARTS_MAX 3
struct st_source {
    struct str   ours;
    struct shape shape; /* of ours */
    struct str   name[ST_PARTS_MAX];
    i64          rows[ST_PARTS_MAX]; /* of ours; of a vector: numbers */
    i32          count;
    bool         transposed; /* theirs is [columns, rows]: matrices of one part */
};

/* Where only the body of a model was saved, names lack a prefix: takes it off those that are there without. */
void st_source_strip(const struct st_folder *f, struct st_source *s, struct str prefix);
/* Are all parts there, in the right shape and a type that can be read, and is each tensor of the files a part, or
 * one that may be ignored? */
typedef bool st_ignores(const void *context, struct str theirs);
enum status  st_sources_check(const struct st_folder *f, struct str folder,
                              const struct st_source *sources, i64 count, st_ignores *ignores,
                              const void *context, struct arena scratch, struct err *err);
/* Is every part of that type already, and none transposed? Then the bytes of ours are theirs. */
bool st_source_is(const struct st_folder *f, const struct st_source *s, struct str dtype);
/* Bytes [from, from + count) of ours, of which that is so; from any thread. */
void st_source_bytes(const struct st_folder *f, const struct st_source *s, i64 from, i64 count,
                     void *to);
/* Elements [from, from + count) of ours; where it is transposed, whole rows. From any thread. */
void st_source_read(const struct st_folder *f, const struct st_source *s, i64 from, i64 count,
                    f32 *to);
/* Hands ours over in order, some at a time; it has been checked. */
typedef void st_sink(void *context, i64 from, const f32 *values, i64 count);
void         st_source_stream(const struct st_folder *f, const struct st_source *s, st_sink *sink,
                              void *context, struct arena scratch);

#endif
