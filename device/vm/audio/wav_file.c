// Reads and writes WAV files. The parser passes the chunks up to the samples and believes nothing:
// sizes are compared with the bytes that are there, numbers with one another. What the file says of
// its whole size and of bytes a second is not used. Called by audio_wav.c on the VM's thread, and
// by tests.
#include "vm/audio/wav_file.h"

#include "base/cursor.h"

#include <math.h>
#include <string.h>

#define TAG_PCM        1
#define TAG_FLOAT      3
#define TAG_EXTENSIBLE 0xfffe
#define FORMAT_BYTES   16
#define EXTENDED_BYTES 40
#define SIZE_UNKNOWN   UINT32_MAX // by programs that could not go back to write it

static const struct {
    const char *name;
    uint16_t tag;
    uint16_t bits;
} forms[DEV_WAV_FORM_COUNT] = {
    [DEV_WAV_PCM8] = {"pcm8", TAG_PCM, 8},          [DEV_WAV_PCM16] = {"pcm16", TAG_PCM, 16},
    [DEV_WAV_PCM24] = {"pcm24", TAG_PCM, 24},       [DEV_WAV_PCM32] = {"pcm32", TAG_PCM, 32},
    [DEV_WAV_FLOAT32] = {"float32", TAG_FLOAT, 32},
};

size_t dev_wav_sample_bytes(enum dev_wav_form form)
{
    return forms[form].bits / 8U;
}

const char *dev_wav_form_name(enum dev_wav_form form)
{
    return forms[form].name;
}

// --- reading

struct format {
    uint16_t tag;
    uint16_t channels;
    uint32_t rate;
    uint16_t frame_bytes;
    uint16_t bits;
};

// The rest of an extended format's code, behind its tag.
static bool is_plain_code(const uint8_t *code)
{
    static const uint8_t plain[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
    return memcmp(code, plain, sizeof(plain)) == 0;
}

static enum base_status format_read(struct base_reader *chunk, size_t at, struct format *out,
                                    struct base_error *error)
{
    size_t size = base_reader_left(chunk);
    if (size < FORMAT_BYTES) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "the format at byte %zu has %zu bytes, not %d or more", at, size,
                              FORMAT_BYTES);
    }
    out->tag = base_reader_u16(chunk);
    out->channels = base_reader_u16(chunk);
    out->rate = base_reader_u32(chunk);
    (void)base_reader_u32(chunk); // bytes a second
    out->frame_bytes = base_reader_u16(chunk);
    out->bits = base_reader_u16(chunk);
    if (out->tag != TAG_EXTENSIBLE) {
        return BASE_OK;
    }
    if (size < EXTENDED_BYTES) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "the extended format at byte %zu has %zu bytes, not %d", at, size,
                              EXTENDED_BYTES);
    }
    (void)base_reader_bytes(chunk, 8); // its size, bits that count, places of loudspeakers
    out->tag = base_reader_u16(chunk);
    const uint8_t *code = base_reader_bytes(chunk, 14);
    if (code == NULL || !is_plain_code(code)) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED,
                              "the extended format at byte %zu is neither PCM nor float", at);
    }
    return BASE_OK;
}

static enum base_status format_take(const struct format *format, size_t at, struct dev_wav *out,
                                    struct base_error *error)
{
    uint32_t form = 0;
    while (form < DEV_WAV_FORM_COUNT &&
           (forms[form].tag != format->tag || forms[form].bits != format->bits)) {
        form++;
    }
    if (form == DEV_WAV_FORM_COUNT) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED,
                              "samples of format %u with %u bits (byte %zu): PCM of 8, 16, 24 or "
                              "32 bits and float of 32 are read",
                              format->tag, format->bits, at);
    }
    if (format->channels == 0 || format->channels > DEV_WAV_CHANNELS_MAX || format->rate == 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%u channels of %u frames a second (byte %zu)", format->channels,
                              format->rate, at);
    }
    uint32_t frame_bytes =
        format->channels * (uint32_t)dev_wav_sample_bytes((enum dev_wav_form)form);
    if (format->frame_bytes != frame_bytes) {
        return base_error_set(error, BASE_ERR_INVALID, "a frame of %u bytes, not %u (byte %zu)",
                              format->frame_bytes, frame_bytes, at);
    }
    out->form = (enum dev_wav_form)form;
    out->channels = format->channels;
    out->rate = format->rate;
    return BASE_OK;
}

// The samples' chunk: `declared` bytes from `at` on, of which `left` are there.
static enum base_status data_take(uint32_t declared, size_t at, size_t left, struct dev_wav *out,
                                  struct base_error *error)
{
    size_t frame_bytes = out->channels * dev_wav_sample_bytes(out->form);
    size_t size = declared == SIZE_UNKNOWN ? left / frame_bytes * frame_bytes : declared;
    if (size > left) {
        return base_error_set(error, BASE_ERR_TRUNCATED,
                              "%zu bytes of samples at byte %zu, and %zu are there", size, at,
                              left);
    }
    if (size % frame_bytes != 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%zu bytes of samples at byte %zu are no whole frames of %zu", size,
                              at, frame_bytes);
    }
    out->frames = size / frame_bytes;
    out->data_at = at;
    return BASE_OK;
}

