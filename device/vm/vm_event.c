// Events as scripts see them: an object of two words over the run's view, whose fields and
// attributes are looked up when they are asked for; a run with a thousand events costs what it
// reads. Made by vm_stream.c when a script takes an event out of a stream; the conversion of values
// serves vm_stream.c and vm_aggregate.c too. Runs on the VM's thread. The view outlives every
// object, since no object outlives the run.
#include "vm/vm_data.h"

#include "py/runtime.h"

#include <string.h>

struct event_object {
    mp_obj_base_t base;
    const struct dev_event *event;
};

static mp_obj_t text_object(struct base_str text)
{
    return text.size == 0 ? mp_const_none : mp_obj_new_str(text.data, text.size);
}

mp_obj_t dev_vm_value_object(struct dev_value value)
{
    switch (value.type) {
    case DEV_VALUE_BOOLEAN:
        return mp_obj_new_bool(value.integer != 0);
    case DEV_VALUE_INTEGER:
        return mp_obj_new_int(value.integer);
    case DEV_VALUE_REAL:
        return mp_obj_new_float(value.real);
    case DEV_VALUE_TEXT:
        return mp_obj_new_str(value.text.data, value.text.size);
    default:
        return mp_const_none;
    }
}

static const struct dev_event *event_of(mp_obj_t self)
{
    return ((struct event_object *)MP_OBJ_TO_PTR(self))->event;
}

// MP_OBJ_NULL: there is none.
static mp_obj_t attr_object(const struct dev_event *event, const char *name, size_t size)
{
    struct dev_event_attr attr;
    if (dev_event_attr(event, (struct base_str){name, size}, &attr) != BASE_OK) {
        return MP_OBJ_NULL;
    }
    return dev_vm_value_object(dev_value_of_attr(&attr));
}

static mp_obj_t event_get(size_t count, const mp_obj_t *args)
{
    size_t size;
    const char *name = mp_obj_str_get_data(args[1], &size);
    mp_obj_t value = attr_object(event_of(args[0]), name, size);
    if (value != MP_OBJ_NULL) {
        return value;
    }
    return count > 2 ? args[2] : mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(event_get_obj, 2, 3, event_get);

static void event_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct dev_event *event = event_of(self);
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (attr) {
    case MP_QSTR_kind:
        dest[0] = mp_obj_new_str_via_qstr(dev_event_kind_name(event->kind),
                                          strlen(dev_event_kind_name(event->kind)));
        return;
    case MP_QSTR_name:
        dest[0] = text_object(event->name);
        return;
    case MP_QSTR_page:
        dest[0] = text_object(event->page);
        return;
    case MP_QSTR_item:
        dest[0] = text_object(event->item);
        return;
    case MP_QSTR_visit:
        dest[0] = mp_obj_new_int_from_uint(event->visit);
        return;
    case MP_QSTR_instance:
        dest[0] = mp_obj_new_int_from_uint(event->instance);
        return;
    case MP_QSTR_seq:
        dest[0] = mp_obj_new_int_from_uint(event->seq);
        return;
    case MP_QSTR_time:
        dest[0] = mp_obj_new_int_from_uint(event->wall_ms);
        return;
    case MP_QSTR_mono_us:
        dest[0] = mp_obj_new_int_from_uint(event->mono_us);
        return;
    case MP_QSTR_get:
        dest[0] = MP_OBJ_FROM_PTR(&event_get_obj);
        dest[1] = self;
        return;
    default:
        break;
    }
    size_t size;
    const byte *name = qstr_data(attr, &size);
    mp_obj_t value = attr_object(event, (const char *)name, size);
    if (value != MP_OBJ_NULL) {
        dest[0] = value;
    }
}

static mp_obj_t event_subscr(mp_obj_t self, mp_obj_t index, mp_obj_t value)
{
    if (value != MP_OBJ_SENTINEL) {
        return MP_OBJ_NULL; // only loads
    }
    size_t size;
    const char *name = mp_obj_str_get_data(index, &size);
    mp_obj_t found = attr_object(event_of(self), name, size);
    if (found == MP_OBJ_NULL) {
        mp_raise_type_arg(&mp_type_KeyError, index);
    }
    return found;
}

static void event_print(const mp_print_t *print, mp_obj_t self, mp_print_kind_t kind)
{
    (void)kind;
    const struct dev_event *event = event_of(self);
    mp_printf(print, "<Event %s %.*s>", dev_event_kind_name(event->kind), (int)event->page.size,
              event->page.data);
}

static MP_DEFINE_CONST_OBJ_TYPE(event_type, MP_QSTR_Event, MP_TYPE_FLAG_NONE, print, event_print,
                                attr, event_attr, subscr, event_subscr);

mp_obj_t dev_vm_event_new(const struct dev_event *event)
{
    struct event_object *object = mp_obj_malloc(struct event_object, &event_type);
    object->event = event;
    return MP_OBJ_FROM_PTR(object);
}
