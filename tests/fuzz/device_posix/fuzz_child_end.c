// What a task's process says at its end, from an attacker behind the wall. What the parser takes is
// written again and must be the same bytes, and within what a VM can say.
#include "fuzz_target.h"

#include "posix/run/posix_child_parse.h"
#include "runner/runner_end.h"

#include <string.h>

static void need(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static void effects_check(const struct dev_vm_result *result)
{
    size_t bytes = 0;
    need(result->effect_count <= DEV_VM_EFFECTS_ALL);
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *effect = &result->effects[i];
        if (effect->kind == DEV_VM_EFFECT_SAVE) {
            need(i + 1 == result->effect_count && effect->size <= WIRE_STORE_IMAGE_MAX);
            continue;
        }
        bytes += effect->name.size + effect->key.size + effect->size;
        need(effect->name.size > 0 && effect->name.size <= DEV_VM_FEATURE_NAME_MAX);
        need(effect->key.size <= DEV_VM_FEATURE_KEY_MAX);
    }
    need(bytes <= DEV_VM_EFFECT_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct posix_child_end end;
    static uint8_t again[DEV_RUNNER_END_MAX];
    struct base_writer writer;
    if (size > sizeof(again) || posix_child_end_parse(data, size, &end) != BASE_OK) {
        return 0;
    }
    need(end.result.end < DEV_VM_END_COUNT && end.result.result.size <= DEV_VM_RESULT_MAX);
    effects_check(&end.result);
    base_writer_init(&writer, again, sizeof(again));
    dev_runner_end_write(&writer, end.status, &end.result);
    need(writer.status == BASE_OK && base_writer_size(&writer) == size);
    need(memcmp(again, data, size) == 0);
    return 0;
}
