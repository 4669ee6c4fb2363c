// The port table of an awake device: where the real runtime meets the simulated world. Called by
// the runtime on the shard's thread.
//
// The crypto port here stands in front of the shard's memo or, on devices that do everything for
// real, the real implementation; it also sees every signature that verified, which is how the
// ledger knows what was offered to whom and what anybody may run (fleet_statement.c).
#include "run/fleet_run.h"
#include "run/fleet_behaviour.h"
#include "run/fleet_enrol.h"

#include "run/device_story.h"

#include "base/hash.h"

#include <stddef.h>
#include <string.h>

// The runtime's time-out runs from a little before the request is here.
#define NEARLY_ALL_US_A_MS UINT64_C(990)

// ---- Versions ----

uint8_t sim_shard_version(struct sim_shard *shard, const struct wire_sha256 *manifest)
{
    for (uint32_t i = 0; i < shard->seen_count; i++) {
        if (wire_sha256_equal(&shard->seen[i].manifest, manifest)) {
            return shard->seen[i].number;
        }
    }
    sim_shard_in_order(shard);
    uint8_t number = sim_versions_intern(shard->versions, manifest);
    if (number != SIM_VERSION_NONE && shard->seen_count < SIM_VERSIONS_MAX) {
        shard->seen[shard->seen_count++] =
            (struct sim_seen_version){.manifest = *manifest, .number = number};
        if (sim_versions_get(shard->versions, number).bad) {
            shard->ledger.bad_mask |= 1ull << number;
        }
    }
    return number;
}

static bool declared_bad(const struct sim_options *options, struct sim_versions *versions,
                         uint8_t number)
{
    for (uint32_t i = 0; i < options->bad_version_count; i++) {
        struct base_str text = base_str_of(options->bad_versions[i]);
        if (base_str_equal(text, BASE_STR("*")) ||
            sim_versions_find(versions, sim_options_task_id(options), text) == number) {
            return true;
        }
    }
    return false;
}

void sim_shard_describe(struct sim_shard *shard, uint8_t version,
                        const struct wire_manifest *manifest)
{
    for (uint32_t i = 0; i < shard->seen_count; i++) {
        struct sim_seen_version *seen = &shard->seen[i];
        if (seen->number != version || seen->described) {
            continue;
        }
        seen->described = true;
        sim_shard_in_order(shard);
        sim_versions_describe(shard->versions, version, manifest->task_name, manifest->version);
        if (declared_bad(shard->options, shard->versions, version)) {
            (void)sim_versions_mark_bad(shard->versions, &seen->manifest);
            shard->ledger.bad_mask |= 1ull << version;
        }
    }
}

// ---- Crypto ----

static const struct dev_crypto_port *real_port(const struct sim_awake *awake)
{
    return &awake->shard->real_crypto;
}

static void hash_begin(void *ctx, struct dev_hash_state *state, const struct wire_sha256 *expected)
{
    struct sim_awake *awake = ctx;
    struct dev_crypto_port memo = sim_crypto_port(&awake->shard->crypto);
    if (!awake->real) {
        memo.hash_begin(memo.ctx, state, expected);
        return;
    }
    awake->shadow_of = state;
    memo.hash_begin(memo.ctx, &awake->shadow, expected);
    real_port(awake)->hash_begin(real_port(awake)->ctx, state, expected);
}

static void hash_update(void *ctx, struct dev_hash_state *state, const uint8_t *bytes, size_t size)
{
    struct sim_awake *awake = ctx;
    struct dev_crypto_port memo = sim_crypto_port(&awake->shard->crypto);
    if (!awake->real) {
        memo.hash_update(memo.ctx, state, bytes, size);
        return;
    }
    if (awake->shadow_of == state) {
        memo.hash_update(memo.ctx, &awake->shadow, bytes, size);
    }
    real_port(awake)->hash_update(real_port(awake)->ctx, state, bytes, size);
}

static void hash_end(void *ctx, struct dev_hash_state *state, struct wire_sha256 *out_digest)
{
    struct sim_awake *awake = ctx;
    struct dev_crypto_port memo = sim_crypto_port(&awake->shard->crypto);
    if (!awake->real) {
        memo.hash_end(memo.ctx, state, out_digest);
        return;
    }
    real_port(awake)->hash_end(real_port(awake)->ctx, state, out_digest);
    if (awake->shadow_of == state) {
        struct wire_sha256 shared;
        memo.hash_end(memo.ctx, &awake->shadow, &shared);
        awake->shard->ledger.counters.real_compared++;
        awake->shard->ledger.counters.memo_mismatches += !wire_sha256_equal(&shared, out_digest);
        awake->shadow_of = NULL;
    }
}

