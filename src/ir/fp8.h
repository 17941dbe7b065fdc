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

#define FP8_ALIGN 16 /* sizes of fp8 products are multiples of it: cuBLASLt's rule */

#endif
