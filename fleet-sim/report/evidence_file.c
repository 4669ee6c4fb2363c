// Evidence of a simulation: filled from the result of the run, signed, and written as a file.
// Called by fleet_run.c once at the end, on the coordinator's thread, when the stage was asked for
// evidence. The population is hashed again here from its seed, with the same draw the shards made,
// so that whoever reads the evidence can repeat it. What counts is the envelope; the words beside
// it are for people. See evidence_file.h.
#include "report/evidence_file.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/version.h"
#include "signing/signing.h"
#include "device/device.h"
#include "policy/target_text.h"
#include "people/sim_local_file.h"
#include "wire/trust/run_evidence.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// The runtime's texts of a device, one after the other, as the population is hashed.
static void hash_device(const struct dev_crypto_port *crypto, struct dev_hash_state *state,
                        uint64_t id, const struct sim_traits *traits)
{
    uint8_t bytes[8 + WIRE_ATTRS_BYTES_MAX];
    struct wire_attrs attrs;
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_u64(&writer, id);
    sim_traits_wire(traits, &attrs);
    wire_attrs_write(&writer, &attrs);
    crypto->hash_update(crypto->ctx, state, bytes, base_writer_size(&writer));
}

// Who the devices of the run were: how many were drawn, and the hash of all that took part.
static void describe_population(const struct sim_run_result *result, struct wire_evidence *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    const struct sim_options *options = result->options;
    struct sim_population population = sim_options_population(options);
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    for (uint32_t i = 0; i < options->devices; i++) {
        struct sim_traits traits;
        uint64_t index = sim_options_index(options, &population, i);
        bool matches = sim_options_want(options, &population, index);
        sim_population_draw(&population, index, &traits);
        hash_device(crypto, &state, sim_population_device_id(&population, index), &traits);
        out->drawn += (index - i) / SIM_DEVICES_MAX + 1;
        out->matched += matches;
    }
    crypto->hash_end(crypto->ctx, &state, &out->population);
}

static enum base_status describe_root(const struct sim_options *options, struct wire_evidence *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct wire_verifier verifier = dev_crypto_verifier(crypto);
    struct wire_root root;
    if (options->root_bytes == 0) {
        return BASE_OK;
    }
    BASE_TRY(wire_root_open(options->root, options->root_bytes, &verifier, &root));
    out->root_version = root.version;
    return signing_sha256(options->root, options->root_bytes, &out->root);
}

// What most of the devices said that failed so.
static struct base_str said_by(const struct sim_run_result *result, uint32_t outcome)
{
    const struct sim_failure *top =
        sim_failures_top(&result->failures, result->focus, (enum wire_outcome_kind)outcome);
    return base_str_of(top != NULL ? top->detail : "");
}

static void describe_end(const struct sim_run_result *result, struct wire_evidence *out)
{
    out->completed = result->completed;
    out->failed = result->failed;
    out->ended_s = base_clock_wall_us() / 1000000;
    out->began_s = out->ended_s - (uint64_t)result->duration_s;
    for (uint32_t i = 0; i < SIM_OUTCOMES && out->class_count < WIRE_EVIDENCE_CLASSES_MAX; i++) {
        if (result->failed_as[i] > 0 && wire_outcome_is_failure((enum wire_outcome_kind)i)) {
            out->classes[out->class_count++] =
                (struct wire_evidence_class){(uint8_t)i, result->failed_as[i], said_by(result, i)};
        }
    }
    for (uint32_t i = 0; i < SIM_ORACLE_COUNT; i++) {
        const struct sim_oracle_result *oracle = &result->verdict.oracle[i];
        if (oracle->checked) {
            out->oracles[out->oracle_count++] = (struct wire_evidence_oracle){
                base_str_of(sim_oracle_name((enum sim_oracle)i)), oracle->holds};
        }
    }
}

// Signed evidence as bytes.
struct envelope {
    size_t size;
    uint8_t bytes[WIRE_META_BYTES_MAX];
};

static enum base_status sign(const char *key_path, const struct wire_evidence *evidence,
                             struct envelope *out, struct base_error *error)
{
    uint8_t payload[WIRE_META_BYTES_MAX];
    struct signing_keys keys;
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_EVIDENCE, .payload = payload};
    BASE_TRY(signing_keys_load(key_path, &keys, error));
    enum base_status status =
        wire_evidence_encode(evidence, payload, sizeof(payload), &envelope.payload_bytes);
    if (status == BASE_OK) {
        status = signing_envelope(&keys, &envelope, out->bytes, sizeof(out->bytes), &out->size);
    }
    signing_keys_done(&keys);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "the evidence cannot be signed: %s",
                                              base_status_text(status));
}

