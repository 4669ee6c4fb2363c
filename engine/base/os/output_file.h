// Writing a file that an operator named: whole or not at all, and never over what is no file.
//
// What stands under the name decides. A regular file, or nothing: the bytes go to a new file beside
// it that takes its name when all of them are written, so that nobody sees half of it and a failure
// leaves what was there. A terminal, a device for characters (/dev/null), a pipe somebody reads:
// they are written to, for that is what their name asks for; so is what a name below /dev leads to
// (/dev/stdout, /dev/fd/N), which is the system's to say. A folder, a socket, a disk, a pipe nobody
// reads and any other symbolic link are refused: a link may be somebody else's, and replacing or
// following it does what its maker wants.
#ifndef BASE_OUTPUT_FILE_H
#define BASE_OUTPUT_FILE_H

#include "base/error.h"

#include <stddef.h>
#include <stdio.h>

#define BASE_OUTPUT_PATH_MAX 4096 // characters of a path

struct base_output_file {
    FILE *file;                        // written by the caller between open and close
    const char *path;                  // borrowed until close
    char beside[BASE_OUTPUT_PATH_MAX]; // empty: nothing is replaced
};

// INVALID: what stands there is not written to, and `error` says what it is; TOO_LARGE: the path;
// NOT_FOUND: there is no such folder; FULL, IO, NOMEM. After an error there is nothing to close.
BASE_NODISCARD enum base_status base_output_open(struct base_output_file *out, const char *path,
                                                 struct base_error *error);
// Closes. `written`, how the caller's writing went, is returned when it is not OK; then, and when
// the file could not be written whole (IO, FULL), what was there before stays.
BASE_NODISCARD enum base_status
base_output_close(struct base_output_file *out, enum base_status written, struct base_error *error);
// All of it, with these bytes.
BASE_NODISCARD enum base_status base_output_write(const char *path, const void *bytes, size_t size,
                                                  struct base_error *error);
// Removes what writers of this path that were killed left beside it. For who knows that nobody
// else writes it now.
void base_output_sweep(const char *path);

#endif
