/* import_int.h - what the readers of price lists share: offers collected machine by machine. */
#ifndef PLAN_IMPORT_INT_H
#define PLAN_IMPORT_INT_H
#include "base/json.h"
#include "plan/import.h"
#include "plan/table.h"

enum { OFFERS_MAX = 2048, ZONES_MAX = 64 };

struct offer {
    u64            key;
    struct machine machine;
    f64            spot[ZONES_MAX]; /* one a zone; their median, least and most are kept */
    i32            spot_count;
};

struct offers {
    const struct catalogue *catalogue;
    struct import           how; /* provider and region filled in */
    struct str              path;
    struct offer           *offers; /* [OFFERS_MAX] */
    i64                     count;
    u64                     unknown[OFFERS_MAX]; /* keys of machines passed over */
    i64                     unknown_count;
    bool                    full; /* more than OFFERS_MAX */
    struct arena           *perm;
    struct arena            scratch; /* for one item of a list at a time */
    void                   *state;   /* of the reader of that format */
    struct err             *err;
};

bool offers_wants(const struct offers *o, struct str region);
/* The machine of that name, new with what the catalogue or a family says is in it. `gpu`
 * and `gpus` are what the list says, or empty. NULL: passed over, its hardware is not known. */
struct offer *offers_get(struct offers *o, struct str name, struct str gpu, i32 gpus);
/* The lowest price of that kind is kept; of spot see above. */
void offer_price(struct offer *offer, enum price kind, f64 usd_h);
/* Parses the items of the list `key` of a map one by one, and hands each to `add`. */
enum status offers_each(struct offers *o, struct str text, struct str key,
                        void (*add)(struct offers *, const struct json *item));
enum status offers_bad(const struct offers *o, const struct err *why); /* puts the path in front */
struct str  json_text(const struct json *map, struct str key);         /* empty: not there */

enum status import_aws(struct offers *o, struct str text);
enum status import_gcp(struct offers *o, struct str text);
enum status import_azure(struct offers *o, struct str text);
enum status import_skypilot(struct offers *o, struct str text);

#endif
