// Roots: what operators bring, checked, stored, then published. Also the rows of the director in
// the store:
//
//   trust[u64 1, u64 version] := the root's envelope
//   trust[u64 2]              := u8 1, u64 timestamp_version, u64 issued_s, varint count,
//                                count x { text8 scenario, u64 version, u64 issued_s, sha256[32] }
//   trust[u64 3, manifest]    := u8 1, u64 time_us, text8 by, text8 reason
//   trust[u64 4, manifest]    := likewise: the end of a kill, until the rollouts' logs say it
//
// Control thread.
#include "svc/trust/director.h"

#include "base/text/str_cut.h"
#include "svc/core_private.h"
#include "svc/access/audit.h"
#include "svc/access/operators.h"
#include "svc/trust/director_private.h"
#include "svc/plan/release.h"
#include "wire/trust/release_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SHOWN_BYTES 8u // of a key, where it is named

// ---- Rows

struct rows_op {
    struct gw_store_op op;
    struct gw_trust_row rows[GW_TRUST_ROWS_MAX];
    uint32_t count;
};

static enum base_status rows_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct rows_op *rows = (const struct rows_op *)self;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct gw_trust_row *row = &rows->rows[i];
        if (row->bytes == NULL) {
            BASE_TRY(gw_store_txn_delete(txn, GW_TABLE_TRUST, &row->key));
        } else {
            BASE_TRY(gw_store_txn_put(txn, GW_TABLE_TRUST, &row->key, row->bytes, row->size));
        }
    }
    return BASE_OK;
}

enum base_status gw_trust_rows_put(struct gw_core *core, const struct gw_trust_row *rows,
                                   uint32_t count)
{
    struct rows_op op = {.op = {.urgent = true, .apply = rows_apply}, .count = count};
    memcpy(op.rows, rows, count * sizeof(rows[0]));
    return gw_audit_submit_wait(core, &op.op);
}

static void text_put(struct base_writer *writer, struct base_str text, size_t max)
{
    size_t size = text.size < max ? text.size : max;
    base_writer_u8(writer, (uint8_t)size);
    base_writer_bytes(writer, text.data, size);
}

enum base_status gw_director_state_encode(const struct gw_director *director,
                                          uint64_t timestamp_version,
                                          uint8_t out[GW_TRUST_STATE_BYTES_MAX], size_t *out_size)
{
    struct base_writer writer;
    base_writer_init(&writer, out, GW_TRUST_STATE_BYTES_MAX);
    base_writer_u8(&writer, GW_TRUST_ROW_VERSION);
    base_writer_u64(&writer, timestamp_version);
    base_writer_u64(&writer, director->timestamp_issued_s);
    base_writer_varint(&writer, director->scenario_count);
    for (uint32_t i = 0; i < director->scenario_count; i++) {
        const struct gw_director_scenario *scenario = &director->scenarios[i];
        text_put(&writer, base_str_of(scenario->name), WIRE_SCENARIO_MAX);
        base_writer_u64(&writer, scenario->version);
        base_writer_u64(&writer, scenario->issued_s);
        base_writer_bytes(&writer, scenario->entries.bytes, WIRE_SHA256_BYTES);
    }
    *out_size = base_writer_size(&writer);
    return writer.status;
}

enum base_status gw_director_store_state(struct gw_core *core)
{
    uint8_t bytes[GW_TRUST_STATE_BYTES_MAX];
    struct gw_trust_row row = {.key = gw_key_u64(GW_TRUST_ROW_STATE), .bytes = bytes};
    BASE_TRY(gw_director_state_encode(core->director, core->director->timestamp_version, bytes,
                                      &row.size));
    return gw_trust_rows_put(core, &row, 1);
}

enum base_status gw_director_store_root(struct gw_core *core, uint64_t version,
                                        const uint8_t *bytes, size_t size)
{
    const struct gw_trust_row row = {gw_key_u64_u64(GW_TRUST_ROW_ROOT, version), bytes, size};
    return gw_trust_rows_put(core, &row, 1);
}

// ---- Loading

static void verifier_sha256(void *ctx, const void *bytes, size_t size,
                            const struct wire_sha256 *hoped, struct wire_sha256 *out)
{
    (void)ctx;
    (void)hoped;
    gw_sha256(bytes, size, out);
}

static struct wire_verifier verifier_of(const struct gw_signer_port *signer)
{
    return (struct wire_verifier){
        .ctx = signer->ctx, .sha256 = verifier_sha256, .verify = signer->verify};
}

