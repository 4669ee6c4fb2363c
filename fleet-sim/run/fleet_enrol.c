// Enrolment of virtual devices: a device that has no credential asks for one before its runtime
// boots, over the connection that carries everything else, and shows it from then on. Called by
// fleet_device.c, on the shard's thread.
//
// As a device it brings a key of its own (`walle-enroll-key`), the same until it has its answer and
// another one for another enrolment: the SHA-256 of the fleet's secret, its id and the credential
// that is taken no more. So nothing has to be kept of an enrolment that is under way.
//
// The runtime knows nothing of it, as on a phone: a credential is the transport's. A slot whose
// device enrols keeps what it needs where the runtime will be.
#include "run/fleet_enrol.h"

#include "base/check.h"
#include "core/base/backoff.h"

#include "run/device_story.h"

#include <string.h>

#define PATH             "/v1/enroll"
#define KEY_PREFIX       "wek_"
#define KEY_PREFIX_BYTES 4u
#define KEY_TEXT_BYTES   (KEY_PREFIX_BYTES + BASE_B64_ENCODED(WIRE_SHA256_BYTES))
#define STATUS_MADE      201
#define STATUS_CONFLICT  409
#define STATUS_TOO_MANY  429
#define WAIT_FIRST_MS    1000
#define WAIT_MAX_MS      300000 // also after a refusal: an operator may reset the device
#define DOUBLINGS_MAX    8

struct sim_enrolling {
    struct sim_exchange *exchange;
    int status; // of the answer; 0: none yet
    uint32_t retry_after_s;
    enum base_status ended;
    bool over;
    uint64_t deadline_us;
    size_t size; // of the body; more than there is room for: it is no enrolment
    uint8_t body[WIRE_ENROLMENT_BYTES_MAX];
    char key[KEY_TEXT_BYTES + 1];
};
_Static_assert(sizeof(struct sim_enrolling) <= SIM_ENROLLING_BYTES_MAX, "see fleet_enrol.h");

enum base_status sim_enrol_open(const struct sim_options *options, struct sim_credentials **out,
                                struct base_error *error)
{
    if (options->credentials[0] != '\0') {
        return sim_credentials_open(options->credentials, options->devices, out, error);
    }
    return options->enrols ? sim_credentials_in_memory(options->devices, options->seed, out, error)
                           : BASE_OK;
}

struct base_str sim_awake_credential(const struct sim_awake *awake)
{
    const struct sim_credentials *credentials = awake->shard->credentials;
    return credentials != NULL
               ? sim_credentials_get(credentials, awake->shard->first + awake->device, awake->id)
               : (struct base_str){NULL, 0};
}

void sim_device_reinstall(struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    struct sim_device *device = &shard->devices[awake->device];
    uint64_t id = awake->id;
    if (awake->faulty.lost) { // whether it boots in this wake or dies before
        sim_facts_anew(&shard->facts, awake->device);
    }
    uint32_t when = sim_population_reinstalled(&shard->population, awake->index, &id);
    if (when == 0 || device->wakes < when) {
        return;
    }
    if (device->wakes == when) {
        bool real = device->disk.real;
        sim_disk_done(&device->disk, shard->store, shard->ledger.alloc);
        device->disk.real = real;
        awake->faulty.lost = true;
        sim_facts_anew(&shard->facts, awake->device); // it may not boot in this wake
        shard->ledger.counters.reinstalls++;
        if (id != awake->id && shard->credentials != NULL) {
            shard->ledger.counters.unenrolled += sim_awake_credential(awake).size > 0;
            sim_credentials_drop(shard->credentials, shard->first + awake->device);
        }
    }
    awake->id = id;
}

bool sim_enrol_needed(const struct sim_awake *awake)
{
    return awake->shard->options->enrols && (sim_awake_credential(awake).size == 0 ||
                                             awake->shard->devices[awake->device].enrol_anew);
}

// Empty: the fleet has no secret.
static struct base_str make_key(const struct sim_awake *awake, char out[KEY_TEXT_BYTES + 1])
{
    const struct dev_crypto_port *crypto = &awake->shard->real_crypto;
    const uint8_t *secret = sim_credentials_secret(awake->shard->credentials);
    struct base_str before = sim_awake_credential(awake);
    struct dev_hash_state state;
    struct base_writer writer;
    struct wire_sha256 made;
    uint8_t id[sizeof(awake->id)];
    if (secret == NULL) {
        return BASE_STR("");
    }
    base_writer_init(&writer, id, sizeof(id));
    base_writer_u64(&writer, awake->id);
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, secret, SIM_CREDENTIALS_SECRET_BYTES);
    crypto->hash_update(crypto->ctx, &state, id, sizeof(id));
    if (before.size > 0) {
        crypto->hash_update(crypto->ctx, &state, (const uint8_t *)before.data, before.size);
    }
    crypto->hash_end(crypto->ctx, &state, &made);
    memcpy(out, KEY_PREFIX, KEY_PREFIX_BYTES);
    size_t size = base_b64_encode(made.bytes, sizeof(made.bytes), out + KEY_PREFIX_BYTES);
    return (struct base_str){out, KEY_PREFIX_BYTES + size};
}

