// A folder that an operator named, to write into.
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/error.h"

// Makes it and those above it, where they are not there; a link to a folder is one. IO, and `error`
// names what and why: it cannot be made or written to, it is no folder, or its name is empty or too
// long.
BASE_NODISCARD enum base_status base_folder_make(const char *path, struct base_error *error);

#endif
