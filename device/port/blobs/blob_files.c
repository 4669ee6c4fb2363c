// Files as bytes for tasks (layout of an option in the header). A list is made while options are
// parsed, on the main thread; reading it is up to one thread at a time. A set is one block: the
// list, the names, and the bytes.
#include "blobs/blob_files.h"

#include "base/os/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct blob_source {
    char name[DEV_BLOB_NAME_MAX + 1];
    char path[BLOB_FILES_PATH_MAX];
    char **files; // of a folder, in order; NULL: `path` is a file
    uint32_t count;
};

static bool name_ok(struct base_str name)
{
    if (name.size == 0 || name.size > DEV_BLOB_NAME_MAX || name.data[0] < 'a' ||
        name.data[0] > 'z') {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool ok =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
        if (!ok) {
            return false;
        }
    }
    return true;
}

static void source_free(struct blob_source *source)
{
    for (uint32_t i = 0; source != NULL && i < source->count; i++) {
        free(source->files[i]);
    }
    if (source != NULL) {
        free(source->files);
    }
    free(source);
}

void blob_files_done(struct blob_files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        source_free(files->sources[i]);
    }
    *files = (struct blob_files){.count = 0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum base_status folder_add(struct blob_source *source, const char *name,
                                   struct base_error *error)
{
    char path[2 * BLOB_FILES_PATH_MAX];
    struct stat about;
    (void)snprintf(path, sizeof(path), "%s/%s", source->path, name);
    if (name[0] == '.' || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) {
        return BASE_OK; // nothing to hand out
    }
    if (source->count == BLOB_FILES_FOLDER_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: more than %d files", source->path,
                              BLOB_FILES_FOLDER_MAX);
    }
    source->files[source->count] = strdup(path);
    if (source->files[source->count] == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    source->count++;
    return BASE_OK;
}

static enum base_status folder_list(struct blob_source *source, struct base_error *error)
{
    DIR *folder = opendir(source->path);
    const struct dirent *entry = NULL;
    enum base_status status = BASE_OK;
    if (folder == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: %s", source->path, strerror(errno));
    }
    source->files = calloc(BLOB_FILES_FOLDER_MAX, sizeof(*source->files));
    if (source->files == NULL) {
        status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    while (status == BASE_OK && (entry = readdir(folder)) != NULL) {
        status = folder_add(source, entry->d_name, error);
    }
    (void)closedir(folder);
    if (status == BASE_OK && source->count == 0) {
        status = base_error_set(error, BASE_ERR_INVALID, "%.100s: no file in it", source->path);
    }
    if (status == BASE_OK) {
        qsort(source->files, source->count, sizeof(*source->files), by_name);
    }
    return status;
}

static enum base_status source_open(struct blob_source *source, struct base_error *error)
{
    struct stat about;
    if (stat(source->path, &about) == 0 && S_ISDIR(about.st_mode)) {
        return folder_list(source, error);
    }
    return base_regular_look(source->path, true, error);
}

enum base_status blob_files_add(struct blob_files *files, const char *text,
                                struct base_error *error)
{
    const char *equals = strchr(text, '=');
    struct base_str name = {text, equals != NULL ? (size_t)(equals - text) : 0};
    if (equals == NULL || !name_ok(name) || strlen(equals + 1) >= BLOB_FILES_PATH_MAX ||
        equals[1] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "'%.60s' is not NAME=PATH with a name as " BLOB_FILES_FORM
                              " of at most %d characters",
                              text, DEV_BLOB_NAME_MAX);
    }
    for (uint32_t i = 0; i < files->count; i++) {
        if (base_str_equal(base_str_of(files->sources[i]->name), name)) {
            return base_error_set(error, BASE_ERR_INVALID, "'%.*s' is there twice", (int)name.size,
                                  name.data);
        }
    }
    if (files->count == DEV_BLOBS_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "more than %d names", DEV_BLOBS_MAX);
    }
    struct blob_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    (void)snprintf(source->name, sizeof(source->name), "%.*s", (int)name.size, name.data);
    (void)snprintf(source->path, sizeof(source->path), "%s", equals + 1);
    enum base_status status = source_open(source, error);
    if (status != BASE_OK) {
        source_free(source);
        return status;
    }
    files->sources[files->count++] = source;
    uint32_t turns = source->files != NULL ? source->count : 1;
    files->turns = turns > files->turns ? turns : files->turns;
    return BASE_OK;
}

