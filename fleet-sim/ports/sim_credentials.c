// The mapped file of a fleet's credentials. Opened by the coordinator; get and put by the shards,
// each for its own devices.
//
// A record's id is written behind its text: a process that is killed in between leaves a record of
// nobody, and the gateway gives the credential again, as it was never shown.
#include "ports/sim_credentials.h"

#include "base/cursor.h"
#include "base/prng.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE         0600
#define VERSION_PLAIN     1 // without a secret
#define PLAIN_BYTES       16u
#define SECRET_DRAW_BYTES 8u

static const uint8_t magic[8] = {'W', 'S', 'I', 'M', 'C', 'R', 'E', 'D'};

struct sim_credentials {
    int fd;
    uint8_t *map;
    size_t map_bytes;
    size_t header_bytes;
    uint32_t devices;
};

static enum base_status failed(struct base_error *error, const char *path, int number)
{
    return base_error_set(error, number == ENOSPC ? BASE_ERR_FULL : BASE_ERR_IO, "%.100s: %s", path,
                          strerror(number));
}

// Bytes of the header that these begin, by its version; 0: they are none.
static size_t header_of(const uint8_t bytes[PLAIN_BYTES])
{
    static const uint8_t zeros[7] = {0};
    struct base_reader reader;
    uint8_t word[sizeof(magic)];
    uint8_t rest[sizeof(zeros)];
    base_reader_init(&reader, bytes, PLAIN_BYTES);
    base_reader_copy(&reader, word, sizeof(word));
    uint8_t version = base_reader_u8(&reader);
    base_reader_copy(&reader, rest, sizeof(rest));
    if (base_reader_finish(&reader) != BASE_OK || memcmp(word, magic, sizeof(magic)) != 0 ||
        memcmp(rest, zeros, sizeof(zeros)) != 0) {
        return 0;
    }
    return version == SIM_CREDENTIALS_VERSION ? SIM_CREDENTIALS_HEADER_BYTES
           : version == VERSION_PLAIN         ? PLAIN_BYTES
                                              : 0;
}

static bool write_header(int fd)
{
    uint8_t bytes[SIM_CREDENTIALS_HEADER_BYTES] = {0};
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_bytes(&writer, magic, sizeof(magic));
    base_writer_u8(&writer, SIM_CREDENTIALS_VERSION);
    base_writer_init(&writer, bytes + PLAIN_BYTES, SIM_CREDENTIALS_SECRET_BYTES);
    for (size_t i = 0; i < SIM_CREDENTIALS_SECRET_BYTES; i += SECRET_DRAW_BYTES) {
        base_writer_u64(&writer, base_entropy_u64());
    }
    return pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes);
}

// A file that somebody else made is looked at before anything is written to it.
static enum base_status check_file(int fd, const char *path, uint64_t size, size_t *out_header,
                                   struct base_error *error)
{
    uint8_t header[PLAIN_BYTES];
    if (size == 0) {
        *out_header = SIM_CREDENTIALS_HEADER_BYTES;
        return write_header(fd) ? BASE_OK : failed(error, path, errno);
    }
    bool read = pread(fd, header, sizeof(header), 0) == (ssize_t)sizeof(header);
    size_t bytes = read ? header_of(header) : 0;
    if (bytes == 0 || size < bytes || (size - bytes) % SIM_CREDENTIAL_RECORD_BYTES != 0) {
        return base_error_set(error, BASE_ERR_CORRUPT,
                              "%.100s: not credentials of a virtual fleet (version %d)", path,
                              SIM_CREDENTIALS_VERSION);
    }
    *out_header = bytes;
    return BASE_OK;
}

// Room for every record, allocated: a write to the map must not find the disk full.
static enum base_status map_file(struct sim_credentials *credentials, const char *path,
                                 struct base_error *error)
{
    struct stat about;
    if (fstat(credentials->fd, &about) != 0) {
        return failed(error, path, errno);
    }
    BASE_TRY(check_file(credentials->fd, path, (uint64_t)about.st_size, &credentials->header_bytes,
                        error));
    size_t bytes =
        credentials->header_bytes + (size_t)credentials->devices * SIM_CREDENTIAL_RECORD_BYTES;
    int number =
        (uint64_t)about.st_size < bytes ? posix_fallocate(credentials->fd, 0, (off_t)bytes) : 0;
    if (number != 0) {
        return failed(error, path, number);
    }
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, credentials->fd, 0);
    if (map == MAP_FAILED) {
        return failed(error, path, errno);
    }
    credentials->map = map;
    credentials->map_bytes = bytes;
    return BASE_OK;
}

