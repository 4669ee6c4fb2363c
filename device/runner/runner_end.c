// Writes what a task's process says: the end of its run, and questions for stored features. Called
// by task_runner.c in that process, behind its wall; pure. The reader of these bytes is
// posix/run/posix_child_parse.c, in the agent: apart from this, since it must believe none of them.
// Sizes are within the VM's limits here, so a frame has room for any end.
#include "runner/runner_end.h"

#include <string.h>

static void short_text(struct base_writer *writer, struct base_str text)
{
    base_writer_u8(writer, (uint8_t)text.size);
    base_writer_bytes(writer, text.data, text.size);
}

static void effect_write(struct base_writer *writer, const struct dev_vm_effect *effect)
{
    base_writer_u8(writer, (uint8_t)effect->kind);
    if (effect->kind == DEV_VM_EFFECT_SAVE) {
        base_writer_u32(writer, effect->size);
        base_writer_bytes(writer, effect->bytes, effect->size);
        return;
    }
    base_writer_u8(writer, (uint8_t)effect->format);
    base_writer_u64(writer, effect->time_ms);
    short_text(writer, effect->name);
    short_text(writer, effect->key);
    base_writer_u32(writer, effect->size);
    base_writer_bytes(writer, effect->bytes, effect->size);
}

static void cloud_write(struct base_writer *writer, const struct wire_cloud_counts *counts)
{
    base_writer_u16(writer, counts->asked);
    base_writer_u16(writer, counts->sent);
    base_writer_u16(writer, counts->answered);
    base_writer_u16(writer, counts->differed);
    for (uint32_t i = 0; i < WIRE_CLOUD_TIMES; i++) {
        base_writer_u16(writer, counts->times[i]);
    }
}

void dev_runner_end_write(struct base_writer *writer, enum base_status status,
                          const struct dev_vm_result *result)
{
    base_writer_u32(writer, (uint32_t)(int32_t)status);
    if (status != BASE_OK) {
        return;
    }
    base_writer_u8(writer, (uint8_t)result->end);
    short_text(writer, base_str_of(result->type));
    short_text(writer, base_str_of(result->message));
    short_text(writer, base_str_of(result->file));
    base_writer_u32(writer, result->line);
    base_writer_u32(writer, (uint32_t)strlen(result->stack));
    base_writer_bytes(writer, result->stack, strlen(result->stack));
    base_writer_u64(writer, result->instructions);
    base_writer_u64(writer, result->duration_us);
    base_writer_u64(writer, result->prepare_us);
    base_writer_u64(writer, result->model_us);
    base_writer_u32(writer, result->heap_peak_bytes);
    base_writer_u32(writer, result->stack_peak_bytes);
    base_writer_u64(writer, result->left_out.late);
    base_writer_u64(writer, result->left_out.evicted);
    base_writer_u64(writer, result->left_out.dropped);
    base_writer_u32(writer, result->refused);
    cloud_write(writer, &result->cloud);
    base_writer_u32(writer, (uint32_t)result->result.size);
    base_writer_bytes(writer, result->result.data, result->result.size);
    base_writer_u8(writer, (uint8_t)result->effect_count);
    for (uint32_t i = 0; i < result->effect_count; i++) {
        effect_write(writer, &result->effects[i]);
    }
}

void dev_runner_query_write(struct base_writer *writer, const struct dev_vm_query *query)
{
    base_writer_u8(writer, query->every_key ? 1 : 0);
    short_text(writer, query->feature);
    short_text(writer, query->every_key ? (struct base_str){NULL, 0} : query->key);
    base_writer_u64(writer, query->from_ms);
    base_writer_u64(writer, query->to_ms);
    base_writer_u32(writer, query->newest);
}
