/* bill.h - from seconds, requests and bytes to dollars: the only code that multiplies by a price.
 *
 * The progress line, caps, the summary, the ledger, `frugal runs`, `frugal report`, sweeps and plans all ask here, so
 * that they agree to the cent. A run's bill rests on its clock (clock.h) and has from its first line on what
 * earlier starts cost, the provider's billing minimum and rounding, process and machine start, requests to object
 * stores, and storage there while a start of the run lives. What others that used the machine at the same time pay of
 * it, and storage while no start lives, nobody can know when the last line is printed: the report shows them beside it.
 *
 * Dollars are whole nano-dollars where they are summed (a second at $0.01 an hour is 2,778 of them), so that sums
 * are exact in any order; they are rounded for people only when printed. */
#ifndef RUN_BILL_H
#define RUN_BILL_H
#include "run/clock.h"
#include "run/ledger.h"

/* Storage is sold by the month and billed by the hour. */
#define BILL_MONTH_DAYS (365.0 / 12)

/* What a run has cost: time on the bill, and dollars. */
struct spent {
    i64 ns;
    f64 usd; /* NaN: the price is not known */
};

/* What an object store asks for. */
struct store_price {
    f64 put_1000_usd, get_1000_usd; /* requests */
    f64 retrieve_gb_usd;            /* of a cold class; NaN: none */
    f64 egress_gb_usd;              /* to where it is read */
    f64 gb_month_usd;
    f64 minimum_days; /* that an object is billed for at least */
};

/* A run's bill while it runs; any thread may ask. A NULL one takes everything and knows nothing. */
struct bill;
struct bill  *bill_new(struct arena *perm,
                       struct clock *clock); /* the clock since the process began */
struct clock *bill_clock(const struct bill *b);
/* Of the machine, once, before the first question; until then the price is not known. */
void bill_price(struct bill *b, const struct price_row *price);
/* What earlier starts of the run have cost. Several may know it (ledger, checkpoint, tally.h), and none of
 * them all of it: the largest counts. Dollars that are not known are taken at this machine's price. */
void         bill_earlier(struct bill *b, struct spent earlier);
struct spent bill_before(struct bill *b); /* what is known of them so far */
/* The machine's provider takes it back: a start that was up for less than free_s costs nothing. */
void bill_taken(struct bill *b);
bool bill_is_taken(struct bill *b);

/* Object stores that a run asks. What each costs; until then that is not known. */
enum bill_store {
    STORE_CHECKPOINTS, /* checkpoint.to, in its storage class */
    STORE_ROWS,        /* the ledger's rows and the event log beside them */
    STORE_DATA,        /* what the run trains on */
    STORE_COUNT
};
void bill_store(struct bill *b, enum bill_store store, const struct store_price *price);

struct store_requests {
    i64 puts, gets; /* requests, by what they cost */
    i64 bytes_out;  /* read from it */
};
/* Whoever asks a store is asked, on any thread, what it has asked for so far, each time the bill is; bill_counted,
 * before `who` goes, asks a last time. At most BILL_COUNTERS_MAX in a run. */
enum { BILL_COUNTERS_MAX = 8 };
typedef struct store_requests store_counter(void *who);
void bill_count(struct bill *b, enum bill_store store, store_counter *counter, void *who);
void bill_counted(struct bill *b, void *who);
/* What it asked for in all, where that became more after bill_counted. */
void bill_counted_all(struct bill *b, void *who, struct store_requests all);
/* All that this start has asked STORE_CHECKPOINTS for so far, by who tells the bill instead of being asked. */
void bill_requested(struct bill *b, struct store_requests all);
/* All that `who`, who cannot be asked, has asked a store for so far. */
void bill_told(struct bill *b, enum bill_store store, void *who, struct store_requests all);
/* Requests that are sure to follow bill_stop. */
void bill_expects(struct bill *b, enum bill_store store, struct store_requests last);
/* So many bytes are in STORE_CHECKPOINTS from now on. */
void bill_keeps(struct bill *b, i64 bytes);
/* What this start's requests and storage cost; NaN: there were some, and the price is not known, so that the bill
 * goes without. */
