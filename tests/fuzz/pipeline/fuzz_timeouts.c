// Pending starts as they are stored. No crash; what is read writes the same bytes, is over when it
// is due and not before, and nothing is left then.
#include "fuzz_target.h"

#include "base/check.h"
#include "pipeline/trigger/timeouts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dev_timeouts timeouts;
    uint8_t bytes[DEV_TIMEOUTS_BYTES_MAX];
    struct base_reader reader;
    struct base_writer writer;
    struct dev_timeout over;
    base_reader_init(&reader, data, size);
    struct dev_timeout_now now = {base_reader_u32(&reader), base_reader_u64(&reader)};
    const uint8_t *start = reader.at;
    dev_timeouts_read(&timeouts, now, &reader);
    base_check(timeouts.count <= DEV_TIMEOUTS_MAX);
    if (reader.status != BASE_OK) {
        base_check(timeouts.count == 0);
        return 0;
    }
    base_writer_init(&writer, bytes, sizeof(bytes));
    dev_timeouts_write(&timeouts, &writer);
    base_check(writer.status == BASE_OK);
    base_check(base_writer_size(&writer) == (size_t)(reader.at - start));
    base_check(memcmp(bytes, start, base_writer_size(&writer)) == 0);
    while (timeouts.count > 0) {
        uint64_t due_us = dev_timeouts_due(&timeouts);
        base_check(due_us > now.us && due_us <= now.us + (DEV_PATTERN_WITHIN_MAX_MS + 1) * 1000ull);
        base_check(!dev_timeouts_over(&timeouts, due_us - 1, &over));
        base_check(dev_timeouts_over(&timeouts, due_us, &over) && over.due_us == due_us);
    }
    base_check(dev_timeouts_due(&timeouts) == UINT64_MAX);
    return 0;
}
