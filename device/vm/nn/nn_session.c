// nn.Session: a model of the version planned once for fixed shapes, and run many times. The session
// is the host's, through a table (model/session_port.h), and the run's: it goes when the script
// closes it or the run ends, so it needs no finaliser.
//
// Runs on the VM's thread. No exception jumps over a call of the port.
#include "vm/vm_nn_call.h"

#include "model/session_port.h"
#include "vm/np/np.h"
#include "vm/vm_np.h"
#include "vm/vm_state.h"

#include "py/runtime.h"

#include "vm_hooks.h"

#include <string.h>

#define PORTS_MAX DEV_VM_MODEL_PORTS_MAX
#define CLOSED    UINT32_MAX

struct session_object {
    mp_obj_base_t base;
    uint32_t index; // among the run's sessions; CLOSED: of none
    const struct nn_model_object *model;
    mp_obj_t names; // of what it gives: a tuple
};

// What it is planned for.
struct shapes {
    struct eng_desc inputs[PORTS_MAX];
    size_t count;
};

static const struct dev_session_port *session_port(void)
{
    return dev_vm_current->job->model_port->sessions;
}

static struct dev_session *held(const struct session_object *object)
{
    if (object->index == CLOSED) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: the session is closed"));
    }
    return dev_vm_current->sessions[object->index];
}

// --- making --------------------------------------------------------------------------------------

// A whole number, or a list or tuple of them.
static void shape_take(mp_obj_t given, const char *name, struct eng_desc *desc)
{
    size_t rank = 1;
    mp_obj_t *items = &given;
    if (!mp_obj_is_int(given)) {
        mp_obj_get_array(given, &rank, &items);
    }
    if (rank > ENG_RANK_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: input \"%s\" of more than %d dimensions"), name,
                          ENG_RANK_MAX);
    }
    desc->rank = (uint32_t)rank;
    for (size_t d = 0; d < rank; d++) {
        desc->dims[d] = mp_obj_get_int(items[d]);
        if (desc->dims[d] < 0) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.nn: input \"%s\" has a size below 0"), name);
        }
    }
}

static bool is_open(const struct eng_desc *desc)
{
    for (uint32_t d = 0; d < desc->rank; d++) {
        if (desc->dims[d] < 0) {
            return true;
        }
    }
    return false;
}

// The shapes a script gives by name; of inputs that it does not name, those of the file.
static void shapes_take(const struct nn_model_object *model, mp_obj_t given, struct shapes *out)
{
    mp_obj_t shapes[PORTS_MAX] = {MP_OBJ_NULL};
    out->count = dev_nn_port_count(model, true);
    if (given != mp_const_none) {
        if (!mp_obj_is_dict_or_ordereddict(given)) {
            mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: a session takes a dict of shapes"));
        }
        const mp_map_t *map = mp_obj_dict_get_map(given);
        uint32_t ticks = 0;
        for (size_t i = 0; i < map->alloc && dev_vm_tick(&ticks); i++) {
            if (mp_map_slot_is_filled(map, i)) {
                shapes[dev_nn_port_find(model, true, map->table[i].key)] = map->table[i].value;
            }
        }
    }
    for (size_t i = 0; i < out->count; i++) {
        const struct eng_port_info *port = dev_nn_port(model, true, i);
        out->inputs[i] = port->desc;
        if (shapes[i] != MP_OBJ_NULL) {
            shape_take(shapes[i], port->name, &out->inputs[i]);
        } else if (!port->has_shape || is_open(&port->desc)) {
            mp_raise_msg_varg(
                &mp_type_ValueError,
                MP_ERROR_TEXT("walle.nn: the shape of input \"%s\" is open: a session "
                              "is told it"),
                port->name);
        }
    }
}

