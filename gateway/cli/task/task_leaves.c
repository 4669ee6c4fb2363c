// task.json's "leaves" to the bytes a device keeps to. Called by task_declare.c once for each
// source; one thread. Members are taken in the order of their names, so the same declaration always
// gives the same bytes. Objects and lists become paths: "pos.x", "tags[]".
#include "cli/task/task_leaves.h"

#include "cli/base/cli_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE_MAX 120 // of an error: "task.json: leaves.uploads.spent.fields.item"
#define KEYS_MAX  WIRE_LEAVES_FIELDS_MAX

static const char *const leaves_fields[] = {"uploads", "infer", "errors", NULL};
static const char *const upload_fields[] = {"fields",    "value",   "bytes",
                                            "max_bytes", "per_day", NULL};
static const char *const type_fields[] = {"type", "max", "items", "fields", NULL};
static const char *const model_fields[] = {"inputs", "max_bytes", "per_day", NULL};
static const char *const input_fields[] = {"dtype", "max_elements", NULL};

// What is made, texts of its paths among it.
struct work {
    struct wire_leaves leaves;
    struct base_error *error;
    char paths[WIRE_LEAVES_FIELDS_MAX][WIRE_LEAVES_PATH_MAX + 1];
};

// Where one is, for errors, and the path of a value in its record.
struct place {
    char where[WHERE_MAX];
    char path[WIRE_LEAVES_PATH_MAX + 1];
    uint32_t depth;
};

static enum base_status wrong(const struct work *work, const char *where, const char *what)
{
    return base_error_set(work->error, BASE_ERR_INVALID, "task.json: %s: %s", where, what);
}

static enum base_status only(const struct work *work, const json_t *object,
                             const char *const *names, const char *where)
{
    char what[WHERE_MAX + 12];
    (void)snprintf(what, sizeof(what), "task.json: %s", where);
    return cli_json_only(object, names, what, work->error);
}

static void where_add(char where[WHERE_MAX], const char *name)
{
    size_t size = strlen(where);
    (void)snprintf(where + size, WHERE_MAX - size, "%s%.40s", size > 0 ? "." : "", name);
}

// ---- Members in the order of their names

struct keys {
    const char *names[KEYS_MAX];
    uint32_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum base_status keys_of(const struct work *work, const json_t *object, const char *where,
                                struct keys *out)
{
    const char *key;
    json_t *value;
    out->count = 0;
    if (!json_is_object(object) || json_object_size(object) > KEYS_MAX) {
        return wrong(work, where, "is no object, or one of more than 128 members");
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        out->names[out->count++] = key;
    }
    qsort(out->names, out->count, sizeof(out->names[0]), by_name);
    return BASE_OK;
}
_Static_assert(KEYS_MAX == 128, "the text above says so");

static enum base_status number_take(const struct work *work, const json_t *object,
                                    const char *where, const char *key, uint64_t *inout)
{
    const json_t *value = json_object_get(object, key);
    uint64_t max = *inout;
    *inout = 0;
    if (value == NULL) {
        return BASE_OK;
    }
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || (uint64_t)number > max) {
        return base_error_set(work->error, BASE_ERR_INVALID,
                              "task.json: %s.%s is a whole number from 1 to %llu", where, key,
                              (unsigned long long)max);
    }
    *inout = (uint64_t)number;
    return BASE_OK;
}

static enum base_status count_take(const struct work *work, const json_t *object, const char *where,
                                   const char *key, uint32_t *inout)
{
    uint64_t wide = *inout;
    BASE_TRY(number_take(work, object, where, key, &wide));
    *inout = (uint32_t)wide;
    return BASE_OK;
}

// ---- Types

static enum base_status field_add(struct work *work, const struct place *place,
                                  enum wire_leaves_kind kind, uint32_t max)
{
    struct wire_leaves *leaves = &work->leaves;
    if (leaves->field_count == WIRE_LEAVES_FIELDS_MAX) {
        return wrong(work, place->where, "there are more than 128 fields in all");
    }
    char *path = work->paths[leaves->field_count];
    (void)snprintf(path, WIRE_LEAVES_PATH_MAX + 1, "%s", place->path);
    leaves->fields[leaves->field_count++] =
        (struct wire_leaves_field){.path = base_str_of(path), .kind = kind, .max = max};
    return BASE_OK;
}
_Static_assert(WIRE_LEAVES_FIELDS_MAX == 128, "the text above says so");

