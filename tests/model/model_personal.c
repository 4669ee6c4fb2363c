// Exclusive files of the world. One thread.
#include "model_personal.h"

#include "model_device.h"
#include "model_seal.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONAL_VERSION 4
#define REQUIRED_VERSION 6
#define FILE_NAME        "own.mpy"
#define LIST_MAX         (16u + MODEL_PERSONAL_LEAVES_MAX * WIRE_ENTRY_BYTES_MAX)

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    (void)ctx;
    *out = model_sha256(bytes, size);
}

static const struct wire_hasher hasher = {.sha256 = hash};

enum wire_exclusive model_personal_of(int version)
{
    return version == OPTIONAL_VERSION   ? WIRE_EXCLUSIVE_OPTIONAL
           : version == REQUIRED_VERSION ? WIRE_EXCLUSIVE_REQUIRED
                                         : WIRE_EXCLUSIVE_NONE;
}

bool model_personal_has(uint32_t number)
{
    return number % 2 == 0;
}

static void make_leaf(uint64_t device_id, const struct wire_manifest *manifest,
                      struct model_personal_leaf *out)
{
    struct wire_personal personal = {.file_count = 1};
    wire_device_hex(device_id, out->subject);
    out->device_id = device_id;
    out->text_size =
        (size_t)snprintf(out->text, sizeof(out->text), "%.*s %.*s for %s",
                         (int)manifest->task_name.size, manifest->task_name.data,
                         (int)manifest->version.size, manifest->version.data, out->subject);
    personal.files[0] =
        (struct wire_manifest_file){WIRE_FILE_SCRIPT, BASE_STR(FILE_NAME), out->text_size,
                                    model_sha256(out->text, out->text_size)};
    base_check(wire_personal_encode(&personal, out->manifest, sizeof(out->manifest),
                                    &out->manifest_size) == BASE_OK);
    out->entry = (struct wire_entry){
        .kind = WIRE_SUBJECT_DEVICE,
        .subject = base_str_of(out->subject),
        .personal = model_sha256(out->manifest, out->manifest_size),
        .bytes = (uint32_t)out->manifest_size,
    };
}

static int by_subject(const void *a, const void *b)
{
    const struct model_personal_leaf *x = a;
    const struct model_personal_leaf *y = b;
    return strcmp(x->subject, y->subject);
}

static void pack_add(struct base_writer *pack, const void *bytes, size_t size)
{
    base_writer_u32(pack, (uint32_t)size);
    base_writer_bytes(pack, bytes, size);
}

// The list, and all that it leads to.
static void make_pack(struct model_personal *personal)
{
    uint8_t list[LIST_MAX];
    struct base_writer writer;
    size_t most = sizeof(list) + personal->count * sizeof(personal->leaves[0]);
    base_writer_init(&writer, list, sizeof(list));
    wire_entry_list_head(&writer, personal->count);
    for (uint32_t i = 0; i < personal->count; i++) {
        wire_entry_write(&writer, &personal->leaves[i].entry);
    }
    base_check(writer.status == BASE_OK);
    size_t list_size = base_writer_size(&writer);
    personal->list = model_sha256(list, list_size);
    personal->pack = malloc(most);
    base_check(personal->pack != NULL);
    base_writer_init(&writer, personal->pack, most);
    pack_add(&writer, list, list_size);
    for (uint32_t i = 0; i < personal->count; i++) {
        const struct model_personal_leaf *leaf = &personal->leaves[i];
        pack_add(&writer, leaf->manifest, leaf->manifest_size);
        pack_add(&writer, leaf->text, leaf->text_size);
    }
    base_check(writer.status == BASE_OK);
    personal->pack_size = base_writer_size(&writer);
}

static void make_tree(const struct model_personal *personal, struct wire_manifest *manifest)
{
    struct wire_sha256 nodes[4 * MODEL_PERSONAL_LEAVES_MAX];
    size_t count = wire_tree_nodes(personal->count);
    base_check(count <= sizeof(nodes) / sizeof(nodes[0]));
    for (uint32_t i = 0; i < personal->count; i++) {
        wire_entry_leaf(&hasher, &personal->leaves[i].entry, &nodes[i]);
    }
    wire_tree_build(&hasher, nodes, personal->count);
    manifest->exclusive_root = nodes[count - 1];
}

struct model_personal *model_personal_new(uint64_t seed, uint32_t devices,
                                          struct wire_manifest *manifest)
{
    struct model_personal *personal =
        calloc(1, sizeof(*personal) + (devices + 1) * sizeof(personal->leaves[0]));
    base_check(personal != NULL);
    for (uint32_t i = 0; i < devices; i++) {
        if (model_personal_has(i)) {
            make_leaf(model_device_id(seed, i), manifest, &personal->leaves[personal->count++]);
        }
    }
    qsort(personal->leaves, personal->count, sizeof(personal->leaves[0]), by_subject);
    for (uint32_t i = 0; i < personal->count; i++) { // they moved
        personal->leaves[i].entry.subject = base_str_of(personal->leaves[i].subject);
    }
    make_tree(personal, manifest);
    make_pack(personal);
    return personal;
}

void model_personal_free(struct model_personal *personal)
{
    if (personal != NULL) {
        free(personal->pack);
        free(personal);
    }
}

const struct model_personal_leaf *model_personal_leaf(const struct model_personal *personal,
                                                      uint64_t device_id)
{
    for (uint32_t i = 0; i < personal->count; i++) {
        if (personal->leaves[i].device_id == device_id) {
            return &personal->leaves[i];
        }
    }
    return NULL;
}
