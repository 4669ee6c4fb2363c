// What the scripts of a version import, against what there is on a device: the VM's own modules and
// the version's scripts; names that are taken from the former, against what is in them.
#ifndef TASK_IMPORTS_H
#define TASK_IMPORTS_H

#include "base/error.h"
#include "cli/task/task_source.h"

// INVALID: `error` has file, line and name, and what was probably meant or that task.json does not
// list it; which modules there are is said on standard error. What a script is ready not to find
// (in a try statement that catches an ImportError) is left to it, and so is everything where the
// version has exclusive files, which bring modules of their own. IO, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status task_imports_check(const struct task_source *source,
                                                   struct base_error *error);

#endif
