// Builds exclusive manifests and trees for the device rig, and answers /v1/exclusive/ as a gateway
// does. Aborts on errors of its own.
#include "exclusive_rig.h"

#include "base/check.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    unsigned int digest_size = 0;
    (void)ctx;
    int rc = EVP_Digest(bytes, size, out->bytes, &digest_size, EVP_sha256(), NULL);
    base_check(rc == 1);
}

static const struct wire_hasher hasher = {.sha256 = hash};

static void make_subject(const struct exclusive_rig *exclusive, struct exclusive_subject *subject,
                         uint32_t version, uint32_t leaf)
{
    static const char *const names[EXCLUSIVE_FILES] = {"own.bin", "own.mpy"};
    struct wire_exclusive_files list = {.file_count = EXCLUSIVE_FILES};
    for (uint32_t i = 0; i < EXCLUSIVE_FILES; i++) {
        const char *name = i == 0 && exclusive->clash != NULL ? exclusive->clash : names[i];
        subject->sizes[i] = 200 + i;
        for (size_t at = 0; at < subject->sizes[i]; at++) {
            subject->files[i][at] = (uint8_t)(at * 7 + version * 31 + leaf * 101 + i * 17);
        }
        hash(NULL, subject->files[i], subject->sizes[i], &subject->digests[i]);
        list.files[i] = (struct wire_manifest_file){
            .kind = i == 0 ? WIRE_FILE_DATA : WIRE_FILE_SCRIPT,
            .name = base_str_of(name),
            .bytes = subject->sizes[i],
            .digest = subject->digests[i],
        };
    }
    enum base_status status =
        wire_exclusive_encode(&list, subject->bytes, sizeof(subject->bytes), &subject->size);
    base_check(status == BASE_OK);
    hash(NULL, subject->bytes, subject->size, &subject->digest);
}

static void version_extra(struct rig *rig, uint32_t index, struct wire_manifest *manifest)
{
    static const char *const subjects[EXCLUSIVE_LEAVES] = {"0000000000000001", "0123456789abcdef",
                                                           "ana"};
    struct exclusive_rig *exclusive = rig->exclusive_rig;
    struct exclusive_version *version = &exclusive->versions[index];
    if (exclusive->exclusive == WIRE_EXCLUSIVE_NONE) {
        return;
    }
    version->made = true;
    for (uint32_t i = 0; i < EXCLUSIVE_LEAVES; i++) {
        struct exclusive_subject *subject = &version->subjects[i];
        make_subject(exclusive, subject, index, i);
        subject->entry = (struct wire_entry){
            .kind = i < EXCLUSIVE_ANA ? WIRE_SUBJECT_DEVICE : WIRE_SUBJECT_USER,
            .subject = base_str_of(subjects[i]),
            .exclusive = subject->digest,
            .bytes = (uint32_t)subject->size,
        };
        wire_entry_leaf(&hasher, &subject->entry, &version->nodes[i]);
    }
    base_check(wire_tree_nodes(EXCLUSIVE_LEAVES) == sizeof(version->nodes) / WIRE_SHA256_BYTES);
    wire_tree_build(&hasher, version->nodes, EXCLUSIVE_LEAVES);
    version->root = version->nodes[5];
    manifest->exclusive = exclusive->exclusive;
    manifest->exclusive_root = version->root;
}

static bool own_content(const struct rig *rig, const struct wire_sha256 *name,
                        const uint8_t **out_bytes, size_t *out_size)
{
    const struct exclusive_rig *exclusive = rig->exclusive_rig;
    for (uint32_t i = 0; i < RIG_VERSIONS_MAX * EXCLUSIVE_LEAVES; i++) {
        const struct exclusive_subject *subject =
            &exclusive->versions[i / EXCLUSIVE_LEAVES].subjects[i % EXCLUSIVE_LEAVES];
        if (wire_sha256_equal(&subject->digest, name)) {
            *out_bytes = subject->bytes;
            *out_size = subject->size;
            return true;
        }
        for (uint32_t k = 0; k < EXCLUSIVE_FILES; k++) {
            if (wire_sha256_equal(&subject->digests[k], name)) {
                *out_bytes = subject->files[k];
                *out_size = subject->sizes[k];
                return true;
            }
        }
    }
    return false;
}

