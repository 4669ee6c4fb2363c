// Any text as a JSON inference request: what is taken holds to the limits, all of its elements can
// be read, and written out as a result's outputs it is a request's inputs again, the same.
#include "fuzz_target.h"
#include "oip_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    oip_check_json(data, size, 0);
    return 0;
}
