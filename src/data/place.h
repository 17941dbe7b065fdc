/* place.h - where samples of a file each lie: in a folder or in tar shards, local or remote.
 *
 *     photos                           a folder: its subfolders are the classes, a file is a sample;
 *                                      or it holds nothing but shards of one name, and means all of them
 *     photos-{000000..000123}.tar      WebDataset shards: files that share a basename are a sample
 *     https://…  http://…  s3://…  gs://…   remote shards, through a bounded cache on the disk
 *
 * A format that needs bytes to decode (images) asks a place for them and need not know which kind it
 * is. Samples are numbered from 0, in the order of folders and shards. Any thread may ask at any time;
 * only place_read touches a disk or the net. */
#ifndef DATA_PLACE_H
#define DATA_PLACE_H
#include "data/data.h"
#include <stdatomic.h>

struct place;  /* opaque, lives in perm */
struct buffer; /* stage.h */

/* `path` is data.path or data.eval_path; of the rest cache, cache_bytes, shuffle_block and remote are read. */
enum status place_open(struct os *os, const struct data_config *config, struct str path,
                       struct arena *perm, struct place **out, struct err *err);
void        place_close(struct place *p); /* NULL: nothing to close */

bool place_holds_shards(struct os *os, struct str path, struct arena scratch); /* such a folder */
/* Nothing is there: the sentence, with the shards if `frugal pack --to` wrote some with that prefix. */
enum status place_absent(struct os *os, struct str path, struct arena scratch, struct err *err);

i64 place_count(const struct place *p);
i64 place_classes(const struct place *p);      /* 0: nobody said any */
i64 place_class(const struct place *p, i64 n); /* of sample n; -1: none */
/* place_classes of them; NULL: classes are numbers only. */
const struct str *place_class_names(const struct place *p, struct arena *perm);
/* For sentences: "photos/cat/7.jpg", "photos-000003.tar: cat/7.jpg". */
struct str place_name(const struct place *p, i64 n, struct arena *perm);
/* The file of sample n, whole; the sentence of a failure names it. `stop`, which may be NULL: give up
 * waiting for the net. */
enum status place_read(const struct place *p, i64 n, struct buffer *to, const atomic_bool *stop,
                       struct err *err);

/* Which sample stands at `index` of the epoch, of the first `count` of them: shards permuted, then
 * samples permuted inside blocks, so that what is read together lies together. */
i64 place_order(const struct place *p, i64 count, u64 seed, i64 epoch, i64 index);

bool place_is_one_class(const struct place *p); /* all samples are of the same */
bool place_is_sorted(const struct place *p);    /* by class: a folder */

i64 place_block(const struct place *p); /* samples permuted together; 0: all of them */
/* What it had to do that the user does not expect; false: nothing more. One thread asks. */
bool place_says(struct place *p, char line[LOADER_LINE_MAX]);

#endif
