// Files that are read whole before a run: what a build folder holds, populations, scenarios.
#ifndef SIM_LOCAL_FILE_H
#define SIM_LOCAL_FILE_H

#include "base/buffer.h"
#include "base/error.h"

// A file whole; the buffer is the caller's to end. IO, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status sim_local_read(const char *path, size_t limit,
                                               struct base_buffer *out, struct base_error *error);

#endif
