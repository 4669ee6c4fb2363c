// nn.Trainer: a script fits a model of its version to examples it has, on the device. The trainer
// is the host's, through a table (model/train_port.h), and the run's: it goes when the run ends, so
// it needs no finaliser. What it came to is kept by walle.store, as bytes under a key.
//
// Runs on the VM's thread. No exception jumps over a call of the port.
#include "vm/vm_nn_call.h"

#include "model/train_port.h"
#include "vm/vm_state.h"
#include "vm/vm_store.h"

#include "py/objstr.h"
#include "py/runtime.h"

#include "vm_hooks.h"

#include <string.h>

#define PORTS_MAX DEV_VM_MODEL_PORTS_MAX

struct trainer_object {
    mp_obj_base_t base;
    uint32_t index; // among the run's trainers
    uint32_t model; // among the job's models
    enum eng_loss loss;
};

static const struct dev_train_port *train_port(void)
{
    return dev_vm_current->job->model_port->train;
}

static struct eng_trainer *held(const struct trainer_object *object)
{
    return dev_vm_current->trainers[object->index];
}

static const struct dev_model *model_of(const struct trainer_object *object)
{
    return dev_vm_current->models[object->model];
}

// --- making --------------------------------------------------------------------------------------

static uint32_t word_of(mp_obj_t given, const char *argument, const char *const *words,
                        uint32_t count)
{
    const char *word = mp_obj_str_get_str(given);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: no %s \"%s\""), argument, word);
}

// Names, or beginnings of names with a star behind them.
static size_t names_take(mp_obj_t given, const char **out_names)
{
    size_t count = 0;
    mp_obj_t *items = NULL;
    if (given == mp_const_none) {
        return 0;
    }
    if (mp_obj_is_str(given)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: freeze and train take a list of names"));
    }
    mp_obj_get_array(given, &count, &items);
    if (count > DEV_VM_TRAIN_NAMES_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: more than %d names"),
                          DEV_VM_TRAIN_NAMES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        out_names[i] = mp_obj_str_get_str(items[i]);
    }
    return count;
}

// `train=[]` trains nothing, as `freeze=["*"]` does; not given it trains all.
static size_t trained_take(mp_obj_t given, const char **out_names)
{
    size_t count = names_take(given, out_names);
    if (given != mp_const_none && count == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: train names nothing to train"));
    }
    return count;
}

static mp_obj_t trainer_made(const struct nn_model_object *model,
                             const struct eng_trainer_options *options)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_error error = {.status = BASE_OK};
    struct eng_trainer_stats stats;
    struct trainer_object *object = mp_obj_malloc(struct trainer_object, &dev_nn_trainer_type);
    *object = (struct trainer_object){
        .base = object->base,
        .index = vm->trainer_count,
        .model = model->index,
        .loss = options->loss,
    };
    if (dev_vm_budget_charge(1 + vm->job->models[model->index].size / DEV_VM_LOAD_PER_UNIT)) {
        dev_vm_over_budget();
    }
    const struct dev_train_want want = {options, dev_nn_limits(vm)};
    enum base_status status =
        train_port()->make(model_of(object), &want, &vm->trainers[object->index], &error);
    dev_nn_charge(dev_nn_name(model->index), 0, status, &error);
    vm->trainer_count++;
    train_port()->stats(held(object), &stats);
    if (dev_vm_budget_charge(stats.parameter_bytes / DEV_VM_COPY_PER_UNIT)) {
        dev_vm_over_budget();
    }
    return MP_OBJ_FROM_PTR(object);
}

static const struct nn_model_object *model_take(mp_obj_t given)
{
    const struct dev_vm *vm = dev_vm_current;
    if (!mp_obj_is_exact_type(given, &dev_vm_model_type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: a trainer is made of a model of nn.load"));
    }
    if (train_port() == NULL) {
        mp_raise_msg(&mp_type_OSError, MP_ERROR_TEXT("models are not trained here"));
    }
    if (vm->trainer_count == DEV_VM_TRAINERS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: more than %d trainers in a run"),
                          DEV_VM_TRAINERS_MAX);
    }
    return MP_OBJ_TO_PTR(given);
}

