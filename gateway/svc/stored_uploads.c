// What all versions of the catalog declare to upload is said to the tunnel when it is
// set. Main thread, before the first worker is made; catalog.c says the same of each version that
// comes later.
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"

#include <stdlib.h>
#include <string.h>

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
        status = gw_catalog_declare(core, manifest, error);
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
    core->hooks.tunnel = *seam;
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
