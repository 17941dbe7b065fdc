/* pattern.h - is a regular expression small enough to be compiled? The C library writes out repeats
 * ("(a{100}){100}" is 10,000 nodes) and takes memory by the square of what may be empty, so a line of text can
 * ask for all there is. */
#ifndef SUPERVISE_PATTERN_H
#define SUPERVISE_PATTERN_H
#include "base/text.h"

enum {
    PATTERN_BYTES_MAX = 1000,
    PATTERN_DEEP_MAX  = 16, /* groups in groups */
    PATTERN_NODES_MAX =
        1000, /* with every repeat written out; the worst takes glibc 84 MB and 0.2 s */
};

/* NULL: it is; else what is wrong with it. It need not be a sound expression: regcomp sees to that. */
const char *pattern_refused(struct str pattern);

#endif
