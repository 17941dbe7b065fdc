/* use_int.h - what the files of use share. */
#ifndef TRAIN_USE_INT_H
#define TRAIN_USE_INT_H
#include "train/train_int.h"
#include "train/use.h"

struct use {
    struct arena    perm; /* that it lies in itself */
    struct session  s;
    struct settings settings;
    i64             length, vocabulary; /* of sequences to continue */
    i64             sequences;          /* at a time */
    i64             rows; /* that are read at a time while a text is new; 0: there is no cache */
    i32            *last_sequence, *last_at; /* as they were put last */
    f64            *numbers;                 /* room for the logits of all sequences */
    i64            *seen; /* of each sequence: tokens whose keys and values are in the cache */
};

#endif
