/* date.h - moments as services write them, in seconds since 1970, UTC. */
#ifndef BASE_DATE_H
#define BASE_DATE_H
#include "base/text.h"

bool date_iso(struct str s,
              i64       *unix_s); /* 2017-09-18T08:22:00Z, a fraction is dropped (RFC 3339) */
bool date_http(struct str s, i64 *unix_s); /* Mon, 19 Sep 2016 18:29:47 GMT (RFC 9110, 5.6.7) */
struct str date_text(struct arena *perm, i64 unix_s); /* as date_iso reads it */

#endif
