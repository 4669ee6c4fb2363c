// Reads the folder of models. gw_infer_service_new and gw_infer_load call, on the main thread or a
// background thread. Every folder below DIR is opened by its name in the one above it, without
// following links, so what is loaded lies where it seems to. Which versions are served is decided
// here, by what is on disk and what model.conf asks for.
#include "infer/infer_repository.h"

#include "base/os/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum base_status open_dir(const char *dir, int *out_fd, struct base_error *error)
{
    *out_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*out_fd >= 0) {
        return BASE_OK;
    }
    enum base_status status = errno == ENOENT    ? BASE_ERR_NOT_FOUND
                              : errno == ENOTDIR ? BASE_ERR_INVALID
                                                 : BASE_ERR_IO;
    return base_error_set(error, status, "%.80s: %s", dir, strerror(errno));
}

// A folder in an open one. NOT_FOUND, INVALID: a link, or no folder.
static enum base_status open_below(int above, const char *name, int *out_fd)
{
    *out_fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*out_fd >= 0) {
        return BASE_OK;
    }
    return errno == ENOENT                      ? BASE_ERR_NOT_FOUND
           : errno == ENOTDIR || errno == ELOOP ? BASE_ERR_INVALID
                                                : BASE_ERR_IO;
}

// Each entry of the folder to `take`, which says when it has enough. The descriptor is used up.
static enum base_status walk(int fd, enum base_status (*take)(void *ctx, const char *name),
                             void *ctx)
{
    DIR *folder = fdopendir(fd);
    enum base_status status = BASE_OK;
    const struct dirent *entry;
    uint32_t seen = 0;
    if (folder == NULL) {
        close(fd);
        return BASE_ERR_IO;
    }
    while (status == BASE_OK && (entry = readdir(folder)) != NULL) {
        status = ++seen > GW_INFER_FOLDER_MAX ? BASE_ERR_LIMIT : take(ctx, entry->d_name);
    }
    closedir(folder);
    return status;
}

// ---- All models

struct listing {
    int dir;
    struct gw_infer_names *names;
};

// The name, or what is told of one that no model can have.
static void show_name(const char *name, char out[GW_INFER_MODEL_NAME_MAX + 1])
{
    size_t size = 0;
    for (; name[size] != '\0' && size < GW_INFER_MODEL_NAME_MAX; size++) {
        out[size] = name[size] >= ' ' && name[size] <= '~' ? name[size] : '?';
    }
    if (name[size] != '\0') {
        out[size - 1] = '?';
    }
    out[size] = '\0';
}

