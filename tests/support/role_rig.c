// The online roles of the rig. Aborts on errors of its own.
#include "role_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_S         86400u
#define NEXT_BYTES_MAX 16384

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "role_rig: %s\n", what);
        abort();
    }
}

static uint64_t now_s(const struct role_rig *roles)
{
    uint64_t own_s = roles->rig.port.clock.wall_us / 1000000;
    return (uint64_t)((int64_t)own_s + roles->ahead_s);
}

static struct wire_sha256 sha256(const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    unsigned digest_size = 0;
    must(EVP_Digest(bytes, size, digest.bytes, &digest_size, EVP_sha256(), NULL) == 1, "sha256");
    return digest;
}

static size_t seal(struct role_rig *roles, uint8_t type, const uint8_t *payload, size_t size,
                   enum role_key key, enum role_key other, uint8_t *out, size_t capacity)
{
    struct wire_envelope envelope = {.type = type, .payload = payload, .payload_bytes = size};
    size_t written = 0;
    rig_sign_envelope(roles->keys[key], &envelope);
    if (other != key) {
        rig_sign_envelope(roles->keys[other], &envelope);
    }
    must(wire_envelope_encode(&envelope, out, capacity, &written) == BASE_OK, "envelope");
    return written;
}

// ---- Roots

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, WIRE_PUBLIC_KEY_BYTES);
}

static uint16_t bit_of(const struct wire_root *root, const uint8_t *key)
{
    for (uint32_t i = 0; i < root->key_count; i++) {
        if (memcmp(root->keys[i], key, WIRE_PUBLIC_KEY_BYTES) == 0) {
            return (uint16_t)(1u << i);
        }
    }
    return 0;
}

void role_root_add(struct role_rig *roles, enum role_key online, uint32_t lease_max_s)
{
    uint8_t release[2][WIRE_PUBLIC_KEY_BYTES];
    uint8_t payload[512];
    size_t size = 0;
    must(roles->root_count < ROLE_ROOTS_MAX, "roots");
    struct role_bytes *out = &roles->roots[roles->root_count++];
    struct wire_root root = {
        .version = roles->root_count,
        .issued_s = now_s(roles),
        .expires_s = now_s(roles) + 365u * 86400,
        .wide_bucket = 500,
        .lease_max_s = lease_max_s,
        .key_count = 5,
        .delegation_count = 1,
    };
    for (int i = 0; i < 2; i++) {
        size_t key_size = WIRE_PUBLIC_KEY_BYTES;
        must(EVP_PKEY_get_raw_public_key(roles->rig.keys[i], release[i], &key_size) == 1, "key");
        memcpy(root.keys[i], release[i], WIRE_PUBLIC_KEY_BYTES);
    }
    memcpy(root.keys[2], roles->publics[ROLE_KEY_A], WIRE_PUBLIC_KEY_BYTES);
    memcpy(root.keys[3], roles->publics[ROLE_KEY_B], WIRE_PUBLIC_KEY_BYTES);
    memcpy(root.keys[4], roles->publics[online], WIRE_PUBLIC_KEY_BYTES);
    qsort(root.keys, root.key_count, WIRE_PUBLIC_KEY_BYTES, compare_keys);
    root.roles[WIRE_ROLE_ROOT].threshold = 2;
    root.roles[WIRE_ROLE_ROOT].keys = (uint16_t)(bit_of(&root, roles->publics[ROLE_KEY_A]) |
                                                 bit_of(&root, roles->publics[ROLE_KEY_B]));
    for (int i = WIRE_ROLE_TIMESTAMP; i < WIRE_ROLE_COUNT; i++) {
        root.roles[i] = (struct wire_role){1, bit_of(&root, roles->publics[online])};
    }
    root.delegations[0].wide_threshold = 2;
    root.delegations[0].role.threshold = 1;
    root.delegations[0].role.keys =
        (uint16_t)(bit_of(&root, release[0]) | bit_of(&root, release[1]));
    must(wire_root_encode(&root, payload, sizeof(payload), &size) == BASE_OK, "root");
    out->size = seal(roles, WIRE_ENVELOPE_TYPE_ROOT, payload, size, ROLE_KEY_A, ROLE_KEY_B,
                     out->bytes, sizeof(out->bytes));
    roles->online = online;
}

// ---- Snapshot and timestamp

static enum role_key signer(const struct role_rig *roles)
{
    return roles->meta_by != ROLE_KEY_A ? roles->meta_by : roles->online;
}

