/* libraries.c - finding the optional libraries, for frugal doctor. */
#include "job/libraries.h"
#include "data/image.h"
#include "run/ledger.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The build names those whose headers it found. */
#ifndef FRUGAL_SQLITE_SONAME
#define FRUGAL_SQLITE_SONAME NULL
#endif
#ifndef FRUGAL_CURL_SONAME
#define FRUGAL_CURL_SONAME NULL
#endif
#ifndef FRUGAL_JPEG_SONAME
#define FRUGAL_JPEG_SONAME NULL
#endif
#ifndef FRUGAL_PNG_SONAME
#define FRUGAL_PNG_SONAME NULL
#endif
#ifndef FRUGAL_MICROHTTPD_SONAME
#define FRUGAL_MICROHTTPD_SONAME NULL
#endif

const struct library libraries[] = {
#define LIBRARY(...) { __VA_ARGS__ },
#include "job/libraries.def"
};
const i64 library_count = COUNT_OF(libraries);

/* "libcurl/7.88.1 OpenSSL/...", "1.2.13": from the first digit
 * to the next blank. */
static struct str number_in(struct str text)
{
    i64 from = 0;
    while (from < text.len && (text.data[from] < '0' || text.data[from] > '9')) from++;
    struct str rest = str_sub(text, from, text.len), number = STR("");
    str_cut(&rest, ' ', &number);
    return number;
}

struct str library_version(const struct library *l, struct arena *perm)
{
    const char *(*version)(void);
    if (!l->soname) return STR("");
    if (!l->symbol && !strcmp(l->name, "SQLite")) return str_of(ledger_library());
    if (!l->symbol)
        return str_of(image_library(strcmp(l->name, "libpng") ? IMAGE_JPEG : IMAGE_PNG));
    void *handle = dlopen(l->soname, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, l->symbol) : NULL;
    if (!symbol) return STR("");
    memcpy(&version, &symbol, sizeof version); /* ISO C has no cast from object to function */
    return str_copy(perm, number_in(str_of(version())));
}