static enum base_status path_add(const struct work *work, struct place *place, const char *part,
                                 size_t size)
{
    size_t at = strlen(place->path);
    if (size > WIRE_LEAVES_PATH_MAX - at || place->depth == WIRE_LEAVES_DEPTH_MAX) {
        return wrong(work, place->where,
                     "is nested more than 8 deep, or its path is over 96 bytes");
    }
    memcpy(place->path + at, part, size);
    place->path[at + size] = '\0';
    return BASE_OK;
}
_Static_assert(WIRE_LEAVES_PATH_MAX == 96 && WIRE_LEAVES_DEPTH_MAX == 8, "the text above says so");

static enum base_status type_take(struct work *work, const json_t *type, const struct place *place);

// A name as in a schema: a '?' behind it says nothing here, for what need not leave may stay.
static enum base_status member_take(struct work *work, const json_t *fields, const char *name,
                                    const struct place *parent)
{
    struct place place = *parent;
    size_t size = strlen(name);
    size -= size > 1 && name[size - 1] == '?' ? 1 : 0;
    where_add(place.where, name);
    if (!wire_leaves_part_ok((struct base_str){name, size})) {
        return wrong(work, place.where, "is no name of a field: none has . [ ] \" or \\");
    }
    if (place.path[0] != '\0') {
        BASE_TRY(path_add(work, &place, ".", 1));
    }
    BASE_TRY(path_add(work, &place, name, size));
    place.depth++;
    return type_take(work, json_object_get(fields, name), &place);
}

static enum base_status fields_take(struct work *work, const json_t *fields,
                                    const struct place *place)
{
    struct keys keys;
    BASE_TRY(keys_of(work, fields, place->where, &keys));
    if (keys.count == 0) {
        return wrong(work, place->where, "has no fields");
    }
    for (uint32_t i = 0; i < keys.count; i++) {
        BASE_TRY(member_take(work, fields, keys.names[i], place));
    }
    return BASE_OK;
}

static enum base_status list_take(struct work *work, const json_t *type, uint32_t max,
                                  const struct place *place)
{
    struct place items = *place;
    BASE_TRY(field_add(work, place, WIRE_LEAVES_LIST, max));
    where_add(items.where, "items");
    BASE_TRY(path_add(work, &items, "[]", 2));
    items.depth++;
    return type_take(work, json_object_get(type, "items"), &items);
}

// "integer", {"type": "string", "max": 64}, {"type": "list", "items": .., "max": 8}, {"fields": ..}
static enum base_status type_take(struct work *work, const json_t *type, const struct place *place)
{
    const char *name = json_string_value(type);
    uint32_t max = WIRE_LEAVES_TEXT_MAX;
    _Static_assert(WIRE_LEAVES_ITEMS_MAX >= WIRE_LEAVES_TEXT_MAX, "one bound is told for both");
    if (json_is_object(type)) {
        BASE_TRY(only(work, type, type_fields, place->where));
        BASE_TRY(count_take(work, type, place->where, "max", &max));
        const json_t *fields = json_object_get(type, "fields");
        name = cli_json_text(type, "type", fields != NULL ? "object" : "");
        if (fields != NULL && strcmp(name, "object") == 0) {
            struct place inner = *place;
            where_add(inner.where, "fields");
            return fields_take(work, fields, &inner);
        }
    } else {
        max = 0;
    }
    if (name == NULL) {
        return wrong(work, place->where, "is no type");
    }
    if (strcmp(name, "string") == 0 || strcmp(name, "list") == 0) {
        if (max == 0) {
            return wrong(work, place->where, "needs \"max\": how much of it may leave");
        }
        return name[0] == 's' ? field_add(work, place, WIRE_LEAVES_TEXT, max)
                              : list_take(work, type, max, place);
    }
    static const char *const kinds[] = {"boolean", "integer", "number"}; // as the enum has them
    for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, kinds[i]) == 0 && max > 0) {
            return wrong(work, place->where, "has a \"max\", which only strings and lists have");
        }
        if (strcmp(name, kinds[i]) == 0) {
            return field_add(work, place, (enum wire_leaves_kind)i, 0);
        }
    }
    return wrong(work, place->where,
                 "is no boolean, integer, number, string, list or object with \"fields\"");
}

// ---- Uploads

