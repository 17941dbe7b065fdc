/* picture.h - JPEG files for tests. */
#ifndef SUPPORT_PICTURE_H
#define SUPPORT_PICTURE_H
#include "base/text.h"

/* A JPEG of noise over a slope; which, says `seed`. Empty: this build has no libjpeg. */
struct str picture_jpeg(struct arena *perm, i64 width, i64 height, u64 seed);

#endif
