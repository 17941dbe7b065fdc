/* yaml.h - the part of YAML 1.2 that a run file needs, read exactly, with line numbers.
 *
 * Block maps and lists, flow maps and lists in [] and {} (over several lines too), plain and
 * quoted scalars on one line, comments. What lies outside (anchors, tags, block scalars, several
 * documents, scalars over several lines, tabs outside quotes and comments) is refused with file,
 * line and a sentence, never half understood. docs/formats/run_yaml.md. */
#ifndef BASE_YAML_H
#define BASE_YAML_H
#include "base/err.h"
#include "base/text.h"

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml {
    enum yaml_kind kind;
    struct str     key;    /* inside a map, else empty */
    struct str     text;   /* scalar without quotes; empty and not quoted = null, ~ or nothing */
    bool           quoted; /* scalar was quoted: "7" is text, not a number */
    i32            line;   /* 1-based, where the key or item stands */
    struct yaml   *first;
    struct yaml   *next;
    i64            count; /* of children */
};

/* `file` is only for messages, "run.yaml:7: ...". Duplicate keys are an error. An empty text is a
 * null scalar. Strings may point into `text`. */
enum status  yaml_parse(struct arena *perm, struct str file, struct str text, struct yaml **root,
                        struct err *);
struct yaml *yaml_get(const struct yaml *map, struct str key); /* NULL when absent */

#endif
