/* assets.h - the files of src/page/web, compiled in (cmake/page_assets.cmake). */
#ifndef PAGE_ASSETS_H
#define PAGE_ASSETS_H
#include "base/text.h"

struct asset {
    const char *path; /* "/app.js" */
    const char *type; /* "text/javascript; charset=utf-8" */
    const char *data;
    i64         bytes;
};
extern const struct asset page_assets[];
extern const i64          page_asset_count;

#endif
