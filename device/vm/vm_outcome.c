// The end of a run as a value: an uncaught exception becomes type, message, file, line and stack.
// Called by vm_run.c on the VM's thread, after the script was left. To show an exception runs the
// script's code again (its __str__), so the budget still holds, and what is cut short there only
// shortens the message. All texts are copied into the result's fixed fields: nothing of the
// interpreter is left when it ends.
#include "vm/vm_state.h"

#include "vm/mpy/vm_text.h"

#include "py/builtin.h"
#include "py/objexcept.h"
#include "py/runtime.h"

#include <stdio.h>
#include <string.h>

struct message_writer {
    char text[DEV_VM_MESSAGE_MAX + 4]; // room to see that a character is cut
    size_t size;
};

static void message_add(void *context, const char *text, size_t size)
{
    struct message_writer *writer = context;
    size_t room = sizeof(writer->text) - writer->size;
    if (size > room) {
        size = room;
    }
    if (size > 0) {
        memcpy(writer->text + writer->size, text, size);
    }
    writer->size += size;
}

// Shows the exception as str() would. An exception or a used-up budget meanwhile only cuts the
// text.
static void message_set(struct dev_vm *vm, mp_obj_t exception)
{
    struct message_writer writer = {.size = 0};
    const mp_print_t print = {&writer, message_add};
    nlr_buf_t nlr;
    vm->abort_target = &nlr;
    if (nlr_push(&nlr) == 0) {
        mp_obj_print_helper(&print, exception, PRINT_STR);
        nlr_pop();
    }
    dev_text_set(vm->out->message, sizeof(vm->out->message),
                 (struct base_str){writer.text, writer.size});
}

static bool is_recursion_error(mp_obj_t exception)
{
    if (mp_obj_get_type(exception) != &mp_type_RuntimeError) {
        return false;
    }
    return mp_obj_exception_get_value(exception) ==
           MP_OBJ_NEW_QSTR(MP_QSTR_maximum_space_recursion_space_depth_space_exceeded);
}

// SystemExit without a code, with None or with 0, as Python's own exit status says: any other code
// is a failure.
static bool is_clean_exit(mp_obj_t exception)
{
    const mp_obj_type_t *type = mp_obj_get_type(exception);
    if (!mp_obj_is_subclass_fast(MP_OBJ_FROM_PTR(type), MP_OBJ_FROM_PTR(&mp_type_SystemExit))) {
        return false;
    }
    mp_obj_t code = mp_obj_exception_get_value(exception);
    return code == mp_const_none || code == mp_const_false || code == MP_OBJ_NEW_SMALL_INT(0);
}

// Of each frame there are file, line and function. One that does not fit is left out, with the
// rest.
static void stack_set(struct dev_vm_result *out, const size_t *trace, size_t frames)
{
    size_t at = 0;
    out->stack[0] = '\0';
    for (size_t i = 0; i < frames; i++) {
        const size_t *frame = &trace[i * 3];
        char line[2 * DEV_VM_FILE_MAX + 32];
        int size = snprintf(line, sizeof(line), "%.63s:%u in %.63s\n", qstr_str((qstr)frame[0]),
                            (unsigned)frame[1], qstr_str((qstr)frame[2]));
        if (size < 0 || (size_t)size >= sizeof(out->stack) - at) {
            return;
        }
        memcpy(out->stack + at, line, (size_t)size + 1);
        at += (size_t)size;
    }
}

void dev_vm_outcome_exception(struct dev_vm *vm, void *raised)
{
    mp_obj_t exception = MP_OBJ_FROM_PTR(raised);
    struct dev_vm_result *out = vm->out;
    const mp_obj_type_t *type = mp_obj_get_type(exception);
    if (is_clean_exit(exception)) {
        out->end = DEV_VM_FINISHED;
        return;
    }
    if (type == &mp_type_MemoryError) {
        out->end = DEV_VM_MEMORY;
    } else if (is_recursion_error(exception)) {
        out->end = DEV_VM_STACK;
    } else {
        out->end = DEV_VM_EXCEPTION;
    }
    message_set(vm, exception);
    // After the message: the budget may have run out while it was made, and written its own place.
    out->file[0] = '\0';
    out->line = 0;
    size_t count = 0;
    size_t *trace = NULL;
    mp_obj_exception_get_traceback(exception, &count, &trace);
    if (count >= 3) { // file, line, function of the innermost frame come first
        dev_text_set(out->file, sizeof(out->file), base_str_of(qstr_str((qstr)trace[0])));
        out->line = (uint32_t)trace[1];
    }
    stack_set(out, trace, count / 3);
    dev_text_set(out->type, sizeof(out->type), base_str_of(qstr_str(type->name)));
}
