// Writes everything to a file, however often the system takes only a part or is interrupted.
#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include "base/status.h"

#include <stddef.h>

// What base_status_of_errno says, errno kept for who knows more: FULL, NOMEM, IO ... A write that
// takes nothing and gives no reason counts as ENOSPC. What was written before stays.
BASE_NODISCARD enum base_status base_write_all(int fd, const void *bytes, size_t size);
// Why a write at the end of the file came back short, which tells no reason: what the system says
// to one page more there. FULL, NOMEM, IO ... OK: it took the page, so it was not for want of room.
// For files whose end means nothing to their readers (LMDB's: a page counts when a root leads to
// it).
BASE_NODISCARD enum base_status base_write_end_look(int fd);

#endif
