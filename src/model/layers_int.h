/* layers_int.h - a network under construction from its list, shared by layers.c (the list), layers_read.c
 * (one entry of it) and layers_build.c (one function a layer). */
#ifndef MODEL_LAYERS_INT_H
#define MODEL_LAYERS_INT_H
#include "model/model_int.h"

enum key {
#define KEY(name, reader, must) KEY_##name,
#include "model/layers.def"
#undef KEY
    KEY_COUNT,
    KEY_NONE = KEY_COUNT
};

enum layer_id {
#define LAYER(name, ...) LAYER_##name,
#include "model/layers.def"
#undef LAYER
    LAYER_COUNT
};

enum takes { TAKES_ANY, TAKES_NUMBERS, TAKES_IMAGE, TAKES_TOKENS };

/* What a key was set to. Words become numbers: flags 0 or 1, an activation its op (or NO_OP). */
struct key_value {
    i64          count;
    f64          number;
    struct yaml *list;
    bool         given; /* false: nobody said, and the row has no default */
};

enum { NO_OP = -1, PADDING_SAME = -1 };
enum { SHORTCUT_AUTO, SHORTCUT_IDENTITY };

/* The list a layer stands in: layers are numbered by kind within it (dense1, conv1, dense2). */
struct scope {
    struct str path; /* empty at the top, else "residual1." */
    i64        numbers[LAYER_COUNT];
};

struct layer {
    const struct layer_kind *kind;
    i32                      line;
    struct str               path; /* residual1.conv2 */
    struct scope            *scope;
    struct key_value         key[KEY_COUNT];
};

struct net {
    struct builder *b;
    struct err     *err;
    enum status     status; /* sticky: the first failure */
    struct str      above;  /* who gave the value that comes next, for messages */
    bool            flattened;
    i64             turn, turns; /* of the innermost repeat; turns 0 outside */
    i64             layers;      /* built so far */
    i32             nesting;
    i32             blocks; /* outermost residual groups so far */
    i32             line;   /* of the layer built last */
    i64             stride; /* of the innermost residual group so far: the product of its layers' */
};

typedef i32 layer_fn(struct net *n, const struct layer *l, i32 x);

struct layer_kind {
    const char   *name;
    enum layer_id id;
    enum takes    takes;
    enum key      alone;
    const char   *keys;
    layer_fn     *build;
};

/* ---- layers.c */
i32 net_fail(struct net *n, i32 line, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* "run.yaml:9: ..."; returns -1 */
i32        net_list(struct net *n, struct scope *scope, const struct yaml *list, i32 x);
struct str net_shape(struct net *n, i32 x); /* "[28,28,1]", of one sample */

/* ---- layers_read.c: the entry's kind, keys and path into an empty layer */
void layer_read(struct net *n, struct scope *scope, struct yaml *entry, struct layer *l);

/* ---- layers_build.c */
#define LAYER(name, build, ...) layer_fn build;
#include "model/layers.def"
#undef LAYER

#endif
