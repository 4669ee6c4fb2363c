// The first few devices of a way to fail. run/fleet_finish.c walks over the ledgers when the run is
// over and adds each device that failed; the reports (summary, run.json, report.html) and the
// outcome's words name them. Indices, ids and traits are drawn again from the seed by the caller:
// the ledger keeps no names. Coordinator's thread.
#include "failing/failing_devices.h"

#include "base/check.h"
#include "wire/digest.h"

#include <stdio.h>
#include <string.h>

void sim_failing_add(struct sim_failing *failing, const struct sim_failing_device *device)
{
    uint32_t at = failing->told;
    failing->devices++;
    while (at > 0 && failing->first[at - 1].index > device->index) {
        at--;
    }
    base_assert(at == 0 || failing->first[at - 1].index < device->index);
    if (at == SIM_FAILING_TOLD_MAX) {
        return;
    }
    bool is_full = failing->told == SIM_FAILING_TOLD_MAX;
    failing->told += is_full ? 0 : 1;
    memmove(&failing->first[at + 1], &failing->first[at],
            (failing->told - 1 - at) * sizeof(failing->first[0]));
    failing->first[at] = *device;
}

void sim_failing_text(const struct sim_failing *failing, char out[SIM_FAILING_TEXT_MAX])
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < failing->told; i++) {
        char id[WIRE_DEVICE_HEX + 1];
        wire_device_hex(failing->first[i].id, id);
        used += (size_t)snprintf(out + used, SIM_FAILING_TEXT_MAX - used, "%s%s", i > 0 ? ", " : "",
                                 id);
    }
    if (failing->devices > failing->told) {
        (void)snprintf(out + used, SIM_FAILING_TEXT_MAX - used, " and %llu more",
                       (unsigned long long)(failing->devices - failing->told));
    }
}

json_t *sim_failing_attrs(const struct sim_failing_device *device)
{
    struct wire_attrs attrs;
    json_t *object = json_object();
    sim_traits_wire(&device->traits, &attrs);
    for (uint32_t i = 0; i < attrs.count; i++) {
        const struct wire_attr *attr = &attrs.items[i];
        json_t *value = attr->type == WIRE_ATTR_STRING
                            ? json_stringn(attr->text.data, attr->text.size)
                        : attr->type == WIRE_ATTR_INTEGER ? json_integer(attr->integer)
                                                          : json_boolean(attr->integer != 0);
        char name[WIRE_ATTR_NAME_MAX + 1];
        (void)snprintf(name, sizeof(name), "%.*s", (int)attr->name.size, attr->name.data);
        (void)json_object_set_new(object, name, value);
    }
    return object;
}

json_t *sim_failing_json(const struct sim_failing *failing)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < failing->told; i++) {
        const struct sim_failing_device *device = &failing->first[i];
        char id[WIRE_DEVICE_HEX + 1];
        wire_device_hex(device->id, id);
        (void)json_array_append_new(list,
                                    json_pack("{s:I, s:s, s:o}", "index", (json_int_t)device->index,
                                              "id", id, "attrs", sim_failing_attrs(device)));
    }
    return list;
}
