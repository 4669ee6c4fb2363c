// JSON of the device API, in and out: polls, cancellations, attributes and feedback. Called by
// ddi.c and ddi_deployment.c on the worker's thread; bodies go through the bounded parser of
// api/api_json.c. What a client sends that we have no use for is passed over, since the API is not
// ours and grows. Replies go into the exchange's arena.
#include "ddi/ddi_call.h"

#include "api/api_json.h"
#include "base/text/str_cut.h"
#include "svc/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HREF_MAX    1024
#define DETAILS_MAX 64u // lines of a client's account; the first ones are kept

// ---- Out

static void release_text(void *ctx)
{
    free(ctx);
}

void ddi_reply_take(struct gw_exchange *exchange, json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (text != NULL && base_arena_on_done(exchange->arena, release_text, text) != BASE_OK) {
        free(text);
        text = NULL;
    }
    if (text == NULL) {
        gw_reply_busy(exchange, 1);
        return;
    }
    gw_reply_body(exchange, 200, BASE_STR("application/hal+json"), text, strlen(text));
}

json_t *ddi_href(const struct ddi_call *call, const char *format, ...)
{
    const struct gw_request *request = &ddi_exchange(call)->request;
    char text[HREF_MAX];
    char rest[HREF_MAX / 2];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(rest, sizeof(rest), format, list);
    va_end(list);
    bool absolute = rest[0] == '/';
    (void)snprintf(text, sizeof(text), "%s://%.*s%s", request->secure ? "https" : "http",
                   (int)(request->authority.size < 256 ? request->authority.size : 256),
                   request->authority.data, absolute ? rest : "");
    size_t size = strlen(text);
    if (!absolute) {
        (void)snprintf(text + size, sizeof(text) - size, "/%.*s/controller/v1/%.*s/%s",
                       (int)call->tenant.size, call->tenant.data, (int)call->controller.size,
                       call->controller.data, rest);
    }
    return json_pack("{s:s}", "href", text);
}

json_t *ddi_poll_json(const struct ddi_call *call, uint32_t cancel_action, uint32_t interval_s)
{
    char sleep[16];
    uint32_t most = 24 * 3600 - 1; // HH:MM:SS
    uint32_t s = interval_s < most ? interval_s : most;
    json_t *links = json_object();
    (void)snprintf(sleep, sizeof(sleep), "%02u:%02u:%02u", s / 3600 % 24, s / 60 % 60, s % 60);
    if (!call->known || call->view.attrs.count <= 1) {
        (void)json_object_set_new(links, "configData", ddi_href(call, "configData"));
    }
    if (cancel_action != 0) {
        (void)json_object_set_new(links, "cancelAction",
                                  ddi_href(call, "cancelAction/%u", cancel_action));
    } else if (call->want.kind != GW_FOREIGN_NOTHING) {
        (void)json_object_set_new(links, "deploymentBase",
                                  ddi_href(call, "deploymentBase/%u",
                                           ddi_action(call->want.rollout_id, call->want.kind)));
    }
    return json_pack("{s:{s:{s:s}}, s:o}", "config", "polling", "sleep", sleep, "_links", links);
}

json_t *ddi_cancel_json(uint32_t action)
{
    char id[16];
    (void)snprintf(id, sizeof(id), "%u", action);
    return json_pack("{s:s, s:{s:s}}", "id", id, "cancelAction", "stopId", id);
}

// ---- In

// The body as a document; its unknown fields are ignored, as clients of all versions send some.
static bool parse_body(struct ddi_call *call, struct gw_json_at *out)
{
    struct gw_exchange *exchange = ddi_exchange(call);
    struct base_error error = {0};
    enum base_status status = gw_json_parse(exchange->request.body, exchange->request.body_bytes,
                                            exchange->arena, out, &error);
    if (status != BASE_OK) {
        gw_reply_failure(exchange, status, error.text, 1);
    }
    return status == BASE_OK;
}

static bool refuse(struct ddi_call *call, const char *text)
{
    gw_reply_problem(ddi_exchange(call), 400, "%s", text);
    return false;
}

// Lower-cased, as attribute names are; false when it cannot be one.
static bool take_name(struct base_arena *arena, const char *key, struct base_str *out)
{
    size_t size = strlen(key);
    char *name = size > 0 && size <= WIRE_ATTR_NAME_MAX ? base_arena_alloc(arena, size) : NULL;
    if (name == NULL) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = key[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        bool first = c >= 'a' && c <= 'z';
        bool later = (c >= '0' && c <= '9') || c == '_' || c == '.';
        if (!first && (i == 0 || !later)) {
            return false;
        }
        name[i] = c;
    }
    *out = (struct base_str){name, size};
    return true;
}

