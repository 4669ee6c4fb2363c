// Any bytes as the payload of a batch: no crash, and what is accepted encodes back to itself.
#include "fuzz_target.h"

#include "wire_check_tunnel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)wire_check_batch(data, size);
    return 0;
}
