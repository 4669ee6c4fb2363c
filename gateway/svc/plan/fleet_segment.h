// Segments: devices of one model, operating system and app version, the unit in which a bad release
// is usually bad. Any thread.
#ifndef GW_FLEET_SEGMENT_H
#define GW_FLEET_SEGMENT_H

#include "policy/target.h"

#include <stddef.h>

#define GW_SEGMENT_TEXT_MAX 160u

// A hash that names the segment of a device; 0: it has none of the three attributes. `text` (of
// GW_SEGMENT_TEXT_MAX + 1 bytes, or NULL) becomes "model=SM-1 os=android
// app_version=9.2", with "no model" for one that it does not have.
uint64_t gw_segment_of(const struct pol_attrs *attrs, char *text);

#endif
