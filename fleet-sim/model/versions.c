// Table of versions and of the signed permissions seen. Called by every shard (under the lock) and
// by the coordinator. fleet_ports.c numbers a version when a device first speaks of it,
// fleet_statement.c adds the permission a statement gives, and fleet_device.c asks before a run
// whether one allows it. Numbers stay below SIM_VERSIONS_MAX, because the ledger keeps a bit of a
// 64-bit mask for each. When the table is full a new version is SIM_VERSION_NONE.
#include "model/versions.h"

#include "policy/bucket.h"

#include <stdio.h>
#include <string.h>

void sim_versions_init(struct sim_versions *versions)
{
    memset(versions, 0, sizeof(*versions));
    pthread_mutex_init(&versions->lock, NULL);
    versions->count = 1;
}

void sim_versions_done(struct sim_versions *versions)
{
    pthread_mutex_destroy(&versions->lock);
}

static uint8_t intern(struct sim_versions *versions, const struct wire_sha256 *manifest)
{
    if (wire_sha256_is_zero(manifest)) {
        return SIM_VERSION_NONE;
    }
    for (uint32_t i = 1; i < versions->count; i++) {
        if (wire_sha256_equal(&versions->items[i].manifest, manifest)) {
            return (uint8_t)i;
        }
    }
    if (versions->count == SIM_VERSIONS_MAX) {
        return SIM_VERSION_NONE;
    }
    versions->items[versions->count].manifest = *manifest;
    return (uint8_t)versions->count++;
}

uint64_t sim_versions_follow(struct sim_versions *versions, uint64_t task_id)
{
    uint64_t followed = 0;
    return atomic_compare_exchange_strong(&versions->followed, &followed, task_id) ? task_id
                                                                                   : followed;
}

uint8_t sim_versions_intern(struct sim_versions *versions, const struct wire_sha256 *manifest)
{
    pthread_mutex_lock(&versions->lock);
    uint8_t number = intern(versions, manifest);
    pthread_mutex_unlock(&versions->lock);
    return number;
}

static bool is_named(const struct sim_version *version, struct base_str text)
{
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&version->manifest, hex);
    if (text.size >= 4 && base_str_starts((struct base_str){hex, WIRE_SHA256_HEX}, text)) {
        return true;
    }
    return version->label[0] != 0 && base_str_equal(base_str_of(version->label), text);
}

static bool is_of(const struct sim_version *version, uint64_t task_id)
{
    return task_id == 0 || version->task_id == task_id;
}

uint8_t sim_versions_newest(struct sim_versions *versions, uint64_t task_id)
{
    uint8_t found = SIM_VERSION_NONE;
    pthread_mutex_lock(&versions->lock);
    for (uint32_t i = 1; i < versions->count; i++) {
        found = is_of(&versions->items[i], task_id) ? (uint8_t)i : found;
    }
    pthread_mutex_unlock(&versions->lock);
    return found;
}

bool sim_versions_task_name(struct sim_versions *versions, uint64_t task_id,
                            char out[WIRE_TASK_NAME_MAX + 1])
{
    uint8_t number = task_id != 0 ? sim_versions_newest(versions, task_id) : SIM_VERSION_NONE;
    struct sim_version version = sim_versions_get(versions, number);
    memcpy(out, version.task, sizeof(version.task));
    return number != SIM_VERSION_NONE && out[0] != '\0';
}

uint8_t sim_versions_find(struct sim_versions *versions, uint64_t task_id, struct base_str text)
{
    uint8_t found = SIM_VERSION_NONE;
    pthread_mutex_lock(&versions->lock);
    for (uint32_t i = 1; i < versions->count && found == SIM_VERSION_NONE; i++) {
        if (is_of(&versions->items[i], task_id) && is_named(&versions->items[i], text)) {
            found = (uint8_t)i;
        }
    }
    pthread_mutex_unlock(&versions->lock);
    return found;
}

bool sim_versions_mark_bad(struct sim_versions *versions, const struct wire_sha256 *manifest)
{
    pthread_mutex_lock(&versions->lock);
    uint8_t number = intern(versions, manifest);
    if (number != SIM_VERSION_NONE) {
        versions->items[number].bad = true;
    }
    pthread_mutex_unlock(&versions->lock);
    return number != SIM_VERSION_NONE;
}

