// walle.cloud.decide: the policy between a device's own result and the cloud's model
// (policy/fallback/fallback_decide.h), with what a script says of its input, its rule and the
// device, and what the host knows of the way. Runs on the VM's thread.
#include "vm/vm_cloud.h"

#include "policy/fallback/fallback.h"
#include "policy/fallback/fallback_decide.h"
#include "vm/vm_state.h"

#include "py/runtime.h"

#include <string.h>

#define PPM 1000000.0

// A member of the rule; MP_OBJ_NULL: it has none of this name.
static mp_obj_t member(mp_obj_t rule, qstr name)
{
    mp_map_elem_t *found =
        mp_map_lookup(mp_obj_dict_get_map(rule), MP_OBJ_NEW_QSTR(name), MP_MAP_LOOKUP);
    return found != NULL && found->value != mp_const_none ? found->value : MP_OBJ_NULL;
}

static uint64_t whole(mp_obj_t value, qstr name, uint64_t most)
{
    mp_int_t number = mp_obj_get_int(value);
    if (number < 0 || (uint64_t)number > most) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.cloud: %q is out of its range"),
                          name);
    }
    return (uint64_t)number;
}

static uint64_t whole_of(mp_obj_t rule, qstr name, uint64_t most, uint64_t otherwise)
{
    mp_obj_t value = member(rule, name);
    return value == MP_OBJ_NULL ? otherwise : whole(value, name, most);
}

// A share from 0 to 1 in millionths; a NaN is no confidence at all.
static uint32_t share_ppm(mp_obj_t value)
{
    mp_float_t share = mp_obj_get_float(value);
    if (!(share > 0)) {
        return 0;
    }
    return share >= 1 ? (uint32_t)PPM : (uint32_t)(share * (mp_float_t)PPM + (mp_float_t)0.5);
}

static struct pol_fallback_rule rule_take(mp_obj_t given)
{
    if (!mp_obj_is_dict_or_ordereddict(given)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.cloud: a rule is a dict"));
    }
    mp_obj_t threshold = member(given, MP_QSTR_threshold);
    mp_obj_t metered = member(given, MP_QSTR_metered);
    if (threshold == MP_OBJ_NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.cloud: a rule has a threshold"));
    }
    return (struct pol_fallback_rule){
        .threshold_ppm =
            mp_obj_get_float(threshold) > 1 ? POL_FALLBACK_ALWAYS : share_ppm(threshold),
        .latency_ms = (uint32_t)whole_of(given, MP_QSTR_deadline_ms, WIRE_TENSOR_DEADLINE_MS, 0),
        .battery_min_pct = (uint32_t)whole_of(given, MP_QSTR_battery_min, 100, 0),
        .metered = metered == MP_OBJ_NULL || mp_obj_is_true(metered),
        .cost_max = whole_of(given, MP_QSTR_cost_max, INT64_MAX, 0),
    };
}

static enum pol_fallback_way way_of(enum wire_cloud_why why)
{
    switch (why) {
    case WIRE_CLOUD_ANSWERED:
        return POL_WAY_OPEN;
    case WIRE_CLOUD_NOT_ALLOWED:
        return POL_WAY_DENIED;
    case WIRE_CLOUD_QUOTA:
        return POL_WAY_QUOTA;
    case WIRE_CLOUD_BUSY:
        return POL_WAY_BUSY;
    default:
        return POL_WAY_OFFLINE;
    }
}

static void way_look(struct pol_fallback_facts *facts, mp_obj_t model_in)
{
    const struct dev_vm_cloud_port *port = dev_vm_current->job->cloud;
    struct base_str model = {"", 0};
    if (model_in != mp_const_none) {
        model.data = mp_obj_str_get_data(model_in, &model.size);
        if (!wire_tensor_model_ok(model)) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.cloud: this is no model's name"));
        }
    }
    facts->way = POL_WAY_DENIED;
    if (port == NULL) {
        return;
    }
    dev_vm_current->away = true;
    struct dev_vm_cloud_state state = port->look(port->ctx, model.size > 0 ? model : BASE_STR("-"));
    dev_vm_current->away = false;
    facts->way = way_of(state.why);
    facts->expected_us = state.expected_us;
}

// decide(confidence, rule, model=None, battery=None, metered=False, spent=0): (True, "unsure") to
// ask the cloud, or (False, why the device's result stands).
static mp_obj_t decide(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { CONFIDENCE, RULE, MODEL, BATTERY, METERED, SPENT, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_confidence, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_rule, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_model, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_battery, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_metered, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_spent, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct pol_fallback_rule rule = rule_take(values[RULE].u_obj);
    struct pol_fallback_facts facts = {
        .confidence_ppm = share_ppm(values[CONFIDENCE].u_obj),
        .battery_pct = values[BATTERY].u_obj == mp_const_none
                           ? POL_BATTERY_UNKNOWN
                           : (uint32_t)whole(values[BATTERY].u_obj, MP_QSTR_battery, 100),
        .metered = values[METERED].u_bool,
        .cost_spent = whole(values[SPENT].u_obj, MP_QSTR_spent, INT64_MAX),
    };
    dev_vm_outside(dev_vm_current);
    dev_vm_current->out->looked = true;
    way_look(&facts, values[MODEL].u_obj);
    dev_vm_current->cloud_decided = true;
    (void)wire_cloud_add(&dev_vm_current->out->cloud, &(struct wire_cloud_counts){.asked = 1});
    enum pol_fallback_reason reason = pol_fallback_decide(&rule, &facts);
    const char *word = pol_fallback_word(reason);
    mp_obj_t items[2] = {mp_obj_new_bool(reason == POL_FALLBACK_CLOUD),
                         mp_obj_new_str(word, strlen(word))};
    return mp_obj_new_tuple(2, items);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_decide_obj, 2, decide);
