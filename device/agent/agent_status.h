// walle-device --status DIR: what a device's folder says of it, while its agent runs or not. Looks
// only: nothing in the folder is locked, changed or made.
#ifndef AGENT_STATUS_H
#define AGENT_STATUS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

// Writes it to `file`, as text or as one JSON object. NOT_FOUND: no device has lived in this
// folder; CORRUPT: its record is damaged; UNSUPPORTED: it is of an earlier release; NOMEM, IO; what
// and where in `error`.
BASE_NODISCARD enum base_status agent_status_print(const char *dir, bool json, FILE *file,
                                                   struct base_error *error);

#endif
