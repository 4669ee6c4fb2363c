// Tolerances of a shadow stage in JSON, both ways. Called by stage_body.c, which is why parsing
// runs on a worker's thread and the view on the control thread; there is no state. The command has
// a reader of the same form of its own (cli/stages/tolerance_json.c), since it signs what it read.
#include "api/tolerance_body.h"

#include "svc/plan/stage_codec.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

// An object at `key`; *out->object stays NULL when there is none.
static enum base_status enter(const struct gw_json_at *at, const char *key, struct gw_json_at *out,
                              struct base_error *error)
{
    const json_t *value = json_object_get(at->object, key);
    out->object = NULL;
    if (value == NULL || json_is_null(value)) {
        return BASE_OK;
    }
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s%s: not an object", at->path, key);
    }
    out->object = value;
    (void)snprintf(out->path, sizeof(out->path), "%.60s%.30s.", at->path, key);
    return BASE_OK;
}

static enum base_status parse_two(const struct gw_json_at *at, struct wire_tolerance *out,
                                  struct base_error *error)
{
    BASE_TRY(gw_json_real(at, gw_json_optional("absolute", DBL_MAX), &out->absolute, error));
    return gw_json_real(at, gw_json_optional("relative", 1), &out->relative, error);
}

static enum base_status parse_field(const struct gw_json_at *fields, const char *name,
                                    struct wire_tolerances *out, struct base_error *error)
{
    static const char *const names[] = {"absolute", "relative", NULL};
    struct base_str field = base_str_of(name);
    struct wire_tolerances with = *out;
    struct gw_json_at at;
    uint32_t index = 0;

    BASE_TRY(enter(fields, name, &at, error));
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
    static const char *const names[] = {"absolute", "relative", "fields", NULL};
    struct wire_tolerances read = {0};
    struct gw_json_at own;
    struct gw_json_at fields;
    const char *name;
    json_t *value;

    stage->tolerance_count = 0;
    BASE_TRY(enter(at, "tolerance", &own, error));
    if (own.object == NULL) {
        return BASE_OK;
    }
    if (stage->kind != POL_STAGE_SHADOW) {
        return base_error_set(error, BASE_ERR_INVALID, "%stolerance: for a shadow stage only",
                              at->path);
    }
    BASE_TRY(gw_json_only(&own, names, error));
    BASE_TRY(parse_two(&own, &read.items[0], error));
    read.count = read.items[0].absolute > 0 || read.items[0].relative > 0 ? 1 : 0;
    BASE_TRY(enter(&own, "fields", &fields, error));
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