// Opens it in a place that is free. Returns, or raises with the object closed.
static void session_open(struct session_object *object, const struct shapes *shapes)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_error error = {.status = BASE_OK};
    struct nn_wanted wanted;
    uint32_t index = 0;
    while (index < DEV_VM_SESSIONS_MAX && vm->sessions[index] != NULL) {
        index++;
    }
    if (index == DEV_VM_SESSIONS_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: more than %d open sessions in a run"),
                          DEV_VM_SESSIONS_MAX);
    }
    dev_nn_choose(object->model, object->names, &wanted);
    const uint32_t model = object->model->index;
    if (dev_vm_budget_charge(1 + vm->job->models[model].size / DEV_VM_LOAD_PER_UNIT)) {
        dev_vm_over_budget();
    }
    const struct dev_session_shapes want = {
        .inputs = shapes->inputs,
        .input_count = shapes->count,
        .values = wanted.values,
        .value_count = wanted.value_count,
        .memory_bytes_max = dev_nn_memory(vm, DEV_NN_ALL),
        .limits = dev_nn_limits(vm),
    };
    vm->away = true;
    enum base_status status =
        session_port()->open(dev_nn_held(object->model), &want, &vm->sessions[index], &error);
    vm->away = false;
    dev_nn_charge(dev_nn_name(model), 0, status, &error);
    object->index = index;
}

static void session_close(struct session_object *object)
{
    struct dev_vm *vm = dev_vm_current;
    if (object->index != CLOSED) {
        session_port()->close(vm->sessions[object->index]);
        vm->sessions[object->index] = NULL;
        object->index = CLOSED;
    }
}

static mp_obj_t names_object(const struct nn_model_object *model, mp_obj_t given)
{
    mp_obj_t names[PORTS_MAX];
    size_t count = 0;
    mp_obj_t *items = NULL;
    struct nn_wanted wanted;
    dev_nn_choose(model, given, &wanted); // raises for what is no list of names
    if (given != mp_const_none) {
        mp_obj_get_array(given, &count, &items);
        return mp_obj_new_tuple(count, items);
    }
    for (; count < wanted.count; count++) {
        const char *name = dev_nn_port(model, false, count)->name;
        names[count] = mp_obj_new_str(name, strlen(name));
    }
    return mp_obj_new_tuple(count, names);
}

// Session(model, inputs=None, outputs=None)
static mp_obj_t session_new(const mp_obj_type_t *type, size_t count, size_t named,
                            const mp_obj_t *args)
{
    enum { MODEL, INPUTS, OUTPUTS, ALL };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_model, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_inputs, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_outputs, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t given[ALL];
    struct shapes shapes;
    mp_arg_parse_all_kw_array(count, named, args, ALL, allowed, given);
    if (!mp_obj_is_exact_type(given[MODEL].u_obj, &dev_vm_model_type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: a session is made of a model of nn.load"));
    }
    if (session_port() == NULL) {
        mp_raise_msg(&mp_type_OSError, MP_ERROR_TEXT("models have no sessions here"));
    }
    const struct nn_model_object *model = MP_OBJ_TO_PTR(given[MODEL].u_obj);
    struct session_object *object = mp_obj_malloc(struct session_object, type);
    object->index = CLOSED;
    object->model = model;
    object->names = names_object(model, given[OUTPUTS].u_obj);
    shapes_take(model, given[INPUTS].u_obj, &shapes);
    session_open(object, &shapes);
    return MP_OBJ_FROM_PTR(object);
}

// --- running -------------------------------------------------------------------------------------

// Where results go: new tensors, or arrays that the script has.
struct targets {
    struct nn_results results;
    struct np_array *arrays[PORTS_MAX]; // by place; NULL: a new tensor
};

// As dev_model_call.place, with struct targets for `ctx`. The arrays were found to fit.
static enum base_status target_place(void *ctx, size_t index, const struct eng_desc *desc,
                                     void **out_at, struct base_error *error)
{
    struct targets *targets = ctx;
    if (targets->arrays[index] == NULL) {
        return dev_nn_place(&targets->results, index, desc, out_at, error);
    }
    *out_at = targets->arrays[index]->data;
    return BASE_OK;
}

static bool is_dense(const struct np_array *array)
{
    int64_t step = (int64_t)eng_dtype_bytes(dev_np_dtype(array->type));
    for (uint32_t d = array->rank; d > 0; d--) {
        if (array->dims[d - 1] != 1 && array->steps[d - 1] != step) {
            return false;
        }
        step *= array->dims[d - 1];
    }
    return true;
}

// An array that holds exactly what the output is, or raises.
static struct np_array *target_take(const struct session_object *object, size_t number,
                                    mp_obj_t name, mp_obj_t given)
{
    struct base_error error = {.status = BASE_OK};
    struct eng_desc want;
    char text[96];
    if (!mp_obj_is_exact_type(given, &dev_np_array_type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: out is a dict of arrays of walle.np"));
    }
    struct np_array *array = MP_OBJ_TO_PTR(given);
    enum base_status status = session_port()->output(held(object), number, &want, &error);
    if (status != BASE_OK) {
        dev_nn_raise(dev_nn_name(object->model->index), status, &error);
    }
    struct eng_desc have = {.dtype = dev_np_dtype(array->type), .rank = array->rank};
    memcpy(have.dims, array->dims, array->rank * sizeof(have.dims[0]));
    if (!eng_desc_equal(&have, &want) || array->is_read_only || !is_dense(array)) {
        mp_raise_msg_varg(
            &mp_type_ValueError,
            MP_ERROR_TEXT("walle.nn: output \"%s\" goes into an array of %s that lies "
                          "in one piece and may change"),
            mp_obj_str_get_str(name), eng_desc_text(&want, text, sizeof(text)));
    }
    return array;
}

// The arrays of a dict by name, for what the session gives.
static void targets_take(const struct session_object *object, mp_obj_t given, struct targets *out)
{
    struct nn_wanted wanted;
    size_t count = 0;
    mp_obj_t *names = NULL;
    if (!mp_obj_is_dict_or_ordereddict(given)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: out is a dict of arrays of walle.np"));
    }
    mp_map_t *map = mp_obj_dict_get_map(given);
    dev_nn_choose(object->model, object->names, &wanted);
    mp_obj_get_array(object->names, &count, &names);
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        mp_map_elem_t *element = mp_map_lookup(map, names[i], MP_MAP_LOOKUP);
        if (element != NULL) {
            out->arrays[i] = target_take(object, wanted.numbers[i], names[i], element->value);
            found++;
        }
        for (size_t other = 0; element != NULL && other < i; other++) {
            if (out->arrays[other] != NULL && dev_np_overlap(out->arrays[other], out->arrays[i])) {
                mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: two outputs go into one array"));
            }
        }
    }
    if (found < map->used) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: out names what the session does not give"));
    }
}

