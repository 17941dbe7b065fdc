/* address.h - addresses of remote files (https://, http://, s3://, gs://) as text. */
#ifndef REMOTE_ADDRESS_H
#define REMOTE_ADDRESS_H
#include "base/text.h"

bool       address_is_remote(struct str path);
struct str address_path(struct str path); /* an address without its query; else the path itself */
/* Without password and query, for sentences. */
struct str address_shown(struct arena *perm, struct str url);
/* For a text that is kept or shown, such as a setting: in every address in it, the part before the
 * host's @ and the values of the query (tokens, signatures, keys) are written as ***. */
struct str address_redacted(struct arena *perm, struct str text);

#endif
