// walle.cv: pictures as files, JPEG and PNG. Nothing here knows the script VM, and nothing raises:
// the libraries' own jumps end where they began, so that their memory is given back on every way.
//
// Bytes are hostile: sizes are known, and the caller's memory is there, before pixels are read;
// what the libraries allocate beside it is bounded by `memory_bytes`.
#ifndef DEV_CV_CODEC_H
#define DEV_CV_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CV_SIDE_MAX  32767 // pixels of a side of a picture that is read or written
#define CV_SCANS_MAX 64    // of a JPEG: each goes through all of it
#define CV_WHY_MAX   160

// Called for every row and scan with what it cost, in elements. False: stop.
typedef bool cv_codec_go_fn(void *ctx, size_t elements);

struct cv_codec {
    const uint8_t *bytes; // of a file that is read
    size_t size;
    uint8_t *out; // where a file is written to; what is beyond its size is counted and left out
    size_t out_size;
    size_t memory_bytes; // that a library may allocate
    cv_codec_go_fn *go;
    void *ctx;
    char why[CV_WHY_MAX]; // what was wrong
};

// Rows of 8-bit pixels, dense, of 1, 3 (BGR) or 4 (BGRA) channels.
struct cv_pixels {
    uint32_t rows;
    uint32_t columns;
    uint32_t channels;
    uint8_t *at;
    size_t step; // bytes from a row to the next
};

// What pictures are read as. The numbers are OpenCV's.
enum cv_read { CV_READ_UNCHANGED = -1, CV_READ_GRAY = 0, CV_READ_COLOR = 1 };

// --- cv_jpeg.c, cv_png.c
// Is it a file of this kind? By its first bytes.
bool dev_cv_is_jpeg(const uint8_t *bytes, size_t size);
bool dev_cv_is_png(const uint8_t *bytes, size_t size);
// The size and the channels that a file is read to; false, and why: it cannot be read.
bool dev_cv_jpeg_head(struct cv_codec *codec, enum cv_read how, struct cv_pixels *out_head);
bool dev_cv_png_head(struct cv_codec *codec, enum cv_read how, struct cv_pixels *out_head);
// Reads pixels to memory of the head's size; false, and why, with part of them written.
bool dev_cv_jpeg_read(struct cv_codec *codec, const struct cv_pixels *pixels);
bool dev_cv_png_read(struct cv_codec *codec, const struct cv_pixels *pixels);
// Writes a file; its size, of which out_size bytes are there. Quality 0 to 100, level 0 to 9.
bool dev_cv_jpeg_write(struct cv_codec *codec, const struct cv_pixels *pixels, int quality,
                       size_t *out_bytes);
bool dev_cv_png_write(struct cv_codec *codec, const struct cv_pixels *pixels, int level,
                      size_t *out_bytes);

#endif
