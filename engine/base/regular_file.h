// Opening a file that a program was named, or expects in a folder of its own: a regular one, or an
// error that says what stands in its place.
//
// A named pipe under the name of a file would hold the program up in open(), for ever and deaf to
// signals, and a device node does what its driver likes; so nothing here waits, and nothing but a
// regular file is handed on.
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

#define BASE_FILE_MODE 0600 // of one that O_CREAT makes: its owner's alone

// Opens `path` with `flags` (O_RDONLY, O_RDWR | O_CREAT, ...; close-on-exec is added); the caller
// closes *out_fd. With O_NOFOLLOW a symbolic link is refused. NOT_FOUND; INVALID: it is no regular
// file, and `error` says what it is; FULL, NOMEM, IO.
BASE_NODISCARD enum base_status base_regular_open(const char *path, int flags, int *out_fd,
                                                  struct base_error *error);
// The same of `name` in an open folder (AT_FDCWD: where the process is), which errors call `name`.
BASE_NODISCARD enum base_status base_regular_openat(int folder, const char *name, int flags,
                                                    int *out_fd, struct base_error *error);
// The same of `path` for reading, as a stream that the caller closes: what an argument names.
BASE_NODISCARD enum base_status base_regular_stream(const char *path, FILE **out_file,
                                                    struct base_error *error);
// The same of an open file: `path` is for the text. INVALID, IO.
BASE_NODISCARD enum base_status base_regular_check(int fd, const char *path,
                                                   struct base_error *error);
// The refusal of what is no regular file: INVALID, and what `mode` (of struct stat) says it is.
BASE_NODISCARD enum base_status base_regular_refuse(unsigned mode, const char *path,
                                                    struct base_error *error);
// For a library that opens `path` by itself: would base_regular_open hand it on? `follow`: also
// when it is a link to a regular file. NOT_FOUND, INVALID, IO.
BASE_NODISCARD enum base_status base_regular_look(const char *path, bool follow,
                                                  struct base_error *error);

#endif
