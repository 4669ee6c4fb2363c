// The module `walle`: all a script sees of the device. log(...), result(value), file(name) and
// blob(name) (given/vm_given.c), and config, input and device, which are made when they are first
// asked for. Called by MicroPython on the VM's
// thread; values go through vm_json.c. Only the last result of a run counts. Made values are root
// pointers of the interpreter, as the collector would not find them otherwise; they are gone with
// the run.
#include "vm/vm_state.h"

#include "vm/vm_audio.h"
#include "vm/vm_cloud.h"
#include "vm/vm_cv.h"
#include "vm/vm_data.h"
#include "vm/vm_given.h"
#include "vm/vm_json.h"
#include "vm/vm_nn.h"
#include "vm/vm_np.h"
#include "vm/vm_store.h"

#include "py/builtin.h"
#include "py/objmodule.h"
#include "py/qstr.h"
#include "py/runtime.h"

#include <string.h>

// A configuration of more than this part of the heap is made only when a script asks for it.
#define CONFIG_SHARE   128
#define CONFIG_KEY_MAX 64

enum walle_value { WALLE_CONFIG, WALLE_INPUT, WALLE_DEVICE, WALLE_VALUE_COUNT };

// Values already made in this run; MP_OBJ_NULL: not yet.
MP_REGISTER_ROOT_POINTER(mp_obj_t dev_vm_values[3]);
_Static_assert(WALLE_VALUE_COUNT == 3, "the size is written out above");

static mp_obj_t config_make(const struct dev_vm_job *job)
{
    if (job->config.size == 0) {
        return mp_obj_new_dict(0);
    }
    mp_obj_t value = dev_vm_json_read(job->config.data, job->config.size);
    if (mp_obj_get_type(value) != &mp_type_dict) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.config is not a JSON object"));
    }
    return value;
}

// The configuration as it is in each run, and the budget units it took; made before the script, so
// that an image holds it. MP_OBJ_NULL: not made.
MP_REGISTER_ROOT_POINTER(mp_obj_t dev_vm_config);
MP_REGISTER_ROOT_POINTER(uint32_t dev_vm_config_units);

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Names that scripts will look up: those of modules loaded later are then the same.
static void keys_intern(struct base_str text)
{
    for (size_t at = 0; at < text.size; at++) {
        size_t end = at + 1;
        if (text.data[at] != '"') {
            continue;
        }
        while (end < text.size && is_plain(text.data[end])) {
            end++;
        }
        size_t size = end - at - 1;
        if (size > 0 && size < CONFIG_KEY_MAX && end + 1 < text.size && text.data[end] == '"' &&
            text.data[end + 1] == ':') {
            (void)qstr_from_strn(text.data + at + 1, size);
        }
        at = end - 1;
    }
}

void dev_vm_config_prepare(struct dev_vm *vm)
{
    const struct dev_vm_job *job = vm->job;
    if (job->config.size == 0 || job->config.size > vm->heap_bytes / CONFIG_SHARE) {
        return;
    }
    uint32_t granted = dev_vm_budget_suspend(vm);
    nlr_buf_t nlr;
    if (nlr_push(&nlr) == 0) {
        keys_intern(job->config);
        uint32_t before = dev_vm_units_left;
        mp_obj_t made = config_make(job);
        MP_STATE_VM(dev_vm_config_units) = before - dev_vm_units_left;
        MP_STATE_VM(dev_vm_config) = made;
        nlr_pop();
    } // else it is raised when the script asks
    dev_vm_budget_continue(vm, granted);
}

// What was made before, once; what it took is counted where it is asked for.
static mp_obj_t config_take(const struct dev_vm_job *job)
{
    mp_obj_t made = MP_STATE_VM(dev_vm_config);
    if (made == MP_OBJ_NULL) {
        return config_make(job);
    }
    dev_vm_work(MP_STATE_VM(dev_vm_config_units));
    return made;
}

static mp_obj_t attr_value(const struct wire_attr *attr)
{
    switch (attr->type) {
    case WIRE_ATTR_INTEGER:
        return mp_obj_new_int_from_ll(attr->integer);
    case WIRE_ATTR_BOOLEAN:
        return mp_obj_new_bool(attr->integer != 0);
    case WIRE_ATTR_STRING:
    case WIRE_ATTR_TYPE_COUNT:
    default:
        return mp_obj_new_str(attr->text.data, attr->text.size);
    }
}

