// Fuzz target of git trees: any bytes as a tree object, and as the trees inside it, written to a
// real folder. Nothing appears beside that folder, and what it refuses it names.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/os/path_part.h"
#include "cli/task/task_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX  4u   // files are what an input costs
#define ENTRIES_DEEP 36u  // beyond TASK_TREE_DEPTH_MAX
#define DEEP_BYTES   512u // inputs that long may go so deep
#define BYTES_MAX    1024u
#define NEVER        0xffu // first byte of an id that no object has
#define OPEN_FOLDERS 16

struct objects {
    const uint8_t *bytes;
    size_t size;
    uint32_t live; // read and not released
};

// An id is a place in the input: what follows it there is the object. So trees hold themselves.
static enum base_status read_object(void *ctx, const uint8_t id[TASK_TREE_ID_BYTES],
                                    enum task_tree_kind kind, size_t max,
                                    struct task_tree_object *out)
{
    struct objects *objects = ctx;
    size_t from = kind == TASK_TREE_FOLDER && objects->size > 0 ? id[0] % objects->size : 0;
    size_t size = kind == TASK_TREE_FOLDER ? objects->size - from : id[0];
    if (id[0] == NEVER) {
        return BASE_ERR_NOT_FOUND;
    }
    size = size < objects->size - from ? size : objects->size - from;
    if (size > max) {
        return BASE_ERR_TOO_LARGE;
    }
    out->bytes = objects->bytes + from;
    out->size = size;
    objects->live++;
    return BASE_OK;
}

static void release_object(void *ctx, struct task_tree_object *object)
{
    struct objects *objects = ctx;
    (void)object;
    base_check(objects->live > 0);
    objects->live--;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    base_check(type != FTW_SL);
    (void)info;
    (void)walk;
    return remove(path);
}

static void check_alone(const char *path)
{
    DIR *folder = opendir(path);
    base_check(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        bool own = strcmp(entry->d_name, "tree") == 0 || strcmp(entry->d_name, ".") == 0 ||
                   strcmp(entry->d_name, "..") == 0;
        base_check(own);
    }
    (void)closedir(folder);
}

static char scratch[] = "/tmp/walle-fuzz-tree-XXXXXX"; // one for all inputs
static char tree[sizeof scratch + 8];

static void remove_scratch(void)
{
    (void)rmdir(scratch);
}

// Every entry that is accepted has a name that is one, and lies inside the input.
static void check_entries(const uint8_t *data, size_t size)
{
    struct task_tree_entry entry;
    const char *why = NULL;
    size_t at = 0;
    while (at < size && task_tree_entry_next(data, size, &at, &entry, &why) == BASE_OK) {
        base_check(base_path_part_fault(entry.name) == NULL);
        base_check(entry.id + TASK_TREE_ID_BYTES == data + at);
    }
    base_check(at <= size);
}

// One input in 32 is written out, told by its bytes: files cost a thousand times the parsing.
static bool is_written(const uint8_t *data, size_t size)
{
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += data[i];
    }
    return sum % 32 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t root[TASK_TREE_ID_BYTES] = {0};
    const struct task_tree_limits limits = {
        .entries = size >= DEEP_BYTES ? ENTRIES_DEEP : ENTRIES_MAX, .bytes = BYTES_MAX};
    struct objects objects = {.bytes = data, .size = size};
    struct task_tree_source source = {.ctx = &objects, .read = read_object, release_object};
    struct base_error error = {0};
    check_entries(data, size);
    if (!is_written(data, size)) {
        return 0;
    }
    if (tree[0] == '\0') {
        base_check(mkdtemp(scratch) != NULL);
        (void)snprintf(tree, sizeof tree, "%s/tree", scratch);
        base_check(atexit(remove_scratch) == 0);
    }
    base_check(mkdir(tree, 0700) == 0);
    int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    base_check(fd >= 0);
    enum base_status status = task_tree_write(&source, root, &limits, fd, &error);
    base_check(status == BASE_OK || error.text[0] != '\0');
    base_check(objects.live == 0);
    (void)close(fd);
    check_alone(scratch);
    if (rmdir(tree) != 0) {
        base_check(nftw(tree, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0);
    }
    return 0;
}
