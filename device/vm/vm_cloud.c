// The module `walle.cloud`: a script asks a model in the cloud, through the port its host gives,
// and goes on with its own result where it is not answered. Runs on the VM's thread, which waits.
//
// No exception may jump over a call of the port: what goes out lies in the script's heap before it,
// and what came back is made into tensors behind it.
#include "vm/vm_cloud.h"

#include "vm/vm_nn.h"
#include "vm/vm_state.h"

#include "base/clock.h"

#include "py/gc.h"
#include "py/runtime.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)ENG_RANK_MAX == (int)WIRE_TENSOR_RANK_MAX, "a tensor fits a call");

// What becomes of the inputs of a call: views of tensors in the script's heap.
struct inputs {
    struct wire_tensor_call call;
    const struct dev_vm_tensor *held[WIRE_TENSORS_MAX]; // for the collector
};

static _Noreturn void raise_value(const char *text)
{
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.cloud: %s"), text);
}

static void input_add(struct inputs *inputs, mp_obj_t name_in, mp_obj_t value)
{
    if (inputs->call.count == WIRE_TENSORS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.cloud: more than %d inputs"),
                          (int)WIRE_TENSORS_MAX);
    }
    size_t size;
    const char *name = mp_obj_str_get_data(name_in, &size);
    if (size == 0 || size > WIRE_TENSOR_NAME_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.cloud: an input's name is not of 1 to %d bytes"),
                          (int)WIRE_TENSOR_NAME_MAX);
    }
    const struct dev_vm_tensor *tensor = dev_vm_tensor_of(value, ENG_UNDEFINED);
    uint32_t index = inputs->call.count++;
    inputs->held[index] = tensor;
    struct wire_tensor *out = &inputs->call.tensors[index];
    *out = (struct wire_tensor){
        .name = {name, size},
        .dtype = (uint8_t)tensor->dtype,
        .rank = (uint8_t)tensor->rank,
        .data = tensor->data,
        .bytes = tensor->count * eng_dtype_bytes(tensor->dtype),
    };
    for (uint32_t d = 0; d < tensor->rank; d++) {
        out->dims[d] = (uint64_t)tensor->dims[d];
    }
}

static void inputs_take(struct inputs *inputs, mp_obj_t given)
{
    if (!mp_obj_is_dict_or_ordereddict(given)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.cloud: inputs are a dict by name"));
    }
    const mp_map_t *map = mp_obj_dict_get_map(given);
    uint32_t ticks = 0;
    for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {
        if (mp_map_slot_is_filled(map, i)) {
            input_add(inputs, map->table[i].key, map->table[i].value);
        }
    }
}

// Bytes that the call takes on the wire, or more.
static size_t wire_bound(const struct wire_tensor_call *call)
{
    size_t bytes = 16;
    for (uint32_t i = 0; i < call->count; i++) {
        size_t head = 3 + call->tensors[i].name.size + 10 * (size_t)WIRE_TENSOR_RANK_MAX;
        bytes += head + call->tensors[i].bytes;
        if (bytes > WIRE_TENSOR_CALL_MAX) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.cloud: the inputs are over %d bytes"),
                              (int)WIRE_TENSOR_CALL_MAX);
        }
    }
    return bytes;
}

// The call as it goes out, in the script's heap.
static uint8_t *wire_make(const struct wire_tensor_call *call, size_t *out_size)
{
    size_t bound = wire_bound(call);
    uint8_t *bytes = m_new(uint8_t, bound);
    struct base_writer writer;
    base_writer_init(&writer, bytes, bound);
    wire_tensor_call_write(&writer, call);
    if (writer.status != BASE_OK) {
        raise_value("these inputs are none of a call");
    }
    if (dev_vm_budget_charge(1 + base_writer_size(&writer) / DEV_VM_COPY_PER_UNIT)) {
        dev_vm_over_budget();
    }
    *out_size = base_writer_size(&writer);
    return bytes;
}

static mp_obj_t output_object(const struct wire_tensor *tensor)
{
    struct eng_desc desc = {.dtype = (enum eng_dtype)tensor->dtype, .rank = tensor->rank};
    for (uint32_t d = 0; d < tensor->rank; d++) {
        desc.dims[d] = (int64_t)tensor->dims[d];
    }
    uint8_t *block = m_new(uint8_t, tensor->bytes > 0 ? tensor->bytes : 1);
    if (tensor->bytes > 0) {
        memcpy(block, tensor->data, tensor->bytes);
    }
    return dev_vm_tensor_over(&desc, block);
}

