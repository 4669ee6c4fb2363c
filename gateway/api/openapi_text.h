// The API's description, written by the build from docs/openapi.json.
#ifndef GW_OPENAPI_TEXT_H
#define GW_OPENAPI_TEXT_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t gw_openapi_text[];
extern const size_t gw_openapi_text_bytes;

#endif
