// Files of the command: whole reads with a limit, folders. Writing: base/os/output_file.h.
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

// Reads a regular file of at most `max` bytes; the caller frees *out_bytes (a NUL stands behind
// them). NOT_FOUND; INVALID: a pipe (it is not waited for), a device, a folder; IO, TOO_LARGE,
// NOMEM; `error` names the file.
BASE_NODISCARD enum base_status cli_file_read(const char *path, size_t max, uint8_t **out_bytes,
                                              size_t *out_size, struct base_error *error);
// The same of one that somebody else may have put there: INVALID also for a link.
BASE_NODISCARD enum base_status cli_file_read_own(const char *path, size_t max, uint8_t **out_bytes,
                                                  size_t *out_size, struct base_error *error);
// Makes `name`, one checked part (base/os/path_part.h), in a folder; one that is there already must
// be no symbolic link, which would lead what is written there elsewhere. INVALID, IO.
BASE_NODISCARD enum base_status cli_folder_below(const char *folder, const char *name,
                                                 struct base_error *error);

#endif
