// The two files of a device's record; their format is in the header. Called by posix_storage.c on
// the runtime's thread; agent_status.c peeks from another process while the agent runs. In a file
// apart from blobs because a record is small, replaced each time and must come back whole: a new
// generation is written beside, flushed and renamed over the older one, and a read takes the newest
// that is whole. What is not whole was damaged, for a kill leaves two whole ones; it is set aside,
// and the older one is mended from the newest.
#include "posix/store/posix_state.h"

#include "posix/store/posix_aside.h"
#include "posix/store/posix_state_old.h"

#include "base/cursor.h"
#include "base/os/errno_status.h"
#include "base/record_seal.h"
#include "base/os/regular_file.h"
#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       "WLS1"
#define MAGIC_BYTES 4u
#define TABLE       "state"
#define HEAD_TABLE  "state head"
#define FRESH       "new"
#define ASIDE       "state.damaged"
#define FILE_MODE   0600
#define DIR_MODE    0700

static const char *const names[2] = {"even", "odd"};

static struct base_span generation_key(const uint64_t *generation)
{
    return (struct base_span){(const uint8_t *)generation, sizeof(*generation)};
}

// ---- Reading

static enum base_status file_read(int folder, const char *name, uint8_t *out, size_t *out_size)
{
    int fd = -1;
    size_t size = 0;
    ssize_t step = 1;
    enum base_status status = base_regular_openat(folder, name, O_RDONLY | O_NOFOLLOW, &fd, NULL);
    if (status != BASE_OK) {
        return status == BASE_ERR_INVALID ? BASE_ERR_CORRUPT : status;
    }
    while (size < POSIX_STATE_FILE_MAX && step > 0) {
        step = read(fd, out + size, POSIX_STATE_FILE_MAX - size);
        size += step > 0 ? (size_t)step : 0;
        step = step < 0 && errno == EINTR ? 1 : step;
    }
    (void)close(fd);
    *out_size = size;
    return step >= 0 ? BASE_OK : BASE_ERR_CORRUPT; // what cannot be read is as bad as damaged
}

// The generation of a file whose head is whole; 0.
static uint64_t head_parse(const uint8_t *bytes, size_t size, uint32_t *out_size)
{
    struct base_reader reader;
    uint8_t seal[BASE_SEAL_BYTES];
    if (size < POSIX_STATE_HEAD_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) {
        return 0;
    }
    const struct base_span head = {bytes, POSIX_STATE_HEAD_BYTES - BASE_SEAL_BYTES};
    base_record_seal(HEAD_TABLE, (struct base_span){NULL, 0}, head, seal);
    if (memcmp(seal, bytes + head.size, BASE_SEAL_BYTES) != 0) {
        return 0;
    }
    base_reader_init(&reader, bytes + MAGIC_BYTES, head.size - MAGIC_BYTES);
    *out_size = base_reader_u32(&reader);
    return base_reader_u64(&reader);
}

// Reads one of the two into state->bytes. CORRUPT: *out_generation is what its head says, 0 when
// that is not whole either.
static enum base_status slot_read(struct posix_state *state, unsigned slot,
                                  uint64_t *out_generation, struct base_span *out)
{
    size_t size = 0;
    uint32_t said = 0;
    *out_generation = 0;
    BASE_TRY(file_read(state->folder, names[slot], state->bytes, &size));
    uint64_t generation = head_parse(state->bytes, size, &said);
    if (generation == 0 || generation % 2 != slot) {
        return BASE_ERR_CORRUPT;
    }
    *out_generation = generation;
    const struct base_span sealed = {state->bytes + POSIX_STATE_HEAD_BYTES,
                                     size - POSIX_STATE_HEAD_BYTES};
    if (sealed.size != (size_t)said + BASE_SEAL_BYTES) {
        return BASE_ERR_CORRUPT;
    }
    return base_record_unseal(TABLE, generation_key(&generation), sealed, out);
}

// ---- Opening

