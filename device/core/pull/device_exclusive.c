// Exclusive files: what a version holds for this device, or for its user, alone. The manifest names
// the root of a hash tree; the gateway is asked for the leaf of this device, which must lead to
// that root, and so do the hashes of all that is brought for it. Called by the pull.
//
// A leaf of kind USER is taken as it comes: who the user is, only the gateway knows. It can give
// nothing that was not signed.
#include "core/pull/pull_parts.h"

#include "base/check.h"

#include <string.h>

void dev_proof_ask(struct dev_runtime *runtime, const struct wire_manifest *manifest)
{
    struct dev_pull *pull = runtime->pull;
    memset(&pull->delta.dictionary, 0, sizeof(pull->delta.dictionary));
    pull->required = manifest->exclusive == WIRE_EXCLUSIVE_REQUIRED;
    pull->blob = manifest->exclusive_root;
    pull->kind = DEV_PULL_PROOF;
    pull->expected = WIRE_PROOF_BYTES_MAX;
    pull->have = 0;
    pull->hashed = 0;
    pull->proof_bytes = 0;
    pull->phase = DEV_PULL_ASK;
}

void dev_proof_body(struct dev_runtime *runtime, const uint8_t *bytes, size_t size)
{
    struct dev_pull *pull = runtime->pull;
    base_check(pull->proof_bytes <= sizeof(pull->proof));
    if (size > sizeof(pull->proof) - pull->proof_bytes) {
        pull->refused = true;
        return;
    }
    memcpy(pull->proof + pull->proof_bytes, bytes, size);
    pull->proof_bytes += (uint32_t)size;
}

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    const struct dev_crypto_port *crypto = ctx;
    struct dev_hash_state state;
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, out);
}

enum base_status dev_proof_take(struct dev_runtime *runtime)
{
    struct dev_pull *pull = runtime->pull;
    struct dev_task *task = &runtime->tasks[pull->task];
    base_assert(pull->kind == DEV_PULL_PROOF);
    base_assert(pull->copy == DEV_COPY_ACCEPTED);
    struct wire_proof proof;
    struct wire_hasher hasher = {.ctx = (void *)(uintptr_t)&runtime->ports->crypto, .sha256 = hash};
    struct base_str own = {runtime->settings.device_hex, WIRE_DEVICE_HEX};
    BASE_TRY(wire_proof_parse(pull->proof, pull->proof_bytes, &proof));
    if (proof.entry.kind == WIRE_SUBJECT_DEVICE && !base_str_equal(proof.entry.subject, own)) {
        return BASE_ERR_TARGET;
    }
    BASE_TRY(wire_proof_verify(&proof, &hasher, &pull->root));
    task->incoming.asked = true;
    task->incoming.exclusive = proof.entry.exclusive;
    task->incoming.exclusive_bytes = proof.entry.bytes;
    runtime->dirty = true;
    return BASE_OK;
}

void dev_proof_none(struct dev_runtime *runtime)
{
    struct dev_task *task = &runtime->tasks[runtime->pull->task];
    task->incoming.asked = true;
    runtime->dirty = true;
}

void dev_proof_clear(struct dev_task *task)
{
    task->incoming.asked = false;
    memset(&task->incoming.exclusive, 0, sizeof(task->incoming.exclusive));
    task->incoming.exclusive_bytes = 0;
}

void dev_proof_forget(struct dev_runtime *runtime)
{
    dev_proof_clear(&runtime->tasks[runtime->pull->task]);
    dev_garbage_made(runtime);
}