static bool take(int *counter)
{
    if (*counter > 0) {
        (*counter)--;
        return true;
    }
    return false;
}

static void serve_proof(struct rig *rig, struct mem_exchange *exchange,
                        const struct exclusive_version *version)
{
    struct exclusive_rig *exclusive = rig->exclusive_rig;
    uint8_t bytes[WIRE_PROOF_BYTES_MAX + 100] = {0};
    struct wire_proof proof = {.entry = version->subjects[exclusive->leaf].entry,
                               .leaf_count = EXCLUSIVE_LEAVES,
                               .index = exclusive->leaf};
    size_t size = 0;
    uint32_t id = exchange->id;
    proof.path_count = wire_tree_path(version->nodes, EXCLUSIVE_LEAVES, proof.index, proof.path);
    enum base_status status = wire_proof_encode(&proof, bytes, sizeof(bytes), &size);
    base_check(status == BASE_OK);
    if (take(&exclusive->bent_proofs)) {
        bytes[size - 1] ^= 1;
    }
    size = take(&exclusive->long_proofs) ? sizeof(bytes) : size;
    struct dev_response_head head = {.status = 200, .content_bytes = size};
    dev_on_head(rig->runtime, id, &head);
    for (size_t at = 0; at < size && !rig->port.killed; at += 50) { // in pieces
        dev_on_body(rig->runtime, id, bytes + at, size - at < 50 ? size - at : 50);
    }
    if (!rig->port.killed && exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id) {
        mem_exchange_end(&rig->port, rig->runtime, exchange, BASE_OK);
    }
}

static bool is_own(const struct exclusive_rig *exclusive, const struct exclusive_version *version,
                   const struct wire_sha256 *name)
{
    const struct exclusive_subject *subject = &version->subjects[exclusive->leaf];
    bool own = wire_sha256_equal(&subject->digest, name);
    for (uint32_t i = 0; i < EXCLUSIVE_FILES; i++) {
        own = own || wire_sha256_equal(&subject->digests[i], name);
    }
    return own;
}

static void serve(struct rig *rig, struct mem_exchange *exchange)
{
    struct exclusive_rig *exclusive = rig->exclusive_rig;
    const char *path = exchange->path + strlen("/v1/exclusive/");
    struct wire_sha256 root;
    struct wire_sha256 name;
    const struct exclusive_version *version = NULL;
    bool is_content = strlen(path) > WIRE_SHA256_HEX;
    enum base_status status = wire_sha256_parse((struct base_str){path, WIRE_SHA256_HEX}, &root);
    base_check(status == BASE_OK);
    for (uint32_t i = 0; i < RIG_VERSIONS_MAX; i++) {
        if (exclusive->versions[i].made && wire_sha256_equal(&exclusive->versions[i].root, &root)) {
            version = &exclusive->versions[i];
        }
    }
    base_check(version != NULL);
    *(is_content ? &exclusive->contents : &exclusive->proofs) += 1;
    if (!is_content && exclusive->proof_status != 0) {
        rig_answer(rig, exchange, exclusive->proof_status);
    } else if (!is_content) {
        serve_proof(rig, exchange, version);
    } else {
        struct base_str hex = base_str_of(path + WIRE_SHA256_HEX + 1);
        status = wire_sha256_parse(hex, &name);
        base_check(status == BASE_OK);
        bool own = is_own(exclusive, version, &name);
        exclusive->asked_for_more |= !own;
        if (own && !take(&exclusive->lost_files)) {
            rig_serve_content(rig, exchange, hex);
        } else {
            rig_answer(rig, exchange, 404);
        }
    }
}

void exclusive_rig_init(struct exclusive_rig *exclusive, struct rig *rig)
{
    memset(exclusive, 0, sizeof(*exclusive));
    exclusive->exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    exclusive->leaf = EXCLUSIVE_OWN;
    rig->exclusive_rig = exclusive;
    rig->version_extra = version_extra;
    rig->exclusive = serve;
    rig->own_content = own_content;
}
