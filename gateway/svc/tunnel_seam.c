// What versions declare to upload, on its way to the ingest of the tunnel: at start from the
// catalog, then with each version that is registered. Main and control thread. gateway_main.c sets
// the seam before workers start, catalog.c calls for a new version, api_tunnel.c asks for the
// ingest. The core knows a pointer and two functions and no header of gateway/tunnel, so it is
// tested and simulated without a tunnel.
#include "svc/tunnel_seam.h"

#include "svc/core_private.h"
#include "svc/content/tunnel_dicts.h"

#include "wire/declaration.h"

#include <stdlib.h>
#include <string.h>

struct gw_ingest *gw_core_tunnel(const struct gw_core *core)
{
    return core->tunnel.ingest;
}

enum base_status gw_core_declare_uploads(struct gw_core *core, const struct wire_manifest *manifest,
                                         struct base_error *error)
{
    uint16_t tenant = 0;
    struct wire_declaration declaration;
    if (core->tunnel.ingest == NULL || manifest->declaration.size == 0) {
        return BASE_OK;
    }
    if (!gw_catalog_task_owner(core, manifest->task_name, &tenant)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such task");
    }
    enum base_status status = wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                                     manifest->declaration.size, &declaration);
    if (status != BASE_OK) {
        return base_error_set(error, status, "manifest: declaration: %s", base_status_text(status));
    }
    for (uint32_t i = 0; i < declaration.upload_count; i++) {
        const struct wire_upload *upload = &declaration.uploads[i];
        const struct wire_topic topic = {manifest->task_name, upload->name, upload->schema_version};
        BASE_TRY(core->tunnel.declare(core->tunnel.ingest, tenant, &topic, upload->class_id,
                                      upload->schema, error));
    }
    return BASE_OK;
}

// ---- At start

struct digests {
    struct wire_sha256 *list;
    uint32_t count;
    uint32_t capacity;
};

// The digest is the end of a version's key.
static bool collect(void *ctx, struct base_span key, struct base_span value)
{
    struct digests *digests = ctx;
    (void)value;
    if (key.size < WIRE_SHA256_BYTES) {
        return true;
    }
    if (digests->count == digests->capacity) {
        uint32_t capacity = digests->capacity == 0 ? 64 : digests->capacity * 2;
        struct wire_sha256 *list = realloc(digests->list, capacity * sizeof(*list));
        if (list == NULL) {
            return false;
        }
        digests->list = list;
        digests->capacity = capacity;
    }
    memcpy(digests->list[digests->count++].bytes, key.data + key.size - WIRE_SHA256_BYTES,
           WIRE_SHA256_BYTES);
    return true;
}

static enum base_status declare_version(struct gw_core *core, const struct wire_sha256 *digest,
                                        struct wire_manifest *manifest, struct base_error *error)
{
    struct gw_store_bytes bytes;
    BASE_TRY(gw_store_blob_load(core->store, digest, &bytes));
    enum base_status status = wire_manifest_parse(bytes.data, bytes.size, manifest);
    if (status == BASE_OK) {
        status = gw_core_declare_uploads(core, manifest, error);
    }
    gw_store_bytes_done(&bytes);
    return status;
}

static void declare_all(struct gw_core *core, const struct digests *digests)
{
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    for (uint32_t i = 0; i < digests->count && manifest != NULL; i++) {
        struct base_error error = {0};
        enum base_status status = declare_version(core, &digests->list[i], manifest, &error);
        if (status != BASE_OK) {
            char hex[WIRE_SHA256_HEX + 1];
            wire_sha256_hex(&digests->list[i], hex);
            base_log_warn(core->log, "tunnel", "uploads of version %s are not declared: %s", hex,
                          error.text[0] != '\0' ? error.text : base_status_text(status));
        }
    }
    free(manifest);
}

void gw_core_set_tunnel(struct gw_core *core, const struct gw_tunnel_seam *seam)
{
    core->tunnel = *seam;
    struct digests digests = {0};
    struct gw_store_read *read;
    struct wire_sha256 zero = {{0}};
    struct gw_key from = gw_key_u64_sha(0, &zero);
    if (gw_store_read_begin(core->store, &read) != BASE_OK) {
        return;
    }
    enum base_status status = gw_store_read_scan(read, GW_TABLE_VERSIONS, &from, collect, &digests);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        declare_all(core, &digests);
    }
    free(digests.list);
}

// ---- Dictionaries

enum base_status gw_core_load_dict(struct gw_core *core, uint32_t id, uint8_t **out_bytes,
                                   size_t *out_size)
{
    struct gw_store_bytes bytes;
    BASE_TRY(gw_tunnel_dicts_load(core->store, id, &bytes));
    uint8_t *copy = malloc(bytes.size > 0 ? bytes.size : 1);
    if (copy != NULL) {
        memcpy(copy, bytes.data, bytes.size);
        *out_bytes = copy;
        *out_size = bytes.size;
    }
    gw_store_bytes_done(&bytes);
    return copy != NULL ? BASE_OK : BASE_ERR_NOMEM;
}
