// The record of releases that kept it in an LMDB environment: read once, until the first save.
#ifndef POSIX_STATE_OLD_H
#define POSIX_STATE_OLD_H

#include "base/log.h"

#include <stddef.h>
#include <stdint.h>

struct posix_state_old {
    int device; // the folder of the device, and its path
    const char *dir;
    const struct base_log *log;
};

// NOT_FOUND: there is none; CORRUPT: it was damaged, and was set aside; TOO_LARGE, IO, NOMEM.
BASE_NODISCARD enum base_status posix_state_old_load(const struct posix_state_old *old,
                                                     uint8_t *out, size_t capacity,
                                                     size_t *out_size);
// The record has its new form.
void posix_state_old_remove(int device);

#endif
