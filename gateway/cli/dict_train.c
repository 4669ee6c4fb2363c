// See dict_train.h: the command's one door to zstd. Called by cli_tunnel_train.c; one thread.
// Training uses ZDICT, which gives the same bytes for the same samples; what a dictionary is worth
// is measured on samples it has not seen, each compressed alone and decompressed again, as a frame
// of the tunnel would be.
#include "cli/dict_train.h"

#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>

enum base_status dict_train(const struct dict_samples *samples, uint8_t *out, size_t capacity,
                            size_t *out_size, struct base_error *error)
{
    if (samples->count < DICT_TRAIN_SAMPLES_MIN) {
        return base_error_set(error, BASE_ERR_INVALID, "%u samples; at least %d", samples->count,
                              DICT_TRAIN_SAMPLES_MIN);
    }
    size_t size =
        ZDICT_trainFromBuffer(out, capacity, samples->bytes, samples->sizes, samples->count);
    if (ZDICT_isError(size)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "no dictionary can be made of these samples: %s",
                              ZDICT_getErrorName(size));
    }
    *out_size = size;
    return BASE_OK;
}

struct bench {
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
    ZSTD_CDict *encoder_dict;
    ZSTD_DDict *decoder_dict;
    uint8_t *packed;
    uint8_t *back;
    size_t capacity;
};

static void bench_done(struct bench *bench)
{
    ZSTD_freeCCtx(bench->encoder);
    ZSTD_freeDCtx(bench->decoder);
    ZSTD_freeCDict(bench->encoder_dict);
    ZSTD_freeDDict(bench->decoder_dict);
    free(bench->packed);
    free(bench->back);
}

static bool bench_init(struct bench *bench, const struct dict_samples *samples, const uint8_t *dict,
                       size_t dict_size)
{
    size_t largest = 1;
    for (uint32_t i = 0; i < samples->count; i++) {
        largest = samples->sizes[i] > largest ? samples->sizes[i] : largest;
    }
    *bench = (struct bench){.encoder = ZSTD_createCCtx(),
                            .decoder = ZSTD_createDCtx(),
                            .encoder_dict = ZSTD_createCDict(dict, dict_size, DICT_TRAIN_LEVEL),
                            .decoder_dict = ZSTD_createDDict(dict, dict_size),
                            .capacity = ZSTD_compressBound(largest)};
    bench->packed = malloc(bench->capacity);
    bench->back = malloc(bench->capacity);
    return bench->encoder != NULL && bench->decoder != NULL && bench->encoder_dict != NULL &&
           bench->decoder_dict != NULL && bench->packed != NULL && bench->back != NULL;
}

static enum base_status measure_one(struct bench *bench, const uint8_t *sample, size_t size,
                                    struct dict_gain *gain)
{
    size_t plain = ZSTD_compressCCtx(bench->encoder, bench->packed, bench->capacity, sample, size,
                                     DICT_TRAIN_LEVEL);
    size_t with = ZSTD_compress_usingCDict(bench->encoder, bench->packed, bench->capacity, sample,
                                           size, bench->encoder_dict);
    if (ZSTD_isError(plain) || ZSTD_isError(with)) {
        return BASE_ERR_CORRUPT;
    }
    size_t back = ZSTD_decompress_usingDDict(bench->decoder, bench->back, bench->capacity,
                                             bench->packed, with, bench->decoder_dict);
    if (back != size || memcmp(bench->back, sample, size) != 0) {
        return BASE_ERR_CORRUPT;
    }
    gain->raw += size;
    gain->plain += plain;
    gain->dict += with;
    return BASE_OK;
}

enum base_status dict_measure(const struct dict_samples *samples, uint32_t from,
                              const uint8_t *dict, size_t dict_size, struct dict_gain *out)
{
    struct bench bench;
    struct dict_gain gain = {0};
    enum base_status status =
        bench_init(&bench, samples, dict, dict_size) ? BASE_OK : BASE_ERR_NOMEM;
    const uint8_t *at = samples->bytes;
    for (uint32_t i = 0; status == BASE_OK && i < samples->count; i++) {
        if (i >= from) {
            status = measure_one(&bench, at, samples->sizes[i], &gain);
        }
        at += samples->sizes[i];
    }
    bench_done(&bench);
    if (status == BASE_OK) {
        *out = gain;
    }
    return status;
}