static enum base_status upload_take(struct work *work, const char *name, const json_t *item)
{
    struct wire_leaves *leaves = &work->leaves;
    struct wire_leaves_upload *upload = &leaves->uploads[leaves->upload_count];
    struct place place = {.depth = 0};
    (void)snprintf(place.where, sizeof(place.where), "leaves.uploads.%.40s", name);
    if (!json_is_object(item) || !wire_upload_name_ok(base_str_of(name))) {
        return wrong(work, place.where, "is no object, or its name is none of \"uploads\"");
    }
    BASE_TRY(only(work, item, upload_fields, place.where));
    *upload = (struct wire_leaves_upload){.name = base_str_of(name),
                                          .bytes_max = WIRE_RECORD_BYTES_MAX,
                                          .per_day = WIRE_LEAVES_PER_DAY_MAX,
                                          .field_from = leaves->field_count};
    BASE_TRY(count_take(work, item, place.where, "max_bytes", &upload->bytes_max));
    BASE_TRY(count_take(work, item, place.where, "per_day", &upload->per_day));
    const json_t *fields = json_object_get(item, "fields");
    const json_t *value = json_object_get(item, "value");
    const json_t *bytes = json_object_get(item, "bytes");
    upload->opaque = json_is_true(bytes);
    if (upload->bytes_max == 0) {
        return wrong(work, place.where, "needs \"max_bytes\": the most bytes of a record");
    }
    if ((bytes != NULL && !json_is_boolean(bytes)) || (fields != NULL && value != NULL) ||
        (fields == NULL && value == NULL && !upload->opaque)) {
        return wrong(work, place.where,
                     "has either \"fields\" or \"value\", or \"bytes\": true beside or alone");
    }
    struct place inner = place;
    where_add(inner.where, fields != NULL ? "fields" : "value");
    if (fields != NULL) {
        BASE_TRY(fields_take(work, fields, &inner));
    } else if (value != NULL) {
        BASE_TRY(type_take(work, value, &inner));
    }
    upload->field_count = leaves->field_count - upload->field_from;
    leaves->upload_count++;
    return BASE_OK;
}

static enum base_status uploads_take(struct work *work, const json_t *uploads)
{
    struct keys keys;
    BASE_TRY(keys_of(work, uploads, "leaves.uploads", &keys));
    if (keys.count > WIRE_DECLARATION_UPLOADS_MAX) {
        return wrong(work, "leaves.uploads", "has more than 16 members");
    }
    for (uint32_t i = 0; i < keys.count; i++) {
        BASE_TRY(upload_take(work, keys.names[i], json_object_get(uploads, keys.names[i])));
    }
    return BASE_OK;
}
_Static_assert(WIRE_DECLARATION_UPLOADS_MAX == 16, "the text above says so");

// ---- Models

static uint64_t element_bytes(struct base_str dtype)
{
    bool narrow =
        base_str_equal(dtype, BASE_STR("BOOL")) || dtype.data[dtype.size - 1] == '8'; // UINT8, INT8
    if (base_str_equal(dtype, BASE_STR("BYTES"))) {
        return 0; // as long as they like
    }
    return narrow                              ? 1
           : dtype.data[dtype.size - 1] == '6' ? 2 // .. 16
           : dtype.data[dtype.size - 1] == '2' ? 4 // .. 32
                                               : 8;
}

// *inout_bytes: what the inputs before can have; UINT64_MAX: any number.
static enum base_status input_take(struct work *work, const char *where, const char *name,
                                   const json_t *item, uint64_t *inout_bytes)
{
    struct wire_leaves *leaves = &work->leaves;
    char at[WHERE_MAX];
    (void)snprintf(at, sizeof(at), "%s", where);
    where_add(at, name);
    size_t size = strlen(name);
    if (!json_is_object(item) || size == 0 || size > WIRE_LEAVES_NAME_MAX) {
        return wrong(work, at, "is no object, or no name of an input");
    }
    BASE_TRY(only(work, item, input_fields, at));
    if (leaves->input_count == WIRE_LEAVES_INPUTS_MAX) {
        return wrong(work, at, "there are more than 32 inputs in all");
    }
    struct base_str dtype = base_str_of(json_string_value(json_object_get(item, "dtype")));
    uint64_t elements = WIRE_LEAVES_ELEMENTS_MAX;
    if (!wire_leaves_dtype_ok(dtype)) {
        return wrong(work, at, "needs \"dtype\", as \"FP32\", \"INT64\", \"UINT8\" or \"BYTES\"");
    }
    BASE_TRY(number_take(work, item, at, "max_elements", &elements));
    if (elements == 0) {
        return wrong(work, at, "needs \"max_elements\"");
    }
    uint64_t each = element_bytes(dtype);
    *inout_bytes =
        each == 0 || *inout_bytes == UINT64_MAX ? UINT64_MAX : *inout_bytes + each * elements;
    leaves->inputs[leaves->input_count++] =
        (struct wire_leaves_port){base_str_of(name), dtype, elements};
    return BASE_OK;
}
_Static_assert(WIRE_LEAVES_INPUTS_MAX == 32, "the text above says so");

