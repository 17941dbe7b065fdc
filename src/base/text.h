/* text.h - strings with a length, a builder, and the few conversions we need.
 *
 * A `struct str` never owns its bytes and need not end in a zero byte; str_z and everything that
 * copies give one that does. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
#include "base/arena.h"
#include "base/types.h"
#include <stdarg.h>

struct str {
    const char *data;
    i64         len;
};

#define STR(literal) ((struct str){ (literal), (i64)sizeof(literal) - 1 })
#define STR_INIT(literal)                                                                          \
    {                                                                                              \
        (literal), (i64)sizeof(literal) - 1                                                        \
    }                                     /* the same in a constant table */
#define STR_ARG(s) (int)(s).len, (s).data /* for "%.*s" */

struct str  str_of(const char *zero_terminated);
bool        str_eq(struct str a, struct str b);
bool        str_starts(struct str s, struct str prefix);
bool        str_ends(struct str s, struct str suffix);
i64         str_find(struct str s, char c);          /* index, or -1 */
struct str  str_sub(struct str s, i64 from, i64 to); /* [from, to), clamped */
struct str  str_trim(struct str s);                  /* blanks and line ends, both sides */
bool        str_cut(struct str *rest, char c, struct str *head); /* false when rest was empty */
struct str  str_copy(struct arena *perm, struct str s);
struct str  str_cat(struct arena *perm, struct str a, struct str b);
const char *str_z(struct arena *perm, struct str s); /* copy with a zero byte */
struct str  str_fmt(struct arena *perm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct str str_vfmt(struct arena *perm, const char *format, va_list args);
bool       str_i64(struct str s, i64 *out);            /* whole text; 1e6, 1.5e3, 1_000 too */
bool       str_f64(struct str s, f64 *out);            /* whole text, decimal, finite */
bool       str_glob(struct str pattern, struct str s); /* * and ? only */
i64        str_distance(struct str a, struct str b, struct arena scratch); /* edit distance */
u64        str_hash(struct str s);                           /* FNV-1a 64: stable for ever */
struct str str_base64(struct arena *perm, struct str bytes); /* RFC 4648, padded */
bool       str_hex(struct str s, u32 *out);                  /* whole text, 1 to 8 digits */
i64        str_utf8_put(char *to, u32 code);                 /* writes and returns 1 to 4 bytes */
i64        str_utf8_end(struct str s, i64 at);               /* end of that character, or -1 */

/* Text of others, for a terminal: control characters (escape sequences begin with one), what turns the direction of
 * writing, and bytes that are not UTF-8 are written as \xNN. The second one leaves line ends and tabs as they are. */
struct str str_printable(struct arena *perm, struct str s);
struct str str_printable_lines(struct arena *perm, struct str s);

/* A growing text in an arena, in place as long as nothing else is taken from that arena. */
struct textbuf {
    struct arena *perm;
    char         *data;
    i64           len, cap;
};
struct textbuf textbuf_new(struct arena *perm);
void           textbuf_add(struct textbuf *b, struct str s);
void textbuf_fmt(struct textbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void textbuf_f64(struct textbuf *b, f64 v); /* the shortest that reads back the same */
struct str textbuf_str(const struct textbuf *b);

#endif