static enum base_status chunks_read(struct base_reader *reader, struct dev_wav *out,
                                    struct base_error *error)
{
    bool has_format = false;
    for (uint32_t i = 0; i < DEV_WAV_CHUNKS_MAX && base_reader_left(reader) >= 8; i++) {
        const uint8_t *name = base_reader_bytes(reader, 4);
        uint32_t size = base_reader_u32(reader);
        size_t at = base_reader_offset(reader);
        size_t left = base_reader_left(reader);
        if (memcmp(name, "data", 4) == 0) {
            return has_format ? data_take(size, at, left, out, error)
                              : base_error_set(error, BASE_ERR_INVALID,
                                               "samples at byte %zu before their format", at);
        }
        if (size > left) {
            return base_error_set(error, BASE_ERR_TRUNCATED,
                                  "a chunk of %u bytes at byte %zu, and %zu are there", size, at,
                                  left);
        }
        const uint8_t *bytes = base_reader_bytes(reader, size);
        (void)base_reader_bytes(reader, size % 2 != 0 && size < left ? 1 : 0);
        if (memcmp(name, "fmt ", 4) == 0) {
            struct base_reader chunk;
            struct format format;
            base_reader_init(&chunk, bytes, size);
            BASE_TRY(format_read(&chunk, at, &format, error));
            BASE_TRY(format_take(&format, at, out, error));
            has_format = true;
        }
    }
    return base_error_set(error, BASE_ERR_TRUNCATED, "no samples up to byte %zu",
                          base_reader_offset(reader));
}

enum base_status dev_wav_parse(const uint8_t *bytes, size_t size, struct dev_wav *out_wav,
                               struct base_error *out_error)
{
    struct base_reader reader;
    struct dev_wav wav = {.form = DEV_WAV_PCM8};
    base_reader_init(&reader, bytes, size);
    const uint8_t *riff = base_reader_bytes(&reader, 12);
    if (riff == NULL || memcmp(riff, "RIFF", 4) != 0 || memcmp(riff + 8, "WAVE", 4) != 0) {
        return base_error_set(out_error, BASE_ERR_INVALID,
                              "no WAV file: it does not begin with RIFF and WAVE");
    }
    BASE_TRY(chunks_read(&reader, &wav, out_error));
    *out_wav = wav;
    return BASE_OK;
}

void dev_wav_samples(enum dev_wav_form form, const uint8_t *from, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = from + i * dev_wav_sample_bytes(form);
        uint32_t high; // the sample in the upper bits
        float number;
        switch (form) {
        case DEV_WAV_PCM8:
            out[i] = (at[0] - 128) / 128.0;
            continue;
        case DEV_WAV_PCM16:
            high = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
            break;
        case DEV_WAV_PCM24:
            high = (uint32_t)at[0] << 8 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 24;
            break;
        default:
            high = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                   (uint32_t)at[3] << 24;
            break;
        }
        memcpy(&number, &high, sizeof(number));
        out[i] = form == DEV_WAV_FLOAT32 ? (double)number : (double)(int32_t)high / 2147483648.0;
    }
}

// --- writing

enum base_status dev_wav_header(const struct dev_wav *wav, uint8_t *out)
{
    size_t frame_bytes = wav->channels * dev_wav_sample_bytes(wav->form);
    uint64_t bytes = (uint64_t)wav->frames * frame_bytes;
    uint64_t each_second = (uint64_t)wav->rate * frame_bytes;
    if (wav->frames > UINT32_MAX || bytes > UINT32_MAX - DEV_WAV_HEADER_BYTES - 1) {
        return BASE_ERR_TOO_LARGE;
    }
    struct base_writer writer;
    base_writer_init(&writer, out, DEV_WAV_HEADER_BYTES);
    base_writer_bytes(&writer, "RIFF", 4);
    base_writer_u32(&writer, (uint32_t)(DEV_WAV_HEADER_BYTES - 8 + bytes + bytes % 2));
    base_writer_bytes(&writer, "WAVEfmt ", 8);
    base_writer_u32(&writer, FORMAT_BYTES);
    base_writer_u16(&writer, forms[wav->form].tag);
    base_writer_u16(&writer, (uint16_t)wav->channels);
    base_writer_u32(&writer, wav->rate);
    base_writer_u32(&writer, (uint32_t)(each_second < UINT32_MAX ? each_second : UINT32_MAX));
    base_writer_u16(&writer, (uint16_t)frame_bytes);
    base_writer_u16(&writer, forms[wav->form].bits);
    base_writer_bytes(&writer, "data", 4);
    base_writer_u32(&writer, (uint32_t)bytes);
    return writer.status;
}

static void number_write(uint8_t *to, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(number >> 8 * i);
    }
}

size_t dev_wav_bytes(enum dev_wav_form form, const double *from, size_t count, uint8_t *out)
{
    size_t bytes = dev_wav_sample_bytes(form);
    double largest = ldexp(1, forms[form].bits - 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = out + i * bytes;
        if (form == DEV_WAV_FLOAT32) {
            float number = (float)from[i];
            uint32_t bits;
            memcpy(&bits, &number, sizeof(bits));
            number_write(to, bits, bytes);
            continue;
        }
        if (isnan(from[i])) {
            return i;
        }
        double whole = fmin(fmax(rint(from[i] * largest), -largest), largest - 1);
        number_write(to, (uint32_t)(int32_t)whole + (form == DEV_WAV_PCM8 ? 128 : 0), bytes);
    }
    return count;
}
