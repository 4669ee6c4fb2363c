// Any bytes as a exclusive manifest: no crash, and what is accepted encodes back to itself.
#include "fuzz_target.h"

#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)wire_check_exclusive(data, size);
    return 0;
}
