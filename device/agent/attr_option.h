// The option --attr NAME=VALUE of the agent.
#ifndef ATTR_OPTION_H
#define ATTR_OPTION_H

#include "base/error.h"
#include "wire/attrs.h"

// Adds the attribute that `text` gives; names and values are borrowed from it. A whole number, true
// and false are such, but where the attribute is known to be a text. INVALID, TOO_LARGE, named in
// `error`.
BASE_NODISCARD enum base_status attr_option_add(const char *text, struct wire_attrs *attrs,
                                                struct base_error *error);

#endif