// An earlier one, or what an earlier release set aside, makes room; folders stay where they are.
static enum base_status set_aside(struct posix_state *state, unsigned slot)
{
    (void)unlinkat(state->device, ASIDE "/data.mdb", 0);
    (void)unlinkat(state->device, ASIDE "/lock.mdb", 0);
    (void)unlinkat(state->device, ASIDE, AT_REMOVEDIR);
    if (renameat(state->folder, names[slot], state->device, ASIDE) == 0) {
        base_log_warn(state->log, "device",
                      "stored state: state/%s is damaged; set aside as " ASIDE, names[slot]);
        return BASE_OK;
    }
    if (unlinkat(state->folder, names[slot], 0) == 0) {
        base_log_warn(state->log, "device", "stored state: state/%s is damaged; removed",
                      names[slot]);
        return BASE_OK;
    }
    return posix_set_aside(state->folder, names[slot], "state", state->log);
}

// Where the next record is written: a file there is of a kill, and a folder in the way.
static enum base_status fresh_look(struct posix_state *state)
{
    struct stat about;
    bool folder =
        fstatat(state->folder, FRESH, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
    return folder ? posix_set_aside(state->folder, FRESH, "state", state->log) : BASE_OK;
}

static enum base_status slots_look(struct posix_state *state)
{
    uint64_t generations[2] = {0, 0};
    enum base_status found[2];
    for (unsigned slot = 0; slot < 2; slot++) {
        struct base_span bytes;
        found[slot] = slot_read(state, slot, &generations[slot], &bytes);
        state->whole[slot] = found[slot] == BASE_OK;
        if (found[slot] == BASE_ERR_CORRUPT) {
            BASE_TRY(set_aside(state, slot));
        } else if (found[slot] != BASE_OK && found[slot] != BASE_ERR_NOT_FOUND) {
            return found[slot];
        }
    }
    for (unsigned slot = 0; slot < 2; slot++) {
        if (state->whole[slot] && generations[slot] > state->generation) {
            state->generation = generations[slot];
        }
    }
    unsigned other = state->generation % 2 == 0 ? 1 : 0;
    bool older = generations[other] != 0 && generations[other] < state->generation;
    bool first = state->generation == 1 && found[other] == BASE_ERR_NOT_FOUND;
    state->doubt = found[0] != found[1] && !state->whole[other] && !older && !first;
    state->doubt = state->doubt || (state->generation == 0 && found[0] == BASE_ERR_CORRUPT);
    if (state->doubt) {
        base_log_warn(state->log, "device", "stored state: the device goes on from %s",
                      state->generation > 0 ? "the record before" : "nothing");
    }
    return BASE_OK;
}

// The older one was lost: the newest is written once more, in its place.
static void older_mend(struct posix_state *state)
{
    unsigned slot = state->generation % 2;
    uint64_t generation = 0;
    struct base_span bytes;
    if (!state->doubt && state->generation > 1 && !state->whole[1 - slot] &&
        slot_read(state, slot, &generation, &bytes) == BASE_OK) {
        enum base_status status = posix_state_save(state, bytes.data, bytes.size);
        (void)status; // the next save does the same
    }
}

enum base_status posix_state_open(struct posix_state *state, int device, const char *dir,
                                  const struct base_log *log)
{
    struct stat info;
    state->device = device;
    state->folder = -1;
    state->log = log;
    if (snprintf(state->dir, sizeof(state->dir), "%s", dir) >= (int)sizeof(state->dir)) {
        return BASE_ERR_TOO_LARGE;
    }
    if (mkdirat(device, "state", DIR_MODE) != 0 && errno != EEXIST) {
        return base_status_of_errno(errno);
    }
    state->folder = openat(device, "state", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state->folder < 0) {
        return base_status_of_errno(errno);
    }
    BASE_TRY(fresh_look(state));
    BASE_TRY(slots_look(state));
    older_mend(state);
    state->old_form = state->generation == 0 && fstatat(state->folder, "data.mdb", &info, 0) == 0;
    return BASE_OK;
}

void posix_state_close(struct posix_state *state)
{
    if (state->folder >= 0) {
        (void)close(state->folder);
        state->folder = -1;
    }
}

// ---- Looking on

enum base_status posix_state_peek(int device, uint8_t *out, size_t capacity, size_t *out_size,
                                  uint64_t *out_generation)
{
    struct posix_state state = {.device = device};
    struct stat info;
    enum base_status result = BASE_ERR_NOT_FOUND;
    uint64_t newest = 0;
    state.folder = openat(device, "state", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state.folder < 0) {
        return base_status_of_errno(errno);
    }
    for (unsigned slot = 0; slot < 2; slot++) {
        struct base_span bytes;
        uint64_t generation = 0;
        enum base_status status = slot_read(&state, slot, &generation, &bytes);
        if (status == BASE_OK && generation > newest && bytes.size <= capacity) {
            memcpy(out, bytes.data, bytes.size);
            *out_size = bytes.size;
            newest = generation;
        } else if (status != BASE_OK && status != BASE_ERR_NOT_FOUND) {
            result = status;
        }
    }
    bool old = newest == 0 && fstatat(state.folder, "data.mdb", &info, 0) == 0;
    posix_state_close(&state);
    *out_generation = newest;
    return newest > 0 ? BASE_OK : old ? BASE_ERR_UNSUPPORTED : result;
}

// ---- The port's calls

// The environment was set aside with its folder: an empty one is in its place.
static enum base_status old_load(struct posix_state *state, uint8_t *out, size_t capacity,
                                 size_t *out_size)
{
    const struct posix_state_old old = {
        .device = state->device, .dir = state->dir, .log = state->log};
    enum base_status status = posix_state_old_load(&old, out, capacity, out_size);
    if (status == BASE_ERR_CORRUPT) {
        state->old_form = false;
        posix_state_close(state);
        state->folder =
            openat(state->device, "state", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return status;
}

enum base_status posix_state_load(struct posix_state *state, bool before, uint8_t *out,
                                  size_t capacity, size_t *out_size)
{
    struct base_span bytes = {NULL, 0};
    uint64_t generation = 0;
    uint64_t wanted = state->generation - (before && !state->doubt ? 1 : 0);
    if (!before && state->doubt) {
        return BASE_ERR_CORRUPT;
    }
    if (!before && state->old_form) {
        return old_load(state, out, capacity, out_size);
    }
    if (state->generation == 0 || wanted == 0 || !state->whole[wanted % 2]) {
        return BASE_ERR_NOT_FOUND;
    }
    BASE_TRY(slot_read(state, wanted % 2, &generation, &bytes));
    if (bytes.size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    memcpy(out, bytes.data, bytes.size);
    *out_size = bytes.size;
    return BASE_OK;
}

static size_t file_make(uint8_t *out, uint64_t generation, const uint8_t *bytes, size_t size)
{
    struct base_writer writer;
    base_writer_init(&writer, out, POSIX_STATE_HEAD_BYTES);
    base_writer_bytes(&writer, MAGIC, MAGIC_BYTES);
    base_writer_u32(&writer, (uint32_t)size);
    base_writer_u64(&writer, generation);
    const struct base_span head = {out, base_writer_size(&writer)};
    base_record_seal(HEAD_TABLE, (struct base_span){NULL, 0}, head, out + head.size);
    memmove(out + POSIX_STATE_HEAD_BYTES, bytes, size); // which may be there already
    base_record_seal(TABLE, generation_key(&generation), (struct base_span){bytes, size},
                     out + POSIX_STATE_HEAD_BYTES + size);
    return POSIX_STATE_HEAD_BYTES + size + BASE_SEAL_BYTES;
}

static enum base_status file_write(int folder, const uint8_t *bytes, size_t size)
{
    (void)unlinkat(folder, FRESH, 0); // left by a kill, or of another kind
    int fd = openat(folder, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    enum base_status status = fd >= 0 ? BASE_OK : base_status_of_errno(errno);
    if (status == BASE_OK) {
        status = base_write_all(fd, bytes, size);
    }
    if (status == BASE_OK && fdatasync(fd) != 0) {
        status = base_status_of_errno(errno);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

enum base_status posix_state_save(struct posix_state *state, const uint8_t *bytes, size_t size)
{
    uint64_t generation = state->generation + 1;
    unsigned slot = generation % 2;
    if (size > DEV_STATE_BYTES_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    size_t whole = file_make(state->bytes, generation, bytes, size);
    enum base_status status = file_write(state->folder, state->bytes, whole);
    if (status == BASE_OK && (renameat(state->folder, FRESH, state->folder, names[slot]) != 0 ||
                              fsync(state->folder) != 0)) {
        status = base_status_of_errno(errno);
    }
    if (status != BASE_OK) {
        (void)unlinkat(state->folder, FRESH, 0);
        return status;
    }
    state->generation = generation;
    state->whole[slot] = true;
    state->doubt = false;
    if (state->old_form) {
        state->old_form = false;
        posix_state_old_remove(state->device);
    }
    return BASE_OK;
}
