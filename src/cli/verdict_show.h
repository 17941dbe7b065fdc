/* verdict_show.h - the events of a verdict as words or JSON lines: at the end of `frugal train`,
 * in `frugal profile`. */
#ifndef CLI_VERDICT_SHOW_H
#define CLI_VERDICT_SHOW_H
#include "cli/say.h"
#include "run/events.h"

struct verdict_shown {
    struct say  *say;
    struct arena scratch;
    bool so_far; /* the verdict is not the last: in words it is not shown, nor are its problems */
};

struct subscriber verdict_subscriber(struct verdict_shown *s);

#endif
