// Bodies of the frames about calls of models in the cloud (layout in runner_frame.h). Called by the
// task's process (task_runner.c) and by the agent (posix_child.c); pure. One file for both sides,
// so that writer and parser cannot drift apart. The process believes the agent, but reads its
// answers with the cursor all the same.
#include "runner/runner_cloud.h"

#include <string.h>

_Static_assert(WIRE_TENSOR_MODEL_MAX <= UINT8_MAX, "a name's size is a byte");
_Static_assert(DEV_VM_MESSAGE_MAX <= UINT8_MAX, "a detail's size is a byte");

static void name_write(struct base_writer *writer, struct base_str name)
{
    base_writer_u8(writer, (uint8_t)name.size);
    base_writer_bytes(writer, name.data, name.size);
}

void dev_runner_infer_write(struct base_writer *writer, const struct dev_vm_cloud_call *call)
{
    name_write(writer, call->model);
    base_writer_bytes(writer, call->bytes, call->size);
}

void dev_runner_look_write(struct base_writer *writer, struct base_str model)
{
    name_write(writer, model);
}

static enum wire_cloud_why why_read(struct base_reader *reader)
{
    uint8_t why = base_reader_u8(reader);
    if (why >= WIRE_CLOUD_COUNT) {
        base_reader_fail(reader, BASE_ERR_INVALID);
        return WIRE_CLOUD_FAILED;
    }
    return (enum wire_cloud_why)why;
}

enum base_status dev_runner_answer_parse(const uint8_t *bytes, size_t size,
                                         enum wire_cloud_why *out_why,
                                         struct dev_vm_cloud_end *out_end)
{
    struct base_reader reader;
    memset(out_end, 0, sizeof(*out_end));
    base_reader_init(&reader, bytes, size);
    *out_why = why_read(&reader);
    size_t text = base_reader_u8(&reader);
    if (text >= sizeof(out_end->detail)) {
        base_reader_fail(&reader, BASE_ERR_INVALID);
    }
    base_reader_copy(&reader, out_end->detail, reader.status == BASE_OK ? text : 0);
    out_end->size = base_reader_left(&reader);
    out_end->answer = base_reader_bytes(&reader, out_end->size);
    return base_reader_finish(&reader);
}

enum base_status dev_runner_seen_parse(const uint8_t *bytes, size_t size,
                                       struct dev_vm_cloud_state *out)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    out->why = why_read(&reader);
    out->expected_us = base_reader_u32(&reader);
    return base_reader_finish(&reader);
}

void dev_runner_answer_write(struct base_writer *writer, enum wire_cloud_why why,
                             const struct dev_vm_cloud_end *end)
{
    size_t text = strnlen(end->detail, sizeof(end->detail) - 1);
    base_writer_u8(writer, (uint8_t)why);
    base_writer_u8(writer, (uint8_t)text);
    base_writer_bytes(writer, end->detail, text);
    if (why == WIRE_CLOUD_ANSWERED) {
        base_writer_bytes(writer, end->answer, end->size);
    }
}

void dev_runner_seen_write(struct base_writer *writer, const struct dev_vm_cloud_state *state)
{
    base_writer_u8(writer, (uint8_t)state->why);
    base_writer_u32(writer, state->expected_us);
}
