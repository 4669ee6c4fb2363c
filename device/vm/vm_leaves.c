// May a script's record leave the device? Called by vm_data.c for uploads, by vm_module.c for
// results that are uploaded and by vm_cloud.c for calls of models, on the VM's thread, as soon as
// the script hands them over, so that it hears of a refusal where it made it. The agent asks again
// (pipeline/pipeline_effects.c), for it does not trust a task's process.
#include "vm/vm_state.h"

#include "vm/mpy/vm_text.h"

#include "wire/cloud/tensor_leaves.h"
#include "wire/leaves/leaves_check.h"

#include "py/runtime.h"

#include <stdio.h>
#include <string.h>

// A version that declares nothing of what leaves is as ever: what it has no name for is dropped
// when the run is over. The text is cut between characters; its paths are the script's own.
static void raise_if_refused(struct dev_vm *vm, enum base_status status,
                             const struct base_error *error)
{
    char text[BASE_ERROR_TEXT_MAX];
    if (status == BASE_OK ||
        (status == BASE_ERR_NOT_FOUND && !wire_leaves_declared(vm->job->declaration))) {
        return;
    }
    vm->out->refused++;
    dev_text_set(text, sizeof(text), base_str_of(error->text));
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle: may not leave: %s"), text);
}

static void work_count(const struct dev_vm *vm, size_t size)
{
    dev_vm_work((vm->job->declaration.size + size) / DEV_VM_TEXT_PER_UNIT);
}

void dev_vm_leaves_upload(struct dev_vm *vm, const struct dev_vm_effect *effect)
{
    struct base_error error = {0};
    const struct wire_leaves_record record = {effect->format, effect->bytes, effect->size};
    if (vm->job->declaration.size > 0) {
        work_count(vm, effect->size);
        enum base_status status =
            wire_leaves_upload_check(vm->job->declaration, effect->name, &record, &error);
        raise_if_refused(vm, status, &error);
    }
}

void dev_vm_leaves_result(struct dev_vm *vm, const char *text, size_t size)
{
    struct base_error error = {0};
    const struct wire_leaves_record record = {WIRE_RECORD_JSON, (const uint8_t *)text, size};
    if (vm->job->declaration.size > 0) {
        work_count(vm, size);
        enum base_status status = wire_leaves_result_check(vm->job->declaration, &record, &error);
        raise_if_refused(vm, status, &error);
    }
}

// Without a declaration it is the host that says no.
bool dev_vm_leaves_call(struct dev_vm *vm, struct base_str model,
                        const struct wire_tensor_call *call, char out_why[DEV_VM_MESSAGE_MAX])
{
    struct base_error error = {0};
    if (vm->job->declaration.size == 0 ||
        wire_tensor_may_leave(vm->job->declaration, model, call, &error) == BASE_OK) {
        return true;
    }
    vm->out->refused++;
    (void)snprintf(out_why, DEV_VM_MESSAGE_MAX, "may not leave: %.140s", error.text);
    dev_text_clean(out_why, strlen(out_why));
    return false;
}
