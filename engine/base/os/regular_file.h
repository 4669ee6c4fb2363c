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
#include <stdint.h>
#include <stdio.h>

#define BASE_FILE_MODE     0600               // of one that O_CREAT makes: its owner's alone
#define BASE_PEM_BYTES_MAX (4u * 1024 * 1024) // of a file of certificates or keys that is read

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
// The same for a library that reads all of it, links followed: it holds something, and at most
// `max` bytes. What the kernel makes up under /proc says that it is empty, and may never end.
// NOT_FOUND, INVALID, TOO_LARGE, IO.
BASE_NODISCARD enum base_status base_regular_holds(const char *path, uint64_t max,
                                                   struct base_error *error);
// May `name` in an open folder be opened, or made, as a folder? INVALID: something else is there, a
// link to one included, and `error` says what; IO.
BASE_NODISCARD enum base_status base_folder_look(int folder, const char *name,
                                                 struct base_error *error);

#endif
