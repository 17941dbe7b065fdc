/* json_out.h - JSON written field by field: each with its comma, and the end of an object or list takes the last one
 * away. A NULL key: an item of a list. The page and the playground answer with it. */
#ifndef BASE_JSON_OUT_H
#define BASE_JSON_OUT_H
#include "base/text.h"

void       out_text(struct textbuf *b, const char *key, struct str value);
void       out_f64(struct textbuf *b, const char *key, f64 value); /* null: not known */
void       out_i64(struct textbuf *b, const char *key, i64 value);
void       out_bool(struct textbuf *b, const char *key, bool value);
void       out_open(struct textbuf *b, const char *key, char bracket);
void       out_close(struct textbuf *b, char bracket); /* with a comma behind it */
struct str out_whole(struct textbuf *b);               /* without the last comma */

#endif
