// Builds personal manifests and trees for the device rig, and answers /v1/exclusive/ as a gateway
// does. Aborts on errors of its own.
#include "personal_rig.h"

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

static void make_subject(const struct personal_rig *personal, struct personal_subject *subject,
                         uint32_t version, uint32_t leaf)
{
    static const char *const names[PERSONAL_FILES] = {"own.bin", "own.mpy"};
    struct wire_personal list = {.file_count = PERSONAL_FILES};
    for (uint32_t i = 0; i < PERSONAL_FILES; i++) {
        const char *name = i == 0 && personal->clash != NULL ? personal->clash : names[i];
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
        wire_personal_encode(&list, subject->bytes, sizeof(subject->bytes), &subject->size);
    base_check(status == BASE_OK);
    hash(NULL, subject->bytes, subject->size, &subject->digest);
}

static void version_extra(struct rig *rig, uint32_t index, struct wire_manifest *manifest)
{
    static const char *const subjects[PERSONAL_LEAVES] = {"0000000000000001", "0123456789abcdef",
                                                          "ana"};
    struct personal_rig *personal = rig->personal;
    struct personal_version *version = &personal->versions[index];
    if (personal->exclusive == WIRE_EXCLUSIVE_NONE) {
        return;
    }
    version->made = true;
    for (uint32_t i = 0; i < PERSONAL_LEAVES; i++) {
        struct personal_subject *subject = &version->subjects[i];
        make_subject(personal, subject, index, i);
        subject->entry = (struct wire_entry){
            .kind = i < PERSONAL_ANA ? WIRE_SUBJECT_DEVICE : WIRE_SUBJECT_USER,
            .subject = base_str_of(subjects[i]),
            .personal = subject->digest,
            .bytes = (uint32_t)subject->size,
        };
        wire_entry_leaf(&hasher, &subject->entry, &version->nodes[i]);
    }
    base_check(wire_tree_nodes(PERSONAL_LEAVES) == sizeof(version->nodes) / WIRE_SHA256_BYTES);
    wire_tree_build(&hasher, version->nodes, PERSONAL_LEAVES);
    version->root = version->nodes[5];
    manifest->exclusive = personal->exclusive;
    manifest->exclusive_root = version->root;
}

static bool own_content(const struct rig *rig, const struct wire_sha256 *name,
                        const uint8_t **out_bytes, size_t *out_size)
{
    const struct personal_rig *personal = rig->personal;
    for (uint32_t i = 0; i < RIG_VERSIONS_MAX * PERSONAL_LEAVES; i++) {
        const struct personal_subject *subject =
            &personal->versions[i / PERSONAL_LEAVES].subjects[i % PERSONAL_LEAVES];
        if (wire_sha256_equal(&subject->digest, name)) {
            *out_bytes = subject->bytes;
            *out_size = subject->size;
            return true;
        }
        for (uint32_t k = 0; k < PERSONAL_FILES; k++) {
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
                        const struct personal_version *version)
{
    struct personal_rig *personal = rig->personal;
    uint8_t bytes[WIRE_PROOF_BYTES_MAX + 100] = {0};
    struct wire_proof proof = {.entry = version->subjects[personal->leaf].entry,
                               .leaf_count = PERSONAL_LEAVES,
                               .index = personal->leaf};
    size_t size = 0;
    uint32_t id = exchange->id;
    proof.path_count = wire_tree_path(version->nodes, PERSONAL_LEAVES, proof.index, proof.path);
    enum base_status status = wire_proof_encode(&proof, bytes, sizeof(bytes), &size);
    base_check(status == BASE_OK);
    if (take(&personal->bent_proofs)) {
        bytes[size - 1] ^= 1;
    }
    size = take(&personal->long_proofs) ? sizeof(bytes) : size;
    struct dev_response_head head = {.status = 200, .content_bytes = size};
    dev_on_head(rig->runtime, id, &head);
    for (size_t at = 0; at < size && !rig->port.killed; at += 50) { // in pieces
        dev_on_body(rig->runtime, id, bytes + at, size - at < 50 ? size - at : 50);
    }
    if (!rig->port.killed && exchange->state == MEM_EXCHANGE_OPEN && exchange->id == id) {
        mem_exchange_end(&rig->port, rig->runtime, exchange, BASE_OK);
    }
}

static bool is_own(const struct personal_rig *personal, const struct personal_version *version,
                   const struct wire_sha256 *name)
{
    const struct personal_subject *subject = &version->subjects[personal->leaf];
    bool own = wire_sha256_equal(&subject->digest, name);
    for (uint32_t i = 0; i < PERSONAL_FILES; i++) {
        own = own || wire_sha256_equal(&subject->digests[i], name);
    }
    return own;
}

static void serve(struct rig *rig, struct mem_exchange *exchange)
{
    struct personal_rig *personal = rig->personal;
    const char *path = exchange->path + strlen("/v1/exclusive/");
    struct wire_sha256 root;
    struct wire_sha256 name;
    const struct personal_version *version = NULL;
    bool is_content = strlen(path) > WIRE_SHA256_HEX;
    enum base_status status = wire_sha256_parse((struct base_str){path, WIRE_SHA256_HEX}, &root);
    base_check(status == BASE_OK);
    for (uint32_t i = 0; i < RIG_VERSIONS_MAX; i++) {
        if (personal->versions[i].made && wire_sha256_equal(&personal->versions[i].root, &root)) {
            version = &personal->versions[i];
        }
    }
    base_check(version != NULL);
    *(is_content ? &personal->contents : &personal->proofs) += 1;
    if (!is_content && personal->proof_status != 0) {
        rig_answer(rig, exchange, personal->proof_status);
    } else if (!is_content) {
        serve_proof(rig, exchange, version);
    } else {
        struct base_str hex = base_str_of(path + WIRE_SHA256_HEX + 1);
        status = wire_sha256_parse(hex, &name);
        base_check(status == BASE_OK);
        bool own = is_own(personal, version, &name);
        personal->asked_for_more |= !own;
        if (own && !take(&personal->lost_files)) {
            rig_serve_content(rig, exchange, hex);
        } else {
            rig_answer(rig, exchange, 404);
        }
    }
}

void personal_rig_init(struct personal_rig *personal, struct rig *rig)
{
    memset(personal, 0, sizeof(*personal));
    personal->exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    personal->leaf = PERSONAL_OWN;
    rig->personal = personal;
    rig->version_extra = version_extra;
    rig->exclusive = serve;
    rig->own_content = own_content;
}
