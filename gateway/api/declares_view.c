// What a version declares, read from its manifest for people. Called by api_catalog.c for a version
// that is asked for alone, on the control thread. The manifest is read anew: it is a small blob,
// and what is shown is what was signed. Texts in it are any bytes; jansson leaves out what is no
// UTF-8.
#include "api/declares_view.h"

#include "svc/rollout/catalog.h"
#include "wire/declaration.h"
#include "wire/manifest.h"

#include <stdlib.h>

static void put_text(json_t *object, const char *key, struct base_str text)
{
    if (text.size > 0) {
        (void)json_object_set_new(object, key, json_stringn(text.data, text.size));
    }
}

static void put_count(json_t *object, const char *key, uint64_t count)
{
    if (count > 0) {
        (void)json_object_set_new(object, key, json_integer((json_int_t)count));
    }
}

static json_t *texts(const struct base_str *list, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(array, json_stringn(list[i].data, list[i].size));
    }
    return array;
}

static json_t *events_view(const struct wire_declaration *declaration)
{
    static const char *const takes[WIRE_EVENTS_END] = {"none", "matched", "visit", "time"};
    json_t *view = json_pack("{s:s}", "take", takes[declaration->events]);
    put_count(view, "most", declaration->events_max);
    put_count(view, "seconds", declaration->events_s);
    if (declaration->attribute_count > 0) {
        (void)json_object_set_new(view, "attributes",
                                  texts(declaration->attributes, declaration->attribute_count));
    }
    return view;
}

static json_t *uploads_view(const struct wire_declaration *declaration)
{
    static const char *const classes[] = {"control", "realtime", "behaviour", "debug"};
    json_t *list = json_array();
    for (uint32_t i = 0; i < declaration->upload_count; i++) {
        const struct wire_upload *upload = &declaration->uploads[i];
        json_t *one = json_object();
        put_text(one, "name", upload->name);
        if (upload->class_id < sizeof(classes) / sizeof(classes[0])) {
            (void)json_object_set_new(one, "class", json_string(classes[upload->class_id]));
        }
        put_count(one, "version", upload->schema_version);
        (void)json_array_append_new(list, one);
    }
    return list;
}

static void put_runs(json_t *object, const struct wire_declared_runs *runs)
{
    if (runs->priority > 0) { // 0 is one, too
        (void)json_object_set_new(object, "priority", json_integer(runs->priority - 1));
    }
    put_count(object, "deadline_ms", runs->deadline_ms);
    put_count(object, "at_once", runs->at_once);
}

static void put_declaration(json_t *object, const struct wire_declaration *declaration)
{
    static const char *const keeps[WIRE_STORE_KEEP_END] = {"versions", "version"};
    if (declaration->trigger_count > 0) {
        (void)json_object_set_new(object, "triggers",
                                  texts(declaration->triggers, declaration->trigger_count));
    }
    if (declaration->events != WIRE_EVENTS_NONE || declaration->attribute_count > 0) {
        (void)json_object_set_new(object, "events", events_view(declaration));
    }
    if (declaration->upload_count > 0) {
        (void)json_object_set_new(object, "uploads", uploads_view(declaration));
    }
    if (declaration->result_upload < declaration->upload_count) {
        put_text(object, "result", declaration->uploads[declaration->result_upload].name);
    }
    if (declaration->store_kib > 0) {
        (void)json_object_set_new(object, "store",
                                  json_pack("{s:I, s:s}", "quota_kib",
                                            (json_int_t)declaration->store_kib, "keep",
                                            keeps[declaration->store_keep]));
    }
    put_runs(object, &declaration->runs);
}

static json_t *manifest_view(const struct wire_manifest *manifest)
{
    struct wire_declaration declaration;
    struct base_str bytes = manifest->declaration;
    json_t *view = json_object();
    put_text(view, "entry", manifest->entry);
    put_count(view, "heap_kib", manifest->heap_kib);
    put_count(view, "time_ms", manifest->time_ms);
    put_count(view, "every_s", manifest->every_s);
    if (manifest->exclusive != WIRE_EXCLUSIVE_NONE) {
        (void)json_object_set_new(
            view, "exclusive",
            json_pack("{s:b}", "required", manifest->exclusive == WIRE_EXCLUSIVE_REQUIRED));
    }
    if (bytes.size > 0 &&
        wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &declaration) == BASE_OK) {
        put_declaration(view, &declaration);
    }
    return view;
}

json_t *gw_view_declares(struct gw_core *core, const struct wire_sha256 *manifest)
{
    struct wire_manifest *parsed = calloc(1, sizeof(*parsed));
    struct gw_store_bytes bytes;
    json_t *view = NULL;
    if (parsed != NULL && gw_catalog_manifest_load(core, manifest, &bytes) == BASE_OK) {
        if (wire_manifest_parse(bytes.data, bytes.size, parsed) == BASE_OK) {
            view = manifest_view(parsed);
        }
        gw_store_bytes_done(&bytes);
    }
    free(parsed);
    return view != NULL ? view : json_null();
}