void sim_enrol_begin(struct sim_awake *awake, void *memory, uint64_t now_us)
{
    struct sim_shard *shard = awake->shard;
    struct sim_enrolling *enrolling = memory;
    uint32_t timeout_ms = shard->options->request_timeout_ms;
    char device[WIRE_DEVICE_HEX + 1];
    wire_device_hex(awake->id, device);
    struct dev_request request = {
        .method = DEV_METHOD_POST, .path = BASE_STR(PATH), .device = {device, WIRE_DEVICE_HEX}};
    *enrolling = (struct sim_enrolling){.exchange = &awake->exchanges[0]};
    enrolling->deadline_us =
        now_us + (timeout_ms > 0 ? timeout_ms : SIM_TIMEOUT_DEFAULT_MS) * UINT64_C(1000);
    *enrolling->exchange = (struct sim_exchange){.owner = awake,
                                                 .device = awake->device,
                                                 .index = awake->index,
                                                 .started_us = now_us,
                                                 .credential = make_key(awake, enrolling->key),
                                                 .own_link = &awake->own_link,
                                                 .kind = SIM_EXCHANGE_ENROL};
    awake->enrolling = enrolling;
    enrolling->ended = shard->transport.start(shard->transport.ctx, enrolling->exchange, &request);
    enrolling->exchange->open = enrolling->ended == BASE_OK;
    sim_story_asked(enrolling->exchange, &request);
    enrolling->over = enrolling->ended != BASE_OK;
    sim_counters_request(&shard->ledger.counters, SIM_EXCHANGE_ENROL);
    shard->ledger.counters.request_errors += enrolling->over;
}

void sim_enrol_head(struct sim_awake *awake, const struct dev_response_head *head)
{
    awake->enrolling->status = head->status;
    awake->enrolling->retry_after_s = head->retry_after_s;
}

void sim_enrol_body(struct sim_awake *awake, const uint8_t *bytes, size_t size)
{
    struct sim_enrolling *enrolling = awake->enrolling;
    if (enrolling->size + size <= sizeof(enrolling->body)) {
        memcpy(enrolling->body + enrolling->size, bytes, size);
        enrolling->size += size;
    } else {
        enrolling->size = sizeof(enrolling->body) + 1;
    }
}

void sim_enrol_end(struct sim_awake *awake, enum base_status status)
{
    awake->enrolling->ended = status;
    awake->enrolling->over = true;
}

bool sim_enrol_over(const struct sim_awake *awake)
{
    return awake->enrolling->over;
}

uint64_t sim_enrol_deadline_us(const struct sim_awake *awake)
{
    return awake->enrolling->deadline_us;
}

static bool keep(struct sim_awake *awake)
{
    const struct sim_enrolling *enrolling = awake->enrolling;
    struct sim_shard *shard = awake->shard;
    struct wire_enrolment enrolment;
    return enrolling->ended == BASE_OK && enrolling->status == STATUS_MADE &&
           enrolling->size <= sizeof(enrolling->body) &&
           wire_enrolment_parse(enrolling->body, enrolling->size, &enrolment) == BASE_OK &&
           enrolment.device_id == awake->id &&
           sim_credentials_put(shard->credentials, shard->first + awake->device, awake->id,
                               enrolment.credential) == BASE_OK;
}

bool sim_enrol_done(struct sim_awake *awake, uint32_t *out_wait_ms)
{
    struct sim_enrolling *enrolling = awake->enrolling;
    struct sim_shard *shard = awake->shard;
    struct sim_device *device = &shard->devices[awake->device];
    struct sim_counters *counters = &shard->ledger.counters;
    if (enrolling->exchange->open) { // no answer in time
        shard->transport.cancel(shard->transport.ctx, enrolling->exchange);
        enrolling->exchange->open = false;
        sim_request_in_vain(enrolling->exchange);
    }
    device->enrol_anew = false; // after a refusal it shows what it has again
    bool first = sim_awake_credential(awake).size == 0;
    if (keep(awake)) {
        base_assert(!first || counters->unenrolled > 0);
        counters->unenrolled -= first;
        awake->enrolling = NULL;
        device->enrol_tries = 0;
        counters->enrolled++;
        return true;
    }
    bool refused =
        enrolling->status >= 400 && enrolling->status < 500 && enrolling->status != STATUS_TOO_MANY;
    // Known from before the run: not a clone, whose id another one has enrolled.
    counters->known_refused += enrolling->status == STATUS_CONFLICT && first &&
                               device->enrol_tries == 0 &&
                               !sim_population_shares_id(&shard->population, awake->index);
    uint32_t doublings = refused ? DOUBLINGS_MAX : device->enrol_tries;
    struct dev_backoff backoff;
    dev_backoff_init(&backoff, WAIT_FIRST_MS, WAIT_MAX_MS);
    backoff.last_ms = WAIT_FIRST_MS << doublings;
    *out_wait_ms =
        dev_backoff_next(&backoff, base_prng_next(&awake->prng), enrolling->retry_after_s);
    if (device->enrol_tries < DOUBLINGS_MAX) {
        device->enrol_tries++;
    }
    counters->enrol_refused += refused;
    counters->enrolled_before += enrolling->status == STATUS_CONFLICT;
    return false;
}

enum base_status sim_enrol_check(const struct sim_shard *shard, struct base_error *error)
{
    for (uint32_t i = 0; shard->credentials != NULL && i < shard->count; i++) {
        uint64_t owner = sim_credentials_owner(shard->credentials, shard->first + i);
        if (owner == 0) {
            continue;
        }
        uint64_t id = sim_population_device_id(&shard->population, sim_shard_index(shard, i));
        if (owner != id) {
            return base_error_set(error, BASE_ERR_CONFLICT,
                                  "%.60s: credentials of another fleet (device %u is %016llx here "
                                  "and %016llx there): another --seed, or another --where",
                                  shard->options->credentials, shard->first + i,
                                  (unsigned long long)id, (unsigned long long)owner);
        }
    }
    return BASE_OK;
}
