// What verified signatures let devices run, kept by the simulator beside the devices' own
// judgement: the permissions that the oracle compares every run with, and when a device was offered
// a version. Called from the crypto port of an awake device, on the shard's thread.
#include "run/fleet.h"

#include "base/hash.h"
#include "run/device_story.h"

#include <string.h>

enum base_status sim_roots_begin(struct sim_shard *shard)
{
    const struct sim_options *options = shard->options;
    struct wire_verifier verifier = dev_crypto_verifier(&shard->real_crypto);
    if (options->root_bytes == 0) {
        return BASE_OK;
    }
    BASE_TRY(sim_root_chain_begin(&shard->roots, options->root, options->root_bytes, &verifier));
    shard->born_root = shard->roots.items[0];
    sim_crypto_keep_keys(&shard->crypto, &shard->born_root);
    return BASE_OK;
}

void sim_roots_look(struct sim_shard *shard)
{
    struct wire_verifier verifier = dev_crypto_verifier(&shard->real_crypto);
    const struct sim_blob *blob;
    while (shard->roots.count > 0 &&
           (blob = sim_store_at(shard->store, shard->roots_looked)) != NULL) {
        shard->roots_looked++;
        if (sim_root_chain_add(&shard->roots, blob->bytes, blob->size, &verifier)) {
            sim_crypto_keep_keys(&shard->crypto, &shard->roots.items[shard->roots.count - 1]);
        }
    }
}

// The statement whose signed bytes these are; the first time one is seen it is taken apart. NULL:
// not a release.
static struct sim_statement *statement_of(struct sim_shard *shard, const uint8_t *message,
                                          size_t size, struct wire_release *release)
{
    uint64_t hash = base_hash64(message, size);
    size_t skip = sizeof(WIRE_STATEMENT_DOMAIN) + 1;
    if (wire_release_parse(message + skip, size - skip, release) != BASE_OK) {
        return NULL;
    }
    uint32_t known =
        shard->statement_count < SIM_GRANTS_MAX ? shard->statement_count : SIM_GRANTS_MAX;
    for (uint32_t i = 0; i < known; i++) {
        if (shard->statements[i].hash == hash) {
            return &shard->statements[i];
        }
    }
    uint64_t task_id = wire_task_id(release->task_name);
    if (shard->ledger.task_id == 0) {
        sim_shard_in_order(shard);
        shard->ledger.task_id = sim_versions_follow(shard->versions, task_id);
    }
    struct sim_statement *statement = &shard->statements[shard->statement_count % SIM_GRANTS_MAX];
    shard->statement_count++;
    *statement = (struct sim_statement){.hash = hash, .version = SIM_VERSION_NONE};
    if (task_id == shard->ledger.task_id) {
        statement->version = sim_shard_version(shard, &release->manifest);
    }
    return statement;
}

// One more key signed: may more devices run it now?
static void grant(struct sim_shard *shard, struct sim_statement *statement,
                  const struct wire_release *release, const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    if (statement->reach == SIM_REACH_ALL) {
        return;
    }
    sim_roots_look(shard);
    sim_signers_add(&statement->signers, key);
    enum sim_reach reach = sim_root_chain_reach(&shard->roots, release, &statement->signers);
    if (reach != statement->reach) {
        sim_shard_in_order(shard);
        (void)sim_versions_grant(shard->versions, release, reach == SIM_REACH_BETA);
        statement->reach = (uint8_t)reach;
    }
}

// Did the keys that this device has verified one after the other complete the release for it?
static bool is_offered(struct sim_awake *awake, const struct sim_statement *statement,
                       const struct wire_release *release, const uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    struct sim_shard *shard = awake->shard;
    struct dev_stats stats;
    if (shard->roots.count == 0) {
        return true;
    }
    dev_stats(awake->runtime, &stats);
    const struct wire_root *root = sim_root_chain_find(&shard->roots, stats.root_version);
    uint32_t bit = 0;
    for (uint32_t i = 0; root != NULL && i < root->key_count; i++) {
        bit = memcmp(root->keys[i], key, WIRE_PUBLIC_KEY_BYTES) == 0 ? 1u << i : bit;
    }
    // The same key once more: the statement has come again.
    if (awake->offer_hash != statement->hash || (awake->offer_keys & bit) != 0) {
        awake->offer_hash = statement->hash;
        awake->offer_keys = 0;
    }
    awake->offer_keys |= bit;
    struct sim_signers signers = {.count = 0};
    for (uint32_t i = 0; root != NULL && i < root->key_count; i++) {
        if ((awake->offer_keys >> i & 1u) != 0) {
            sim_signers_add(&signers, root->keys[i]);
        }
    }
    enum sim_reach reach = bit != 0 ? sim_root_reach(root, release, &signers) : SIM_REACH_NOBODY;
    return reach == SIM_REACH_ALL || (reach == SIM_REACH_BETA && sim_traits_beta(&awake->traits));
}

void sim_statement_verified(struct sim_awake *awake, const uint8_t key[WIRE_PUBLIC_KEY_BYTES],
                            const uint8_t *message, size_t size)
{
    struct sim_shard *shard = awake->shard;
    struct wire_release release;
    if (sim_message_type(message, size) != WIRE_ENVELOPE_TYPE_RELEASE) {
        return;
    }
    struct sim_statement *statement = statement_of(shard, message, size, &release);
    if (statement == NULL) {
        return;
    }
    grant(shard, statement, &release, key);
    if (is_offered(awake, statement, &release, key)) {
        const struct sim_ledger_entry *entry = &shard->ledger.entries[awake->device];
        if (!statement->brought && statement->version != SIM_VERSION_NONE &&
            entry->active != statement->version) {
            statement->brought = true;
            sim_shard_in_order(shard);
            sim_versions_bring(shard->versions, release.rollout_id);
        }
        uint64_t now_us = sim_shard_now(shard);
        sim_story_offered(awake, &release);
        sim_ledger_offered(&shard->ledger, awake->device, statement->version,
                           sim_shard_ms(shard, now_us));
    }
}
