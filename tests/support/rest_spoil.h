// What a runtime does not call its state (dev_state_spans) may be anything when it is called next:
// in every test of the rig it is spoilt, after every tick. Called by device_rig.c.
#ifndef TEST_REST_SPOIL_H
#define TEST_REST_SPOIL_H

#include "device_rig.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

static inline void rest_spoil(struct rig *rig)
{
    struct base_span spans[DEV_STATE_SPANS_MAX];
    uint8_t *memory = rig->memory;
    uint32_t count = rig->port.killed ? 0 : dev_state_spans(rig->runtime, spans);
    if (count == 0) {
        return;
    }
    size_t bytes = dev_runtime_bytes(&rig->config);
    uint8_t *copy = malloc(bytes);
    base_check(copy != NULL);
    memset(copy, 0xa5, bytes);
    for (uint32_t i = 0; i < count; i++) {
        size_t at = (size_t)(spans[i].data - memory);
        base_check(at <= bytes && spans[i].size <= bytes - at);
        memcpy(copy + at, spans[i].data, spans[i].size);
    }
    memcpy(memory, copy, bytes);
    free(copy);
}

static inline uint64_t tick(struct rig *rig)
{
    uint64_t due_us = dev_tick(rig->runtime, rig->port.clock.mono_us);
    rest_spoil(rig);
    return due_us;
}

#endif
