// Tolerances of a shadow stage in JSON, both ways. Called by stage_body.c, which is why parsing
// runs on a worker's thread and the view on the control thread; there is no state. The command has
// a reader of the same form of its own (cli/stages/tolerance_json.c), since it signs what it read.
#include "api/tolerance_body.h"

#include "policy/fields/stage_fields.h"
#include "svc/plan/stage_codec.h"

#include <string.h>

static enum base_status parse_two(const struct gw_json_at *at, struct wire_tolerance *out,
                                  struct base_error *error)
{
    BASE_TRY(gw_json_real(at, pol_tolerance_fields[POL_TOLERANCE_FIELD_ABSOLUTE], &out->absolute,
                          error));
    return gw_json_real(at, pol_tolerance_fields[POL_TOLERANCE_FIELD_RELATIVE], &out->relative,
                        error);
}

static enum base_status parse_field(const struct gw_json_at *fields, const char *name,
                                    struct wire_tolerances *out, struct base_error *error)
{
    const char *names[POL_TOLERANCE_FIELD_FIELDS + 1];
    struct base_str field = base_str_of(name);
    struct wire_tolerances with = *out;
    struct gw_json_at at;
    uint32_t index = 0;

    BASE_TRY(gw_json_inside(fields, name, &at, error));
    if (field.size == 0 || field.size > WIRE_TOLERANCE_FIELD_MAX ||
        out->count == WIRE_TOLERANCES_MAX || !wire_tolerances_place(out, field, &index)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.60s: %u names with the rest's, of 1 to %u bytes", fields->path,
                              WIRE_TOLERANCES_MAX, WIRE_TOLERANCE_FIELD_MAX);
    }
    memmove(&with.items[index + 1], &with.items[index],
            (with.count - index) * sizeof(with.items[0]));
    with.count++;
    with.items[index] = (struct wire_tolerance){.field_size = (uint8_t)field.size};
    memcpy(with.items[index].field, field.data, field.size);
    if (at.object != NULL) {
        pol_field_names(pol_tolerance_fields, POL_TOLERANCE_FIELD_FIELDS, names);
        BASE_TRY(gw_json_only(&at, names, error));
        BASE_TRY(parse_two(&at, &with.items[index], error));
    }
    if (!wire_tolerances_ok(&with)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.60s: a name has no quote, backslash or control character",
                              fields->path);
    }
    *out = with;
    return BASE_OK;
}

enum base_status gw_tolerance_parse(const struct gw_json_at *at, struct pol_stage *stage,
                                    struct base_error *error)
{
    const char *names[POL_TOLERANCE_FIELD_COUNT + 1];
    struct wire_tolerances read = {0};
    struct gw_json_at own;
    struct gw_json_at fields;
    const char *name;
    json_t *value;

    stage->tolerance_count = 0;
    BASE_TRY(gw_json_inside(at, "tolerance", &own, error));
    if (own.object == NULL) {
        return BASE_OK;
    }
    if (stage->kind != POL_STAGE_SHADOW) {
        return base_error_set(error, BASE_ERR_INVALID, "%stolerance: for a shadow stage only",
                              at->path);
    }
    pol_field_names(pol_tolerance_fields, POL_TOLERANCE_FIELD_COUNT, names);
    BASE_TRY(gw_json_only(&own, names, error));
    BASE_TRY(parse_two(&own, &read.items[0], error));
    read.count = read.items[0].absolute > 0 || read.items[0].relative > 0 ? 1 : 0;
    BASE_TRY(gw_json_inside(&own, "fields", &fields, error));
    if (fields.object != NULL) {
        json_object_foreach((json_t *)(uintptr_t)fields.object, name, value)
        {
            BASE_TRY(parse_field(&fields, name, &read, error));
        }
    }
    gw_stage_tolerances_set(stage, &read);
    return BASE_OK;
}

json_t *gw_tolerance_view(const struct pol_stage *stage)
{
    double absolute = 0;
    double relative = 0;
    json_t *fields = json_object();

    if (stage->tolerance_count == 0) {
        json_decref(fields);
        return json_null();
    }
    for (uint32_t i = 0; i < stage->tolerance_count && i < POL_TOLERANCES_MAX; ++i) {
        const struct pol_tolerance *item = &stage->tolerances[i];
        char name[POL_TOLERANCE_FIELD_MAX + 1] = "";
        if (item->field_size == 0) {
            absolute = item->absolute;
            relative = item->relative;
            continue;
        }
        memcpy(name, item->field, item->field_size);
        (void)json_object_set_new(
            fields, name,
            json_pack("{s:f, s:f}", "absolute", item->absolute, "relative", item->relative));
    }
    return json_pack("{s:f, s:f, s:o}", "absolute", absolute, "relative", relative, "fields",
                     fields);
}
