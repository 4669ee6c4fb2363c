// The state of a device's folder, for people and programs (--status DIR, --json). Called by
// device_agent.c instead of a run, on its main thread. Everything is gathered into one JSON object,
// and the text is written from that, so that the two cannot say different things. The record is
// read through device/state_record.h, names of versions from the manifests that lie among the
// blobs. An agent may run meanwhile: it is looked for in /proc/locks, as trying its lock would be
// in its way, and content that is not there or not whole is a version without a name.
#include "agent_status.h"

#include "base/carve.h"
#include "base/clock.h"
#include "base/os/regular_file.h"
#include "base/text/terminal.h"
#include "device/port.h"
#include "device/state_record.h"
#include "posix/posix_enroll.h"
#include "posix/store/posix_state.h"
#include "wire/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define DATE_MAX  24
#define NAMES_MAX 256 // versions whose names are looked up
#define LOCKS_MAX 256 // characters of a line of /proc/locks

// A version whose manifest lies here.
struct named {
    uint64_t version_id;
    char text[WIRE_TASK_NAME_MAX + WIRE_VERSION_TEXT_MAX + 2];
};

struct look {
    const char *dir;
    int folder;
    int blobs;
    struct dev_runtime *record;
    struct named names[NAMES_MAX];
    uint32_t name_count;
    struct wire_manifest manifest;
    uint8_t bytes[WIRE_MANIFEST_BYTES_MAX];
};

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *hex_or_null(uint64_t value)
{
    char text[WIRE_DEVICE_HEX + 1];
    wire_device_hex(value, text);
    return value != 0 ? json_string(text) : json_null();
}

