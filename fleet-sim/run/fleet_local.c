// Loads a built version from disk for the simulate stage. Coordinator's thread, before the shards
// run. fleet_run.c loads for each shard; fleet_options.c asks how large the content is, for the
// budget. Every blob goes through the store, which hashes it: a folder whose file is not what its
// name says is refused here.
#include "run/fleet_run.h"

#include "base/buffer.h"
#include "people/sim_local_file.h"
#include "wire/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIM_MIB          (1024u * 1024u)
#define FOLDER_SHOWN_MAX 40 // twice in one line

static enum base_status add_file(struct sim_store *store, const char *path,
                                 const struct wire_sha256 *name, struct base_error *error)
{
    struct base_buffer bytes;
    const struct sim_blob *blob;
    BASE_TRY(sim_local_read(path, (size_t)SIM_STORE_BYTES_MAX, &bytes, error));
    enum base_status status = sim_store_add(store, name, bytes.data, bytes.size, &blob);
    base_buffer_done(&bytes);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s: %s", path, base_status_text(status));
}

uint32_t sim_local_content_mib(const char *path)
{
    struct base_buffer bytes;
    struct wire_manifest *manifest = malloc(sizeof(*manifest));
    uint64_t total = 1;
    if (manifest != NULL &&
        sim_local_read(path, WIRE_MANIFEST_BYTES_MAX, &bytes, NULL) == BASE_OK) {
        if (wire_manifest_parse(bytes.data, bytes.size, manifest) == BASE_OK) {
            for (uint32_t i = 0; i < manifest->file_count; i++) {
                total += manifest->files[i].bytes;
            }
        }
        base_buffer_done(&bytes);
    }
    free(manifest);
    uint64_t mib = (total + SIM_MIB - 1) / SIM_MIB;
    return mib < SIM_CONTENT_MIB_MAX ? (uint32_t)mib : SIM_CONTENT_MIB_MAX;
}

static struct wire_sha256 digest_of(const struct base_buffer *bytes)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes->data, bytes->size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return digest;
}

enum base_status sim_local_blob(struct sim_store *store, const char *folder,
                                const struct wire_sha256 *name, struct base_error *error)
{
    char hex[WIRE_SHA256_HEX + 1];
    char path[SIM_TEXT_MAX + WIRE_SHA256_HEX + 2];
    wire_sha256_hex(name, hex);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, hex);
    return add_file(store, path, name, error);
}

// The files of the manifest are expected under their hashes in the blob folder.
static enum base_status add_files(struct sim_store *store, const struct wire_manifest *manifest,
                                  const char *folder, struct base_error *error)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        BASE_TRY(sim_local_blob(store, folder, &manifest->files[i].digest, error));
    }
    return BASE_OK;
}

// The folder of --task is there, and what walle task build writes is not in it: says what the
// folder is, and which command makes a build.
static enum base_status check_build(const struct sim_options *options, struct base_error *error)
{
    char path[SIM_TEXT_MAX + 16];
    struct base_str folder = base_str_of(options->manifest);
    struct base_str name = BASE_STR("/manifest");
    if (access(options->manifest, F_OK) == 0 || folder.size <= name.size ||
        memcmp(folder.data + folder.size - name.size, name.data, name.size) != 0) {
        return BASE_OK; // whatever else is wrong is found when it is read
    }
    folder.size -= name.size;
    (void)snprintf(path, sizeof(path), "%.*s", (int)folder.size, folder.data);
    if (access(path, F_OK) != 0) {
        return BASE_OK;
    }
    (void)snprintf(path, sizeof(path), "%.*s/task.json", (int)folder.size, folder.data);
    bool source = access(path, F_OK) == 0;
    int size = folder.size < FOLDER_SHOWN_MAX ? (int)folder.size : FOLDER_SHOWN_MAX;
    return base_error_set(error, BASE_ERR_INVALID,
                          source ? "%.*s is a task's source, no build: walle task build %.*s "
                                   "--out BUILD makes one of it"
                                 : "%.*s is no build, it has no manifest: walle task build FOLDER "
                                   "--out %.*s makes one",
                          size, folder.data, size, folder.data);
}

