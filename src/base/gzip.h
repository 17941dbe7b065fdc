/* gzip.h - unpacking a whole .gz (RFC 1952 around RFC 1951), so that data sets are read as they are
 * published, with no library. The sums inside the file are checked. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H
#include "base/err.h"
#include "base/text.h"

/* `gz` in perm unpacked, several members one behind the other; more than bytes_max, or more than
 * perm has room for, is an error. A failure may leave bytes taken from perm. */
enum status gzip_unpack(struct arena *perm, struct str gz, i64 bytes_max, struct str *out,
                        struct err *err);

#endif
