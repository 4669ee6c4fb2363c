// walle-gateway-fill: makes a data directory for the gateway's benchmarks with the core's own
// functions: tasks with open rollouts, each for one region, and one rollout for everybody that is
// not started yet. Writes the walle-profile values of devices that have all they should have, and,
// when asked, of the same devices before they had the last of it.
// Devices themselves come in through check-ins (walle-load).
#include "base/alloc.h"
#include "base/clock.h"
#include "wire/attrs.h"
#include "wire/manifest.h"
#include "wire/profile.h"
#include "svc/content/blob.h"
#include "svc/control.h"
#include "svc/rollout/rollouts.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGIONS       10u
#define CLASSES       400u // profiles written: region x os version x model x network
#define TASKS_MAX     2000u
#define FULL_BUCKET   10000
#define NEVER_SAMPLE  0xffffffffu // a gate that waits: the rollouts stay open
#define EXPIRES_S     UINT64_C(9999999999)
#define HINT_ROLLOUT  UINT64_C(0xbe7c)
#define MANIFEST_ROOM 1024
#define PROFILE_ROOM  4096

struct fill {
    struct gw_core *core;
    uint64_t digests[REGIONS]; // what a device of the region should have
    uint32_t counts[REGIONS];
    struct wire_profile_pair pairs[REGIONS][WIRE_PROFILE_TASKS_MAX];
};

static bool failed(const char *what, enum base_status status, const struct base_error *error)
{
    if (status != BASE_OK) {
        fprintf(stderr, "%s: %s %s\n", what, base_status_text(status), error->text);
    }
    return status != BASE_OK;
}

static struct wire_sha256 hash(const uint8_t *bytes, size_t size)
{
    struct wire_sha256 digest;
    (void)SHA256(bytes, size, digest.bytes);
    return digest;
}

// A version of one small script.
static enum base_status make_version(struct fill *fill, const char *task,
                                     struct gw_version_view *out, struct base_error *error)
{
    bool created = false;
    uint8_t bytes[MANIFEST_ROOM];
    size_t size = 0;
    struct wire_sha256 script = hash((const uint8_t *)task, strlen(task));
    struct wire_manifest *manifest = calloc(1, sizeof(*manifest));
    if (manifest == NULL) {
        return BASE_ERR_NOMEM;
    }
    manifest->task_name = base_str_of(task);
    manifest->version = BASE_STR("1.0.0");
    manifest->runtime_abi = WIRE_RUNTIME_ABI;
    manifest->entry = BASE_STR("main");
    manifest->file_count = 1;
    manifest->files[0] =
        (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("main.mpy"), strlen(task), script};
    enum base_status status = wire_manifest_encode(manifest, bytes, sizeof(bytes), &size);
    free(manifest);
    BASE_TRY(status);
    struct wire_sha256 digest = hash(bytes, size);
    BASE_TRY(gw_catalog_task_create(fill->core, 0, base_str_of(task), &created, error));
    BASE_TRY(gw_blob_put(fill->core,
                         &(struct gw_store_item){script, (const uint8_t *)task, strlen(task)},
                         &created, error));
    BASE_TRY(
        gw_blob_put(fill->core, &(struct gw_store_item){digest, bytes, size}, &created, error));
    struct gw_version_new wish = {.task = base_str_of(task), .manifest = digest};
    return gw_catalog_version_add(fill->core, &wish, out, &created, error);
}

// The envelope of a statement; nobody verifies its signature here.
static enum base_status make_statement(const struct wire_release *release, uint8_t *out,
                                       size_t *out_size)
{
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    BASE_TRY(wire_release_encode(release, payload, sizeof(payload), &size));
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE,
                                     .payload = payload,
                                     .payload_bytes = size,
                                     .signature_count = 1};
    envelope.signatures[0].key_id[0] = 1;
    return wire_envelope_encode(&envelope, out, WIRE_STATEMENT_BYTES_MAX, out_size);
}

// A rollout in one full stage; `region` NULL: for everybody, and not started.
static enum base_status make_rollout(struct fill *fill, uint64_t id, const char *task,
                                     const char *region, struct base_error *error)
{
    struct gw_version_view version;
    static struct gw_rollout_view view;
    uint8_t install[WIRE_STATEMENT_BYTES_MAX];
    BASE_TRY(make_version(fill, task, &version, error));
    struct wire_release release = {.task_name = base_str_of(task),
                                   .release_counter = 1,
                                   .manifest = version.manifest,
                                   .manifest_bytes = version.manifest_bytes,
                                   .rollout_id = id,
                                   .salt = id,
                                   .max_bucket = FULL_BUCKET,
                                   .stage_kind = POL_STAGE_FULL,
                                   .issued_s = 1,
                                   .expires_s = EXPIRES_S};
    struct gw_stage_spec stage = {.name = BASE_STR("full"), .statement = install};
    stage.stage.kind = POL_STAGE_FULL;
    stage.stage.max_bucket = FULL_BUCKET;
    stage.stage.gate = (struct pol_gate){.min_sample = NEVER_SAMPLE, .max_failure_ppm = 1000000};
    BASE_TRY(make_statement(&release, install, &stage.statement_bytes));
    struct gw_rollout_spec spec = {.id = id,
                                   .task = base_str_of(task),
                                   .manifest = version.manifest,
                                   .salt = id,
                                   .release_counter = 1,
                                   .stages = &stage,
                                   .stage_count = 1,
                                   .accept_empty = true};
    struct pol_value value = {.type = POL_TYPE_STRING};
    struct pol_cond cond = {{"region", 6}, POL_OP_EQ, &value, 1};
    if (region != NULL) {
        value.text = (struct pol_text){region, (uint32_t)strlen(region)};
        spec.target = (struct pol_target){.conds = &cond, .cond_count = 1};
    }
    const struct gw_rollout_who who = {.by = BASE_STR("bench"), .comment = BASE_STR("fill")};
    BASE_TRY(gw_rollout_create(fill->core, &spec, &who, &view, error));
    if (region == NULL) {
        return BASE_OK;
    }
    uint32_t number = (uint32_t)(region[1] - '0'); // "r0" to "r9"
    struct wire_profile_pair *pair = &fill->pairs[number][fill->counts[number]++];
    *pair = (struct wire_profile_pair){.task_id = wire_task_id(base_str_of(task)),
                                       .version_id = wire_version_id(&version.manifest),
                                       .floor = 1,
                                       .approved = 1};
    fill->digests[number] += wire_profile_term(pair->task_id, pair->version_id, 0);
    return gw_rollout_command(fill->core, id, POL_COMMAND_START, &who, error);
}

