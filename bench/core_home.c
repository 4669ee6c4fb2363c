// The core of core_home.h.
#include "core_home.h"

#include "svc/content/blob.h"
#include "svc/access/operators.h"
#include "svc/rollout/rollouts.h"
#include "wire/manifest.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WALL_AHEAD_US UINT64_C(1700000000000000)
#define MAP_BYTES_MAX (UINT64_C(4) << 30)
#define FOREVER_S     UINT64_C(9999999999)
#define STRANGERS_MAX 1000000u // a whole fleet, from one address

static void need(bool ok, const char *what, const char *more)
{
    if (!ok) {
        (void)fprintf(stderr, "core_home: %s: %s\n", what, more);
        exit(1);
    }
}

static uint64_t steady_us(void *ctx)
{
    return ((struct core_home *)ctx)->now_us;
}

static uint64_t wall_us(void *ctx)
{
    return ((struct core_home *)ctx)->now_us + WALL_AHEAD_US;
}

static void post(void *ctx, struct gw_message *message)
{
    struct core_home *home = ctx;
    message->next = NULL;
    *home->last = message;
    home->last = &message->next;
}

static void pump(struct core_home *home)
{
    struct gw_message *message = home->first;
    home->first = NULL;
    home->last = &home->first;
    while (message != NULL) {
        struct gw_message *next = message->next;
        message->run(message);
        message = next;
    }
}

void core_home_write(struct core_home *home)
{
    while (gw_core_write(home->core)) {
        pump(home);
    }
}

void core_home_tick(struct core_home *home)
{
    pump(home);
    (void)gw_core_tick(home->core);
    pump(home);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    return remove(path);
}

void core_home_open(struct core_home *home, const char *folder, uint32_t checkin_interval_s)
{
    struct base_error error = {0};
    memset(home, 0, sizeof(*home));
    (void)snprintf(home->dir, sizeof(home->dir), "%.100s/core-XXXXXX", folder);
    need(mkdtemp(home->dir) != NULL, "cannot make a folder", home->dir);
    home->now_us = 5000000;
    home->last = &home->first;
    base_prng_seed(&home->prng, 0x90a7);
    const struct gw_core_options options = {
        .dir = home->dir,
        .map_bytes_max = MAP_BYTES_MAX,
        .checkin_interval_s = checkin_interval_s,
        .control_thread = false,
        .no_writer_thread = true,
        .unproven_per_address = STRANGERS_MAX,
        .clock = {home, steady_us, wall_us},
        .random = base_prng_port(&home->prng),
    };
    need(gw_core_new(&options, &home->core, &error) == BASE_OK, "no core", error.text);
    need(gw_worker_new(home->core, home, post, &home->worker) == BASE_OK, "no worker", home->dir);
    core_home_tick(home);
}

