// Reader of the folders of exclusive files, and of the list a build keeps of them. Called by the
// task commands; one thread. A subject at a time: of all of them only hashes are held. task_build.c
// makes, loads and verifies the list; cli_task.c and cli_task_run.c walk over its subjects. Names
// are sorted before anything is written, so the same folders give the same list.
#include "cli/task/task_exclusive.h"

#include "cli/base/cli_files.h"
#include "cli/base/cli_json.h"
#include "signing/signing.h"
#include "cli/task/task_file.h"

#include "base/os/output_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDERS_MAX 32u // within one subject's folder
#define LIST_MAX    (WIRE_SUBJECTS_MAX * (size_t)WIRE_ENTRY_BYTES_MAX + 16)

static const char *const kind_folders[] = {
    [WIRE_SUBJECT_DEVICE] = "device",
    [WIRE_SUBJECT_USER] = "user",
};

static void hash(void *ctx, const void *bytes, size_t size, struct wire_sha256 *out)
{
    enum base_status *status = ctx;
    enum base_status now = signing_sha256(bytes, size, out);
    *status = *status == BASE_OK ? now : *status;
}

// ---- Folders

struct names {
    char **items;
    uint32_t count;
};

static void names_done(struct names *names)
{
    for (uint32_t i = 0; i < names->count; ++i) {
        free(names->items[i]);
    }
    free(names->items);
    *names = (struct names){0};
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Grows by doubling: capacities are powers of two.
static bool names_add(struct names *names, const char *name)
{
    if ((names->count & (names->count - 1)) == 0) {
        size_t capacity = names->count == 0 ? 1 : (size_t)names->count * 2;
        char **items = realloc(names->items, capacity * sizeof(*items));
        if (items == NULL) {
            return false;
        }
        names->items = items;
    }
    names->items[names->count] = strdup(name);
    names->count += names->items[names->count] != NULL ? 1 : 0;
    return names->count > 0 && names->items[names->count - 1] != NULL;
}

// What lies in a folder, ascending by bytes; without what begins with a dot. NOT_FOUND: no folder.
static enum base_status list_folder(const char *path, uint32_t max, struct names *out,
                                    struct base_error *error)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    enum base_status status = BASE_OK;

    if (folder == NULL) {
        return errno == ENOENT
                   ? BASE_ERR_NOT_FOUND
                   : base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    while (status == BASE_OK && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (out->count == max) {
            status =
                base_error_set(error, BASE_ERR_TOO_LARGE, "%s: more than %u entries", path, max);
        } else if (!names_add(out, entry->d_name)) {
            status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    closedir(folder);
    if (status != BASE_OK) {
        names_done(out);
    } else if (out->count > 0) {
        qsort(out->items, out->count, sizeof(*out->items), by_bytes);
    }
    return status;
}

// ---- One subject

struct subject {
    enum wire_subject_kind kind;
    const char *name;
    char folder[TASK_SOURCE_PATH_MAX];
    // Folders in it that are still to be read, relative; "" is the subject's own.
    char waiting[FOLDERS_MAX][WIRE_FILE_NAME_MAX + 1];
    uint32_t waiting_count;
    char names[WIRE_EXCLUSIVE_FILES_MAX][WIRE_FILE_NAME_MAX + 1]; // as they lie there
    uint32_t count;
};

static enum base_status fault(const struct subject *subject, enum base_status status,
                              const char *what, const char *name, struct base_error *error)
{
    return base_error_set(error, status, "exclusive files of %s %.64s: %s%s%.100s",
                          kind_folders[subject->kind], subject->name, what,
                          name != NULL ? ": " : "", name != NULL ? name : "");
}

static enum base_status take_entry(struct subject *subject, const char *relative,
                                   struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];
    struct stat about;

    if (strlen(relative) > WIRE_FILE_NAME_MAX ||
        snprintf(path, sizeof(path), "%s/%s", subject->folder, relative) >= (int)sizeof(path)) {
        return fault(subject, BASE_ERR_TOO_LARGE, "name too long", relative, error);
    }
    if (lstat(path, &about) != 0) {
        return fault(subject, BASE_ERR_IO, strerror(errno), relative, error);
    }
    if (S_ISDIR(about.st_mode)) {
        if (subject->waiting_count == FOLDERS_MAX) {
            return fault(subject, BASE_ERR_TOO_LARGE, "too many folders", relative, error);
        }
        (void)snprintf(subject->waiting[subject->waiting_count++], WIRE_FILE_NAME_MAX + 1, "%s",
                       relative);
        return BASE_OK;
    }
    if (S_ISLNK(about.st_mode)) { // it could bring any file of this machine to a device
        return fault(subject, BASE_ERR_INVALID, "is a symbolic link", relative, error);
    }
    if (!S_ISREG(about.st_mode)) {
        return fault(subject, BASE_ERR_INVALID, "neither a file nor a folder", relative, error);
    }
    if (subject->count == WIRE_EXCLUSIVE_FILES_MAX) {
        return fault(subject, BASE_ERR_TOO_LARGE, "more than 16 files", relative, error);
    }
    (void)snprintf(subject->names[subject->count++], WIRE_FILE_NAME_MAX + 1, "%s", relative);
    return BASE_OK;
}
_Static_assert(WIRE_EXCLUSIVE_FILES_MAX == 16, "the text above says so");

static enum base_status walk_subject(struct subject *subject, struct base_error *error)
{
    subject->count = 0;
    subject->waiting[0][0] = '\0';
    subject->waiting_count = 1;
    while (subject->waiting_count > 0) {
        char inside[WIRE_FILE_NAME_MAX + 1];
        char path[TASK_SOURCE_PATH_MAX];
        char relative[2 * WIRE_FILE_NAME_MAX];
        struct names names = {0};
        memcpy(inside, subject->waiting[--subject->waiting_count], sizeof(inside));
        if (snprintf(path, sizeof(path), "%s/%s", subject->folder, inside) >= (int)sizeof(path)) {
            return fault(subject, BASE_ERR_TOO_LARGE, "path too long", inside, error);
        }
        enum base_status status =
            list_folder(path, FOLDERS_MAX + WIRE_EXCLUSIVE_FILES_MAX, &names, error);
        for (uint32_t i = 0; i < names.count && status == BASE_OK; ++i) {
            (void)snprintf(relative, sizeof(relative), "%s%s%.96s", inside,
                           inside[0] != '\0' ? "/" : "", names.items[i]);
            status = strlen(names.items[i]) > WIRE_FILE_NAME_MAX
                         ? fault(subject, BASE_ERR_TOO_LARGE, "name too long", relative, error)
                         : take_entry(subject, relative, error);
        }
        names_done(&names);
        if (status != BASE_OK) {
            return status == BASE_ERR_NOT_FOUND
                       ? fault(subject, BASE_ERR_IO, "folder vanished", inside, error)
                       : status;
        }
    }
    return subject->count > 0 ? BASE_OK
                              : fault(subject, BASE_ERR_INVALID, "there is none", NULL, error);
}

static int by_name(const void *a, const void *b)
{
    const struct task_built_file *one = a;
    const struct task_built_file *other = b;
    return strcmp(one->name, other->name);
}

struct maker {
    const char *out_folder;
    const struct wire_manifest *manifest;
    struct task_exclusive *out;
    struct base_writer writer; // of the list
    struct wire_sha256 *nodes;
    uint32_t count;
    enum base_status hash_status;
};

// The exclusive manifest over built files, as a blob, and its entry.
static enum base_status add_exclusive(struct maker *maker, const struct subject *subject,
                                      const struct task_built_file *files, struct base_error *error)
{
    struct wire_exclusive_files exclusive = {.file_count = subject->count};
    struct wire_entry entry = {.kind = subject->kind, .subject = base_str_of(subject->name)};
    struct wire_hasher hasher = {.ctx = &maker->hash_status, .sha256 = hash};
    uint8_t bytes[WIRE_EXCLUSIVE_BYTES_MAX];
    size_t size = 0;

    for (uint32_t i = 0; i < subject->count; ++i) {
        exclusive.files[i] = (struct wire_manifest_file){.kind = files[i].kind,
                                                         .name = base_str_of(files[i].name),
                                                         .bytes = files[i].size,
                                                         .digest = files[i].digest};
        maker->out->files_bytes += files[i].size;
    }
    const struct wire_manifest_file *clash = wire_exclusive_clash(&exclusive, maker->manifest);
    if (clash != NULL) {
        return fault(subject, BASE_ERR_INVALID, "the version has a file of this name, too",
                     clash->name.data, error);
    }
    if (wire_exclusive_encode(&exclusive, bytes, sizeof(bytes), &size) != BASE_OK) {
        return fault(subject, BASE_ERR_INVALID,
                     "file names are relative paths of A-Z a-z 0-9 . _ / -", NULL, error);
    }
    BASE_TRY(signing_sha256(bytes, size, &entry.exclusive));
    entry.bytes = (uint32_t)size;
    BASE_TRY(task_blob_write(maker->out_folder, &entry.exclusive, bytes, size, error));
    wire_entry_write(&maker->writer, &entry);
    wire_entry_leaf(&hasher, &entry, &maker->nodes[maker->count++]);
    maker->out->file_count += subject->count;
    return maker->writer.status;
}

static enum base_status make_subject(struct maker *maker, struct subject *subject,
                                     struct base_error *error)
{
    struct task_built_file files[WIRE_EXCLUSIVE_FILES_MAX];
    struct base_error inner = {0};

    if (!wire_subject_ok(subject->kind, base_str_of(subject->name))) {
        return fault(
            subject, BASE_ERR_INVALID,
            subject->kind == WIRE_SUBJECT_DEVICE
                ? "a device is 16 lower-case hex digits"
                : "a user is 1 to 64 of A-Z a-z 0-9 . _ @ + -, the first a letter or digit",
            NULL, error);
    }
    BASE_TRY(walk_subject(subject, error));
    for (uint32_t i = 0; i < subject->count; ++i) {
        char path[TASK_SOURCE_PATH_MAX];
        if (snprintf(path, sizeof(path), "%s/%s", subject->folder, subject->names[i]) >=
            (int)sizeof(path)) {
            return fault(subject, BASE_ERR_TOO_LARGE, "path too long", subject->names[i], error);
        }
        const struct task_file_source from = {subject->names[i], path,
                                              task_source_kind(subject->names[i])};
        enum base_status status = task_file_build(maker->out_folder, &from, &files[i], &inner);
        if (status != BASE_OK) {
            return fault(subject, status, inner.text, NULL, error);
        }
    }
    qsort(files, subject->count, sizeof(files[0]), by_name);
    return add_exclusive(maker, subject, files, error);
}

// ---- All of them

static enum base_status make_kind(struct maker *maker, const char *folder,
                                  enum wire_subject_kind kind, const struct names *names,
                                  struct base_error *error)
{
    struct subject *subject = malloc(sizeof(*subject));
    enum base_status status =
        subject != NULL ? BASE_OK : base_error_set(error, BASE_ERR_NOMEM, "out of memory");

    for (uint32_t i = 0; i < names->count && status == BASE_OK; ++i) {
        subject->kind = kind;
        subject->name = names->items[i];
        if (snprintf(subject->folder, sizeof(subject->folder), "%s/%s/%s", folder,
                     kind_folders[kind], subject->name) >= (int)sizeof(subject->folder)) {
            status = fault(subject, BASE_ERR_TOO_LARGE, "path too long", NULL, error);
        } else {
            status = make_subject(maker, subject, error);
        }
    }
    free(subject);
    return status;
}

static enum base_status list_subjects(const char *folder, enum wire_subject_kind kind,
                                      struct names *out, struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", folder, kind_folders[kind]) >= (int)sizeof(path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", folder);
    }
    enum base_status status = list_folder(path, WIRE_SUBJECTS_MAX, out, error);
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

static enum base_status check_top(const char *folder, struct base_error *error)
{
    struct names names = {0};
    enum base_status status = list_folder(folder, WIRE_SUBJECTS_MAX, &names, error);

    if (status == BASE_ERR_NOT_FOUND) {
        return base_error_set(error, BASE_ERR_IO, "%s: no such folder (exclusive files)", folder);
    }
    for (uint32_t i = 0; i < names.count && status == BASE_OK; ++i) {
        if (strcmp(names.items[i], "device") != 0 && strcmp(names.items[i], "user") != 0) {
            status = base_error_set(error, BASE_ERR_INVALID,
                                    "%s/%.60s: exclusive files lie in device/ID/ and user/NAME/",
                                    folder, names.items[i]);
        }
    }
    names_done(&names);
    return status;
}

static enum base_status finish(struct maker *maker, struct base_error *error)
{
    struct task_exclusive *out = maker->out;
    struct wire_hasher hasher = {.ctx = &maker->hash_status, .sha256 = hash};
    char path[CLI_PATH_MAX];

    wire_tree_build(&hasher, maker->nodes, maker->count);
    BASE_TRY(maker->hash_status);
    out->root = maker->nodes[wire_tree_nodes(maker->count) - 1];
    out->subject_count = maker->count;
    out->list_size = base_writer_size(&maker->writer);
    BASE_TRY(signing_sha256(out->list, out->list_size, &out->list_digest));
    BASE_TRY(
        task_blob_write(maker->out_folder, &out->list_digest, out->list, out->list_size, error));
    (void)snprintf(path, sizeof(path), "%.*s/exclusive", CLI_PATH_MAX - 16, maker->out_folder);
    return base_output_write(path, out->list, out->list_size, error);
}

static enum base_status make_all(struct maker *maker, const char *folder,
                                 const struct names *devices, const struct names *users,
                                 struct base_error *error)
{
    uint32_t count = devices->count + users->count;
    size_t capacity = count * (size_t)WIRE_ENTRY_BYTES_MAX + 16;

    if (count == 0 || count > WIRE_SUBJECTS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: exclusive files of 1 to %u devices and users, not %u", folder,
                              WIRE_SUBJECTS_MAX, count);
    }
    maker->out->list = malloc(capacity);
    maker->nodes = calloc(wire_tree_nodes(count), sizeof(*maker->nodes));
    if (maker->out->list == NULL || maker->nodes == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_writer_init(&maker->writer, maker->out->list, capacity);
    wire_entry_list_head(&maker->writer, count);
    BASE_TRY(make_kind(maker, folder, WIRE_SUBJECT_DEVICE, devices, error));
    BASE_TRY(make_kind(maker, folder, WIRE_SUBJECT_USER, users, error));
    return finish(maker, error);
}

enum base_status task_exclusive_make(const char *folder, const char *out_folder,
                                     const struct wire_manifest *manifest,
                                     struct task_exclusive *out, struct base_error *error)
{
    struct maker maker = {.out_folder = out_folder, .manifest = manifest, .out = out};
    struct names devices = {0};
    struct names users = {0};
    enum base_status status = check_top(folder, error);

    if (status == BASE_OK) {
        status = list_subjects(folder, WIRE_SUBJECT_DEVICE, &devices, error);
    }
    if (status == BASE_OK) {
        status = list_subjects(folder, WIRE_SUBJECT_USER, &users, error);
    }
    if (status == BASE_OK) {
        status = make_all(&maker, folder, &devices, &users, error);
    }
    free(maker.nodes);
    names_done(&devices);
    names_done(&users);
    return status;
}

// ---- A build's list

// The root over a list's entries.
static enum base_status list_root(struct task_exclusive *exclusive, struct wire_sha256 *nodes,
                                  struct wire_entry_list *entries)
{
    enum base_status hash_status = BASE_OK;
    struct wire_hasher hasher = {.ctx = &hash_status, .sha256 = hash};
    struct wire_entry entry;

    for (uint32_t i = 0; i < exclusive->subject_count; ++i) {
        BASE_TRY(wire_entry_list_next(entries, &entry));
        wire_entry_leaf(&hasher, &entry, &nodes[i]);
    }
    wire_tree_build(&hasher, nodes, exclusive->subject_count);
    exclusive->root = nodes[wire_tree_nodes(exclusive->subject_count) - 1];
    return hash_status;
}

static enum base_status check_root(struct task_exclusive *exclusive,
                                   const struct wire_manifest *manifest)
{
    struct wire_entry_list entries;

    BASE_TRY(wire_entry_list_open(exclusive->list, exclusive->list_size, &entries));
    exclusive->subject_count = entries.count;
    struct wire_sha256 *nodes = calloc(wire_tree_nodes(entries.count), sizeof(*nodes));
    if (nodes == NULL) {
        return BASE_ERR_NOMEM;
    }
    enum base_status status = list_root(exclusive, nodes, &entries);
    free(nodes);
    BASE_TRY(status);
    return wire_sha256_equal(&exclusive->root, &manifest->exclusive_root) ? BASE_OK : BASE_ERR_HASH;
}

static enum base_status count_subject(void *ctx, const struct wire_entry *entry,
                                      const struct wire_exclusive_files *list,
                                      struct base_error *error)
{
    struct task_exclusive *exclusive = ctx;

    (void)entry;
    (void)error;
    exclusive->file_count += list->file_count;
    for (uint32_t i = 0; i < list->file_count; ++i) {
        exclusive->files_bytes += list->files[i].bytes;
    }
    return BASE_OK;
}

enum base_status task_exclusive_load(const char *folder, const struct wire_manifest *manifest,
                                     struct task_exclusive *out, struct base_error *error)
{
    char path[CLI_PATH_MAX];

    if (manifest->exclusive == WIRE_EXCLUSIVE_NONE) {
        return BASE_OK;
    }
    if (snprintf(path, sizeof(path), "%s/exclusive", folder) >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
    }
    BASE_TRY(cli_file_read(path, LIST_MAX, &out->list, &out->list_size, error));
    enum base_status status = check_root(out, manifest);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: not the exclusive files the manifest names (%s)",
                              path, base_status_text(status));
    }
    BASE_TRY(signing_sha256(out->list, out->list_size, &out->list_digest));
    return task_exclusive_each(folder, out, count_subject, out, error);
}