static mp_obj_t device_make(const struct dev_vm_job *job)
{
    mp_obj_t dict = mp_obj_new_dict(0);
    for (uint32_t i = 0; job->attrs != NULL && i < job->attrs->count; i++) {
        const struct wire_attr *attr = &job->attrs->items[i];
        mp_obj_dict_store(dict, mp_obj_new_str(attr->name.data, attr->name.size), attr_value(attr));
    }
    uint8_t bytes[sizeof(job->device_id)];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(job->device_id >> (8 * (sizeof(bytes) - 1 - i)));
    }
    char hex[2 * sizeof(bytes)];
    base_hex_encode(bytes, sizeof(bytes), hex);
    mp_obj_dict_store(dict, MP_OBJ_NEW_QSTR(MP_QSTR_id), mp_obj_new_str(hex, sizeof(hex)));
    return dict;
}

static mp_obj_t value_make(enum walle_value which)
{
    const struct dev_vm_job *job = dev_vm_current->job;
    if (which != WALLE_CONFIG) {
        dev_vm_outside(dev_vm_current);
        dev_vm_current->out->looked = true;
    }
    switch (which) {
    case WALLE_CONFIG:
        return config_take(job);
    case WALLE_INPUT:
        return job->input.size == 0 ? mp_const_none
                                    : dev_vm_json_read(job->input.data, job->input.size);
    case WALLE_DEVICE:
    case WALLE_VALUE_COUNT:
    default:
        return device_make(job);
    }
}

void dev_vm_walle_attr(mp_obj_t self, qstr attr, mp_obj_t *dest);
void dev_vm_walle_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    (void)self;
    enum walle_value which = WALLE_VALUE_COUNT;
    if (attr == MP_QSTR_config) {
        which = WALLE_CONFIG;
    } else if (attr == MP_QSTR_input) {
        which = WALLE_INPUT;
    } else if (attr == MP_QSTR_device) {
        which = WALLE_DEVICE;
    }
    if (which == WALLE_VALUE_COUNT || dest[0] != MP_OBJ_NULL) {
        return; // unknown, or a store, which is refused
    }
    mp_obj_t *value = &MP_STATE_VM(dev_vm_values)[which];
    if (*value == MP_OBJ_NULL) {
        *value = value_make(which);
    }
    dest[0] = *value;
}

static mp_obj_t walle_log(size_t count, const mp_obj_t *args)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            mp_print_str(&mp_plat_print, " ");
        }
        mp_obj_print_helper(&mp_plat_print, args[i], PRINT_STR);
    }
    mp_print_str(&mp_plat_print, "\n");
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR(walle_log_obj, 0, walle_log);

static mp_obj_t walle_result(mp_obj_t value)
{
    struct dev_vm *vm = dev_vm_current;
    dev_vm_outside(vm);
    size_t size = dev_vm_json_write(value, vm->scratch, sizeof(vm->scratch));
    dev_vm_leaves_result(vm, vm->scratch, size);
    memcpy(vm->result, vm->scratch, size);
    vm->result_size = size;
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(walle_result_obj, walle_result);

static const mp_rom_map_elem_t walle_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_walle)},
    {MP_ROM_QSTR(MP_QSTR_audio), MP_ROM_PTR(&dev_vm_module_audio)},
    {MP_ROM_QSTR(MP_QSTR_cloud), MP_ROM_PTR(&dev_vm_module_cloud)},
    {MP_ROM_QSTR(MP_QSTR_cv), MP_ROM_PTR(&dev_vm_module_cv)},
    {MP_ROM_QSTR(MP_QSTR_data), MP_ROM_PTR(&dev_vm_module_data)},
    {MP_ROM_QSTR(MP_QSTR_nn), MP_ROM_PTR(&dev_vm_module_nn)},
    {MP_ROM_QSTR(MP_QSTR_np), MP_ROM_PTR(&dev_vm_module_np)},
    {MP_ROM_QSTR(MP_QSTR_store), MP_ROM_PTR(&dev_vm_module_store)},
    {MP_ROM_QSTR(MP_QSTR_blob), MP_ROM_PTR(&dev_vm_blob_obj)},
    {MP_ROM_QSTR(MP_QSTR_blobs), MP_ROM_PTR(&dev_vm_blobs_obj)},
    {MP_ROM_QSTR(MP_QSTR_file), MP_ROM_PTR(&dev_vm_file_obj)},
    {MP_ROM_QSTR(MP_QSTR_files), MP_ROM_PTR(&dev_vm_files_obj)},
    {MP_ROM_QSTR(MP_QSTR_log), MP_ROM_PTR(&walle_log_obj)},
    {MP_ROM_QSTR(MP_QSTR_result), MP_ROM_PTR(&walle_result_obj)},
};
static MP_DEFINE_CONST_DICT(walle_globals, walle_globals_table);

const mp_obj_module_t dev_vm_module_walle = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&walle_globals,
};
MP_REGISTER_MODULE(MP_QSTR_walle, dev_vm_module_walle);
MP_REGISTER_MODULE_DELEGATION(dev_vm_module_walle, dev_vm_walle_attr);
