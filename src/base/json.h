/* json.h - reading JSON into a tree, and writing it. RFC 8259; duplicate keys and text that is not
 * UTF-8 are errors, depth is at most 64. Numbers keep their text, so 64-bit integers stay exact. */
#ifndef BASE_JSON_H
#define BASE_JSON_H
#include "base/err.h"
#include "base/text.h"

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_MAP };

struct json {
    enum json_kind kind;
    struct str     key;   /* inside a map, else empty */
    struct str     text;  /* string (decoded), number or true/false as written */
    struct json   *first; /* children in order */
    struct json   *next;
    i64            count; /* of children */
    i64            at;    /* where it stands in the text (a member: its key), in bytes */
};

/* Messages begin with the place, "line 3, byte 40: ...". Strings may point into `text`. */
enum status json_parse(struct arena *perm, struct str text, struct json **root, struct err *);
/* Of a line in a file, whose number the caller says: "byte 40: ...". */
enum status  json_parse_line(struct arena *perm, struct str line, struct json **root, struct err *);
struct json *json_get(const struct json *map, struct str key); /* NULL when absent */
bool         json_i64(const struct json *v, i64 *out); /* false: no number, or does not fit */
bool         json_f64(const struct json *v, f64 *out);

/* Writing: the quoted, escaped form of s; bytes that are not UTF-8 become U+FFFD. Numbers:
 * the shortest that reads back the same, and null for what JSON lacks. */
void json_add_string(struct textbuf *b, struct str s);
void json_add_f64(struct textbuf *b, f64 v);

#endif
