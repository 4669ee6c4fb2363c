// Pictures from a stranger: JPEG and PNG as walle.cv reads them. Sizes are known before pixels are
// read, what the libraries allocate is bounded, and no error leaves anything behind (the address
// sanitizer looks for what was not given back). What was read is written, and read again.
#include "fuzz_target.h"

#include "base/check.h"
#include "vm/cv/cv_codec.h"

#include <stdlib.h>

#define MEMORY_BYTES (4u << 20)
#define PIXELS_MAX   (1u << 20)
#define ELEMENTS_MAX (64u << 20) // that one input may cost
#define OUT_BYTES    (4u << 20)

static uint8_t out[OUT_BYTES];
static size_t elements_left;

static bool go(void *ctx, size_t elements)
{
    (void)ctx;
    elements_left -= elements < elements_left ? elements : elements_left;
    return elements_left > 0;
}

static struct cv_codec codec_of(const uint8_t *bytes, size_t size)
{
    elements_left = ELEMENTS_MAX;
    return (struct cv_codec){.bytes = bytes,
                             .size = size,
                             .out = out,
                             .out_size = OUT_BYTES,
                             .memory_bytes = MEMORY_BYTES,
                             .go = go};
}

// Reads, and gives the pixels, which are the caller's to free; NULL: not read, and why was said.
static uint8_t *pixels_of(const uint8_t *bytes, size_t size, enum cv_read how,
                          struct cv_pixels *pixels)
{
    struct cv_codec codec = codec_of(bytes, size);
    bool is_png = dev_cv_is_png(bytes, size);
    if (!(is_png ? dev_cv_png_head : dev_cv_jpeg_head)(&codec, how, pixels)) {
        base_check(codec.why[0] != '\0');
        return NULL;
    }
    base_check(pixels->rows <= CV_SIDE_MAX && pixels->columns <= CV_SIDE_MAX);
    base_check(pixels->rows > 0 && pixels->columns > 0);
    pixels->step = (size_t)pixels->columns * pixels->channels;
    if ((uint64_t)pixels->rows * pixels->step > PIXELS_MAX) {
        return NULL;
    }
    pixels->at = malloc(pixels->rows * pixels->step); // of exact size, for the sanitizer
    base_check(pixels->at != NULL);
    if (!(is_png ? dev_cv_png_read : dev_cv_jpeg_read)(&codec, pixels)) {
        base_check(codec.why[0] != '\0');
        free(pixels->at);
        return NULL;
    }
    return pixels->at;
}

static void write_again(const struct cv_pixels *pixels)
{
    struct cv_codec codec = codec_of(NULL, 0);
    size_t size = 0;
    if (!dev_cv_png_write(&codec, pixels, 1, &size) || size > OUT_BYTES) {
        return;
    }
    struct cv_pixels again;
    uint8_t *read = pixels_of(out, size, CV_READ_UNCHANGED, &again);
    base_check(read != NULL && again.rows == pixels->rows && again.columns == pixels->columns);
    base_check(again.channels == pixels->channels);
    for (size_t i = 0; i < again.rows * again.step; i++) {
        base_check(read[i] == pixels->at[i]);
    }
    free(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int how = CV_READ_UNCHANGED; how <= CV_READ_COLOR; how++) {
        struct cv_pixels pixels;
        uint8_t *read = pixels_of(data, size, (enum cv_read)how, &pixels);
        if (read != NULL && how == CV_READ_UNCHANGED) {
            write_again(&pixels);
        }
        free(read);
    }
    return 0;
}
