// Snapshots, timestamp, roots and kills: what the gateway publishes for devices with a root.
//
// Control thread. A version number is on disk before anything that carries it leaves the process,
// so numbers never go back, whatever dies when. Signing is deterministic and the times are stored,
// so a restart publishes the same bytes.
#include "svc/trust/director.h"

#include "base/check.h"
#include "svc/core_private.h"
#include "svc/trust/director_answer.h"
#include "svc/trust/director_private.h"

#include <stdlib.h>
#include <string.h>

// ---- Metadata, counted

struct gw_meta *gw_meta_ref(struct gw_meta *meta)
{
    if (meta != NULL) {
        atomic_fetch_add_explicit(&meta->refs, 1, memory_order_relaxed);
    }
    return meta;
}

void gw_meta_unref(struct gw_meta *meta)
{
    if (meta == NULL || atomic_fetch_sub_explicit(&meta->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < meta->root_count; i++) {
        gw_blob_release(meta->roots[i]);
    }
    for (uint32_t i = 0; i < meta->scenario_count; i++) {
        gw_blob_release(meta->snapshots[i]);
        gw_blob_release(meta->next[i]);
    }
    free(meta->roots);
    gw_blob_release(meta->next_alone);
    gw_blob_release(meta->timestamp);
    free(meta);
}

static enum base_status blob_of(const uint8_t *bytes, size_t size, struct gw_blob **out)
{
    *out = gw_blob_of(bytes, size);
    return *out != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// What each role signs.
static const uint8_t types[GW_ONLINE_COUNT] = {
    [GW_ONLINE_SNAPSHOT] = WIRE_ENVELOPE_TYPE_SNAPSHOT,
    [GW_ONLINE_TIMESTAMP] = WIRE_ENVELOPE_TYPE_TIMESTAMP,
    [GW_ONLINE_DIRECTOR] = WIRE_ENVELOPE_TYPE_DIRECTOR,
};

// One signature over what the envelope's type says.
static enum base_status sign(const struct gw_signer_port *signer, enum gw_online_role role,
                             struct base_span said, struct wire_envelope *envelope)
{
    uint8_t message[WIRE_STATEMENT_BYTES_MAX + 16];
    struct wire_sha256 key_id;
    size_t size = 0;
    BASE_TRY(wire_envelope_signed_bytes(envelope->type, said, message, sizeof(message), &size));
    gw_sha256(signer->keys[role], WIRE_PUBLIC_KEY_BYTES, &key_id);
    envelope->signature_count = 1;
    memcpy(envelope->signatures[0].key_id, key_id.bytes, WIRE_SHA256_BYTES);
    return signer->sign(signer->ctx, role, message, size, envelope->signatures[0].bytes);
}

enum base_status gw_director_sign(const struct gw_signer_port *signer, enum gw_online_role role,
                                  struct base_span payload, struct wire_envelope *out)
{
    base_assert(role < GW_ONLINE_COUNT);
    struct wire_sha256 digest;
    struct wire_envelope envelope = {
        .type = types[role], .payload = payload.data, .payload_bytes = payload.size};
    struct base_span said = payload;
    if (wire_envelope_is_hashed(envelope.type)) {
        gw_sha256(payload.data, payload.size, &digest);
        said = (struct base_span){digest.bytes, sizeof(digest.bytes)};
    }
    BASE_TRY(sign(signer, role, said, &envelope));
    *out = envelope;
    return BASE_OK;
}

enum base_status gw_director_sign_answers(const struct gw_signer_port *signer,
                                          struct base_span head, struct wire_envelope *out)
{
    *out = (struct wire_envelope){.type = WIRE_ENVELOPE_TYPE_ANSWER};
    return sign(signer, GW_ONLINE_DIRECTOR, head, out);
}

// Index of a scenario, made when it is new; scenario_count when there is no room for another.
uint32_t gw_director_scenario(struct gw_director *director, struct base_str name)
{
    for (uint32_t i = 0; i < director->scenario_count; i++) {
        if (base_str_equal(base_str_of(director->scenarios[i].name), name)) {
            return i;
        }
    }
    if (name.size == 0 || director->scenario_count == WIRE_TIMESTAMP_SCENARIOS_MAX) {
        return UINT32_MAX;
    }
    uint32_t at = director->scenario_count++;
    memset(&director->scenarios[at], 0, sizeof(director->scenarios[at]));
    memcpy(director->scenarios[at].name, name.data, name.size);
    return at;
}

// ---- Building

// One snapshot under way.
struct draft {
    const struct wire_snapshot_entry *entries;
    uint32_t count;
    uint8_t *payload; // WIRE_SNAPSHOT_BYTES_MAX
    uint8_t *envelope;
};

static enum base_status scenario_digest(struct draft *draft, struct gw_director_scenario *scenario,
                                        struct wire_sha256 *out)
{
    struct wire_snapshot snapshot = {
        .scenario = base_str_of(scenario->name),
        .version = 1,
        .issued_s = 0,
        .expires_s = 1,
        .count = draft->count,
    };
    size_t size = 0;
    BASE_TRY(wire_snapshot_encode(&snapshot, draft->entries, draft->payload,
                                  WIRE_SNAPSHOT_BYTES_MAX, &size));
    gw_sha256(draft->payload, size, out);
    return BASE_OK;
}

static uint64_t snapshot_life_s(const struct gw_director *director)
{
    return (uint64_t)director->timestamp_life_s * GW_SNAPSHOT_LIFE_FACTOR;
}

// Has it lived half its time, or was it signed by a clock that was ahead?
static bool is_old(uint64_t issued_s, uint64_t life_s, uint64_t now_s)
{
    return now_s >= issued_s + life_s / 2 || issued_s > now_s + GW_CLOCK_STEP_MAX_US / 1000000u;
}

static enum base_status scenario_sign(const struct gw_director *director,
                                      const struct gw_director_scenario *scenario,
                                      struct draft *draft, struct gw_blob **out)
{
    struct wire_snapshot snapshot = {
        .scenario = base_str_of(scenario->name),
        .version = scenario->version,
        .issued_s = scenario->issued_s,
        .expires_s = scenario->issued_s + snapshot_life_s(director),
        .count = draft->count,
    };
    struct wire_envelope envelope;
    size_t payload = 0;
    size_t size = 0;
    BASE_TRY(wire_snapshot_encode(&snapshot, draft->entries, draft->payload,
                                  WIRE_SNAPSHOT_BYTES_MAX, &payload));
    BASE_TRY(gw_director_sign(director->signer, GW_ONLINE_SNAPSHOT,
                              (struct base_span){draft->payload, payload}, &envelope));
    BASE_TRY(wire_envelope_encode(&envelope, draft->envelope, WIRE_SNAPSHOT_BYTES_MAX, &size));
    return blob_of(draft->envelope, size, out);
}

// The entries of a scenario, side by side. `scratch` holds them.
static void take_entries(const struct gw_listing *listing, uint32_t scenario,
                         struct wire_snapshot_entry *scratch, struct draft *draft)
{
    draft->entries = scratch;
    draft->count = 0;
    for (uint32_t i = 0; i < listing->count; i++) {
        const struct wire_snapshot_entry *entry = &listing->items[i].entry;
        bool repeated = draft->count > 0 && scratch[draft->count - 1].task_id == entry->task_id &&
                        scratch[draft->count - 1].counter == entry->counter;
        if (listing->items[i].scenario == scenario && !repeated) {
            scratch[draft->count++] = *entry;
        }
    }
}

// Gives every scenario whose content or time changed a new version. True: something changed.
static bool versions_step(struct gw_director *director, const struct gw_listing *listing,
                          struct wire_snapshot_entry *scratch, struct draft *draft, uint64_t now_s)
{
    bool changed = false;
    for (uint32_t i = 0; i < director->scenario_count; i++) {
        struct gw_director_scenario *scenario = &director->scenarios[i];
        struct wire_sha256 digest;
        take_entries(listing, i, scratch, draft);
        if (scenario_digest(draft, scenario, &digest) != BASE_OK) {
            continue;
        }
        bool old = is_old(scenario->issued_s, snapshot_life_s(director), now_s);
        if (scenario->version == 0 || old || !wire_sha256_equal(&digest, &scenario->entries)) {
            scenario->version++;
            scenario->issued_s = now_s;
            scenario->entries = digest;
            changed = true;
        }
    }
    return changed;
}

static int compare_scenarios(const void *a, const void *b)
{
    const struct wire_timestamp_scenario *x = a;
    const struct wire_timestamp_scenario *y = b;
    size_t size = x->name.size < y->name.size ? x->name.size : y->name.size;
    int order = memcmp(x->name.data, y->name.data, size);
    return order != 0 ? order : (x->name.size > y->name.size) - (x->name.size < y->name.size);
}

static enum base_status sign_timestamp(const struct gw_director *director,
                                       const struct gw_told_kills *kills, struct gw_meta *meta)
{
    struct wire_timestamp timestamp = {
        .version = director->timestamp_version,
        .issued_s = director->timestamp_issued_s,
        .expires_s = director->timestamp_issued_s + director->timestamp_life_s,
        .scenario_count = meta->scenario_count,
        .kill_count = kills->count,
    };
    struct wire_envelope envelope;
    uint8_t payload[WIRE_META_BYTES_MAX];
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t payload_bytes = 0;
    size_t size = 0;
    memcpy(timestamp.kills, kills->items, kills->count * sizeof(kills->items[0]));
    for (uint32_t i = 0; i < meta->scenario_count; i++) {
        struct wire_timestamp_scenario *scenario = &timestamp.scenarios[i];
        scenario->name = base_str_of(meta->scenarios[i]);
        scenario->version = director->scenarios[i].version;
        size_t snapshot_bytes = 0;
        const uint8_t *data = gw_blob_bytes(meta->snapshots[i], 0, &snapshot_bytes);
        scenario->bytes = snapshot_bytes;
        gw_sha256(data, snapshot_bytes, &scenario->digest);
    }
    qsort(timestamp.scenarios, timestamp.scenario_count, sizeof(timestamp.scenarios[0]),
          compare_scenarios);
    BASE_TRY(wire_timestamp_encode(&timestamp, payload, sizeof(payload), &payload_bytes));
    BASE_TRY(gw_director_sign(director->signer, GW_ONLINE_TIMESTAMP,
                              (struct base_span){payload, payload_bytes}, &envelope));
    BASE_TRY(wire_envelope_encode(&envelope, bytes, sizeof(bytes), &size));
    return blob_of(bytes, size, &meta->timestamp);
}

// `snapshot`: NULL for the timestamp alone.
static enum base_status next_of(struct gw_blob *timestamp, struct gw_blob *snapshot,
                                struct gw_blob **out)
{
    size_t timestamp_bytes = 0;
    size_t snapshot_bytes = 0;
    const uint8_t *first = gw_blob_bytes(timestamp, 0, &timestamp_bytes);
    const uint8_t *then =
        snapshot != NULL ? gw_blob_bytes(snapshot, 0, &snapshot_bytes) : (const uint8_t *)"";
    size_t size = WIRE_NEXT_HEAD_BYTES + timestamp_bytes + snapshot_bytes;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        return BASE_ERR_NOMEM;
    }
    wire_next_head(timestamp_bytes, bytes);
    memcpy(bytes + WIRE_NEXT_HEAD_BYTES, first, timestamp_bytes);
    memcpy(bytes + WIRE_NEXT_HEAD_BYTES + timestamp_bytes, then, snapshot_bytes);
    enum base_status status = blob_of(bytes, size, out);
    free(bytes);
    return status;
}

static enum base_status next_fill(struct gw_meta *meta)
{
    for (uint32_t i = 0; i < meta->scenario_count; i++) {
        BASE_TRY(next_of(meta->timestamp, meta->snapshots[i], &meta->next[i]));
    }
    return next_of(meta->timestamp, NULL, &meta->next_alone);
}

static enum base_status meta_fill(struct gw_core *core, const struct gw_listing *listing,
                                  struct wire_snapshot_entry *scratch, struct draft *draft,
                                  struct gw_meta *meta)
{
    const struct gw_director *director = core->director;
    struct gw_told_kills kills;
    BASE_TRY(director->sources.tell(core, &kills));
    meta->timestamp_version = director->timestamp_version;
    meta->timestamp_expires_s = director->timestamp_issued_s + director->timestamp_life_s;
    meta->lease_s = director->lease_s;
    meta->root_first = director->root_first;
    for (uint32_t i = 0; i < kills.count; i++) {
        meta->kill_ids[i] = wire_version_id(&kills.items[i]);
        meta->kill_count++;
    }
    for (uint32_t i = 0; i < director->scenario_count; i++) {
        take_entries(listing, i, scratch, draft);
        BASE_TRY(scenario_sign(director, &director->scenarios[i], draft, &meta->snapshots[i]));
        memcpy(meta->scenarios[i], director->scenarios[i].name, sizeof(meta->scenarios[i]));
        meta->scenario_count++;
    }
    meta->roots = calloc(director->root_count + 1, sizeof(meta->roots[0]));
    if (meta->roots == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < director->root_count; i++) {
        BASE_TRY(blob_of(director->roots[i].data, director->roots[i].size, &meta->roots[i]));
        meta->root_count++;
    }
    BASE_TRY(sign_timestamp(director, &kills, meta));
    return next_fill(meta);
}

static uint32_t untold(const struct gw_director *director)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < director->kill_count; i++) {
        count += director->kills[i].told == GW_KILL_UNTOLD ? 1 : 0;
    }
    return count;
}