static size_t make_snapshot(struct role_rig *roles, uint8_t *out, size_t capacity)
{
    uint8_t payload[1024];
    size_t size = 0;
    uint64_t version = roles->said_version > 0 ? roles->said_version : roles->snapshot_version;
    struct wire_snapshot snapshot = {
        .scenario = BASE_STR(ROLE_SCENARIO),
        .version = version,
        .issued_s = roles->timestamp.issued_s,
        .expires_s = roles->timestamp.issued_s + 7 * LIFE_S,
        .count = roles->entry_count,
    };
    must(wire_snapshot_encode(&snapshot, roles->entries, payload, sizeof(payload), &size) ==
             BASE_OK,
         "snapshot");
    return seal(roles, WIRE_ENVELOPE_TYPE_SNAPSHOT, payload, size, signer(roles), signer(roles),
                out, capacity);
}

static size_t make_timestamp(struct role_rig *roles, uint8_t *out, size_t capacity)
{
    uint8_t snapshot[1200];
    uint8_t payload[4096];
    size_t size = make_snapshot(roles, snapshot, sizeof(snapshot));
    struct wire_timestamp timestamp = roles->timestamp;
    if (roles->older_timestamps > 0) {
        roles->older_timestamps--;
        timestamp.version = 1;
    }
    timestamp.scenario_count = roles->no_scenario ? 0 : 1;
    timestamp.scenarios[0] = (struct wire_timestamp_scenario){.name = BASE_STR(ROLE_SCENARIO),
                                                              .version = roles->snapshot_version,
                                                              .bytes = size,
                                                              .digest = sha256(snapshot, size)};
    must(wire_timestamp_encode(&timestamp, payload, sizeof(payload), &size) == BASE_OK,
         "timestamp");
    return seal(roles, WIRE_ENVELOPE_TYPE_TIMESTAMP, payload, size, signer(roles), signer(roles),
                out, capacity);
}

void role_publish(struct role_rig *roles, bool snapshot)
{
    roles->timestamp.version++;
    roles->timestamp.issued_s = now_s(roles);
    roles->timestamp.expires_s = now_s(roles) + LIFE_S;
    roles->snapshot_version += snapshot ? 1 : 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct wire_snapshot_entry *x = a;
    const struct wire_snapshot_entry *y = b;
    if (x->task_id != y->task_id) {
        return x->task_id < y->task_id ? -1 : 1;
    }
    return x->counter < y->counter ? -1 : x->counter > y->counter;
}

void role_release(struct role_rig *roles, const struct rig_statement *statement)
{
    struct rig *rig = &roles->rig;
    struct rig_statement both = *statement;
    both.signers = both.signers > 0 ? both.signers : 3;
    must(roles->entry_count < ROLE_ENTRIES_MAX, "entries");
    roles->entries[roles->entry_count++] =
        (struct wire_snapshot_entry){wire_task_id(base_str_of(statement->task)), statement->counter,
                                     rig->versions[statement->version].manifest};
    qsort(roles->entries, roles->entry_count, sizeof(roles->entries[0]), compare_entries);
    rig_offer(rig, &both);
    role_publish(roles, true);
}

// ---- Serving

static size_t serve_snapshot(struct role_rig *roles, uint8_t *out, size_t capacity)
{
    size_t size = make_snapshot(roles, out, capacity);
    out[size / 2] ^= roles->other_bytes ? 1 : 0;
    if (roles->longer_snapshots > 0) {
        roles->longer_snapshots--;
        out[size++] = 0;
    }
    return size;
}

// Root `version`; when there is none yet timestamp and, when it is named, snapshot.
static size_t make_next(struct role_rig *roles, uint64_t version, bool named,
                        uint8_t bytes[NEXT_BYTES_MAX])
{
    size_t size = 0;
    if (version <= roles->root_count) {
        size = roles->roots[version - 1].size;
        memcpy(bytes, roles->roots[version - 1].bytes, size);
    } else {
        size = make_timestamp(roles, bytes + WIRE_NEXT_HEAD_BYTES, 4200);
        wire_next_head(size, bytes);
        size += WIRE_NEXT_HEAD_BYTES;
        size += named ? serve_snapshot(roles, bytes + size, 4200) : 0;
    }
    return roles->next_lie != NULL ? roles->next_lie(roles, bytes, size, NEXT_BYTES_MAX) : size;
}

// What the device would ask for next goes with the answer; of a lie, as much as there is room for.
static void bring(struct role_rig *roles, const struct wire_ask *ask, struct wire_offers *offers)
{
    static uint8_t bytes[NEXT_BYTES_MAX];
    bool newer =
        ask->root_version < roles->root_count || ask->timestamp_version < roles->timestamp.version;
    if (roles->brings && newer && (ask->flags & WIRE_ASK_FLAG_METADATA) != 0) {
        size_t size = make_next(roles, ask->root_version + 1, offers->count > 0, bytes);
        offers->metadata.data = bytes;
        offers->metadata.size = size < WIRE_OFFERS_META_MAX ? size : WIRE_OFFERS_META_MAX;
        roles->brought++;
    }
}

