/* jpeg_scan.h - Huffman decoding for libjpeg: half as fast again as its own, and twice as fast where the
 * pixels are not wanted.
 *
 * Seven tenths of the time that libjpeg-turbo takes for a photograph go into its Huffman codes, and
 * those of pixels that a crop leaves out must be read too. libjpeg asks for the coefficients of each
 * block group (MCU) through one pointer; jpeg_scan_begin puts ours there, for the files that nearly
 * all are: baseline, one scan, no restart markers. Everything else stays libjpeg's. */
#ifndef DATA_JPEG_SCAN_H
#define DATA_JPEG_SCAN_H
#include "base/types.h"
#include <stdio.h>

#include <jpeglib.h> /* which needs stdio.h before it */

/* The bits to come. */
struct jpeg_bits {
    const u8 *at;    /* the next byte */
    u64       word;  /* the next bits, highest first */
    i32       count; /* of those that are sure; below them stand bits of `at` or zeros */
};

struct jpeg_scan {
    struct jpeg_bits    in;
    const u8           *end; /* of the scan's bytes, without the zeros stuffed behind 255 */
    i32                 dc[MAX_COMPS_IN_SCAN];
    i64                 column;      /* of the next MCU */
    i64                 first, last; /* columns whose coefficients are wanted */
    struct jpeg_tables *tables;      /* this thread's */
};

/* Bytes needed at `room` for a file of so many. */
i64 jpeg_scan_room(i64 file_bytes);
/* After jpeg_start_decompress, before the first row; coefficients of MCUs outside columns
 * [first, last] may then be anything. cinfo->client_data is ours from here on. */
void jpeg_scan_begin(struct jpeg_decompress_struct *cinfo, struct jpeg_scan *scan, i64 first,
                     i64 last, u8 *room);

#endif
