// Any bytes as a hint stream: the parser never reads past them, always goes forward, and gives the
// same hints however the bytes are cut.
#include "fuzz_target.h"

#include "core/control/sse.h"

#include "base/check.h"

static uint64_t hints_of(const uint8_t *data, size_t size, size_t chunk)
{
    struct dev_sse sse;
    uint64_t sum = 0;
    dev_sse_init(&sse);
    for (size_t at = 0; at < size;) {
        size_t step = chunk < size - at ? chunk : size - at;
        uint32_t spread_ms = 0;
        bool hint = false;
        size_t taken = dev_sse_feed(&sse, data + at, step, &hint, &spread_ms);
        base_check(taken > 0);
        base_check(taken <= step);
        base_check(sse.line_size <= DEV_SSE_LINE_MAX);
        base_check(spread_ms <= DEV_SSE_SPREAD_MS_MAX);
        at += taken;
        sum = hint ? sum * 31 + spread_ms + 1 : sum;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = hints_of(data, size, size > 0 ? size : 1);
    base_check(whole == hints_of(data, size, 1));
    base_check(whole == hints_of(data, size, 7));
    return 0;
}
