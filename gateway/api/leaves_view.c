// A version's "leaves", read from its manifest for people. Called by api_catalog.c for each version
// that is shown, on the control thread. The manifest is read anew: it is a small blob, and what is
// shown is what was signed.
#include "api/leaves_view.h"

#include "svc/rollout/catalog.h"
#include "wire/leaves/leaves.h"
#include "wire/manifest.h"

#include <stdlib.h>

static json_t *text_of(struct base_str text)
{
    return json_stringn_nocheck(text.data != NULL ? text.data : "", text.size);
}

static void put(json_t *object, struct base_str name, json_t *value)
{
    char key[WIRE_LEAVES_NAME_MAX + 1];
    _Static_assert(WIRE_LEAVES_NAME_MAX >= WIRE_LEAVES_PATH_MAX, "it holds a path, too");
    memcpy(key, name.data != NULL ? name.data : "", name.size);
    key[name.size] = '\0';
    (void)json_object_set_new_nocheck(object, key, value);
}

static json_t *field_view(const struct wire_leaves_field *field)
{
    static const char *const kinds[WIRE_LEAVES_KIND_END] = {"boolean", "integer", "number",
                                                            "string", "list"};
    return field->max > 0
               ? json_pack("{s:s, s:I}", "type", kinds[field->kind], "max", (json_int_t)field->max)
               : json_pack("{s:s}", "type", kinds[field->kind]);
}

// 0, which stands for any number, is left out.
static void bounds_put(json_t *object, uint32_t bytes_max, uint32_t per_day)
{
    (void)json_object_set_new(object, "max_bytes", json_integer(bytes_max));
    if (per_day > 0) {
        (void)json_object_set_new(object, "per_day", json_integer(per_day));
    }
}

static json_t *upload_view(const struct wire_leaves *leaves,
                           const struct wire_leaves_upload *upload)
{
    json_t *fields = json_object();
    for (uint32_t i = 0; i < upload->field_count; i++) {
        const struct wire_leaves_field *field = &leaves->fields[upload->field_from + i];
        put(fields, field->path, field_view(field));
    }
    json_t *view = json_pack("{s:o, s:b}", "fields", fields, "bytes", upload->opaque);
    bounds_put(view, upload->bytes_max, upload->per_day);
    return view;
}

static json_t *model_view(const struct wire_leaves *leaves, const struct wire_leaves_model *model)
{
    json_t *inputs = json_object();
    for (uint32_t i = 0; i < model->input_count; i++) {
        const struct wire_leaves_port *input = &leaves->inputs[model->input_from + i];
        put(inputs, input->name,
            json_pack("{s:o, s:I}", "dtype", text_of(input->dtype), "max_elements",
                      (json_int_t)input->elements_max));
    }
    json_t *view = json_pack("{s:o}", "inputs", inputs);
    bounds_put(view, model->bytes_max, model->per_day);
    return view;
}

static json_t *leaves_view(const struct wire_leaves *leaves)
{
    json_t *uploads = json_object();
    json_t *models = json_object();
    for (uint32_t i = 0; i < leaves->upload_count; i++) {
        put(uploads, leaves->uploads[i].name, upload_view(leaves, &leaves->uploads[i]));
    }
    for (uint32_t i = 0; i < leaves->model_count; i++) {
        put(models, leaves->models[i].name, model_view(leaves, &leaves->models[i]));
    }
    return json_pack("{s:s, s:o, s:o}", "errors",
                     leaves->errors == WIRE_LEAVES_PLACE ? "place" : "text", "uploads", uploads,
                     "infer", models);
}

// What the declaration says, NULL: nothing.
static json_t *declaration_view(struct base_str bytes)
{
    struct wire_declaration declaration;
    struct wire_leaves leaves;
    if (bytes.size == 0 ||
        wire_declaration_parse((const uint8_t *)bytes.data, bytes.size, &declaration) != BASE_OK ||
        declaration.leaves.size == 0 ||
        wire_leaves_parse((const uint8_t *)declaration.leaves.data, declaration.leaves.size,
                          &leaves) != BASE_OK) {
        return NULL;
    }
    return leaves_view(&leaves);
}

json_t *gw_view_leaves(struct gw_core *core, const struct wire_sha256 *manifest)
{
    struct wire_manifest *parsed = calloc(1, sizeof(*parsed));
    struct gw_store_bytes bytes;
    json_t *view = NULL;
    if (parsed != NULL && gw_catalog_manifest_load(core, manifest, &bytes) == BASE_OK) {
        if (wire_manifest_parse(bytes.data, bytes.size, parsed) == BASE_OK) {
            view = declaration_view(parsed->declaration);
        }
        gw_store_bytes_done(&bytes);
    }
    free(parsed);
    return view != NULL ? view : json_null();
}