// Runs it; fills as many objects as it has names.
static size_t session_call(const struct session_object *object, const struct nn_inputs *inputs,
                           struct targets *targets, mp_obj_t *out_objects)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_error error = {.status = BASE_OK};
    struct eng_array arrays[PORTS_MAX];
    struct nn_wanted wanted;
    struct dev_session *session = held(object);
    dev_nn_choose(object->model, object->names, &wanted);
    targets->results.wanted = wanted.numbers;
    if (dev_vm_budget_charge(1)) {
        dev_vm_over_budget();
    }
    for (size_t i = 0; i < inputs->count; i++) {
        arrays[i] = dev_nn_array(inputs->tensors[i]);
    }
    struct dev_model_call call = {
        .inputs = arrays,
        .input_count = inputs->count,
        .wanted = wanted.numbers,
        .wanted_count = wanted.count,
        .limits = dev_nn_limits(vm),
        .place = {target_place, targets},
    };
    dev_vm_model_begins(vm);
    vm->away = true;
    enum base_status status = session_port()->call(session, &call, &error);
    vm->away = false;
    dev_vm_model_ends(vm);
    dev_nn_charge(dev_nn_name(object->model->index), call.work, status, &error);
    for (size_t i = 0; i < wanted.count; i++) {
        out_objects[i] =
            targets->arrays[i] != NULL
                ? MP_OBJ_FROM_PTR(targets->arrays[i])
                : dev_vm_tensor_over(&targets->results.descs[i], targets->results.blocks[i]);
    }
    return wanted.count;
}

// s(x, ...): a tensor, or a tuple of as many as it gives
static mp_obj_t session_placed(mp_obj_t self, size_t count, size_t named, const mp_obj_t *args)
{
    const struct session_object *object = MP_OBJ_TO_PTR(self);
    struct nn_inputs inputs = {.count = 0};
    mp_obj_t objects[PORTS_MAX];
    struct targets targets = {.arrays = {NULL}};
    dev_nn_inputs_placed(object->model, count, named, args, &inputs);
    size_t got = session_call(object, &inputs, &targets, objects);
    return got == 1 ? objects[0] : mp_obj_new_tuple(got, objects);
}

