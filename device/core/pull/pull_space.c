// Room for what a pull brings: reserved before its first file, given back when it ends, whatever
// the end. So a version that is larger than the disk is refused before anything is full, and a
// pull that began finds room to the end. Called by the pull.
#include "core/pull/pull_parts.h"

#include "core/slots/device_content.h"

#include <stdio.h>
#include <string.h>

// Bytes still to be brought of a file.
static uint64_t missing(struct dev_runtime *runtime, const struct wire_manifest_file *file)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    uint64_t have = 0;
    bool sealed = false;
    if (storage->blob_stat(storage->ctx, &file->digest, &have, &sealed) != BASE_OK) {
        return file->bytes;
    }
    return sealed || have > file->bytes ? 0 : file->bytes - have;
}

static uint64_t all_missing(struct dev_runtime *runtime, const struct wire_manifest_file *files,
                            uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += missing(runtime, &files[i]); // of at most 2^30 each
    }
    return bytes;
}

static enum base_status reserve(struct dev_runtime *runtime, const struct wire_manifest_file *files,
                                uint32_t count)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    for (uint32_t i = 0; i < count && storage->blob_reserve != NULL; i++) {
        if (missing(runtime, &files[i]) > 0) {
            BASE_TRY(storage->blob_reserve(storage->ctx, &files[i].digest, files[i].bytes));
        }
    }
    return BASE_OK;
}

enum base_status dev_pull_space_take(struct dev_runtime *runtime,
                                     const struct wire_manifest *manifest,
                                     const struct wire_exclusive_files *exclusive,
                                     struct dev_pull_space *out)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    out->free = UINT64_MAX;
    out->needed = all_missing(runtime, manifest->files, manifest->file_count) +
                  all_missing(runtime, exclusive->files, exclusive->file_count);
    if (storage->space != NULL) {
        BASE_TRY(storage->space(storage->ctx, &out->free));
    }
    if (out->needed > out->free) {
        return BASE_ERR_FULL;
    }
    BASE_TRY(reserve(runtime, manifest->files, manifest->file_count));
    return reserve(runtime, exclusive->files, exclusive->file_count);
}

static void give(struct dev_runtime *runtime, const struct wire_manifest_file *files,
                 uint32_t count)
{
    const struct dev_storage_port *storage = &runtime->ports->storage;
    for (uint32_t i = 0; i < count; i++) {
        if (missing(runtime, &files[i]) > 0) {
            (void)storage->blob_reserve(storage->ctx, &files[i].digest, 0);
        }
    }
}

void dev_pull_space_give(struct dev_runtime *runtime, const struct dev_task *task)
{
    struct dev_manifest manifest;
    struct dev_exclusive exclusive;
    if (runtime->ports->storage.blob_reserve == NULL ||
        dev_manifest_open(runtime, &task->offer.accepted, &manifest) != BASE_OK) {
        return;
    }
    give(runtime, manifest.parsed.files, manifest.parsed.file_count);
    if (dev_exclusive_open(runtime, &task->incoming.exclusive, &exclusive) == BASE_OK) {
        give(runtime, exclusive.parsed.files, exclusive.parsed.file_count);
        dev_exclusive_close(runtime, &exclusive);
    }
    dev_manifest_close(runtime, &manifest);
}