static enum base_status verify(void *ctx, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                               const uint8_t *message, size_t size,
                               const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    struct sim_awake *awake = ctx;
    struct sim_shard *shard = awake->shard;
    struct dev_crypto_port memo = sim_crypto_port(&shard->crypto);
    enum base_status status = memo.verify(memo.ctx, key, message, size, signature);
    if (awake->real) {
        enum base_status real =
            real_port(awake)->verify(real_port(awake)->ctx, key, message, size, signature);
        shard->ledger.counters.real_compared++;
        shard->ledger.counters.memo_mismatches += real != status;
        status = real;
    }
    if (status == BASE_OK) {
        sim_statement_verified(awake, key, message, size);
    }
    return status;
}

// ---- Storage ----

static struct sim_awake *awake_of(void *storage)
{
    return (struct sim_awake *)(void *)((char *)storage - offsetof(struct sim_awake, storage));
}

// The shard's storage, in front of which it is noted what was saved and what is there later.
static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct sim_storage *storage = ctx;
    struct sim_awake *awake = awake_of(ctx);
    if (awake->shard->recorder.taking) {
        sim_shard_note(awake->shard, awake->index, SIM_EVENT_SAVED, base_hash64(bytes, size));
    }
    BASE_TRY(sim_storage_port(storage).state_save(ctx, bytes, size));
    sim_story_saved(awake, size);
    sim_facts_saved(&awake->shard->facts, awake->device, (struct base_span){bytes, size});
    return BASE_OK;
}

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct sim_storage *storage = ctx;
    struct sim_awake *awake = awake_of(ctx);
    struct sim_shard *shard = awake->shard;
    size_t size = 0;
    enum base_status status = sim_storage_port(storage).state_load(ctx, out, capacity, &size);
    const struct base_span record = {out, status == BASE_OK ? size : 0};
    sim_facts_loaded(&shard->facts, &shard->ledger.counters, awake->device, record,
                     awake->faulty.lost);
    *out_size = status == BASE_OK ? size : *out_size;
    return status;
}

// ---- HTTP ----

static void count_request(struct sim_counters *counters, enum sim_exchange_kind kind)
{
    _Static_assert(SIM_REQUEST_KINDS == SIM_EXCHANGE_KIND_COUNT, "a counter for each kind");
    sim_counters_request(counters, kind);
    counters->own_checkins += kind == SIM_EXCHANGE_CHECKIN;
    counters->own_reports += kind == SIM_EXCHANGE_REPORT;
    // The runtime asks for nothing else that is of another kind than exclusive files.
    counters->pulls +=
        kind == SIM_EXCHANGE_BLOB || kind == SIM_EXCHANGE_META || kind == SIM_EXCHANGE_OTHER;
}

static enum base_status http_start(void *ctx, uint32_t id, const struct dev_request *request)
{
    struct sim_awake *awake = ctx;
    struct sim_shard *shard = awake->shard;
    struct sim_exchange *exchange = NULL;
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX && exchange == NULL; i++) {
        exchange = awake->exchanges[i].open ? NULL : &awake->exchanges[i];
    }
    if (exchange == NULL) {
        return BASE_ERR_LIMIT;
    }
    *exchange = (struct sim_exchange){
        .owner = awake,
        .device = awake->device,
        .index = awake->index,
        .id = id,
        .started_us = sim_shard_now(shard),
        .kind = sim_exchange_kind_of(request->path),
        .credential = sim_awake_credential(awake),
        .own_link = &awake->own_link,
    };
    enum base_status status = shard->transport.start(shard->transport.ctx, exchange, request);
    count_request(&shard->ledger.counters, exchange->kind);
    sim_shard_note(shard, awake->index, SIM_EVENT_REQUEST, (uint64_t)exchange->kind);
    sim_story_asked(exchange, request);
    awake->blobs += exchange->kind == SIM_EXCHANGE_BLOB;
    shard->ledger.counters.request_errors += status != BASE_OK;
    exchange->open = status == BASE_OK;
    return status;
}

void sim_request_in_vain(struct sim_exchange *exchange)
{
    const struct sim_awake *awake = exchange->owner;
    awake->shard->ledger.counters.request_errors += !exchange->in_vain;
    exchange->in_vain = true;
}

// "There is no next root" is the good end of every cycle, and a device without exclusive files is
// told so.
void sim_request_answered(struct sim_exchange *exchange, int status)
{
    bool none = status == 404 &&
                (exchange->kind == SIM_EXCHANGE_META || exchange->kind == SIM_EXCHANGE_OTHER);
    exchange->answered = true;
    if (status >= 400 && !none) {
        sim_request_in_vain(exchange);
    }
}

// Hint streams are open as long as the device likes.
static bool waits_for_answer(const struct sim_exchange *exchange)
{
    return exchange->open && !exchange->answered && exchange->kind != SIM_EXCHANGE_HINTS;
}

bool sim_requests_wait(const struct sim_awake *awake)
{
    bool waits = false;
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX; i++) {
        enum sim_exchange_kind kind = awake->exchanges[i].kind;
        bool lasts = kind == SIM_EXCHANGE_HINTS || kind == SIM_EXCHANGE_TUNNEL;
        waits = waits || (awake->exchanges[i].open && !lasts);
    }
    return waits;
}

