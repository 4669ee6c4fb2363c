// The in-process responder of the simulate stage: offers, files, metadata and the crypto port that
// takes its seals for signatures. Everything happens on the shard's thread. fleet_local.c fills it
// before the shards run; devices reach it through the transport, as they reach a gateway through
// sim_links. An answer is queued at the request and handed out by sim_local_deliver, which the
// shard's loop calls: never from inside the device that asked.
#include "ports/sim_local.h"

#include "policy/desired.h"
#include "ports/sim_crypto.h"
#include "wire/manifest.h"
#include "wire/profile.h"
#include "wire/report.h"

#include <stdlib.h>
#include <string.h>

#define ROLLOUT_ID          1
#define RELEASE_COUNTER     1
#define SIM_LOCAL_WHOLE_MAX (64u * 1024)  // of a version in one answer
#define EXPIRES_S           253402300799u // the year 9999: a simulation does not expire

const uint8_t sim_local_key[1][WIRE_PUBLIC_KEY_BYTES] = {"simulate stage of this process"};

static enum base_status verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    (void)ctx;
    if (sim_message_type(message, size) == WIRE_ENVELOPE_TYPE_ROOT) {
        // Roots are signed by people, here as everywhere.
        const struct dev_crypto_port *real = dev_crypto_openssl();
        return real->verify(real->ctx, key, message, size, signature);
    }
    return sim_seal_holds(key, message, size, signature) ? BASE_OK : BASE_ERR_SIGNATURE;
}

struct dev_crypto_port sim_local_crypto(const struct dev_crypto_port *real)
{
    struct dev_crypto_port port = *real;
    port.verify = verify;
    return port;
}

static enum base_status envelope_make(const struct sim_local *local,
                                      const struct wire_release *release, uint8_t *out,
                                      size_t capacity, size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    if (local->trust.on) {
        return sim_local_trust_release(&local->trust, release, out, capacity, out_size);
    }
    BASE_TRY(wire_release_encode(release, payload, sizeof(payload), &size));
    const struct sim_sealing sealing = {
        .type = WIRE_ENVELOPE_TYPE_RELEASE,
        .payload = payload,
        .payload_bytes = size,
        .keys = (const uint8_t(*)[WIRE_PUBLIC_KEY_BYTES])sim_local_key,
        .key_count = 1,
    };
    return sim_seal(&sealing, out, capacity, out_size);
}