static enum base_status each_entry(const char *folder, const struct wire_entry *entry,
                                   task_subject_fn visit, void *ctx, struct base_error *error)
{
    struct wire_exclusive_files exclusive;
    struct base_error inner = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum base_status status = task_blob_read(folder, &entry->exclusive, &bytes, &size, &inner);

    if (status == BASE_OK) {
        status =
            size == entry->bytes ? wire_exclusive_parse(bytes, size, &exclusive) : BASE_ERR_INVALID;
    }
    if (status == BASE_OK) {
        status = visit(ctx, entry, &exclusive, &inner);
    }
    free(bytes);
    if (status == BASE_OK) {
        return BASE_OK;
    }
    return base_error_set(error, status, "exclusive files of %s %.*s: %s",
                          kind_folders[entry->kind], (int)entry->subject.size, entry->subject.data,
                          inner.text[0] != '\0' ? inner.text : base_status_text(status));
}

enum base_status task_exclusive_each(const char *folder, const struct task_exclusive *exclusive,
                                     task_subject_fn visit, void *ctx, struct base_error *error)
{
    struct wire_entry_list entries;
    struct wire_entry entry;

    if (exclusive->list == NULL) {
        return BASE_OK;
    }
    BASE_TRY(wire_entry_list_open(exclusive->list, exclusive->list_size, &entries));
    while (entries.count > 0) {
        BASE_TRY(wire_entry_list_next(&entries, &entry));
        BASE_TRY(each_entry(folder, &entry, visit, ctx, error));
    }
    return BASE_OK;
}

struct verify {
    const char *folder;
    const struct wire_manifest *manifest;
};

static enum base_status verify_subject(void *ctx, const struct wire_entry *entry,
                                       const struct wire_exclusive_files *exclusive,
                                       struct base_error *error)
{
    const struct verify *verify = ctx;
    const struct wire_manifest_file *clash = wire_exclusive_clash(exclusive, verify->manifest);

    (void)entry;
    if (clash != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "%.*s is one of the version's, too",
                              (int)clash->name.size, clash->name.data);
    }
    for (uint32_t i = 0; i < exclusive->file_count; ++i) {
        BASE_TRY(task_file_verify(verify->folder, &exclusive->files[i], error));
    }
    return BASE_OK;
}

enum base_status task_exclusive_verify(const char *folder, const struct task_exclusive *exclusive,
                                       const struct wire_manifest *manifest,
                                       struct base_error *error)
{
    struct verify verify = {.folder = folder, .manifest = manifest};

    return task_exclusive_each(folder, exclusive, verify_subject, &verify, error);
}

void task_exclusive_done(struct task_exclusive *exclusive)
{
    free(exclusive->list);
    exclusive->list = NULL;
}
