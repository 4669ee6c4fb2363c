// Small files with secrets (TLS ticket key, private key): written with mode 0600 and whole or not
// at all.
#ifndef GW_SECRET_FILE_H
#define GW_SECRET_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// Writes through a temporary name and renames. IO with the path and the system's reason.
BASE_NODISCARD enum base_status gw_secret_file_write(const char *path, const void *bytes,
                                                     size_t size, struct base_error *error);
// The same, but nothing that is there under the name is replaced: IO.
BASE_NODISCARD enum base_status gw_secret_file_make(const char *path, const void *bytes,
                                                    size_t size, struct base_error *error);
// Exactly `size` bytes; INVALID when the file is shorter or longer, or others may read it.
BASE_NODISCARD enum base_status gw_secret_file_read(const char *path, void *out, size_t size,
                                                    struct base_error *error);

#define GW_SECRET_BITS_MIN 128u // of a token somebody made

// The first line of a token file, without its end, in `out`; `own` as in base/os/private_file.h.
// INVALID with what is wrong and how to mend it: others may read the file, it is no regular file,
// the line is empty, too long, or guessable (fewer than GW_SECRET_BITS_MIN bits: 32 hex digits, or
// 22 other characters, at least 8 of them different). NOT_FOUND, IO.
BASE_NODISCARD enum base_status gw_secret_line_read(const char *path, bool own, char *out,
                                                    size_t capacity, struct base_error *error);

#endif
