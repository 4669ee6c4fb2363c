// What the system's numbers for errors mean in ours.
#ifndef BASE_ERRNO_STATUS_H
#define BASE_ERRNO_STATUS_H

#include "base/status.h"

// NOT_FOUND, FULL (no room, a quota, a file that would be too large), NOMEM, else IO. `error` is
// not 0.
enum base_status base_status_of_errno(int error);

#endif
