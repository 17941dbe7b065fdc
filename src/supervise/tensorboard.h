/* tensorboard.h - scalars from TensorBoard's event files: records of length, masked CRC-32C, bytes,
 * masked CRC-32C (TFRecord), each an Event of Protocol Buffers. docs/formats/run.md has the fields. */
#ifndef SUPERVISE_TENSORBOARD_H
#define SUPERVISE_TENSORBOARD_H
#include "base/text.h"

struct tb_scalar {
    struct str tag; /* points into the bytes */
    f64        value;
};

enum { TB_SCALARS_MAX = 32, TB_RECORD_BYTES_MAX = 1 << 20 };

struct tb_event {
    i64              step;
    struct tb_scalar scalars[TB_SCALARS_MAX];
    i64              count; /* 0: it tells of something else */
};

/* The first record of these bytes: how long it is; 0: it is not all there yet; -1: it is damaged, and
 * nothing behind it can be found. */
i64 tb_next(struct str bytes, struct tb_event *out);

#endif