// What devices of the region have: all of it, and as a digest, as in a check-in without news; or
// all but one task, with the pairs that a gateway with news asks for.
static struct wire_profile profile_of(const struct fill *fill, uint32_t region, bool lacking)
{
    struct wire_profile profile = {.task_count = fill->counts[region],
                                   .digest = fill->digests[region]};
    if (lacking) {
        const struct wire_profile_pair *last = &fill->pairs[region][--profile.task_count];
        profile.digest -= wire_profile_term(last->task_id, last->version_id, 0);
    }
    return profile;
}

// Profile of one class of devices, in base64url.
static enum base_status print_profile(const struct fill *fill, uint32_t class, bool lacking,
                                      FILE *file)
{
    static const char *const networks[] = {"wifi", "4g", "5g", "3g", "wired"};
    char region[8];
    char version[16];
    char model[16];
    (void)snprintf(region, sizeof(region), "r%u", class % REGIONS);
    (void)snprintf(version, sizeof(version), "13.%u.0", class / REGIONS % 8);
    (void)snprintf(model, sizeof(model), "phone-%u", class % 40);
    struct wire_attrs attrs = {.count = 6};
    const char *const texts[][2] = {
        {"app_version", "10.2.3"},        {"model", model},
        {"network", networks[class % 5]}, {"os", class % 3 == 0 ? "ios" : "android"},
        {"os_version", version},          {"region", region}};
    for (uint32_t i = 0; i < attrs.count; i++) {
        attrs.items[i] = (struct wire_attr){.name = base_str_of(texts[i][0]),
                                            .type = WIRE_ATTR_STRING,
                                            .text = base_str_of(texts[i][1])};
    }
    uint8_t attr_bytes[WIRE_ATTRS_BYTES_MAX];
    struct base_writer writer;
    base_writer_init(&writer, attr_bytes, sizeof(attr_bytes));
    wire_attrs_write(&writer, &attrs);
    BASE_TRY(writer.status);
    struct wire_profile profile = profile_of(fill, class % REGIONS, lacking);
    profile.attrs = attr_bytes;
    profile.attrs_bytes = base_writer_size(&writer);
    uint8_t bytes[WIRE_ATTRS_BYTES_MAX + PROFILE_ROOM];
    char text[BASE_B64_ENCODED(sizeof(bytes)) + 1];
    size_t size = 0;
    const struct wire_profile_pair *pairs = lacking ? fill->pairs[class % REGIONS] : NULL;
    BASE_TRY(wire_profile_encode(&profile, pairs, bytes, sizeof(bytes), &size));
    text[base_b64_encode(bytes, size, text)] = '\0';
    return fprintf(file, "%s\n", text) > 0 ? BASE_OK : BASE_ERR_IO;
}

static enum base_status print_profiles(const struct fill *fill, const char *path, bool lacking)
{
    FILE *file = fopen(path, "we");
    enum base_status status = file != NULL ? BASE_OK : BASE_ERR_IO;
    for (uint32_t i = 0; status == BASE_OK && i < CLASSES; i++) {
        status = print_profile(fill, i, lacking, file);
    }
    if (file != NULL && fclose(file) != 0) {
        status = BASE_ERR_IO;
    }
    return status;
}

static enum base_status fill_tasks(struct fill *fill, uint64_t tasks, struct base_error *error)
{
    for (uint32_t i = 0; i < tasks; i++) {
        char task[32];
        char region[8];
        (void)snprintf(task, sizeof(task), "bench-%u", i);
        (void)snprintf(region, sizeof(region), "r%u", i % REGIONS);
        BASE_TRY(make_rollout(fill, 1 + i, task, region, error));
    }
    return make_rollout(fill, HINT_ROLLOUT, "bench-hint", NULL, error);
}

int main(int argc, char **argv)
{
    struct base_error error = {0};
    static struct fill fill;
    uint64_t tasks = 0;
    if (argc < 4 || argc > 5 || base_str_u64(base_str_of(argv[2]), &tasks) != BASE_OK ||
        tasks > TASKS_MAX) {
        fprintf(stderr, "usage: walle-gateway-fill DIR TASKS PROFILES_FILE [LACKING_FILE]\n");
        return EXIT_FAILURE;
    }
    const struct gw_core_options options = {.dir = argv[1], .clock = *base_clock_real()};
    if (failed(argv[1], gw_core_new(&options, &fill.core, &error), &error)) {
        return EXIT_FAILURE;
    }
    bool ok = !failed("fill", fill_tasks(&fill, tasks, &error), &error);
    gw_core_free(fill.core);
    for (int i = 3; ok && i < argc; i++) {
        ok = !failed(argv[i], print_profiles(&fill, argv[i], i > 3), &error);
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