enum base_status blob_files_add_all(struct blob_files *files, const char *texts, char between,
                                    struct base_error *error)
{
    const char ends[] = {between, '\0'};
    char one[DEV_BLOB_NAME_MAX + BLOB_FILES_PATH_MAX + 4];
    while (*texts != '\0') {
        size_t size = strcspn(texts, ends);
        size_t taken = size < sizeof(one) ? size : sizeof(one) - 1; // what is longer is refused
        memcpy(one, texts, taken);
        one[taken] = '\0';
        BASE_TRY(blob_files_add(files, one, error));
        texts += size + (texts[size] == between ? 1 : 0);
    }
    return BASE_OK;
}

// ---- Reading

// A set while it is read: everything that was allocated for it.
struct read_set {
    struct dev_blob_set set; // first: what callers have
    struct dev_blob blobs[DEV_BLOBS_MAX];
    char names[DEV_BLOBS_MAX][DEV_BLOB_NAME_MAX + 1];
    uint8_t *bytes[DEV_BLOBS_MAX]; // malloc
};

void blob_files_free(const struct dev_blob_set *set)
{
    struct read_set *read = (struct read_set *)(uintptr_t)set;
    for (uint32_t i = 0; read != NULL && i < DEV_BLOBS_MAX; i++) {
        free(read->bytes[i]);
    }
    free(read);
}

// The whole file, at most `max` bytes of it.
static enum base_status file_read(const char *path, size_t max, struct dev_blob *out,
                                  struct base_error *error)
{
    FILE *file = NULL;
    struct stat about;
    BASE_TRY(base_regular_stream(path, &file, error));
    enum base_status status = BASE_OK;
    uint8_t *bytes = NULL;
    if (fstat(fileno(file), &about) != 0) {
        status = base_error_set(error, BASE_ERR_IO, "%.100s: %s", path, strerror(errno));
    } else if ((uint64_t)about.st_size > max) {
        status =
            base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: with the others more than %zu MiB",
                           path, DEV_BLOBS_BYTES_MAX >> 20);
    } else if ((bytes = malloc((size_t)about.st_size + 1)) == NULL) {
        status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    } else {
        out->size = fread(bytes, 1, (size_t)about.st_size, file);
        out->bytes = bytes;
        if (ferror(file) != 0) {
            status = base_error_set(error, BASE_ERR_IO, "%.100s: it cannot be read", path);
        }
    }
    (void)fclose(file);
    if (status != BASE_OK) {
        free(bytes);
    }
    return status;
}

enum base_status blob_files_read(const struct blob_files *files, uint64_t turn,
                                 struct dev_blob_set **out_set, struct base_error *error)
{
    struct read_set *read = calloc(1, sizeof(*read));
    size_t left = DEV_BLOBS_BYTES_MAX;
    enum base_status status = BASE_OK;
    if (read == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    read->set.blobs = read->blobs;
    for (uint32_t i = 0; i < files->count && status == BASE_OK; i++) {
        const struct blob_source *source = files->sources[i];
        const char *path =
            source->files != NULL ? source->files[turn % source->count] : source->path;
        struct dev_blob *blob = &read->blobs[i];
        status = file_read(path, left, blob, error);
        if (status == BASE_OK) {
            read->bytes[i] = (uint8_t *)(uintptr_t)blob->bytes;
            memcpy(read->names[i], source->name, sizeof(read->names[i]));
            blob->name = base_str_of(read->names[i]);
            left -= blob->size;
            read->set.count++;
        }
    }
    if (status != BASE_OK) {
        blob_files_free(&read->set);
        return status;
    }
    *out_set = &read->set;
    return BASE_OK;
}
