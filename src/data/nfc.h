/* nfc.h - Unicode's normalization form C, as Hugging Face's tokenizers do it (with tables of their age: nfc.def).
 *
 * Most text is in that form already, which is seen at a glance; only what is not is taken apart, sorted and put
 * together again (UAX 15). Hangul syllables are computed. */
#ifndef DATA_NFC_H
#define DATA_NFC_H
#include "base/text.h"

/* The character at `at` of valid UTF-8, and where the next one begins. */
static inline u32 utf8_code_at(struct str text, i64 at, i64 *end)
{
    const u8 *p    = (const u8 *)text.data + at;
    i64       more = p[0] < 0x80 ? 0 : p[0] < 0xE0 ? 1 : p[0] < 0xF0 ? 2 : 3;
    u32       code = more ? p[0] & (0x3Fu >> more) : p[0];
    for (i64 i = 1; i <= more; i++) code = code << 6 | (p[i] & 0x3Fu);
    *end = at + 1 + more;
    return code;
}

struct nfc;

struct nfc *nfc_new(struct arena *perm);
/* The text itself if it is in form C, else a copy in `perm`, which has room for 40 bytes a byte. Valid UTF-8. */
struct str nfc_apply(const struct nfc *n, struct str text, struct arena *perm);
/* Form D, as a copy in `perm`: characters taken apart, marks in order. Room as above. */
struct str nfd_apply(const struct nfc *n, struct str text, struct arena *perm);
bool       nfc_is(const struct nfc *n, struct str text); /* surely in form C; false: look closer */

#endif
