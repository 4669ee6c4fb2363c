// The module `walle.nn`: a script runs models of its version, through the port its host gives
// (model/model_port.h): here, as they are called; nn/nn_session.c has those planned for fixed
// shapes. Runs on the VM's thread.
//
// No exception may jump over a call of the port: meanwhile nothing of MicroPython's is called but
// the allocator that gives NULL. What the port says becomes an exception afterwards.
#include "vm/vm_nn.h"

#include "base/text/likeness.h"
#include "model/session_port.h"
#include "model/train_port.h"
#include "vm/vm_nn_call.h"
#include "vm/vm_state.h"

#include "py/gc.h"
#include "py/runtime.h"

#include <string.h>

#define PORTS_MAX DEV_VM_MODEL_PORTS_MAX

static const struct dev_model_port *port_of_run(void)
{
    return dev_vm_current->job->model_port;
}

// The reference is the run's, so that it needs no finaliser.
struct dev_model *dev_nn_held(const struct nn_model_object *object)
{
    return dev_vm_current->models[object->index];
}

size_t dev_nn_port_count(const struct nn_model_object *object, bool is_input)
{
    return port_of_run()->port_count(dev_nn_held(object), is_input);
}

const struct eng_port_info *dev_nn_port(const struct nn_model_object *object, bool is_input,
                                        size_t index)
{
    return port_of_run()->port(dev_nn_held(object), is_input, index);
}

// One past the last: there is none of this name.
static size_t port_index(const struct nn_model_object *object, bool is_input, const char *name)
{
    size_t count = dev_nn_port_count(object, is_input);
    size_t i = 0;
    while (i < count && strcmp(dev_nn_port(object, is_input, i)->name, name) != 0) {
        i++;
    }
    return i;
}

size_t dev_nn_port_find(const struct nn_model_object *object, bool is_input, mp_obj_t name_in)
{
    const char *name = mp_obj_str_get_str(name_in);
    struct base_nearest near = base_nearest_to(base_str_of(name));
    size_t index = port_index(object, is_input, name);
    size_t count = dev_nn_port_count(object, is_input);
    if (index < count) {
        return index;
    }
    for (size_t i = 0; i < count; i++) {
        base_nearest_offer(&near, dev_nn_port(object, is_input, i)->name);
    }
    mp_raise_msg_varg(&mp_type_ValueError,
                      MP_ERROR_TEXT("walle.nn: the model has no %s \"%s\"%s%s%s"),
                      is_input ? "input" : "output", name, near.found != NULL ? "; near is \"" : "",
                      near.found != NULL ? near.found : "", near.found != NULL ? "\"" : "");
}

struct base_str dev_nn_name(uint32_t model)
{
    return dev_vm_current->job->models[model].name;
}

static struct base_str name_of(const struct nn_model_object *object)
{
    return dev_nn_name(object->index);
}

void dev_vm_models_finish(struct dev_vm *vm)
{
    for (uint32_t i = 0; i < vm->trainer_count; i++) { // they read the models' files
        vm->job->model_port->train->free(vm->trainers[i]);
        vm->trainers[i] = NULL;
    }
    vm->trainer_count = 0;
    for (uint32_t i = 0; i < DEV_VM_SESSIONS_MAX; i++) { // likewise
        if (vm->sessions[i] != NULL) {
            vm->job->model_port->sessions->close(vm->sessions[i]);
            vm->sessions[i] = NULL;
        }
    }
    for (uint32_t i = 0; i < vm->job->model_count; i++) {
        if (vm->models[i] != NULL) {
            vm->job->model_port->unref(vm->models[i]);
            vm->models[i] = NULL;
        }
    }
}

_Noreturn void dev_nn_raise(struct base_str name, enum base_status status,
                            const struct base_error *error)
{
    const mp_obj_type_t *type = &mp_type_ValueError;
    if (base_status_is_resource(status) || status == BASE_ERR_TOO_LARGE) {
        type = &mp_type_MemoryError;
    } else if (base_status_is_environment(status) && status != BASE_ERR_NOT_FOUND) {
        type = &mp_type_OSError;
    }
    const char *text = error->text[0] != '\0' ? error->text : base_status_text(status);
    mp_raise_msg_varg(type, MP_ERROR_TEXT("%.*s: %s"), (int)name.size, name.data, text);
}

// --- load

static uint32_t model_find(const struct dev_vm_job *job, struct base_str name)
{
    uint32_t i = 0;
    while (i < job->model_count && !base_str_equal(job->models[i].name, name)) {
        i++;
    }
    return i;
}