// ---- The file

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *says(const struct wire_evidence *evidence)
{
    char manifest[WIRE_SHA256_HEX + 1];
    char population[WIRE_SHA256_HEX + 1];
    char seed[24];
    json_t *classes = json_object();
    json_t *oracles = json_object();
    for (uint32_t i = 0; i < evidence->class_count; i++) {
        const struct wire_evidence_class *one = &evidence->classes[i];
        (void)json_object_set_new(classes, wire_outcome_name((enum wire_outcome_kind)one->outcome),
                                  json_pack("{s:o, s:s%}", "devices", number(one->devices),
                                            "detail", one->detail.size > 0 ? one->detail.data : "",
                                            one->detail.size));
    }
    for (uint32_t i = 0; i < evidence->oracle_count; i++) {
        char name[WIRE_EVIDENCE_ORACLE_MAX + 1];
        (void)snprintf(name, sizeof(name), "%.*s", (int)evidence->oracles[i].name.size,
                       evidence->oracles[i].name.data);
        (void)json_object_set_new(oracles, name, json_boolean(evidence->oracles[i].holds));
    }
    wire_sha256_hex(&evidence->manifest, manifest);
    wire_sha256_hex(&evidence->population, population);
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)evidence->seed);
    double coverage =
        evidence->matched > 0 ? (double)evidence->completed / (double)evidence->matched : 0;
    return json_pack(
        "{s:s%, s:s%, s:s, s:o, s:s%, s:s, s:s, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o}",
        "simulator", evidence->simulator.data, evidence->simulator.size, "task",
        evidence->task.data, evidence->task.size, "manifest", manifest, "root",
        number(evidence->root_version), "target",
        evidence->target.size > 0 ? evidence->target.data : "", evidence->target.size, "seed", seed,
        "population", population, "drawn", number(evidence->drawn), "matched",
        number(evidence->matched), "completed", number(evidence->completed), "failed",
        number(evidence->failed), "coverage", coverage, "classes", classes, "oracles", oracles,
        "began_s", number(evidence->began_s), "ended_s", number(evidence->ended_s));
}

static enum base_status write_file(const char *path, const struct wire_evidence *evidence,
                                   const uint8_t *envelope, size_t size, struct base_error *error)
{
    char text[BASE_B64_ENCODED(WIRE_META_BYTES_MAX)];
    json_t *envelope_text = json_stringn(text, base_b64_encode(envelope, size, text));
    json_t *root = json_pack("{s:o, s:o}", "evidence", envelope_text, "says", says(evidence));
    FILE *file = root != NULL ? fopen(path, "wxe") : NULL; // never over another
    if (file == NULL) {
        int why = errno;
        json_decref(root);
        return base_error_set(error, BASE_ERR_IO, "--evidence %.60s: %s", path, strerror(why));
    }
    bool written = json_dumpf(root, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF;
    written = fclose(file) == 0 && written;
    json_decref(root);
    return written ? BASE_OK
                   : base_error_set(error, BASE_ERR_IO, "--evidence %.60s: cannot write", path);
}

enum base_status sim_evidence_write(const struct sim_run_result *result,
                                    const struct wire_manifest *manifest, struct base_error *error)
{
    const struct sim_options *options = result->options;
    struct envelope envelope;
    struct base_buffer bytes;
    struct wire_evidence evidence = {
        .simulator = BASE_STR(BASE_PRODUCT_VERSION),
        .task = manifest->task_name,
        .target = base_str_of(options->target_text),
        .seed = options->seed,
    };
    if (!result->whole) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--evidence: none of a run that did not go to its end");
    }
    BASE_TRY(sim_local_read(options->manifest, WIRE_MANIFEST_BYTES_MAX, &bytes, error));
    enum base_status status = signing_sha256(bytes.data, bytes.size, &evidence.manifest);
    base_buffer_done(&bytes);
    if (status == BASE_OK) {
        status = describe_root(options, &evidence);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "--evidence: %s", base_status_text(status));
    }
    describe_population(result, &evidence);
    describe_end(result, &evidence);
    BASE_TRY(sign(options->evidence_key, &evidence, &envelope, error));
    return write_file(options->evidence, &evidence, envelope.bytes, envelope.size, error);
}