static enum base_status model_take(struct work *work, const char *name, const json_t *item)
{
    struct wire_leaves *leaves = &work->leaves;
    struct wire_leaves_model *model = &leaves->models[leaves->model_count];
    struct keys keys;
    char where[WHERE_MAX];
    (void)snprintf(where, sizeof(where), "leaves.infer.%.40s", name);
    size_t size = strlen(name);
    if (!json_is_object(item) || size == 0 || size > WIRE_LEAVES_NAME_MAX) {
        return wrong(work, where, "is no object, or no name of a model");
    }
    BASE_TRY(only(work, item, model_fields, where));
    *model = (struct wire_leaves_model){.name = base_str_of(name),
                                        .bytes_max = WIRE_LEAVES_CALL_MAX,
                                        .per_day = WIRE_LEAVES_PER_DAY_MAX,
                                        .input_from = leaves->input_count};
    BASE_TRY(count_take(work, item, where, "max_bytes", &model->bytes_max));
    BASE_TRY(count_take(work, item, where, "per_day", &model->per_day));
    if (json_object_get(item, "inputs") == NULL) {
        return wrong(work, where, "needs \"inputs\", by name with \"dtype\" and \"max_elements\"");
    }
    char inputs[WHERE_MAX];
    (void)snprintf(inputs, sizeof(inputs), "leaves.infer.%.40s.inputs", name);
    BASE_TRY(keys_of(work, json_object_get(item, "inputs"), inputs, &keys));
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < keys.count; i++) {
        const json_t *input = json_object_get(json_object_get(item, "inputs"), keys.names[i]);
        BASE_TRY(input_take(work, inputs, keys.names[i], input, &bytes));
    }
    model->input_count = keys.count;
    if (keys.count == 0) {
        return wrong(work, inputs, "has no inputs");
    }
    if (model->bytes_max == 0) {
        model->bytes_max = bytes <= WIRE_LEAVES_CALL_MAX ? (uint32_t)bytes : 0;
    }
    leaves->model_count++;
    return model->bytes_max > 0 ? BASE_OK
                                : wrong(work, where,
                                        "needs \"max_bytes\" of at most 67108864: its inputs can "
                                        "be larger");
}
_Static_assert(WIRE_LEAVES_CALL_MAX == 67108864, "the text above says so");

static enum base_status models_take(struct work *work, const json_t *models)
{
    struct keys keys;
    BASE_TRY(keys_of(work, models, "leaves.infer", &keys));
    if (keys.count > WIRE_LEAVES_MODELS_MAX) {
        return wrong(work, "leaves.infer", "has more than 8 members");
    }
    for (uint32_t i = 0; i < keys.count; i++) {
        BASE_TRY(model_take(work, keys.names[i], json_object_get(models, keys.names[i])));
    }
    return BASE_OK;
}
_Static_assert(WIRE_LEAVES_MODELS_MAX == 8, "the text above says so");

// ---- The whole

static enum base_status leaves_take(struct work *work, const json_t *leaves, uint8_t *out,
                                    size_t *out_size)
{
    const json_t *uploads = json_object_get(leaves, "uploads");
    const json_t *models = json_object_get(leaves, "infer");
    const json_t *errors = json_object_get(leaves, "errors");
    if (!json_is_object(leaves)) {
        return wrong(work, "leaves", "is no object");
    }
    BASE_TRY(only(work, leaves, leaves_fields, "leaves"));
    if (errors != NULL) {
        const char *said = json_is_string(errors) ? json_string_value(errors) : "";
        work->leaves.errors = strcmp(said, "text") == 0 ? WIRE_LEAVES_WORDS : WIRE_LEAVES_PLACE;
        if (work->leaves.errors == WIRE_LEAVES_PLACE && strcmp(said, "place") != 0) {
            return wrong(work, "leaves.errors", "is \"place\" or \"text\"");
        }
    }
    if (uploads != NULL) {
        BASE_TRY(uploads_take(work, uploads));
    }
    if (models != NULL) {
        BASE_TRY(models_take(work, models));
    }
    enum base_status status =
        wire_leaves_encode(&work->leaves, out, WIRE_LEAVES_BYTES_MAX, out_size);
    if (status == BASE_ERR_TOO_LARGE) {
        return base_error_set(work->error, status, "task.json: leaves: takes more than %d bytes",
                              WIRE_LEAVES_BYTES_MAX);
    }
    return status == BASE_OK ? BASE_OK
                             : wrong(work, "leaves", "names a field twice ('a' and 'a?')");
}

enum base_status task_leaves(const json_t *document, uint8_t out[WIRE_LEAVES_BYTES_MAX],
                             size_t *out_size, struct base_error *error)
{
    const json_t *leaves = json_object_get(document, "leaves");
    *out_size = 0;
    if (leaves == NULL) {
        return BASE_OK;
    }
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    work->error = error;
    enum base_status status = leaves_take(work, leaves, out, out_size);
    free(work);
    return status;
}
