/* folder.h - a temporary folder for a test, gone when the program ends, and files in it. */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H
#include "base/text.h"

struct str folder_new(struct arena *perm); /* its path */
struct str folder_put(struct arena *perm, struct str folder, const char *name, struct str bytes);
/* writes a file there; its path */

#endif
