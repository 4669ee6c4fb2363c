// What the tests of the director share: a gateway with online keys, and what anybody may fetch from
// it.
#ifndef DIRECTOR_KIT_H
#define DIRECTOR_KIT_H

#include "core_rig.h"
#include "test_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/secret/online_keys.h"
#include "signing/signing.h"
#include "svc/trust/director.h"
#include "svc/rollout/kill_commands.h"

#define TASK   "shop/score"
#define DEVICE 0x77u

static struct rig rig;
static struct gw_online_keys *keys;
static struct signing_keys owners; // of the root

static const struct rig_stage ladder[] = {
    {.name = "gray",
     .kind = POL_STAGE_GRAY,
     .max_bucket = 9999,
     .min_sample = 1000,
     .max_failure_ppm = 500000},
    {.name = "full",
     .kind = POL_STAGE_FULL,
     .max_bucket = 10000,
     .min_sample = 1,
     .max_failure_ppm = 500000},
};

static inline int setup(void **state)
{
    (void)state;
    struct base_error error = {0};
    rig_init(&rig);
    assert_int_equal(gw_online_keys_open(rig.dir, &keys, &error), BASE_OK);
    rig.signer = gw_online_keys_port(keys);
    owners.count = 2;
    assert_int_equal(signing_key_new(&owners.keys[0]), BASE_OK);
    assert_int_equal(signing_key_new(&owners.keys[1]), BASE_OK);
    rig_start(&rig);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    gw_online_keys_free(keys);
    signing_keys_done(&owners);
    return 0;
}

static inline void restart(void)
{
    rig_stop(&rig);
    rig_start(&rig);
}

// ---- What anybody may fetch

static inline int fetch(const char *path, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, GW_METHOD_GET, path);
    rig_run(&rig, &exchange);
    const struct gw_reply *reply = &exchange.exchange.reply;
    int status = reply->status;
    *out_size = 0;
    while (status == 200 && *out_size < reply->blob_bytes) {
        size_t size = 0;
        const uint8_t *bytes = gw_blob_bytes(reply->blob, *out_size, &size);
        assert_true(size > 0 && *out_size + size <= capacity);
        memcpy(out + *out_size, bytes, size);
        *out_size += size;
    }
    rig_exchange_done(&exchange);
    return status;
}

// Signed by the gateway's key for the role?
static inline void expect_signed(const struct wire_envelope *envelope, enum gw_online_role role)
{
    struct wire_verifier verifier = signing_verifier();
    struct wire_root root = {.key_count = 1};
    struct wire_role one = {1, 1};
    memcpy(root.keys[0], rig.signer->keys[role], WIRE_PUBLIC_KEY_BYTES);
    assert_int_equal(wire_root_verify(&root, &one, 1, envelope, &verifier), BASE_OK);
}

static inline void fetch_timestamp(struct wire_timestamp *out)
{
    static uint8_t bytes[WIRE_META_BYTES_MAX];
    struct wire_envelope envelope;
    size_t size = 0;
    assert_int_equal(fetch("/v1/meta/timestamp", bytes, sizeof(bytes), &size), 200);
    assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
    expect_signed(&envelope, GW_ONLINE_TIMESTAMP);
    assert_int_equal(wire_timestamp_parse(envelope.payload, envelope.payload_bytes, out), BASE_OK);
}

// The snapshot of "shop", as the timestamp names it.
static inline void fetch_snapshot(struct wire_snapshot *out)
{
    static uint8_t bytes[WIRE_META_BYTES_MAX];
    struct wire_timestamp timestamp;
    struct wire_envelope envelope;
    struct wire_sha256 digest;
    size_t size = 0;
    fetch_timestamp(&timestamp);
    const struct wire_timestamp_scenario *named =
        wire_timestamp_scenario(&timestamp, BASE_STR("shop"));
    assert_non_null(named);
    assert_int_equal(fetch("/v1/meta/snapshot/shop", bytes, sizeof(bytes), &size), 200);
    gw_sha256(bytes, size, &digest);
    assert_true(wire_sha256_equal(&digest, &named->digest));
    assert_true(size == named->bytes);
    assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
    expect_signed(&envelope, GW_ONLINE_SNAPSHOT);
    assert_int_equal(wire_snapshot_parse(envelope.payload, envelope.payload_bytes, out), BASE_OK);
    assert_true(out->version == named->version);
}

static inline bool listed(uint64_t counter, const struct wire_sha256 *manifest)
{
    struct wire_snapshot snapshot;
    struct wire_snapshot_entry entry = {wire_task_id(BASE_STR(TASK)), counter, *manifest};
    uint64_t highest = 0;
    fetch_snapshot(&snapshot);
    return wire_snapshot_lists(&snapshot, &entry, &highest);
}

static inline void start_rollout(uint64_t id, const struct wire_sha256 *manifest)
{
    struct gw_rollout_view view;
    struct base_error error = {0};
    assert_int_equal(rig_rollout(&rig, id, TASK, manifest, NULL, NULL, ladder, 2, &view, &error),
                     BASE_OK);
    rig_command(&rig, id, POL_COMMAND_START, &view);
    rig_settle(&rig);
}

static inline void kill_one(const struct wire_sha256 *manifest)
{
    struct base_error error = {0};
    bool created = false;
    enum base_status status =
        gw_trust_kill(rig.core, &(struct gw_kill_order){manifest, BASE_STR("ana"), BASE_STR("x")},
                      &created, &error);
    if (status != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_true(created);
}

#endif
