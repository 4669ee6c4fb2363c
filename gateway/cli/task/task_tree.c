// Writes git trees out. Called by task_git.c with a repository and by a fuzz target with bytes;
// one thread.
//
// The walk keeps its own stack, at most TASK_TREE_DEPTH_MAX deep, of open folders: every file and
// folder is made relative to the descriptor of the one it is in, so that nothing but the last part
// of a path is ever looked up, and that part has been checked.
#include "cli/task/task_tree.h"

#include "base/os/path_part.h"
#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_DIGITS_MAX 6u
#define MODE_KIND       0170000u
#define MODE_FILE       0100000u
#define MODE_FOLDER     0040000u
#define MODE_LINK       0120000u
#define MODE_MODULE     0160000u
#define SHOWN_PATH      96 // bytes of a path in an error

// ---- One tree object

static bool take_mode(const uint8_t *bytes, size_t size, size_t *at, uint32_t *out_mode)
{
    uint32_t mode = 0;
    size_t digits = 0;
    while (*at + digits < size && bytes[*at + digits] >= '0' && bytes[*at + digits] <= '7' &&
           digits < MODE_DIGITS_MAX) {
        mode = mode * 8 + (uint32_t)(bytes[*at + digits] - '0');
        digits++;
    }
    if (digits == 0 || *at + digits >= size || bytes[*at + digits] != ' ') {
        return false;
    }
    *at += digits + 1;
    *out_mode = mode;
    return true;
}

static const char *mode_fault(uint32_t mode, enum task_tree_kind *out_kind)
{
    switch (mode & MODE_KIND) {
    case MODE_FILE:
        *out_kind = TASK_TREE_FILE;
        return NULL;
    case MODE_FOLDER:
        *out_kind = TASK_TREE_FOLDER;
        return NULL;
    case MODE_LINK:
        return "is a symbolic link; a version holds files";
    case MODE_MODULE:
        return "is a submodule; a version holds files";
    default:
        return "is of an unknown kind";
    }
}

enum base_status task_tree_entry_next(const uint8_t *bytes, size_t size, size_t *at,
                                      struct task_tree_entry *out, const char **out_fault)
{
    uint32_t mode = 0;
    *out = (struct task_tree_entry){0};
    if (!take_mode(bytes, size, at, &mode)) {
        *out_fault = "is damaged";
        return BASE_ERR_INVALID;
    }
    const uint8_t *end = memchr(bytes + *at, '\0', size - *at);
    if (end == NULL || size - (size_t)(end + 1 - bytes) < TASK_TREE_ID_BYTES) {
        *out_fault = "is damaged";
        return BASE_ERR_INVALID;
    }
    out->name = (struct base_str){(const char *)bytes + *at, (size_t)(end - bytes) - *at};
    out->id = end + 1;
    *at = (size_t)(end + 1 - bytes) + TASK_TREE_ID_BYTES;
    *out_fault = mode_fault(mode, &out->kind);
    if (*out_fault == NULL) {
        *out_fault = base_path_part_fault(out->name);
    }
    return *out_fault == NULL ? BASE_OK : BASE_ERR_INVALID;
}

// ---- The walk

struct level {
    struct task_tree_object object;
    size_t at;  // in its bytes
    int fd;     // the folder it is written to
    char *name; // of that folder; NULL: the top
};

struct walk {
    const struct task_tree_source *source;
    const struct task_tree_limits *limits;
    struct base_error *error;
    struct level levels[TASK_TREE_DEPTH_MAX + 1];
    uint32_t depth; // levels in use
    uint32_t entries;
    uint64_t bytes;
    size_t path_bytes; // of the folders entered, each with its slash
};

// An error about an entry of the deepest folder, with the path that leads there.
static enum base_status fault(const struct walk *walk, enum base_status status,
                              struct base_str name, const char *what)
{
    char path[SHOWN_PATH + 1] = "";
    size_t size = 0;
    for (uint32_t i = 1; i < walk->depth && size < SHOWN_PATH; i++) {
        int step = snprintf(path + size, sizeof(path) - size, "%s/", walk->levels[i].name);
        size += step > 0 ? (size_t)step : 0;
    }
    if (size < SHOWN_PATH) {
        (void)snprintf(path + size, sizeof(path) - size, "%.*s",
                       (int)(name.size < SHOWN_PATH ? name.size : SHOWN_PATH), name.data);
    }
    return base_error_set(walk->error, status, "the tag's tree: entry \"%s\" %s", path, what);
}

static const char *read_fault(enum base_status status)
{
    return status == BASE_ERR_NOT_FOUND   ? "is not in the repository"
           : status == BASE_ERR_INVALID   ? "is not of the kind its tree says"
           : status == BASE_ERR_TOO_LARGE ? "is too large"
                                          : base_status_text(status);
}

