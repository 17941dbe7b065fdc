/* fp8.h - a row of the state that fp8 casts share: the largest numbers of a tensor, for whoever makes, reads
 * or moves it. */
#ifndef IR_FP8_H
#define IR_FP8_H

enum fp8_state {
    FP8_USED,       /* that scales are made from; 0: none yet */
    FP8_NOW,        /* of this step so far */
    FP8_PAST,       /* of steps before, the newest first */
    FP8_STATE = 18, /* numbers in a row: 16 steps */
};

/* Bit of a cast's `format`: of a tensor that was cast in this step before, whose row is read and not changed. */
enum { FP8_AGAIN = 2 };

#define FP8_ALIGN 16 /* sizes of fp8 products are multiples of it: cuBLASLt's rule */

#endif
