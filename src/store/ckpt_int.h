/* ckpt_int.h - what writing and reading checkpoints share. */
#ifndef STORE_CKPT_INT_H
#define STORE_CKPT_INT_H
#include "store/checkpoint.h"
#include "store/store_int.h"

struct str ckpt_path(struct arena *perm, struct str folder, struct str name);
/* True too where the folder cannot be listed, and err then says why: nothing may be deleted. */
bool ckpt_has_manifest(struct os *os, struct str folder, struct arena scratch, struct err *err);
/* From where the file stands to its end. INTERRUPTED, without a sentence: *urgent (NULL: never) is true. */
enum status ckpt_shard_verify(struct os *os, struct file f, struct str path,
                              const struct ckpt_shard *s, const atomic_bool *urgent,
                              struct arena scratch, struct err *err);
/* ckpt_verify; INTERRUPTED likewise. */
enum status ckpt_verify_unless(struct os *os, const struct ckpt *c, const atomic_bool *urgent,
                               struct arena scratch, struct err *err);
/* A name that a save, an import or `frugal run` gives a file of a checkpoint. */
bool ckpt_is_ours(struct str name);
/* What a save may have left there and what a manifest is, and then the folder, unless it holds more. */
enum status ckpt_folder_delete(struct os *os, struct str folder, struct arena scratch,
                               struct err *err);

#endif