// Trainer(model, loss="cross_entropy", optimizer="sgd", lr=0.01, freeze=None, train=None,
//         momentum=0, weight_decay=0, output=None, probabilities=False, batch_norm="frozen")
static mp_obj_t trainer_new(const mp_obj_type_t *type, size_t count, size_t named,
                            const mp_obj_t *args)
{
    enum { MODEL, LOSS, OPTIMIZER, RATE, FREEZE, TRAIN, MOMENTUM, DECAY, OUTPUT, SURE, NORM, ALL };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_model, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_loss, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_cross_entropy)}},
        {MP_QSTR_optimizer, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_sgd)}},
        {MP_QSTR_lr, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_freeze, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_train, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_momentum, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_weight_decay, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_output, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_probabilities, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_batch_norm, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_frozen)}},
    };
    static const char *const losses[] = {"cross_entropy", "mse", "bce"};
    static const char *const optimizers[] = {"sgd", "adam"};
    static const char *const norms[] = {"frozen", "train"};
    mp_arg_val_t given[ALL];
    const char *frozen[DEV_VM_TRAIN_NAMES_MAX];
    const char *trained[DEV_VM_TRAIN_NAMES_MAX];
    (void)type;
    mp_arg_parse_all_kw_array(count, named, args, ALL, allowed, given);
    const struct nn_model_object *model = model_take(given[MODEL].u_obj);
    mp_obj_t rate = given[RATE].u_obj, output = given[OUTPUT].u_obj;
    const struct eng_trainer_options options = {
        .loss = word_of(given[LOSS].u_obj, "loss", losses, MP_ARRAY_SIZE(losses)),
        .output = output != mp_const_none ? mp_obj_str_get_str(output) : NULL,
        .from_probabilities = given[SURE].u_bool,
        .optimizer =
            word_of(given[OPTIMIZER].u_obj, "optimizer", optimizers, MP_ARRAY_SIZE(optimizers)),
        .learning_rate = rate != mp_const_none ? (float)mp_obj_get_float(rate) : 0.01F,
        .momentum = (float)mp_obj_get_float(given[MOMENTUM].u_obj),
        .weight_decay = (float)mp_obj_get_float(given[DECAY].u_obj),
        .frozen = frozen,
        .frozen_count = names_take(given[FREEZE].u_obj, frozen),
        .trained = trained,
        .trained_count = trained_take(given[TRAIN].u_obj, trained),
        .batch_statistics =
            word_of(given[NORM].u_obj, "batch_norm", norms, MP_ARRAY_SIZE(norms)) == 1,
        .memory_bytes_max = dev_nn_memory(dev_vm_current, DEV_NN_ALL),
    };
    return trainer_made(model, &options);
}

// --- examples ------------------------------------------------------------------------------------

struct examples {
    const struct trainer_object *trainer;
    const struct dev_vm_tensor *inputs[PORTS_MAX]; // the collector finds them here
    const struct dev_vm_tensor *target;            // NULL: none is given
};

static const struct eng_port_info *input_port(const struct examples *examples, size_t index)
{
    const struct dev_model_port *port = dev_vm_current->job->model_port;
    return port->port(model_of(examples->trainer), true, index);
}

static void named_take(struct examples *examples, size_t count, mp_obj_t dict)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = input_port(examples, i)->name;
        mp_map_t *map = mp_obj_dict_get_map(dict);
        mp_map_elem_t *found =
            mp_map_lookup(map, mp_obj_new_str(name, strlen(name)), MP_MAP_LOOKUP);
        if (found == NULL) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.nn: input \"%s\" is not given"), name);
        }
        examples->inputs[i] = dev_nn_input(input_port(examples, i), found->value);
    }
    if (mp_obj_dict_get_map(dict)->used != count) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: the model has %d inputs"),
                          (int)count);
    }
}

static bool is_row(mp_obj_t value)
{
    return mp_obj_is_exact_type(value, &mp_type_list) ||
           mp_obj_is_exact_type(value, &mp_type_tuple);
}

// An array that is the one thing in a list or tuple: as many as the model has.
static mp_obj_t sole(mp_obj_t given)
{
    size_t size = 0;
    mp_obj_t *items = NULL;
    if (is_row(given)) {
        mp_obj_get_array(given, &size, &items);
    }
    if (size != 1) {
        return given;
    }
    mp_obj_t only = items[0];
    bool is_value = is_row(only) || mp_obj_is_int(only) || mp_obj_get_type(only) == &mp_type_float;
    return is_value ? given : only;
}

