// model.conf of a model's folder: how it is served. Every line may be missing, and so may the file.
//
//     # a comment, at the start of a line or behind a blank
//     max_batch = 32          rows that one run may take; 1: calls are never put together
//     batch_delay_us = 500    how long a batch that is not full waits for more
//     instances = 2           batches that may run at once; 0: one for each thread of the service
//     queue = 256             calls that may wait; one more is refused with 429
//     versions = latest       which are served: latest, all, or numbers with commas
//     warm_rows = 1, 32       batches that are planned when the model is loaded
//     aliases = best, resnet  other names for it
//     cache_bytes = 0         of answers kept for those who ask the same; 0: none are
//
// max_batch above 1 says that the rows of the first dimension of every input and output have
// nothing to do with one another; the service cannot know that.
#ifndef GW_INFER_SETTINGS_H
#define GW_INFER_SETTINGS_H

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_INFER_MODEL_NAME_MAX  128u
#define GW_INFER_ALIASES_MAX     8u
#define GW_INFER_VERSIONS_MAX    8u // of a model, served at once
#define GW_INFER_WARM_MAX        8u
#define GW_INFER_QUEUE_MAX       4096u
#define GW_INFER_BATCH_DELAY_MAX 1000000u // microseconds
#define GW_INFER_SETTINGS_BYTES  16384u   // of the file
#define GW_INFER_QUEUE_USUAL     256u
#define GW_INFER_CACHE_BYTES_MAX (1u << 30) // of a version

struct gw_infer_settings {
    uint32_t max_batch;
    uint32_t batch_delay_us;
    uint32_t instances;
    uint32_t queue;
    uint32_t cache_bytes;
    bool all_versions;
    uint64_t versions[GW_INFER_VERSIONS_MAX]; // none, and not all: the latest
    uint32_t version_count;
    uint32_t warm_rows[GW_INFER_WARM_MAX];
    uint32_t warm_count;
    char aliases[GW_INFER_ALIASES_MAX][GW_INFER_MODEL_NAME_MAX + 1];
    uint32_t alias_count;
};

// A name of a model: 1 to GW_INFER_MODEL_NAME_MAX of A-Z a-z 0-9 . _ -, and no dot in front, so
// that it is one entry of the repository and of a path.
bool gw_infer_name_ok(struct base_str name);
// Its path shows what is counted of all models, so no version of it can be pushed.
#define GW_INFER_NAME_RESERVED "stats"
// A version: a number from 1 without zeros in front, which JSON can say.
#define GW_INFER_VERSION_MAX    INT64_MAX
#define GW_INFER_VERSION_WANTED "a version is a number from 1 to 9223372036854775807"
bool gw_infer_version_number(struct base_str text, uint64_t *out);

void gw_infer_settings_defaults(struct gw_infer_settings *settings);
// Over what `settings` holds. INVALID with the line and what is wrong there.
BASE_NODISCARD enum base_status gw_infer_settings_parse(struct gw_infer_settings *settings,
                                                        struct base_str text,
                                                        struct base_error *error);

#endif
