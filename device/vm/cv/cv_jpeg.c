// JPEG by libjpeg-turbo: the only file that includes it. Its errors jump to where the work began,
// in this file, and no further; nothing of the script VM is in between. Called by cv_codec.c on the
// VM's thread, and by the fuzzer.
#include "vm/cv/cv_codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#define OUT_BUFFER 4096

struct reading {
    struct jpeg_error_mgr errors; // first, so that it is found from the library's pointer
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct cv_codec *codec;
    enum cv_read how;
    struct cv_pixels *pixels;
};

struct writing {
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct jpeg;
    struct jpeg_destination_mgr sink;
    jmp_buf jump;
    struct cv_codec *codec;
    const struct cv_pixels *pixels;
    int quality;
    size_t written;
    uint8_t buffer[OUT_BUFFER];
};

static void why_set(struct cv_codec *codec, const char *why)
{
    if (codec->why[0] == '\0') {
        (void)snprintf(codec->why, sizeof(codec->why), "JPEG: %s", why);
    }
}

static void message_drop(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void warning_drop(j_common_ptr jpeg, int level)
{
    jpeg->err->num_warnings += level < 0;
}

static void reading_failed(j_common_ptr jpeg)
{
    struct reading *job = (struct reading *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    why_set(job->codec, text);
    longjmp(job->jump, 1);
}

static void writing_failed(j_common_ptr jpeg)
{
    struct writing *job = (struct writing *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    why_set(job->codec, text);
    longjmp(job->jump, 1);
}

// Called by the library as it goes: a file may ask for many times the work that its pixels are.
static void reading_goes(j_common_ptr jpeg)
{
    struct reading *job = (struct reading *)(void *)jpeg->err;
    const struct jpeg_decompress_struct *state = &job->jpeg;
    if (state->input_scan_number > CV_SCANS_MAX) {
        why_set(job->codec, "more scans than 64");
        longjmp(job->jump, 1);
    }
    if (!job->codec->go(job->codec->ctx, (size_t)state->image_width * 16)) {
        why_set(job->codec, "stopped");
        longjmp(job->jump, 1);
    }
}

static void reading_begin(struct reading *job)
{
    job->jpeg.err = jpeg_std_error(&job->errors);
    job->errors.error_exit = reading_failed;
    job->errors.output_message = message_drop;
    job->errors.emit_message = warning_drop;
    jpeg_create_decompress(&job->jpeg);
    job->jpeg.mem->max_memory_to_use = (long)job->codec->memory_bytes;
    job->progress.progress_monitor = reading_goes;
    job->jpeg.progress = &job->progress;
    jpeg_mem_src(&job->jpeg, job->codec->bytes, job->codec->size);
    (void)jpeg_read_header(&job->jpeg, TRUE);
}

static void head_read(struct reading *job)
{
    reading_begin(job);
    const struct jpeg_decompress_struct *jpeg = &job->jpeg;
    bool is_gray =
        job->how == CV_READ_GRAY || (job->how == CV_READ_UNCHANGED && jpeg->num_components == 1);
    job->pixels->rows = jpeg->image_height;
    job->pixels->columns = jpeg->image_width;
    job->pixels->channels = is_gray ? 1 : 3;
    if (jpeg->image_width > CV_SIDE_MAX || jpeg->image_height > CV_SIDE_MAX) {
        why_set(job->codec, "a side of more than 32767 pixels");
        longjmp(job->jump, 1);
    }
    if (jpeg->num_components != 1 && jpeg->num_components != 3) {
        why_set(job->codec, "neither gray nor of three colours");
        longjmp(job->jump, 1);
    }
}

static void pixels_read(struct reading *job)
{
    reading_begin(job);
    struct jpeg_decompress_struct *jpeg = &job->jpeg;
    jpeg->out_color_space = job->pixels->channels == 1 ? JCS_GRAYSCALE : JCS_EXT_BGR;
    (void)jpeg_start_decompress(jpeg);
    if (jpeg->output_width != job->pixels->columns || jpeg->output_height != job->pixels->rows ||
        (uint32_t)jpeg->output_components != job->pixels->channels) {
        why_set(job->codec, "another size than its head says");
        longjmp(job->jump, 1);
    }
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = job->pixels->at + jpeg->output_scanline * job->pixels->step;
        (void)jpeg_read_scanlines(jpeg, &row, 1);
    }
    (void)jpeg_finish_decompress(jpeg);
}

// Nothing of this frame changes between setjmp and the jump.
static bool reading_done(struct reading *job, void (*work)(struct reading *job))
{
    bool good = setjmp(job->jump) == 0;
    if (good) {
        work(job);
    }
    jpeg_destroy_decompress(&job->jpeg);
    return good;
}

bool dev_cv_is_jpeg(const uint8_t *bytes, size_t size)
{
    return size > 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

bool dev_cv_jpeg_head(struct cv_codec *codec, enum cv_read how, struct cv_pixels *out_head)
{
    struct cv_pixels head = {0};
    struct reading job = {.codec = codec, .how = how, .pixels = &head};
    if (!reading_done(&job, head_read)) {
        return false;
    }
    *out_head = head;
    return true;
}

bool dev_cv_jpeg_read(struct cv_codec *codec, const struct cv_pixels *pixels)
{
    struct cv_pixels to = *pixels;
    struct reading job = {.codec = codec, .pixels = &to};
    return reading_done(&job, pixels_read);
}

// --- writing

static void sink_begin(j_compress_ptr jpeg)
{
    struct writing *job = (struct writing *)(void *)jpeg->err;
    job->sink.next_output_byte = job->buffer;
    job->sink.free_in_buffer = OUT_BUFFER;
}

static void sink_take(struct writing *job, size_t bytes)
{
    struct cv_codec *codec = job->codec;
    size_t room = job->written < codec->out_size ? codec->out_size - job->written : 0;
    if (room > 0) {
        memcpy(codec->out + job->written, job->buffer, bytes < room ? bytes : room);
    }
    job->written += bytes;
}

static boolean sink_full(j_compress_ptr jpeg)
{
    struct writing *job = (struct writing *)(void *)jpeg->err;
    sink_take(job, OUT_BUFFER);
    sink_begin(jpeg);
    return TRUE;
}

static void sink_end(j_compress_ptr jpeg)
{
    struct writing *job = (struct writing *)(void *)jpeg->err;
    sink_take(job, OUT_BUFFER - job->sink.free_in_buffer);
}

static void pixels_write(struct writing *job)
{
    struct jpeg_compress_struct *jpeg = &job->jpeg;
    jpeg->err = jpeg_std_error(&job->errors);
    job->errors.error_exit = writing_failed;
    job->errors.output_message = message_drop;
    jpeg_create_compress(jpeg);
    jpeg->mem->max_memory_to_use = (long)job->codec->memory_bytes;
    job->sink.init_destination = sink_begin;
    job->sink.empty_output_buffer = sink_full;
    job->sink.term_destination = sink_end;
    jpeg->dest = &job->sink;
    jpeg->image_width = job->pixels->columns;
    jpeg->image_height = job->pixels->rows;
    jpeg->input_components = (int)job->pixels->channels;
    jpeg->in_color_space = job->pixels->channels == 1   ? JCS_GRAYSCALE
                           : job->pixels->channels == 3 ? JCS_EXT_BGR
                                                        : JCS_EXT_BGRX;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, job->quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = job->pixels->at + jpeg->next_scanline * job->pixels->step;
        (void)jpeg_write_scanlines(jpeg, &row, 1);
        if (!job->codec->go(job->codec->ctx, (size_t)jpeg->image_width * 16)) {
            why_set(job->codec, "stopped");
            longjmp(job->jump, 1);
        }
    }
    jpeg_finish_compress(jpeg);
}

bool dev_cv_jpeg_write(struct cv_codec *codec, const struct cv_pixels *pixels, int quality,
                       size_t *out_bytes)
{
    struct writing job;
    memset(&job, 0, sizeof(job));
    job.codec = codec;
    job.pixels = pixels;
    job.quality = quality;
    struct writing *const kept = &job;
    bool good = setjmp(job.jump) == 0;
    if (good) {
        pixels_write(kept);
        *out_bytes = kept->written;
    }
    jpeg_destroy_compress(&kept->jpeg);
    return good;
}
