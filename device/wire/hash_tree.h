// A binary tree of SHA-256 values over an ordered list of leaves (the shape of RFC 6962, 2.1): with
// the root known, membership of one leaf is shown by the hashes beside its way up.
//
//   node := SHA-256(01, left[32], right[32]); of an odd number of nodes the last one rises as it is
//
// What a leaf's hash is made of is the caller's business, as long as its first byte is not 01.
// Pure; hashing is the caller's, and so is the memory.
#ifndef WIRE_HASH_TREE_H
#define WIRE_HASH_TREE_H

#include "wire/digest.h"

#define WIRE_TREE_LEAVES_MAX 100000u
#define WIRE_TREE_PATH_MAX   17u // levels above WIRE_TREE_LEAVES_MAX leaves

struct wire_hasher {
    void *ctx;
    void (*sha256)(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out);
};

// Nodes of a tree over `count` leaves, the leaves among them.
size_t wire_tree_nodes(uint32_t count);
// Fills the levels above: `nodes` holds `count` leaves and room for wire_tree_nodes(count); the
// last one is the root. `count` is at least 1 and at most WIRE_TREE_LEAVES_MAX.
void wire_tree_build(const struct wire_hasher *hasher, struct wire_sha256 *nodes, uint32_t count);
// Hashes on the way of leaf `index`, lowest first; without `nodes` (NULL) only their number.
uint32_t wire_tree_path(const struct wire_sha256 *nodes, uint32_t count, uint32_t index,
                        struct wire_sha256 *out);
// The way of a leaf up to the root, as it was said.
struct wire_tree_way {
    uint32_t leaves;                // of the tree
    uint32_t index;                 // of the leaf among them
    const struct wire_sha256 *path; // as wire_tree_path gives it
    uint32_t path_count;
};
// The root that the way leads to; INVALID: no such leaf, or a path of another length (RFC 9162,
// section 2.1.3.2). It is the caller's to compare it, or to verify who signed it.
BASE_NODISCARD enum base_status wire_tree_fold(const struct wire_hasher *hasher,
                                               const struct wire_sha256 *leaf,
                                               const struct wire_tree_way *way,
                                               struct wire_sha256 *out_root);
// INVALID: as above; HASH: it leads to another root.
BASE_NODISCARD enum base_status wire_tree_verify(const struct wire_hasher *hasher,
                                                 const struct wire_sha256 *leaf,
                                                 const struct wire_tree_way *way,
                                                 const struct wire_sha256 *root);

#endif