enum base_status sim_local_init(struct sim_local *local, struct sim_store *store,
                                const struct wire_sha256 *manifest,
                                const struct sim_local_root *root,
                                const struct sim_transport_events *events)
{
    memset(local, 0, sizeof(*local));
    local->events = *events;
    local->store = store;
    const struct sim_blob *blob = sim_store_find(store, manifest);
    if (blob == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    BASE_TRY(wire_manifest_parse(blob->bytes, blob->size, &local->manifest));
    struct wire_release release = {
        .task_name = local->manifest.task_name,
        .release_counter = RELEASE_COUNTER,
        .manifest = *manifest,
        .manifest_bytes = blob->size,
        .rollout_id = ROLLOUT_ID,
        .max_bucket = 10000,
        .expires_s = EXPIRES_S,
    };
    local->task_id = wire_task_id(local->manifest.task_name);
    local->version_id = wire_version_id(manifest);
    if (root->bytes > 0) {
        BASE_TRY(sim_local_trust_init(&local->trust, root->envelope, root->bytes, &release));
    }
    BASE_TRY(envelope_make(local, &release, local->statement, sizeof(local->statement),
                           &local->statement_bytes));
    struct wire_offers offers = {.count = 1};
    offers.items[0].envelope = local->statement;
    offers.items[0].envelope_bytes = local->statement_bytes;
    return wire_offers_encode(&offers, local->offer, sizeof(local->offer), &local->offer_bytes);
}

// What the device says of the task; all zero when it has nothing of it.
static struct wire_profile_pair pair_of(const struct sim_local *local, struct base_str text)
{
    uint8_t bytes[WIRE_PROFILE_BYTES_MAX];
    size_t size = 0;
    struct wire_profile profile;
    struct wire_profile_pair pair;
    if (base_b64_decode(text, bytes, sizeof(bytes), &size) == BASE_OK &&
        wire_profile_parse(bytes, size, &profile) == BASE_OK && profile.pairs != NULL) {
        struct base_reader reader;
        base_reader_init(&reader, profile.pairs, profile.pairs_bytes);
        for (uint32_t i = 0; i < profile.task_count; i++) {
            if (wire_profile_pair_next(&profile, &reader, &pair) != BASE_OK) {
                break;
            }
            if (pair.task_id == local->task_id) {
                return pair;
            }
        }
    }
    return (struct wire_profile_pair){0};
}

// The record of a simulation: one rollout, open for everybody. Is the device to move to its
// version?
static bool is_wanted(const struct sim_local *local, struct base_str profile)
{
    const struct wire_profile_pair pair = pair_of(local, profile);
    const struct pol_claim all = {.version = local->version_id,
                                  .approved = RELEASE_COUNTER,
                                  .state = POL_CLAIM_OPEN,
                                  .targeted = true,
                                  .admitted = true,
                                  .inside = true};
    const struct pol_desired_device device = {
        .have = pair.version_id, .refused = pair.blocked_version_id, .floor = pair.floor};
    struct pol_desired desired = pol_desired(&all, 1, &device);
    return desired.version == local->version_id && desired.version != pair.version_id;
}

// Under a root an offer comes with the director's answer for this device and question, in memory of
// the exchange's own. An exchange begins zeroed.
static void offer(struct sim_local *local, struct sim_exchange *exchange,
                  const struct dev_request *request)
{
    exchange->status = 200;
    exchange->body = local->offer;
    exchange->body_bytes = local->offer_bytes;
    if (!local->trust.on) {
        return;
    }
    uint8_t director[WIRE_STATEMENT_BYTES_MAX];
    struct wire_offers offers = {.count = 2,
                                 .metadata = sim_local_trust_brings(&local->trust, request)};
    size_t capacity = sizeof(director) + sizeof(local->statement) + offers.metadata.size + 64;
    uint8_t *own = malloc(capacity);
    offers.items[0].envelope = director;
    offers.items[1].envelope = local->statement;
    offers.items[1].envelope_bytes = local->statement_bytes;
    exchange->body = own;
    exchange->body_owned = true;
    if (own == NULL ||
        sim_local_trust_director(&local->trust, request, director, sizeof(director),
                                 &offers.items[0].envelope_bytes) != BASE_OK ||
        wire_offers_encode(&offers, own, capacity, &exchange->body_bytes) != BASE_OK) {
        exchange->status = 400;
        exchange->body_bytes = 0;
    }
}

// The manifest and behind it its files, as a gateway gives them.
static void serve_whole(struct sim_local *local, struct sim_exchange *exchange,
                        const struct wire_sha256 *name)
{
    const struct sim_blob *blob = sim_store_find(local->store, name);
    bool ours = blob != NULL && wire_version_id(name) == local->version_id &&
                local->manifest.exclusive == WIRE_EXCLUSIVE_NONE;
    uint8_t *own = ours ? malloc(SIM_LOCAL_WHOLE_MAX) : NULL;
    size_t size = 0;
    for (uint32_t i = 0; own != NULL && blob != NULL && blob->size <= SIM_LOCAL_WHOLE_MAX - size;
         i++) {
        memcpy(own + size, blob->bytes, blob->size);
        size += blob->size;
        blob = i < local->manifest.file_count
                   ? sim_store_find(local->store, &local->manifest.files[i].digest)
                   : NULL;
    }
    if (own != NULL) {
        exchange->status = 200;
        exchange->body = own;
        exchange->body_bytes = size;
        exchange->body_owned = true;
    }
}

// `hex`: behind "/v1/blob/".
static void serve_blob(struct sim_local *local, struct sim_exchange *exchange, struct base_str hex,
                       uint64_t range_from)
{
    struct base_str files = BASE_STR("/files");
    struct wire_sha256 name;
    bool whole = hex.size == WIRE_SHA256_HEX + files.size &&
                 memcmp(hex.data + WIRE_SHA256_HEX, files.data, files.size) == 0;
    hex.size -= whole ? files.size : 0;
    if (wire_sha256_parse(hex, &name) != BASE_OK) {
        return;
    }
    if (whole) {
        serve_whole(local, exchange, &name);
        return;
    }
    const struct sim_blob *blob = sim_store_find(local->store, &name);
    if (blob != NULL && range_from <= blob->size) {
        exchange->status = range_from > 0 ? 206 : 200;
        exchange->range_from = range_from;
        exchange->body = blob->bytes + range_from;
        exchange->body_bytes = blob->size - (size_t)range_from;
    }
}

static void answer(struct sim_local *local, struct sim_exchange *exchange,
                   const struct dev_request *request)
{
    exchange->status = 404;
    exchange->body = NULL;
    exchange->body_bytes = 0;
    exchange->range_from = 0;
    struct base_str hex = request->path;
    switch (sim_exchange_kind_of(request->path)) {
    case SIM_EXCHANGE_CHECKIN:
        exchange->status = 204;
        if (is_wanted(local, request->profile)) {
            offer(local, exchange, request);
        }
        break;
    case SIM_EXCHANGE_META:
        exchange->body = sim_local_trust_meta(&local->trust, request->path, &exchange->body_bytes);
        exchange->status = exchange->body != NULL ? 200 : 404;
        break;
    case SIM_EXCHANGE_REPORT:
        exchange->status = 204;
        local->reports++;
        break;
    case SIM_EXCHANGE_BLOB:
        hex.data += sizeof("/v1/blob/") - 1;
        hex.size -= sizeof("/v1/blob/") - 1;
        serve_blob(local, exchange, hex, request->range_from);
        break;
    default:
        if (local->exclusive != NULL &&
            base_str_starts(request->path, BASE_STR("/v1/exclusive/"))) {
            sim_exclusive_answer(local->exclusive, local->store, request, exchange);
        }
        break;
    }
}

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_local *local = ctx;
    answer(local, exchange, request);
    exchange->next = NULL;
    if (local->last != NULL) {
        local->last->next = exchange;
    } else {
        local->first = exchange;
    }
    local->last = exchange;
    return BASE_OK;
}