// Outputs by name. The answer is the port's and stays until its next call.
static mp_obj_t outputs_object(const struct wire_tensor_answer *answer)
{
    mp_obj_t outputs = mp_obj_new_dict(answer->count);
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct wire_tensor *tensor = &answer->tensors[i];
        mp_obj_dict_store(outputs, mp_obj_new_str(tensor->name.data, tensor->name.size),
                          output_object(tensor));
    }
    return outputs;
}

static const char *explain(enum wire_cloud_why why)
{
    static const char *const texts[] = {
        [WIRE_CLOUD_OFFLINE] = "no gateway answers",
        [WIRE_CLOUD_SLOW] = "calls of this model take longer",
        [WIRE_CLOUD_LATE] = "not answered within its deadline",
        [WIRE_CLOUD_QUOTA] = "the device's quota is used up",
        [WIRE_CLOUD_BUSY] = "too many calls wait",
        [WIRE_CLOUD_NOT_ALLOWED] = "this device may not",
        [WIRE_CLOUD_NO_MODEL] = "no such model is served",
        [WIRE_CLOUD_REFUSED] = "the model takes no such inputs",
        [WIRE_CLOUD_TOO_LARGE] = "the call or its answer is over a limit",
        [WIRE_CLOUD_FAILED] = "the answer makes no sense",
        [WIRE_CLOUD_CLOSED] = "the run ends",
        [WIRE_CLOUD_COUNT] = "",
    };
    return texts[why] != NULL ? texts[why] : "";
}

static mp_obj_t fail(const mp_obj_t on_fail, struct base_str model, enum wire_cloud_why why,
                     const char *detail)
{
    if (on_fail != MP_OBJ_NEW_QSTR(MP_QSTR_raise)) {
        return on_fail;
    }
    mp_raise_msg_varg(&mp_type_OSError, MP_ERROR_TEXT("walle.cloud: %s: %.*s: %s"),
                      wire_cloud_word(why), (int)model.size, model.data,
                      detail[0] != '\0' ? detail : explain(why));
}

// The run ends when its time is over, so no call goes on for longer.
static uint32_t deadline_take(const struct dev_vm *vm, mp_obj_t given)
{
    mp_int_t wanted = mp_obj_get_int(given);
    if (wanted < 1 || (uint64_t)wanted > WIRE_TENSOR_DEADLINE_MS) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.cloud: deadline_ms is not from 1 to %d"),
                          (int)WIRE_TENSOR_DEADLINE_MS);
    }
    uint64_t now_us = base_clock_mono_us();
    uint64_t left_ms = now_us < vm->deadline_us ? (vm->deadline_us - now_us) / 1000 : 0;
    left_ms = left_ms > 0 ? left_ms : 1;
    return left_ms < (uint64_t)wanted ? (uint32_t)left_ms : (uint32_t)wanted;
}

static struct base_str model_take(mp_obj_t given)
{
    size_t size;
    const char *name = mp_obj_str_get_data(given, &size);
    if (!wire_tensor_model_ok((struct base_str){name, size})) {
        raise_value("a model's name has 1 to 128 of A-Z a-z 0-9 . _ - and no dot in front");
    }
    return (struct base_str){name, size};
}

// Was the cloud asked, as far as it is for the script's rule? Who could not be asked was not.
static bool was_sent(enum wire_cloud_why why)
{
    return why != WIRE_CLOUD_OFFLINE && why != WIRE_CLOUD_SLOW && why != WIRE_CLOUD_NOT_ALLOWED &&
           why != WIRE_CLOUD_CLOSED;
}

static void call_count(struct dev_vm *vm, uint64_t took_us)
{
    struct wire_cloud_counts one = {.asked = vm->cloud_decided ? 0 : 1,
                                    .sent = was_sent(vm->cloud_why) ? 1 : 0};
    if (vm->cloud_why == WIRE_CLOUD_ANSWERED) {
        one.answered = 1;
        one.times[wire_cloud_step(took_us)] = 1;
    }
    vm->cloud_decided = false;
    vm->cloud_compared = false;
    (void)wire_cloud_add(&vm->out->cloud, &one);
}

