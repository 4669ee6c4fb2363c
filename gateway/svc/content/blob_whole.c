// A small version in one answer: its manifest, and behind it its files in the manifest's order, as
// many as fit. blob_serve.c asks on a worker; what was made is kept with the other blobs
// (blob_cache.c), so it is made once. Only what anybody may fetch is in it: an exclusive blob, one
// that is not there, and one of another size than the manifest says end it. An absent file may come
// and an exclusive one become public: what ended at such a one is not kept, nor may others keep it.
// Where a version has exclusive files, a device asks which are its own before it asks for any, so
// nothing is behind the manifest.
#include "svc/content/blob_cache.h"

#include "base/check.h"
#include "svc/core_private.h"
#include "wire/manifest.h"

#include <stdlib.h>
#include <string.h>

struct parts {
    uint8_t *bytes; // GW_BLOB_WHOLE_MAX
    size_t size;
    bool lacks; // a file that would belong there, were it there for everybody
};

// False: it does not belong there, nor does what comes behind it.
static bool add(struct gw_core *core, const struct wire_manifest_file *file, struct parts *parts)
{
    struct gw_blob *blob = NULL;
    base_assert(parts->size <= GW_BLOB_WHOLE_MAX);
    if (file->bytes > GW_BLOB_WHOLE_MAX - parts->size) {
        return false;
    }
    parts->lacks = gw_blob_open(core, &file->digest, &blob) != BASE_OK;
    if (parts->lacks) {
        return false;
    }
    parts->lacks = gw_blob_exclusive(core, blob);
    bool fits = gw_blob_size(blob) == file->bytes && !parts->lacks;
    size_t have = 0;
    const uint8_t *bytes = gw_blob_bytes(blob, 0, &have);
    if (fits && have > 0) {
        memcpy(parts->bytes + parts->size, bytes, have);
        parts->size += have;
    }
    gw_blob_release(blob);
    return fits;
}

static enum base_status make(struct gw_core *core, const struct gw_blob *manifest,
                             struct parts *parts)
{
    struct wire_manifest parsed;
    size_t size = 0;
    const uint8_t *bytes = gw_blob_bytes(manifest, 0, &size);
    if (size > GW_BLOB_WHOLE_MAX || wire_manifest_parse(bytes, size, &parsed) != BASE_OK) {
        return BASE_ERR_NOT_FOUND;
    }
    memcpy(parts->bytes, bytes, size);
    parts->size = size;
    uint32_t count = parsed.exclusive == WIRE_EXCLUSIVE_NONE ? parsed.file_count : 0;
    bool fits = true;
    for (uint32_t i = 0; i < count && fits; i++) {
        fits = add(core, &parsed.files[i], parts);
    }
    return BASE_OK;
}

enum base_status gw_blob_whole(struct gw_core *core, const struct wire_sha256 *digest,
                               struct gw_blob **inout_blob)
{
    struct gw_blob *manifest = *inout_blob;
    struct gw_blob *whole = gw_blob_cached_whole(core, digest);
    struct parts parts = {0};
    enum base_status status = BASE_OK;
    if (whole == NULL) {
        parts.bytes = malloc(GW_BLOB_WHOLE_MAX);
        status = parts.bytes != NULL ? make(core, manifest, &parts) : BASE_ERR_NOMEM;
    }
    if (whole == NULL && status == BASE_OK) {
        uint8_t *fitted = realloc(parts.bytes, parts.size);
        parts.bytes = fitted != NULL ? fitted : parts.bytes;
        const struct gw_store_bytes made = {
            .data = parts.bytes, .heap = parts.bytes, .size = parts.size};
        status = gw_blob_new_whole(core, digest, &made, !parts.lacks, &whole);
        parts.bytes = NULL;
    }
    free(parts.bytes);
    gw_blob_release(manifest);
    BASE_TRY(status);
    *inout_blob = whole;
    return BASE_OK;
}
