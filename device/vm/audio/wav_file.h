// WAV files (RIFF, little-endian): what a file's bytes hold, and the bytes around samples. PCM of
// 8, 16, 24 and 32 bits and float32, also in the extensible form; any number of channels.
//
// Bytes come from outside: whatever they are, the answer is a description whose samples lie within
// them, or an error that says what is wrong and at which byte. No allocation, no state; any thread.
#ifndef DEV_WAV_FILE_H
#define DEV_WAV_FILE_H

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEV_WAV_HEADER_BYTES 44
#define DEV_WAV_CHANNELS_MAX 255 // of one file
#define DEV_WAV_CHUNKS_MAX   256 // passed on the way to the samples

enum dev_wav_form {
    DEV_WAV_PCM8,
    DEV_WAV_PCM16,
    DEV_WAV_PCM24,
    DEV_WAV_PCM32,
    DEV_WAV_FLOAT32,
    DEV_WAV_FORM_COUNT
};

struct dev_wav {
    enum dev_wav_form form;
    uint32_t channels; // at least 1
    uint32_t rate;     // frames a second, at least 1
    size_t frames;     // samples of each channel
    size_t data_at;    // where the first one lies in the file
};

size_t dev_wav_sample_bytes(enum dev_wav_form form);
const char *dev_wav_form_name(enum dev_wav_form form); // "pcm16"

// Describes a file. TRUNCATED: it ends before its samples do. INVALID: it is no WAV file.
// UNSUPPORTED: one with samples of another form. `out_error` says which and where; may be NULL.
BASE_NODISCARD enum base_status dev_wav_parse(const uint8_t *bytes, size_t size,
                                              struct dev_wav *out_wav,
                                              struct base_error *out_error);
// `count` samples that lie one behind the other, from -1 to 1 (float32: as they are).
void dev_wav_samples(enum dev_wav_form form, const uint8_t *from, size_t count, double *out);

// Writes the DEV_WAV_HEADER_BYTES in front of the samples of wav->frames frames. TOO_LARGE: a file
// tells of at most 4 GiB.
BASE_NODISCARD enum base_status dev_wav_header(const struct dev_wav *wav, uint8_t *out);
// Rounds to the nearest, ties to even; what is beyond the largest or the least number becomes that.
// The index of the first one that is not a number, which PCM has no sample for; else `count`.
size_t dev_wav_bytes(enum dev_wav_form form, const double *from, size_t count, uint8_t *out);

#endif