// infer(model, inputs, deadline_ms=1000, on_fail="raise", priority=1): outputs by name; where it is
// not answered `on_fail`, or with "raise" OSError.
static mp_obj_t infer(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { MODEL, INPUTS, DEADLINE, ON_FAIL, PRIORITY, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_model, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_inputs, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_deadline_ms, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(DEV_VM_CLOUD_DEADLINE_MS)}},
        {MP_QSTR_on_fail, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_raise)}},
        {MP_QSTR_priority, MP_ARG_INT, {.u_int = 1}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct dev_vm *vm = dev_vm_current;
    struct base_str model = model_take(values[MODEL].u_obj);
    mp_int_t priority = values[PRIORITY].u_int;
    if (priority < 0 || priority >= (mp_int_t)WIRE_TENSOR_PRIORITIES) {
        raise_value("priority is not from 0, which goes first, to 3");
    }
    struct inputs inputs = {.call = {.priority = (uint8_t)priority}};
    inputs_take(&inputs, values[INPUTS].u_obj);
    inputs.call.deadline_ms = deadline_take(vm, values[DEADLINE].u_obj);
    size_t size = 0;
    uint8_t *bytes = wire_make(&inputs.call, &size);
    dev_vm_outside(vm);
    vm->out->looked = true;
    const struct dev_vm_cloud_port *port = vm->job->cloud;
    const struct dev_vm_cloud_call call = {
        .model = model,
        .bytes = bytes,
        .size = size,
        .priority = inputs.call.priority,
        .deadline_ms = inputs.call.deadline_ms,
    };
    struct dev_vm_cloud_end end = {.size = 0};
    struct wire_tensor_answer answer;
    bool asks = port != NULL && dev_vm_leaves_call(vm, model, &inputs.call, end.detail);
    uint64_t from_us = base_clock_mono_us();
    dev_vm_model_begins(vm);
    vm->away = true;
    vm->cloud_why = asks ? port->infer(port->ctx, &call, &end) : WIRE_CLOUD_NOT_ALLOWED;
    vm->away = false;
    dev_vm_model_ends(vm);
    m_del(uint8_t, bytes, size);
    if (vm->cloud_why == WIRE_CLOUD_ANSWERED &&
        wire_tensor_answer_parse(end.answer, end.size, &answer) != BASE_OK) {
        vm->cloud_why = WIRE_CLOUD_FAILED;
    }
    call_count(vm, end.virtual_us > 0 ? end.virtual_us : base_clock_mono_us() - from_us);
    if (dev_vm_budget_charge(1 + end.size / DEV_VM_COPY_PER_UNIT)) {
        dev_vm_over_budget();
    }
    return vm->cloud_why == WIRE_CLOUD_ANSWERED
               ? outputs_object(&answer)
               : fail(values[ON_FAIL].u_obj, model, vm->cloud_why, end.detail);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(infer_obj, 0, infer);

// why(): what became of the last call of this run, in a word; None: there was none.
static mp_obj_t why(void)
{
    struct dev_vm *vm = dev_vm_current;
    dev_vm_outside(vm);
    if (vm->cloud_why == WIRE_CLOUD_COUNT) {
        return mp_const_none;
    }
    const char *word = wire_cloud_word(vm->cloud_why);
    return mp_obj_new_str(word, strlen(word));
}
static MP_DEFINE_CONST_FUN_OBJ_0(why_obj, why);

// agreed(yes): whether the last answer was what the device's own result says. Only counted.
static mp_obj_t agreed(mp_obj_t yes)
{
    struct dev_vm *vm = dev_vm_current;
    dev_vm_outside(vm);
    if (vm->cloud_why != WIRE_CLOUD_ANSWERED || vm->cloud_compared) {
        raise_value("agreed() is said once of a call that was answered");
    }
    vm->cloud_compared = true;
    (void)wire_cloud_add(&vm->out->cloud,
                         &(struct wire_cloud_counts){.differed = mp_obj_is_true(yes) ? 0 : 1});
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(agreed_obj, agreed);

static const mp_rom_map_elem_t cloud_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_cloud)},
    {MP_ROM_QSTR(MP_QSTR_infer), MP_ROM_PTR(&infer_obj)},
    {MP_ROM_QSTR(MP_QSTR_decide), MP_ROM_PTR(&dev_vm_decide_obj)},
    {MP_ROM_QSTR(MP_QSTR_why), MP_ROM_PTR(&why_obj)},
    {MP_ROM_QSTR(MP_QSTR_agreed), MP_ROM_PTR(&agreed_obj)},
};
static MP_DEFINE_CONST_DICT(cloud_globals, cloud_globals_table);

const mp_obj_module_t dev_vm_module_cloud = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&cloud_globals,
};
