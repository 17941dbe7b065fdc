/* hf_int.h - what the families of other people's models share; inside this room only. */
#ifndef MODEL_HF_INT_H
#define MODEL_HF_INT_H
#include "base/json.h"
#include "model/hf.h"
#include "model/model_int.h"

enum hf_rule {
    HF_READ,    /* by the family's reader */
    HF_IGNORED, /* says nothing that training or prediction needs */
    HF_ONLY,    /* must be `only`, or null: we have nothing else */
};
struct hf_key { /* of config.json */
    const char  *name;
    enum hf_rule rule;
    const char  *only;
};

enum hf_split { HF_WHOLE, HF_TRANSPOSED, HF_QKV, HF_GATED }; /* how ours is made of theirs */
struct hf_name { /* % stands for the number of a block, the same on both sides */
    const char   *ours;
    enum hf_split split;
    const char   *theirs[HF_PARTS_MAX];
};

struct hf_reader {
    const struct json *root;
    struct str         path;
    struct err        *err;
    enum status        status; /* sticky */
};

/* Of the key, or `usual` where it is left out or null. */
i64        hf_count(struct hf_reader *r, const char *key, i64 usual,
                    i64 most); /* usual 0: it must be given */
f64        hf_number(struct hf_reader *r, const char *key, f64 usual); /* above 0 */
bool       hf_flag(struct hf_reader *r, const char *key, bool usual);
struct str hf_word(struct hf_reader *r, const char *key, const char *usual);
/* The same in the map of that name, if there is one. */
struct hf_reader hf_inside(const struct hf_reader *r, const char *key);
/* An activation by our name. */
struct str hf_activation(struct hf_reader *r, const char *key, const char *usual);
/* One sentence: path: "key" … */
void hf_refuse(struct hf_reader *r, const char *key, const char *why);

struct hf_family {
    const char           *type; /* model_type of config.json */
    const struct hf_key  *keys; /* up to one without a name */
    const struct hf_name *names;
    const char           *prefix;
    const char *const    *ignored; /* globs over their tensors, up to NULL */
    void (*read)(struct hf_reader *r, struct model_config *c);
    const char *classifier; /* of an encoder: its name in transformers; NULL: a decoder */
};

#define HF_FAMILY(name) extern const struct hf_family hf_family_##name;
#include "model/hf.def"
#undef HF_FAMILY

#endif
