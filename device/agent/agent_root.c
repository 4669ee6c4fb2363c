// See agent_root.h. Called while the agent reads its arguments, and before its runtime starts.
#include "agent_root.h"

#include "base/output_file.h"
#include "base/regular_file.h"
#include "device/port.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAME      "root.born"
#define DIR_MODE  0700
#define TEXT_MAX  (24u + 2u * WIRE_SHA256_BYTES) // a version, a blank, a hash, the end of the line
#define SHORT_HEX 16                             // characters of a hash that are shown

enum base_status agent_root_read(const char *path, uint8_t out[WIRE_META_BYTES_MAX],
                                 size_t *out_size, struct base_error *error)
{
    struct wire_envelope envelope;
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error));
    size_t size = fread(out, 1, WIRE_META_BYTES_MAX, file);
    (void)fclose(file);
    if (wire_envelope_parse(out, size, &envelope) != BASE_OK ||
        envelope.type != WIRE_ENVELOPE_TYPE_ROOT) {
        return base_error_set(error, BASE_ERR_INVALID, "%.200s does not hold a root", path);
    }
    *out_size = size;
    return BASE_OK;
}

// "VERSION SHA256" and the end of the line; false: these bytes are no root.
static bool describe(const uint8_t *bytes, size_t size, uint64_t *out_version, char out[TEXT_MAX])
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct wire_envelope envelope;
    struct wire_root root;
    struct wire_sha256 digest;
    struct dev_hash_state state;
    char hex[WIRE_SHA256_HEX + 1];
    if (wire_envelope_parse(bytes, size, &envelope) != BASE_OK ||
        wire_root_parse(envelope.payload, envelope.payload_bytes, &root) != BASE_OK) {
        return false;
    }
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    wire_sha256_hex(&digest, hex);
    hex[WIRE_SHA256_HEX] = '\0';
    *out_version = root.version;
    (void)snprintf(out, TEXT_MAX, "%llu %s\n", (unsigned long long)root.version, hex);
    return true;
}

// What the folder remembers; empty: nothing yet.
static enum base_status recall(const char *path, char out[TEXT_MAX], struct base_error *error)
{
    FILE *file = NULL;
    enum base_status status = base_regular_stream(path, &file, error);
    out[0] = '\0';
    if (status == BASE_OK) {
        out[fread(out, 1, TEXT_MAX - 1, file)] = '\0';
        (void)fclose(file);
    }
    return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

static const char *hash_in(const char *text)
{
    const char *blank = strchr(text, ' ');
    return blank != NULL ? blank + 1 : text;
}

static enum base_status keep(const char *dir, const struct dev_config *config,
                             const struct base_log *log, struct base_error *error)
{
    char path[PATH_MAX];
    char now[TEXT_MAX];
    char before[TEXT_MAX];
    uint64_t version = 0;
    int length = snprintf(path, sizeof(path), "%s/" NAME, dir);
    if (length < 0 || (size_t)length >= sizeof(path) ||
        !describe(config->root, config->root_bytes, &version, now)) {
        return base_error_set(error, BASE_ERR_INVALID, "--root: no root, or --dir is too long");
    }
    BASE_TRY(recall(path, before, error));
    size_t same = (size_t)(hash_in(now) - now); // the version and the blank
    bool first = before[0] == '\0';
    bool changed = !first && strcmp(before, now) != 0;
    if (changed && strncmp(before, now, same) == 0) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "--root is another root %llu (%.16s) than the one this device was "
                              "born with (%.16s): of another gateway? It takes that one, or a "
                              "--dir of its own",
                              (unsigned long long)version, hash_in(now), hash_in(before));
    }
    if (changed) {
        base_log_warn(log, "device", "the root of --root changed: %llu (%.*s), and was %.*s (%.*s)",
                      (unsigned long long)version, SHORT_HEX, hash_in(now),
                      (int)strcspn(before, " "), before, SHORT_HEX, hash_in(before));
    } else {
        base_log_info(log, "device", "born with root %llu (%.*s)", (unsigned long long)version,
                      SHORT_HEX, hash_in(now));
    }
    if (mkdir(dir, DIR_MODE) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", dir, strerror(errno));
    }
    return first || changed ? base_output_write(path, now, strlen(now), error) : BASE_OK;
}

bool agent_root_keep(const struct posix_options *options, const struct base_log *log)
{
    struct base_error error = {0};
    if (options->config.root == NULL ||
        keep(options->dir, &options->config, log, &error) == BASE_OK) {
        return true;
    }
    base_log_error(log, "device", "%s", error.text);
    return false;
}