// By name; or the input where the model has one; or as many as it has.
static size_t inputs_take(struct examples *examples, mp_obj_t given)
{
    const struct dev_model_port *port = dev_vm_current->job->model_port;
    size_t count = port->port_count(model_of(examples->trainer), true);
    if (mp_obj_is_dict_or_ordereddict(given)) {
        named_take(examples, count, given);
    } else if (count == 1) {
        examples->inputs[0] = dev_nn_input(input_port(examples, 0), sole(given));
    } else {
        size_t size;
        mp_obj_t *items;
        mp_obj_get_array(given, &size, &items);
        if (size != count) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.nn: the model has %d inputs, not %d"),
                              (int)count, (int)size);
        }
        for (size_t i = 0; i < count; i++) {
            examples->inputs[i] = dev_nn_input(input_port(examples, i), items[i]);
        }
    }
    return count;
}

// Is the first number of nested lists a whole one?
static bool begins_whole(mp_obj_t values)
{
    for (uint32_t depth = 0; depth < ENG_RANK_MAX; depth++) {
        size_t size;
        mp_obj_t *items;
        if (!is_row(values)) {
            break;
        }
        mp_obj_get_array(values, &size, &items);
        if (size == 0) {
            break;
        }
        values = items[0];
    }
    return mp_obj_is_int(values);
}

// Whole numbers are classes where the loss takes classes; all else is float32.
static const struct dev_vm_tensor *target_take(const struct trainer_object *trainer, mp_obj_t value)
{
    const bool takes_classes = trainer->loss == ENG_LOSS_CROSS_ENTROPY;
    if (is_row(value) || mp_obj_is_int(value)) {
        return dev_vm_tensor_of(value, takes_classes && begins_whole(value) ? ENG_I64 : ENG_F32);
    }
    const struct dev_vm_tensor *tensor = dev_vm_tensor_of(value, ENG_UNDEFINED);
    enum eng_dtype want = ENG_F32;
    if (takes_classes && dev_vm_dtype_is_whole(tensor->dtype)) {
        want = tensor->dtype == ENG_I32 ? ENG_I32 : ENG_I64;
    }
    return dev_vm_tensor_of(MP_OBJ_FROM_PTR(tensor), want);
}

// --- calls ---------------------------------------------------------------------------------------

// Runs it; returns when it went well.
static void call_run(const struct examples *examples, size_t count, struct dev_train_call *call)
{
    struct dev_vm *vm = dev_vm_current;
    const struct trainer_object *object = examples->trainer;
    struct base_error error = {.status = BASE_OK};
    struct eng_array inputs[PORTS_MAX];
    struct eng_array target;
    if (dev_vm_budget_charge(1)) {
        dev_vm_over_budget();
    }
    struct eng_run_options limits = dev_nn_limits(vm);
    for (size_t i = 0; i < count; i++) {
        inputs[i] = dev_nn_array(examples->inputs[i]);
    }
    if (examples->target != NULL) {
        target = dev_nn_array(examples->target);
    }
    call->batch = (struct eng_batch){.inputs = inputs,
                                     .input_count = count,
                                     .target = examples->target != NULL ? &target : NULL,
                                     .limits = &limits};
    call->memory_bytes_max = dev_nn_memory(vm, object->index);
    dev_vm_model_begins(vm);
    enum base_status status = train_port()->call(held(object), call, &error);
    dev_vm_model_ends(vm);
    dev_nn_charge(dev_nn_name(object->model), call->work, status, &error);
}

static float judged(const mp_obj_t *args, enum dev_train_kind kind)
{
    struct examples examples = {.trainer = MP_OBJ_TO_PTR(args[0])};
    struct dev_train_call call = {.kind = kind};
    size_t count = inputs_take(&examples, args[1]);
    examples.target = target_take(examples.trainer, args[2]);
    call_run(&examples, count, &call);
    return call.loss;
}

// step(inputs, targets): the loss before the update
static mp_obj_t trainer_step(mp_obj_t self, mp_obj_t inputs, mp_obj_t targets)
{
    const mp_obj_t args[] = {self, inputs, targets};
    return mp_obj_new_float((mp_float_t)judged(args, DEV_TRAIN_STEP));
}
static MP_DEFINE_CONST_FUN_OBJ_3(trainer_step_obj, trainer_step);

// evaluate(inputs, targets): the loss
static mp_obj_t trainer_evaluate(mp_obj_t self, mp_obj_t inputs, mp_obj_t targets)
{
    const mp_obj_t args[] = {self, inputs, targets};
    return mp_obj_new_float((mp_float_t)judged(args, DEV_TRAIN_EVALUATE));
}
static MP_DEFINE_CONST_FUN_OBJ_3(trainer_evaluate_obj, trainer_evaluate);

