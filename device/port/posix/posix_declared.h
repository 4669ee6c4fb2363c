// What the active versions of a device bring for its data pipeline and its tunnel: their
// declarations, and the dictionaries their uploads are compressed with. Read from the manifests
// when the set of active versions changes (dev_active_mark). Used by the posix port and by the
// fleet simulator, each on its runtime's thread.
#ifndef POSIX_DECLARED_H
#define POSIX_DECLARED_H

#include "device/device.h"
#include "device/port.h"
#include "pipeline/pipeline.h"
#include "tunnel/tunnel.h"
#include "wire/manifest.h"

// A dictionary of an active version. `bytes` are borrowed during the call.
typedef void (*posix_dictionary_fn)(void *ctx, struct base_str task, const struct wire_sha256 *name,
                                    const uint8_t *bytes, size_t size);

struct posix_declared {
    struct dev_pipeline_task tasks[DEV_TASKS_MAX]; // strings lie in the open manifests
    uint32_t count;
    // Open manifests, by task.
    const uint8_t *bytes[DEV_TASKS_MAX];
    size_t sizes[DEV_TASKS_MAX];
    uint32_t indexes[DEV_TASKS_MAX];
    struct wire_manifest manifest; // scratch
};

// Opens the manifests; what cannot be read is left out. `dictionary` is told of each dictionary, in
// the order of the tasks. Whatever was there before is forgotten.
void posix_declared_open(struct posix_declared *declared, struct dev_runtime *runtime,
                         posix_dictionary_fn dictionary, void *ctx);
// Tells the pipeline which tasks there are, so that it drops what others kept.
void posix_declared_keep(struct dev_runtime *runtime, struct dev_pipeline *pipeline,
                         uint64_t now_us);
void posix_declared_close(struct posix_declared *declared, struct dev_runtime *runtime);

#endif