static void direct(struct rig *rig, const struct mem_exchange *exchange, struct wire_offers *offers)
{
    struct role_rig *roles = rig->roles;
    static uint8_t out[WIRE_STATEMENT_BYTES_MAX];
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    struct wire_ask ask;
    struct wire_director director = {
        .device_id = rig->config.device_id,
        .issued_s = now_s(roles),
        .timestamp_version =
            roles->directed_version > 0 ? roles->directed_version : roles->timestamp.version,
        .lease_s = roles->lease_s,
    };
    size_t size = 0;
    must(wire_ask_parse(base_str_of(exchange->nonce), &ask) == BASE_OK, "question");
    roles->asked_for_lease += (ask.flags & WIRE_ASK_FLAG_LEASE) != 0 ? 1 : 0;
    bring(roles, &ask, offers);
    memcpy(director.nonce, ask.nonce, sizeof(director.nonce));
    director.order = ask.order + 1 + roles->order_off;
    for (uint32_t i = 0; i < offers->count && !roles->unnamed; i++) {
        struct wire_envelope envelope;
        struct wire_release release;
        uint64_t task_id = 0;
        if (wire_envelope_parse(offers->items[i].envelope, offers->items[i].envelope_bytes,
                                &envelope) != BASE_OK) {
            continue;
        }
        if (envelope.type == WIRE_ENVELOPE_TYPE_STOP) {
            must(wire_stop_parse(envelope.payload, envelope.payload_bytes, &task_id) == BASE_OK,
                 "stop");
            director.entries[director.count++] = (struct wire_director_entry){.task_id = task_id};
        } else if (wire_release_parse(envelope.payload, envelope.payload_bytes, &release) ==
                   BASE_OK) {
            director.entries[director.count++] = (struct wire_director_entry){
                wire_release_task_id(&release), release.release_counter, release.manifest_bytes,
                release.manifest};
        }
    }
    director.again_count = roles->unmarked ? 0 : offers->again_count;
    memcpy(director.again, offers->again, sizeof(director.again));
    must(wire_director_encode(&director, payload, sizeof(payload), &size) == BASE_OK, "director");
    size = seal(roles, WIRE_ENVELOPE_TYPE_DIRECTOR, payload, size, roles->online, roles->online,
                out, sizeof(out));
    memmove(&offers->items[1], &offers->items[0], offers->count * sizeof(offers->items[0]));
    offers->items[0].envelope = out;
    offers->items[0].envelope_bytes = size;
    offers->count++;
}

static void answer(struct role_rig *roles, struct mem_exchange *exchange, int status,
                   const uint8_t *bytes, size_t size)
{
    struct dev_response_head head = {.status = status, .content_bytes = size};
    mem_exchange_answer(&roles->rig.port, roles->rig.runtime, exchange, &head,
                        (struct base_span){bytes, size});
}

static bool is_open(const struct rig *rig, const struct mem_exchange *exchange, uint32_t id)
{
    return !rig->port.killed && exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id;
}

void rig_checkin_send(struct rig *rig, struct mem_exchange *exchange, struct base_span all)
{
    struct dev_response_head head = {.status = 200, .content_bytes = all.size};
    uint32_t id = exchange->id;
    must(rig->checkin_cut < all.size, "cut");
    size_t end = all.size - rig->checkin_cut;
    size_t step = rig->checkin_step > 0 ? rig->checkin_step : end;
    dev_on_head(rig->runtime, id, &head);
    for (size_t at = 0; at < end && is_open(rig, exchange, id); at += step) {
        dev_on_body(rig->runtime, id, all.data + at, step < end - at ? step : end - at);
        if (rig->checkin_step > 0) {
            (void)dev_tick(rig->runtime, rig->port.clock.mono_us);
        }
    }
    if (is_open(rig, exchange, id)) {
        mem_exchange_end(&rig->port, rig->runtime, exchange,
                         rig->checkin_cut > 0 ? BASE_ERR_CLOSED : BASE_OK);
    }
}