f64 bill_requests(struct bill *b);
f64 bill_storage(struct bill *b);
f64 bill_requests_usd(struct bill *b, enum bill_store store,
                      struct store_requests r); /* NaN: not known */

/* The run is over: clock_stop, and from here on the bill does not change. */
void bill_stop(struct bill *b);
bool bill_is_over(struct bill *b);

/* All starts of the run until now. */
struct spent bill_spent(struct bill *b);
struct spent bill_spent_by(struct bill *b, i64 *own_ns); /* and of its time, what this start took */
f64          bill_elapsed_s(struct bill *b);             /* of it, the time */
/* Where a run that may take max_seconds and max_dollars (NaN: no such cap) must have ended, in seconds as
 * bill_elapsed_s counts them; NaN: nowhere. */
f64 bill_limit_s(struct bill *b, f64 max_seconds, f64 max_dollars);

/* How a provider turns the time that a machine was up into time on the bill. */
struct billing_rule {
    i64 granularity_s; /* in whole ones of it; 0: to the nanosecond */
    i64 minimum_s;     /* at least */
    i64 free_s;        /* nothing for a machine that its provider took back before that */
};
i64 bill_billed_ns(struct billing_rule rule, i64 up_ns, bool taken); /* 0 for one never up */

/* What a machine costs that was up so long; `taken`: its provider took it back. -1: price unknown. */
i64 bill_nusd(const struct price_row *price, i64 up_ns, bool taken);

/* The same by no provider's rule: the time that it was up, at its price. */
i64 bill_used_nusd(const struct price_row *price, i64 up_ns);

/* How long a machine may be up for so much; 0: not even its minimum. NaN: price or sum unknown. */
f64 bill_affordable_s(const struct price_row *price, f64 usd);

/* Seconds at a price, by no provider's rule: for estimates, and for time saved or wasted. NaN: one is not known. */
f64 bill_estimate_usd(f64 usd_hour, f64 seconds);
f64 bill_all_usd_hour(f64 usd_hour, i64 machines);  /* of so many that work together */
f64 bill_part_usd_hour(f64 usd_hour, i64 parts);    /* of a machine that is shared by so many */
f64 bill_hours(f64 usd_hour, f64 usd);              /* that so much pays for */
f64 bill_discount(f64 usd_hour, f64 list_usd_hour); /* 0.7: 70 % less than the list */
/* What `other_ns` would have cost where `ns` came to so much. */
i64 bill_at_rate_nusd(i64 nusd, i64 ns, f64 other_ns);
/* And back: the price of an hour that came to so much. */
f64 bill_usd_hour(i64 nusd, i64 ns);

f64 bill_put_usd(const struct store_price *p, f64 puts);
f64 bill_get_usd(const struct store_price *p, f64 gets);
f64 bill_retrieve_usd(const struct store_price *p, f64 bytes);
f64 bill_egress_usd(const struct store_price *p, f64 bytes);
f64 bill_storage_usd(const struct store_price *p, f64 bytes, f64 days);
f64 bill_early_usd(const struct store_price *p, f64 bytes,
                   f64 age_days);                      /* due if it is deleted before its minimum */
f64 bill_storage_gib_usd(const struct store_price *p); /* a GiB for a month */
i64 bill_stored_nusd(f64 usd_gib_month, i64 bytes, i64 ns);

/* Parts of `total` as the weights are to one another (all 0: everything to the first): each is off
 * by less than 1, and they sum to `total` exactly. total >= 0, weights >= 0, count >= 1. */
void bill_split(i64 total, const i64 *weights, i64 count, i64 *parts, struct arena scratch);

/* How much of its machine each segment pays for, in nanoseconds: while several run on one machine
 * (the same boot), each pays by the GPUs it holds; where none holds any, all alike. The segment's
 * whole time goes to `own_ns` where nothing ran beside it. */
void bill_shares(const struct segment_row *segments, i64 count, i64 *own_ns, struct arena scratch);

#endif