// run({"x": x}, {"y": array}): a dict of what it gives, by name; what the second names goes there
static mp_obj_t session_run(size_t arg_count, const mp_obj_t *args)
{
    const struct session_object *object = MP_OBJ_TO_PTR(args[0]);
    struct targets targets = {.arrays = {NULL}};
    struct nn_inputs inputs = {.count = 0};
    mp_obj_t objects[PORTS_MAX];
    size_t count = 0;
    mp_obj_t *names = NULL;
    dev_nn_inputs_named(object->model, args[1], &inputs);
    if (arg_count > 2 && args[2] != mp_const_none) {
        targets_take(object, args[2], &targets);
    }
    size_t got = session_call(object, &inputs, &targets, objects);
    mp_obj_get_array(object->names, &count, &names);
    mp_obj_t results = mp_obj_new_dict(got);
    for (size_t i = 0; i < got; i++) {
        mp_obj_dict_store(results, names[i], objects[i]);
    }
    return results;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(session_run_obj, 2, 3, session_run);

// resize({"x": (2, 3)}): planned anew, for these shapes. One that fails leaves it closed.
static mp_obj_t session_resize(mp_obj_t self, mp_obj_t given)
{
    struct session_object *object = MP_OBJ_TO_PTR(self);
    struct shapes shapes;
    (void)held(object);
    shapes_take(object->model, given, &shapes);
    session_close(object);
    session_open(object, &shapes);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(session_resize_obj, session_resize);

// close(): what it holds is free before the run ends
static mp_obj_t session_done(mp_obj_t self)
{
    session_close(MP_OBJ_TO_PTR(self));
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(session_close_obj, session_done);

// --- the object ----------------------------------------------------------------------------------

static mp_obj_t inputs_object(const struct session_object *object)
{
    mp_obj_t ports[PORTS_MAX];
    const struct dev_session *session = held(object);
    size_t count = dev_nn_port_count(object->model, true);
    for (size_t i = 0; i < count; i++) {
        const char *name = dev_nn_port(object->model, true, i)->name;
        ports[i] = dev_nn_port_object(mp_obj_new_str(name, strlen(name)),
                                      session_port()->input(session, i), true);
    }
    return mp_obj_new_tuple(count, ports);
}

static mp_obj_t outputs_object(const struct session_object *object)
{
    mp_obj_t ports[PORTS_MAX];
    struct nn_wanted wanted;
    size_t count = 0;
    mp_obj_t *names = NULL;
    const struct dev_session *session = held(object);
    mp_obj_get_array(object->names, &count, &names);
    dev_nn_choose(object->model, object->names, &wanted);
    for (size_t i = 0; i < wanted.count; i++) {
        struct base_error error = {.status = BASE_OK};
        struct eng_desc desc;
        enum base_status status = session_port()->output(session, wanted.numbers[i], &desc, &error);
        if (status != BASE_OK) {
            dev_nn_raise(dev_nn_name(object->model->index), status, &error);
        }
        ports[i] = dev_nn_port_object(names[i], &desc, true);
    }
    return mp_obj_new_tuple(wanted.count, ports);
}

static void session_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct session_object *object = MP_OBJ_TO_PTR(self);
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (attr) {
    case MP_QSTR_inputs:
        dest[0] = inputs_object(object);
        return;
    case MP_QSTR_outputs:
        dest[0] = outputs_object(object);
        return;
    case MP_QSTR_memory:
        dest[0] = mp_obj_new_int_from_ull(session_port()->bytes(held(object)));
        return;
    default:
        dest[1] = MP_OBJ_SENTINEL; // go on with the methods
        return;
    }
}

static void session_print(const mp_print_t *print, mp_obj_t self, mp_print_kind_t kind)
{
    const struct session_object *object = MP_OBJ_TO_PTR(self);
    struct base_str name = dev_nn_name(object->model->index);
    (void)kind;
    mp_printf(print, "<Session %.*s>", (int)name.size, name.data);
}

static const mp_rom_map_elem_t session_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_close), MP_ROM_PTR(&session_close_obj)},
    {MP_ROM_QSTR(MP_QSTR_resize), MP_ROM_PTR(&session_resize_obj)},
    {MP_ROM_QSTR(MP_QSTR_run), MP_ROM_PTR(&session_run_obj)},
};
static MP_DEFINE_CONST_DICT(session_locals, session_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(dev_nn_session_type, MP_QSTR_Session, MP_TYPE_FLAG_NONE, make_new,
                         session_new, print, session_print, call, session_placed, attr,
                         session_attr, locals_dict, &session_locals);