// value_and_grad(inputs, targets): the loss, and a dict of its gradients by parameter
static mp_obj_t trainer_value_and_grad(mp_obj_t self, mp_obj_t inputs, mp_obj_t targets)
{
    const mp_obj_t args[] = {self, inputs, targets};
    const struct trainer_object *object = MP_OBJ_TO_PTR(self);
    struct eng_parameter parameter;
    float loss = judged(args, DEV_TRAIN_EVALUATE);
    mp_obj_t gradients = mp_obj_new_dict(0);
    for (size_t i = 0; train_port()->parameter(held(object), i, &parameter); i++) {
        size_t bytes = eng_desc_bytes(&parameter.value.desc);
        dev_vm_step();
        if (parameter.gradient == NULL) {
            continue;
        }
        dev_vm_work(bytes / DEV_VM_COPY_PER_UNIT);
        uint8_t *block = m_new(uint8_t, bytes > 0 ? bytes : 1);
        memcpy(block, parameter.gradient, bytes);
        mp_obj_dict_store(gradients, mp_obj_new_str(parameter.name, strlen(parameter.name)),
                          dev_vm_tensor_over(&parameter.value.desc, block));
    }
    const mp_obj_t both[] = {mp_obj_new_float((mp_float_t)loss), gradients};
    return mp_obj_new_tuple(2, both);
}
static MP_DEFINE_CONST_FUN_OBJ_3(trainer_value_and_grad_obj, trainer_value_and_grad);

// predict(inputs): as model(...)
static mp_obj_t trainer_predict(mp_obj_t self, mp_obj_t inputs)
{
    const struct dev_model_port *port = dev_vm_current->job->model_port;
    struct examples examples = {.trainer = MP_OBJ_TO_PTR(self)};
    struct nn_results results = {.wanted = NULL};
    struct dev_train_call call = {.kind = DEV_TRAIN_PREDICT, .place = {dev_nn_place, &results}};
    mp_obj_t objects[PORTS_MAX];
    size_t count = inputs_take(&examples, inputs);
    call_run(&examples, count, &call);
    size_t outputs = port->port_count(model_of(examples.trainer), false);
    for (size_t i = 0; i < outputs; i++) {
        objects[i] = dev_vm_tensor_over(&results.descs[i], results.blocks[i]);
    }
    return outputs == 1 ? objects[0] : mp_obj_new_tuple(outputs, objects);
}
static MP_DEFINE_CONST_FUN_OBJ_2(trainer_predict_obj, trainer_predict);

// --- what it came to -----------------------------------------------------------------------------

// save(key): kept by walle.store, with the run's other changes of it
static mp_obj_t trainer_save(mp_obj_t self, mp_obj_t key)
{
    const struct trainer_object *object = MP_OBJ_TO_PTR(self);
    struct base_error error = {.status = BASE_OK};
    size_t bytes = train_port()->state_bytes(held(object));
    vstr_t made;
    if (bytes > DEV_VM_STORE_VALUE_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: what is trained is %d KiB, a store keeps %d"),
                          (int)(bytes / 1024), DEV_VM_STORE_VALUE_MAX / 1024);
    }
    dev_vm_work(bytes / DEV_VM_COPY_PER_UNIT);
    vstr_init_len(&made, bytes);
    enum base_status status = train_port()->state_write(held(object), made.buf, bytes, &error);
    if (status != BASE_OK) {
        dev_nn_raise(dev_nn_name(object->model), status, &error);
    }
    return dev_vm_store_put(key, mp_obj_new_bytes_from_vstr(&made));
}
static MP_DEFINE_CONST_FUN_OBJ_2(trainer_save_obj, trainer_save);

// load(key): goes on from there. False: nothing is kept there
static mp_obj_t trainer_load(mp_obj_t self, mp_obj_t key)
{
    const struct trainer_object *object = MP_OBJ_TO_PTR(self);
    struct base_error error = {.status = BASE_OK};
    mp_obj_t kept = dev_vm_store_get(1, &key);
    mp_buffer_info_t buffer;
    if (kept == mp_const_none) {
        return mp_const_false;
    }
    mp_get_buffer_raise(kept, &buffer, MP_BUFFER_READ);
    dev_vm_work(buffer.len / DEV_VM_COPY_PER_UNIT);
    enum base_status status =
        train_port()->state_read(held(object), buffer.buf, buffer.len, &error);
    if (status != BASE_OK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: %s"), error.text);
    }
    return mp_const_true;
}
static MP_DEFINE_CONST_FUN_OBJ_2(trainer_load_obj, trainer_load);

