// The folder that reports go to (--out).
#ifndef SIM_REPORT_FOLDER_H
#define SIM_REPORT_FOLDER_H

#include "base/error.h"

// Makes it and those above it, where they are not there. IO: it cannot be made or written to, it is
// no folder, or its name is too long.
BASE_NODISCARD enum base_status sim_report_folder_make(const char *path, struct base_error *error);

#endif
