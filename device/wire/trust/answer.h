// The director's answer to one device, as one of many under a signature.
//
//   payload(ANSWER) := varint leaves, varint index, path, director
//   path            := hash[32] for each level at which the leaf's way has a neighbour
//   director        := as in wire/trust/meta.h
//   leaf            := SHA-256(00, director)       tree, path: wire/hash_tree.h
//   signed bytes    := "walle-meta-v1\0", u8 type, u64 leaves, root[32] of the tree
//
// Shape and marks of leaves and nodes are RFC 9162's (section 2.1). What a device believes of the
// tree is what its own way leads to: of the other answers it learns how many there are, no more.
#ifndef WIRE_ANSWER_H
#define WIRE_ANSWER_H

#include "base/span.h"
#include "wire/hash_tree.h"
#include "wire/trust/statement.h"

BASE_C_BEGIN

#define WIRE_ANSWERS_MAX       256u // under one signature
#define WIRE_ANSWER_PATH_MAX   8u
#define WIRE_ANSWER_NODES_MAX  (2 * WIRE_ANSWERS_MAX)  // of their tree
#define WIRE_ANSWER_HEAD_BYTES (8 + WIRE_SHA256_BYTES) // what is signed behind the type

struct wire_answer {
    struct wire_tree_way way;  // its path is borrowed
    struct base_span director; // borrowed
};

// INVALID: no such leaf, a path of another length, an empty answer. TOO_LARGE.
BASE_NODISCARD enum base_status wire_answer_encode(const struct wire_answer *answer, uint8_t *out,
                                                   size_t capacity, size_t *out_size);
// As above, TRUNCATED.
BASE_NODISCARD enum base_status wire_answer_parse(const uint8_t *payload, size_t size,
                                                  struct wire_answer *out);
// The leaf of an answer of at most WIRE_STATEMENT_BYTES_MAX bytes.
void wire_answer_leaf(const struct wire_hasher *hasher, struct base_span director,
                      struct wire_sha256 *out);
// What is signed of a tree.
void wire_answer_head(uint32_t leaves, const struct wire_sha256 *root,
                      uint8_t out[WIRE_ANSWER_HEAD_BYTES]);
// What must have been signed for this answer to hold. INVALID: its way leads nowhere.
BASE_NODISCARD enum base_status wire_answer_fold(const struct wire_answer *answer,
                                                 const struct wire_hasher *hasher,
                                                 uint8_t out[WIRE_ANSWER_HEAD_BYTES]);

BASE_C_END

#endif
