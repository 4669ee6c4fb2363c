// Any bytes as a WAV file: an error that says what is wrong, or samples that lie within them. What
// was read is written again and read as the same.
#include "fuzz_target.h"

#include "base/check.h"
#include "vm/audio/wav_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX ((size_t)1 << 16) // written again of one file

static void write_and_read(const struct dev_wav *wav, const double *samples, size_t count)
{
    size_t bytes = count * dev_wav_sample_bytes(wav->form);
    struct dev_wav short_wav = *wav;
    struct dev_wav again;
    short_wav.frames = count / wav->channels;
    uint8_t *file = malloc(DEV_WAV_HEADER_BYTES + bytes);
    double *read = malloc((count + 1) * sizeof(double));
    base_check(file != NULL);
    base_check(read != NULL);
    base_check(dev_wav_header(&short_wav, file) == BASE_OK);
    base_check(dev_wav_bytes(wav->form, samples, count, file + DEV_WAV_HEADER_BYTES) == count);
    base_check(dev_wav_parse(file, DEV_WAV_HEADER_BYTES + bytes, &again, NULL) == BASE_OK);
    base_check(again.form == wav->form);
    base_check(again.channels == wav->channels);
    base_check(again.rate == wav->rate);
    base_check(again.frames == short_wav.frames);
    dev_wav_samples(again.form, file + again.data_at, count, read);
    for (size_t i = 0; i < count; i++) {
        base_check(read[i] == samples[i] || (isnan(read[i]) && isnan(samples[i])));
    }
    free(read);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dev_wav wav;
    struct base_error error = {.status = BASE_OK};
    uint8_t *bytes = malloc(size > 0 ? size : 1); // so that a read past the end is seen
    base_check(bytes != NULL);
    memcpy(bytes, data, size);
    enum base_status status = dev_wav_parse(bytes, size, &wav, &error);
    if (status != BASE_OK) {
        base_check(error.status == status);
        base_check(error.text[0] != '\0');
        free(bytes);
        return 0;
    }
    base_check(wav.channels >= 1);
    base_check(wav.rate >= 1);
    size_t count = wav.frames * wav.channels;
    base_check(wav.data_at + count * dev_wav_sample_bytes(wav.form) <= size);
    count = count < SAMPLES_MAX ? count : SAMPLES_MAX / wav.channels * wav.channels;
    double *samples = malloc((count + 1) * sizeof(double));
    base_check(samples != NULL);
    dev_wav_samples(wav.form, bytes + wav.data_at, count, samples);
    write_and_read(&wav, samples, count);
    free(samples);
    free(bytes);
    return 0;
}