void sim_versions_describe(struct sim_versions *versions, uint8_t version, struct base_str task,
                           struct base_str label)
{
    if (version == SIM_VERSION_NONE) {
        return;
    }
    pthread_mutex_lock(&versions->lock);
    struct sim_version *item = &versions->items[version];
    if (item->label[0] == 0) {
        (void)snprintf(item->task, sizeof(item->task), "%.*s", (int)task.size, task.data);
        (void)snprintf(item->label, sizeof(item->label), "%.*s", (int)label.size, label.data);
        item->task_id = wire_task_id(task);
    }
    pthread_mutex_unlock(&versions->lock);
}

uint8_t sim_versions_grant(struct sim_versions *versions, const struct wire_release *release,
                           bool beta_only)
{
    pthread_mutex_lock(&versions->lock);
    uint8_t number = intern(versions, &release->manifest);
    struct sim_grant grant = {
        .version = number,
        .beta_only = beta_only,
        .max_bucket = release->max_bucket,
        .salt = release->salt,
        .rollout_id = release->rollout_id,
    };
    bool known = false;
    for (uint32_t i = 0; i < versions->grant_count && !known; i++) {
        const struct sim_grant *have = &versions->grants[i];
        known = have->version == grant.version && (!have->beta_only || beta_only) &&
                have->max_bucket == grant.max_bucket && have->salt == grant.salt &&
                have->rollout_id == grant.rollout_id;
    }
    if (!known && versions->grant_count < SIM_GRANTS_MAX) {
        versions->grants[versions->grant_count++] = grant;
    }
    if (number != SIM_VERSION_NONE && versions->items[number].task[0] == 0) {
        struct sim_version *item = &versions->items[number];
        (void)snprintf(item->task, sizeof(item->task), "%.*s", (int)release->task_name.size,
                       release->task_name.data);
        item->task_id = wire_task_id(release->task_name);
    }
    pthread_mutex_unlock(&versions->lock);
    return number;
}

static bool is_brought(const struct sim_versions *versions, uint64_t rollout_id)
{
    bool found = versions->brought_count > SIM_GRANTS_MAX;
    for (uint32_t i = 0; !found && i < versions->brought_count; i++) {
        found = versions->brought[i] == rollout_id;
    }
    return found;
}

void sim_versions_bring(struct sim_versions *versions, uint64_t rollout_id)
{
    pthread_mutex_lock(&versions->lock);
    if (!is_brought(versions, rollout_id)) {
        if (versions->brought_count < SIM_GRANTS_MAX) {
            versions->brought[versions->brought_count] = rollout_id;
        }
        versions->brought_count++;
    }
    pthread_mutex_unlock(&versions->lock);
}

bool sim_versions_brought(struct sim_versions *versions, uint64_t rollout_id)
{
    pthread_mutex_lock(&versions->lock);
    bool brought = is_brought(versions, rollout_id);
    pthread_mutex_unlock(&versions->lock);
    return brought;
}

bool sim_versions_allowed(struct sim_versions *versions, uint8_t version, uint64_t device_id,
                          bool beta_device)
{
    bool allowed = false;
    pthread_mutex_lock(&versions->lock);
    for (uint32_t i = 0; i < versions->grant_count && !allowed; i++) {
        const struct sim_grant *grant = &versions->grants[i];
        allowed = grant->version == version && (!grant->beta_only || beta_device) &&
                  (grant->max_bucket >= POL_BUCKET_COUNT ||
                   pol_bucket(device_id, grant->salt) < grant->max_bucket);
    }
    pthread_mutex_unlock(&versions->lock);
    return allowed;
}

struct sim_version sim_versions_get(struct sim_versions *versions, uint8_t version)
{
    pthread_mutex_lock(&versions->lock);
    struct sim_version copy = versions->items[version];
    pthread_mutex_unlock(&versions->lock);
    return copy;
}

uint32_t sim_versions_count(struct sim_versions *versions)
{
    pthread_mutex_lock(&versions->lock);
    uint32_t count = versions->count;
    pthread_mutex_unlock(&versions->lock);
    return count;
}

void sim_version_name(const struct sim_version *version, char out[SIM_LABEL_MAX])
{
    if (version->label[0] != 0) {
        (void)snprintf(out, SIM_LABEL_MAX, "%s", version->label);
        return;
    }
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(&version->manifest, hex);
    (void)snprintf(out, SIM_LABEL_MAX, "%.8s", hex);
}
