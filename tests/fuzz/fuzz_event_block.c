// Any bytes as a block of events: no crash, and what is accepted says the same after encoding it.
#include "fuzz_target.h"

#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)wire_check_event_block(data, size);
    return 0;
}
