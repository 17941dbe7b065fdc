/* supervised_config.c - what the words of section `program` mean. */
#include "run/supervised_config.h"
#include <string.h>

static const f64 settle_usual_s = 5; /* of files that no marker follows */

bool program_complete(struct str text, struct program_complete *out)
{
    *out = (struct program_complete){ .settle_s = settle_usual_s };
    if (text.len && strchr(".-_~", text.data[0]) && !str_f64(text, &out->settle_s)) {
        *out = (struct program_complete){ settle_usual_s, text };
        return true;
    }
    return str_f64(text, &out->settle_s) && out->settle_s >= 0 && out->settle_s < 1e9;
}
