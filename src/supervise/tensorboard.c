/* tensorboard.c - of an Event: step (2) and summary (5); of that, each value (1): tag (1) and either
 * simple_value (2) or, as TensorFlow 2 writes it, a tensor (8) of one float. Of a tensor: dtype (1),
 * tensor_content (4), float_val (5). */
#include "supervise/tensorboard.h"
#include "base/hash.h"
#include <math.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5, DT_FLOAT_OF_TF = 1 };

struct field {
    u64        number;
    int        wire;
    u64        value; /* of a varint, or the bits of 4 or 8 bytes */
    struct str bytes;
};

static bool take_varint(struct str *s, u64 *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && s->len > 0; shift += 7) {
        u8 b = (u8)s->data[0];
        *s   = str_sub(*s, 1, s->len);
        *out |= (u64)(b & 127) << shift;
        if (b < 128) return true;
    }
    return false;
}

/* False at the end, and at what is no field. */
static bool take_field(struct str *s, struct field *f)
{
    u64 key, len;
    *f = (struct field){ 0 };
    if (!take_varint(s, &key)) return false;
    f->number = key >> 3;
    f->wire   = (int)(key & 7);
    switch (f->wire) {
    case WIRE_VARINT: return take_varint(s, &f->value);
    case WIRE_8: len = 8; break;
    case WIRE_4: len = 4; break;
    case WIRE_BYTES:
        if (!take_varint(s, &len)) return false;
        break;
    default: return false;
    }
    if (len > (u64)s->len) return false;
    f->bytes = str_sub(*s, 0, (i64)len);
    *s       = str_sub(*s, (i64)len, s->len);
    if (f->wire != WIRE_BYTES) memcpy(&f->value, f->bytes.data, (size_t)len);
    return true;
}

static f64 float_of(const void *bits)
{
    f32 v;
    memcpy(&v, bits, sizeof v);
    return (f64)v;
}

static f64 read_tensor(struct str s)
{
    struct field f;
    f64          value = NAN;
    u64          type  = 0;
    while (take_field(&s, &f)) {
        bool packed = f.wire == WIRE_BYTES && f.bytes.len == 4;
        if (f.number == 1 && f.wire == WIRE_VARINT) type = f.value;
        if ((f.number == 4 || f.number == 5) && packed) value = float_of(f.bytes.data);
        if (f.number == 5 && f.wire == WIRE_4) value = float_of(&f.value);
    }
    return type == DT_FLOAT_OF_TF ? value : NAN;
}

static void read_value(struct str s, struct tb_event *out)
{
    struct field     f;
    struct tb_scalar scalar = { .value = NAN };
    while (take_field(&s, &f)) {
        if (f.number == 1 && f.wire == WIRE_BYTES) scalar.tag = f.bytes;
        if (f.number == 2 && f.wire == WIRE_4) scalar.value = float_of(&f.value);
        if (f.number == 8 && f.wire == WIRE_BYTES) scalar.value = read_tensor(f.bytes);
    }
    if (scalar.tag.len && !isnan(scalar.value) && out->count < TB_SCALARS_MAX)
        out->scalars[out->count++] = scalar;
}

static void read_event(struct str s, struct tb_event *out)
{
    struct field f;
    while (take_field(&s, &f)) {
        if (f.number == 2 && f.wire == WIRE_VARINT) out->step = (i64)f.value;
        if (f.number != 5 || f.wire != WIRE_BYTES) continue;
        struct str   summary = f.bytes;
        struct field v;
        while (take_field(&summary, &v))
            if (v.number == 1 && v.wire == WIRE_BYTES) read_value(v.bytes, out);
    }
}

static bool sum_is(struct str bytes, const char *said)
{
    u32 crc = crc32c_add(0, bytes), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    return memcmp(&masked, said, sizeof masked) == 0;
}

i64 tb_next(struct str bytes, struct tb_event *out)
{
    u64 len;
    *out = (struct tb_event){ 0 };
    if (bytes.len < 12) return 0;
    memcpy(&len, bytes.data, sizeof len);
    if (!sum_is(str_sub(bytes, 0, 8), bytes.data + 8) || len > TB_RECORD_BYTES_MAX) return -1;
    i64 whole = 12 + (i64)len + 4;
    if (bytes.len < whole) return 0;
    struct str record = str_sub(bytes, 12, 12 + (i64)len);
    if (!sum_is(record, record.data + record.len)) return -1;
    read_event(record, out);
    return whole;
}
