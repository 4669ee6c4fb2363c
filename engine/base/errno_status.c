// The map from errno to status. Called where a system call on a file failed; any thread, no state.
#include "base/errno_status.h"

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
