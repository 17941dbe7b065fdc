/* yaml.h - the part of YAML 1.2 that a run file needs, read exactly, with line numbers.
 *
 * Block maps and lists, flow maps and lists in [] and {}, plain and quoted scalars, comments.
 * What lies outside (anchors, tags, block scalars, several documents, tabs as indentation) is
 * refused with file, line and a sentence, never half understood. docs/formats/run_yaml.md. */
#ifndef BASE_YAML_H
#define BASE_YAML_H
#include "base/err.h"
#include "base/text.h"

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml {
    enum yaml_kind kind;
    struct str     key;    /* inside a map, else empty */
    struct str     text;   /* scalar, unquoted; empty text = null */
    bool           quoted; /* scalar was quoted: "7" is text, not a number */
    i32            line;   /* 1-based, where the key or item stands */
    struct yaml   *first;
    struct yaml   *next;
    i64            count;
};

/* `file` is only for messages. Duplicate keys are an error. */
enum status  yaml_parse(struct arena *perm, struct str file, struct str text, struct yaml **root,
                        struct err *);
struct yaml *yaml_get(const struct yaml *map, struct str key); /* NULL when absent */

#endif