enum base_status sim_credentials_open(const char *path, uint32_t devices,
                                      struct sim_credentials **out, struct base_error *error)
{
    struct sim_credentials *credentials = calloc(1, sizeof(*credentials));
    if (credentials == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    credentials->devices = devices;
    credentials->fd = -1;
    enum base_status status = base_regular_open(path, O_RDWR | O_CREAT, &credentials->fd, error);
    if (status != BASE_OK) {
        // said
    } else if (flock(credentials->fd, LOCK_EX | LOCK_NB) != 0) {
        status = base_error_set(error, BASE_ERR_BUSY, "%.100s: another run has it", path);
    } else {
        status = map_file(credentials, path, error);
    }
    if (status != BASE_OK) {
        sim_credentials_close(credentials);
        return status;
    }
    *out = credentials;
    return BASE_OK;
}

enum base_status sim_credentials_in_memory(uint32_t devices, uint64_t seed,
                                           struct sim_credentials **out, struct base_error *error)
{
    struct sim_credentials *credentials = calloc(1, sizeof(*credentials));
    size_t bytes = SIM_CREDENTIALS_HEADER_BYTES + (size_t)devices * SIM_CREDENTIAL_RECORD_BYTES;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (credentials == NULL || map == MAP_FAILED) {
        free(credentials);
        if (map != MAP_FAILED) {
            (void)munmap(map, bytes);
        }
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    *credentials = (struct sim_credentials){.fd = -1,
                                            .map = map,
                                            .map_bytes = bytes,
                                            .header_bytes = SIM_CREDENTIALS_HEADER_BYTES,
                                            .devices = devices};
    struct base_prng prng;
    struct base_writer writer;
    base_prng_seed(&prng, seed);
    base_writer_init(&writer, credentials->map + PLAIN_BYTES, SIM_CREDENTIALS_SECRET_BYTES);
    for (size_t i = 0; i < SIM_CREDENTIALS_SECRET_BYTES; i += SECRET_DRAW_BYTES) {
        base_writer_u64(&writer, base_prng_next(&prng));
    }
    *out = credentials;
    return BASE_OK;
}

void sim_credentials_close(struct sim_credentials *credentials)
{
    if (credentials == NULL) {
        return;
    }
    if (credentials->map != NULL) {
        (void)munmap(credentials->map, credentials->map_bytes);
    }
    if (credentials->fd >= 0) {
        (void)close(credentials->fd);
    }
    free(credentials);
}

static uint8_t *record_of(const struct sim_credentials *credentials, uint32_t device)
{
    return device < credentials->devices ? credentials->map + credentials->header_bytes +
                                               (size_t)device * SIM_CREDENTIAL_RECORD_BYTES
                                         : NULL;
}

const uint8_t *sim_credentials_secret(const struct sim_credentials *credentials)
{
    return credentials->header_bytes == PLAIN_BYTES ? NULL : credentials->map + PLAIN_BYTES;
}

uint64_t sim_credentials_owner(const struct sim_credentials *credentials, uint32_t device)
{
    const uint8_t *record = record_of(credentials, device);
    struct base_reader reader;
    base_reader_init(&reader, record, record != NULL ? SIM_CREDENTIAL_RECORD_BYTES : 0);
    (void)base_reader_bytes(&reader, WIRE_CREDENTIAL_MAX);
    return base_reader_u64(&reader);
}

struct base_str sim_credentials_get(const struct sim_credentials *credentials, uint32_t device,
                                    uint64_t id)
{
    struct base_str none = {NULL, 0};
    const uint8_t *record = record_of(credentials, device);
    if (record == NULL || id == 0 || sim_credentials_owner(credentials, device) != id) {
        return none;
    }
    struct base_str text = {(const char *)record, 0};
    while (text.size < WIRE_CREDENTIAL_MAX && record[text.size] != 0) {
        text.size++;
    }
    for (size_t i = text.size; i < WIRE_CREDENTIAL_MAX; i++) {
        if (record[i] != 0) {
            return none;
        }
    }
    return wire_credential_ok(text) ? text : none;
}

void sim_credentials_drop(struct sim_credentials *credentials, uint32_t device)
{
    uint8_t *record = record_of(credentials, device);
    if (record != NULL) {
        memset(record, 0, SIM_CREDENTIAL_RECORD_BYTES);
    }
}

enum base_status sim_credentials_put(struct sim_credentials *credentials, uint32_t device,
                                     uint64_t id, struct base_str text)
{
    uint8_t *record = record_of(credentials, device);
    uint64_t owner = sim_credentials_owner(credentials, device);
    if (record == NULL || id == 0 || !wire_credential_ok(text)) {
        return BASE_ERR_INVALID;
    }
    if (owner != 0 && owner != id) {
        return BASE_ERR_CONFLICT;
    }
    uint8_t bytes[SIM_CREDENTIAL_RECORD_BYTES] = {0};
    memcpy(bytes, text.data, text.size);
    struct base_writer writer;
    base_writer_init(&writer, bytes + WIRE_CREDENTIAL_MAX, sizeof(uint64_t));
    base_writer_u64(&writer, id);
    memset(record + WIRE_CREDENTIAL_MAX, 0, sizeof(uint64_t));
    atomic_signal_fence(memory_order_seq_cst); // what a kill leaves is a prefix of these writes
    memcpy(record, bytes, WIRE_CREDENTIAL_MAX);
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(record + WIRE_CREDENTIAL_MAX, bytes + WIRE_CREDENTIAL_MAX, sizeof(uint64_t));
    return BASE_OK;
}
