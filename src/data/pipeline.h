/* pipeline.h - the loader of formats with stages. Its functions are those of data.h's loader. */
#ifndef DATA_PIPELINE_H
#define DATA_PIPELINE_H
#include "data/loader_int.h"

struct pipeline;

enum status         pipeline_open(const struct course *c, struct pipeline **out, struct err *err);
bool                pipeline_ready(struct pipeline *p, i64 until_ns);
struct batch       *pipeline_next(struct pipeline *p);
enum status         pipeline_failed(struct pipeline *p, struct err *err);
bool                pipeline_says(struct pipeline *p, char line[LOADER_LINE_MAX]);
struct loader_stats pipeline_stats(struct pipeline *p);
bool                pipeline_close(struct pipeline *p);

#endif
