// The codec of an answer that is one of many under a signature.
//
// The gateway's director encodes on its workers; the device parses, and the verification of
// envelopes (wire/trust/root.c) asks what must have been signed. Pure, nothing is allocated.
#include "wire/trust/answer.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

#define LEAF_MARK 0x00 // a node's begins with 01 (wire/hash_tree.c)

_Static_assert(WIRE_ANSWER_BYTES_MAX ==
                   WIRE_STATEMENT_BYTES_MAX + 4 + WIRE_ANSWER_PATH_MAX * WIRE_SHA256_BYTES,
               "an answer and the longest path");
_Static_assert(1u << WIRE_ANSWER_PATH_MAX == WIRE_ANSWERS_MAX, "so many levels above the leaves");

static enum base_status answer_check(const struct wire_answer *answer)
{
    const struct wire_tree_way *way = &answer->way;
    if (way->leaves == 0 || way->leaves > WIRE_ANSWERS_MAX || way->index >= way->leaves ||
        way->path_count != wire_tree_path(NULL, way->leaves, way->index, NULL) ||
        answer->director.size == 0) {
        return BASE_ERR_INVALID;
    }
    return answer->director.size <= WIRE_STATEMENT_BYTES_MAX ? BASE_OK : BASE_ERR_TOO_LARGE;
}

enum base_status wire_answer_encode(const struct wire_answer *answer, uint8_t *out, size_t capacity,
                                    size_t *out_size)
{
    BASE_TRY(answer_check(answer));
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    base_writer_varint(&writer, answer->way.leaves);
    base_writer_varint(&writer, answer->way.index);
    base_writer_bytes(&writer, answer->way.path,
                      (size_t)answer->way.path_count * WIRE_SHA256_BYTES);
    base_writer_bytes(&writer, answer->director.data, answer->director.size);
    BASE_TRY(writer.status);
    *out_size = base_writer_size(&writer);
    return BASE_OK;
}

enum base_status wire_answer_parse(const uint8_t *payload, size_t size, struct wire_answer *out)
{
    struct base_reader reader;
    struct wire_answer answer = {0};
    struct wire_tree_way *way = &answer.way;
    base_reader_init(&reader, payload, size);
    way->leaves = (uint32_t)base_reader_varint_max(&reader, WIRE_ANSWERS_MAX);
    way->index = (uint32_t)base_reader_varint_max(&reader, WIRE_ANSWERS_MAX);
    BASE_TRY(reader.status);
    if (way->index >= way->leaves) {
        return BASE_ERR_INVALID;
    }
    way->path_count = wire_tree_path(NULL, way->leaves, way->index, NULL);
    way->path = (const struct wire_sha256 *)base_reader_bytes(&reader, (size_t)way->path_count *
                                                                           WIRE_SHA256_BYTES);
    answer.director.size = base_reader_left(&reader);
    answer.director.data = base_reader_bytes(&reader, answer.director.size);
    BASE_TRY(base_reader_finish(&reader));
    BASE_TRY(answer_check(&answer));
    *out = answer;
    return BASE_OK;
}

void wire_answer_leaf(const struct wire_hasher *hasher, struct base_span director,
                      struct wire_sha256 *out)
{
    uint8_t bytes[1 + WIRE_STATEMENT_BYTES_MAX];
    base_check(director.size <= WIRE_STATEMENT_BYTES_MAX);
    bytes[0] = LEAF_MARK;
    memcpy(bytes + 1, director.data, director.size);
    hasher->sha256(hasher->ctx, bytes, 1 + director.size, out);
}

void wire_answer_head(uint32_t leaves, const struct wire_sha256 *root,
                      uint8_t out[WIRE_ANSWER_HEAD_BYTES])
{
    struct base_writer writer;
    base_writer_init(&writer, out, WIRE_ANSWER_HEAD_BYTES);
    base_writer_u64(&writer, leaves);
    base_writer_bytes(&writer, root->bytes, sizeof(root->bytes));
    base_assert(writer.status == BASE_OK && base_writer_size(&writer) == WIRE_ANSWER_HEAD_BYTES);
}

enum base_status wire_answer_fold(const struct wire_answer *answer,
                                  const struct wire_hasher *hasher,
                                  uint8_t out[WIRE_ANSWER_HEAD_BYTES])
{
    struct wire_sha256 leaf;
    struct wire_sha256 root;
    base_assert(answer->way.leaves <= WIRE_ANSWERS_MAX);
    wire_answer_leaf(hasher, answer->director, &leaf);
    BASE_TRY(wire_tree_fold(hasher, &leaf, &answer->way, &root));
    wire_answer_head(answer->way.leaves, &root, out);
    return BASE_OK;
}
