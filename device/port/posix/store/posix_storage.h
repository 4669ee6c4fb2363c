// Storage of the runtime in a folder: the state record and content.
#ifndef POSIX_STORAGE_H
#define POSIX_STORAGE_H

#include "base/error.h"
#include "base/log.h"
#include "device/port.h"

// Bytes of the disk that content leaves free, for the state and for others.
#define POSIX_SPACE_MIN_FREE ((uint64_t)16 << 20)

struct posix_storage;
BASE_NODISCARD enum base_status posix_storage_new(const char *dir, const struct base_log *log,
                                                  struct posix_storage **out_storage,
                                                  struct base_error *error);
void posix_storage_free(struct posix_storage *storage);
struct dev_storage_port posix_storage_table(struct posix_storage *storage);

#endif
