// Reading stored content: small content (manifests, scripts, signed metadata) is read into memory,
// hashed there, and used from there, at every use. What is not what its name says is CORRUPT; what
// becomes of that is said in device_repair.c. Called by whoever reads content.
#include "core/slots/device_content.h"

#include "base/check.h"

static bool has_digest(struct dev_runtime *runtime, const struct wire_sha256 *name,
                       const uint8_t *bytes, size_t size)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, name);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return wire_sha256_equal(&digest, name);
}

enum base_status dev_content_open(struct dev_runtime *runtime, const struct wire_sha256 *name,
                                  uint64_t bytes_max, const uint8_t **out_bytes, size_t *out_size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    BASE_TRY(storage->blob_stat(storage->ctx, name, &have, &sealed));
    if (!sealed) {
        return BASE_ERR_NOT_FOUND;
    }
    if (have > bytes_max) {
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(storage->blob_load != NULL
                 ? storage->blob_load(storage->ctx, name, out_bytes, out_size)
                 : storage->blob_map(storage->ctx, name, out_bytes, out_size));
    if (storage->steady || has_digest(runtime, name, *out_bytes, *out_size)) {
        return BASE_OK;
    }
    storage->blob_unmap(storage->ctx, name, *out_bytes, *out_size);
    return BASE_ERR_CORRUPT;
}

void dev_content_close(struct dev_runtime *runtime, const struct wire_sha256 *name,
                       const uint8_t *bytes, size_t size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    storage->blob_unmap(storage->ctx, name, bytes, size);
}

// ---- Manifests

enum base_status dev_manifest_open(struct dev_runtime *runtime, const struct wire_sha256 *name,
                                   struct dev_manifest *out)
{
    BASE_TRY(dev_content_open(runtime, name, WIRE_MANIFEST_BYTES_MAX, &out->bytes, &out->size));
    out->name = *name;
    bool again = wire_sha256_equal(name, &runtime->manifest_judged);
    enum base_status status = again ? wire_manifest_again(out->bytes, out->size, &out->parsed)
                                    : wire_manifest_parse(out->bytes, out->size, &out->parsed);
    if (status != BASE_OK) {
        dev_manifest_close(runtime, out);
        return status;
    }
    runtime->manifest_judged = *name; // and so are its bytes, wherever they are read
    return BASE_OK;
}

bool dev_manifest_declares(const struct wire_manifest *manifest, struct wire_declaration *out)
{
    return manifest->declaration.size > 0 &&
           wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                  manifest->declaration.size, out) == BASE_OK;
}

void dev_manifest_close(struct dev_runtime *runtime, struct dev_manifest *manifest)
{
    base_assert(manifest->bytes != NULL);
    dev_content_close(runtime, &manifest->name, manifest->bytes, manifest->size);
}

enum base_status dev_exclusive_open(struct dev_runtime *runtime, const struct wire_sha256 *name,
                                    struct dev_exclusive *out)
{
    out->bytes = NULL;
    out->parsed.file_count = 0;
    if (wire_sha256_is_zero(name)) {
        return BASE_OK;
    }
    BASE_TRY(dev_content_open(runtime, name, WIRE_EXCLUSIVE_BYTES_MAX, &out->bytes, &out->size));
    out->name = *name;
    enum base_status status = wire_exclusive_parse(out->bytes, out->size, &out->parsed);
    if (status != BASE_OK) {
        dev_exclusive_close(runtime, out);
    }
    return status;
}

void dev_exclusive_close(struct dev_runtime *runtime, struct dev_exclusive *exclusive)
{
    if (exclusive->bytes != NULL) {
        dev_content_close(runtime, &exclusive->name, exclusive->bytes, exclusive->size);
        exclusive->bytes = NULL;
    }
}
