// What else comes over the channel between agent and task process: first byte 0: a question of the
// process, from an attacker; 254: a call of a model in the cloud, 255: what is known of one,
// likewise; otherwise a job, whose files the process reads behind its wall.
#include "fuzz_target.h"

#include "posix/run/posix_child_parse.h"
#include "runner/runner_cloud.h"
#include "runner/runner_end.h"
#include "runner/runner_job.h"

#include <stdlib.h>
#include <string.h>

static void need(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static void question(const uint8_t *data, size_t size)
{
    struct dev_vm_query query;
    uint8_t again[DEV_RUNNER_QUERY_MAX];
    struct base_writer writer;
    if (posix_child_query_parse(data, size, &query) != BASE_OK) {
        return;
    }
    base_writer_init(&writer, again, sizeof(again));
    dev_runner_query_write(&writer, &query);
    need(writer.status == BASE_OK && base_writer_size(&writer) == size);
    need(memcmp(again, data, size) == 0);
}

static void call(const uint8_t *data, size_t size)
{
    struct dev_vm_cloud_call call;
    struct wire_tensor_call parsed;
    struct base_writer writer;
    if (posix_child_infer_parse(data, size, &call) != BASE_OK) {
        return;
    }
    uint8_t *again = malloc(size);
    need(again != NULL && wire_tensor_model_ok(call.model));
    need(wire_tensor_call_parse(call.bytes, call.size, &parsed) == BASE_OK);
    need(parsed.deadline_ms == call.deadline_ms && parsed.priority == call.priority);
    base_writer_init(&writer, again, size);
    dev_runner_infer_write(&writer, &call);
    need(writer.status == BASE_OK && memcmp(again, data, size) == 0);
    free(again);
}

static void look(const uint8_t *data, size_t size)
{
    struct base_str model;
    if (posix_child_look_parse(data, size, &model) == BASE_OK) {
        need(wire_tensor_model_ok(model) && model.size + 1 == size);
    }
}

static volatile uint8_t sink;

static void touch(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        sink = at[i];
    }
}

static void job(const uint8_t *data, size_t size)
{
    static struct dev_runner_view view;
    size_t models = size / 4;
    if (dev_runner_job_parse(data, size - models, data + size - models, models, &view) != BASE_OK) {
        return;
    }
    touch(view.vm.entry.data, view.vm.entry.size);
    touch(view.vm.config.data, view.vm.config.size);
    touch(view.input, view.input_bytes);
    for (uint32_t i = 0; i < view.vm.module_count; i++) {
        touch(view.modules[i].mpy, view.modules[i].size);
    }
    for (uint32_t i = 0; i < view.vm.model_count; i++) {
        touch(view.models[i].bytes, view.models[i].size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t kind = 0;
    size_t body = 0;
    if (size >= DEV_RUNNER_HEAD_BYTES && dev_runner_head_parse(data, &kind, &body) == BASE_OK) {
        need(body <= DEV_RUNNER_FRAME_MAX);
    }
    if (size > 0 && data[0] == 0) {
        question(data + 1, size - 1);
    } else if (size > 0 && data[0] == 254) {
        call(data + 1, size - 1);
    } else if (size > 0 && data[0] == 255) {
        look(data + 1, size - 1);
    } else if (size > 0) {
        job(data + 1, size - 1);
    }
    return 0;
}
