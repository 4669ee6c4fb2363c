// Bytes that a run is given by name: data files of its version (walle.file, walle.files) and what
// the host hands to it (walle.blob, walle.blobs). Called by scripts, on the VM's thread. A script
// gets a copy: the bytes are then memory of its own heap, counted and freed with it, and nothing
// that it does with them is seen by another run. Data files are of the version, as models are;
// blobs are looked at, as walle.input is.
#include "vm/vm_given.h"

#include "vm/vm_state.h"

#include "py/gc.h"
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include "vm_hooks.h"

#include <stdio.h>
#include <string.h>

#define NAME_SHOWN   64 // bytes of a name that is not there
#define WORDS_BESIDE 32 // in what is said of it, beside it and the names that are there

struct given {
    const char *what; // as a script calls it
    const struct dev_vm_bytes *items;
    uint32_t count;
};

static struct given files_of(struct dev_vm *vm)
{
    dev_vm_outside(vm);
    return (struct given){"file", vm->job->files, vm->job->file_count};
}

static struct given blobs_of(struct dev_vm *vm)
{
    dev_vm_outside(vm);
    vm->out->looked = true;
    return (struct given){"blob", vm->job->blobs, vm->job->blob_count};
}

// OSError with ENOENT as its number would be a number alone; the text names what there is.
static _Noreturn void raise_missing(const struct given *given, struct base_str name)
{
    char names[DEV_VM_MESSAGE_MAX] = "none";
    size_t name_size = name.size < NAME_SHOWN ? name.size : NAME_SHOWN;
    size_t room = sizeof(names) - WORDS_BESIDE - name_size;
    size_t at = 0;
    uint32_t shown = 0;
    for (; shown < given->count; shown++) {
        struct base_str one = given->items[shown].name;
        if (at + one.size + sizeof(", , ...") > room) {
            break;
        }
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%.*s", shown > 0 ? ", " : "",
                               (int)one.size, one.data);
    }
    if (shown < given->count) {
        (void)snprintf(names + at, sizeof(names) - at, "%s", shown > 0 ? ", ..." : "...");
    }
    mp_raise_msg_varg(&mp_type_OSError, MP_ERROR_TEXT("walle.%s: no \"%.*s\"; there is: %s"),
                      given->what, (int)name_size, name.data, names);
}

static _Noreturn void raise_too_large(const struct given *given, const struct dev_vm_bytes *item)
{
    size_t kib = item->size / 1024 + (item->size % 1024 != 0 ? 1 : 0);
    mp_raise_msg_varg(&mp_type_MemoryError,
                      MP_ERROR_TEXT("walle.%s: \"%.*s\" is %u KiB, too much for the task's %u KiB "
                                    "(heap_kib in task.json)"),
                      given->what, (int)item->name.size, item->name.data, (unsigned)kib,
                      (unsigned)(dev_vm_current->heap_bytes / 1024));
}

static mp_obj_t bytes_copy(const struct given *given, const struct dev_vm_bytes *item)
{
    if (item->bytes == NULL && item->size > 0) {
        raise_too_large(given, item);
    }
    dev_vm_work(1 + item->size / DEV_VM_COPY_PER_UNIT);
    byte *copy = m_new_maybe(byte, item->size + 1); // as a bytes object has it, with a 0 behind
    if (copy == NULL) {
        raise_too_large(given, item);
    }
    if (item->size > 0) {
        memcpy(copy, item->bytes, item->size);
    }
    copy[item->size] = 0;
    return mp_obj_new_bytes_from_vstr(&(vstr_t){
        .alloc = item->size + 1, .len = item->size, .buf = (char *)copy, .fixed_buf = false});
}

static mp_obj_t item_named(const struct given *given, mp_obj_t name_in)
{
    size_t size;
    const char *text = mp_obj_str_get_data(name_in, &size);
    const struct base_str name = {text, size};
    dev_vm_work(1 + given->count / DEV_VM_LOOP_PER_UNIT);
    for (uint32_t i = 0; i < given->count; i++) {
        if (base_str_equal(given->items[i].name, name)) {
            return bytes_copy(given, &given->items[i]);
        }
    }
    raise_missing(given, name);
}

static mp_obj_t names_of(const struct given *given)
{
    dev_vm_work(1 + given->count);
    mp_obj_tuple_t *names = MP_OBJ_TO_PTR(mp_obj_new_tuple(given->count, NULL));
    for (uint32_t i = 0; i < given->count; i++) {
        names->items[i] = mp_obj_new_str(given->items[i].name.data, given->items[i].name.size);
    }
    return MP_OBJ_FROM_PTR(names);
}

// file(name): a data file of this version
static mp_obj_t file(mp_obj_t name)
{
    const struct given given = files_of(dev_vm_current);
    return item_named(&given, name);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_file_obj, file);

static mp_obj_t files(void)
{
    const struct given given = files_of(dev_vm_current);
    return names_of(&given);
}
MP_DEFINE_CONST_FUN_OBJ_0(dev_vm_files_obj, files);

// blob(name): what the host hands to the run
static mp_obj_t blob(mp_obj_t name)
{
    const struct given given = blobs_of(dev_vm_current);
    return item_named(&given, name);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_vm_blob_obj, blob);

static mp_obj_t blobs(void)
{
    const struct given given = blobs_of(dev_vm_current);
    return names_of(&given);
}
MP_DEFINE_CONST_FUN_OBJ_0(dev_vm_blobs_obj, blobs);
