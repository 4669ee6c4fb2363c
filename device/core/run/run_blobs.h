// What the app hands to runs by name (device/blobs.h): whose a set is, and until when. A set goes
// to a run when it starts and back to the app when the run ended, or on to the shadow that is
// compared with the run. One set is kept for a shadow at a time.
#ifndef DEV_RUN_BLOBS_H
#define DEV_RUN_BLOBS_H

#include "core/run/run_parts.h"

// For a run of `task` that starts at `run`. NULL: nothing.
const struct dev_blob_set *dev_run_blobs_take(struct dev_runtime *runtime, struct dev_run *run,
                                              const struct dev_task *task);
// The run is over, or did not start.
void dev_run_blobs_drop(struct dev_runtime *runtime, struct dev_run *run);
// The shadow is to run on what the run had. False: there is no place for it, and so no comparison.
BASE_NODISCARD bool dev_run_blobs_keep(struct dev_runtime *runtime, struct dev_run *run,
                                       const struct dev_task *shadow);
// The shadow ran, or is gone; NULL: whosever it is.
void dev_run_blobs_forget(struct dev_runtime *runtime, const struct dev_task *shadow);

#endif