static enum base_status build(struct gw_core *core, const struct gw_listing *listing,
                              struct wire_snapshot_entry *scratch, struct draft *draft)
{
    struct gw_director *director = core->director;
    uint64_t now_s = gw_core_sure_s(core);
    bool changed = versions_step(director, listing, scratch, draft, now_s);
    bool old = is_old(director->timestamp_issued_s, director->timestamp_life_s, now_s);
    bool roots = director->meta == NULL || director->meta->root_count != director->root_count;
    if (!changed && !old && !director->kills_changed && !roots) {
        return BASE_OK;
    }
    if (changed || old || director->kills_changed) {
        director->timestamp_version++;
        director->timestamp_issued_s = now_s;
        BASE_TRY(gw_director_store_state(core));
        director->kills_changed = false;
    }
    struct gw_meta *meta = calloc(1, sizeof(*meta));
    if (meta == NULL) {
        return BASE_ERR_NOMEM;
    }
    atomic_init(&meta->refs, 1);
    enum base_status status = meta_fill(core, listing, scratch, draft, meta);
    if (status != BASE_OK) {
        gw_meta_unref(meta);
        return status;
    }
    gw_meta_unref(director->meta);
    director->meta = meta;
    atomic_store(&director->timestamp_seen, director->timestamp_version);
    atomic_store(&director->kills_seen, director->kill_count);
    atomic_store(&director->kills_told, meta->kill_count);
    atomic_store(&director->kills_untold, untold(director));
    return BASE_OK;
}