void core_home_close(struct core_home *home)
{
    pump(home);
    gw_worker_free(home->worker);
    pump(home);
    gw_core_free(home->core);
    need(nftw(home->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, "cannot remove", home->dir);
}

// ---- Operators

static void put_blob(struct core_home *home, const void *bytes, size_t size,
                     struct wire_sha256 *out)
{
    bool created;
    struct base_error error = {0};
    gw_sha256(bytes, size, out);
    need(gw_blob_put(home->core, &(struct gw_store_item){*out, bytes, size}, &created, &error) ==
             BASE_OK,
         "blob", error.text);
}

void core_home_version(struct core_home *home, const char *version, struct wire_sha256 *out)
{
    static struct wire_manifest manifest;
    static uint8_t bytes[4096];
    char script[64];
    struct gw_version_view view;
    struct wire_sha256 digest;
    struct base_error error = {0};
    bool created;
    size_t size = 0;
    need(gw_catalog_task_create(home->core, GW_TENANT_DEFAULT, BASE_STR(CORE_HOME_TASK), &created,
                                &error) == BASE_OK,
         "task", error.text);
    int written = snprintf(script, sizeof(script), "script of %s", version);
    put_blob(home, script, (size_t)written, &digest);
    manifest = (struct wire_manifest){.task_name = BASE_STR(CORE_HOME_TASK),
                                      .version = base_str_of(version),
                                      .runtime_abi = WIRE_RUNTIME_ABI,
                                      .entry = BASE_STR("run"),
                                      .file_count = 1};
    manifest.files[0] = (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR("run.mpy"),
                                                    (uint64_t)written, digest};
    need(wire_manifest_encode(&manifest, bytes, sizeof(bytes), &size) == BASE_OK, "manifest",
         version);
    put_blob(home, bytes, size, out);
    struct gw_version_new wish = {.task = BASE_STR(CORE_HOME_TASK), .manifest = *out};
    need(gw_catalog_version_add(home->core, &wish, &view, &created, &error) == BASE_OK, "version",
         error.text);
}

static size_t make_statement(uint8_t *out, const struct wire_release *release)
{
    uint8_t payload[512];
    size_t size = 0;
    size_t written = 0;
    need(wire_release_encode(release, payload, sizeof(payload), &size) == BASE_OK, "statement",
         CORE_HOME_TASK);
    struct wire_envelope envelope = {.type = WIRE_ENVELOPE_TYPE_RELEASE,
                                     .payload = payload,
                                     .payload_bytes = size,
                                     .signature_count = 1}; // no root is served: nobody looks
    need(wire_envelope_encode(&envelope, out, WIRE_STATEMENT_BYTES_MAX, &written) == BASE_OK,
         "envelope", CORE_HOME_TASK);
    return written;
}

void core_home_rollout(struct core_home *home, uint64_t id, const struct wire_sha256 *manifest,
                       const struct pol_stage *stages, uint32_t stage_count)
{
    static uint8_t statements[POL_STAGES_MAX][WIRE_STATEMENT_BYTES_MAX];
    struct gw_stage_spec specs[POL_STAGES_MAX];
    struct gw_task_view task;
    struct gw_version_view version;
    struct gw_rollout_view *view = malloc(sizeof(*view));
    struct base_error error = {0};
    const struct gw_rollout_who who = {.by = BASE_STR("bench")};
    need(view != NULL &&
             gw_catalog_task_get(home->core, BASE_STR(CORE_HOME_TASK), &task) == BASE_OK,
         "task", CORE_HOME_TASK);
    need(gw_catalog_version_get(home->core, BASE_STR(CORE_HOME_TASK), manifest, &version) ==
             BASE_OK,
         "version", CORE_HOME_TASK);
    memset(specs, 0, sizeof(specs));
    for (uint32_t i = 0; i < stage_count; i++) {
        const struct wire_release release = {.task_name = BASE_STR(CORE_HOME_TASK),
                                             .release_counter = task.release_counter + 1,
                                             .manifest = *manifest,
                                             .manifest_bytes = version.manifest_bytes,
                                             .rollout_id = id,
                                             .salt = base_mix64(id),
                                             .issued_s = 1,
                                             .expires_s = FOREVER_S,
                                             .max_bucket = stages[i].max_bucket,
                                             .stage_kind = (uint8_t)stages[i].kind};
        specs[i] =
            (struct gw_stage_spec){.name = BASE_STR("stage"),
                                   .stage = stages[i],
                                   .statement = statements[i],
                                   .statement_bytes = make_statement(statements[i], &release)};
    }
    const struct gw_rollout_spec spec = {.id = id,
                                         .task = BASE_STR(CORE_HOME_TASK),
                                         .manifest = *manifest,
                                         .salt = base_mix64(id),
                                         .release_counter = task.release_counter + 1,
                                         .stages = specs,
                                         .stage_count = stage_count,
                                         .trust_unproven = true,
                                         .accept_empty = true,
                                         .accept_cost = true};
    need(gw_rollout_create(home->core, &spec, &who, view, &error) == BASE_OK, "rollout",
         error.text);
    free(view);
    core_home_command(home, id, POL_COMMAND_START);
}

void core_home_command(struct core_home *home, uint64_t id, enum pol_command command)
{
    struct base_error error = {0};
    need(gw_rollout_command(home->core, id, command, NULL, &error) == BASE_OK,
         pol_command_name(command), error.text);
    core_home_tick(home);
}
