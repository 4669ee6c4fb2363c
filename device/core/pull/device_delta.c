// Deltas: brings a file as the difference to the file of the same name that runs now (RFC 9842, and
// the coding of wire/delta_piece.h). The request lists the codings there is memory for.
//
// The difference is stored as a blob of its own, so that an interrupted one goes on where it ended,
// and is decoded into the file's blob slice by slice. It is never trusted: what comes out is hashed
// like any content, and whatever goes wrong with a delta ends in one whole download, not in a
// failure. Called by device_pull.c.
#include "core/pull/pull_parts.h"

#include "core/run/device_shadow.h"
#include "core/slots/device_content.h"

#include "base/check.h"

#include <string.h>

static const char name_domain[] = "walle-delta";

bool dev_delta_in_use(const struct dev_pull *pull)
{
    return !wire_sha256_is_zero(&pull->delta.dictionary);
}

// Its stored bytes have a name no content has: a hash of what it leads from and to, and of the
// codings it may come in: asked for otherwise, another delta comes.
static void delta_name(struct dev_runtime *runtime, struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct dev_pull *pull = runtime->pull;
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, &pull->blob);
    crypto->hash_update(crypto->ctx, &state, (const uint8_t *)name_domain, sizeof(name_domain));
    crypto->hash_update(crypto->ctx, &state, pull->blob.bytes, WIRE_SHA256_BYTES);
    crypto->hash_update(crypto->ctx, &state, pull->delta.dictionary.bytes, WIRE_SHA256_BYTES);
    crypto->hash_update(crypto->ctx, &state, &pull->delta.codings, sizeof(pull->delta.codings));
    crypto->hash_end(crypto->ctx, &state, out);
}

// The digest of the file of this name and kind in the active version.
static bool same_file(struct dev_runtime *runtime, const struct wire_manifest_file *file,
                      struct wire_sha256 *out)
{
    const struct dev_task *task = &runtime->tasks[runtime->pull->task];
    struct dev_manifest manifest;
    bool found = false;
    if (task->shadow) { // it has the most in common with what it runs beside
        const struct dev_task *beside = dev_shadow_other(runtime, task);
        task = beside != NULL ? beside : task;
    }
    if (wire_sha256_is_zero(&task->slots.active.manifest) ||
        dev_manifest_open(runtime, &task->slots.active.manifest, &manifest) != BASE_OK) {
        return false;
    }
    for (uint32_t i = 0; i < manifest.parsed.file_count && !found; i++) {
        const struct wire_manifest_file *other = &manifest.parsed.files[i];
        found = other->kind == file->kind && base_str_equal(other->name, file->name);
        *out = other->digest;
    }
    dev_manifest_close(runtime, &manifest);
    return found;
}

static void forget_dictionary(struct dev_delta *delta)
{
    memset(&delta->dictionary, 0, sizeof(delta->dictionary));
}

static bool blob_sealed(struct dev_runtime *runtime, const struct wire_sha256 *name,
                        uint64_t *out_bytes)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    bool sealed = false;
    *out_bytes = 0;
    return storage->blob_stat(storage->ctx, name, out_bytes, &sealed) == BASE_OK && sealed;
}

// Is all of the difference here? One that is longer than the content is damage, and dropped.
static bool difference_here(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_delta *delta = &runtime->pull->delta;
    bool sealed = blob_sealed(runtime, &delta->name, &delta->have);
    if (delta->have > runtime->pull->expected) {
        (void)storage->blob_delete(storage->ctx, &delta->name);
        delta->have = 0;
        return false;
    }
    return sealed;
}

void dev_delta_choose(struct dev_runtime *runtime, const struct wire_manifest_file *file)
{
    struct dev_pull *pull = runtime->pull;
    struct dev_delta *delta = &pull->delta;
    uint64_t bytes = 0;
    if (runtime->ports->delta.begin == NULL || file->bytes < DEV_DELTA_BYTES_MIN ||
        wire_sha256_equal(&delta->given_up, &pull->blob) ||
        !same_file(runtime, file, &delta->dictionary)) {
        forget_dictionary(delta);
        return;
    }
    delta->codings = 0;
    if (blob_sealed(runtime, &delta->dictionary, &bytes) && bytes > 0) {
        delta->codings =
            (uint8_t)runtime->ports->delta.codings(&runtime->ports->delta, bytes, pull->expected);
    }
    delta_name(runtime, &delta->name);
    if (delta->codings == 0) {
        forget_dictionary(delta);
    } else if (difference_here(runtime)) {
        pull->phase = DEV_PULL_DECODE; // all of it is here: what was decoded before a kill is not
    } else if (pull->have > 0) {
        forget_dictionary(delta); // a part of the content itself is here
    } else {
        runtime->stats.resumed_bytes += delta->have;
    }
}

