// Import: the job's modules are all there is. MicroPython asks for paths ("features",
// "features.mpy", "pkg", "pkg/__init__.mpy"); the answers come from the job's table, and the
// bytecode is used where it lies. Called from the import statement, on the VM's thread.
#include "vm/vm_state.h"
#include "vm/mpy/vm_text.h"

#include "vm/mpy/mpy_check.h"

#include "py/builtin.h"
#include "py/objmodule.h"
#include "py/mperrno.h"
#include "py/reader.h"
#include "py/runtime.h"

#include <string.h>

#define SUFFIX BASE_STR(".mpy")

extern const qstr_pool_t mp_qstr_const_pool_static;
extern const qstr_pool_t mp_qstr_const_pool;

const struct dev_vm_module *dev_vm_module_find(const struct dev_vm_job *job, struct base_str name)
{
    for (uint32_t i = 0; i < job->module_count; i++) {
        if (base_str_equal(job->modules[i].name, name)) {
            return &job->modules[i];
        }
    }
    return NULL;
}

bool dev_vm_module_check(struct dev_vm *vm, const struct dev_vm_module *module)
{
    struct dev_mpy_fault fault;
    const struct dev_vm_check_port *checks = vm->job->checks;
    enum base_status status = checks != NULL ? checks->check(checks->ctx, module, &fault)
                                             : dev_mpy_check(module->mpy, module->size, &fault);
    if (status == BASE_OK) {
        return true;
    }
    struct dev_vm_result *out = vm->out;
    out->end = DEV_VM_LOAD;
    dev_text_set(out->type, sizeof(out->type), BASE_STR("LoadError"));
    dev_mpy_fault_text(&fault, out->message, sizeof(out->message));
    dev_text_set(out->file, sizeof(out->file), module->name);
    out->line = 0;
    return false;
}

// The name without ".mpy"; empty when the path does not end so.
static struct base_str stem_of(struct base_str path)
{
    struct base_str suffix = SUFFIX;
    if (path.size <= suffix.size ||
        memcmp(path.data + path.size - suffix.size, suffix.data, suffix.size) != 0) {
        return (struct base_str){NULL, 0};
    }
    return (struct base_str){path.data, path.size - suffix.size};
}

mp_import_stat_t mp_import_stat(const char *path)
{
    const struct dev_vm_job *job = dev_vm_current->job;
    struct base_str wanted = base_str_of(path);
    struct base_str stem = stem_of(wanted);
    if (stem.size > 0) {
        return dev_vm_module_find(job, stem) != NULL ? MP_IMPORT_STAT_FILE
                                                     : MP_IMPORT_STAT_NO_EXIST;
    }
    for (uint32_t i = 0; i < job->module_count; i++) {
        struct base_str name = job->modules[i].name;
        if (name.size > wanted.size && base_str_starts(name, wanted) &&
            name.data[wanted.size] == '/') {
            return MP_IMPORT_STAT_DIR;
        }
    }
    return MP_IMPORT_STAT_NO_EXIST;
}

void mp_reader_new_file(mp_reader_t *reader, qstr filename)
{
    struct dev_vm *vm = dev_vm_current;
    struct base_str stem = stem_of(base_str_of(qstr_str(filename)));
    const struct dev_vm_module *module = dev_vm_module_find(vm->job, stem);
    if (module == NULL) {
        mp_raise_OSError(MP_ENOENT);
    }
    if (!vm->judged && !dev_vm_module_check(vm, module)) {
        dev_vm_stop(vm, DEV_VM_LOAD);
    }
    mp_reader_new_mem(reader, dev_vm_image_bytes(vm, module), module->size, MP_READER_IS_ROM);
}

// The text of a name that was there before any script: no run needs to be under way.
static const char *fixed_name(qstr name)
{
    const qstr_pool_t *pool = &mp_qstr_const_pool;
    return name < pool->total_prev_len ? mp_qstr_const_pool_static.qstrs[name]
                                       : pool->qstrs[name - pool->total_prev_len];
}

// The module that every script may import at `index`; NULL past the last.
static const mp_map_elem_t *module_at(uint32_t index)
{
    const mp_map_t *maps[] = {&mp_builtin_module_map, &mp_builtin_extensible_module_map};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        if (index < maps[i]->alloc) {
            return &maps[i]->table[index];
        }
        index -= (uint32_t)maps[i]->alloc;
    }
    return NULL;
}

const char *dev_vm_offered(uint32_t index)
{
    const mp_map_elem_t *found = module_at(index);
    return found != NULL ? fixed_name(MP_OBJ_QSTR_VALUE(found->key)) : NULL;
}

// What a module makes when it is asked for it lies in no table.
static const char *made_in(struct base_str module, uint32_t index)
{
    static const char *const made[][2] = {
        {"walle", "config"}, {"walle", "device"}, {"walle", "input"}, {"sys", "path"}};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        if (base_str_equal(module, base_str_of(made[i][0])) && index-- == 0) {
            return made[i][1];
        }
    }
    return NULL;
}

// The module that the first `size` bytes name, and those behind periods in it; NULL: none.
static const mp_obj_module_t *module_named(struct base_str path)
{
    const mp_map_elem_t *found = NULL;
    size_t size = 0;
    while (size < path.size && path.data[size] != '.') {
        size++;
    }
    const struct base_str first = {path.data, size};
    for (uint32_t i = 0; (found = module_at(i)) != NULL; i++) {
        if (base_str_equal(first, base_str_of(fixed_name(MP_OBJ_QSTR_VALUE(found->key))))) {
            break;
        }
    }
    while (found != NULL && size < path.size) {
        const mp_map_t *names = &mp_obj_module_get_globals(found->value)->map;
        size_t from = size + 1;
        for (size = from; size < path.size && path.data[size] != '.';) {
            size++;
        }
        const struct base_str next = {path.data + from, size - from};
        found = NULL;
        for (size_t i = 0; i < names->alloc && found == NULL; i++) {
            const mp_map_elem_t *at = &names->table[i];
            bool same = base_str_equal(next, base_str_of(fixed_name(MP_OBJ_QSTR_VALUE(at->key))));
            found = same && mp_obj_get_type(at->value) == &mp_type_module ? at : NULL;
        }
    }
    return found != NULL ? MP_OBJ_TO_PTR(found->value) : NULL;
}

const char *dev_vm_offered_in(struct base_str module, uint32_t index)
{
    const mp_obj_module_t *found = module_named(module);
    if (found == NULL) {
        return NULL;
    }
    const mp_map_t *names = &found->globals->map;
    return index < names->alloc ? fixed_name(MP_OBJ_QSTR_VALUE(names->table[index].key))
                                : made_in(module, index - (uint32_t)names->alloc);
}