// export(): bytes of an ONNX file
static mp_obj_t trainer_export(mp_obj_t self)
{
    const struct trainer_object *object = MP_OBJ_TO_PTR(self);
    struct base_error error = {.status = BASE_OK};
    size_t bytes = 0;
    vstr_t made;
    dev_vm_work(dev_vm_current->job->models[object->model].size / DEV_VM_COPY_PER_UNIT);
    enum base_status status =
        train_port()->export_bytes(model_of(object), held(object), &bytes, &error);
    if (status == BASE_OK) {
        dev_vm_work(bytes / DEV_VM_COPY_PER_UNIT);
        vstr_init_len(&made, bytes);
        status = train_port()->export(model_of(object), held(object), made.buf, &error);
    }
    if (status != BASE_OK) {
        dev_nn_raise(dev_nn_name(object->model), status, &error);
    }
    return mp_obj_new_bytes_from_vstr(&made);
}
static MP_DEFINE_CONST_FUN_OBJ_1(trainer_export_obj, trainer_export);

// --- the object ----------------------------------------------------------------------------------

// (name, shape, is it trained?) of each parameter
static mp_obj_t parameters_object(const struct trainer_object *object)
{
    struct eng_parameter parameter;
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (size_t i = 0; train_port()->parameter(held(object), i, &parameter); i++) {
        const struct eng_desc *desc = &parameter.value.desc;
        mp_obj_t dims[ENG_RANK_MAX];
        dev_vm_step();
        for (uint32_t d = 0; d < desc->rank; d++) {
            dims[d] = mp_obj_new_int_from_ll(desc->dims[d]);
        }
        const mp_obj_t items[] = {
            mp_obj_new_str(parameter.name, strlen(parameter.name)),
            mp_obj_new_tuple(desc->rank, dims),
            mp_obj_new_bool(!parameter.is_frozen),
        };
        mp_obj_list_append(list, mp_obj_new_tuple(MP_ARRAY_SIZE(items), items));
    }
    return list;
}

static void rate_set(const struct trainer_object *object, mp_obj_t value)
{
    if (train_port()->set_learning_rate(held(object), (float)mp_obj_get_float(value)) != BASE_OK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: a learning rate is above 0"));
    }
}

static void trainer_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct trainer_object *object = MP_OBJ_TO_PTR(self);
    struct eng_trainer_stats stats;
    if (dest[0] != MP_OBJ_NULL) {
        if (attr == MP_QSTR_lr && dest[1] != MP_OBJ_NULL) {
            rate_set(object, dest[1]);
            dest[0] = MP_OBJ_NULL; // it is done
        }
        return;
    }
    train_port()->stats(held(object), &stats);
    switch (attr) {
    case MP_QSTR_lr:
        dest[0] = mp_obj_new_float((mp_float_t)stats.learning_rate);
        return;
    case MP_QSTR_steps:
        dest[0] = mp_obj_new_int_from_ull(stats.step_count);
        return;
    case MP_QSTR_parameters:
        dest[0] = parameters_object(object);
        return;
    default:
        dest[1] = MP_OBJ_SENTINEL; // go on with the methods
        return;
    }
}

static const mp_rom_map_elem_t trainer_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_evaluate), MP_ROM_PTR(&trainer_evaluate_obj)},
    {MP_ROM_QSTR(MP_QSTR_export), MP_ROM_PTR(&trainer_export_obj)},
    {MP_ROM_QSTR(MP_QSTR_load), MP_ROM_PTR(&trainer_load_obj)},
    {MP_ROM_QSTR(MP_QSTR_predict), MP_ROM_PTR(&trainer_predict_obj)},
    {MP_ROM_QSTR(MP_QSTR_save), MP_ROM_PTR(&trainer_save_obj)},
    {MP_ROM_QSTR(MP_QSTR_step), MP_ROM_PTR(&trainer_step_obj)},
    {MP_ROM_QSTR(MP_QSTR_value_and_grad), MP_ROM_PTR(&trainer_value_and_grad_obj)},
};
static MP_DEFINE_CONST_DICT(trainer_locals, trainer_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(dev_nn_trainer_type, MP_QSTR_Trainer, MP_TYPE_FLAG_NONE, make_new,
                         trainer_new, attr, trainer_attr, locals_dict, &trainer_locals);
