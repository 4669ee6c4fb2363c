// PNG by libpng: the only file that includes it. Its errors jump to where the work began, in this
// file, and no further; nothing of the script VM is in between. All that it allocates, zlib's too,
// is counted. Called by cv_codec.c on the VM's thread, and by the fuzzer.
#include "vm/cv/cv_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#define CHUNKS_MAX      64        // beside those of the pixels that are kept
#define CHUNK_BYTES_MAX (1 << 16) // that one may be unpacked to
#define BLOCK_HEAD      16        // where the size of an allocation is kept
#define UNPACKED_MAX    1032      // bytes that deflate makes of one, at most
#define UNPACKED_COST   32        // of these are made in the time of one element
#define CHUNK_NAME      5         // with the NUL that libpng wants between names

static const char PASSED_OVER[] = "tEXt\0zTXt\0iTXt\0iCCP\0sPLT\0hIST\0eXIf";

struct work {
    struct cv_codec *codec;
    png_structp png;
    png_infop info;
    enum cv_read how;
    const struct cv_pixels *pixels;
    struct cv_pixels head;
    size_t at;        // bytes read, or written
    size_t allocated; // under way
    int level;
};

static void why_set(struct cv_codec *codec, const char *why)
{
    if (codec->why[0] == '\0') {
        (void)snprintf(codec->why, sizeof(codec->why), "PNG: %s", why);
    }
}

static void failed(png_structp png, png_const_charp why)
{
    struct work *work = png_get_error_ptr(png);
    why_set(work->codec, why);
    png_longjmp(png, 1);
}

static void warning_drop(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static png_voidp block_take(png_structp png, png_alloc_size_t size)
{
    struct work *work = png_get_mem_ptr(png);
    if (size > work->codec->memory_bytes || work->allocated > work->codec->memory_bytes - size) {
        return NULL;
    }
    uint8_t *block = malloc(BLOCK_HEAD + size);
    if (block == NULL) {
        return NULL;
    }
    memcpy(block, &size, sizeof(size));
    work->allocated += size;
    return block + BLOCK_HEAD;
}

static void block_give(png_structp png, png_voidp at)
{
    struct work *work = png_get_mem_ptr(png);
    png_alloc_size_t size;
    if (at != NULL) {
        uint8_t *block = (uint8_t *)at - BLOCK_HEAD;
        memcpy(&size, block, sizeof(size));
        work->allocated -= size;
        free(block);
    }
}

static void go_on(struct work *work, size_t elements)
{
    if (!work->codec->go(work->codec->ctx, elements)) {
        png_error(work->png, "stopped");
    }
}

// What is read is paid for as what it may be unpacked to: nobody says how much that is.
static void bytes_take(png_structp png, png_bytep to, png_size_t size)
{
    struct work *work = png_get_io_ptr(png);
    if (size > work->codec->size - work->at) {
        png_error(png, "it ends within a chunk");
    }
    memcpy(to, work->codec->bytes + work->at, size);
    work->at += size;
    go_on(work, size < SIZE_MAX / UNPACKED_MAX ? size * UNPACKED_MAX / UNPACKED_COST : SIZE_MAX);
}

static void bytes_put(png_structp png, png_bytep from, png_size_t size)
{
    struct work *work = png_get_io_ptr(png);
    size_t room = work->at < work->codec->out_size ? work->codec->out_size - work->at : 0;
    if (room > 0) {
        memcpy(work->codec->out + work->at, from, size < room ? size : room);
    }
    work->at += size;
}

static void bytes_flush(png_structp png)
{
    (void)png;
}

static void reading_begin(struct work *work)
{
    png_set_user_limits(work->png, CV_SIDE_MAX, CV_SIDE_MAX);
    png_set_chunk_cache_max(work->png, CHUNKS_MAX);
    png_set_chunk_malloc_max(work->png, CHUNK_BYTES_MAX);
    // Text, profiles and palettes that nobody asks for are passed over as they lie.
    png_set_keep_unknown_chunks(work->png, PNG_HANDLE_CHUNK_NEVER, (png_const_bytep)PASSED_OVER,
                                (int)(sizeof(PASSED_OVER) / CHUNK_NAME));
    png_set_read_fn(work->png, work, bytes_take);
    png_read_info(work->png, work->info);
}

static void head_read(struct work *work)
{
    reading_begin(work);
    int kind = png_get_color_type(work->png, work->info);
    bool has_alpha = (kind & PNG_COLOR_MASK_ALPHA) != 0 ||
                     (kind == PNG_COLOR_TYPE_PALETTE &&
                      png_get_valid(work->png, work->info, PNG_INFO_tRNS) != 0);
    bool has_colour = (kind & PNG_COLOR_MASK_COLOR) != 0;
    work->head.rows = png_get_image_height(work->png, work->info);
    work->head.columns = png_get_image_width(work->png, work->info);
    work->head.channels = 3;
    if (work->how == CV_READ_GRAY) {
        work->head.channels = 1;
    } else if (work->how == CV_READ_UNCHANGED) {
        work->head.channels = has_alpha ? 4 : has_colour ? 3 : 1;
    }
}

// As OpenCV asks for it: 8 bits, blue first, alpha only where it is wanted.
static void transforms_set(struct work *work)
{
    int kind = png_get_color_type(work->png, work->info);
    bool has_colour = (kind & PNG_COLOR_MASK_COLOR) != 0;
    png_set_strip_16(work->png);
    if (work->pixels->channels < 4) {
        png_set_strip_alpha(work->png);
    } else {
        png_set_tRNS_to_alpha(work->png);
    }
    if (kind == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(work->png);
    }
    if (!has_colour && png_get_bit_depth(work->png, work->info) < 8) {
        png_set_expand_gray_1_2_4_to_8(work->png);
    }
    if (work->pixels->channels == 1) {
        png_set_rgb_to_gray(work->png, 1, 0.299, 0.587);
    } else if (has_colour) {
        png_set_bgr(work->png);
    } else {
        png_set_gray_to_rgb(work->png);
    }
}

static void pixels_read(struct work *work)
{
    const struct cv_pixels *pixels = work->pixels;
    reading_begin(work);
    transforms_set(work);
    int passes = png_set_interlace_handling(work->png);
    png_read_update_info(work->png, work->info);
    if (png_get_image_height(work->png, work->info) != pixels->rows ||
        png_get_rowbytes(work->png, work->info) != (size_t)pixels->columns * pixels->channels) {
        png_error(work->png, "another size than its head says");
    }
    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t row = 0; row < pixels->rows; row++) {
            png_read_row(work->png, pixels->at + row * pixels->step, NULL);
            go_on(work, (size_t)pixels->columns * 4);
        }
    }
    // What lies behind the last row is not read: nobody said how much there is.
}