// load(name): a model file of this version.
static mp_obj_t load(mp_obj_t name_in)
{
    struct dev_vm *vm = dev_vm_current;
    const struct dev_vm_job *job = vm->job;
    dev_vm_outside(vm);
    size_t size;
    const char *text = mp_obj_str_get_data(name_in, &size);
    struct base_str name = {text, size};
    uint32_t index = model_find(job, name);
    if (index == job->model_count) {
        mp_raise_msg_varg(&mp_type_OSError, MP_ERROR_TEXT("no model \"%s\" in this version"), text);
    }
    if (job->model_port == NULL) {
        mp_raise_msg(&mp_type_OSError, MP_ERROR_TEXT("models are not run here"));
    }
    const struct dev_vm_model *model = &job->models[index];
    if (dev_vm_budget_charge(1 + model->size / DEV_VM_LOAD_PER_UNIT)) {
        dev_vm_over_budget();
    }
    if (vm->models[index] == NULL) {
        const struct dev_model_port *port = job->model_port;
        const struct eng_run_options limits = dev_nn_limits(vm);
        const struct dev_model_file file = {&model->digest, model->bytes, model->size, &limits};
        struct base_error error = {.status = BASE_OK};
        vm->away = true;
        enum base_status status = port->get(port->ctx, &file, &vm->models[index], &error);
        vm->away = false;
        dev_nn_charge(name, 0, status, &error);
    }
    struct nn_model_object *object = mp_obj_malloc(struct nn_model_object, &dev_vm_model_type);
    object->index = index;
    // Each time: a script may catch it and ask again.
    if (dev_nn_port_count(object, true) > PORTS_MAX ||
        dev_nn_port_count(object, false) > PORTS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("%.*s: more than %d inputs or outputs"), (int)name.size,
                          name.data, PORTS_MAX);
    }
    return MP_OBJ_FROM_PTR(object);
}
static MP_DEFINE_CONST_FUN_OBJ_1(load_obj, load);

// --- what a model declares

static mp_obj_t str_object(const char *text)
{
    return mp_obj_new_str(text, strlen(text));
}

// (name, dtype, shape); None where the file does not say.
mp_obj_t dev_nn_port_object(mp_obj_t name, const struct eng_desc *desc, bool has_shape)
{
    mp_obj_t items[3] = {name, mp_const_none, mp_const_none};
    if (desc->dtype != ENG_UNDEFINED) {
        items[1] = str_object(dev_vm_dtype_name(desc->dtype));
    }
    if (has_shape) {
        mp_obj_t dims[ENG_RANK_MAX];
        for (uint32_t d = 0; d < desc->rank; d++) {
            dims[d] = desc->dims[d] < 0 ? mp_const_none : mp_obj_new_int_from_ll(desc->dims[d]);
        }
        items[2] = mp_obj_new_tuple(desc->rank, dims);
    }
    return mp_obj_new_tuple(3, items);
}

static mp_obj_t ports_object(const struct nn_model_object *object, bool is_input)
{
    mp_obj_t ports[PORTS_MAX];
    size_t count = dev_nn_port_count(object, is_input);
    for (size_t i = 0; i < count; i++) {
        const struct eng_port_info *port = dev_nn_port(object, is_input, i);
        ports[i] = dev_nn_port_object(str_object(port->name), &port->desc, port->has_shape);
    }
    return mp_obj_new_tuple(count, ports);
}

// --- run

// One call: what goes in, what is asked for, what comes out.
struct call {
    const struct nn_model_object *object;
    struct nn_inputs inputs;
    struct nn_wanted wanted;
    struct nn_results results;
};

enum base_status dev_nn_place(void *ctx, size_t index, const struct eng_desc *desc, void **out_at,
                              struct base_error *error)
{
    struct nn_results *results = ctx;
    const unsigned output = results->wanted != NULL ? results->wanted[index] : (unsigned)index;
    if (!dev_vm_dtype_ok(desc->dtype)) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED,
                              "output %u is %s, which is no number in a script", output,
                              eng_dtype_name(desc->dtype));
    }
    size_t bytes = eng_desc_bytes(desc);
    void *block = gc_alloc(bytes > 0 ? bytes : 1, 0);
    if (block == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "output %u of %zu bytes does not fit the heap",
                              output, bytes);
    }
    results->descs[index] = *desc;
    results->blocks[index] = block;
    *out_at = block;
    return BASE_OK;
}

struct eng_array dev_nn_array(const struct dev_vm_tensor *tensor)
{
    struct eng_array array = {.desc = {.dtype = tensor->dtype, .rank = tensor->rank},
                              .data = (void *)(uintptr_t)tensor->data};
    memcpy(array.desc.dims, tensor->dims, tensor->rank * sizeof(int64_t));
    return array;
}

