// Any bytes as the stored record, with a checksum put right so that the parser behind it is
// reached: a boot either takes it, and then every invariant holds and it can be stored again, or
// starts anew. A tick on top must not break anything either.
#include "fuzz_target.h"

#include "core/base/runtime.h"
#include "core/device_state.h"
#include "mem/mem_port.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define CHECKSUM_BYTES 8

static _Alignas(16) uint8_t memory[64 * 1024];
static struct mem_port port;

static void boot(const uint8_t *data, size_t size)
{
    struct dev_ports ports;
    struct dev_runtime *runtime = NULL;
    struct dev_config config = {.device_id = 7, .tasks_max = 8, .outcomes_max = 16};
    mem_port_init(&port, 1, &ports);
    memcpy(port.storage.state, data, size);
    port.storage.state_bytes = size;
    port.storage.has_state = true;
    base_check(dev_init(memory, sizeof(memory), &config, &ports, &runtime) == BASE_OK);
    base_check(dev_boot(runtime) == BASE_OK);
    base_check(dev_validate(runtime));
    (void)dev_tick(runtime, port.clock.mono_us);
    base_check(dev_validate(runtime));
    dev_stop(runtime);
    mem_port_done(&port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t record[DEV_STATE_SAVE_MAX];
    if (size > sizeof(record)) {
        return 0;
    }
    boot(data, size);
    if (size < CHECKSUM_BYTES) {
        return 0;
    }
    memcpy(record, data, size);
    struct base_writer writer;
    base_writer_init(&writer, record + size - CHECKSUM_BYTES, CHECKSUM_BYTES);
    base_writer_u64(&writer, base_hash64(record, size - CHECKSUM_BYTES));
    boot(record, size);
    return 0;
}
