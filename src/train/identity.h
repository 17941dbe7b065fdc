/* identity.h - what makes a run this run, kept in each of its checkpoints and compared when one is resumed;
 * inside this room only.
 *
 *     settings   by the column `resume` of options.def: before anything is opened
 *     data       fingerprints of its files (data/fingerprint.c), and how many samples there are
 *     model      its tensors, and a hash of its operations
 *     bits       device, build, kernels, and samples computed at once: another gives other last bits */
#ifndef TRAIN_IDENTITY_H
#define TRAIN_IDENTITY_H
#include "base/json.h"
#include "train/state.h"

struct identity { /* of a session that is compiled, and whose kernels are not chosen by time yet */
    struct str         kernels;
    struct fingerprint files[FINGERPRINTS_MAX];
    i64                file_count;
};
enum status identity_init(struct identity *i, struct session *s, struct err *err);
/* For the manifest, as JSON. Kernels that the device has timed since are part of it. */
struct str identity_text(const struct identity *i, struct session *s, struct arena *perm);

/* A setting that is another than it was; `say` is called for each that changes the course of the run. */
struct identity_changes {
    void (*say)(void *context, struct str text);
    void *context;
    bool  course; /* the steps are no longer those of the run that was interrupted */
    bool  end;    /* settings that end a run are others */
};
/* `settings` with what the checkpoint decided. USAGE and a sentence without its end, "train.seed was 3 and is 4": it
 * is another run. */
enum status identity_compare_settings(const struct json *before, struct os *os,
                                      const struct settings   *settings,
                                      struct identity_changes *changes, struct arena scratch,
                                      struct err *err);
/* Likewise, of what is known once the session is compiled. */
enum status identity_compare(const struct identity *i, const struct json *before, struct session *s,
                             struct err *err);
/* Why the bits may not be those of a run that was never interrupted; empty: they are. */
struct str identity_other_bits(const struct identity *i, const struct json *before,
                               struct session *s, struct arena *perm);
struct str identity_before(const struct json *before, const char *key); /* empty: it does not say */

#endif