static const struct {
    enum wire_root_role role;
    const char *name;
} online[GW_ONLINE_COUNT] = {
    [GW_ONLINE_TIMESTAMP] = {WIRE_ROLE_TIMESTAMP, "timestamp"},
    [GW_ONLINE_SNAPSHOT] = {WIRE_ROLE_SNAPSHOT, "snapshot"},
    [GW_ONLINE_DIRECTOR] = {WIRE_ROLE_DIRECTOR, "director"},
};

// Does what this gateway signs in a role count under the root?
static bool names_our_key(const struct wire_root *root, const struct gw_signer_port *signer, int at)
{
    const struct wire_role *keys = &root->roles[online[at].role];
    for (uint32_t i = 0; i < root->key_count; i++) {
        if ((keys->keys >> i & 1u) != 0 &&
            memcmp(root->keys[i], signer->keys[at], WIRE_PUBLIC_KEY_BYTES) == 0) {
            return keys->threshold == 1;
        }
    }
    return false;
}

static uint32_t count_unnamed(const struct wire_root *root, const struct gw_signer_port *signer)
{
    uint32_t count = 0;
    for (int i = 0; i < GW_ONLINE_COUNT; i++) {
        count += names_our_key(root, signer, i) ? 0 : 1;
    }
    return count;
}

// Each role that does not count, with the beginning of its key, as `walle root show` lists keys.
static enum base_status refuse_keys(const struct wire_root *root,
                                    const struct gw_signer_port *signer, struct base_error *error)
{
    char list[BASE_ERROR_TEXT_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < GW_ONLINE_COUNT; i++) {
        char shown[2 * KEY_SHOWN_BYTES + 1] = "";
        uint8_t threshold = root->roles[online[i].role].threshold;
        if (names_our_key(root, signer, i)) {
            continue;
        }
        base_hex_encode(signer->keys[i], KEY_SHOWN_BYTES, shown);
        int size = snprintf(list + used, sizeof(list) - used, "%s%s %.16s", used > 0 ? ", " : "",
                            online[i].name, shown);
        used += size > 0 ? (size_t)size : 0;
        if (threshold > 1 && used < sizeof(list)) {
            size = snprintf(list + used, sizeof(list) - used, " (%u must sign)", threshold);
            used += size > 0 ? (size_t)size : 0;
        }
        used = used < sizeof(list) ? used : sizeof(list) - 1;
    }
    return base_error_set(error, BASE_ERR_CONFLICT,
                          "root %llu does not name the keys of this gateway: %s",
                          (unsigned long long)root->version, list);
}

// Devices take nothing that is signed with a key their root does not name: said once a start, and
// when such a root comes.
static void say_keys(const struct gw_core *core, const struct wire_root *root)
{
    const struct gw_signer_port *signer = core->director->signer;
    for (int i = 0; i < GW_ONLINE_COUNT; i++) {
        const char *place = signer->places[i];
        if (!names_our_key(root, signer, i)) {
            base_log_error(core->log, "trust",
                           "root %llu does not name this gateway's %s key (%s): devices take no "
                           "release from it; restore the key from a copy, or name this one in the "
                           "next root (walle root rotate)",
                           (unsigned long long)root->version, online[i].name,
                           place != NULL ? place : "in memory");
        }
    }
}