bool gw_director_build(struct gw_core *core)
{
    struct gw_listing listing = {NULL, 0};
    struct draft draft = {0};
    const struct gw_meta *before = core->director->meta;
    if (core->director->signer == NULL) {
        return false;
    }
    struct wire_snapshot_entry *scratch = NULL;
    enum base_status status = core->director->sources.list(core, &listing);
    if (status == BASE_OK) {
        scratch = calloc(listing.count + 1, sizeof(*scratch));
        draft.payload = malloc(WIRE_SNAPSHOT_BYTES_MAX);
        draft.envelope = malloc(WIRE_SNAPSHOT_BYTES_MAX);
        status = scratch != NULL && draft.payload != NULL && draft.envelope != NULL
                     ? build(core, &listing, scratch, &draft)
                     : BASE_ERR_NOMEM;
    }
    if (status != BASE_OK) {
        base_log_debug(core->log, "director", "metadata stays as it was: %s",
                       base_status_text(status));
    }
    free(draft.envelope);
    free(draft.payload);
    free(scratch);
    free(listing.items);
    return core->director->meta != before;
}

bool gw_director_is_due(const struct gw_core *core)
{
    const struct gw_director *director = core->director;
    uint64_t now_s = gw_core_sure_s(core);
    return director->signer != NULL &&
           is_old(director->timestamp_issued_s, director->timestamp_life_s, now_s);
}
