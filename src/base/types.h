/* types.h - the short scalar names, and the assertion that stays on in every build. */
#ifndef BASE_TYPES_H
#define BASE_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int8_t   i8;
typedef int16_t  i16;
typedef int32_t  i32;
typedef int64_t  i64;
typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float    f32;
typedef double   f64;

#define COUNT_OF(a) ((i64)(sizeof(a) / sizeof *(a)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Our own fault: says where and stops. One condition each. */
#define ASSERT(c) ((c) ? (void)0 : assert_failed(#c, __FILE__, __LINE__))
_Noreturn void assert_failed(const char *condition, const char *file, int line);

#endif
