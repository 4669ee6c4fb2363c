// The file of an export: records behind each other, and beside it (FILE.next) the place in the
// gateway's log where the next export goes on, and how long the file is there. Both are one: what
// stands behind that length was written by an export that was interrupted, and goes before anything
// is added, so that each record is in the file once, whole, whatever ended the export before.
//
//   FILE.next := place, " ", bytes, "\n"     (bytes: not in those of older versions)
#ifndef EXPORT_FILE_H
#define EXPORT_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT_PLACE_MAX 64   // bytes of a place, with its NUL
#define EXPORT_PATH_MAX  4096 // ... of a path

struct export_file {
    FILE *to; // written by the caller; NULL: not open
    const char *path;
    char side[EXPORT_PATH_MAX];
    char place[EXPORT_PLACE_MAX]; // where to go on; "": at the beginning
    uint64_t length;              // what of it was kept
    bool fresh;                   // there is nothing in it yet
};

// Opens or makes the file, for this process alone, and cuts off what an interrupted export left. A
// file that is gone or empty begins anew at its place: somebody took it away to use it. `path` is
// borrowed until close. BUSY: another export writes to it; INVALID: it is no regular file, or
// shorter than the last export left it, or no export's; TOO_LARGE: the path; FULL, IO, NOMEM.
BASE_NODISCARD enum base_status export_file_open(struct export_file *file, const char *path,
                                                 struct base_error *error);
// What was written is durable, and the next export goes on at file->place. CONFLICT: somebody took
// the file away meanwhile, and what was written since it was last kept is gone from it; FULL, IO.
BASE_NODISCARD enum base_status export_file_keep(struct export_file *file,
                                                 struct base_error *error);
// What was written since it was last kept is not part of the file.
void export_file_close(struct export_file *file);

#endif
