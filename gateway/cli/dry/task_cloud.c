// Calls of a script's models in the cloud, for cli_task_run.c; one thread, the VM's. The call goes
// out as a device sends it (wire/cloud/tensor_call.h), with the operator's token in place of a
// device's credential. What the version does not let leave the VM refuses before.
#include "cli/dry/task_cloud.h"

#include "wire/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum wire_cloud_why way(const struct task_cloud *cloud)
{
    return !cloud->declared                             ? WIRE_CLOUD_NOT_ALLOWED
           : !cli_given(cloud->cli, CLI_OPTION_GATEWAY) ? WIRE_CLOUD_OFFLINE
                                                        : WIRE_CLOUD_ANSWERED;
}

static void detail_set(struct dev_vm_cloud_end *out, const char *text, size_t size)
{
    (void)snprintf(out->detail, sizeof(out->detail), "%.*s",
                   (int)(size < sizeof(out->detail) ? size : sizeof(out->detail) - 1), text);
}

// An answer that is no 200 says why in a header, and more in its body.
static enum wire_cloud_why refusal(const struct cli_answer *answer, struct dev_vm_cloud_end *out)
{
    enum wire_cloud_why why;
    if (!wire_cloud_of_word(base_str_of(answer->reason), &why) || why == WIRE_CLOUD_ANSWERED) {
        char text[sizeof(out->detail)];
        int body = answer->body_bytes < sizeof(text) ? (int)answer->body_bytes : (int)sizeof(text);
        (void)snprintf(text, sizeof(text), "the gateway answers %ld%s%.*s", answer->status,
                       body > 0 ? ": " : "", body, body > 0 ? answer->body : "");
        detail_set(out, text, strlen(text));
        return answer->status == 401 || answer->status == 403 ? WIRE_CLOUD_NOT_ALLOWED
                                                              : WIRE_CLOUD_FAILED;
    }
    detail_set(out, answer->body != NULL ? answer->body : "", answer->body_bytes);
    return why;
}

static enum wire_cloud_why infer(void *ctx, const struct dev_vm_cloud_call *call,
                                 struct dev_vm_cloud_end *out_end)
{
    struct task_cloud *cloud = ctx;
    char path[WIRE_TENSOR_MODEL_MAX + 32];
    char device[WIRE_DEVICE_HEX + 1];
    enum wire_cloud_why why = way(cloud);
    if (why != WIRE_CLOUD_ANSWERED) {
        const char *text = why == WIRE_CLOUD_OFFLINE ? "--gateway URL asks one"
                                                     : "the version has no \"leaves\" in task.json";
        detail_set(out_end, text, strlen(text));
        return why;
    }
    (void)snprintf(path, sizeof(path), "/v2/models/%.*s/infer", (int)call->model.size,
                   call->model.data);
    wire_device_hex(cloud->device_id, device);
    const struct cli_call post = {.method = "POST",
                                  .path = path,
                                  .content_type = WIRE_TENSOR_TYPE,
                                  .body = call->bytes,
                                  .body_bytes = call->size,
                                  .device = device,
                                  .timeout_ms = call->deadline_ms};
    cli_answer_done(&cloud->answer);
    if (cli_http_call(cloud->cli, &post, &cloud->answer) != CLI_EXIT_OK) {
        return cloud->answer.timed_out ? WIRE_CLOUD_LATE : WIRE_CLOUD_OFFLINE;
    }
    if (cloud->answer.status != 200) {
        return refusal(&cloud->answer, out_end);
    }
    out_end->answer = (const uint8_t *)cloud->answer.body;
    out_end->size = cloud->answer.body_bytes;
    return WIRE_CLOUD_ANSWERED;
}

static struct dev_vm_cloud_state look(void *ctx, struct base_str model)
{
    (void)model;
    return (struct dev_vm_cloud_state){.why = way(ctx)};
}

struct dev_vm_cloud_port task_cloud_port(struct task_cloud *cloud)
{
    return (struct dev_vm_cloud_port){.ctx = cloud, .infer = infer, .look = look};
}

void task_cloud_done(struct task_cloud *cloud)
{
    cli_answer_done(&cloud->answer);
}