size_t dev_nn_memory(const struct dev_vm *vm, uint32_t but)
{
    const struct dev_vm_job *job = vm->job;
    size_t left = job->model_memory_max != 0 ? job->model_memory_max : DEV_VM_MODEL_MEMORY;
    for (uint32_t i = 0; i < vm->trainer_count; i++) {
        struct eng_trainer_stats stats = {0};
        if (i != but) {
            job->model_port->train->stats(vm->trainers[i], &stats);
        }
        left = left > stats.memory_bytes ? left - stats.memory_bytes : 1;
    }
    for (uint32_t i = 0; i < DEV_VM_SESSIONS_MAX; i++) {
        const struct dev_session *session = vm->sessions[i];
        size_t bytes = session != NULL ? job->model_port->sessions->bytes(session) : 0;
        left = left > bytes ? left - bytes : 1;
    }
    return left;
}

struct eng_run_options dev_nn_limits(struct dev_vm *vm)
{
    uint64_t left = dev_vm_budget_left(vm);
    bool is_open = left > UINT64_MAX / DEV_VM_WORK_PER_UNIT;
    return (struct eng_run_options){.deadline_us = vm->deadline_us,
                                    .stop = &vm->interrupted,
                                    .work_max = is_open ? 0 : left * DEV_VM_WORK_PER_UNIT};
}

void dev_nn_charge(struct base_str name, uint64_t work, enum base_status status,
                   const struct base_error *error)
{
    bool over = dev_vm_budget_charge(work / DEV_VM_WORK_PER_UNIT);
    if (!over && status == BASE_ERR_TIMEOUT) { // the next command would have been too much
        over = dev_vm_budget_charge(dev_vm_budget_left(dev_vm_current));
    }
    if (over) {
        dev_vm_over_budget();
    }
    if (status != BASE_OK) {
        dev_nn_raise(name, status, error);
    }
}

// Calls nothing that jumps.
static enum base_status port_call(struct call *call, uint64_t *out_work, struct base_error *error)
{
    struct dev_vm *vm = dev_vm_current;
    struct eng_array inputs[PORTS_MAX];
    call->results.wanted = call->wanted.numbers;
    for (size_t i = 0; i < call->inputs.count; i++) {
        inputs[i] = dev_nn_array(call->inputs.tensors[i]);
    }
    struct dev_model_call port_call = {
        .inputs = inputs,
        .input_count = call->inputs.count,
        .values = call->wanted.values,
        .value_count = call->wanted.value_count,
        .wanted = call->wanted.numbers,
        .wanted_count = call->wanted.count,
        .memory_bytes_max = dev_nn_memory(vm, DEV_NN_ALL),
        .limits = dev_nn_limits(vm),
        .place = {dev_nn_place, &call->results},
    };
    dev_vm_model_begins(vm);
    vm->away = true;
    enum base_status status = port_of_run()->call(dev_nn_held(call->object), &port_call, error);
    vm->away = false;
    dev_vm_model_ends(vm);
    *out_work = port_call.work;
    return status;
}

// Runs the model. Returns with the results in the call, or raises.
static void call_run(struct call *call)
{
    struct base_error error = {.status = BASE_OK};
    uint64_t work = 0;
    if (dev_vm_budget_charge(1)) {
        dev_vm_over_budget();
    }
    enum base_status status = port_call(call, &work, &error);
    dev_nn_charge(name_of(call->object), work, status, &error);
}

static mp_obj_t result_object(const struct call *call, size_t index)
{
    return dev_vm_tensor_over(&call->results.descs[index], call->results.blocks[index]);
}

const struct dev_vm_tensor *dev_nn_input(const struct eng_port_info *port, mp_obj_t value)
{
    if (mp_obj_is_exact_type(value, &dev_vm_tensor_type)) {
        return MP_OBJ_TO_PTR(value);
    }
    if (port->desc.dtype != ENG_UNDEFINED && !dev_vm_dtype_ok(port->desc.dtype)) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: input \"%s\" is of %s, which no number is"),
                          port->name, eng_dtype_name(port->desc.dtype));
    }
    return dev_vm_tensor_of(value, port->desc.dtype);
}

void dev_nn_inputs_placed(const struct nn_model_object *model, size_t count, size_t named,
                          const mp_obj_t *args, struct nn_inputs *out)
{
    out->count = dev_nn_port_count(model, true);
    mp_arg_check_num(count, named, out->count, out->count, false);
    for (size_t i = 0; i < count; i++) {
        out->tensors[i] = dev_nn_input(dev_nn_port(model, true, i), args[i]);
    }
}

// m(x, ...): a tensor, or a tuple of them when the model has several outputs.
static mp_obj_t model_call(mp_obj_t self, size_t count, size_t named, const mp_obj_t *args)
{
    struct call call = {.object = MP_OBJ_TO_PTR(self)};
    dev_nn_inputs_placed(call.object, count, named, args, &call.inputs);
    dev_nn_choose(call.object, mp_const_none, &call.wanted);
    call_run(&call);
    if (call.wanted.count == 1) {
        return result_object(&call, 0);
    }
    mp_obj_t results[PORTS_MAX];
    for (size_t i = 0; i < call.wanted.count; i++) {
        results[i] = result_object(&call, i);
    }
    return mp_obj_new_tuple(call.wanted.count, results);
}