// Takes `fd` and `name`, success or failure.
static enum base_status level_push(struct walk *walk, const uint8_t *id, int fd, char *name)
{
    struct level *level = &walk->levels[walk->depth];
    enum base_status status = walk->source->read(walk->source->ctx, id, TASK_TREE_FOLDER,
                                                 TASK_TREE_OBJECT_BYTES, &level->object);
    if (status != BASE_OK) {
        (void)close(fd);
        (void)fault(walk, status, base_str_of(name != NULL ? name : "/"), read_fault(status));
        free(name);
        return status;
    }
    level->at = 0;
    level->fd = fd;
    level->name = name;
    walk->path_bytes += name != NULL ? strlen(name) + 1 : 0;
    walk->depth++;
    return BASE_OK;
}

static void level_pop(struct walk *walk)
{
    struct level *level = &walk->levels[--walk->depth];
    walk->path_bytes -= level->name != NULL ? strlen(level->name) + 1 : 0;
    walk->source->release(walk->source->ctx, &level->object);
    (void)close(level->fd);
    free(level->name);
    *level = (struct level){0};
}

static enum base_status enter_folder(struct walk *walk, const struct task_tree_entry *entry,
                                     const char *name)
{
    int at = walk->levels[walk->depth - 1].fd;
    if (walk->depth > TASK_TREE_DEPTH_MAX) {
        return fault(walk, BASE_ERR_TOO_LARGE, entry->name, "lies deeper than 32 folders");
    }
    if (mkdirat(at, name, 0700) != 0) {
        return fault(walk, BASE_ERR_INVALID, entry->name,
                     errno == EEXIST ? "is there twice" : strerror(errno));
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char *copy = strdup(name);
    if (fd < 0 || copy == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        free(copy);
        return fault(walk, fd < 0 ? BASE_ERR_IO : BASE_ERR_NOMEM, entry->name, "cannot be opened");
    }
    return level_push(walk, entry->id, fd, copy);
}
_Static_assert(TASK_TREE_DEPTH_MAX == 32, "the text above says so");

static enum base_status write_file(struct walk *walk, const struct task_tree_entry *entry,
                                   const char *name)
{
    const struct task_tree_source *source = walk->source;
    uint64_t left = walk->limits->bytes - walk->bytes;
    struct task_tree_object object = {0};
    enum base_status status =
        source->read(source->ctx, entry->id, TASK_TREE_FILE, (size_t)left, &object);
    if (status != BASE_OK) {
        return fault(walk, status, entry->name,
                     status == BASE_ERR_TOO_LARGE ? "brings all files over 1024 MiB"
                                                  : read_fault(status));
    }
    walk->bytes += object.size;
    int fd = openat(walk->levels[walk->depth - 1].fd, name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        status = fault(walk, BASE_ERR_INVALID, entry->name,
                       errno == EEXIST ? "is there twice" : strerror(errno));
    } else {
        bool whole = base_write_all(fd, object.bytes, object.size) == BASE_OK;
        whole = close(fd) == 0 && whole;
        status = whole ? BASE_OK : fault(walk, BASE_ERR_IO, entry->name, strerror(errno));
    }
    source->release(source->ctx, &object);
    return status;
}
_Static_assert(TASK_TREE_BYTES_MAX == 1024ull * 1024 * 1024, "the text above says so");

static enum base_status write_entry(struct walk *walk, const struct task_tree_entry *entry)
{
    char name[BASE_PATH_PART_MAX + 1];
    if (walk->entries == walk->limits->entries) {
        return base_error_set(walk->error, BASE_ERR_TOO_LARGE,
                              "the tag's tree has more than %u files and folders",
                              walk->limits->entries);
    }
    if (walk->path_bytes + entry->name.size > TASK_TREE_PATH_MAX) {
        return fault(walk, BASE_ERR_TOO_LARGE, entry->name, "has a path longer than 768 bytes");
    }
    walk->entries++;
    memcpy(name, entry->name.data, entry->name.size);
    name[entry->name.size] = '\0';
    return entry->kind == TASK_TREE_FOLDER ? enter_folder(walk, entry, name)
                                           : write_file(walk, entry, name);
}
_Static_assert(TASK_TREE_PATH_MAX == 768, "the text above says so");

static enum base_status step(struct walk *walk)
{
    struct level *level = &walk->levels[walk->depth - 1];
    struct task_tree_entry entry;
    const char *why = NULL;
    if (level->at == level->object.size) {
        level_pop(walk);
        return BASE_OK;
    }
    if (task_tree_entry_next(level->object.bytes, level->object.size, &level->at, &entry, &why) !=
        BASE_OK) {
        return fault(walk, BASE_ERR_INVALID, entry.name, why);
    }
    return write_entry(walk, &entry);
}

enum base_status task_tree_write(const struct task_tree_source *source,
                                 const uint8_t root[TASK_TREE_ID_BYTES],
                                 const struct task_tree_limits *limits, int folder_fd,
                                 struct base_error *error)
{
    struct walk walk = {.source = source, .limits = limits, .error = error};
    int top = fcntl(folder_fd, F_DUPFD_CLOEXEC, 0);
    if (top < 0) {
        return base_error_set(error, BASE_ERR_IO, "the scratch folder: %s", strerror(errno));
    }
    enum base_status status = level_push(&walk, root, top, NULL);
    while (status == BASE_OK && walk.depth > 0) {
        status = step(&walk);
    }
    while (walk.depth > 0) {
        level_pop(&walk);
    }
    return status;
}
