// Exclusive files of the world. One thread.
#include "model_exclusive.h"

#include "model_device.h"
#include "model_seal.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONAL_VERSION 4
#define REQUIRED_VERSION 6
#define FILE_NAME        "own.mpy"
#define LIST_MAX         (16u + MODEL_EXCLUSIVE_LEAVES_MAX * WIRE_ENTRY_BYTES_MAX)

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    *out = model_sha256(bytes, size);
}

static const struct wire_hasher hasher = {.sha256 = hash};

enum wire_exclusive model_exclusive_of(int version)
{
    return version == OPTIONAL_VERSION   ? WIRE_EXCLUSIVE_OPTIONAL
           : version == REQUIRED_VERSION ? WIRE_EXCLUSIVE_REQUIRED
                                         : WIRE_EXCLUSIVE_NONE;
}

bool model_exclusive_has(uint32_t number)
{
    return number % 2 == 0;
}

static void make_leaf(uint64_t device_id, const struct wire_manifest *manifest,
                      struct model_exclusive_leaf *out)
{
    struct wire_exclusive_files exclusive = {.file_count = 1};
    wire_device_hex(device_id, out->subject);
    out->device_id = device_id;
    out->text_size =
        (size_t)snprintf(out->text, sizeof(out->text), "%.*s %.*s for %s",
                         (int)manifest->task_name.size, manifest->task_name.data,
                         (int)manifest->version.size, manifest->version.data, out->subject);
    exclusive.files[0] =
        (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR(FILE_NAME), out->text_size,
                                    model_sha256(out->text, out->text_size)};
    base_check(wire_exclusive_encode(&exclusive, out->manifest, sizeof(out->manifest),
                                     &out->manifest_size) == BASE_OK);
    out->entry = (struct wire_entry){
        .kind = WIRE_SUBJECT_DEVICE,
        .subject = base_str_of(out->subject),
        .exclusive = model_sha256(out->manifest, out->manifest_size),
        .bytes = (uint32_t)out->manifest_size,
    };
}

static int by_subject(const void *a, const void *b)
{
    const struct model_exclusive_leaf *x = a;
    const struct model_exclusive_leaf *y = b;
    return strcmp(x->subject, y->subject);
}

static void pack_add(struct base_writer *pack, const void *bytes, size_t size)
{
    base_writer_u32(pack, (uint32_t)size);
    base_writer_bytes(pack, bytes, size);
}

// The list, and all that it leads to.
static void make_pack(struct model_exclusive *exclusive)
{
    uint8_t list[LIST_MAX];
    struct base_writer writer;
    size_t most = sizeof(list) + exclusive->count * sizeof(exclusive->leaves[0]);
    base_writer_init(&writer, list, sizeof(list));
    wire_entry_list_head(&writer, exclusive->count);
    for (uint32_t i = 0; i < exclusive->count; i++) {
        wire_entry_write(&writer, &exclusive->leaves[i].entry);
    }
    base_check(writer.status == BASE_OK);
    size_t list_size = base_writer_size(&writer);
    exclusive->list = model_sha256(list, list_size);
    exclusive->pack = malloc(most);
    base_check(exclusive->pack != NULL);
    base_writer_init(&writer, exclusive->pack, most);
    pack_add(&writer, list, list_size);
    for (uint32_t i = 0; i < exclusive->count; i++) {
        const struct model_exclusive_leaf *leaf = &exclusive->leaves[i];
        pack_add(&writer, leaf->manifest, leaf->manifest_size);
        pack_add(&writer, leaf->text, leaf->text_size);
    }
    base_check(writer.status == BASE_OK);
    exclusive->pack_size = base_writer_size(&writer);
}

static void make_tree(const struct model_exclusive *exclusive, struct wire_manifest *manifest)
{
    struct wire_sha256 nodes[4 * MODEL_EXCLUSIVE_LEAVES_MAX];
    size_t count = wire_tree_nodes(exclusive->count);
    base_check(count <= sizeof(nodes) / sizeof(nodes[0]));
    for (uint32_t i = 0; i < exclusive->count; i++) {
        wire_entry_leaf(&hasher, &exclusive->leaves[i].entry, &nodes[i]);
    }
    wire_tree_build(&hasher, nodes, exclusive->count);
    manifest->exclusive_root = nodes[count - 1];
}

struct model_exclusive *model_exclusive_new(uint64_t seed, uint32_t devices,
                                            struct wire_manifest *manifest)
{
    struct model_exclusive *exclusive =
        calloc(1, sizeof(*exclusive) + (devices + 1) * sizeof(exclusive->leaves[0]));
    base_check(exclusive != NULL);
    for (uint32_t i = 0; i < devices; i++) {
        if (model_exclusive_has(i)) {
            make_leaf(model_device_id(seed, i), manifest, &exclusive->leaves[exclusive->count++]);
        }
    }
    qsort(exclusive->leaves, exclusive->count, sizeof(exclusive->leaves[0]), by_subject);
    for (uint32_t i = 0; i < exclusive->count; i++) { // they moved
        exclusive->leaves[i].entry.subject = base_str_of(exclusive->leaves[i].subject);
    }
    make_tree(exclusive, manifest);
    make_pack(exclusive);
    return exclusive;
}

void model_exclusive_free(struct model_exclusive *exclusive)
{
    if (exclusive != NULL) {
        free(exclusive->pack);
        free(exclusive);
    }
}

const struct model_exclusive_leaf *model_exclusive_leaf(const struct model_exclusive *exclusive,
                                                        uint64_t device_id)
{
    for (uint32_t i = 0; i < exclusive->count; i++) {
        if (exclusive->leaves[i].device_id == device_id) {
            return &exclusive->leaves[i];
        }
    }
    return NULL;
}
