// A repository of small models in a folder of its own, for tests of the inference service.
#ifndef INFER_KIT_H
#define INFER_KIT_H

#include "onnx_kit.h"

#include "infer/infer_repository.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

struct infer_kit {
    char dir[64];
};

static inline void infer_kit_begin(struct infer_kit *kit)
{
    snprintf(kit->dir, sizeof(kit->dir), "/tmp/infer_kit_XXXXXX");
    assert_non_null(mkdtemp(kit->dir));
}

static inline int infer_kit_remove(const char *path, const struct stat *about, int kind,
                                   struct FTW *walk)
{
    (void)about;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void infer_kit_end(struct infer_kit *kit)
{
    assert_int_equal(nftw(kit->dir, infer_kit_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void infer_kit_folder(const struct infer_kit *kit, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", kit->dir, name);
    (void)mkdir(path, 0700);
}

static inline void infer_kit_write(const struct infer_kit *kit, const char *name, const void *bytes,
                                   size_t size)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", kit->dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void infer_kit_text(const struct infer_kit *kit, const char *name, const char *text)
{
    infer_kit_write(kit, name, text, strlen(text));
}

// y = relu(x + w), x [n, 3], w = (1, -2, 3)
static inline const struct onnx_part *infer_kit_add_relu(void)
{
    static const float w[3] = {1, -2, 3};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(kit, "Add", "x w", "s");
    onnx_node(kit, "Relu", "s", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3);
    return onnx_finish(kit, 13);
}

// `model` NULL: the one above.
static inline void infer_kit_add(const struct infer_kit *kit, const char *name, const char *version,
                                 const struct onnx_part *model)
{
    char path[200];
    const struct onnx_part *part = model != NULL ? model : infer_kit_add_relu();
    infer_kit_folder(kit, name);
    snprintf(path, sizeof(path), "%s/%s", name, version);
    infer_kit_folder(kit, path);
    snprintf(path, sizeof(path), "%s/%s/model.onnx", name, version);
    infer_kit_write(kit, path, part->bytes, part->size);
}

#endif
