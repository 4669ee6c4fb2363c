// Any bytes as a JSON inference request with binary tensors behind it. The first two bytes say how
// much is JSON.
#include "fuzz_target.h"
#include "oip_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 2) {
        size_t json_bytes = (size_t)data[0] << 8 | data[1];
        oip_check_json(data + 2, size - 2, json_bytes);
    }
    return 0;
}
