/* nfc.h - Unicode's normalization form C, as Hugging Face's tokenizers do it (with tables of their age: nfc.def).
 *
 * Most text is in that form already, which is seen at a glance; only what is not is taken apart, sorted and put
 * together again (UAX 15). Hangul syllables are computed. */
#ifndef DATA_NFC_H
#define DATA_NFC_H
#include "base/text.h"

struct nfc;

struct nfc *nfc_new(struct arena *perm);
/* The text itself if it is in form C, else a copy in `perm`, which has room for 40 bytes a byte. Valid UTF-8. */
struct str nfc_apply(const struct nfc *n, struct str text, struct arena *perm);
bool       nfc_is(const struct nfc *n, struct str text); /* surely in form C; false: look closer */

#endif
