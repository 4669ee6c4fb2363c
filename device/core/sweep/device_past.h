// What is remembered of tasks that were stopped: so their places are free for others, and nothing
// that a device has to know of them is lost. In the runtime's memory, as many as it may hold tasks.
#ifndef DEV_DEVICE_PAST_H
#define DEV_DEVICE_PAST_H

#include "base/cursor.h"
#include "core/base/runtime.h"

struct dev_past {
    uint64_t task_id;
    uint64_t floor;
    struct dev_approval newest;
    struct wire_sha256 newest_manifest;
};

// Of the two files of this folder alone.
struct dev_sweep {
    struct dev_past *past; // as many as the device may hold tasks
    uint32_t past_count;
    bool past_due;    // a task may be over
    bool collect_due; // try to collect content now
};

// Tasks that were stopped, and whose content is collected, give their places back.
extern const struct dev_part dev_past_part;
// What is remembered of a task. False: nothing, and *out is as it was.
bool dev_past_recall(const struct dev_runtime *runtime, uint64_t task_id, struct dev_past *out);
void dev_past_forget(struct dev_runtime *runtime, uint64_t task_id);
bool dev_past_valid(const struct dev_runtime *runtime);
// In the stored record. As many as the device may hold tasks; of a record with more nothing is
// taken.
#define DEV_PAST_BYTES_MAX (8 + 10 + 10 + 8 + WIRE_SHA256_BYTES) // of one
uint32_t dev_past_count(const struct dev_runtime *runtime);
void dev_past_write(const struct dev_runtime *runtime, struct base_writer *writer);
void dev_past_clear(struct dev_runtime *runtime);
void dev_past_read(struct dev_runtime *runtime, struct base_reader *reader);

#endif
