// The tree behind exclusive files and behind answers that are signed together: the build command,
// the gateway and the simulator make it, devices verify one leaf (exclusive_files.c, answer.c).
// Nothing is allocated; any thread. All levels lie one
// behind the other in the caller's memory, the leaves first, so that a way up is a walk through one
// array. A node's hash begins with NODE_MARK, which no leaf's does: an inner node can never pass
// for a leaf.
#include "wire/hash_tree.h"

#include "base/check.h"

#include <string.h>

#define NODE_MARK  0x01
#define NODE_BYTES (1 + 2 * WIRE_SHA256_BYTES)

static void join(const struct wire_hasher *hasher, const struct wire_sha256 *left,
                 const struct wire_sha256 *right, struct wire_sha256 *out)
{
    uint8_t bytes[NODE_BYTES];
    bytes[0] = NODE_MARK;
    memcpy(bytes + 1, left->bytes, WIRE_SHA256_BYTES);
    memcpy(bytes + 1 + WIRE_SHA256_BYTES, right->bytes, WIRE_SHA256_BYTES);
    hasher->sha256(hasher->ctx, bytes, sizeof(bytes), out);
}

size_t wire_tree_nodes(uint32_t count)
{
    size_t nodes = count;
    while (count > 1) {
        count = (count + 1) / 2;
        nodes += count;
    }
    return nodes;
}

void wire_tree_build(const struct wire_hasher *hasher, struct wire_sha256 *nodes, uint32_t count)
{
    base_assert(count >= 1 && count <= WIRE_TREE_LEAVES_MAX);
    struct wire_sha256 *level = nodes;
    while (count > 1) {
        struct wire_sha256 *above = level + count;
        for (uint32_t i = 0; i + 1 < count; i += 2) {
            join(hasher, &level[i], &level[i + 1], &above[i / 2]);
        }
        if (count % 2 == 1) {
            above[count / 2] = level[count - 1];
        }
        level = above;
        count = (count + 1) / 2;
    }
}

uint32_t wire_tree_path(const struct wire_sha256 *nodes, uint32_t count, uint32_t index,
                        struct wire_sha256 *out)
{
    base_assert(index < count && (nodes == NULL) == (out == NULL));
    const struct wire_sha256 *level = nodes;
    uint32_t size = 0;
    while (count > 1) {
        uint32_t beside = index ^ 1;
        if (beside < count) { // otherwise it rises alone
            if (level != NULL) {
                out[size] = level[beside];
            }
            size++;
        }
        level = level != NULL ? level + count : NULL;
        index /= 2;
        count = (count + 1) / 2;
    }
    base_assert(size <= WIRE_TREE_PATH_MAX);
    return size;
}

enum base_status wire_tree_fold(const struct wire_hasher *hasher, const struct wire_sha256 *leaf,
                                const struct wire_tree_way *way, struct wire_sha256 *out_root)
{
    uint32_t count = way->leaves;
    uint32_t index = way->index;
    if (count == 0 || count > WIRE_TREE_LEAVES_MAX || index >= count ||
        way->path_count != wire_tree_path(NULL, count, index, NULL)) {
        return BASE_ERR_INVALID;
    }
    struct wire_sha256 node = *leaf;
    uint32_t used = 0;
    for (; count > 1; count = (count + 1) / 2, index /= 2) {
        struct wire_sha256 above;
        if ((index ^ 1) >= count) {
            continue;
        }
        if (index % 2 == 1) {
            join(hasher, &way->path[used], &node, &above);
        } else {
            join(hasher, &node, &way->path[used], &above);
        }
        node = above;
        used++;
    }
    base_assert(used == way->path_count && index == 0);
    *out_root = node;
    return BASE_OK;
}

enum base_status wire_tree_verify(const struct wire_hasher *hasher, const struct wire_sha256 *leaf,
                                  const struct wire_tree_way *way, const struct wire_sha256 *root)
{
    struct wire_sha256 top;
    BASE_TRY(wire_tree_fold(hasher, leaf, way, &top));
    return wire_sha256_equal(&top, root) ? BASE_OK : BASE_ERR_HASH;
}
