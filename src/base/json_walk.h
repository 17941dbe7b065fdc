/* json_walk.h - the members of a large map or list one after the other, without a tree of the whole.
 *
 * A cloud's price list has gigabytes, a member of it kilobytes: the walk hands out each value as
 * text, for json_parse or for a walk of its own, and needs no memory. It only finds where a value
 * ends; whether the value is sound JSON is json_parse's to say. */
#ifndef BASE_JSON_WALK_H
#define BASE_JSON_WALK_H
#include "base/err.h"
#include "base/text.h"

struct json_walk {
    struct str text;
    i64        at;
    bool       map, begun;
};

enum status json_walk_open(struct json_walk *w, struct str text, struct err *); /* a map or list */
/* OK: a member; NO: the end (nothing is written in err); else what is wrong. The key (empty in a
 * list) is as it stands between its quotes. */
enum status json_walk_next(struct json_walk *w, struct str *key, struct str *value, struct err *);
/* The value of one key; NO: there is none. */
enum status json_walk_find(struct str map, struct str key, struct str *value, struct err *);

#endif
