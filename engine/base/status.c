// Names and texts of status codes. Called by everybody, from any thread; there is no state.
//
// Both functions are switches generated from BASE_STATUS_MAP, so that a new status cannot be
// forgotten here and two statuses with one value do not compile.
#include "base/status.h"

const char *base_status_text(enum base_status status)
{
    switch (status) {
#define CASE_TEXT(name, value, text)                                                               \
    case BASE_ERR_##name:                                                                          \
        return text;
        BASE_STATUS_MAP(CASE_TEXT)
#undef CASE_TEXT
    }
    return "unknown status";
}

const char *base_status_name(enum base_status status)
{
    switch (status) {
#define CASE_NAME(name, value, text)                                                               \
    case BASE_ERR_##name:                                                                          \
        return #name;
        BASE_STATUS_MAP(CASE_NAME)
#undef CASE_NAME
    }
    return "UNKNOWN";
}
