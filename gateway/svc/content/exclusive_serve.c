// GET and HEAD /v1/exclusive/{root} and /v1/exclusive/{root}/{sha256}: only for devices that have
// shown who they are, and only what is theirs. What is somebody else's is not there. Worker's
// thread.
#include "svc/content/exclusive.h"

#include "svc/content/blob_cache.h"
#include "svc/core_private.h"
#include "svc/access/credentials.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "svc/core_worker.h"

#include <string.h>

struct question {
    struct wire_sha256 root;
    struct wire_sha256 content; // of has_content
    bool has_content;
    uint64_t device_id;
    uint16_t tenant;
};

// The path behind "/v1/exclusive/".
static bool parse_path(struct base_str rest, struct question *out)
{
    out->has_content = rest.size > WIRE_SHA256_HEX;
    if (out->has_content) {
        struct base_str content = {rest.data + WIRE_SHA256_HEX + 1,
                                   rest.size - WIRE_SHA256_HEX - 1};
        if (rest.data[WIRE_SHA256_HEX] != '/' ||
            wire_sha256_parse(content, &out->content) != BASE_OK) {
            return false;
        }
        rest.size = WIRE_SHA256_HEX;
    }
    return wire_sha256_parse(rest, &out->root) == BASE_OK;
}

// Strangers are served elsewhere, perhaps; not here.
static enum gw_admission admit(struct gw_core *core, const struct gw_request *request,
                               struct question *question)
{
    bool shows = request->credential.size > 0 || request->has_certificate;
    return shows ? gw_device_admit(core, request, question->device_id, &question->tenant)
                 : GW_ADMISSION_UNKNOWN;
}

static void reply_proof(struct gw_exchange *exchange, const struct wire_proof *proof,
                        uint32_t retry_after_s)
{
    size_t size = 0;
    uint8_t *body = base_arena_alloc(exchange->arena, WIRE_PROOF_BYTES_MAX);
    if (body == NULL || wire_proof_encode(proof, body, WIRE_PROOF_BYTES_MAX, &size) != BASE_OK) {
        gw_reply_busy(exchange, retry_after_s);
        return;
    }
    gw_reply_body(exchange, 200, BASE_STR("application/octet-stream"), body, size);
    gw_reply_header(&exchange->reply, BASE_STR("cache-control"), BASE_STR(GW_EXCLUSIVE_CACHING));
}

// Is it the leaf's exclusive manifest, or one of the files that lists?
static enum base_status lists(struct gw_core *core, const struct wire_entry *entry,
                              const struct wire_sha256 *content)
{
    struct gw_blob *blob;
    struct wire_exclusive_files exclusive;
    size_t size = 0;
    if (wire_sha256_equal(content, &entry->exclusive)) {
        return BASE_OK;
    }
    enum base_status status = gw_blob_open(core, &entry->exclusive, &blob);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOT_FOUND ? BASE_ERR_CORRUPT : status;
    }
    const uint8_t *bytes = gw_blob_bytes(blob, 0, &size);
    status = wire_exclusive_parse(bytes, size, &exclusive) == BASE_OK ? BASE_ERR_NOT_FOUND
                                                                      : BASE_ERR_CORRUPT;
    for (uint32_t i = 0; i < exclusive.file_count; i++) {
        if (wire_sha256_equal(content, &exclusive.files[i].digest)) {
            status = BASE_OK;
        }
    }
    gw_blob_release(blob);
    return status;
}

static enum base_status answer(struct gw_worker *worker, struct gw_exchange *exchange,
                               const struct question *question)
{
    struct gw_exclusive_leaf leaf;
    struct gw_blob *blob;
    struct gw_core *core = worker->core;
    BASE_TRY(
        gw_exclusive_find(core, question->tenant, &question->root, question->device_id, &leaf));
    enum base_status status = BASE_OK;
    if (!question->has_content) {
        reply_proof(exchange, &leaf.proof, core->set.retry_after_s);
    } else {
        status = lists(core, &leaf.proof.entry, &question->content);
        if (status == BASE_OK) {
            status = gw_blob_open(core, &question->content, &blob);
        }
        if (status == BASE_OK) {
            gw_blob_serve(exchange, blob);
        }
    }
    gw_exclusive_leaf_done(&leaf);
    return status;
}

// False: the reply says what is wrong.
static bool ask(struct gw_worker *worker, struct gw_exchange *exchange, struct question *question)
{
    const struct gw_request *request = &exchange->request;
    if (!parse_path(gw_route_rest(exchange), question)) {
        gw_reply_problem(exchange, 400, "exclusive files are named by ROOT or ROOT/SHA256 in hex");
        return false;
    }
    if (wire_device_parse_own(request->device, &question->device_id) != BASE_OK) {
        gw_reply_problem(exchange, 400, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
        return false;
    }
    enum gw_admission admission = admit(worker->core, request, question);
    if (admission != GW_ADMITTED) {
        gw_admission_refuse(exchange, admission);
    }
    return admission == GW_ADMITTED;
}

void gw_exclusive_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct question question = {0};
    gw_count(&worker->stats.exclusives, 1);
    if (!ask(worker, exchange, &question)) {
        gw_count(&worker->stats.exclusives_refused, 1);
        gw_exchange_finish(exchange);
        return;
    }
    enum base_status status = answer(worker, exchange, &question);
    if (status != BASE_OK) {
        gw_count(&worker->stats.exclusives_refused, 1);
        gw_reply_failure(exchange, status,
                         status == BASE_ERR_NOT_FOUND ? "nothing exclusive here for this device"
                                                      : NULL,
                         worker->core->set.retry_after_s);
    }
    gw_exchange_finish(exchange);
}
