// How many devices there are, by an attribute's values: GET /api/v1/devices/count. The query is
// read on the worker; the count is a dry run of a target that everybody is in
// (svc/device/preview.h), so it is made on the background thread, and what a dry run shows of
// segments is what this says.
#include "api/api_call.h"

#include "base/alloc.h"
#include "svc/device/preview.h"

#include <stdio.h>
#include <string.h>

// ?by=ATTRIBUTE, into `text`.
static bool take_parameter(struct gw_api_call *call, struct base_str name, struct base_str value,
                           bool *out_known)
{
    *out_known = base_str_equal(name, BASE_STR("by"));
    return !*out_known || gw_api_decode(call, value, &call->text) ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: by is too long, or badly escaped");
}

static bool is_asked(const struct gw_api_call *call, const char *name)
{
    return call->text.size == 0 || base_str_equal(call->text, base_str_of(name));
}

bool gw_api_device_count_prepare(struct gw_api_call *call)
{
    char names[GW_PREVIEW_ATTRS * 16] = "";
    bool known = false;

    if (!gw_api_query_with(call, take_parameter)) {
        return false;
    }
    for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; ++i) {
        const char *name = gw_preview_attr_name(i);
        size_t used = strlen(names);
        known = known || is_asked(call, name);
        (void)snprintf(names + used, sizeof(names) - used, " %s", name);
    }
    if (!known) {
        char detail[sizeof(names) + 128];
        (void)snprintf(detail, sizeof(detail), "query: by (ATTRIBUTE) is '%.*s', none of%s",
                       (int)(call->text.size < 64 ? call->text.size : 64), call->text.data, names);
        return gw_api_fail(call, BASE_ERR_INVALID, detail);
    }
    call->preview =
        base_arena_zalloc(gw_api_exchange(call)->arena, sizeof(*call->preview)); // everybody
    if (call->preview == NULL) {
        return gw_api_fail(call, BASE_ERR_NOMEM, "out of memory");
    }
    call->preview->tenant = call->actor.tenant;
    return true;
}

static json_t *attribute_object(const struct gw_preview_attr *attr)
{
    json_t *values = json_array();

    for (uint32_t i = 0; i < attr->count; ++i) {
        (void)json_array_append_new(values,
                                    json_pack("{s:s, s:I}", "value", attr->values[i].value,
                                              "devices", (json_int_t)attr->values[i].known));
    }
    return json_pack("{s:o, s:I, s:I}", "values", values, "other", (json_int_t)attr->other_matched,
                     "without", (json_int_t)attr->without_matched);
}

void gw_api_device_count(struct gw_core *core, struct gw_api_call *call)
{
    const struct base_alloc_port *heap = base_alloc_heap();
    struct gw_preview *seen = heap->alloc(heap->ctx, sizeof(*seen));
    enum base_status status =
        seen != NULL ? gw_preview_run(core, call->preview, seen) : BASE_ERR_NOMEM;

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "the devices could not be counted");
    } else {
        json_t *by = json_object();
        for (uint32_t i = 0; i < GW_PREVIEW_ATTRS; ++i) {
            if (is_asked(call, seen->attrs[i].name)) {
                (void)json_object_set_new(by, seen->attrs[i].name,
                                          attribute_object(&seen->attrs[i]));
            }
        }
        gw_api_answer_take(call, 200,
                           json_pack("{s:I, s:o}", "devices", (json_int_t)seen->devices, "by", by));
    }
    heap->release(heap->ctx, seen);
}
