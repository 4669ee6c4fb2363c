// A deployment: the files of a version with the hashes hawkBit's clients check. Called on the
// worker's thread; reading and hashing happens on the background thread. ddi.c hands the call over.
// Clients of that API want SHA-1 and MD5 beside SHA-256; these say only that a download arrived
// whole, they prove nothing.
#include "ddi/ddi_call.h"

#include "svc/content/blob.h"
#include "svc/reply.h"
#include "wire/manifest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define SHA1_HEX 40
#define MD5_HEX  32

struct deployment_job {
    struct gw_control_call control; // first
    struct ddi_call *call;
    json_t *root; // NULL: failed
    enum base_status status;
};

static void hex_of(const uint8_t *bytes, size_t size, char *out)
{
    base_hex_encode(bytes, size, out);
    out[2 * size] = '\0';
}

static bool digest_hex(const EVP_MD *kind, const uint8_t *bytes, size_t size,
                       char out[2 * EVP_MAX_MD_SIZE + 1])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned count = 0;
    if (EVP_Digest(bytes, size, digest, &count, kind, NULL) != 1) {
        return false;
    }
    hex_of(digest, count, out);
    return true;
}

// "SHA1 MD5" of a blob, computed once while it is cached: a fleet asks for the same few files.
static const char *old_hashes(struct gw_blob *blob)
{
    char sha1[2 * EVP_MAX_MD_SIZE + 1];
    char md5[2 * EVP_MAX_MD_SIZE + 1];
    char note[GW_BLOB_NOTE_MAX + 1];
    size_t size = 0;
    if (gw_blob_note(blob) == NULL) {
        const uint8_t *bytes = gw_blob_bytes(blob, 0, &size);
        if (!digest_hex(EVP_sha1(), bytes, size, sha1) ||
            !digest_hex(EVP_md5(), bytes, size, md5)) {
            return NULL;
        }
        (void)snprintf(note, sizeof(note), "%.*s %.*s", SHA1_HEX, sha1, MD5_HEX, md5);
        gw_blob_set_note(blob, note);
    }
    return gw_blob_note(blob);
}

static json_t *hashes_json(struct gw_core *core, const struct wire_sha256 *name)
{
    char sha256[WIRE_SHA256_HEX + 1];
    struct gw_blob *blob = NULL;
    if (gw_blob_open(core, name, &blob) != BASE_OK) {
        return NULL;
    }
    const char *old = old_hashes(blob);
    wire_sha256_hex(name, sha256);
    json_t *hashes = old == NULL
                         ? NULL
                         : json_pack("{s:s%, s:s%, s:s}", "sha1", old, (size_t)SHA1_HEX, "md5",
                                     old + SHA1_HEX + 1, (size_t)MD5_HEX, "sha256", sha256);
    gw_blob_release(blob);
    return hashes;
}

static json_t *artifact_json(struct gw_core *core, const struct ddi_call *call,
                             const struct wire_manifest_file *file)
{
    char hex[WIRE_SHA256_HEX + 1];
    bool secure = ddi_exchange(call)->request.secure;
    wire_sha256_hex(&file->digest, hex);
    json_t *hashes = hashes_json(core, &file->digest);
    json_t *link = ddi_href(call, GW_BLOB_PATH "%s", hex);
    // "download" is over TLS, "download-http" in clear text; clients take what is there.
    json_t *links = json_pack("{s:o}", secure ? "download" : "download-http", link);
    if (hashes == NULL) {
        json_decref(links);
        return NULL;
    }
    return json_pack("{s:s%, s:o, s:I, s:o}", "filename", file->name.data, file->name.size,
                     "hashes", hashes, "size", (json_int_t)file->bytes, "_links", links);
}

static json_t *deployment_json(struct gw_core *core, const struct ddi_call *call,
                               const struct wire_manifest *manifest)
{
    char id[16];
    json_t *artifacts = json_array();
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        json_t *artifact = artifact_json(core, call, &manifest->files[i]);
        if (artifact == NULL || json_array_append_new(artifacts, artifact) != 0) {
            json_decref(artifacts);
            return NULL;
        }
    }
    (void)snprintf(id, sizeof(id), "%u", call->action);
    return json_pack("{s:s, s:{s:s, s:s, s:[{s:s, s:s%, s:s%, s:o}]}}", "id", id, "deployment",
                     "download", "forced", "update", "forced", "chunks", "part", "os", "version",
                     manifest->version.data, manifest->version.size, "name",
                     manifest->task_name.data, manifest->task_name.size, "artifacts", artifacts);
}

static void run_job(struct gw_core *core, struct gw_control_call *self)
{
    struct deployment_job *job = (struct deployment_job *)self;
    struct gw_blob *blob = NULL;
    struct wire_manifest *manifest =
        base_arena_zalloc(ddi_exchange(job->call)->arena, sizeof(*manifest));
    job->status =
        manifest != NULL ? gw_blob_open(core, &job->call->want.manifest, &blob) : BASE_ERR_NOMEM;
    if (job->status != BASE_OK) {
        return;
    }
    size_t size = 0;
    const uint8_t *bytes = gw_blob_bytes(blob, 0, &size);
    job->status = wire_manifest_parse(bytes, size, manifest);
    if (job->status == BASE_OK) {
        job->root = deployment_json(core, job->call, manifest);
        job->status = job->root != NULL ? BASE_OK : BASE_ERR_NOMEM;
    }
    gw_blob_release(blob);
}

static void job_done(struct gw_worker *worker, struct gw_control_call *self)
{
    struct deployment_job *job = (struct deployment_job *)self;
    struct gw_exchange *exchange = self->exchange;
    if (job->status == BASE_OK) {
        ddi_reply_take(exchange, job->root);
    } else {
        gw_reply_failure(exchange, job->status, "the version's files cannot be read",
                         gw_core_retry_after_s(gw_worker_core(worker)));
    }
    gw_exchange_finish(exchange);
}

void ddi_deployment(struct gw_worker *worker, struct ddi_call *call)
{
    struct gw_exchange *exchange = ddi_exchange(call);
    struct deployment_job *job = base_arena_zalloc(exchange->arena, sizeof(*job));
    if (job != NULL) {
        job->call = call;
        job->control.exchange = exchange;
        job->control.run = run_job;
        job->control.done = job_done;
    }
    if (job == NULL || gw_background_post(worker, &job->control) != BASE_OK) {
        gw_reply_busy(exchange, gw_core_retry_after_s(gw_worker_core(worker)));
        gw_exchange_finish(exchange);
    }
}
