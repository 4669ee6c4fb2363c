// Writes everything to a file, however often the system takes only a part or is interrupted.
#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include "base/status.h"

#include <stddef.h>

// What base_status_of_errno says, errno kept for who knows more: FULL, NOMEM, IO ... A write that
// takes nothing and gives no reason counts as ENOSPC. What was written before stays.
BASE_NODISCARD enum base_status base_write_all(int fd, const void *bytes, size_t size);

#endif
