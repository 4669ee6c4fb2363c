// What a result says, whatever the order of its keys.
#ifndef DEV_RESULT_DIGEST_H
#define DEV_RESULT_DIGEST_H

#include "base/str.h"

#include <stdint.h>

// Equal for results that say the same: members of objects in any order, spaces ignored. A text
// that is no JSON, or nested too deep, is taken byte by byte. Numbers are compared as written.
uint64_t dev_result_digest(struct base_str json);

#endif
