/* presplit.h - text cut into words before byte pairs are merged: no token crosses a word's end.
 *
 * A vocabulary comes with a regular expression that says what a word is. There is no engine for such
 * expressions here: the few that vocabularies in use have are written out as scanners, linear in
 * the text whatever it holds, and anything else is refused. They agree with Oniguruma, which
 * Hugging Face's tokenizers use, on every code point of Unicode 16 (unicode.def). */
#ifndef DATA_PRESPLIT_H
#define DATA_PRESPLIT_H
#include "base/text.h"

enum char_class { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE };

const u8 *char_classes(struct arena *perm); /* enum char_class by code point, below 0x110000 */

/* The expressions; names are the vocabularies that brought them. */
enum presplit {
    PRESPLIT_GPT2,   /* contractions; words, numbers, signs with a blank before; blanks */
    PRESPLIT_LLAMA3, /* cl100k's: numbers by three, signs with the line ends behind them */
    PRESPLIT_QWEN2,  /* the same, numbers digit by digit */
    PRESPLIT_SMOLLM, /* GPT-2's between digits, each a word of its own: Digits before ByteLevel */
    PRESPLIT_COUNT
};

bool       presplit_find(struct str regex, enum presplit *out); /* by its exact text */
struct str presplit_regex(enum presplit p);

/* The end of the word that begins at `at`, above `at`. The text is valid UTF-8 and ends where the
 * regular expression would see its end. */
i64 presplit_end(enum presplit p, const u8 *classes, struct str text, i64 at);

/* Where text can be cut so that both parts give the words of the whole. */
struct presplit_cuts {
    bool at_lines;  /* behind a line end between two characters that are no blanks */
    bool at_blanks; /* before a single blank between two letters of ASCII */
};

/* The first such place at or behind `from`, a line's if one is near; text.len if there is none. The
 * text need not be valid. */
i64 presplit_cut(const struct presplit_cuts *cuts, const u8 *classes, struct str text, i64 from);

/* Copies text and puts U+FFFD for each part that is not UTF-8: one for each longest beginning of a
 * character (Unicode 16, 3.9, "maximal subpart"), as Python's errors="replace" does. `to` has room for
 * 3 bytes a byte; *bad counts. */
struct str utf8_repair(struct str text, char *to, i64 *bad);
bool       utf8_valid(struct str text);

#endif