// Memory follows what is on disk.
static enum base_status root_add(struct gw_director *director, const struct wire_root *root,
                                 const uint8_t *bytes, size_t size)
{
    size_t count = director->root_count + 1;
    struct gw_meta_bytes *roots = realloc(director->roots, count * sizeof(roots[0]));
    if (roots == NULL) {
        return BASE_ERR_NOMEM;
    }
    director->roots = roots;
    struct gw_meta_bytes *last = &roots[director->root_count];
    last->data = malloc(size);
    if (last->data == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(last->data, bytes, size);
    last->size = size;
    if (director->root_count == 0) {
        director->root_first = root->version;
    }
    director->root_count++;
    director->root_expires_s = root->expires_s;
    uint32_t unnamed = count_unnamed(root, director->signer);
    director->keys_match = unnamed == 0;
    atomic_store(&director->keys_unnamed_seen, unnamed);
    atomic_store(&director->root_version_seen, root->version);
    atomic_store(&director->root_expires_seen, root->expires_s);
    return BASE_OK;
}

static bool newest_root(const struct gw_director *director, struct wire_root *out)
{
    struct wire_envelope envelope;
    if (director->root_count == 0) {
        return false;
    }
    const struct gw_meta_bytes *last = &director->roots[director->root_count - 1];
    return wire_envelope_parse(last->data, last->size, &envelope) == BASE_OK &&
           wire_root_parse(envelope.payload, envelope.payload_bytes, out) == BASE_OK;
}

static enum base_status read_root(struct gw_director *director, struct base_span value)
{
    struct wire_verifier verifier = verifier_of(director->signer);
    struct wire_root before;
    struct wire_root root;
    if (newest_root(director, &before)) {
        BASE_TRY(wire_root_follow(&before, value.data, value.size, &verifier, &root));
    } else {
        BASE_TRY(wire_root_open(value.data, value.size, &verifier, &root));
    }
    return root_add(director, &root, value.data, value.size);
}

static enum base_status read_state(struct gw_director *director, struct base_span value)
{
    struct base_reader reader;
    base_reader_init(&reader, value.data, value.size);
    if (base_reader_u8(&reader) != GW_TRUST_ROW_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    director->timestamp_version = base_reader_u64(&reader);
    director->timestamp_issued_s = base_reader_u64(&reader);
    uint64_t count = base_reader_varint_max(&reader, WIRE_TIMESTAMP_SCENARIOS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_director_scenario *scenario = &director->scenarios[i];
        memset(scenario, 0, sizeof(*scenario));
        size_t size = base_reader_u8(&reader);
        if (size > WIRE_SCENARIO_MAX) {
            return BASE_ERR_CORRUPT;
        }
        base_reader_copy(&reader, scenario->name, size);
        scenario->version = base_reader_u64(&reader);
        scenario->issued_s = base_reader_u64(&reader);
        base_reader_copy(&reader, scenario->entries.bytes, WIRE_SHA256_BYTES);
    }
    if (base_reader_finish(&reader) != BASE_OK) {
        return BASE_ERR_CORRUPT;
    }
    director->scenario_count = (uint32_t)count;
    return BASE_OK;
}

struct reading {
    struct gw_director *director;
    enum base_status status;
};

static bool read_row(void *ctx, struct base_span key, struct base_span value)
{
    struct reading *reading = ctx;
    struct gw_director *director = reading->director;
    uint64_t kind = 0;
    if (!gw_key_read_u64(key.data, key.size, 0, &kind)) {
        reading->status = BASE_ERR_CORRUPT;
    } else if (director->signer == NULL &&
               (kind == GW_TRUST_ROW_ROOT || kind == GW_TRUST_ROW_STATE)) {
        return true; // what online keys signed; kills count without
    } else if (kind == GW_TRUST_ROW_ROOT) {
        reading->status = read_root(director, value);
    } else if (kind == GW_TRUST_ROW_STATE) {
        reading->status = read_state(director, value);
    } else if (kind == GW_TRUST_ROW_KILL && gw_kills_is_key(key) &&
               director->kill_count < GW_KILLS_MAX) {
        reading->status = gw_kills_read(director, key, value);
    } else if (kind == GW_TRUST_ROW_KILL_END && gw_kills_is_key(key)) {
        return true; // gw_trust_finish_kills
    } else {
        reading->status = BASE_ERR_CORRUPT;
    }
    return reading->status == BASE_OK;
}

enum base_status gw_director_load(struct gw_core *core, struct base_error *error)
{
    struct reading reading = {.director = core->director, .status = BASE_OK};
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read = NULL;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_store_read_scan(read, GW_TABLE_TRUST, &from, read_row, &reading);
    gw_store_read_end(read);
    if (status == BASE_OK) {
        status = reading.status;
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "stored roots and timestamps cannot be read: %s",
                              base_status_text(status));
    }
    struct wire_root root;
    if (core->director->signer != NULL && newest_root(core->director, &root)) {
        say_keys(core, &root);
    }
    return BASE_OK;
}

enum base_status gw_director_new(const struct gw_core_options *options,
                                 const struct gw_director_sources *sources,
                                 struct gw_director **out_director)
{
    struct gw_director *director = calloc(1, sizeof(*director));
    if (director == NULL) {
        return BASE_ERR_NOMEM;
    }
    director->sources = *sources;
    director->signer = options->signer;
    director->timestamp_life_s =
        options->timestamp_life_s != 0 ? options->timestamp_life_s : GW_TIMESTAMP_LIFE_S;
    director->lease_s = options->lease_s != 0 ? options->lease_s : GW_LEASE_S;
    *out_director = director;
    return BASE_OK;
}

void gw_director_free(struct gw_director *director)
{
    if (director == NULL) {
        return;
    }
    for (uint32_t i = 0; i < director->root_count; i++) {
        free(director->roots[i].data);
    }
    free(director->roots);
    gw_meta_unref(director->meta);
    free(director);
}

// ---- What operators bring

void gw_trust_view(struct gw_core *core, struct gw_trust_view *out)
{
    const struct gw_director *director = core->director;
    struct wire_root root;
    memset(out, 0, sizeof(*out));
    out->evidence_key_count = core->set.evidence_key_count;
    memcpy(out->evidence_keys, core->set.evidence_keys, sizeof(out->evidence_keys));
    out->kill_count = director->kill_count;
    out->kills = director->kills;
    out->enabled = director->signer != NULL;
    if (!out->enabled) {
        return;
    }
    memcpy(out->keys, director->signer->keys, sizeof(out->keys));
    out->root_version = newest_root(director, &root) ? root.version : 0;
    out->root_expires_s = director->root_expires_s;
    out->keys_match = director->keys_match;
    out->timestamp_version = director->timestamp_version;
    out->lease_s = director->lease_s;
}

static enum base_status root_is_there(const struct gw_director *director,
                                      const struct wire_root *root, const uint8_t *bytes,
                                      size_t size)
{
    uint64_t at = root->version - director->root_first;
    if (director->root_count == 0 || root->version < director->root_first ||
        at >= director->root_count) {
        return BASE_ERR_NOT_FOUND;
    }
    const struct gw_meta_bytes *have = &director->roots[at];
    return have->size == size && memcmp(have->data, bytes, size) == 0 ? BASE_OK : BASE_ERR_ROOT;
}

enum base_status gw_trust_root_put(struct gw_core *core, const struct gw_root_put *put,
                                   uint64_t *out_version, bool *out_created,
                                   struct base_error *error)
{
    const uint8_t *bytes = put->bytes;
    size_t size = put->size;
    struct gw_director *director = core->director;
    struct wire_root before;
    struct wire_root root;
    if (director->signer == NULL) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "this gateway has no online keys");
    }
    struct wire_verifier verifier = verifier_of(director->signer);
    enum base_status status = wire_root_open(bytes, size, &verifier, &root);
    if (status == BASE_OK && root_is_there(director, &root, bytes, size) == BASE_OK) {
        *out_version = root.version;
        *out_created = false;
        return BASE_OK;
    }
    if (status == BASE_OK && newest_root(director, &before)) {
        status = wire_root_follow(&before, bytes, size, &verifier, &root);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "root: %s", base_status_text(status));
    }
    if (!put->accept_keys && count_unnamed(&root, director->signer) > 0) {
        return refuse_keys(&root, director->signer, error);
    }
    if (director->root_count >= GW_ROOTS_MAX) {
        return base_error_set(error, BASE_ERR_LIMIT, "root: there are %u, the most there may be",
                              GW_ROOTS_MAX);
    }
    status = gw_director_store_root(core, root.version, bytes, size);
    if (status == BASE_OK) {
        status = root_add(director, &root, bytes, size);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "the root could not be stored: %s",
                              base_status_text(status));
    }
    say_keys(core, &root);
    director->sources.changed(core);
    *out_version = root.version;
    *out_created = true;
    return BASE_OK;
}

