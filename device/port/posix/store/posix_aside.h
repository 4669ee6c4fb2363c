// What stands in the place of a folder or of content and is something else: it is taken out of the
// way, never followed, entered or waited for. One thread.
#ifndef POSIX_ASIDE_H
#define POSIX_ASIDE_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>

#define POSIX_ASIDE_MAX 8 // things of one name that are kept beside it

// Takes `name` out of an open folder, which logs call `where`: a folder that is not empty, and a
// link or file in the place of a folder, stay beside it as NAME.aside (.aside2, ...); what holds
// nothing of its own goes. IO: there are POSIX_ASIDE_MAX already, or the system says no.
BASE_NODISCARD enum base_status posix_set_aside(int folder, const char *name, const char *where,
                                                const struct base_log *log);
// Opens the folder `name` in `folder`, made when absent; a link, or what is no folder, is set aside
// first. The caller closes *out_fd. FULL, IO.
BASE_NODISCARD enum base_status posix_folder_open(int folder, const char *name, const char *where,
                                                  const struct base_log *log, int *out_fd);

#endif