static void pixels_write(struct work *work)
{
    const struct cv_pixels *pixels = work->pixels;
    int kind = pixels->channels == 1   ? PNG_COLOR_TYPE_GRAY
               : pixels->channels == 3 ? PNG_COLOR_TYPE_RGB
                                       : PNG_COLOR_TYPE_RGBA;
    png_set_write_fn(work->png, work, bytes_put, bytes_flush);
    png_set_compression_level(work->png, work->level);
    png_set_IHDR(work->png, work->info, pixels->columns, pixels->rows, 8, kind, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(work->png, work->info);
    png_set_bgr(work->png);
    for (uint32_t row = 0; row < pixels->rows; row++) {
        png_write_row(work->png, pixels->at + row * pixels->step);
        go_on(work, (size_t)pixels->columns * 16);
    }
    png_write_end(work->png, work->info);
}

// Nothing of this frame changes between setjmp and the jump.
static bool guarded(struct work *work, void (*each)(struct work *work))
{
    bool good = setjmp(png_jmpbuf(work->png)) == 0;
    if (good) {
        each(work);
    }
    return good;
}

static bool done(struct work *work, bool writes, void (*each)(struct work *work))
{
    work->png = writes ? png_create_write_struct_2(PNG_LIBPNG_VER_STRING, work, failed,
                                                   warning_drop, work, block_take, block_give)
                       : png_create_read_struct_2(PNG_LIBPNG_VER_STRING, work, failed, warning_drop,
                                                  work, block_take, block_give);
    work->info = work->png != NULL ? png_create_info_struct(work->png) : NULL;
    bool good = false;
    if (work->info != NULL) {
        good = guarded(work, each);
    } else {
        why_set(work->codec, "no memory");
    }
    if (writes) {
        png_destroy_write_struct(&work->png, &work->info);
    } else {
        png_destroy_read_struct(&work->png, &work->info, NULL);
    }
    return good;
}

bool dev_cv_is_png(const uint8_t *bytes, size_t size)
{
    return size > 8 && png_sig_cmp(bytes, 0, 8) == 0;
}

bool dev_cv_png_head(struct cv_codec *codec, enum cv_read how, struct cv_pixels *out_head)
{
    struct work work = {.codec = codec, .how = how};
    if (!done(&work, false, head_read)) {
        return false;
    }
    *out_head = work.head;
    return true;
}

bool dev_cv_png_read(struct cv_codec *codec, const struct cv_pixels *pixels)
{
    struct work work = {.codec = codec, .pixels = pixels};
    return done(&work, false, pixels_read);
}

bool dev_cv_png_write(struct cv_codec *codec, const struct cv_pixels *pixels, int level,
                      size_t *out_bytes)
{
    struct work work = {.codec = codec, .pixels = pixels, .level = level};
    if (!done(&work, true, pixels_write)) {
        return false;
    }
    *out_bytes = work.at;
    return true;
}
