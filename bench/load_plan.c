// Encodes the requests of a load run with nghttp2's HPACK encoder: what a real client would send,
// without its dynamic table.
#include "load_plan.h"

#include "base/buffer.h"
#include "base/alloc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX         4096u
#define BLOCK_BYTES_MAX   16384u
#define REQUEST_BYTES_MAX (UINT64_C(3) << 30)

// The lines of a file that are not empty.
struct lines {
    char *text;
    struct base_str lines[LINES_MAX];
    uint32_t count;
};

static enum base_status read_lines(const char *path, struct lines *out, struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    if (path == NULL) {
        return BASE_OK;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%s cannot be opened", path);
    }
    const size_t room = LINES_MAX * 1024u;
    out->text = malloc(room);
    size_t size = out->text != NULL ? fread(out->text, 1, room, file) : 0;
    (void)fclose(file);
    if (out->text == NULL || size == room) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s is too large", path);
    }
    size_t at = 0;
    while (at < size && out->count < LINES_MAX) {
        const char *end = memchr(out->text + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - out->text) - at : size - at;
        if (length > 0) {
            out->lines[out->count++] = (struct base_str){out->text + at, length};
        }
        at += length + 1;
    }
    return out->count > 0 ? BASE_OK
                          : base_error_set(error, BASE_ERR_INVALID, "%s holds no line", path);
}

static nghttp2_nv field(const char *name, struct base_str value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.data, strlen(name),
                        value.size, NGHTTP2_NV_FLAG_NONE};
}

static ssize_t encode(const struct load_plan *plan, nghttp2_hd_deflater *deflater,
                      const struct lines *profiles, const struct lines *credentials, uint64_t index,
                      uint8_t *out)
{
    char device[17];
    (void)snprintf(device, sizeof(device), "%016llx",
                   (unsigned long long)(plan->first_device + index));
    struct base_str id = {device, 16};
    struct base_str credential = {NULL, 0};
    if (credentials->count > 0) { // sixteen digits, a blank, the credential
        struct base_str line = credentials->lines[index % credentials->count];
        id = (struct base_str){line.data, 16};
        credential = (struct base_str){line.data + 17, line.size - 17};
    }
    nghttp2_nv fields[7];
    size_t count = 0;
    fields[count++] = field(":method", base_str_of(plan->method));
    fields[count++] = field(":scheme", plan->tls ? BASE_STR("https") : BASE_STR("http"));
    fields[count++] = field(":authority", base_str_of(plan->authority));
    fields[count++] = field(":path", base_str_of(plan->path));
    if (plan->devices > 0 || credentials->count > 0) {
        fields[count++] = field("walle-device", id);
    }
    if (credential.size > 0) {
        fields[count++] = field("walle-credential", credential);
    }
    if (profiles->count > 0) {
        fields[count++] = field("walle-profile", profiles->lines[index % profiles->count]);
    }
    return nghttp2_hd_deflate_hd(deflater, out, BLOCK_BYTES_MAX, fields, count);
}

static enum base_status encode_all(const struct load_plan *plan, const struct lines *profiles,
                                   const struct lines *credentials, struct load_requests *out,
                                   struct base_error *error)
{
    nghttp2_hd_deflater *deflater = NULL;
    struct base_buffer buffer;
    base_buffer_init(&buffer, base_alloc_heap(), REQUEST_BYTES_MAX);
    uint8_t *block = malloc(BLOCK_BYTES_MAX);
    // One request on a connection may use the peer's table, as clients do; in a longer run each
    // block must stand alone.
    size_t table_bytes = plan->mode == LOAD_IDLE ? NGHTTP2_DEFAULT_HEADER_TABLE_SIZE : 0;
    bool ok = block != NULL && nghttp2_hd_deflate_new(&deflater, table_bytes) == 0;
    for (uint32_t i = 0; ok && i < out->count; i++) {
        ssize_t size = encode(plan, deflater, profiles, credentials, i, block);
        // The encoder's first block announces the table size; none of the others may.
        size_t skip = i == 0 && size > 0 && (block[0] & 0xe0) == 0x20 ? 1 : 0;
        out->offsets[i] = (uint32_t)buffer.size;
        ok = size > 0 && buffer.size < UINT32_MAX - BLOCK_BYTES_MAX &&
             base_buffer_add(&buffer, block + skip, (size_t)size - skip) == BASE_OK;
    }
    free(block);
    if (deflater != NULL) {
        nghttp2_hd_deflate_del(deflater);
    }
    out->offsets[out->count] = (uint32_t)buffer.size;
    size_t size = 0;
    out->bytes = base_buffer_steal(&buffer, &size);
    base_buffer_done(&buffer);
    return ok ? BASE_OK : base_error_set(error, BASE_ERR_NOMEM, "no memory for the requests");
}

static uint32_t count_requests(const struct load_plan *plan, const struct lines *credentials)
{
    if (plan->mode == LOAD_IDLE) {
        return 1;
    }
    if (credentials->count > 0) {
        return credentials->count;
    }
    uint64_t devices = plan->devices < LOAD_REQUESTS_MAX ? plan->devices : LOAD_REQUESTS_MAX;
    return devices > 0 ? (uint32_t)devices : 1;
}

static enum base_status check_credentials(const struct lines *credentials, struct base_error *error)
{
    for (uint32_t i = 0; i < credentials->count; i++) {
        if (credentials->lines[i].size < 18 || credentials->lines[i].data[16] != ' ') {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "line %u of the credentials is not `DEVICE CREDENTIAL`", i + 1);
        }
    }
    return BASE_OK;
}

enum base_status load_requests_make(const struct load_plan *plan, struct load_requests *out,
                                    struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    struct lines *files = calloc(2, sizeof(*files)); // profiles, credentials
    if (files == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the requests");
    }
    enum base_status status = read_lines(plan->profiles_path, &files[0], error);
    if (status == BASE_OK) {
        status = read_lines(plan->credentials_path, &files[1], error);
    }
    if (status == BASE_OK) {
        status = check_credentials(&files[1], error);
    }
    if (status == BASE_OK) {
        out->count = count_requests(plan, &files[1]);
        out->offsets = calloc(out->count + 1, sizeof(*out->offsets));
        status = out->offsets != NULL
                     ? encode_all(plan, &files[0], &files[1], out, error)
                     : base_error_set(error, BASE_ERR_NOMEM, "no memory for the requests");
    }
    free(files[0].text);
    free(files[1].text);
    free(files);
    if (status != BASE_OK) {
        load_requests_done(out);
    }
    return status;
}

void load_requests_done(struct load_requests *requests)
{
    free(requests->bytes);
    free(requests->offsets);
    memset(requests, 0, sizeof(*requests));
}