void sim_requests_cut(struct sim_awake *awake)
{
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX; i++) {
        if (waits_for_answer(&awake->exchanges[i])) {
            sim_request_in_vain(&awake->exchanges[i]);
        }
    }
}

static bool waited_long(const struct sim_awake *awake, const struct sim_exchange *exchange)
{
    struct sim_shard *shard = awake->shard;
    uint64_t most_ms = shard->options->request_timeout_ms;
    most_ms = most_ms > 0 ? most_ms : SIM_TIMEOUT_DEFAULT_MS;
    uint64_t waited_us = sim_shard_now(shard) - exchange->started_us;
    return waited_us >= most_ms * NEARLY_ALL_US_A_MS;
}

// A pull also ends because its version is wanted no more: in vain is only what waited for long.
static bool timed_out(const struct sim_awake *awake, const struct sim_exchange *exchange)
{
    return waits_for_answer(exchange) &&
           (exchange->kind != SIM_EXCHANGE_BLOB || waited_long(awake, exchange));
}

// Is it no failure of the gateway's? A pull may be wanted no more, and of metadata what has come
// may be enough to refuse the rest: a device whose clock is wrong does not hear its timestamp out.
static bool broken_off(const struct sim_awake *awake, const struct sim_exchange *exchange)
{
    bool judged = exchange->kind == SIM_EXCHANGE_META && exchange->answered && !exchange->refused;
    return exchange->kind == SIM_EXCHANGE_BLOB || (judged && !waited_long(awake, exchange));
}

static void http_cancel(void *ctx, uint32_t id)
{
    struct sim_awake *awake = ctx;
    for (uint32_t i = 0; i < SIM_EXCHANGES_MAX; i++) {
        struct sim_exchange *exchange = &awake->exchanges[i];
        if (exchange->open && exchange->id == id) {
            if (timed_out(awake, exchange)) {
                sim_request_in_vain(exchange);
            }
            sim_fleet_facts_heard(awake, exchange, broken_off(awake, exchange));
            awake->shard->transport.cancel(awake->shard->transport.ctx, exchange);
            exchange->open = false;
        }
    }
}

static uint64_t awake_mono(void *ctx)
{
    const struct sim_shard *shard = ((struct sim_awake *)ctx)->shard;
    return shard->virtual_time ? shard->clock.mono_us(shard->clock.ctx) : shard->moment_us;
}

static uint64_t awake_wall(void *ctx)
{
    struct sim_awake *awake = ctx;
    const struct sim_shard *shard = awake->shard;
    uint64_t wall_us = shard->virtual_time ? shard->clock.wall_us(shard->clock.ctx)
                                           : shard->moment_us + shard->wall_off_us;
    return sim_faults_wall_us(&awake->faulty, wall_us + awake->clock_off_us);
}

// What its app hands to a run: the fleet's, so that nothing is to be given back.
static const struct dev_blob_set *blobs_hold(void *ctx, struct base_str task)
{
    const struct sim_awake *awake = ctx;
    (void)task;
    return sim_given_of(awake->shard->given, awake->id);
}

static void blobs_release(void *ctx, const struct dev_blob_set *set)
{
    (void)ctx, (void)set;
}

void sim_awake_ports(struct sim_awake *awake)
{
    awake->ports = (struct dev_ports){
        .clock = {.ctx = awake, .mono_us = awake_mono, .wall_us = awake_wall},
        .random = base_prng_port(&awake->prng),
        .http = {.ctx = awake, .start = http_start, .cancel = http_cancel},
        .storage = sim_storage_port(&awake->storage),
        .crypto = {.ctx = awake,
                   .hash_begin = hash_begin,
                   .hash_update = hash_update,
                   .hash_end = hash_end,
                   .verify = verify},
        .task = sim_runs_port(awake),
        .blobs = {.ctx = awake, .hold = blobs_hold, .release = blobs_release},
    };
    awake->ports.storage.state_save = state_save;
    awake->ports.storage.state_load = state_load;
}

// ---- Models in the cloud

static void cloud_in_order(void *ctx)
{
    sim_shard_in_order(ctx);
}

enum base_status sim_fleet_cloud(const struct sim_options *options, struct dev_model_store *models,
                                 struct sim_cloud **out, struct base_error *error)
{
    const struct sim_cloud_options cloud = {.dir = options->cloud_models,
                                            .call_ms = options->cloud_ms,
                                            .load = options->cloud_load,
                                            .store = models};
    return cloud.dir[0] == '\0' ? BASE_OK : sim_cloud_new(&cloud, out, error);
}

enum base_status sim_shard_cloud(struct sim_shard *shard, struct sim_cloud *cloud,
                                 struct base_error *error)
{
    if (cloud == NULL) {
        return BASE_OK;
    }
    if (sim_cloud_side_init(&shard->runner.cloud, cloud, shard->count,
                            &shard->ledger.counters.cloud) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    shard->runner.cloud.ctx = shard;
    shard->runner.cloud.in_order = cloud_in_order;
    return BASE_OK;
}