static enum base_status take_model(void *ctx, const char *name)
{
    struct listing *listing = ctx;
    struct gw_infer_names *names = listing->names;
    struct stat about;
    if (name[0] == '.' || fstatat(listing->dir, name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(about.st_mode)) {
        return BASE_OK;
    }
    if (names->count == GW_INFER_MODELS_MAX) {
        return BASE_ERR_LIMIT;
    }
    show_name(name, names->names[names->count++]);
    return BASE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

enum base_status gw_infer_repository_list(const char *dir, struct gw_infer_names *out,
                                          struct base_error *error)
{
    struct listing listing = {.names = out};
    out->count = 0;
    BASE_TRY(open_dir(dir, &listing.dir, error));
    enum base_status status = walk(listing.dir, take_model, &listing);
    if (status == BASE_ERR_LIMIT) {
        return base_error_set(error, status, "%.80s: more than %u models or %u entries", dir,
                              GW_INFER_MODELS_MAX, GW_INFER_FOLDER_MAX);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.80s: cannot be read", dir);
    }
    qsort(out->names, out->count, sizeof(out->names[0]), by_name);
    return BASE_OK;
}

// ---- One model

bool gw_infer_repository_has(const char *dir, const char *name)
{
    struct stat about;
    int above = -1;
    if (open_dir(dir, &above, NULL) != BASE_OK) {
        return false;
    }
    bool has = fstatat(above, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
    close(above);
    return has;
}

static enum base_status read_settings(int folder, struct gw_infer_found *found,
                                      struct base_error *error)
{
    char text[GW_INFER_SETTINGS_BYTES + 1];
    int fd = -1;
    struct base_error why = {0};
    enum base_status status =
        base_regular_openat(folder, "model.conf", O_RDONLY | O_NOFOLLOW, &fd, &why);
    if (status == BASE_ERR_NOT_FOUND) {
        return BASE_OK;
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.40s/%s", found->name, why.text);
    }
    ssize_t size = read(fd, text, sizeof(text)); // a regular file gives all it has
    close(fd);
    if (size < 0 || (size_t)size > GW_INFER_SETTINGS_BYTES) {
        return base_error_set(error, size < 0 ? BASE_ERR_IO : BASE_ERR_TOO_LARGE,
                              "%.40s/model.conf: %s", found->name,
                              size < 0 ? strerror(errno) : "over 16384 bytes");
    }
    status = gw_infer_settings_parse(&found->settings, (struct base_str){text, (size_t)size}, &why);
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%.40s/model.conf:%u: %s", found->name,
                                              why.line, why.text);
}

static bool wanted(const struct gw_infer_settings *settings, uint64_t version)
{
    for (uint32_t i = 0; i < settings->version_count; i++) {
        if (settings->versions[i] == version) {
            return true;
        }
    }
    return settings->version_count == 0;
}

// Keeps the versions in order: those to be served, all of which must fit; without a policy the
// highest there are.
static enum base_status take_version(void *ctx, const char *name)
{
    struct gw_infer_found *found = ctx;
    const struct gw_infer_settings *settings = &found->settings;
    uint64_t version = 0;
    if (!gw_infer_version_number(base_str_of(name), &version) || !wanted(settings, version)) {
        return BASE_OK;
    }
    bool several = settings->all_versions || settings->version_count > 0;
    uint32_t at = found->known_count;
    if (at == GW_INFER_VERSIONS_MAX) {
        if (several || found->versions[--at] > version) {
            return several ? BASE_ERR_LIMIT : BASE_OK;
        }
    } else {
        found->known_count++;
    }
    found->version_count = several ? found->known_count : 1;
    for (; at > 0 && found->versions[at - 1] < version; at--) {
        found->versions[at] = found->versions[at - 1];
    }
    found->versions[at] = version;
    return BASE_OK;
}

static enum base_status look(int folder, struct gw_infer_found *found, struct base_error *error)
{
    BASE_TRY(read_settings(folder, found, error));
    int again = dup(folder); // walk closes what it is given
    enum base_status status = again >= 0 ? walk(again, take_version, found) : BASE_ERR_IO;
    if (status == BASE_ERR_LIMIT) {
        return base_error_set(error, status, "%.40s: more than %u versions to serve", found->name,
                              GW_INFER_VERSIONS_MAX);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.40s: the folder cannot be read", found->name);
    }
    if (found->version_count == 0 || found->version_count < found->settings.version_count) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "%.40s: no folder of a version that is to be served (1, 2, ...)",
                              found->name);
    }
    return BASE_OK;
}

enum base_status gw_infer_repository_look(const char *dir, struct base_str name,
                                          struct gw_infer_found *out, struct base_error *error)
{
    int above = -1;
    int folder = -1;
    if (!gw_infer_name_ok(name)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "'%.*s': a model's name is 1 to %u of A-Z a-z 0-9 . _ - with no dot "
                              "in front",
                              name.size < 60 ? (int)name.size : 60, name.data,
                              GW_INFER_MODEL_NAME_MAX);
    }
    memset(out, 0, sizeof(*out));
    memcpy(out->name, name.data, name.size);
    gw_infer_settings_defaults(&out->settings);
    BASE_TRY(open_dir(dir, &above, error));
    enum base_status status = open_below(above, out->name, &folder);
    close(above);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.60s: %s", out->name,
                              status == BASE_ERR_NOT_FOUND ? "no such model in the repository"
                              : status == BASE_ERR_INVALID ? "is no folder"
                                                           : "cannot be opened");
    }
    status = look(folder, out, error);
    close(folder);
    return status;
}