enum base_status gw_director_check(const struct gw_core *core, const struct gw_release *release,
                                   struct base_error *error)
{
    const struct gw_director *director = core->director;
    char what[GW_STAGE_NAME_MAX + 16];
    struct wire_root root;
    if (director->signer == NULL || !newest_root(director, &root)) {
        return BASE_OK;
    }
    struct wire_verifier verifier = verifier_of(director->signer);
    for (uint32_t i = 0; i < release->stage_count; i++) {
        (void)snprintf(what, sizeof(what), "stage %s", release->stage_names[i]);
        if (release->statements[i].size > 0) {
            BASE_TRY(wire_release_check(
                &root,
                (struct base_span){release->statements[i].bytes, release->statements[i].size},
                &verifier, what, error));
        }
    }
    return BASE_OK;
}

bool gw_director_root(const struct gw_core *core, struct wire_root *out,
                      struct wire_sha256 *out_digest)
{
    const struct gw_director *director = core->director;
    if (director->signer == NULL || !newest_root(director, out)) {
        return false;
    }
    const struct gw_meta_bytes *last = &director->roots[director->root_count - 1];
    gw_sha256(last->data, last->size, out_digest);
    return true;
}

struct wire_verifier gw_director_verifier(const struct gw_core *core)
{
    return verifier_of(core->director->signer);
}
