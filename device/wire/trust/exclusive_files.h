// Exclusive files: what a version holds for one device or one user alone.
//
// Each such subject has a exclusive manifest, which lists its files. The version's manifest names
// the root of a hash tree over all its subjects, so a release's signatures cover what everybody
// gets exclusively. The gateway shows a device its own leaf with a proof, and nobody else's.
//
//   exclusive := "WLX1", varint file_count, file_count x file         (files as in a manifest, 5)
//   entry    := u8 subject_kind, text8 subject, sha256[32] (of the exclusive manifest), u32 bytes
//   leaf     := SHA-256(00, entry)
//   proof    := u8 version(1), entry, varint leaf_count, varint index, u8 path_count,
//               path_count x sha256[32]
//   list     := "WLXL", varint count, count x entry                   (operators', never a
//   device's)
//
// Files ascend by name, the entries of a list by kind and subject.
#ifndef WIRE_EXCLUSIVE_FILES_H
#define WIRE_EXCLUSIVE_FILES_H

#include "base/cursor.h"
#include "wire/hash_tree.h"
#include "wire/manifest.h"

#define WIRE_EXCLUSIVE_FILES_MAX 16u
#define WIRE_EXCLUSIVE_BYTES_MAX 4096u
#define WIRE_SUBJECT_MAX         64u // characters: 16 hex digits, or a user's name
#define WIRE_SUBJECTS_MAX        WIRE_TREE_LEAVES_MAX
#define WIRE_ENTRY_BYTES_MAX     (2u + WIRE_SUBJECT_MAX + WIRE_SHA256_BYTES + 4u)
#define WIRE_PROOF_BYTES_MAX                                                                       \
    (1u + WIRE_ENTRY_BYTES_MAX + 3u + 3u + 1u + WIRE_TREE_PATH_MAX * WIRE_SHA256_BYTES)
#define WIRE_PROOF_VERSION 1

enum wire_subject_kind {
    WIRE_SUBJECT_DEVICE = 1, // 16 lower-case hex digits
    WIRE_SUBJECT_USER = 2,   // [A-Za-z0-9][A-Za-z0-9._@+-]*
};

struct wire_exclusive_files {
    uint32_t file_count;
    struct wire_manifest_file files[WIRE_EXCLUSIVE_FILES_MAX]; // names borrowed
};

struct wire_entry {
    enum wire_subject_kind kind;
    struct base_str subject; // borrowed
    struct wire_sha256 exclusive;
    uint32_t bytes; // of the exclusive manifest
};

struct wire_proof {
    struct wire_entry entry;
    uint32_t leaf_count;
    uint32_t index;
    uint32_t path_count;
    struct wire_sha256 path[WIRE_TREE_PATH_MAX];
};

// Entries one after another.
struct wire_entry_list {
    uint32_t count; // still to come
    struct base_reader reader;
    struct wire_entry last;
};

bool wire_user_ok(struct base_str name);
bool wire_subject_ok(enum wire_subject_kind kind, struct base_str subject);

// INVALID (names, order, no files), TOO_LARGE, TRUNCATED, UNSUPPORTED (magic).
BASE_NODISCARD enum base_status wire_exclusive_encode(const struct wire_exclusive_files *exclusive,
                                                      uint8_t *out, size_t capacity,
                                                      size_t *out_size);
BASE_NODISCARD enum base_status wire_exclusive_parse(const uint8_t *bytes, size_t size,
                                                     struct wire_exclusive_files *out);
// The first file whose name one of the manifest's files has too; NULL: none.
const struct wire_manifest_file *wire_exclusive_clash(const struct wire_exclusive_files *exclusive,
                                                      const struct wire_manifest *manifest);

void wire_entry_leaf(const struct wire_hasher *hasher, const struct wire_entry *entry,
                     struct wire_sha256 *out);
// Below, above or equal: negative, positive, 0; the order of a list.
int wire_entry_order(const struct wire_entry *a, const struct wire_entry *b);

BASE_NODISCARD enum base_status wire_proof_encode(const struct wire_proof *proof, uint8_t *out,
                                                  size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status wire_proof_parse(const uint8_t *bytes, size_t size,
                                                 struct wire_proof *out);
// Does the proof lead from its entry to `root`? HASH, INVALID.
BASE_NODISCARD enum base_status wire_proof_verify(const struct wire_proof *proof,
                                                  const struct wire_hasher *hasher,
                                                  const struct wire_sha256 *root);

void wire_entry_list_head(struct base_writer *writer, uint32_t count);
void wire_entry_write(struct base_writer *writer, const struct wire_entry *entry);
void wire_entry_read(struct base_reader *reader, struct wire_entry *out);
BASE_NODISCARD enum base_status wire_entry_list_open(const uint8_t *bytes, size_t size,
                                                     struct wire_entry_list *out);
// The next entry; NOT_FOUND behind the last one. INVALID also when it does not follow on the one
// before, or bytes are left over.
BASE_NODISCARD enum base_status wire_entry_list_next(struct wire_entry_list *list,
                                                     struct wire_entry *out);

#endif