// --- run by name

void dev_nn_inputs_named(const struct nn_model_object *model, mp_obj_t dict, struct nn_inputs *out)
{
    if (!mp_obj_is_dict_or_ordereddict(dict)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: run takes a dict of inputs"));
    }
    const mp_map_t *given = mp_obj_dict_get_map(dict);
    out->count = dev_nn_port_count(model, true);
    uint32_t ticks = 0;
    for (size_t i = 0; i < given->alloc && dev_vm_tick(&ticks); i++) {
        if (mp_map_slot_is_filled(given, i)) {
            size_t index = dev_nn_port_find(model, true, given->table[i].key);
            out->tensors[index] =
                dev_nn_input(dev_nn_port(model, true, index), given->table[i].value);
        }
    }
    for (size_t i = 0; i < out->count; i++) {
        if (out->tensors[i] == NULL) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.nn: input \"%s\" is not given"),
                              dev_nn_port(model, true, i)->name);
        }
    }
}

void dev_nn_choose(const struct nn_model_object *model, mp_obj_t names, struct nn_wanted *out)
{
    const size_t outputs = dev_nn_port_count(model, false);
    size_t count = outputs;
    mp_obj_t *items = NULL;
    if (names != mp_const_none) {
        mp_obj_get_array(names, &count, &items);
    }
    if (count > PORTS_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: too many outputs"));
    }
    out->count = count;
    out->value_count = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = items != NULL ? mp_obj_str_get_str(items[i]) : NULL;
        size_t index = name != NULL ? port_index(model, false, name) : i;
        if (index == outputs) { // the engine knows whether the graph has it
            out->values[out->value_count] = name;
            index += out->value_count++;
        }
        out->numbers[i] = (uint8_t)index;
    }
}

// m.run({"x": x}, ["y"]): a dict of outputs, or of any tensors in the graph, by name; without the
// second, all outputs.
static mp_obj_t model_run(size_t count, const mp_obj_t *args)
{
    struct call call = {.object = MP_OBJ_TO_PTR(args[0])};
    dev_nn_inputs_named(call.object, args[1], &call.inputs);
    dev_nn_choose(call.object, count > 2 ? args[2] : mp_const_none, &call.wanted);
    call_run(&call);
    const size_t outputs = dev_nn_port_count(call.object, false);
    mp_obj_t results = mp_obj_new_dict(call.wanted.count);
    for (size_t i = 0; i < call.wanted.count; i++) {
        const size_t number = call.wanted.numbers[i];
        const char *name = number < outputs ? dev_nn_port(call.object, false, number)->name
                                            : call.wanted.values[number - outputs];
        mp_obj_dict_store(results, str_object(name), result_object(&call, i));
    }
    return results;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(model_run_obj, 2, 3, model_run);

// --- the object

static void model_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct nn_model_object *object = MP_OBJ_TO_PTR(self);
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (attr) {
    case MP_QSTR_inputs:
        dest[0] = ports_object(object, true);
        return;
    case MP_QSTR_outputs:
        dest[0] = ports_object(object, false);
        return;
    case MP_QSTR_run:
        dest[0] = MP_OBJ_FROM_PTR(&model_run_obj);
        dest[1] = self;
        return;
    default:
        return;
    }
}

static void model_print(const mp_print_t *print, mp_obj_t self, mp_print_kind_t kind)
{
    (void)kind;
    struct base_str name = name_of(MP_OBJ_TO_PTR(self));
    mp_printf(print, "<Model %.*s>", (int)name.size, name.data);
}

MP_DEFINE_CONST_OBJ_TYPE(dev_vm_model_type, MP_QSTR_Model, MP_TYPE_FLAG_NONE, print, model_print,
                         call, model_call, attr, model_attr);

static const mp_rom_map_elem_t nn_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_nn)},
    {MP_ROM_QSTR(MP_QSTR_load), MP_ROM_PTR(&load_obj)},
    {MP_ROM_QSTR(MP_QSTR_Session), MP_ROM_PTR(&dev_nn_session_type)},
    {MP_ROM_QSTR(MP_QSTR_tensor), MP_ROM_PTR(&dev_vm_tensor_obj)},
    {MP_ROM_QSTR(MP_QSTR_Tensor), MP_ROM_PTR(&dev_vm_tensor_type)},
    {MP_ROM_QSTR(MP_QSTR_Trainer), MP_ROM_PTR(&dev_nn_trainer_type)},
};
static MP_DEFINE_CONST_DICT(nn_globals, nn_globals_table);

const mp_obj_module_t dev_vm_module_nn = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&nn_globals,
};