// The answer as its knobs say: in one piece or byte by byte, to its end or not.
static void next_send(struct role_rig *roles, struct mem_exchange *exchange, struct base_span all)
{
    struct rig *rig = &roles->rig;
    struct dev_response_head head = {.status = 200, .content_bytes = all.size};
    uint32_t id = exchange->id;
    size_t step = roles->next_in_bytes ? 1 : all.size;
    dev_on_head(rig->runtime, id, &head);
    for (size_t at = 0; at < all.size && is_open(rig, exchange, id); at += step) {
        dev_on_body(rig->runtime, id, all.data + at, step);
    }
    if (!is_open(rig, exchange, id)) {
        return; // the device went away
    }
    if (roles->next_hangs) {
        exchange->path[1] = 'X'; // answered as far as it ever will be
        return;
    }
    mem_exchange_end(&rig->port, rig->runtime, exchange,
                     roles->next_cut ? BASE_ERR_CLOSED : BASE_OK);
}

// All that comes next: a root, or timestamp and snapshot.
static void serve_next(struct role_rig *roles, struct mem_exchange *exchange)
{
    uint8_t bytes[NEXT_BYTES_MAX];
    struct base_str text = base_str_of(exchange->path + sizeof("/v1/meta/next/") - 1);
    const char *slash = memchr(text.data, '/', text.size);
    uint64_t version = 0;
    text.size = slash != NULL ? (size_t)(slash - text.data) : text.size;
    must(base_str_u64(text, &version) == BASE_OK && version > 0, "next path");
    must(slash == NULL || strcmp(slash, "/" ROLE_SCENARIO) == 0, "next scenario");
    if (roles->apart || roles->next_status != 0) {
        answer(roles, exchange, roles->apart ? 404 : roles->next_status, NULL, 0);
        return;
    }
    size_t size = make_next(roles, version, slash != NULL, bytes);
    next_send(roles, exchange, (struct base_span){bytes, size});
}

static void meta(struct rig *rig, struct mem_exchange *exchange)
{
    struct role_rig *roles = rig->roles;
    static const char root_path[] = "/v1/meta/root/";
    uint8_t bytes[4200];
    size_t size = 0;
    roles->meta_requests++;
    if (roles->meta_failures > 0) {
        roles->meta_failures--;
        mem_exchange_end(&rig->port, rig->runtime, exchange, BASE_ERR_CLOSED);
        return;
    }
    if (strncmp(exchange->path, "/v1/meta/next/", sizeof("/v1/meta/next/") - 1) == 0) {
        serve_next(roles, exchange);
        return;
    }
    if (strncmp(exchange->path, root_path, sizeof(root_path) - 1) == 0) {
        uint64_t version = 0;
        must(base_str_u64(base_str_of(exchange->path + sizeof(root_path) - 1), &version) == BASE_OK,
             "root path");
        if (version == 0 || version > roles->root_count) {
            answer(roles, exchange, 404, NULL, 0);
        } else {
            const struct role_bytes *root = &roles->roots[version - 1];
            answer(roles, exchange, 200, root->bytes, root->size);
        }
        return;
    }
    if (strcmp(exchange->path, "/v1/meta/timestamp") == 0) {
        size = make_timestamp(roles, bytes, sizeof(bytes));
    } else {
        must(strcmp(exchange->path, "/v1/meta/snapshot/" ROLE_SCENARIO) == 0, "path");
        if (roles->publish_between > 0) {
            roles->publish_between--;
            role_publish(roles, true);
        }
        size = serve_snapshot(roles, bytes, sizeof(bytes));
    }
    answer(roles, exchange, 200, bytes, size);
}

void role_rig_init(struct role_rig *roles, uint32_t lease_max_s)
{
    memset(roles, 0, sizeof(*roles));
    rig_init(&roles->rig);
    for (int i = 0; i < ROLE_KEY_COUNT; i++) {
        uint8_t seed[32] = {(uint8_t)(100 + i)};
        size_t size = WIRE_PUBLIC_KEY_BYTES;
        roles->keys[i] = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
        must(roles->keys[i] != NULL &&
                 EVP_PKEY_get_raw_public_key(roles->keys[i], roles->publics[i], &size) == 1,
             "key");
    }
    role_root_add(roles, ROLE_KEY_ONLINE, lease_max_s);
    roles->lease_s = lease_max_s;
    roles->snapshot_version = 1;
    role_publish(roles, false);
    roles->rig.roles = roles;
    roles->rig.direct = direct;
    roles->rig.meta = meta;
    roles->rig.config.trusted_key_count = 0;
    roles->rig.config.root = roles->roots[0].bytes;
    roles->rig.config.root_bytes = roles->roots[0].size;
}

void role_rig_done(struct role_rig *roles)
{
    rig_done(&roles->rig);
    for (int i = 0; i < ROLE_KEY_COUNT; i++) {
        EVP_PKEY_free(roles->keys[i]);
    }
}
