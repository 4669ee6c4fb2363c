// The whole of an embedding: memory from the app, a table of ports, and a loop that ticks. Here the
// ports are those of the tests; an app brings its own, or takes the posix ones. One thread.
// docs/DEVICE.md points here; ctest runs it (tests/CMakeLists.txt), so what it shows keeps working.
#include "device/device.h"
#include "mem/mem_port.h"

#include <stdio.h>

int main(void)
{
    static _Alignas(16) unsigned char memory[20 * 1024];
    static struct mem_port port;
    struct dev_ports ports;
    struct dev_runtime *runtime = NULL;
    struct dev_config config = {
        .device_id = 0x0123456789abcdef, .trusted_key_count = 1, .tasks_max = 8};
    config.attrs.items[config.attrs.count++] = (struct wire_attr){
        .name = BASE_STR("os"), .type = WIRE_ATTR_STRING, .text = BASE_STR("android")};

    mem_port_init(&port, 1, &ports);
    if (dev_init(memory, sizeof(memory), &config, &ports, &runtime) != BASE_OK ||
        dev_boot(runtime) != BASE_OK) {
        return 1;
    }
    uint64_t due_us = dev_tick(runtime, port.clock.mono_us); // makes the first check-in
    struct mem_exchange *checkin = mem_exchange_find(&port, "/v1/checkin");
    struct dev_response_head nothing_new = {.status = 204};
    if (checkin == NULL) {
        return 1;
    }
    mem_exchange_answer(&port, runtime, checkin, &nothing_new, (struct base_span){0});
    due_us = dev_tick(runtime, port.clock.mono_us);
    printf("device %s, next tick in %llu s\n", dev_is_idle(runtime) ? "idle" : "busy",
           (unsigned long long)(due_us - port.clock.mono_us) / 1000000);
    dev_stop(runtime);
    mem_port_done(&port);
    return 0;
}
