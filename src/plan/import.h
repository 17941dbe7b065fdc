/* import.h - public price lists, from files, as rows of the catalogue.
 *
 *   aws       the offer file of AmazonEC2 (JSON), of one region or all of them
 *   gcp       the SKUs of Compute Engine from the Cloud Billing Catalog API (JSON)
 *   azure     pages of the Retail Prices API (JSON)
 *   skypilot  vms.csv of a cloud in skypilot-org/skypilot-catalog
 *
 * The lists of gcp and azure do not say what is in a machine: they renew machines that the catalogue
 * knows. The others also bring new machines with a GPU or CPU that it knows. docs/formats/prices.md */
#ifndef PLAN_IMPORT_H
#define PLAN_IMPORT_H
#include "plan/catalogue.h"

struct import {
    struct str format;
    struct str provider;  /* skypilot: whose list; empty: the folder that the file lies in */
    struct str region;    /* us-east-1, or us for all that begin with us-; empty: the catalogue's */
    i32        as_of_day; /* where the list itself has no date */
};

struct imported {
    struct machine *machines; /* only what the list says is known of them */
    i64             count;
    i64             passed_over; /* machines of that region whose GPU or CPU is not known */
    i64             unpriced;    /* machines of that region for which the list has no price */
};

extern const struct str import_formats; /* for messages: "aws|gcp|azure|skypilot" */

enum status import_check_format(struct str name, struct err *err); /* USAGE: not one of them */

/* `text` may be a mapped file of any size; the result does not point into it. */
enum status prices_import(const struct catalogue *c, const struct import *how, struct str path,
                          struct str text, struct arena *perm, struct imported *out,
                          struct err *err);
/* All of them as rows of a user's file behind those of `before` (its text so far, or empty). Of an earlier row of the
 * same machine those figures stay, with its date and source, that the new row does not have; if none, it goes. */
enum status prices_merge_text(struct arena *perm, struct str path, struct str before,
                              const struct machine *machines, i64 count, struct str *out,
                              struct err *err);

/* Files of one format into the user's file at `path`, which is made, or renewed, whole or not at all. A list without a
 * date is as old as its file. `all` counts; its machines are NULL. NO: none has a machine of that region. */
enum status prices_import_files(struct os *os, const struct catalogue *c, struct import *how,
                                const struct str *files, i64 file_count, struct str path,
                                struct arena *perm, struct imported *all, struct err *err);

#endif
