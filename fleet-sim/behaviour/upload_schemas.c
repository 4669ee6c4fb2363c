// The gateway's check of records in a simulation. Called by fleet_pipeline.c for each record that a
// virtual device makes, on its shard's thread. A schema is parsed once and kept by its text's hash;
// beyond SIM_UPLOAD_SCHEMAS_MAX it is parsed for each record.
#include "behaviour/upload_schemas.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

void sim_upload_schemas_done(struct sim_upload_schemas *schemas)
{
    for (uint32_t i = 0; i < schemas->count; i++) {
        gw_schema_free(schemas->items[i]);
    }
    schemas->count = 0;
}

// The schema of a text; *out_own: the caller frees it. NULL: it is none.
static struct gw_schema *schema_of(struct sim_upload_schemas *schemas, struct base_str text,
                                   bool *out_own)
{
    uint64_t hash = base_hash64(text.data, text.size);
    struct gw_schema *schema = NULL;
    struct base_error error = {.status = BASE_OK};
    *out_own = false;
    for (uint32_t i = 0; i < schemas->count; i++) {
        if (schemas->hashes[i] == hash) {
            return schemas->items[i];
        }
    }
    if (gw_schema_parse(text, &schema, &error) != BASE_OK) {
        return NULL;
    }
    *out_own = schemas->count == SIM_UPLOAD_SCHEMAS_MAX;
    if (!*out_own) {
        schemas->hashes[schemas->count] = hash;
        schemas->items[schemas->count++] = schema;
    }
    return schema;
}

// For a terminal: keys in it are the record's.
static void make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        *text = *text < ' ' || *text > '~' ? '?' : *text;
    }
}

bool sim_upload_taken(struct sim_upload_schemas *schemas, const struct wire_upload_record *upload,
                      char out_why[SIM_REFUSED_WHY_MAX])
{
    struct base_str record = {(const char *)upload->bytes, upload->size};
    char why[GW_SCHEMA_WHY_MAX + 1] = "its schema is none";
    bool own = false;
    if (upload->schema.size == 0) {
        return true;
    }
    struct gw_schema *schema = schema_of(schemas, upload->schema, &own);
    bool is_json = upload->format == WIRE_RECORD_JSON;
    bool taken = schema != NULL && is_json && gw_schema_check(schema, record) == BASE_OK;
    if (!taken && schema != NULL && is_json) {
        gw_schema_explain(schema, record, why);
    } else if (!taken && schema != NULL) {
        (void)snprintf(why, sizeof(why), "a record of bytes, and the upload has a schema");
    }
    if (own) {
        gw_schema_free(schema);
    }
    if (!taken && out_why != NULL) {
        (void)snprintf(out_why, SIM_REFUSED_WHY_MAX, "%.*s, %.*s: %s", (int)upload->key.task.size,
                       upload->key.task.data, (int)upload->key.name.size, upload->key.name.data,
                       why);
        make_plain(out_why);
    }
    return taken;
}