// ---- Refusals

#define FIGURES ": signed " // what a refusal says after it differs from device to device

// Why a device that takes nothing takes nothing, in its own words. It is one that did not fail, so
// its entry in the ledger has place for it in failed_as; the words are those of no version.
static void note_refusal(struct sim_shard *shard, uint32_t device,
                         const struct wire_outcome *outcome)
{
    struct sim_ledger_entry *entry = &shard->ledger.entries[device];
    struct base_str words = outcome->detail;
    bool refused =
        outcome->kind == WIRE_OUTCOME_NOT_APPLICABLE || outcome->kind == WIRE_OUTCOME_FAIL_VERIFY ||
        outcome->kind == WIRE_OUTCOME_FAIL_CLOCK || outcome->kind == WIRE_OUTCOME_FAIL_DOWNLOAD;
    if (!refused || outcome->version_id != shard->local.version_id || entry->failed_as != 0) {
        return;
    }
    const char *figures =
        words.size > 0 ? memmem(words.data, words.size, FIGURES, sizeof(FIGURES) - 1) : NULL;
    words.size = figures != NULL ? (size_t)(figures - words.data) : words.size;
    entry->failed_as = outcome->kind & ((1u << SIM_OUTCOME_BITS) - 1);
    sim_failures_add(&shard->ledger.failures, SIM_VERSION_NONE, outcome->kind, words);
}

// What a device reports goes by here on its way to the responder, which only says that it has it.
static enum base_status local_start(void *ctx, struct sim_exchange *exchange,
                                    const struct dev_request *request)
{
    struct sim_shard *shard = ctx;
    struct sim_transport inner = sim_local_transport(&shard->local);
    struct wire_report report;
    if (sim_exchange_kind_of(request->path) == SIM_EXCHANGE_REPORT &&
        wire_report_parse(request->body, request->body_bytes, &report) == BASE_OK) {
        for (uint32_t i = 0; i < report.count; i++) {
            note_refusal(shard, exchange->device, &report.outcomes[i]);
        }
    }
    return inner.start(inner.ctx, exchange, request);
}

static void local_cancel(void *ctx, struct sim_exchange *exchange)
{
    struct sim_shard *shard = ctx;
    struct sim_transport inner = sim_local_transport(&shard->local);
    inner.cancel(inner.ctx, exchange);
}

enum base_status sim_local_load(struct sim_shard *shard, const struct sim_options *options,
                                struct base_error *error)
{
    struct base_buffer bytes;
    BASE_TRY(check_build(options, error));
    BASE_TRY(sim_local_read(options->manifest, WIRE_MANIFEST_BYTES_MAX, &bytes, error));
    struct wire_sha256 digest = digest_of(&bytes);
    const struct sim_blob *blob;
    enum base_status status = sim_store_add(shard->store, &digest, bytes.data, bytes.size, &blob);
    base_buffer_done(&bytes);
    if (status == BASE_OK) {
        struct sim_transport_events events = sim_device_events(shard);
        struct sim_local_root root = {options->root, options->root_bytes};
        status = sim_local_init(&shard->local, shard->store, &digest, &root, &events);
    }
    if (status == BASE_ERR_EXPIRED) {
        return base_error_set(error, status, "--root: it ran out, devices take nothing new");
    }
    if (status == BASE_ERR_SIGNATURE) {
        struct base_str task = shard->local.manifest.task_name;
        return base_error_set(error, status, "--root: it lets nobody release %.*s", (int)task.size,
                              task.data);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: no manifest: %s", options->manifest,
                              base_status_text(status));
    }
    shard->transport =
        (struct sim_transport){.ctx = shard, .start = local_start, .cancel = local_cancel};
    BASE_TRY(add_files(shard->store, &shard->local.manifest, options->blobs, error));
    shard->local.exclusive = &shard->exclusive;
    return sim_exclusive_load(shard, options, error);
}
