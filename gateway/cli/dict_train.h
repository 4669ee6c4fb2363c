// Training of the tunnel's dictionaries (wire/tunnel_dict.h), and what one is worth.
#ifndef DICT_TRAIN_H
#define DICT_TRAIN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define DICT_TRAIN_BYTES       (32 * 1024) // of a dictionary, unless asked otherwise
#define DICT_TRAIN_SAMPLES_MIN 64
#define DICT_TRAIN_SAMPLES_MAX 50000
#define DICT_TRAIN_TOTAL_MAX   ((size_t)64 * 1024 * 1024) // of all samples
#define DICT_TRAIN_LEVEL       3                          // what gains are measured at

// One sample behind the other in `bytes`.
struct dict_samples {
    uint8_t *bytes;
    size_t *sizes;
    uint32_t count;
    size_t total;
};

// The same samples always make the same dictionary. INVALID: too few or too much alike; NOMEM.
BASE_NODISCARD enum base_status dict_train(const struct dict_samples *samples, uint8_t *out,
                                           size_t capacity, size_t *out_size,
                                           struct base_error *error);

struct dict_gain {
    size_t raw;   // bytes of the samples
    size_t plain; // each compressed alone, without a dictionary
    size_t dict;  // and with it
};
// Compresses each of samples from .. count-1 alone and decompresses it again. NOMEM; CORRUPT: it
// did not come back.
BASE_NODISCARD enum base_status dict_measure(const struct dict_samples *samples, uint32_t from,
                                             const uint8_t *dict, size_t dict_size,
                                             struct dict_gain *out);

#endif