static json_t *digest_or_null(const struct wire_sha256 *digest)
{
    char text[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(digest, text);
    return wire_sha256_is_zero(digest) ? json_null() : json_string(text);
}

// Seconds since 1970 as a date; null for 0.
static json_t *date_or_null(uint64_t seconds)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    char text[DATE_MAX] = "";
    if (seconds != 0 && gmtime_r(&when, &parts) != NULL) {
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    return text[0] != '\0' ? json_string(text) : json_null();
}

// ---- What lies there

// Does a process hold the folder's lock? Asked of the kernel: to try it would be in an agent's way.
static bool agent_runs(const struct look *look)
{
    struct stat info;
    char line[LOCKS_MAX];
    char wanted[64];
    bool found = false;
    if (fstatat(look->folder, "lock", &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    (void)snprintf(wanted, sizeof(wanted), " %02x:%02x:%ju ", major(info.st_dev),
                   minor(info.st_dev), (uintmax_t)info.st_ino);
    FILE *locks = fopen("/proc/locks", "re");
    while (locks != NULL && !found && fgets(line, sizeof(line), locks) != NULL) {
        found = strstr(line, " FLOCK ") != NULL && strstr(line, wanted) != NULL;
    }
    if (locks != NULL) {
        (void)fclose(locks);
    }
    return found;
}

static size_t content_read(struct look *look, const struct wire_sha256 *name)
{
    char hex[WIRE_SHA256_HEX + 1];
    int fd = -1;
    size_t size = 0;
    ssize_t step = 1;
    wire_sha256_hex(name, hex);
    if (look->blobs < 0 ||
        base_regular_openat(look->blobs, hex, O_RDONLY | O_NOFOLLOW, &fd, NULL) != BASE_OK) {
        return 0;
    }
    while (size < sizeof(look->bytes) && step > 0) {
        step = read(fd, look->bytes + size, sizeof(look->bytes) - size);
        size += step > 0 ? (size_t)step : 0;
    }
    (void)close(fd);
    return size;
}

// Into look->manifest. False: it is not here, or not whole.
static bool manifest_read(struct look *look, const struct wire_sha256 *name)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct dev_hash_state state;
    struct wire_sha256 digest;
    size_t size = wire_sha256_is_zero(name) ? 0 : content_read(look, name);
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, look->bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    return size > 0 && wire_sha256_equal(&digest, name) &&
           wire_manifest_parse(look->bytes, size, &look->manifest) == BASE_OK;
}

// "1.2.0"; null: the manifest does not say.
static json_t *version_or_null(struct look *look, const struct wire_sha256 *name)
{
    return manifest_read(look, name)
               ? json_stringn(look->manifest.version.data, look->manifest.version.size)
               : json_null();
}

// "shop/score 1.2.0", where the manifest of the version with this id is here; null.
static json_t *name_or_null(const struct look *look, uint64_t version_id)
{
    for (uint32_t i = 0; i < look->name_count && version_id != 0; i++) {
        if (look->names[i].version_id == version_id) {
            return json_string(look->names[i].text);
        }
    }
    return json_null();
}

// What the versions are called whose manifests lie here.
static void names_read(struct look *look)
{
    int fd = look->blobs >= 0 ? openat(look->blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    struct wire_sha256 name;
    const struct dirent *entry;
    while (folder != NULL && look->name_count < NAMES_MAX && (entry = readdir(folder)) != NULL) {
        if (wire_sha256_parse(base_str_of(entry->d_name), &name) == BASE_OK &&
            manifest_read(look, &name)) {
            struct named *named = &look->names[look->name_count++];
            named->version_id = wire_version_id(&name);
            (void)snprintf(named->text, sizeof(named->text), "%.*s %.*s",
                           (int)look->manifest.task_name.size, look->manifest.task_name.data,
                           (int)look->manifest.version.size, look->manifest.version.data);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

static json_t *task_json(struct look *look, const struct dev_record_task *task)
{
    uint64_t now_s = base_clock_wall_us() / 1000000;
    bool leased = task->lease_until_s > 0;
    json_t *left =
        leased ? json_integer((json_int_t)task->lease_until_s - (json_int_t)now_s) : json_null();
    json_t *one = json_pack(
        "{s:s%, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "task", task->name.data, task->name.size,
        "state", task->state, "shadow", (int)task->shadow, "active", digest_or_null(&task->active),
        "active_version", version_or_null(look, &task->active), "previous",
        digest_or_null(&task->kept), "previous_version", version_or_null(look, &task->kept),
        "accepted", digest_or_null(&task->accepted), "accepted_version",
        version_or_null(look, &task->accepted));
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "release_counter",
        number(task->active_counter), "newest_counter", number(task->newest_counter), "floor",
        number(task->floor), "lease_until", date_or_null(task->lease_until_s), "lease_left_s", left,
        "refused_version_id", hex_or_null(task->blocked), "refused_version",
        name_or_null(look, task->blocked), "last_run", date_or_null(task->last_run_s), "runs",
        number(task->runs), "crashes", number(task->crashes), "running", (int)task->running);
    if (one != NULL && more != NULL) {
        (void)json_object_update(one, more);
    }
    json_decref(more);
    return one;
}

static json_t *lists_json(struct look *look)
{
    json_t *tasks = json_array();
    json_t *refusals = json_array();
    json_t *stopped = json_array();
    struct dev_record_task task;
    uint64_t id = 0;
    uint64_t floor = 0;
    bool stands = false;
    for (uint32_t i = 0; dev_record_task(look->record, i, &task) == BASE_OK; i++) {
        (void)json_array_append_new(tasks, task_json(look, &task));
    }
    for (uint32_t i = 0; dev_record_refusal(look->record, i, &id, &stands) == BASE_OK; i++) {
        (void)json_array_append_new(refusals,
                                    json_pack("{s:o, s:o, s:b}", "version", name_or_null(look, id),
                                              "mark", hex_or_null(id), "stands", (int)stands));
    }
    for (uint32_t i = 0; dev_record_stopped(look->record, i, &id, &floor) == BASE_OK; i++) {
        (void)json_array_append_new(
            stopped, json_pack("{s:o, s:o}", "task_id", hex_or_null(id), "floor", number(floor)));
    }
    return json_pack("{s:o, s:o, s:o}", "tasks", tasks, "refusals", refusals, "stopped", stopped);
}

// Where it lies. JSON is UTF-8, which a name need not be: then with its other bytes as "\\xff".
static json_t *dir_json(const struct look *look)
{
    char *text = NULL;
    size_t size = 0;
    json_t *dir = json_string(look->dir);
    FILE *file = dir == NULL ? open_memstream(&text, &size) : NULL;
    for (const char *at = look->dir; file != NULL && *at != '\0'; at++) {
        bool plain = *at >= ' ' && *at <= '~';
        (void)fprintf(file, plain ? "%c" : "\\x%02x", (unsigned char)*at);
    }
    if (file != NULL && fclose(file) == 0) {
        dir = json_stringn(text, size);
    }
    free(text);
    return dir;
}

static json_t *device_json(const struct look *look)
{
    struct posix_credential credential;
    struct base_error error;
    return posix_credential_load(look->dir, &credential, &error) == BASE_OK
               ? hex_or_null(credential.device_id)
               : json_null();
}

static json_t *status_json(struct look *look, uint64_t generation)
{
    struct dev_record_view view;
    dev_record_view(look->record, &view);
    json_t *root = json_pack(
        "{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "dir", dir_json(look), "device",
        device_json(look), "agent_runs", (int)agent_runs(look), "record", number(generation),
        "root_version", number(view.root_version), "timestamp_version",
        number(view.timestamp_version), "timestamp_expires", date_or_null(view.timestamp_expires_s),
        "checkin_interval_s", number(view.interval_s), "outcomes_waiting", number(view.outcomes));
    json_t *lists = lists_json(look);
    if (root != NULL && lists != NULL) {
        (void)json_object_update(root, lists);
    }
    json_decref(lists);
    return root;
}

// ---- As text

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : otherwise;
}

static unsigned long long number_of(const json_t *object, const char *key)
{
    return (unsigned long long)json_integer_value(json_object_get(object, key));
}

static void version_print(const json_t *task, const char *name, const char *version, FILE *file)
{
    const char *hash = text_of(task, name, NULL);
    if (hash != NULL) {
        (void)fprintf(file, "  %-8s ", name);
        base_terminal_text(file, base_str_of(text_of(task, version, "?")));
        (void)fprintf(file, " %s\n", hash);
    }
}

static void task_print(const json_t *task, FILE *file)
{
    bool pulls = strstr(text_of(task, "state", ""), "pulling") != NULL;
    (void)fprintf(file, "%s %s: %s\n",
                  json_is_true(json_object_get(task, "shadow")) ? "shadow" : "task",
                  text_of(task, "task", "?"), text_of(task, "state", "?"));
    version_print(task, "active", "active_version", file);
    version_print(task, "previous", "previous_version", file);
    if (pulls) {
        version_print(task, "accepted", "accepted_version", file);
    }
    (void)fprintf(file, "  release  %llu, the highest %llu, floor %llu\n",
                  number_of(task, "release_counter"), number_of(task, "newest_counter"),
                  number_of(task, "floor"));
    (void)fprintf(file, "  runs     %llu, the last %s%s\n", number_of(task, "runs"),
                  text_of(task, "last_run", "never"),
                  json_is_true(json_object_get(task, "running")) ? ", one is under way" : "");
    if (number_of(task, "crashes") > 0) {
        (void)fprintf(file, "  crashes  %llu on trial\n", number_of(task, "crashes"));
    }
    const char *lease = text_of(task, "lease_until", NULL);
    if (lease != NULL) {
        json_int_t left = json_integer_value(json_object_get(task, "lease_left_s"));
        (void)fprintf(file,
                      left > 0 ? "  lease    until %s, %lld s from now\n"
                               : "  lease    ran out %s, %lld s ago\n",
                      lease, (long long)(left > 0 ? left : -left));
    }
    const char *refused = text_of(task, "refused_version_id", NULL);
    if (refused != NULL) {
        (void)fprintf(file, "  refuses  ");
        base_terminal_text(file, base_str_of(text_of(task, "refused_version", "a version")));
        (void)fprintf(file, ", which failed here (version id %s)\n", refused);
    }
}

static void text_print(const json_t *root, FILE *file)
{
    size_t i;
    json_t *item;
    (void)fprintf(file, "device %s in ", text_of(root, "device", "without a credential"));
    base_terminal_text(file, base_str_of(text_of(root, "dir", "")));
    (void)fprintf(file, ": %s\n",
                  json_is_true(json_object_get(root, "agent_runs")) ? "its agent runs"
                                                                    : "no agent runs");
    (void)fprintf(file, "record %llu: root %llu, timestamp %llu until %s, %llu outcomes wait\n",
                  number_of(root, "record"), number_of(root, "root_version"),
                  number_of(root, "timestamp_version"), text_of(root, "timestamp_expires", "-"),
                  number_of(root, "outcomes_waiting"));
    json_array_foreach(json_object_get(root, "tasks"), i, item)
    {
        task_print(item, file);
    }
    json_array_foreach(json_object_get(root, "refusals"), i, item)
    {
        (void)fprintf(file, "refused ");
        base_terminal_text(file, base_str_of(text_of(item, "version", "an offer")));
        (void)fprintf(file, "%s (mark %s)\n",
                      json_is_true(json_object_get(item, "stands")) ? ", and gateways are told"
                                                                    : "",
                      text_of(item, "mark", "?"));
    }
    json_array_foreach(json_object_get(root, "stopped"), i, item)
    {
        (void)fprintf(file, "stopped a task: nothing below release %llu comes back (task id %s)\n",
                      number_of(item, "floor"), text_of(item, "task_id", "?"));
    }
}

// ---- All of it

static enum base_status record_open(struct look *look, uint64_t *out_generation, void **out_memory,
                                    struct base_error *error)
{
    const struct dev_config config = {.device_id = 1, .tasks_max = DEV_TASKS_MAX};
    uint8_t bytes[DEV_STATE_BYTES_MAX];
    struct base_span record = {bytes, 0};
    size_t size = 0;
    look->folder = open(look->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (look->folder < 0) {
        return base_error_set(error, errno == ENOENT ? BASE_ERR_NOT_FOUND : BASE_ERR_IO, "%s: %s",
                              look->dir, strerror(errno));
    }
    look->blobs = openat(look->folder, "blobs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum base_status status =
        posix_state_peek(look->folder, bytes, sizeof(bytes), &size, out_generation);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: %s", look->dir,
                              status == BASE_ERR_NOT_FOUND ? "no device has kept its state here"
                              : status == BASE_ERR_UNSUPPORTED
                                  ? "its state is of an earlier release: a start makes it anew"
                                  : base_status_text(status));
    }
    record.size = size;
    size_t needed = dev_runtime_bytes(&config);
    *out_memory = aligned_alloc(16, base_aligned(needed, 16));
    if (*out_memory == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    status = dev_record_open(*out_memory, needed, &config, &record, &look->record);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s: its record is damaged", look->dir);
}

enum base_status agent_status_print(const char *dir, bool json, FILE *file,
                                    struct base_error *error)
{
    struct look *look = calloc(1, sizeof(*look));
    void *memory = NULL;
    uint64_t generation = 0;
    if (look == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    look->dir = dir;
    look->folder = look->blobs = -1;
    enum base_status status = record_open(look, &generation, &memory, error);
    json_t *root = NULL;
    if (status == BASE_OK) {
        names_read(look);
        root = status_json(look, generation);
    }
    if (root != NULL && json) {
        (void)json_dumpf(root, file, JSON_INDENT(2));
        (void)fputc('\n', file);
    } else if (root != NULL) {
        text_print(root, file);
    } else if (status == BASE_OK) {
        status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    if (status == BASE_OK && fflush(file) != 0) {
        status = base_error_set(error, BASE_ERR_IO, "cannot write: %s", strerror(errno));
    }
    json_decref(root);
    if (look->blobs >= 0) {
        (void)close(look->blobs);
    }
    if (look->folder >= 0) {
        (void)close(look->folder);
    }
    free(memory);
    free(look);
    return status;
}
