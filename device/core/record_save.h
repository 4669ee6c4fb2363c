// When the stored record is read and stored.
#ifndef DEV_RECORD_SAVE_H
#define DEV_RECORD_SAVE_H

#include "core/base/runtime.h"

#define DEV_SAVE_RETRY_BASE_MS 200
#define DEV_SAVE_RETRY_CAP_MS  60000

// Of record_save.c alone.
struct dev_saving {
    uint64_t not_before_us;
    struct dev_backoff backoff;
    bool failed; // the last time
};

// At boot: reads the record, or the one before it. Codes: the storage port's.
BASE_NODISCARD enum base_status dev_record_restore(struct dev_runtime *runtime);
// Stores it when something changed.
extern const struct dev_part dev_record_part;

#endif
