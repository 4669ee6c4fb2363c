// What tasks keep by walle.store, in collective storage: one row for each task that keeps
// something, its whole image (wire/store/store_image.h). A save replaces it, in the group under
// way, so it reaches the disk with what belongs to it, or not at all.
//
// A row lives as long as its task is on the device, whatever its versions are; _keep drops those of
// tasks that are gone. A task that keeps nothing has no row. The pipeline's thread; the caller's
// memory.
#ifndef DEV_TASK_STORE_H
#define DEV_TASK_STORE_H

#include "pipeline/storage/collect.h"
#include "wire/declaration.h"
#include "wire/digest.h"

#define DEV_TASK_STORES_MAX 128 // rows of tasks that are gone, dropped at once

// Whose store, for a run of one version.
struct dev_task_store_of {
    uint64_t task_id;
    bool per_version; // WIRE_STORE_A_VERSION
    uint64_t version; // wire_version_id; not looked at unless per_version
};

// Of a version with this declaration (bytes; empty: none).
struct dev_task_store_of dev_task_store_of(struct base_str task, struct base_str declaration,
                                           const struct wire_sha256 *version);
// The image, at most WIRE_STORE_IMAGE_MAX bytes: an empty one where nothing is kept, where what is
// kept is another version's and not shared, or damaged. What waits in a group is seen. The port's
// errors.
BASE_NODISCARD enum base_status dev_task_store_load(struct dev_collect *collect,
                                                    const struct dev_task_store_of *of,
                                                    uint8_t out[WIRE_STORE_IMAGE_MAX],
                                                    size_t *out_size);
// Replaces the task's row; an image without keys takes it away. Borrowed until the group ends. The
// errors of dev_collect_put.
BASE_NODISCARD enum base_status dev_task_store_save(struct dev_collect *collect, uint64_t now_us,
                                                    uint64_t task_id,
                                                    const struct wire_store *store);
// Drops the rows of all other tasks; *out_left is how many rows there still are. Commits what
// waits. CONFLICT between begin and end, the port's errors.
BASE_NODISCARD enum base_status dev_task_store_keep(struct dev_collect *collect, uint64_t now_us,
                                                    const uint64_t *task_ids, uint32_t count,
                                                    uint32_t *out_left);

#endif