static bool take_value(struct base_arena *arena, const char *text, struct wire_attr *out)
{
    struct base_str value = base_str_of(text);
    bool padded = value.size > 1 && value.data[0] == '0';
    if (!padded && base_str_i64(value, &out->integer) == BASE_OK) {
        out->type = WIRE_ATTR_INTEGER;
        return true;
    }
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        out->type = WIRE_ATTR_BOOLEAN;
        out->integer = text[0] == 't';
        return true;
    }
    out->type = WIRE_ATTR_STRING;
    const char *copy = base_arena_text(arena, value.data, value.size);
    out->text = (struct base_str){copy, value.size};
    return copy != NULL && value.size <= WIRE_ATTR_STRING_MAX;
}

// Sets or replaces. False: too many.
static bool put_attr(struct wire_attrs *attrs, const struct wire_attr *attr)
{
    for (uint32_t i = 0; i < attrs->count; i++) {
        if (base_str_equal(attrs->items[i].name, attr->name)) {
            attrs->items[i] = *attr;
            return true;
        }
    }
    if (attrs->count == WIRE_ATTRS_MAX) {
        return false;
    }
    attrs->items[attrs->count++] = *attr;
    return true;
}

bool ddi_read_config(struct ddi_call *call, struct wire_attrs *out)
{
    struct gw_json_at root;
    struct base_arena *arena = ddi_exchange(call)->arena;
    if (!parse_body(call, &root)) {
        return false;
    }
    const char *mode = json_string_value(json_object_get(root.object, "mode"));
    const json_t *data = json_object_get(root.object, "data");
    if (!json_is_object(data)) {
        return refuse(call, "data: an object of texts");
    }
    if (mode != NULL && strcmp(mode, "merge") != 0 && strcmp(mode, "replace") != 0) {
        return refuse(call, "mode: merge or replace");
    }
    if (mode != NULL && mode[0] == 'm') {
        *out = call->view.attrs;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)data, key, value)
    {
        struct wire_attr attr = {0};
        const char *text = json_string_value(value);
        if (text == NULL || !take_name(arena, key, &attr.name) || !take_value(arena, text, &attr) ||
            !put_attr(out, &attr)) {
            return refuse(call,
                          "data: names of 1 to 32 letters, digits, _ and ., texts of at most 64 "
                          "bytes, 32 of them");
        }
    }
    struct wire_attr self = {
        .name = BASE_STR("controller_id"), .type = WIRE_ATTR_STRING, .text = call->controller};
    return put_attr(out, &self) || refuse(call, "data: at most 31 attributes");
}

static enum ddi_verdict verdict_of(const char *execution, const char *finished)
{
    if (execution != NULL && strcmp(execution, "closed") == 0) {
        return finished != NULL && strcmp(finished, "failure") == 0 ? DDI_FAILURE : DDI_SUCCESS;
    }
    if (execution != NULL && strcmp(execution, "downloaded") == 0) {
        return DDI_DOWNLOADED;
    }
    if (execution != NULL && strcmp(execution, "rejected") == 0) {
        return DDI_REJECTED;
    }
    return DDI_GOING_ON; // proceeding, scheduled, resumed, download, canceled
}

bool ddi_read_feedback(struct ddi_call *call, struct ddi_feedback *out)
{
    struct gw_json_at root;
    struct base_arena *arena = ddi_exchange(call)->arena;
    if (!parse_body(call, &root)) {
        return false;
    }
    const json_t *status = json_object_get(root.object, "status");
    const char *execution = json_string_value(json_object_get(status, "execution"));
    const char *finished =
        json_string_value(json_object_get(json_object_get(status, "result"), "finished"));
    if (execution == NULL) {
        return refuse(call, "status.execution: missing");
    }
    out->verdict = verdict_of(execution, finished);
    const char *detail = json_string_value(json_array_get(json_object_get(status, "details"), 0));
    if (detail != NULL) {
        size_t size = base_str_fit(base_str_of(detail), WIRE_REPORT_DETAIL_MAX);
        const char *copy = base_arena_text(arena, detail, size);
        out->detail = (struct base_str){copy, copy != NULL ? size : 0};
    }
    return true;
}