static void forget_body(struct sim_exchange *exchange)
{
    if (exchange->body_owned) {
        free((void *)(uintptr_t)exchange->body);
    }
    exchange->body = NULL;
    exchange->body_owned = false;
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    struct sim_local *local = ctx;
    struct sim_exchange *previous = NULL;
    for (struct sim_exchange *at = local->first; at != NULL; previous = at, at = at->next) {
        if (at != exchange) {
            continue;
        }
        forget_body(at);
        if (previous != NULL) {
            previous->next = at->next;
        } else {
            local->first = at->next;
        }
        if (local->last == at) {
            local->last = previous;
        }
        return;
    }
}

struct sim_transport sim_local_transport(struct sim_local *local)
{
    return (struct sim_transport){.ctx = local, .start = start, .cancel = cancel};
}

uint32_t sim_local_deliver(struct sim_local *local)
{
    uint32_t count = 0;
    const struct sim_exchange *stop = local->last;
    while (local->first != NULL) {
        struct sim_exchange *exchange = local->first;
        bool last = exchange == stop;
        local->first = exchange->next;
        if (local->first == NULL) {
            local->last = NULL;
        }
        struct dev_response_head head = {
            .status = exchange->status,
            .content_bytes = exchange->body_bytes,
            .range_from = exchange->range_from,
        };
        local->events.head(local->events.ctx, exchange, &head);
        if (exchange->body_bytes > 0) {
            local->events.body(local->events.ctx, exchange, exchange->body, exchange->body_bytes);
        }
        forget_body(exchange);
        local->events.end(local->events.ctx, exchange, BASE_OK);
        count++;
        if (last) {
            break;
        }
    }
    return count;
}
