// Any bytes as the payload of a simulation's evidence: no crash, and what is accepted encodes back
// to itself.
#include "fuzz_target.h"

#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)wire_check_evidence(data, size);
    return 0;
}
