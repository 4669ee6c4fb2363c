// What an errno means, as a status; see errno_status.h. Called where the system is, by ports, the
// store and the programs, right behind the call that failed. One map, so that a full disk is FULL
// everywhere.
#include "base/os/errno_status.h"

#include <errno.h>

enum base_status base_status_of_errno(int error)
{
    switch (error) {
    case ENOENT:
        return BASE_ERR_NOT_FOUND;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return BASE_ERR_FULL;
    case ENOMEM:
        return BASE_ERR_NOMEM;
    default:
        return BASE_ERR_IO;
    }
}
