// Bytes that an app hands to its tasks by name, as frames of a camera or sound of a microphone:
// what a script gets from walle.blob("camera") (docs/VM.md).
//
// The app keeps what it has to hand out and is asked when a run starts (hold). It gives a set: the
// names and bytes as they are then. The set is the run's until the runtime gives it back (release),
// and nothing of it may change before: an app with a newer frame makes another set. Each run gets a
// set of its own; a shadow gets the one of the run it is compared with. Scripts get copies, in
// their own memory.
//
// Both calls come on the runtime's thread, from inside a tick or another call of the runtime, which
// they must not call themselves.
#ifndef DEVICE_BLOBS_H
#define DEVICE_BLOBS_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

BASE_C_BEGIN

#define DEV_BLOBS_MAX       16                 // of a set; those beyond are not handed out
#define DEV_BLOB_NAME_MAX   32                 // [a-z][a-z0-9_.-]*
#define DEV_BLOBS_BYTES_MAX ((size_t)64 << 20) // of a set, as much as the largest heap

// The one of this name is JSON: scripts have it as walle.input, too, unless it is larger.
#define DEV_BLOB_INPUT     "input"
#define DEV_BLOB_INPUT_MAX (64 * 1024)

struct dev_blob {
    struct base_str name;
    const uint8_t *bytes;
    size_t size;
};

struct dev_blob_set {
    const struct dev_blob *blobs; // no name twice
    uint32_t count;
};

struct dev_blob_port {
    void *ctx;
    // What there is for a run of `task` that starts now. NULL: nothing. May be NULL: never
    // anything.
    const struct dev_blob_set *(*hold)(void *ctx, struct base_str task);
    // Once for each set that hold gave, also after the runtime was stopped in the middle of a run.
    void (*release)(void *ctx, const struct dev_blob_set *set);
};

BASE_C_END

#endif
