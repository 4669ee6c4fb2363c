// Files and folders that are one user's alone: token files, keys, and where programs of one user
// leave word for each other.
//
// A secret that others may read is no secret, so such a file is refused with the command that mends
// it, not read with a warning. `own` asks for more, of files that a program finds by itself rather
// than by an operator's word: no symbolic link, and this process's user owns it.
#ifndef BASE_PRIVATE_FILE_H
#define BASE_PRIVATE_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Where a user's programs keep state: $XDG_STATE_HOME, else ~/.local/state.
#define BASE_STATE_FOLDER_MAX 4096 // characters of its path

// Opens a regular file for reading that only its owner may read or write; the caller closes
// *out_fd. NOT_FOUND, INVALID (what is wrong with it, and how to mend it), IO.
BASE_NODISCARD enum base_status base_private_open(const char *path, bool own, int *out_fd,
                                                  struct base_error *error);
// The same of an open file: `path` is for the text. INVALID, IO.
BASE_NODISCARD enum base_status base_private_check(int fd, const char *path, bool own,
                                                   struct base_error *error);
// Its first line, without the end, as text in `out`. NOT_FOUND; INVALID also for a line that is
// empty or as long as `capacity`; IO.
BASE_NODISCARD enum base_status base_private_line(const char *path, bool own, char *out,
                                                  size_t capacity, struct base_error *error);

// Opens the folder walle/NAME below the user's state folder; the caller closes *out_fd. `make`: it
// is made when absent, mode 0700. Its path is in `out_path`, which may be NULL. NOT_FOUND; INVALID:
// the folder is a link, of another user, or others may write there; IO.
BASE_NODISCARD enum base_status base_private_folder(const char *name, bool make, int *out_fd,
                                                    char out_path[BASE_STATE_FOLDER_MAX],
                                                    struct base_error *error);

#endif
