// Loads the exclusive files of a built version for the simulate stage: the list beside the
// manifest, the tree over it, and for the subjects that virtual devices stand in for the proof, the
// exclusive manifest and its files. Coordinator's thread, before the shards run.
#include "run/fleet_run.h"

#include "people/sim_local_file.h"
#include "base/alloc.h"
#include "base/buffer.h"
#include "wire/trust/exclusive_files.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BYTES_MAX (16u + WIRE_SUBJECTS_MAX * WIRE_ENTRY_BYTES_MAX)

struct loader {
    struct sim_shard *shard;
    const struct sim_options *options;
    struct wire_sha256 *nodes; // the whole tree, leaves first
    uint32_t count;            // of leaves
    uint32_t devices;          // of these of kind DEVICE; they come first
    struct base_error *error;
};

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, out);
}

static const struct wire_hasher hasher = {.ctx = NULL, .sha256 = hash};

static enum base_status list_open(const struct base_buffer *bytes, struct wire_entry_list *list)
{
    return wire_entry_list_open(bytes->data, bytes->size, list);
}

// Leaves and nodes of the list. HASH: it is not the manifest's tree.
static enum base_status tree_make(struct loader *loader, const struct base_buffer *bytes)
{
    struct wire_entry_list list;
    struct wire_entry entry;
    BASE_TRY(list_open(bytes, &list));
    if (list.count == 0 || list.count > WIRE_SUBJECTS_MAX) {
        return BASE_ERR_INVALID;
    }
    uint32_t count = list.count;
    loader->nodes = calloc(wire_tree_nodes(count), sizeof(*loader->nodes));
    if (loader->nodes == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (; loader->count < count; loader->count++) {
        BASE_TRY(wire_entry_list_next(&list, &entry));
        wire_entry_leaf(&hasher, &entry, &loader->nodes[loader->count]);
        loader->devices += entry.kind == WIRE_SUBJECT_DEVICE ? 1 : 0;
    }
    if (wire_entry_list_next(&list, &entry) != BASE_ERR_NOT_FOUND) {
        return BASE_ERR_INVALID;
    }
    wire_tree_build(&hasher, loader->nodes, count);
    const struct wire_sha256 *root = &loader->nodes[wire_tree_nodes(count) - 1];
    return wire_sha256_equal(root, &loader->shard->local.manifest.exclusive_root) ? BASE_OK
                                                                                  : BASE_ERR_HASH;
}

static enum base_status blob_load(const struct loader *loader, const struct wire_sha256 *name,
                                  const struct sim_blob **out)
{
    BASE_TRY(sim_local_blob(loader->shard->store, loader->options->blobs, name, loader->error));
    *out = sim_store_find(loader->shard->store, name);
    return *out != NULL ? BASE_OK : BASE_ERR_NOT_FOUND;
}

static enum base_status subject_load(struct loader *loader, const struct wire_entry *entry,
                                     uint32_t index, struct sim_subject *out)
{
    const struct sim_blob *blob;
    struct wire_exclusive_files exclusive;
    struct wire_proof proof = {.entry = *entry, .leaf_count = loader->count, .index = index};
    size_t size = 0;
    proof.path_count = wire_tree_path(loader->nodes, loader->count, index, proof.path);
    BASE_TRY(wire_proof_encode(&proof, out->proof, sizeof(out->proof), &size));
    out->proof_bytes = (uint32_t)size;
    if (entry->kind == WIRE_SUBJECT_DEVICE) {
        uint8_t id[sizeof(uint64_t)];
        BASE_TRY(base_hex_decode(entry->subject, id, sizeof(id)));
        for (size_t i = 0; i < sizeof(id); i++) {
            out->device_id = out->device_id << 8 | id[i];
        }
    }
    BASE_TRY(blob_load(loader, &entry->exclusive, &blob));
    BASE_TRY(wire_exclusive_parse(blob->bytes, blob->size, &exclusive));
    out->names[out->name_count++] = entry->exclusive;
    for (uint32_t i = 0; i < exclusive.file_count; i++) {
        BASE_TRY(blob_load(loader, &exclusive.files[i].digest, &blob));
        out->names[out->name_count++] = exclusive.files[i].digest;
    }
    return BASE_OK;
}

// How many of `count` subjects get stand-ins.
static uint32_t wanted(const struct loader *loader, uint32_t count)
{
    uint32_t most =
        loader->options->devices < SIM_SUBJECTS_MAX ? loader->options->devices : SIM_SUBJECTS_MAX;
    return count < most ? count : most;
}

// Is entry `at` of `count` one of the `want` that are chosen, evenly?
static bool chosen(uint32_t at, uint32_t count, uint32_t want)
{
    return (uint64_t)(at + 1) * want / count > (uint64_t)at * want / count;
}

static enum base_status subjects_load(struct loader *loader, const struct base_buffer *bytes)
{
    struct sim_exclusive *exclusive = &loader->shard->exclusive;
    uint32_t users = loader->count - loader->devices;
    uint32_t want_devices = wanted(loader, loader->devices);
    uint32_t want_users = wanted(loader, users);
    struct wire_entry_list list;
    struct wire_entry entry;
    BASE_TRY(list_open(bytes, &list));
    for (uint32_t i = 0; i < loader->count; i++) {
        BASE_TRY(wire_entry_list_next(&list, &entry));
        struct sim_subject *out = NULL;
        if (i < loader->devices && chosen(i, loader->devices, want_devices)) {
            out = &exclusive->devices[exclusive->device_count++];
        } else if (i >= loader->devices && chosen(i - loader->devices, users, want_users)) {
            out = &exclusive->users[exclusive->user_count++];
        }
        enum base_status status = out != NULL ? subject_load(loader, &entry, i, out) : BASE_OK;
        if (status != BASE_OK) {
            return loader->error->text[0] != '\0'
                       ? status
                       : base_error_set(loader->error, status, "exclusive files of %.*s: %s",
                                        (int)entry.subject.size, entry.subject.data,
                                        base_status_text(status));
        }
    }
    return BASE_OK;
}

static enum base_status load_all(struct loader *loader, const char *path,
                                 const struct base_buffer *bytes)
{
    struct sim_exclusive *exclusive = &loader->shard->exclusive;
    enum base_status status = tree_make(loader, bytes);
    if (status != BASE_OK) {
        return base_error_set(loader->error, status,
                              "%s: not the exclusive files the manifest names (%s)", path,
                              base_status_text(status));
    }
    exclusive->devices = calloc(SIM_SUBJECTS_MAX, sizeof(*exclusive->devices));
    exclusive->users = calloc(SIM_SUBJECTS_MAX, sizeof(*exclusive->users));
    if (exclusive->devices == NULL || exclusive->users == NULL) {
        return base_error_set(loader->error, BASE_ERR_NOMEM, "out of memory");
    }
    exclusive->share_ppm = loader->options->exclusive_ppm;
    exclusive->root = loader->shard->local.manifest.exclusive_root;
    wire_sha256_hex(&exclusive->root, exclusive->root_hex);
    return subjects_load(loader, bytes);
}

enum base_status sim_exclusive_load(struct sim_shard *shard, const struct sim_options *options,
                                    struct base_error *error)
{
    char path[SIM_TEXT_MAX + 16];
    struct base_buffer bytes;
    struct loader loader = {.shard = shard, .options = options, .error = error};
    if (shard->local.manifest.exclusive == WIRE_EXCLUSIVE_NONE) {
        return BASE_OK;
    }
    const char *slash = strrchr(options->manifest, '/');
    int folder = slash != NULL ? (int)(slash - options->manifest) + 1 : 0;
    (void)snprintf(path, sizeof(path), "%.*sexclusive", folder, options->manifest);
    BASE_TRY(sim_local_read(path, LIST_BYTES_MAX, &bytes, error));
    enum base_status status = load_all(&loader, path, &bytes);
    free(loader.nodes);
    base_buffer_done(&bytes);
    return status;
}

void sim_exclusive_done(struct sim_exclusive *exclusive)
{
    free(exclusive->devices);
    free(exclusive->users);
    *exclusive = (struct sim_exclusive){0};
}