// ---- One version

struct place {
    const char *dir;
    const char *model;
    char version[GW_INFER_VERSION_TEXT];
};

static void place_of(const char *dir, const char *model, uint64_t version, struct place *out)
{
    *out = (struct place){.dir = dir, .model = model};
    (void)snprintf(out->version, sizeof(out->version), "%llu", (unsigned long long)version);
}

// A file of the version, where it seems to be. What the error says is without the place.
static enum base_status open_file(const struct place *place, const char *name, int *out_fd,
                                  struct base_error *error)
{
    int above = -1;
    int folder = -1;
    int inside = -1;
    struct base_error why = {.text = "no folder of it, or a link"};
    BASE_TRY(open_dir(place->dir, &above, error));
    enum base_status status = open_below(above, place->model, &folder);
    close(above);
    if (status == BASE_OK) {
        status = open_below(folder, place->version, &inside);
        close(folder);
    }
    if (status == BASE_OK) {
        status = base_regular_openat(inside, name, O_RDONLY | O_NOFOLLOW, out_fd, &why);
        close(inside);
    }
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s", why.text);
}

enum base_status gw_infer_repository_load(const char *dir, const struct gw_infer_found *found,
                                          uint64_t version, struct eng_model **out_model,
                                          struct base_error *error)
{
    char path[PATH_MAX];
    int fd = -1;
    struct place place;
    struct base_error why = {0};
    place_of(dir, found->name, version, &place);
    int size = snprintf(path, sizeof(path), "%s/%s/%s/model.onnx", dir, found->name, place.version);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.40s/%s: the path is too long",
                              found->name, place.version);
    }
    const struct eng_model_options options = {.file_bytes_max = GW_INFER_FILE_MAX,
                                              .copy_files = true};
    enum base_status status = open_file(&place, "model.onnx", &fd, &why);
    if (status == BASE_OK) {
        close(fd); // the engine opens it again, and what lies beside it
        status = eng_model_load(path, &options, out_model, &why);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%.40s/%s: %s", found->name,
                                              place.version, why.text);
}

enum base_status gw_infer_repository_warmup(const char *dir, const struct gw_infer_source *source,
                                            struct base_arena *arena, struct base_str *out,
                                            struct base_error *error)
{
    int fd = -1;
    struct stat is;
    struct place place;
    place_of(dir, source->found->name, source->number, &place);
    BASE_TRY(open_file(&place, GW_INFER_WARMUP_FILE, &fd, error));
    enum base_status status = BASE_OK;
    if (fstat(fd, &is) != 0) {
        status = base_error_set(error, BASE_ERR_IO, GW_INFER_WARMUP_FILE ": %s", strerror(errno));
    } else if ((uint64_t)is.st_size > GW_INFER_WARMUP_BYTES_MAX) {
        status = base_error_set(error, BASE_ERR_TOO_LARGE, GW_INFER_WARMUP_FILE ": over %zu bytes",
                                GW_INFER_WARMUP_BYTES_MAX);
    } else {
        char *text = base_arena_alloc(arena, (size_t)is.st_size + 1);
        ssize_t size = text != NULL ? read(fd, text, (size_t)is.st_size) : -1;
        *out = (struct base_str){text, size > 0 ? (size_t)size : 0};
        status =
            text == NULL
                ? base_error_set(error, BASE_ERR_NOMEM, GW_INFER_WARMUP_FILE ": no memory for it")
            : size < 0
                ? base_error_set(error, BASE_ERR_IO, GW_INFER_WARMUP_FILE ": %s", strerror(errno))
                : BASE_OK;
    }
    close(fd);
    return status;
}