void dev_delta_close(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_delta *delta = &runtime->pull->delta;
    if (delta->decoder == NULL) {
        return;
    }
    runtime->ports->delta.end(delta->decoder);
    storage->blob_unmap(storage->ctx, &delta->name, delta->bytes, delta->size);
    storage->blob_unmap(storage->ctx, &delta->dictionary, delta->old_bytes, delta->old_size);
    delta->decoder = NULL;
}

void dev_delta_give_up(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_delta *delta = &runtime->pull->delta;
    dev_delta_close(runtime);
    (void)storage->blob_delete(storage->ctx, &delta->name);
    forget_dictionary(delta);
    delta->given_up = runtime->pull->blob;
    runtime->stats.deltas_failed++;
}

void dev_delta_drop(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_delta *delta = &runtime->pull->delta;
    dev_delta_close(runtime);
    if (delta->have > 0) {
        (void)storage->blob_delete(storage->ctx, &delta->name); // collected later when it fails
    }
    forget_dictionary(delta);
}

// ---- The response

bool dev_delta_asked(const struct dev_pull *pull, enum dev_encoding encoding)
{
    uint32_t coding = encoding == DEV_ENCODING_DCZ      ? DEV_DELTA_DCZ
                      : encoding == DEV_ENCODING_PIECES ? DEV_DELTA_PIECES
                                                        : 0;
    return pull->delta.asked && (pull->delta.codings & coding) != 0;
}

bool dev_delta_head(struct dev_runtime *runtime, const struct dev_response_head *head)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_pull *pull = runtime->pull;
    struct dev_delta *delta = &pull->delta;
    if (head->status == 200 && delta->have > 0) {
        (void)storage->blob_delete(storage->ctx, &delta->name);
        delta->have = 0;
    }
    bool fits = head->status == 200 || head->range_from == delta->have;
    // Larger than the content is no delta, and nobody keeps more than was signed.
    bool small =
        head->content_bytes == UINT64_MAX || (head->content_bytes <= pull->expected &&
                                              delta->have <= pull->expected - head->content_bytes);
    delta->body = fits && small;
    return delta->body;
}

enum base_status dev_delta_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_pull *pull = runtime->pull;
    struct dev_delta *delta = &pull->delta;
    if (size > pull->expected || delta->have > pull->expected - size) {
        return BASE_ERR_TOO_LARGE;
    }
    BASE_TRY(storage->blob_append(storage->ctx, &delta->name, delta->have, bytes, size));
    delta->have += size;
    return BASE_OK;
}

// ---- Decoding

static enum base_status open_decoder(struct dev_runtime *runtime)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    struct dev_delta *delta = &runtime->pull->delta;
    base_assert(delta->decoder == NULL);
    base_assert(dev_delta_in_use(runtime->pull));
    BASE_TRY(
        storage->blob_map(storage->ctx, &delta->dictionary, &delta->old_bytes, &delta->old_size));
    enum base_status status =
        storage->blob_map(storage->ctx, &delta->name, &delta->bytes, &delta->size);
    if (status == BASE_OK) {
        struct dev_delta_input input = {
            .dictionary = delta->dictionary,
            .old_bytes = delta->old_bytes,
            .old_size = delta->old_size,
            .bytes = delta->bytes,
            .size = delta->size,
            .expected = runtime->pull->expected,
            .memory_max = runtime->ports->delta.memory_max,
        };
        status = runtime->ports->delta.begin(&input, &delta->decoder);
        if (status != BASE_OK) {
            delta->decoder = NULL;
            storage->blob_unmap(storage->ctx, &delta->name, delta->bytes, delta->size);
        }
    }
    if (status != BASE_OK) {
        storage->blob_unmap(storage->ctx, &delta->dictionary, delta->old_bytes, delta->old_size);
    }
    return status;
}

enum base_status dev_delta_decode(struct dev_runtime *runtime, bool *out_end)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    const struct dev_crypto_port *crypto = &runtime->ports->crypto;
    struct dev_pull *pull = runtime->pull;
    *out_end = false;
    if (pull->delta.decoder == NULL) {
        BASE_TRY(open_decoder(runtime));
    }
    const uint8_t *bytes = NULL;
    size_t size = 0;
    BASE_TRY(runtime->ports->delta.next(pull->delta.decoder, &bytes, &size));
    if (size == 0) {
        *out_end = true;
        return pull->have == pull->expected ? BASE_OK : BASE_ERR_CORRUPT;
    }
    if (size > pull->expected - pull->have) {
        return BASE_ERR_CORRUPT;
    }
    BASE_TRY(storage->blob_append(storage->ctx, &pull->blob, pull->have, bytes, size));
    crypto->hash_update(crypto->ctx, &pull->hash, bytes, size);
    pull->have += size;
    pull->hashed = pull->have;
    return BASE_OK;
}
